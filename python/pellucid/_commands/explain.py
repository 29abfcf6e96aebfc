"""python -m pellucid explain file.py:function: what becomes of a function, as text, JSON or a page."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from pellucid import _show_file
from pellucid._commands import add_command
from pellucid._explain.output import ExplainOutput
from pellucid._explain.run import ExplainWithBackend, full_output, timed_lines
from pellucid._explain.text import PARTS, report
from pellucid.errors import InvalidBackend

_DESCRIPTION = """\
Runs a program and tells what pellucid makes of one of its functions: how many graphs, where each graph break is and how to remove
it, why each recompile happened, where the time of compiling went; then the source line by line (captured, broken, eager,
recompiled), the graphs with sizes and FLOPs, and the guards as Python.

Without --args the file runs as a script, and its own calls of the function count. With --args the file is imported (its part under
`if __name__ == "__main__"` does not run) and the function is called with these arguments, evaluated in the file's namespace; given
several times, once for each. What the program prints goes to the standard error stream. Each line that is captured costs a look at
the clock, so captures take about twice as long as otherwise."""

_EPILOG = """\
examples:
  python -m pellucid explain train.py:loss
  python -m pellucid explain model.py:Block.forward --html report.html
  python -m pellucid explain model.py:f --args "torch.ones(3)" --args "torch.ones(4), k=2" --only summary,source
  python -m pellucid explain model.py:f --args "torch.ones(3)" --backend inductor --json
  python -m pellucid explain train.py:loss -- --epochs 1        (what follows -- are arguments of the program)

exit status: 0 told; 1 the program failed, or nothing was compiled; 2 the command line is wrong"""


def add_to(commands: Any) -> None:
    """The parser of this command."""
    explain = add_command(
        commands,
        "explain",
        run,
        help="graphs, breaks, recompiles and times of a function: as text, JSON or a page",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    explain.add_argument("target", metavar="file.py:function", help='the function; "Class.method" for a method')
    explain.add_argument(
        "--args", metavar="EXPR", action="append", default=[], help='arguments of a call: "torch.ones(3), k=2"'
    )
    explain.add_argument("--html", metavar="FILE", help="write the report as one page; the summary is printed as well")
    explain.add_argument("--json", action="store_true", help="the report as JSON")
    explain.add_argument("--only", metavar="PARTS", help=f"of the text, some of {','.join(PARTS)}")
    explain.add_argument("--backend", default="eager", help="the backend that compiles the graphs (default: eager)")


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Gives the exit status."""
    try:
        only = _parts(options)
        file, name = _show_file.target_of(options.target)
        watch = ExplainWithBackend(options.backend)
        with contextlib.redirect_stdout(sys.stderr), timed_lines() as profile:
            failure = _show_file.run(file, name, options.args, program, watch)
    except (_show_file.UsageError, InvalidBackend) as error:
        print(f"python -m pellucid explain: {error}", file=sys.stderr)
        return 2
    output = full_output(watch, profile)
    if failure is not None:
        traceback.print_exception(_show_file.of_program(failure, file))
    elif not output.details.compiles:
        print(
            f"python -m pellucid explain: nothing was compiled: {_show_file.why_nothing(file, name)}", file=sys.stderr
        )
    if not _written(output, options, only):
        return 2
    return 0 if output.regions and failure is None else 1


def _written(output: ExplainOutput, options: argparse.Namespace, only: list[str] | None) -> bool:
    print(json.dumps(output.to_dict(), indent=1) if options.json else report(output, only).rstrip("\n"))
    if not options.html:
        return True
    try:
        written = output.to_html(options.html, options.target)
    except OSError as error:
        print(f"python -m pellucid explain: cannot write {options.html!r}: {error.strerror}", file=sys.stderr)
        return False
    print(f"The page is {Path(written).resolve().as_uri()}", file=sys.stderr)
    return True


def _parts(options: argparse.Namespace) -> list[str] | None:
    """The parts of the text; with a page the rest stands there."""
    if options.only is None:
        return ["summary"] if options.html else None
    names = [name.strip() for name in options.only.split(",")]
    for name in names:
        if name not in PARTS:
            raise _show_file.UsageError(f"there is no part {name!r}; the parts are {', '.join(PARTS)}")
    return names
