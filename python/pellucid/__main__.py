"""python -m pellucid show file.py:function    every stage of a compiled function as text
python -m pellucid run script.py            the script, with pellucid in the place of torch.compile
python -m pellucid triage file.py           the first stage and the first graph at fault
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import traceback

from pellucid import _run, _show, _show_file
from pellucid._command_line import add_command
from pellucid._triage import command

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


_RUN_DESCRIPTION = """\
Runs a program as Python would, with pellucid installed in the place of torch.compile: what the program and the libraries that
it imports hand to torch.compile, nn.Module.compile, torch.compiler and torch._dynamo is compiled by pellucid. Nothing in them has to
change."""

_RUN_EPILOG = """\
examples:
  python -m pellucid run train.py --epochs 1
  python -m pellucid run -m package.train --epochs 1
  torchrun --nproc-per-node 2 -m pellucid run train.py

exit status: the program's; 1 when it ends with an exception; 2 the command line is wrong"""


def main(arguments: list[str] | None = None) -> int:
    """What the command line says; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    program: list[str] = []
    if given[:1] != ["run"]:  # whose arguments are the program's from the first on
        given, program = _split(given)
    options = _parser().parse_args(given)
    return options.run(options, program)


def _run_program(options: argparse.Namespace, program: list[str]) -> int:
    try:
        return _run.run(options.target, options.arguments, is_module=options.module)
    except FileNotFoundError as error:
        if error.filename != options.target:
            raise
        print(f"python -m pellucid run: there is no file {options.target!r}", file=sys.stderr)
        return 2


def _run_show(options: argparse.Namespace, program: list[str]) -> int:
    try:
        only = _stages(options.only)
        file, name = _show_file.target_of(options.target)
        with contextlib.redirect_stdout(sys.stderr):
            shown, failure = _show_file.run(file, name, options.args, program)
    except _show_file.UsageError as error:
        print(f"python -m pellucid show: {error}", file=sys.stderr)
        return 2
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


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What is for us, and what follows "--"."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pellucid", description="Tools of pellucid.")
    commands = parser.add_subparsers(metavar="command", required=True)
    what = "every stage of a compiled function as text"
    show = add_command(commands, "show", _run_show, help=what, description=_DESCRIPTION, epilog=_EPILOG)
    show.add_argument("target", metavar="file.py:function", help='the function; "Class.method" for a method')
    show.add_argument("--args", metavar="EXPR", help='arguments of the call, as in Python: "torch.ones(3), k=2"')
    show.add_argument("--only", metavar="STAGES", help=f"some of {','.join(_show.STAGES)}")
    show.add_argument("--json", action="store_true", help="the same as JSON")
    what = "a program, with pellucid in the place of torch.compile"
    run = add_command(commands, "run", _run_program, help=what, description=_RUN_DESCRIPTION, epilog=_RUN_EPILOG)
    run.add_argument("-m", dest="module", action="store_true", help="the target is the name of a module")
    run.add_argument("target", metavar="script.py", help="the program")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="what it gets as arguments")
    command.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
