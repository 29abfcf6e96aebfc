"""How many graphs the programs of the corpus make: target, limit of today, what a run makes, torch._dynamo beside it.

PYTHONPATH=python:tests python tests/changes/corpus_report.py [--update] [--no-dynamo] [--sizes] [name ...]

target    graphs that a capture general in numbers and sizes needs: mostly the first, and one for all other values
now       the limit in the program's row, which the test holds; made: what this run of pellucid made
dynamo    what torch._dynamo makes of the same calls; "!": what can be seen of them is not what eager gives

A new program gets a limit of 99, and `--update` writes the number there. Both compilers run eagerly beyond 8 entries.
`--sizes` shows the programs of `tests/sizes` instead, whose limits are their targets, without a limit of entries.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "sizes"), str(TESTS.parent / "python")]

import torch  # noqa: E402
from corpus import PROGRAMS, run  # noqa: E402
from corpus.table import Program  # noqa: E402
from sweeps import SWEEPS  # noqa: E402

import pellucid  # noqa: E402
from support import Counting  # noqa: E402
from support.sizes import many_entries  # noqa: E402


def by_pellucid(program: Program, want: list) -> tuple[int, bool]:
    pellucid.reset()
    counting = Counting()
    got = run(program, lambda f: pellucid.compile(f, backend=counting))
    return counting.count, got == want


def by_dynamo(program: Program, want: list) -> tuple[int, bool]:
    torch._dynamo.reset()
    counting = Counting()
    try:
        got = run(program, lambda f: without_mark(f, torch.compile(f, backend=counting)))
    except Exception:  # between the calls: a result that is not eager's
        got = None
    return counting.count, got == want


def without_mark(f: Callable, compiled: Callable) -> Callable:
    """torch.compile marks the module itself: no difference of the program's."""
    vars(f).pop("_is_torch_compile", None)
    return compiled


def write(program: Program, made: int) -> None:
    """The number of graphs made into the program's row."""
    path = Path(sys.modules[program.make.__module__].__file__ or "")
    row = re.compile(rf"(@program\(\d+, now=)\d+([^\n]*\)\ndef {program.name}\(\))")
    text, rows = row.subn(rf"\g<1>{made}\2", path.read_text())
    assert rows == 1, program.name
    path.write_text(text)


def row(theme: str, name: str, counts: Mapping[str, int]) -> str:
    numbers = f"{counts['target']:7}{counts['now']:5}{counts['made']:6}{counts['dynamo']:8}"
    return f"{theme:12}{name:46}{numbers}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="only these programs, or themes")
    parser.add_argument("--no-dynamo", action="store_true", help="without the column of torch._dynamo")
    parser.add_argument("--update", action="store_true", help="lower `now` in the rows to what this run made")
    parser.add_argument("--sizes", action="store_true", help="the programs of tests/sizes")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # limits of recompilation are what the table is about
    table = SWEEPS if options.sizes else PROGRAMS
    chosen = [p for p in table if not options.names or {p.name, p.theme} & set(options.names)]
    sums, wrong = defaultdict(Counter), []
    print(f"{'theme':12}{'program':46}{'target':>7}{'now':>5}{'made':>6}{'dynamo':>8}")
    for program in chosen:
        want = run(program, lambda f: f)
        with many_entries() if options.sizes else contextlib.nullcontext():
            made, right = by_pellucid(program, want)
            theirs, as_eager = (0, True) if options.no_dynamo else by_dynamo(program, want)
        if not right:
            wrong.append(program.name)
        if options.update and not options.sizes and made < program.now:
            write(program, made)
        counts = {"target": program.target, "now": program.now, "made": made, "dynamo": theirs}
        print(row(program.theme, program.name, counts) + ("" if as_eager else "!"), flush=True)
        sums[program.theme].update({**counts, "programs": 1})
    print()
    for theme, counts in sums.items():
        print(row(theme, f"{counts['programs']} programs", counts))
    everything = sum(sums.values(), Counter())
    print(row("all", f"{everything['programs']} programs", everything))
    for name in wrong:
        print(f"not as eager: {name}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
