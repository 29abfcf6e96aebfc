"""Late guards: a part of a graph that runs in the backward pass (a checkpointed block, the backward of an autograd.Function) was
captured with what it read of the program then. Where that has changed until it runs, the pass raises, and the call that has
the part is no part of graphs any more."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

# The places (file, line) of such calls -> what has changed. Guarded by the regions that have the call.
CHANGED: dict[tuple[str, int], str] = {}

_MISSING = object()
_VALUES = (int, float, complex, str, bytes, bool, type(None))


class _Now(threading.local):
    guard: LateGuard | None = None


_now = _Now()


class LateGuard:
    """Hung before the backward pass of what one call of a graph gives."""

    def __init__(self) -> None:
        self.reads: list[tuple] = []

    def __call__(self, gradients: Any) -> None:
        for place, owner, kind, key, value, text, where in self.reads:
            base = owner()
            if base is None:
                continue
            now = _read(base, kind, key)
            if _is_same(now, value):
                continue
            CHANGED[place] = text
            raise RuntimeError(
                f"pellucid: {text} was {_shown(value)} in the forward pass and is {_shown(now)} in the backward pass. The "
                f"call at {place[0]}:{place[1]} has a function that runs in the backward pass and reads it "
                f"({where[0]}:{where[1]}); it was compiled with the value of the forward pass. From now on this call is "
                "not compiled."
            )


class Guarded:
    """A compiled graph with such parts."""

    def __init__(self, graph: Callable) -> None:
        self.graph = graph

    def __call__(self, *args: Any) -> Any:
        _now.guard = None
        outputs = self.graph(*args)
        guard = LateGuard()
        hung = set()
        for output in outputs:
            node = output.grad_fn if isinstance(output, torch.Tensor) else None
            if node is not None and node not in hung:
                hung.add(node)
                node.register_prehook(guard)
        _now.guard = guard
        return outputs


def watch(place: tuple[str, int], reads: tuple) -> None:
    """Called behind the graph: where the values are that its parts have read."""
    guard = _now.guard
    if guard is None:  # the graph runs as it was captured
        return
    for kind, owner, key, text, file, line in reads:
        guard.reads.append((place, _reference(owner), kind, key, _read(owner, kind, key), text, (file, line)))


def _reference(owner: Any) -> Callable[[], Any]:
    """Modules may hold what was computed: a strong reference would be a cycle through autograd."""
    try:
        return weakref.ref(owner)
    except TypeError:
        return lambda: owner


def _read(owner: Any, kind: str, key: Any) -> Any:
    try:
        if kind == "attribute":
            return object.__getattribute__(owner, "__dict__").get(key, _MISSING)
        if kind == "key":
            return dict.get(owner, key, _MISSING)
        if kind == "cell":
            return owner.cell_contents
        return owner[key]
    except (AttributeError, LookupError, ValueError):
        return _MISSING


def _is_same(now: Any, value: Any) -> bool:
    if now is value:
        return True
    if type(now) is not type(value):
        return False
    if isinstance(now, tuple):
        return len(now) == len(value) and all(map(_is_same, now, value))
    return isinstance(now, _VALUES) and now == value


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    return repr(value) if isinstance(value, _VALUES) else f"another {type(value).__name__}"
