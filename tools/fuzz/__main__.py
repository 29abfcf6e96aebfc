"""Differential fuzzing: random programs, run eagerly and compiled, compared in all that can be seen.

    python tools/fuzz --count 5000              programs 0 to 4999; make fuzz FUZZ_ARGS="--count 5000" does the same
    python tools/fuzz --seed 17 --count 1 --print    one program's text
    python tools/fuzz --check file.py …         programs that were saved

A program that differs is made smaller and written to --out. The exit status is 1 when there was any.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import generate
import pool
import runner
import torch
from runner import Report, check
from shrink import shrink

import pellucid

HERE = Path(__file__).parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="how many programs (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="number of the first program (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--out", type=Path, help="folder for the programs that differ (default: none is written)")
    parser.add_argument("--timeout", type=float, default=20, help="seconds that one program may take (default: 20)")
    parser.add_argument(
        "--shrink", type=int, default=600, metavar="N", help="attempts to make a difference smaller (default: 600)"
    )
    parser.add_argument("--stop-after", type=int, default=0, metavar="N", help="end after so many differences")
    parser.add_argument(
        "--always", nargs="+", default=[], metavar="TAG", help="templates that every program may use: FAILS, KEYS, …"
    )
    parser.add_argument(
        "--never",
        nargs="+",
        default=None,
        metavar="TAG",
        help="templates that none may use (default: FAILS with a backend that goes through AOTAutograd, which drops "
        "operators that nobody needs, and what they would raise)",
    )
    parser.add_argument(
        "--backend", default="", help="backend of that name (default: one that counts nodes and runs the graph)"
    )
    parser.add_argument("--go-on", action="store_true", help="capture goes on behind graph breaks")
    parser.add_argument("--quiet", action="store_true", help="no progress, only differences and the summary")
    parser.add_argument("--print", action="store_true", help="print the programs, run nothing")
    parser.add_argument(
        "--check", type=Path, nargs="+", metavar="FILE", help="run these programs instead of random ones"
    )
    return parser.parse_args()


def check_seed(seed: int, make: Callable[[int], str]) -> Report:
    return limited(make(seed))


def check_file(path: Path) -> Report:
    return limited(path.read_text())


def limited(source: str) -> Report:
    """A program that does not end eagerly is none."""
    signals = itertools.count()

    def late(*_):
        if next(signals):  # its `finally` blocks do not end either
            os._exit(pool.DROPPED)
        raise TimeoutError

    signal.signal(signal.SIGPROF, late)  # its own time: what else the machine does is no matter
    return check(
        source, lambda: signal.setitimer(signal.ITIMER_PROF, 1, 5), lambda: signal.setitimer(signal.ITIMER_PROF, 0)
    )


@dataclass
class Totals:
    """What a run has seen."""

    start: float = field(default_factory=time.monotonic)
    programs: int = 0
    invalid: int = 0
    raised: int = 0
    captured: int = 0
    one_graph: int = 0
    nodes: int = 0
    kinds: Counter = field(default_factory=Counter)
    dropped: Counter = field(default_factory=Counter)  # why programs are none

    def add(self, report: Report) -> None:
        self.invalid += report.invalid
        if report.invalid:
            self.dropped[report.difference.split("\n")[0][:90] or "does not differ again"] += 1
        if not report.invalid:
            self.programs += 1
            self.raised += report.raised
            self.captured += report.graphs > 0
            self.one_graph += report.one_graph
            self.nodes += report.nodes
        if report.difference and not report.invalid:
            self.kinds[report.kind] += 1

    def __str__(self) -> str:
        count, seconds = max(1, self.programs), time.monotonic() - self.start
        return (
            f"{self.programs} programs ({self.invalid} dropped, {self.raised} raise), {sum(self.kinds.values())} differences,"
            f" {100 * self.captured / count:.0f} % captured, {100 * self.one_graph / count:.0f} % one graph,"
            f" {self.nodes} graph nodes, {seconds:.0f} s"
        )


def as_report(result: object) -> Report:
    if isinstance(result, pool.DroppedError):
        return Report(difference=str(result), invalid=True)
    return result if isinstance(result, Report) else Report(difference=str(result), kind=str(result))


def differs(kind: str, timeout: float, source: str) -> bool:
    _, result = next(pool.run(limited, [source], timeout))
    report = as_report(result)
    return not report.invalid and report.kind == kind


def save(options: argparse.Namespace, name: str, source: str, report: Report) -> None:
    small = shrink(source, functools.partial(differs, report.kind, min(options.timeout, 5)), options.shrink)
    note = as_report(next(pool.run(limited, [small], options.timeout))[1]).difference or report.difference
    print("\n".join(line for line in small.splitlines() if line), flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        comment = "".join(f"# {line[:130]}\n" for line in note.splitlines()[:6])
        (options.out / f"{name}.py").write_text(f"{comment}\n{small}\n")


def main() -> int:
    options = arguments()
    runner.backend = options.backend
    never = options.never if options.never is not None else ["FAILS"] * runner.own_autograd()
    make = functools.partial(generate.program, always=frozenset(options.always), never=frozenset(never))
    pellucid.config.continue_after_break = options.go_on or pellucid.config.continue_after_break
    seeds = list(range(options.seed, options.seed + options.count))
    if options.print:
        for seed in seeds:
            print(f"# program {seed}\n{make(seed)}")
        return 0
    torch.set_num_threads(1)
    importlib.import_module("pellucid.backends.tracing_context")  # takes seconds: not in each child anew
    work, items = (check_file, options.check) if options.check else (functools.partial(check_seed, make=make), seeds)
    totals, told = Totals(), time.monotonic()
    for item, result in pool.run(work, items, options.timeout, options.jobs):
        report = as_report(result)
        totals.add(report)
        if report.difference and not report.invalid:
            print(f"\n=== {item}: {report.difference}", flush=True)
            if not options.check and options.shrink:
                save(options, f"seed_{item}", make(item), report)
            if sum(totals.kinds.values()) == options.stop_after:
                break
        if not options.quiet and time.monotonic() - told > 10:
            told = time.monotonic()
            print(totals, flush=True)
    print(totals)
    if not options.quiet:
        print("".join(f"dropped {number}: {why}\n" for why, number in totals.dropped.most_common()), end="")
    return 1 if totals.kinds else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the same programs give the same sets every time
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
    sys.exit(main())
