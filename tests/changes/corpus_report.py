"""How many graphs the programs of the corpus make: the target, the limit of today, what a run makes, and torch._dynamo beside it.

PYTHONPATH=python:tests python tests/changes/corpus_report.py [--update] [--no-dynamo] [name ...]

A "!" behind a number of torch._dynamo: its results are not those of eager.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "python")]

import torch  # noqa: E402
from corpus import PROGRAMS, run  # noqa: E402
from corpus.table import Program  # noqa: E402

import pellucid  # noqa: E402
from support import Counting  # noqa: E402


def by_pellucid(program: Program, want: list) -> tuple[int, bool]:
    pellucid.reset()
    counting = Counting()
    got = run(program, lambda f: pellucid.compile(f, backend=counting))
    return counting.count, got == want


def by_dynamo(program: Program, want: list) -> tuple[int, bool]:
    torch._dynamo.reset()
    counting = Counting()
    try:
        got = run(program, lambda f: torch.compile(f, backend=counting))
    except Exception:  # between the calls: a result that is not eager's
        got = None
    return counting.count, got == want


def write(program: Program, made: int) -> None:
    """The number of graphs made into the program's row."""
    path = Path(sys.modules[program.make.__module__].__file__ or "")
    row = re.compile(rf"(@program\(\d+, now=)\d+([^\n]*\)\ndef {program.name}\(\))")
    text, rows = row.subn(rf"\g<1>{made}\2", path.read_text())
    assert rows == 1, program.name
    path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="only these programs, or themes")
    parser.add_argument("--no-dynamo", action="store_true", help="without the column of torch._dynamo")
    parser.add_argument("--update", action="store_true", help="lower `now` in the rows to what this run made")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # limits of recompilation are what the table is about
    chosen = [p for p in PROGRAMS if not options.names or {p.name, p.theme} & set(options.names)]
    sums, wrong = [0, 0, 0, 0], []
    print(f"{'theme':12}{'program':46}{'target':>7}{'now':>5}{'made':>6}{'dynamo':>8}")
    for program in chosen:
        want = run(program, lambda f: f)
        made, right = by_pellucid(program, want)
        if not right:
            wrong.append(program.name)
        theirs, as_eager = (0, True) if options.no_dynamo else by_dynamo(program, want)
        if options.update and made < program.now:
            write(program, made)
        mark = "" if as_eager else "!"
        print(
            f"{program.theme:12}{program.name:46}{program.target:7}{program.now:5}{made:6}{theirs:8}{mark}", flush=True
        )
        sums = [a + b for a, b in zip(sums, (program.target, program.now, made, theirs))]
    print(f"{len(chosen):3} programs{'':46}" + "{:7}{:5}{:6}{:8}".format(*sums))
    for name in wrong:
        print(f"not as eager: {name}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
