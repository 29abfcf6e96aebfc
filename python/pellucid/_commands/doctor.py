"""python -m pellucid doctor: what of this machine, torch, Python and the configuration will matter."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pellucid import _doctor
from pellucid._commands import add_command

_DESCRIPTION = """\
Looks at Python, torch, the build of pellucid's core, the C++ compiler that Inductor uses, cores and threads, memory, switches in
the environment, options, who traces, and Inductor's cache: a line for each, with what it means for you. In a program,
pellucid.doctor() tells the same of its process."""

_EPILOG = """\
examples:
  python -m pellucid doctor
  TORCH_LOGS=recompiles PELLUCID_RECOMPILE_LIMIT=16 python -m pellucid doctor
  python -m pellucid doctor --json

exit status: 0 nothing is in the way of compiling; 1 a line says "bad"; 2 the command line is wrong"""


def add_to(commands: Any) -> None:
    """The parser of this command."""
    parser = add_command(
        commands,
        "doctor",
        run,
        help="what of this machine and its configuration will matter",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON: a list of name, state, found, means")


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Gives the exit status."""
    found = _doctor.doctor()
    print(json.dumps(found.to_list(), indent=1) if options.json else found)
    return 1 if found.is_bad else 0
