"""python -m pellucid show file.py:function    every stage of a compiled function as text
python -m pellucid explain file.py:function graphs, breaks, recompiles and times: as text, JSON or a page
python -m pellucid step program.py          every capture forward and back, instruction by instruction
python -m pellucid run script.py            the script, with pellucid in the place of torch.compile
python -m pellucid dump script.py directory what is captured while the script runs, as files
python -m pellucid triage file.py           the first stage and the first graph at fault
python -m pellucid minify file.py           the smallest graph that fails as a script or program does
python -m pellucid replay file.rec          a recorded capture once more, without its program
python -m pellucid decompile module:function a function as Python text, from its bytecode
python -m pellucid doctor                   what of this machine and its configuration will matter
"""

from __future__ import annotations

import argparse
import sys

from pellucid import config
from pellucid._commands import decompile, doctor, dump, explain, minify, replay, run, show, step, triage
from pellucid._commands.reader import quiet_without_reader

_COMMANDS = (show, explain, step, run, dump, triage, minify, replay, decompile, doctor)


def main(arguments: list[str] | None = None) -> int:
    """What the command line says; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    program: list[str] = []
    if given[:1] != ["run"]:  # whose arguments are the program's from the first on
        given, program = _split(given)
    with quiet_without_reader() as ended:
        options = _parser().parse_args(given)
        wrong = config.wrong_environment()
        if wrong:
            print("\n".join(f"python -m pellucid: {sentence}" for sentence in wrong), file=sys.stderr)
            return 2
        return options.run(options, program)
    return ended.status


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What is for us, and what follows "--"."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pellucid", description="Tools of pellucid.")
    commands = parser.add_subparsers(metavar="command", required=True)
    for command in _COMMANDS:
        command.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
