"""The events of a real run, sorted by compile: what every report of `explain` is made of."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pellucid import events
from pellucid._recompiles import Recompile
from pellucid.errors import BreakRecord

if TYPE_CHECKING:
    import torch


def break_key(record: BreakRecord) -> tuple:
    """Equal for the stops that are one graph break: the same reason at the same place.

    Example:
        >>> break_key(first) == break_key(second)
        True
    """
    return (record.code, record.cause, record.place)


@dataclass
class RecordedGraph:
    """A graph, as the backend got it."""

    module: torch.fx.GraphModule
    shapes: list[tuple | None]
    """Of the example inputs; None of what is no tensor."""
    hints: dict[str, Any]
    """What the open numbers were in this call, by the names that the graph gives them."""


@dataclass
class RecordedRegion:
    """What RegionFinished told."""

    number: int
    name: str
    guards: list[dict[str, Any]]
    effects: list[str]
    goes_on: bool


@dataclass
class RecordedCompile:
    """What happened between CompileStarted and CompileFinished."""

    started: events.CompileStarted
    graphs: list[RecordedGraph] = field(default_factory=list)
    breaks: list[BreakRecord] = field(default_factory=list)
    region: RecordedRegion | None = None
    recompile: Recompile | None = None
    milliseconds: dict[str, float] = field(default_factory=dict)
    failed: bool = False
    hints: dict[str, Any] = field(default_factory=dict)
    """Of the graph that is handed over next."""
    handed_over: int = 0
    """How often the backend was called since it was last told to start: it may be called again for the same graph."""


class Recorder:
    """A reader of `pellucid.events` that keeps the compiles of one backend function, in the order in which they began.

    A compile is its own when that function was given to `pellucid.compile`, or was called by what was given.
    """

    def __init__(self, function: Callable) -> None:
        self._function = weakref.ref(function)
        self._compiles: list[RecordedCompile] = []
        self._own: set[int] = set()  # by identity of the record
        self._open = threading.local()  # .stack: of this thread
        self._by_id: dict[tuple[int, int] | None, RecordedCompile] = {}
        self._subscription: events.Subscription | None = None

    def start(self) -> None:
        """Listens until `stop()`, or until the backend function is gone."""
        recorder = weakref.ref(self)

        def reader(event: events.Event) -> None:
            alive = recorder()
            if alive is not None:
                alive.read(event)

        subscription = self._subscription = events.subscribe(reader)
        weakref.finalize(self, subscription.close)

    def stop(self) -> None:
        if self._subscription is not None:
            self._subscription.close()

    @property
    def compiles(self) -> list[RecordedCompile]:
        """Those of the backend function."""
        return [one for one in self._compiles if id(one) in self._own]

    def note_graph(self, module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        """Called by the backend function with what it is called with."""
        now = self._innermost()
        if now is None:
            return
        self._own.add(id(now))
        # The sizes of the examples tell those of the graph later: looking at its nodes now would count as the backend's
        # time.
        shapes = [tuple(one.shape) if hasattr(one, "shape") else None for one in example_inputs]
        if now.handed_over:
            now.graphs.pop()
        now.handed_over += 1
        now.graphs.append(RecordedGraph(module, shapes, now.hints))

    # ----

    def read(self, event: events.Event) -> None:
        read = _READS.get(type(event))
        if read is not None:
            read(self, event)

    def _stack(self) -> list[RecordedCompile]:
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        return self._open.stack

    def _innermost(self) -> RecordedCompile | None:
        stack = self._stack()
        return stack[-1] if stack else None

    def _compile_started(self, event: events.CompileStarted) -> None:
        record = RecordedCompile(event)
        self._stack().append(record)
        self._compiles.append(record)
        self._by_id[event.compile_id] = record
        if event.backend_function is self._function():
            self._own.add(id(record))

    def _compile_finished(self, event: events.CompileFinished) -> None:
        stack = self._stack()
        if not stack:  # it began before anybody listened
            return
        record = stack.pop()
        record.milliseconds, record.failed = dict(event.milliseconds), event.failed
        if id(record) not in self._own:
            self._compiles = [one for one in self._compiles if one is not record]
            self._by_id.pop(record.started.compile_id, None)

    def _backend_started(self, event: events.BackendStarted) -> None:
        now = self._innermost()
        if now is not None:
            now.graphs, now.handed_over = [], 0  # an attempt before it came to nothing
            now.hints = {name: hint for name, (_, hint) in event.symbols.items()}

    def _region_finished(self, event: events.RegionFinished) -> None:
        now = self._innermost()
        if now is not None and id(now) in self._own:
            now.region = RecordedRegion(event.number, event.name, event.guards, event.effects, event.begin >= 0)

    def _graph_break(self, event: events.GraphBreak) -> None:
        now = self._innermost()
        if now is not None:
            now.breaks.append(event.record)

    def _recompiled(self, event: events.Recompiled) -> None:
        record = self._by_id.get(event.compile_id)
        if record is not None:
            record.recompile = event.record


_READS: dict[type[events.Event], Callable[[Any, Any], None]] = {
    events.CompileStarted: Recorder._compile_started,
    events.CompileFinished: Recorder._compile_finished,
    events.BackendStarted: Recorder._backend_started,
    events.RegionFinished: Recorder._region_finished,
    events.GraphBreak: Recorder._graph_break,
    events.Recompiled: Recorder._recompiled,
}
