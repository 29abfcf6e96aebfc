"""python -m pellucid run script.py: the script, with pellucid in the place of torch.compile."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pellucid import _run
from pellucid._commands import add_command

_DESCRIPTION = """\
Runs a program as Python would, with pellucid installed in the place of torch.compile: what the program and the libraries that
it imports hand to torch.compile, nn.Module.compile, torch.compiler and torch._dynamo is compiled by pellucid. Nothing in them has to
change."""

_EPILOG = """\
examples:
  python -m pellucid run train.py --epochs 1
  python -m pellucid run -m package.train --epochs 1
  torchrun --nproc-per-node 2 -m pellucid run train.py

exit status: the program's; 1 when it ends with an exception; 2 the command line is wrong"""


def add_to(commands: Any) -> None:
    """The parser of this command."""
    parser = add_command(
        commands,
        "run",
        run,
        help="a program, with pellucid in the place of torch.compile",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("-m", dest="module", action="store_true", help="the target is the name of a module")
    parser.add_argument("target", metavar="script.py", help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it gets as arguments")


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Gives the exit status."""
    try:
        return _run.run(options.target, options.arguments, is_module=options.module)
    except FileNotFoundError as error:
        if error.filename != options.target:
            raise
        print(f"python -m pellucid run: there is no file {options.target!r}", file=sys.stderr)
        return 2
