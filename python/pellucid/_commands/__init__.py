"""The commands of `python -m pellucid`: a module each, which has `add_to(commands)` and says what its exit status means."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Run = Callable[[argparse.Namespace, list[str]], int]


def add_command(commands: Any, name: str, run: Run, *, help: str, description: str, epilog: str) -> Any:
    """Adds the parser of one command, and returns it.

    Args:
        commands: what `add_subparsers` of argparse gave.
        name: of the command.
        run: gets the options and what followed "--" on the command line; gives the exit status.
        help: one line.
        description: the text of --help, as it is printed.
        epilog: examples and the meaning of the exit status.

    Example:
        >>> parser = add_command(commands, "show", run, help="one line", description="more", epilog="examples: …")
    """
    parser = commands.add_parser(
        name, help=help, description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(run=run)
    return parser
