"""What a recording is made of: a reader of `pellucid.events` that keeps each instruction in words."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pellucid import _comptime, events
from pellucid._addresses import Addresses
from pellucid._explain.places import short
from pellucid._step.steps import Capture, CodeText, Step, StepFrame, Steps

LIMIT = 200_000
"""How many steps are kept: each costs a few hundred bytes."""
_LONGEST = 200  # characters of one value


class Recorder:
    """Keeps the captures of the thread that made it, but for those that `wanted` does not want."""

    def __init__(self, wanted: Callable[[events.CompileStarted], bool], limit: int = LIMIT) -> None:
        self.steps = Steps()
        self._wanted, self._limit = wanted, limit
        self._thread = threading.get_ident()
        self._codes: dict[types.CodeType, int] = {}
        self._started: list[events.CompileStarted] = []  # the compiles that are open, outermost first
        self._now: Capture | None = None
        self._graph_state: int | None = None
        self._open: list[tuple[int, int]] = []  # (depth, step) of the frames that are open
        self._addresses = Addresses()

    @contextmanager
    def listening(self) -> Iterator[Steps]:
        """Records what happens in the block."""
        with events.subscribe(self.read, instructions=True):
            yield self.steps
        self._close("", ())

    def read(self, event: events.Event) -> None:
        """A reader of events."""
        if event.thread == self._thread:
            read = _READS.get(type(event))
            if read is not None:
                read(self, event)

    # ---- one instruction

    def _instruction(self, event: events.Instruction) -> None:
        if not self._started or not self._wanted(self._started[-1]):
            return
        if len(self.steps) >= self._limit:
            self.steps.is_cut = True
            return
        ask = event.ask
        if self._now is None:
            self._now = self._begun(ask)
        capture = self._now
        state = ask("graph_state")
        if state != self._graph_state:
            self._graph_state = state
            capture.graphs.add(self._addresses.without(ask("graph_text")).splitlines())
        known = len(capture.guards.last)
        if not capture.guards.changes or ask("guard_count") != known:
            capture.guards.add([*capture.guards.last, *(self._guard_line(row) for row in ask("guards", known))])
        while self._open and self._open[-1][0] >= event.depth:
            self._open.pop()
        caller = self._open[-1][1] if self._open else -1
        frame = self._frame(ask, 0, event.code, event.offset)
        outer = len(capture.outer)
        if caller < 0:  # a frame that was open at the beginning has returned to another one
            outer = min(outer, len(ask("frames")) - 1)
        self._open.append((event.depth, len(self.steps)))
        step = Step(frame, caller, outer, len(capture.graphs.changes) - 1, len(capture.guards.changes) - 1)
        self.steps.steps.append(step)

    def _begun(self, ask: Callable[..., Any]) -> Capture:
        self._graph_state = None
        self._open = []
        started = self._started[-1]
        begins_at = tuple((self._number_of(code), offset) for code, offset in started.begins_at)
        capture = Capture(started.function.__qualname__, begins_at, len(self.steps))
        places = ask("frames")
        for level in reversed(range(1, len(places))):
            code, offset, _ = places[level]
            capture.outer.append(self._frame(ask, level, code, offset))
        self.steps.captures.append(capture)
        return capture

    def _frame(self, ask: Callable[..., Any], level: int, code: types.CodeType, offset: int) -> StepFrame:
        def words(ask: Callable[..., Any], value: object) -> str:
            text = _comptime.words_of(ask, value)
            return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

        values = tuple((name, words(ask, value)) for name, value in ask("locals", level))
        stack = tuple(words(ask, place[0]) if place else "NULL" for place in ask("whole_stack", level))
        return StepFrame(self._number_of(code), offset, values, stack)

    def _guard_line(self, row: dict[str, Any]) -> str:
        return self._addresses.without(guard_line(row))

    def _number_of(self, code: types.CodeType) -> int:
        number = self._codes.get(code)
        if number is None:
            number = self._codes[code] = len(self.steps.codes)
            self.steps.codes.append(CodeText(code))
        return number

    # ---- the others

    def _close(self, end: str, why: tuple[str, ...]) -> None:
        """The capture under way, if there is one, has ended."""
        capture, self._now = self._now, None
        if capture is None:
            return
        last = self.steps.steps[-1]
        capture.end, capture.why, capture.last = end, why, len(self.steps)
        self.steps.steps.append(Step(last.frame, last.caller, last.outer, last.graph, last.guards, is_end=True))

    def _compile_started(self, event: events.CompileStarted) -> None:
        self._close("", ())  # one that happens in the middle of another
        self._started.append(event)

    def _compile_finished(self, event: events.CompileFinished) -> None:
        self._close("error" if event.failed else "", ())
        if self._started:
            self._started.pop()

    def _restarted(self, event: events.CaptureRestarted) -> None:
        self._close("restart", (event.why,))

    def _graph_break(self, event: events.GraphBreak) -> None:
        record = event.record
        self._close("break", (f"{record.code} {record.name}: {record.message}", *_advice_of(record)))

    def _region_finished(self, event: events.RegionFinished) -> None:
        self._close("region", ())
        captures = self.steps.captures
        if not self._started or not self._wanted(self._started[-1]) or not captures or captures[-1].last < 0:
            return
        capture = captures[-1]
        if capture.end == "restart":
            return
        capture.name = event.name
        # What the region became: dead nodes are gone, conditions on open sizes are there.
        graph = capture.graphs.add(self._addresses.without(event.graph).splitlines())
        guards = capture.guards.add([self._guard_line(row) for row in event.guards])
        last = self.steps.steps[-1]
        self.steps.steps[-1] = Step(last.frame, last.caller, last.outer, graph, guards, is_end=True)


_READS: dict[type[events.Event], Callable[[Any, Any], None]] = {
    events.Instruction: Recorder._instruction,
    events.CompileStarted: Recorder._compile_started,
    events.CompileFinished: Recorder._compile_finished,
    events.CaptureRestarted: Recorder._restarted,
    events.GraphBreak: Recorder._graph_break,
    events.RegionFinished: Recorder._region_finished,
}


def _advice_of(record: Any) -> tuple[str, ...]:
    return tuple(
        text for text in (record.why and f"why: {record.why}", record.hint and f"to remove it: {record.hint}") if text
    )


def guard_line(row: dict[str, Any]) -> str:
    """A guard in one line, with the place of the program that it comes from."""
    words = " ".join(part for part in (row["kind"], row["source"], row["text"]) if part)
    return f"{words}  # {short(row['file'])}:{row['line']}, {row['operation']}" if row["file"] else words
