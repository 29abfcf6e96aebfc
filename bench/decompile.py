"""How much of the standard library `pellucid.decompile` gives back: python bench/decompile.py [-n 3000] [--seed 0] [--all]

Every function of the modules of the standard library (their tests aside) is compiled, decompiled and compiled again. A row
says how many texts compile to the same bytes, to the same instructions up to those that do nothing, to others (which are
texts of equal meaning, but unverified), and for how many there is none.

    python bench/decompile.py --worst      also names what is not equal, with the first difference
"""

from __future__ import annotations

import argparse
import pathlib
import random
import statistics
import sysconfig
import time
import types
import warnings
from collections import Counter
from collections.abc import Iterator

from pellucid import _core

_NOT = ("test", "tests", "idle_test", "site-packages", "lib2to3", "idlelib", "turtledemo", "__phello__")


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """The functions in a code object, those within them too; no lambdas and comprehensions."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_flags & 3 == 3 and constant.co_name.isidentifier():
                yield constant
            yield from codes_in(constant)


def standard_library() -> Iterator[types.CodeType]:
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if any(part in _NOT for part in path.relative_to(root).parts):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
            except SyntaxError:
                continue
        yield from codes_in(module)


def measure(codes: list[types.CodeType], worst: bool = False) -> tuple[Counter[str], list[float]]:
    found: Counter[str] = Counter()
    times = []
    for code in codes:
        begun = time.perf_counter()
        made = _core._decompile(code, True)
        times.append(time.perf_counter() - begun)
        kind = "none" if isinstance(made, str) else made[2]
        found[kind] += 1
        if worst and kind in ("none", "unverified", "equivalent"):
            where = f"{code.co_filename.rpartition('python3.11/')[2]}:{code.co_firstlineno} {code.co_qualname}"
            print(f"{kind:10} {where}: {made if isinstance(made, str) else made[3]}")
    return found, times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-n", type=int, default=3000, help="functions in the sample")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="all functions instead of a sample")
    parser.add_argument("--worst", action="store_true", help="name what is not equal")
    options = parser.parse_args()
    codes = list(standard_library())
    if not options.all:
        codes = random.Random(options.seed).sample(codes, min(options.n, len(codes)))
    found, times = measure(codes, options.worst)
    total = sum(found.values())
    print(f"| {'functions':<24} | {total:>6} |         |")
    for kind, words in (
        ("equal", "the same bytes"),
        ("normalised", "the same instructions"),
        ("equivalent", "the same steps"),
        ("unverified", "other instructions"),
        ("none", "no text"),
    ):
        print(f"| {words:<24} | {found[kind]:>6} | {100 * found[kind] / total:6.2f}% |")
    same = found["equal"] + found["normalised"]
    print(f"| {'equal in all':<24} | {same:>6} | {100 * same / total:6.2f}% |")
    ordered = sorted(times)
    print(
        f"| ms: mean, median, p99, max | {1e3 * statistics.mean(times):.2f} | {1e3 * statistics.median(times):.2f} |"
        f" {1e3 * ordered[int(len(ordered) * 0.99)]:.2f} | {1e3 * ordered[-1]:.2f} |"
    )


if __name__ == "__main__":
    main()
