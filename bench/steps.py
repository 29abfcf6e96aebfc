"""Speed of symbolic execution: does its cost per step stay the same as programs grow?

PYTHONPATH=python python bench/steps.py [--rounds 3] [--out bench/out/steps.json]

Three series, each the CPU time of one capture with the backend "eager", the best of the rounds:
  bytecodes   a loop of plain Python of 10,000, 100,000 and 1,000,000 executed instructions: nanoseconds per instruction
  graph ops   a chain of 1,000, 10,000 and 100,000 tensor operations: microseconds per operation
  depth       calls nested 10, 100 and 500 deep around one operation: microseconds per level
Ends with an error when the last of a series costs more than --most times what the cheapest does.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import pellucid
from pellucid import _core


def bytecodes(size: int) -> tuple[Callable, float]:
    def f(x):
        total = 0
        for i in range(size // 10):
            total = (total * 3 + i) % 7
        return x + total

    return f, 0


def graph_ops(size: int) -> tuple[Callable, float]:
    def f(x):
        for _ in range(size):
            x = x + 1
        return x

    return f, size


def depth(size: int) -> tuple[Callable, float]:
    def level(x, n):
        return x + 1 if n == 0 else level(x, n - 1)

    def f(x):
        return level(x, size)

    return f, size


SERIES = {
    "bytecodes": (bytecodes, (10_000, 100_000, 1_000_000), "ns per instruction", 1e9),
    "graph ops": (graph_ops, (1_000, 10_000, 100_000), "us per operation", 1e6),
    "depth": (depth, (10, 100, 500), "us per level", 1e6),
}


def instructions() -> int:
    """Of the capture that has just been."""
    return int(max((event["numbers"].get("instructions", 0) for event in _core.events()), default=0))


def capture(make: Callable, size: int, rounds: int) -> float:
    """Seconds per unit."""
    best = float("inf")
    for _ in range(rounds):
        function, units = make(size)
        pellucid.reset()
        _core.clear_events()
        compiled = pellucid.compile(function, backend="eager", fullgraph=True)
        x = torch.ones(4)
        gc.collect()
        gc.disable()
        start = time.process_time()
        compiled(x)
        took = time.process_time() - start
        gc.enable()
        best = min(best, took / (units or instructions()))
    return best


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=float, default=2.0, help="how much dearer the largest may be")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 2000))
    result, bad = {}, []
    capture(bytecodes, 1000, 1)
    for name, (make, sizes, unit, scale) in SERIES.items():
        costs = {size: capture(make, size, options.rounds) * scale for size in sizes}
        result[name] = {"unit": unit, "costs": costs}
        print(f"{name:10}  {unit:20}  " + "  ".join(f"{size:>9,}: {cost:8.2f}" for size, cost in costs.items()))
        if costs[sizes[-1]] > options.most * min(costs.values()):
            bad.append(name)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1))
    if bad:
        print("more than linear:", ", ".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
