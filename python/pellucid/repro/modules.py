"""Modules of torch.nn as the text of a call that makes one like it."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from pellucid.repro.errors import ReproRefused

_CONTAINERS = (nn.Sequential, nn.ModuleList)


def constructor(module: nn.Module, path: str) -> str:
    """The call that makes a module with the same structure; parameters and buffers are data of the script.

    Args:
        module: of torch.nn.
        path: where the graph has it, for the message.

    Raises:
        ReproRefused: it is of another type, or holds what its constructor does not take.

    Example:
        >>> constructor(torch.nn.Dropout(0.25).eval(), "drop")
        'torch.nn.Dropout(p=0.25, inplace=False).eval()'
    """
    text = _call(module, path)
    made = eval(text, {"torch": torch})
    if _facts(made) != _facts(module):
        raise ReproRefused(
            f"self.{path} is a {_name(module)}, but {text} makes another one: {_facts(made)}, not {_facts(module)}"
        )
    return text


def _call(module: nn.Module, path: str) -> str:
    if type(module) in _CONTAINERS:
        inner = [_call(child, f"{path}.{name}") for name, child in module.named_children()]
        text = (
            f"{_name(module)}({', '.join(inner)})"
            if type(module) is nn.Sequential
            else f"{_name(module)}([{', '.join(inner)}])"
        )
        return text if module.training else f"{text}.eval()"
    if getattr(nn, type(module).__name__, None) is not type(module):
        raise ReproRefused(
            f"self.{path} is a {type(module).__module__}.{type(module).__qualname__}: a script can make modules of "
            "torch.nn only. Compile the model without keeping this module whole, or write its constructor by hand"
        )
    arguments = [f"{name}={_literal(value, path)}" for name, value in _arguments(module)]
    text = f"{_name(module)}({', '.join(arguments)})"
    return text if module.training else f"{text}.eval()"


def _name(module: nn.Module) -> str:
    return f"torch.nn.{type(module).__name__}"


def _arguments(module: nn.Module) -> list[tuple[str, Any]]:
    """What the constructor takes and the module still knows. Of a parameter it takes whether there is one, and its dtype and device."""
    found: list[tuple[str, Any]] = []
    for name, parameter in inspect.signature(type(module).__init__).parameters.items():
        if name in ("device", "dtype"):
            tensor = next((t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()), None)
            value = getattr(tensor, name, None)
            if value not in (None, torch.float32, torch.device("cpu")):
                found.append((name, value))
            continue
        value = getattr(module, name, inspect.Parameter.empty)
        if isinstance(value, torch.Tensor) or (value is None and name in module._parameters):
            value = value is not None
        if value is not inspect.Parameter.empty and name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
            found.append((name, value))
    return found


def _literal(value: Any, path: str) -> str:
    if isinstance(value, torch.device):
        return repr(str(value))
    if isinstance(value, (tuple, list)):
        inner = ", ".join(_literal(each, path) for each in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)" if len(value) == 1 else f"({inner})"
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
        return repr(value)
    raise ReproRefused(f"self.{path} was made with a {type(value).__qualname__}, which has no form as text")


def _facts(module: nn.Module) -> Any:
    state = [(name, tuple(value.shape), value.dtype) for name, value in module.state_dict().items()]
    return repr(module), module.training, state
