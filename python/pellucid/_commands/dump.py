"""python -m pellucid dump script.py directory: what is captured while a script runs, as files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pellucid import _run
from pellucid._commands import add_command
from pellucid._dump.context import debug

_DESCRIPTION = """\
Runs a program as Python would, with pellucid installed in the place of torch.compile, and writes what is captured into a directory:
index.html, and as Python for each compiled function its source, its compiled versions with their guards and the parts behind graph
breaks (full_code_for_NAME_N.py); for each graph what was captured (__compiled_fn_N.captured.py), what AOTAutograd makes of it
(joint, forward, backward) and Inductor's code (post_grad, kernel). Inside of a program `with pellucid.debug(directory):` does the same.

What an earlier dump wrote into the directory is removed; other files stay."""

_EPILOG = """\
examples:
  python -m pellucid dump train.py dump/
  python -m pellucid dump train.py dump/ -- --epochs 1        (what follows -- are arguments of the program)

exit status: 0 dumped; 1 the program failed, or nothing was compiled; 2 the command line is wrong"""


def add_to(commands: Any) -> None:
    """The parser of this command."""
    parser = add_command(
        commands,
        "dump",
        run,
        help="what is captured while a program runs, as files",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("script", metavar="script.py", help="the program")
    parser.add_argument("--bytecode", action="store_true", help="also the bytecode of each region")
    parser.add_argument("directory", help="where the files go; it is made when it is not there")


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Gives the exit status."""
    if not Path(options.script).is_file():
        print(f"python -m pellucid dump: there is no file {options.script!r}", file=sys.stderr)
        return 2
    try:
        with debug(
            Path(options.directory).resolve(), bytecode=options.bytecode
        ) as dump:  # the program may go elsewhere
            status = _run.run(options.script, program, is_module=False)
    except OSError as error:  # the program's own are told by its status
        print(f"python -m pellucid dump: cannot write {options.directory!r}: {error.strerror}", file=sys.stderr)
        return 2
    print(f"The dump begins at {(dump.directory / 'index.html').as_uri()}", file=sys.stderr)
    if status == 0 and not dump.has_regions:
        print("python -m pellucid dump: nothing was compiled", file=sys.stderr)
        return 1
    return status
