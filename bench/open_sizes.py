"""Captures with all sizes open beside static ones: instructions of pellucid's, and CPU time beside torch._dynamo's.

PYTHONPATH=python python bench/open_sizes.py [--models gpt2 cnn] [--no-instructions] [--rounds 3]

`open / static` are instructions of one capture with dynamic=True and dynamic=False under callgrind, as bench/budget.py
counts them: with stub graphs, the second capture of the process. `dynamo / ours` are CPU times of one capture with
dynamic=True, medians of some rounds by turns. With another backend than "eager" its own time is in them, and that of
torch's symbols, which both make for it.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import budget
import torch
from run import MODELS

import pellucid

WAYS = {"static": False, "open": True}


def made(name: str) -> tuple[Callable, tuple]:
    torch.manual_seed(0)
    model, args = MODELS[name]()
    return (model.eval() if isinstance(model, torch.nn.Module) else model), args


# ---- instructions


def measured_process(names: list[str], library: str) -> None:
    torch.set_num_threads(1)
    for name in names:
        child = os.fork()  # no model sees what another one leaves behind
        if child == 0:
            with torch.no_grad():
                _count(name, library)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            raise RuntimeError(f"{name} could not be measured")


def _count(name: str, library: str) -> None:
    model, args = made(name)
    results: dict[str, list] = {way: [] for way in WAYS}
    for way, dynamic in WAYS.items():
        pellucid.reset()
        pellucid.compile(model, backend=_stub(results[way]), dynamic=dynamic)(*args)
    meter = budget.Meter(library)
    for way, dynamic in WAYS.items():
        pellucid.reset()
        compiled = pellucid.compile(model, backend=_stub(results[way]), dynamic=dynamic)
        with meter.counted(f"{name}/{way}"):
            compiled(*args)


def _stub(results: list) -> Callable:
    backend = budget.Backend(results)
    backend.takes_numbers = True  # type: ignore[attr-defined]
    return backend


def instructions(names: list[str]) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as temporary:
        return budget.run_in_valgrind([__file__, "--models", *names], Path(temporary))


# ---- beside torch._dynamo


def seconds(compile: Callable, reset: Callable, model: Callable, args: tuple, backend: str) -> float:
    reset()
    compiled = compile(model, backend=backend, dynamic=True)
    start = time.process_time()
    with torch.no_grad():
        compiled(*args)
    return time.process_time() - start


def ratio_to_dynamo(name: str, rounds: int, backend: str) -> float:
    model, args = made(name)
    pairs = []
    for _ in range(rounds + 1):  # the first ones import what they need
        ours = seconds(pellucid.compile, pellucid.reset, model, args, backend)
        pairs.append((ours, seconds(torch.compile, torch._dynamo.reset, model, args, backend)))
    ours, theirs = zip(*pairs[1:])
    return median(theirs) / median(ours)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--backend", default="eager", help="of the CPU times (default: eager)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-instructions", action="store_true")
    parser.add_argument("--in-valgrind", metavar="LIBRARY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_valgrind:
        measured_process(options.models, options.in_valgrind)
        return 0
    counts = {} if options.no_instructions else instructions(options.models)
    print(f"{'':10}{'static':>14}{'open':>14}{'open / static':>15}{'dynamo / ours':>15}")
    ratios = []
    for name in options.models:
        static, opened = counts.get(f"{name}/static", 0), counts.get(f"{name}/open", 0)
        ratios.append(ratio_to_dynamo(name, options.rounds, options.backend))
        more = f"{opened / static:.2f}" if static else ""
        print(f"{name:10}{static:>14,}{opened:>14,}{more:>15}{ratios[-1]:>15.1f}", flush=True)
    print(f"geometric mean{math.prod(ratios) ** (1 / len(ratios)):>54.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
