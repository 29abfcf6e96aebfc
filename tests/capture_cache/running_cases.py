"""python running_cases.py first|second: runs the cases of kept_cases.py and own_process_cases.py and prints as JSON what became of each."""

from __future__ import annotations

import json
import sys
import types

import kept_cases
import own_process_cases
import torch
from torch import nn

import pellucid


def module(case: kept_cases.Case, second: bool) -> types.ModuleType:
    name = f"kept_case_{case.name}"
    text = case.second if second and case.second is not None else case.first
    made = sys.modules[name] = types.ModuleType(name)
    exec(compile(kept_cases.HEAD, "<head>", "exec"), made.__dict__)
    exec(compile(text, f"{name}.py", "exec"), made.__dict__)
    return made


def parts(value: object) -> object:
    """Something that == compares: tensors bit for bit, with what autograd knows of them."""
    if isinstance(value, torch.Tensor):
        gradient = None if not value.is_leaf or value.grad is None else parts(value.grad)
        facts = (type(value).__name__, value.dtype, value.stride(), value.requires_grad, value.is_leaf)
        return (*map(str, facts), value.detach().as_subclass(torch.Tensor).tolist(), gradient)
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(parts, value)]
    if isinstance(value, dict):
        return [type(value).__name__, *((key, parts(item)) for key, item in value.items())]
    if isinstance(value, nn.Module):
        return [type(value).__name__, [parts(item) for item in value.parameters()], getattr(value, "count", None)]
    return repr(value) if not hasattr(value, "__dict__") else [type(value).__name__, parts(vars(value))]


def run(function: object, arguments: tuple, compiled: bool) -> object:
    called = pellucid.compile(function, backend="eager") if compiled else function
    torch.manual_seed(3)
    result = called(*arguments)
    if isinstance(result, torch.Tensor) and result.requires_grad and result.dim() == 0:
        result.backward()
    return parts([result, list(arguments), function if isinstance(function, nn.Module) else None])


def main(which: str) -> None:
    second = which == "second"
    found = {}
    # Those that change the process come last.
    for case in sorted([*kept_cases.CASES, *own_process_cases.CASES], key=lambda case: case.around[1] != ""):
        made = module(case, second)
        before = dict(vars(torch)), dict(vars(torch.nn.functional)), torch.get_default_dtype()
        exec(case.around[second], made.__dict__)
        expected = run(*made.make(), compiled=False)
        seen, captures = len(pellucid.capture_cache_report()), pellucid.counters().get("captures", 0)
        got = run(*made.make(), compiled=True)
        records = pellucid.capture_cache_report()[seen:]
        found[case.name] = {
            "outcomes": [record.outcome for record in records],
            "reasons": [record.reason for record in records],
            "captures": pellucid.counters().get("captures", 0) - captures,
            "is_as_eager": got == expected,
        }
        for hook in getattr(made, "HOOKS", ()):
            hook.remove()
        if hasattr(made, "MODE"):
            made.MODE.__exit__(None, None, None)
        _put_back(*before)
    print(json.dumps(found))


_SIGMOID = torch.Tensor.sigmoid
_OTHER = {"sqrt": __import__("math").sqrt, "super": super}


def _put_back(of_torch: dict, of_functional: dict, dtype: torch.dtype) -> None:
    import builtins
    import math

    vars(torch).update(of_torch)
    vars(torch.nn.functional).update(of_functional)
    torch.Tensor.sigmoid = _SIGMOID
    math.sqrt, builtins.super = _OTHER["sqrt"], _OTHER["super"]
    torch.set_default_device(None)
    torch.set_default_dtype(dtype)
    torch.use_deterministic_algorithms(False)
    torch.set_grad_enabled(True)
    pellucid.config.automatic_dynamic_shapes = True
    pellucid.reset()


if __name__ == "__main__":
    main(sys.argv[1])
