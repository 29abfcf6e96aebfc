"""`config.repro_after`: failures of backends become scripts by themselves.

The text of a graph is made before the backend sees it, which may change it; the inputs are read when something failed, or
before it is compiled at level 3.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from pellucid import config
from pellucid.backends.call import Backend
from pellucid.backends.copies import copies, unchanged
from pellucid.backends.verify import graph_for_backend
from pellucid.errors import BackendCompilerFailed
from pellucid.repro.errors import ReproRefused
from pellucid.repro.inputs import Inputs
from pellucid.repro.script import Script, own_options, script_of
from pellucid.repro.trial import Ran, Setup, compare, failure_of, reference_of, run

log = logging.getLogger("pellucid")

_LAUNCHER, _REPRO = "minifier_launcher.py", "repro.py"
_lock = threading.Lock()


def settings(after: str) -> Setup | None:
    """What `config` says of failures of graphs "dynamo" or "aot"; None: nothing is to be done."""
    chosen: Any = config
    if chosen.repro_after != after:
        return None
    return Setup(
        None,
        after,
        chosen.repro_level == 4,
        None,
        chosen.repro_tolerance,
        chosen.repro_ignore_non_fp,
        chosen.repro_forward_only,
        own_options(),
    )


def nothing_behind_aot(backend: Backend) -> None:
    """Says that `config.repro_after = "aot"` has written nothing of a failure, where that is set."""
    if config.repro_after == "aot":  # type: ignore[attr-defined]
        log.warning(
            "backend %r failed, but no compiler behind AOTAutograd: repro_after = 'aot' writes nothing of that, and "
            "repro_after = 'dynamo' the graph as it was captured",
            backend.name,
        )


def write(script: Script) -> Path:
    """Writes a script into `config.base_dir`, and says where it is. A second one gets a folder of its own.

    Raises:
        OSError: it cannot be written.
    """
    level = config.repro_level  # type: ignore[attr-defined]
    name = _REPRO if level == 1 else _LAUNCHER
    script.command = "run" if level == 1 else "minify"
    with _lock:
        folder = _free_folder(Path(config.base_dir), name)  # type: ignore[attr-defined]
        file = script.write(folder / name)
    what = "shows it" if level == 1 else "makes its graph smaller"
    log.warning("wrote %s, a script that %s: python %s", file, what, os.path.relpath(file))
    return file


def _free_folder(base: Path, name: str) -> Path:
    base = base.absolute()
    folder, number = base, 1
    while (folder / name).exists():
        number += 1
        folder = base / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Watch:
    """One graph on its way through a backend, with `config.repro_after = "dynamo"`.

    Example:
        >>> watch = Watch(backend, gm, example_inputs, setup)
        >>> compiled = compile_it(gm)
        >>> watch.try_out(compiled)
    """

    def __init__(self, backend: Backend, gm: GraphModule, example_inputs: Sequence[Any], setup: Setup) -> None:
        self._backend = backend
        self._inputs = list(example_inputs)
        self._gm = graph_for_backend(gm)
        self._as_captured = gm.forward
        self._attributes = [*gm.parameters(), *gm.buffers()]
        self._hint = ""
        known: Any = name_of_backend(backend)
        if known is None:
            function = backend.function
            known = None if backend.options else function
            self._hint = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', backend.name)}"
        dynamic = True if any(type(example) is int for example in example_inputs) else None
        self._setup = replace(setup, backend=known, dynamic=dynamic)
        self.file: Path | None = None
        if config.repro_level == 3:  # type: ignore[attr-defined]
            self._write("the graph as it came to the backend, before it was compiled")

    def failed(self, error: Exception) -> Path | None:
        """Writes the script of a failure. None: that was not possible; the log says why."""
        return self._write(str(failure_of(error)))

    def try_out(self, compiled: Callable) -> None:
        """Runs the compiled graph on copies of its inputs, and backward; at level 4 results are compared.

        Raises:
            Exception: what the compiled graph raises where the graph as it was captured does not.
            AccuracyError: it gives something else.
        """
        backward = not self._setup.forward_only
        wanted = self._ran(self._as_captured, backward)
        if isinstance(wanted, Exception):
            return  # the error is the program's own
        got = self._ran(compiled, backward)
        if isinstance(got, Exception):
            raise got
        if self._setup.accuracy:
            inputs = Inputs.of([f"input {i}" for i in range(len(self._inputs))], self._inputs)
            compare(wanted, got, reference_of(self._gm, inputs, self._setup), self._setup)

    def _ran(self, called: Callable, backward: bool) -> Ran | Exception:
        with unchanged(self._attributes):
            try:
                return run(called, copies(self._inputs), backward)
            except Exception as error:
                return error

    def _write(self, title: str) -> Path | None:
        if self.file is None:
            self.file = written(lambda: script_of(self._gm, self._inputs, self._setup, title=title, hint=self._hint))
        return self.file


def name_of_backend(backend: Backend) -> str | None:
    """The name by which a fresh process finds the backend; None: it is only in this program."""
    from pellucid.backends.registry import lookup_backend
    from pellucid.errors import InvalidBackend

    if isinstance(backend.function, torch._TorchCompileInductorWrapper):
        return "inductor"
    try:
        return backend.name if lookup_backend(backend.name) is backend.function else None
    except InvalidBackend:
        return None


def written(make: Callable[[], Script]) -> Path | None:
    """Writes what `make` gives. The failure itself is to reach the program, so errors of this are told only.

    Example:
        >>> written(lambda: script_of(gm, inputs, setup))
    """
    try:
        return write(make())
    except ReproRefused as error:
        log.warning("config.repro_after: no script was written: %s", error)
    except Exception:
        log.exception("config.repro_after: no script could be written")
    return None


def mark(error: Exception, file: Path | None) -> None:
    """Notes at an exception which script shows it, for the message of BackendCompilerFailed; None: none could be written."""
    error._pellucid_repro = None if file is None else str(file)  # type: ignore[attr-defined]


def as_failure(backend: Backend, error: Exception, file: Path | None, stack: Sequence[Any]) -> BackendCompilerFailed:
    """The exception of a failure that was found by trying a graph out."""
    inner = error.inner_exception if isinstance(error, BackendCompilerFailed) else error
    assert isinstance(inner, Exception)
    made = BackendCompilerFailed(backend.name, inner, stack, None if file is None else str(file))
    return made.with_traceback(error.__traceback__)
