"""Runs of a program, each in a process of its own."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid._triage.outcome import Outcome

ASKED = "PELLUCID_TRIAGE_ASKS"
"""The variable that asks a run for more, as JSON: {"write": fields of WrittenGraph} or {"record": [folder, how many calls]}."""


class ScriptRunner:
    """Runs `python file arguments…` with all compiled functions on one backend.

    Args:
        file: the program.
        arguments: its arguments.
        timeout: seconds for one run; more is an error of that run.
    """

    def __init__(self, file: str, arguments: Sequence[str] = (), timeout: float | None = None) -> None:
        self._file = file
        self._arguments = list(arguments)
        self._timeout = timeout
        rest = f" -- {shlex.join(arguments)}" if arguments else ""
        self.command = f"python -m pellucid triage {shlex.quote(file)} --backend {{backend!r}}{rest}"
        self.minify: str | None = f"python -m pellucid minify {shlex.quote(file)}{rest}"

    def run(self, backend: str | None, asks: dict[str, Any] | None = None) -> Outcome:
        """One run: with this backend, or eagerly without one. `asks`: what it writes beside (`ASKED`)."""
        with tempfile.TemporaryDirectory() as directory:
            target = Path(directory) / "outcome"
            command = [sys.executable, "-m", "pellucid._triage.child", str(target), backend or "", self._file]
            start = time.perf_counter()
            try:
                done = subprocess.run(
                    [*command, *self._arguments],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=self._timeout,
                    env={**os.environ, "PYTHONHASHSEED": "0", **({ASKED: json.dumps(asks)} if asks else {})},
                )
            except subprocess.TimeoutExpired:
                return Outcome(error=f"it is not done after {self._timeout} s", is_done=False)
            outcome = self._read(target, done)
            outcome.seconds = time.perf_counter() - start
            return outcome

    def _read(self, target: Path, done: subprocess.CompletedProcess[str]) -> Outcome:
        if not target.exists():  # the process is gone: a crash, or os._exit
            how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
            return Outcome(printed=done.stdout, error=f"the process ended with {how}", traceback=done.stderr)
        outcome: Outcome = pickle.loads(target.read_bytes())
        outcome.printed = done.stdout
        return outcome
