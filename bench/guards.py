"""Nanoseconds per guard step, warm and cold, for 300 modules as a transformer has them.

Per module: its type, `training`, eight empty hook dicts, one parameter. `python bench/guards.py [--json]`
"""

import argparse
import json
import statistics
import time

import torch

from pellucid._core import _guards

HOOKS = (
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_non_full_backward_hooks",
)
MODULES, CALLS, ROUNDS = 300, 100, 40


def model_and_program():
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(MODULES)))
    for module in model:
        module._non_full_backward_hooks = {}
    table, rows = _guards.Table(), []

    def add(kind, source, operand=None, number=0):
        rows.append((kind, source, operand, number, None, None, -1, ""))

    root = table.local(0, "self")
    add("TYPE_MATCH", root, type(model))
    children = table.instance_attr(root, "_modules")
    linear = table.constant(torch.nn.Linear)
    for name in ("forward", "__call__", "training"):
        found = getattr(torch.nn.Linear, name, None)
        add("TYPE_LOOKUP", linear, (name, found) if found else (name,))
    for name, module in model._modules.items():
        source = table.dict_item(children, name)
        add("TYPE_MATCH", source, type(module))
        add("EQUALS_MATCH", table.instance_attr(source, "training"), True)
        for hooks in HOOKS:
            at = table.instance_attr(source, hooks)
            add("TYPE_MATCH", at, type(getattr(module, hooks)))
            add("LENGTH", at, None, 0)
        add("TENSOR_MATCH", table.dict_item(table.instance_attr(source, "_parameters"), "weight"), module.weight)
    add("DISTINCT", None, tuple(row[1] for row in rows if row[0] == "TENSOR_MATCH"))
    start = time.perf_counter()
    program = _guards.Program(table, rows)
    return model, program, time.perf_counter() - start


def measure(program, model):
    warm = [program.time((model,), None, CALLS) for _ in range(ROUNDS)]
    traffic, cold = torch.zeros(16 * 2**20), []
    for _ in range(ROUNDS):
        traffic.add_(1)  # 64 MB through the caches
        cold.append(program.time((model,), None, 1))
    return warm, cold


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true")
    as_json = arguments.parse_args().json
    model, program, build = model_and_program()
    warm_runs, cold_runs = measure(program, model)
    warm, cold = min(warm_runs), min(cold_runs)  # other processes only add to it
    result = {
        "guards": len(program),
        "build_us": round(build * 1e6),
        "hot_steps": program.hot_size(),
        "warm_ns": round(warm),
        "warm_ns_median": round(statistics.median(warm_runs)),
        "cold_ns": round(cold),
        "cold_ns_median": round(statistics.median(cold_runs)),
        "warm_ns_per_guard": round(warm / len(program), 2),
        "warm_ns_per_hot_step": round(warm / program.hot_size(), 2),
        "cold_ns_per_guard": round(cold / len(program), 2),
        "guards_per_kind": program.guards_per_kind(),
    }
    if as_json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        print(f"{key:22} {value}")


if __name__ == "__main__":
    main()
