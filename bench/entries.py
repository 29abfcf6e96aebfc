"""Nanoseconds of a call of a function with many entries, each call by turns fitting another one; the graphs cost nothing.

PYTHONPATH=python python bench/entries.py            # 1, 2, 4, 8, 16 and 64 entries
PYTHONPATH=python python bench/entries.py --rounds 3
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

import pellucid

COUNTS = (1, 2, 4, 8, 16, 64)
RESULT = (torch.zeros(()),)


def backend(gm, inputs):
    return lambda *arguments: RESULT


class Holder:
    def __init__(self, k: int) -> None:
        self.k = k


def programs(count: int) -> dict[str, tuple[Callable, list[tuple]]]:
    """By what differs: the function, and the arguments of the calls."""
    x = torch.ones(4, 4)
    net = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(4)])
    return {
        "a size": (lambda x: x + 1, [(torch.ones(i + 2),) for i in range(count)]),
        "a number": (lambda x, k: x + k, [(x, k) for k in range(count)]),
        "an attribute": (lambda x, holder: x + holder.k, [(x, Holder(k)) for k in range(count)]),
        "a text, beside a module": (
            lambda net, x, text: net(x) + len(text),
            [(net, x, "w" * k) for k in range(count)],
        ),
    }


def nanoseconds(function: Callable, calls: list[tuple], rounds: int) -> float:
    compiled = pellucid.compile(function, backend=backend, dynamic=False)
    for _ in range(3):
        for arguments in calls:
            compiled(*arguments)
    best = float("inf")
    repeats = max(1, 10000 // len(calls))
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(repeats):
            for arguments in calls:
                compiled(*arguments)
        best = min(best, (time.perf_counter_ns() - start) / (repeats * len(calls)))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="the quickest counts")
    rounds = parser.parse_args().rounds
    pellucid.config.recompile_limit = max(COUNTS)  # type: ignore[attr-defined]
    names = list(programs(1))
    print(f"{'entries':>7}", *(f"{name:>24}" for name in names))
    for count in COUNTS:
        times = [nanoseconds(*program, rounds) for program in programs(count).values()]
        print(f"{count:>7}", *(f"{value:>24.0f}" for value in times), flush=True)


if __name__ == "__main__":
    main()
