"""What a script does when it is started: `run_repro`."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import torch

from pellucid.repro.bisect import first_difference
from pellucid.repro.candidate import lifted
from pellucid.repro.errors import NothingFails
from pellucid.repro.inputs import Inputs
from pellucid.repro.minifier import Minified, count, reduce
from pellucid.repro.printer import text_of
from pellucid.repro.reader import graph_of
from pellucid.repro.script import Modes, Script, state_of
from pellucid.repro.standalone import Reader
from pellucid.repro.trial import Failure, Invalid, Setup, check, failure_of
from pellucid.repro.tries import Tries, ran_eagerly

_TIMEOUT = 300.0


def run_repro(
    mod: torch.nn.Module,
    load_args: Callable[[Any], None],
    *,
    backend: str | Callable | None,
    inputs: str | os.PathLike | None = None,
    after: str = "dynamo",
    dynamic: bool | None = None,
    accuracy: bool = False,
    tolerance: float = 1e-3,
    ignores_integers: bool = False,
    forward_only: bool = False,
    config: dict[str, Any] | None = None,
    command: str = "run",
    arguments: Sequence[str] | None = None,
) -> Minified | str | None:
    """What a repro script ends with: the failing call, or what makes its graph smaller.

    Args:
        mod: the module; its `forward` is one assignment behind the other.
        load_args: gets a reader and asks it for one input after the other (`reader.tensor(shape, stride, dtype, device,
            is_leaf, requires_grad, storage, offset)`, `reader.value(number)`).
        backend: a name or a callable. None raises.
        inputs: the file of saved values. Where it is missing, inputs have random values, and a note is printed.
        after: "dynamo": the module is captured for the backend. "aot": its graph goes to a compiler of AOTAutograd's graphs.
        dynamic: as in `pellucid.compile`.
        accuracy: the results are compared with the eager run, gradients and written inputs too, beside a run in float64.
        tolerance: of the comparison, as in `pellucid.accuracy.difference`.
        ignores_integers: ints and bools are not compared.
        forward_only: no backward run.
        config: options of `pellucid.config` that were set.
        command: "run": once; what fails is raised. "minify": writes the smallest graph that fails in the same way as
            `repro.py` beside the script. "analyze": names the first node that differs.
        arguments: in the place of the script's own, which may name another command.

    Returns:
        What "minify" and "analyze" found; None of "run".

    Raises:
        RuntimeError: `backend` is None.
        NothingFails: there is nothing to minify.
        Exception: of "run" what the backend or the compiled graph raises; AccuracyError where it differs.

    Example:
        >>> run_repro(Repro(), load_args, backend="inductor", command="minify")
    """
    script = _Running(
        mod,
        load_args,
        inputs,
        Setup(backend, after, accuracy, dynamic, tolerance, ignores_integers, forward_only, config or {}),
    )
    given = _own_arguments(mod) if arguments is None else list(arguments)
    options = _parser(script.file, command).parse_args(given)
    if options.accuracy:
        script.setup = replace(script.setup, accuracy=True)
    if options.backend_from is not None:
        backend = runpy.run_path(options.backend_from, run_name="backend of a repro")["BACKEND"]
        script.setup = replace(script.setup, backend=backend)
    if script.setup.backend is None:
        raise RuntimeError(
            f"{script.file.name} has no backend: the one that failed cannot be looked up by a name. Put it into the line "
            "`BACKEND = None` (import it there, or define it above)"
        )
    return _COMMANDS[options.command](script, options)


def _own_arguments(mod: torch.nn.Module) -> list[str]:
    return sys.argv[1:] if type(mod).__module__ == "__main__" else []


def _parser(file: Path, command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python {file.name}", description="A failure of a compiler, in one file.")
    parser.add_argument(
        "command",
        nargs="?",
        default=command,
        choices=[*_COMMANDS],
        help=f"run: shows it; minify: makes the graph smaller; analyze: names the node at fault (default: {command})",
        metavar="run|minify|analyze",
    )
    parser.add_argument("--accuracy", action="store_true", help="compare results with the eager run")
    parser.add_argument("--timeout", type=float, default=_TIMEOUT, metavar="SECONDS", help="of one try (default: 300)")
    parser.add_argument("--time", type=float, default=None, metavar="SECONDS", help="of all tries together")
    parser.add_argument("--isolate", action="store_true", help="each try in a process of its own")
    parser.add_argument(
        "--output", type=Path, default=None, metavar="FILE", help="of minify (default: repro.py beside)"
    )
    parser.add_argument("--result", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--backend-from", default=None, help=argparse.SUPPRESS)
    return parser


class _Running:
    """A script that runs: its graph, its inputs, and how it is compiled."""

    def __init__(
        self, mod: torch.nn.Module, load_args: Callable, inputs: str | os.PathLike | None, setup: Setup
    ) -> None:
        self.mod = mod
        self.setup = setup
        self.file = Path(inspect.getfile(type(mod)))
        self.reader = Reader(None if inputs is None else os.fspath(inputs))
        load_args(self.reader)
        self.state = {name[6:]: value for name, value in self.reader.saved.items() if name.startswith("state:")}
        if self.state:
            mod.load_state_dict(self.state)
        read = graph_of(mod)
        self.gm, values = lifted(read, self.reader.args)
        self.inputs = Inputs.of([node.name for node in self.gm.graph.find_nodes(op="placeholder")], values)

    def script(self, gm: Any, inputs: Inputs, failure: Failure) -> Script:
        """A script of a smaller graph."""
        return Script(text_of(gm), inputs, self.setup, Modes.now(), str(failure), state=state_of(gm))


def _run(script: _Running, options: argparse.Namespace) -> None:
    try:
        check(script.gm, script.mod, script.inputs, script.setup)
    except Invalid as error:
        raise RuntimeError(f"{script.file.name} fails without a compiler too: {error}") from error.__cause__
    print(f"{script.file.name}: nothing failed")


def _try(script: _Running, options: argparse.Namespace) -> None:
    """One try for whoever started this process."""
    failure, why = None, "it compiles and runs"
    try:
        check(script.gm, script.mod, script.inputs, script.setup, lambda: ran_eagerly(options.result).touch())
    except Invalid as error:
        why = f"without a compiler it raises {error}"
    except Exception as error:
        failure = failure_of(error)
    options.result.write_text(json.dumps({"failure": failure and astuple(failure), "why": why}))


def _minify(script: _Running, options: argparse.Namespace) -> Minified:
    target = options.output or script.file.with_name("repro.py")
    checkpoints = target.parent / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    tries = _tries(script, options, checkpoints / "tried.json")
    first = tries.failure(script.gm, script.inputs)

    def keep(gm: Any, inputs: Inputs) -> None:
        assert first is not None
        script.script(gm, inputs, first).write(checkpoints / f"{count(gm)}_nodes.py")

    found = reduce(script.gm, script.inputs, tries, on_success=keep, seconds=options.time)
    script.script(found.gm, found.inputs, found.failure).write(target)
    print(f"\n{found}\n\n{text_of(found.gm).classes}\n\nwritten: {target}")
    return found


def _tries(script: _Running, options: argparse.Namespace, known: Path) -> Tries:
    """In this process, unless the script itself ends the one that it runs in, or never comes to an end."""
    backend_from = None if isinstance(script.setup.backend, str) else script.file
    tries = Tries(script.setup, timeout=options.timeout, isolated=True, known=known, backend_from=backend_from)
    if options.isolate:
        return tries
    first = tries.failure(script.gm, script.inputs)
    if first is not None and first.kind in ("crash", "hang"):
        print(f"{first}: each try runs in a process of its own")
        return tries
    tries.isolated = False
    return tries


def _analyze(script: _Running, options: argparse.Namespace) -> str:
    setup = replace(script.setup, accuracy=True)
    script.setup = setup
    backend_from = None if isinstance(setup.backend, str) else script.file
    tries = Tries(setup, timeout=options.timeout, isolated=options.isolate, backend_from=backend_from)
    found = first_difference(script.gm, script.inputs, tries)
    if found is None:
        raise NothingFails(f"{script.file.name}: every node gives what it gives eagerly")
    target = options.output or script.file.with_name("repro.py")
    script.script(found.gm, found.inputs, found.failure).write(target)
    print(f"{found}\nwritten: {target}")
    return str(found)


_COMMANDS: dict[str, Callable[[_Running, argparse.Namespace], Any]] = {
    "run": _run,
    "minify": _minify,
    "analyze": _analyze,
    "try": _try,
}
