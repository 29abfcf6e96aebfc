"""What happened, as it happens: the one stream that logs, traces and reports read.

    with pellucid.events.subscribe(print):
        compiled(x)

Events come in the order in which things happen, in the thread that compiles. Without a subscriber nothing is made. A call
that fits a compiled version is no event. See docs/design/events.md.
"""

from __future__ import annotations

import functools
import threading
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pellucid import _core
from pellucid.errors import BreakRecord

__all__ = [
    "BackendFinished",
    "BackendStarted",
    "CaptureRestarted",
    "CompileFinished",
    "CompileStarted",
    "Event",
    "GraphBreak",
    "Instruction",
    "LimitHit",
    "Recompiled",
    "RegionFinished",
    "Subscription",
    "subscribe",
]


@dataclass(frozen=True)
class Event:
    """What all events have."""

    compile_id: tuple[int, int] | None = field(default=None, kw_only=True)
    """Which function, and which compile of it; None outside of compiles."""
    seconds: float = field(default_factory=time.perf_counter, kw_only=True)
    thread: int = field(default_factory=threading.get_ident, kw_only=True)


@dataclass(frozen=True)
class CompileStarted(Event):
    """A function is compiled, from its start or from behind a graph break."""

    code: types.CodeType
    function: types.FunctionType
    begins_at: tuple[tuple[types.CodeType, int], ...]
    """Where the part behind a graph break begins: the open frames, outermost first, with the byte offsets where they go on. Empty
    at the start of the function."""
    fullgraph: bool
    """Whether a graph break is an error."""
    backend: str
    backend_function: Callable = field(repr=False)
    """What is called with graphs, as it was given to `pellucid.compile`: who has made it knows its own compiles by it."""

    @property
    def goes_on(self) -> bool:
        """Whether it is the part behind a graph break."""
        return bool(self.begins_at)


@dataclass(frozen=True)
class CaptureRestarted(Event):
    """What was captured in this compile is dropped, torch's state is put back, and the program is captured once more."""

    why: str


@dataclass(frozen=True)
class CompileFinished(Event):
    """The compile that began last in this thread has ended."""

    failed: bool
    """Whether it raised. A graph break is no failure."""
    milliseconds: dict[str, float]
    """What each of its phases took, by the names of `pellucid.compile_times`. A phase that ran twice counts twice."""


@dataclass(frozen=True)
class _OfRegion(Event):
    """What is told of a region is made when it is first read, which has to be while the event is told; it stays then."""

    read: Callable[[str], Any] = field(repr=False, kw_only=True)

    @functools.cached_property
    def graph(self) -> str:
        """The graph as `torch.fx` prints it."""
        return self.read("graph")

    @functools.cached_property
    def symbols(self) -> dict[str, tuple[str | None, int | float]]:
        """The numbers and sizes that stay open, by the names that the graph gives them: where each comes from (None: from
        the graph), and what it is in this call."""
        symbols, _ = self.read("open")
        return {f"s{number}": (source, hint) for number, source, hint, *_ in symbols}

    @functools.cached_property
    def unused_inputs(self) -> list[str]:
        """The sources of tensors and numbers that the program read and no node of the finished graph needs."""
        return self.read("unused")

    @functools.cached_property
    def graph_module(self) -> Any:
        """The graph as a `torch.fx.GraphModule` of its own: changes of it change nothing."""
        return self.read("graph_module")


@dataclass(frozen=True)
class BackendStarted(_OfRegion):
    """A graph is handed to the backend."""

    name: str
    """"__compiled_fn_0"."""
    backend: str


@dataclass(frozen=True)
class BackendFinished(Event):
    """The backend is back."""

    error: BaseException | None


@dataclass(frozen=True)
class RegionFinished(_OfRegion):
    """A part of the program became guards, a graph and one emitted function."""

    number: int
    name: str
    code: types.CodeType
    begin: int
    """The byte offset where it begins; -1: at the start of the function."""
    emitted_function: types.FunctionType
    """What runs in its place: `dis.dis` shows the new bytecode."""
    ends_early: bool
    """Whether it ends with a graph break."""

    @functools.cached_property
    def guards(self) -> list[dict[str, Any]]:
        """A dict for each, with the fields of `pellucid.ExplainOutput.guards`."""
        return self.read("guards")

    @functools.cached_property
    def guard_lines(self) -> str:
        """A line for each guard."""
        return self.read("guard_lines")

    @functools.cached_property
    def effects(self) -> list[str]:
        """What happens to objects from outside, behind the graph."""
        return self.read("effects")

    @functools.cached_property
    def emitted(self) -> str:
        """The body of the emitted function as text."""
        return self.read("emitted")


@dataclass(frozen=True)
class GraphBreak(Event):
    """Capture stopped."""

    record: BreakRecord


@dataclass(frozen=True)
class Recompiled(Event):
    """A call fitted none of the compiled versions, and the function was compiled anew. It comes behind that compile."""

    record: Any
    """A record as `pellucid.recompile_reasons` gives them."""


@dataclass(frozen=True)
class LimitHit(Event):
    """A function is not compiled any more."""

    limit: str
    """The option."""
    text: str


class Instruction(_core.InstructionEvent, Event):
    """An instruction that is captured next.

    The core makes these, and tells the readers itself: there are tens of thousands in a capture.

    Attributes:
        code: the code that the instruction is of.
        offset: where it is in there, in bytes.
        depth: how many calls deep.
        stack: what is on the evaluation stack, in words. They are made when they are first read, which has to be while the
            event is told.
        ask: answers questions about the capture as long as the event is told. They are those of `src/region/inside.h`, and no
            part of the interface.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return (
            f"Instruction(code={self.code!r}, offset={self.offset}, depth={self.depth}, compile_id={self.compile_id})"
        )

    __eq__ = object.__eq__
    __hash__ = object.__hash__


_LOCK = threading.Lock()
_subscriptions: tuple[Subscription, ...] = ()
_open = (
    threading.local()
)  # .ids: the compiles that are open in this thread, outermost first; .last: the one that ended last


class Subscription:
    """Ends with `close()`, or with the `with` block that it heads."""

    def __init__(self, reader: Callable[[Event], None], instructions: bool) -> None:
        self.reader = reader
        self.instructions = instructions

    def close(self) -> None:
        """The reader hears nothing more. A second time it does nothing.

        Example:
            >>> subscription.close()
        """
        _change(lambda now: tuple(one for one in now if one is not self))

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def subscribe(reader: Callable[[Event], None], *, instructions: bool = False) -> Subscription:
    """From here on `reader` is called with each event, in the thread where it happens.

    What it raises is reported through `sys.unraisablehook` and changes nothing else.

    Args:
        reader: a function of an `Event`.
        instructions: also an `Instruction` for each bytecode instruction that is captured.

    Raises:
        TypeError: `reader` cannot be called.

    Example:
        >>> with pellucid.events.subscribe(seen.append):
        ...     compiled(x)
    """
    if not callable(reader):
        raise TypeError(f"reader must be callable, not {type(reader).__name__}")
    made = Subscription(reader, instructions)
    _change(lambda now: (*now, made))
    return made


def _change(change: Callable[[tuple[Subscription, ...]], tuple[Subscription, ...]]) -> None:
    global _subscriptions
    with _LOCK:
        _subscriptions = change(_subscriptions)
        _core.set_listener(_told if _subscriptions else None)
        watching = tuple(one.reader for one in _subscriptions if one.instructions)
        _core.set_instruction_readers(Instruction, watching)


def _ids() -> list[tuple[int, int]]:
    if not hasattr(_open, "ids"):
        _open.ids = []
    return _open.ids


def wanted() -> bool:
    """Whether anybody has subscribed: what nobody hears need not be made.

    Example:
        >>> if pellucid.events.wanted():
        ...     pellucid.events.emit(event)
    """
    return bool(_subscriptions)


def emit(kind: type[Event], **fields: Any) -> None:
    """Tells all subscribers of an event of this kind. The ids of the compile are added.

    Example:
        >>> emit(LimitHit, limit="recompile_limit", text="…")
    """
    if kind is Recompiled:
        compile_id = getattr(_open, "last", None)
    else:
        ids = _ids()
        compile_id = ids[-1] if ids else None
    event = object.__new__(kind)  # the constructor of a frozen dataclass costs as much as all the rest
    event.__dict__.update(fields, compile_id=compile_id, seconds=time.perf_counter(), thread=threading.get_ident())
    for subscription in _subscriptions:
        try:
            subscription.reader(event)
        except Exception as error:
            _core.report_unraisable(error, subscription.reader)


_KINDS: dict[str, type[Event]] = {
    "compile_started": CompileStarted,
    "compile_finished": CompileFinished,
    "capture_restarted": CaptureRestarted,
    "backend_started": BackendStarted,
    "backend_finished": BackendFinished,
    "region_finished": RegionFinished,
}


def _told(kind: str, fields: dict[str, Any]) -> None:
    """Called by `_core`."""
    if kind == "compile_started":
        _ids().append((fields.pop("frame_id"), fields.pop("frame_compile_id")))
    if kind == "compile_started":
        fields["backend_function"] = getattr(fields["backend"], "function", None)
    if "backend" in fields:
        fields["backend"] = getattr(fields["backend"], "name", "?")
    emit(_KINDS[kind], **fields)
    if kind == "compile_finished" and _ids():  # the start may have been before the subscription
        _open.last = _ids().pop()
