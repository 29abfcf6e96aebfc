"""CPython's own tests, each test method compiled: what passes in plain CPython must pass compiled.

    python tools/conformance                         all suitable modules; `make conformance` does the same
    python tools/conformance --quick                 small modules of many kinds, a minute
    python tools/conformance list dict --torch-ops   a tensor operation before and after each body, in the same graph
    python tools/conformance list --impl dynamo      torch.compile(backend="eager") instead of pellucid

Each module runs in a process of its own, once plain and once compiled. The exit status is 1 when a test that passes plainly does not
pass compiled. A line that begins with --- is a test that passes because it ran eagerly after all: capture raised an exception in it
that the program does not raise. --out writes one line of JSON per test: outcomes, graphs, why capture stopped.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import selection
from process import Way, run_module
from table import Row, Table, rows_of

INSTALL = """this interpreter has no CPython tests (the package `test`). Where it comes from a Linux distribution they are a package of their own:
    Debian, Ubuntu   apt-get install libpython3.11-testsuite
    Fedora           dnf install python3.11-test
Interpreters built from source, and pyenv's and conda's, have them."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="test_list or list (default: all suitable ones)")
    parser.add_argument("--quick", action="store_true", help="a few small modules")
    parser.add_argument("--impl", choices=("pellucid", "dynamo"), default="pellucid", help="the compiler")
    parser.add_argument("--torch-ops", action="store_true", help="a tensor operation before and after each test's body")
    parser.add_argument("--match", default="", metavar="TEXT", help="only tests whose name contains this")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N tests of each module")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="seconds for one test (default: 120)")
    parser.add_argument("--jobs", type=int, default=1, help="modules at the same time (default: 1)")
    parser.add_argument("--reasons", type=int, default=20, metavar="N", help="how many reasons of stops are shown")
    parser.add_argument("--out", type=Path, metavar="FILE", help="one line of JSON per test")
    parser.add_argument(
        "--list", action="store_true", help="print the modules and those that are left out, run nothing"
    )
    return parser.parse_args()


def print_selection() -> None:
    for name in selection.chosen([]):
        print(name)
    for name, why in selection.UNSUITABLE.items():
        print(f"# not {name}: {why}")


def check(name: str, options: argparse.Namespace) -> list[Row]:
    way = Way(options.impl, options.torch_ops, options.match, options.limit, options.timeout)
    plain = run_module(name, way.plain())
    return rows_of(name, plain, run_module(name, way))


def main() -> int:
    options = arguments()
    if options.list:
        print_selection()
        return 0
    if importlib.util.find_spec("test.test_list") is None:
        print(f"conformance: {INSTALL}", file=sys.stderr)
        return 2
    names = selection.QUICK if options.quick else selection.chosen(options.modules)
    missing = [name for name in names if importlib.util.find_spec(f"test.{name}") is None]
    table = Table(options.torch_ops, options.out)
    with ThreadPoolExecutor(options.jobs) as pool:
        present = [name for name in names if name not in missing]
        for rows in pool.map(lambda name: check(name, options), present):
            table.add(rows)
    table.finish(missing, options.reasons)
    return 1 if table.differences else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets have the same order plain and compiled
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
    sys.exit(main())
