"""A function called in a forked process under a time limit: one that dies or hangs costs only its own answer.

The parent imports what is slow to import and compiles nothing, so a child begins with a clean pellucid and a clean torch._dynamo
within milliseconds.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any


class ChildFailed(Exception):
    """The child gave no answer; the text says why."""


def in_child(function: Callable, *arguments: Any, seconds: float, quiet: bool = True) -> Any:
    """What `function(*arguments)` gives in a child. Raises ChildFailed where it dies, raises or takes longer than `seconds`."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        _answer(writes, function, arguments, quiet)
    os.close(writes)
    try:
        data = _read_all(reads, seconds)
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise ChildFailed(f"no result after {seconds:.0f} s") from None
    finally:
        os.close(reads)
    _, status = os.waitpid(child, 0)
    if not data:
        code = os.waitstatus_to_exitcode(status)
        name = signal.Signals(-code).name if code < 0 else f"code {code}"
        raise ChildFailed(f"the process ended with {name}")
    kind, value = pickle.loads(data)
    if kind == "raised":
        raise ChildFailed(value)
    return value


def _answer(writes: int, function: Callable, arguments: tuple, quiet: bool) -> None:
    """The child's life: it never returns into the parent's code."""
    try:
        if quiet:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        try:
            answer = ("value", function(*arguments))
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            answer = ("raised", f"{type(error).__name__}: {error} [{os.path.basename(last.filename)}:{last.lineno}]")
        with os.fdopen(writes, "wb") as pipe:
            pipe.write(pickle.dumps(answer))
    finally:
        os._exit(0)  # handlers of the parent's exit are not the child's


def _read_all(reads: int, seconds: float) -> bytes:
    end = time.monotonic() + seconds
    data = b""
    while True:
        ready, _, _ = select.select([reads], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(reads, 1 << 16)
        if not part:
            return data
        data += part
