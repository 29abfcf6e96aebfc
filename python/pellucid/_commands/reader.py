"""What a command does when nobody reads what it prints any more (`… | head -3`): it ends quietly."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Ended:
    """How a command ended that nobody reads."""

    status: int = 0


@contextlib.contextmanager
def quiet_without_reader() -> Iterator[Ended]:
    """A BrokenPipeError ends the block, if the reader of the standard output is gone: the exit status is then what a shell says of a
    program that SIGPIPE has ended. Any other one is the program's own matter.

    Example:
        >>> with quiet_without_reader() as ended:
        ...     print(report)
        ...     return 0
        ... return ended.status
    """
    ended = Ended()
    try:
        try:
            yield ended
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        # What is left in the buffer would raise once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        ended.status = 128 + signal.SIGPIPE


def _reader_is_gone() -> bool:
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)  # errors are always told
    except (OSError, ValueError):  # it is no file of the system
        return False
    return any(events & select.POLLERR for _, events in poll.poll(0))
