"""`pellucid.record`, `pellucid.replay` and what `_core` calls when a capture fails. What they need is loaded at their first call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pellucid._replay.results import Recorded, Replayed


def replay(path: str | Path, *, trust: bool = False) -> Replayed:
    """Captures again what a record contains, without the program: no call runs, and no backend.

    A record is a file of `config.replay_record_enabled` or `pellucid.record`. It is data: loading runs no code of it, and the capture
    interprets its code without running it.

    Args:
        path: the file.
        trust: functions of the record may run where captures call functions of a program for real, as those of a
            torch.autograd.Function, to learn what shapes they give. Only for records that you made or were given by
            somebody you trust: such a function can do anything.

    Raises:
        RecordError: it is no record, damaged, or asks for something that records do not contain.
        OSError: there is no such file.

    Example:
        >>> print(pellucid.replay("pellucid_repro/recordings/f_PEL0304_12.rec"))
    """
    from pellucid._replay import replaying

    return replaying.replay(Path(path), trust)


def record(
    function: Callable, path: str | Path | None = None, *, fullgraph: bool = True, backend: str | Callable = "eager"
) -> Callable[..., Recorded]:
    """Writes what the capture of a call reads into a file, whether the capture fails or not. The call does not run.

    Args:
        function: a function, a module, a method, or one of these compiled.
        path: the file; where there is one of this name a number is appended. Without it a name below `config.base_dir`.
        fullgraph: as of `pellucid.compile`.
        backend: graphs are captured for it; it is not called.

    Returns:
        A function of the arguments of `function` that gives a `Recorded`.

    Raises:
        TypeError: `function` cannot be called.
        OSError: at the call: the file cannot be written.

    Example:
        >>> print(pellucid.record(model, "forward.rec")(x))
    """
    from pellucid._replay import replaying

    if not callable(function):
        raise TypeError(f"pellucid.record needs a callable, not {type(function).__name__}")
    return replaying.record(function, None if path is None else Path(path), fullgraph, backend)


def record_failure(*failed: Any) -> None:
    """What `config.replay_record_enabled` asks for: see `pellucid._replay.failure`."""
    from pellucid._replay import failure

    failure.record_failure(*failed)
