"""python -m pellucid step program.py: every capture of a program, forward and back, instruction by instruction."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pellucid import _run, _show_file, events
from pellucid._commands import add_command
from pellucid._step.record import LIMIT, Recorder
from pellucid._step.run import Plain
from pellucid._step.steps import Steps

_DESCRIPTION = """\
Runs a program, records each instruction that is captured, and then goes through them forward and back: the line of the program, the
bytecode instruction, the stack, the variables, the graph and the guards so far, and why the capture ended.

"program.py" runs as a script with pellucid in the place of torch.compile, and all of its captures are recorded. "program.py:function"
compiles this function, and only what is captured for it is recorded; with --args the file is imported and the function is called once
with these arguments, evaluated in the file's namespace. What the program prints goes to the standard error stream."""

_EPILOG = """\
examples:
  python -m pellucid step train.py
  python -m pellucid step model.py:Block.forward --commands "n; n; stack; node mul; back; why"
  python -m pellucid step model.py:f --args "torch.ones(3), k=2" --page steps.html
  python -m pellucid step model.py:f --args "torch.ones(3)" --at 12 --json
  python -m pellucid step train.py -- --epochs 1        (what follows -- are arguments of the program)

Without --commands, --json and --page it asks for commands ("h" tells which there are), or reads them from the standard input.

exit status: 0 told; 1 the program failed, or nothing was captured; 2 the command line is wrong"""


def add_to(commands: Any) -> None:
    """The parser of this command."""
    parser = add_command(
        commands,
        "step",
        run,
        help="captures forward and back, instruction by instruction",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("target", metavar="program.py[:function]", help="the program; with a function that alone")
    parser.add_argument("--args", metavar="EXPR", help='arguments of the call, as in Python: "torch.ones(3), k=2"')
    parser.add_argument("--commands", metavar="TEXT", help='what to do, with ";" between: "n; n; stack"')
    parser.add_argument("--json", action="store_true", help="the recording as JSON")
    parser.add_argument("--at", type=int, metavar="N", help="one step in full, as text or with --json")
    parser.add_argument("--page", metavar="FILE", help="write the recording as one page")
    parser.add_argument("--limit", type=int, default=LIMIT, help=f"how many steps are kept (default: {LIMIT})")


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Gives the exit status."""
    try:
        steps, status = _recorded(options, program)
        if not len(steps):
            print("python -m pellucid step: nothing was captured", file=sys.stderr)
            return 1
        _told(steps, options)
    except _show_file.UsageError as error:
        print(f"python -m pellucid step: {error}", file=sys.stderr)
        return 2
    return status


def _recorded(options: argparse.Namespace, program: list[str]) -> tuple[Steps, int]:
    if Path(options.target).is_file():
        if options.args is not None:
            raise _show_file.UsageError("--args needs a function: program.py:function")
        return _record(lambda started: True, options, lambda: _script(options.target, program))
    file, name = _show_file.target_of(options.target)
    calls = [] if options.args is None else [options.args]
    backend = Plain()

    def one_function() -> int:
        failure = _show_file.run(file, name, calls, program, backend)
        if failure is not None:
            traceback.print_exception(_show_file.of_program(failure, file))
        return int(failure is not None)

    return _record(lambda started: started.backend_function is backend, options, one_function)


def _script(target: str, program: list[str]) -> int:
    try:
        return _run.run(target, program, is_module=False)
    except SystemExit as end:
        return 0 if end.code in (None, 0) else 1


def _record(
    wanted: Callable[[events.CompileStarted], bool], options: argparse.Namespace, program: Callable[[], int]
) -> tuple[Steps, int]:
    recorder = Recorder(wanted, options.limit)
    with contextlib.redirect_stdout(sys.stderr), recorder.listening() as steps:
        status = program()
    if steps.is_cut:
        print(f"python -m pellucid step: only the first {options.limit} steps were kept (--limit)", file=sys.stderr)
    return steps, status


def _told(steps: Steps, options: argparse.Namespace) -> None:
    if options.at is not None and not 0 <= options.at < len(steps):
        raise _show_file.UsageError(f"there is no step {options.at}; there are {len(steps)}")
    if options.page:
        try:
            written = steps.to_html(options.page, options.target)
        except OSError as error:
            raise _show_file.UsageError(f"cannot write {options.page!r}: {error.strerror}") from error
        print(f"The page is {Path(written).resolve().as_uri()}", file=sys.stderr)
    if options.json:
        print(json.dumps(steps.to_dict(options.at), indent=None if options.at is None else 1))
    elif options.at is not None:
        print(steps.text(options.at, ("place", "frames", "stack", "locals", "graph", "guards")))
    elif options.commands is not None or not options.page:
        steps.prompt(options.commands)
