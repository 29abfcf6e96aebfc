"""python -m pellucid._triage.child outcome backend file arguments…: one run of a program, for triage."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

import pellucid
from pellucid import _core
from pellucid._triage import OWN
from pellucid._triage.outcome import Outcome, kept
from pellucid._triage.recorder import Recorder, WrittenGraph, complaints
from pellucid._triage.script import ASKED
from pellucid.takeover import install

_MOST_RESULTS = 1000


def run(target: str, backend: str, file: str, arguments: list[str]) -> int:
    """Runs the program and writes its Outcome to the file `target`. Gives the exit status of the program."""
    outcome = Outcome()
    asked = json.loads(os.environ.pop(ASKED, "{}"))
    writes = WrittenGraph(*asked["write"]) if "write" in asked else None
    recorder = Recorder(backend, writes=writes) if backend not in ("", OWN) else None
    if not backend:
        pellucid.set_stance("force_eager")
    elif recorder is not None:
        outcome.graphs = recorder.graphs
        pellucid.set_stance(force_backend=recorder)
    calls: dict[str, int] = {}

    def observe(function: Any, args: tuple, result: Any) -> None:
        if len(outcome.results) < _MOST_RESULTS:
            name = function.__qualname__
            calls[name] = calls.get(name, 0) + 1
            outcome.results.append((f"result {calls[name]} of {name}", kept(result)))
            outcome.results.append((f"arguments behind call {calls[name]} of {name}", kept(_tensors(args))))

    install()  # what the program hands to torch.compile counts as well
    _core.set_call_observer(observe)
    with complaints() as outcome.complaints, contextlib.ExitStack() as recording:
        if "record" in asked:
            from pellucid.repro.recorded_calls import recording_calls

            folder, most = asked["record"]
            recording.enter_context(recording_calls(Path(folder), most))
        status = _run_program(file, arguments, outcome)
    _core.set_call_observer(None)
    Path(target).write_bytes(pickle.dumps(outcome))
    return status


def _tensors(args: tuple) -> list[Any]:
    return [arg for arg in torch.utils._pytree.tree_leaves(args) if isinstance(arg, torch.Tensor)]


def _run_program(file: str, arguments: list[str], outcome: Outcome) -> int:
    random.seed(0)
    torch.manual_seed(0)
    sys.argv = [file, *arguments]
    sys.path[0] = str(Path(file).resolve().parent)
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            outcome.error = f"SystemExit: {end.code}"
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        outcome.error = f"{type(error).__name__}: {error}"
        outcome.traceback = traceback.format_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
