"""Runs checks in forked children, so that a crash or an endless loop is one more difference and not the end of the run."""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BATCH = 100  # programs of one child
PATIENCE = 10
DROPPED = 4  # the exit status of a child whose program is none


class DroppedError(Exception):
    """The program of a child is none."""


def run(work: Callable[[Any], Any], items: list[Any], seconds: float, jobs: int = 1) -> Iterator[tuple[Any, Any]]:
    """Yields (item, work(item)), in any order; the result is an `Exception` when the child crashed or took more than `seconds`
    of its own time: what else the machine does is no matter. One that waits for something gets `PATIENCE` times as long."""
    waiting = [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
    children: dict[int, Child] = {}
    try:
        while waiting or children:
            while waiting and len(children) < jobs:
                child = Child(work, waiting.pop(0))
                children[child.fd] = child
            ready, _, _ = select.select(list(children), [], [], min(seconds, 1))
            late = [child for child in children.values() if child.fd not in ready and child.is_late(seconds)]
            for child in [children[fd] for fd in ready] + late:
                result = TimeoutError(f"more than {seconds} s") if child in late else child.receive()
                item = child.items[child.done] if child.done < len(child.items) else None
                child.done += 1
                if isinstance(result, Exception):
                    child.stop()
                    del children[child.fd]
                    if child.items[child.done :]:
                        waiting.insert(0, child.items[child.done :])
                if item is not None:
                    yield item, result
    finally:
        for child in children.values():
            child.stop()


class Child:
    """A forked process that works on `items` and sends what it finds."""

    def __init__(self, work: Callable[[Any], Any], items: list[Any]) -> None:
        self.items, self.done = items, 0
        self.fd, writer = os.pipe()
        gc.freeze()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._work(work, os.fdopen(writer, "wb", buffering=0))
        os.close(writer)
        self._begin()

    def _begin(self) -> None:
        self.own_start, self.start = self._own_time(), time.monotonic()

    def _own_time(self) -> float:
        """Seconds of CPU that the child has had."""
        _, _, told = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")
        return sum(map(int, told.split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def is_late(self, seconds: float) -> bool:
        waited = time.monotonic() - self.start
        return waited > seconds and (self._own_time() - self.own_start > seconds or waited > PATIENCE * seconds)

    def _work(self, work: Callable[[Any], Any], out: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for item in self.items:
                data = pickle.dumps(work(item))
                out.write(len(data).to_bytes(4, "big") + data)
        except BaseException as error:
            sys.stderr.write(f"fuzz: {type(error).__name__}: {error}\n")
            os._exit(3)
        os._exit(0)

    def receive(self) -> Any:
        head = os.read(self.fd, 4)
        if len(head) < 4:
            self.status = os.waitpid(self.pid, 0)[1]
            self.pid = 0
            number = os.waitstatus_to_exitcode(self.status)
            if number == DROPPED:
                return DroppedError("it does not end eagerly")
            return RuntimeError(f"crash: {signal.Signals(-number).name}" if number < 0 else f"exit {number}")
        data, length = b"", int.from_bytes(head, "big")
        while len(data) < length:
            data += os.read(self.fd, length - len(data))
        self._begin()
        return pickle.loads(data)

    def stop(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        os.close(self.fd)
