"""Captures with all sizes open beside static ones: instructions of pellucid's, and CPU time beside torch._dynamo's.

PYTHONPATH=python python bench/open_sizes.py [--models gpt2 cnn] [--no-instructions] [--rounds 3]

`open / static` are instructions of one capture with dynamic=True and dynamic=False under callgrind, as bench/budget.py
counts them: with stub graphs, the second capture of the process. `dynamo / ours` are CPU times of one capture with
dynamic=True, medians of some rounds by turns, with stub graphs too. Ours come as the backend "eager" gets them; with
--symbols as others do, with a ShapeEnv of torch's, whose time is in both then.
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


def seconds(compile: Callable, reset: Callable, model: Callable, args: tuple, stub: Callable) -> float:
    reset()
    compiled = compile(model, backend=stub, dynamic=True)
    start = time.process_time()
    with torch.no_grad():
        compiled(*args)
    return time.process_time() - start


def ratio_to_dynamo(name: str, rounds: int, symbols: bool) -> float:
    model, args = made(name)
    ours, theirs = [], []
    our_results, their_results = [], []
    for _ in range(rounds + 1):
        stub = budget.Backend(our_results) if symbols else _stub(our_results)
        ours.append(seconds(pellucid.compile, pellucid.reset, model, args, stub))
        theirs.append(seconds(torch.compile, torch._dynamo.reset, model, args, budget.Backend(their_results)))
    return median(theirs[1:]) / median(ours[1:])  # the first ones import what they need, and run the graphs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--symbols", action="store_true", help="CPU times with graphs over torch's symbols")
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
        ratios.append(ratio_to_dynamo(name, options.rounds, options.symbols))
        more = f"{opened / static:.2f}" if static else ""
        print(f"{name:10}{static:>14,}{opened:>14,}{more:>15}{ratios[-1]:>15.1f}", flush=True)
    print(f"geometric mean{math.prod(ratios) ** (1 / len(ratios)):>54.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
