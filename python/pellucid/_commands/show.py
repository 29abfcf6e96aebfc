"""python -m pellucid show file.py:function: every stage of a compiled function as text."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import traceback
from typing import Any

from pellucid import _show, _show_file
from pellucid._commands import add_command

_DESCRIPTION = """\
Runs a program and shows what pellucid makes of one of its functions: for each compiled region the bytecode, the graph, the
guards, the effects on objects from outside and the emitted code.

Without --args the file runs as a script, and its own calls of the function are shown. With --args the file is imported (its
part under `if __name__ == "__main__"` does not run) and the function is called once with these arguments, evaluated in the
file's namespace. What the program prints goes to the standard error stream; the report does not differ from run to run."""

_EPILOG = """\
examples:
  python -m pellucid show train.py:loss
  python -m pellucid show model.py:Block.forward --only graph,guards
  python -m pellucid show model.py:f --args "torch.ones(3), 2, flag=True" --json
  python -m pellucid show train.py:loss -- --epochs 1        (what follows -- are arguments of the program)

exit status: 0 shown; 1 the program failed, or nothing was compiled; 2 the command line is wrong"""


def add_to(commands: Any) -> None:
    """The parser of this command."""
    parser = add_command(
        commands,
        "show",
        run,
        help="every stage of a compiled function as text",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("target", metavar="file.py:function", help='the function; "Class.method" for a method')
    parser.add_argument("--args", metavar="EXPR", help='arguments of the call, as in Python: "torch.ones(3), k=2"')
    parser.add_argument("--only", metavar="STAGES", help=f"some of {','.join(_show.STAGES)}")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Gives the exit status."""
    try:
        only = _stages(options.only)
        file, name = _show_file.target_of(options.target)
        with contextlib.redirect_stdout(sys.stderr):
            watch = _show.Watch()
            failure = _show_file.run(file, name, [] if options.args is None else [options.args], program, watch)
    except _show_file.UsageError as error:
        print(f"python -m pellucid show: {error}", file=sys.stderr)
        return 2
    shown = watch.shown()
    if failure is not None:
        traceback.print_exception(_show_file.of_program(failure, file))
    elif not shown.regions and not shown.breaks:
        print(f"python -m pellucid show: nothing was compiled: {_show_file.why_nothing(file, name)}", file=sys.stderr)
    print(json.dumps(shown.to_dict(only), indent=1) if options.json else shown.text(only).rstrip("\n"))
    return 0 if shown.regions and failure is None else 1


def _stages(names: str | None) -> tuple[str, ...]:
    try:
        return _show.checked([name.strip() for name in names.split(",")] if names else _show.STAGES)
    except ValueError as error:
        raise _show_file.UsageError(error) from error
