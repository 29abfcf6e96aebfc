"""What happens when a capture fails while `config.replay_record_enabled` is set."""

from __future__ import annotations

import types
import warnings
from pathlib import Path
from typing import Any

from pellucid._replay.outcome import Outcome, Settings
from pellucid._replay.recording import bound_call, default_path, is_recording, record_call
from pellucid.errors import BackendCompilerFailed, BreakRecord, recording_text


def record_failure(
    function: types.FunctionType,
    slots: tuple[Any, ...],
    backend: Any,
    fullgraph: bool,
    in_error_block: bool,
    failure: BreakRecord | BaseException,
) -> None:
    """Writes what the failed capture reads, and tells the error of the file. What goes wrong here is a warning."""
    if (
        is_recording()
        or isinstance(failure, BackendCompilerFailed)
        or not isinstance(failure, (BreakRecord, Exception))
    ):
        return
    try:
        settings = Settings.now(backend, fullgraph, in_error_block)
        args, kwargs = bound_call(function, slots)
        is_stop = isinstance(failure, BreakRecord)
        kind = failure.code if isinstance(failure, BreakRecord) else type(failure).__name__
        line = failure.place[1] if isinstance(failure, BreakRecord) else function.__code__.co_firstlineno
        of = failure.function if isinstance(failure, BreakRecord) else function.__qualname__

        def path(outcome: Outcome) -> Path:
            return default_path(of, kind, line)

        written, outcome, _ = record_call(function, args, kwargs, settings, path)
    except Exception as error:
        warnings.warn(f"the failed capture could not be recorded: {type(error).__name__}: {error}", stacklevel=2)
        return
    if isinstance(failure, BreakRecord):
        failure.recording = str(written)
    else:
        failure.add_note(recording_text(str(written)))
    if (outcome.code if is_stop else outcome.error and outcome.error.split(":")[0]) != kind:
        warnings.warn(
            f"{written} is a record of another outcome: what was captured before, and is not in it, matters "
            f"({outcome.summary()})",
            stacklevel=2,
        )
