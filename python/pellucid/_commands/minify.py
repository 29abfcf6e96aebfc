"""python -m pellucid minify script.py: the smallest graph that fails as the script, or as a program, does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pellucid._commands import add_command

_DESCRIPTION = """\
Makes the graph of a failure as small as it can be while it fails in the same way, and writes it as a script (repro.py).

The file is a script that pellucid wrote (minifier_launcher.py, repro.py; see config.repro_after), or a program. A program runs once
as `python -m pellucid run` would, with config.repro_after = "dynamo" and repro_level = 4: the first graph whose backend raises, or gives
something else than the eager run, is taken. If the process crashes or hangs, it runs once more, and the graph that was being
compiled then is taken; each try is then a process of its own."""

_EPILOG = """\
examples:
  python -m pellucid minify pellucid_repro/minifier_launcher.py
  python -m pellucid minify train.py --output-dir failure -- --epochs 1     (what follows -- are arguments of the program)
  python -m pellucid minify train.py --timeout 60                           (a run or a try that takes longer is a hang)

exit status: 0 repro.py is written; 1 nothing fails, or it cannot be made a script; 2 the command line is wrong"""


def add_to(commands: Any) -> None:
    """The parser of this command."""
    parser = add_command(
        commands,
        "minify",
        run,
        help="the smallest graph that fails as a script or program does",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("file", metavar="file.py", type=Path, help="a script that pellucid wrote, or a program")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=300.0, help="for one run or try (300)")
    parser.add_argument(
        "--time", metavar="SECONDS", type=float, help="for all tries; what was found until then is written"
    )
    parser.add_argument("--isolate", action="store_true", help="each try in a process of its own")
    parser.add_argument(
        "--accuracy", action="store_true", help="results that differ from the eager run are the failure"
    )
    parser.add_argument(
        "--output-dir", metavar="DIR", type=Path, default=None, help="of a program (default: pellucid_repro)"
    )


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Gives the exit status."""
    from pellucid.repro import program as programs

    try:
        if not options.file.is_file():
            raise ValueError(f"there is no file {options.file}")
        for name in ("timeout", "time"):
            value = getattr(options, name)
            if value is not None and value <= 0:
                raise ValueError(f"--{name} {value:g}: a number of seconds above 0")
        if programs.is_script(options.file):
            if program:
                raise ValueError(f"{options.file} is a script of pellucid, which takes no arguments behind --")
            script = options.file
        else:
            folder = options.output_dir or Path("pellucid_repro")
            script = programs.failing_graph(options.file, program, folder, options.timeout)
    except ValueError as error:
        print(f"python -m pellucid minify: {error}", file=sys.stderr)
        return 2
    except programs.NoFailure as error:
        print(f"python -m pellucid minify: {error}", file=sys.stderr)
        return 1
    return programs.run_script(script, ["minify", *_passed_on(options)])


def _passed_on(options: argparse.Namespace) -> list[str]:
    given = ["--timeout", f"{options.timeout:g}"]
    given += ["--time", f"{options.time:g}"] if options.time else []
    return given + [
        flag for flag, is_set in (("--isolate", options.isolate), ("--accuracy", options.accuracy)) if is_set
    ]
