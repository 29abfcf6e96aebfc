"""Tries of many graphs: each once, in this process or in one of its own, with what is known kept in a file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from torch.fx import GraphModule

from pellucid.repro.inputs import Inputs, TensorRecipe
from pellucid.repro.printer import ModuleText, text_of
from pellucid.repro.script import Modes, Script
from pellucid.repro.trial import Failure, Invalid, Overtime, Setup, check, failure_of, module_of, time_limit


def ran_eagerly(result: Path) -> Path:
    """The file that says of a try in another process that its eager run is over.

    Example:
        >>> ran_eagerly(Path("result.json"))
        PosixPath('result.ran')
    """
    return result.with_suffix(".ran")


class Tries:
    """How graphs fail.

    Args:
        setup: how they are compiled.
        timeout: seconds for one try; more is a hang. None: as long as it takes.
        isolated: each try in a process of its own, which may crash and hang.
        known: a JSON file of what was tried before; it is written as well, so that a reduction that was interrupted goes on.
        backend_from: the script that has the line `BACKEND = …`, for tries in other processes.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        timeout: float | None = 300,
        isolated: bool = False,
        known: Path | None = None,
        backend_from: Path | None = None,
    ) -> None:
        self._setup = setup
        self._timeout = timeout
        self.isolated = isolated
        self._file = known
        self._backend_from = backend_from
        self._known: dict[str, Failure | None] = {}
        self._why: dict[str, str] = {}
        self._tried: Counter[Failure | None] = Counter()
        self._from_file = 0
        self._start = time.monotonic()
        if known is not None and known.exists():
            self._known = {key: failure and Failure(*failure) for key, failure in json.loads(known.read_text()).items()}
            self._from_file = len(self._known)

    def failure(self, gm: GraphModule, inputs: Inputs) -> Failure | None:
        """How it fails; None: it does not, or it is not valid without a compiler either.

        Raises:
            ReproRefused: the graph has no form as text.
        """
        text = text_of(gm)
        key = self._key(text, inputs)
        if key not in self._known:
            self._known[key] = self._run(key, gm, text, inputs)
            self._tried[self._known[key]] += 1
            self._save()
        return self._known[key]

    def why_not(self, gm: GraphModule, inputs: Inputs) -> str:
        """Why a graph did not fail."""
        return self._why.get(self._key(text_of(gm), inputs), "it was tried before (checkpoints/tried.json)")

    def counted(self) -> str:
        """How many were tried, and how long it took."""
        return f"{sum(self._tried.values())} tried, {time.monotonic() - self._start:.1f} s"

    def report(self, failure: Failure) -> str:
        """What was tried, in words."""
        alike = sum(n for each, n in self._tried.items() if failure.is_like(each))
        none = self._tried[None]
        others = sum(self._tried.values()) - alike - none
        known = f", {self._from_file} were known from before" if self._from_file else ""
        where = "each in a process of its own" if self.isolated else "in this process"
        return (
            f"tried {self.counted().replace(' tried, ', ' graphs in ')} {where}{known}: {alike} failed in this way, "
            f"{others} in another one, {none} not"
        )

    def _key(self, text: ModuleText, inputs: Inputs) -> str:
        digest = hashlib.sha256()
        setup = dataclasses.replace(self._setup, backend=str(self._setup.backend))
        for part in (text.classes, inputs.load_args(), repr(setup) if isinstance(self._setup.backend, str) else ""):
            digest.update(part.encode())
        used = {each.storage for each in inputs.recipes if isinstance(each, TensorRecipe)}
        for name, data in sorted(inputs.data.items()):
            if name in used and data.layout is torch.strided and not data.is_quantized:
                digest.update(data.contiguous().numpy().tobytes())
        return digest.hexdigest()[:32]

    def _save(self) -> None:
        if self._file is not None:
            rows = {key: failure and dataclasses.astuple(failure) for key, failure in self._known.items()}
            beside = self._file.with_suffix(".new")
            beside.write_text(json.dumps(rows))
            beside.replace(self._file)

    def _run(self, key: str, gm: GraphModule, text: ModuleText, inputs: Inputs) -> Failure | None:
        if self.isolated:
            return self._run_isolated(key, text, inputs)
        try:
            with time_limit(self._timeout):
                check(gm, module_of(text), inputs, self._setup)
        except Invalid as error:
            self._why[key] = f"without a compiler it raises {error}"
            return None
        except Overtime as over:
            return Failure("hang", "", str(over))
        except Exception as error:
            return failure_of(error)
        self._why[key] = (
            "it compiles, runs and gives what the eager run gives" if self._setup.accuracy else "it compiles and runs"
        )
        return None

    def _run_isolated(self, key: str, text: ModuleText, inputs: Inputs) -> Failure | None:
        with tempfile.TemporaryDirectory() as folder:
            file = Script(text, inputs, self._setup, Modes.now()).write(Path(folder, "candidate.py"))
            result = Path(folder, "result.json")
            command = [sys.executable, str(file), "try", "--result", str(result)]
            if self._backend_from is not None:
                command += ["--backend-from", str(self._backend_from)]
            paths = [path for path in sys.path if path] + [str(Path(__file__).parents[2])]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                start_new_session=True,
            )
            try:
                printed, _ = child.communicate(timeout=self._timeout)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)  # compilers of its own too
                child.communicate()
                if not ran_eagerly(result).exists():
                    self._why[key] = f"the eager run takes longer than {self._timeout:g} s"
                    return None
                return Failure("hang", "", f"longer than {self._timeout:g} s")
            if result.exists():
                found = json.loads(result.read_text())
                self._why[key] = found["why"]
                return found["failure"] and Failure(*found["failure"])
            if not ran_eagerly(result).exists():
                self._why[key] = f"the process of the try ended before it was compiled:\n{printed}"
                return None
        if child.returncode < 0:
            return Failure("crash", signal.Signals(-child.returncode).name, "")
        last = (printed.strip().splitlines() or [""])[-1]
        return Failure("crash", f"status {child.returncode}", last)
