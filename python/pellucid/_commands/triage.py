"""python -m pellucid triage script.py: the first stage and the first graph at fault."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from pellucid import config
from pellucid._commands import add_command
from pellucid._triage import OWN, Triage, of_runner
from pellucid._triage.script import ScriptRunner
from pellucid.backends.registry import lookup_backend
from pellucid.errors import InvalidBackend
from pellucid.repro.located import locate

_DESCRIPTION = """\
Runs a program eagerly and then with backends that go deeper and deeper: capture alone, the captured graph node by node, AOTAutograd,
Inductor's decompositions, Inductor, and last with the backends that the program itself asks for. Where results of compiled
functions, their arguments, what is printed or the exception at the end differ from the eager run, the stage is at fault; more runs
find the first graph for which it makes a difference. Each run is a process of its own, with the random numbers seeded."""

_EPILOG = """\
examples:
  python -m pellucid triage train.py
  python -m pellucid triage train.py -- --epochs 1                      (what follows -- are arguments of the program)
  python -m pellucid triage train.py --accuracy                         (the first node at fault too, as a script)
  python -m pellucid triage train.py --backend "3:inductor;else:eager"  (only this, with the traceback and the graphs)

exit status: 0 no stage is at fault; 1 one is; 2 the command line is wrong, or the eager run takes longer than --timeout"""


def add_to(commands: Any) -> None:
    """The parser of this command."""
    parser = add_command(
        commands,
        "triage",
        run,
        help="the first stage and the first graph at fault",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("file", metavar="file.py", help="the program")
    parser.add_argument(
        "--backend", metavar="BACKEND", help="one backend or choice by graph number instead of all stages"
    )
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="for one run of the program; none by default")
    parser.add_argument(
        "--accuracy",
        action="store_true",
        help="name the first node at fault, too, and write it as pellucid_repro/repro.py",
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Gives the exit status."""
    try:
        if not os.path.isfile(options.file):
            raise ValueError(f"there is no file {options.file}")
        if options.timeout is not None and options.timeout <= 0:
            raise ValueError(f"--timeout {options.timeout:g}: a number of seconds above 0")
        if options.backend is not None:
            lookup_backend(options.backend)
        if options.accuracy and options.backend is not None:
            raise ValueError("--accuracy goes with all stages, not with one --backend")
        runner = ScriptRunner(options.file, program, options.timeout)
        found = of_runner(runner, options.backend)
        if options.accuracy and found.stage is not None and found.steps[-1].backend != OWN:
            found.node = locate(found, runner, Path(config.base_dir))  # type: ignore[attr-defined]
    except (ValueError, InvalidBackend, TimeoutError) as error:
        print(f"python -m pellucid triage: {error}", file=sys.stderr)
        return 2
    print(json.dumps(_as_dict(found), indent=1) if options.json else found)
    return 0 if found.stage is None else 1


def _as_dict(found: Triage) -> dict[str, Any]:
    graph = found.graph
    return {
        "stage": found.stage,
        "problem": found.problem,
        "graph": None if graph is None else {"number": graph.number, "name": graph.name, "place": graph.place},
        "node": found.node,
        "next": found.next,
        "notes": found.notes,
        "runs": [
            {"stage": step.stage, "backend": step.backend, "problem": step.problem, "seconds": step.outcome.seconds}
            for step in found.steps
        ],
    }
