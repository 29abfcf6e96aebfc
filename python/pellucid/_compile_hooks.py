"""`pellucid.register_compile_hook`: what a feature built on pellucid does around the graph of one compile."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pellucid import _core, events

if TYPE_CHECKING:
    from torch.fx import GraphModule

__all__ = ["CompileHook", "CompileInProgress", "register_compile_hook"]

Hook = Callable[["CompileInProgress"], None]


class CompileInProgress:
    """What a hook of `register_compile_hook` gets: one capture, and what is to be done around its graph.

    It takes more until its graph is handed to the backend: also code of `pellucid.comptime` may add to it while the capture runs.
    """

    def __init__(self, event: events.CompileStarted) -> None:
        self.function: types.FunctionType = event.function
        self.code: types.CodeType = event.code
        self.compile_id: tuple[int, int] | None = event.compile_id
        self.begins_behind_break: bool = event.goes_on
        self._cleanups: list[Callable[[], object]] = []
        self._finalizers: list[Callable[[GraphModule], object]] = []
        self._before_graph: list[Callable[[], object]] = []

    def add_cleanup(self, hook: Callable[[], object]) -> None:
        """`hook` is called once when the capture is over: just before the backend, the one that was added last first. A capture that
        is dropped, or calls no backend, ends with it too.

        Example:
            >>> compile.add_cleanup(cache.clear)
        """
        self._cleanups.append(hook)

    def add_graph_finalizer(self, finalizer: Callable[[GraphModule], object]) -> None:
        """`finalizer` gets the finished `torch.fx.GraphModule` before the backend does, and may change it. What it raises ends the
        compile and reaches whoever called the compiled function.

        Example:
            >>> compile.add_graph_finalizer(lambda gm: gm.meta.update(owner="mine"))
        """
        self._finalizers.append(finalizer)

    def add_before_graph(self, run: Callable[[], object]) -> None:
        """`run` is called at each call of the compiled code, once, right before its graph. It gets no arguments and its result is
        dropped; what it raises is reported through `sys.unraisablehook`, and the graph runs: the program knows nothing of it.

        Example:
            >>> compile.add_before_graph(counter.increment)
        """
        self._before_graph.append(run)

    def _clean_up(self) -> None:
        while self._cleanups:
            self._cleanups.pop()()

    def _finalize(self, gm: GraphModule) -> None:
        for finalizer in self._finalizers:
            finalizer(gm)


class CompileHook:
    """What `register_compile_hook` gives: ends with `remove()`."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def remove(self) -> None:
        """The hook hears of no more compiles. What it has added to a compiled version stays. A second time it does nothing.

        Example:
            >>> handle.remove()
        """
        _change(lambda now: tuple(one for one in now if one is not self))


def register_compile_hook(hook: Hook) -> CompileHook:
    """From here on `hook` is called with each capture as it begins, and says what is to be done around its graph.

    A capture that is begun anew (for other numbers, or because the region ends earlier) calls it again. What the hook itself raises
    is reported through `sys.unraisablehook`. While a hook is registered a `torch.fx` graph is made for the backend `eager` too.

    Args:
        hook: a function of a `CompileInProgress`, which has `add_cleanup`, `add_graph_finalizer` and `add_before_graph`.

    Raises:
        TypeError: `hook` cannot be called.

    Example:
        >>> handle = pellucid.register_compile_hook(lambda compile: compile.add_graph_finalizer(print))
        >>> compiled(x)
        >>> handle.remove()
    """
    if not callable(hook):
        raise TypeError(f"hook must be callable, not {type(hook).__name__}")
    made = CompileHook(hook)
    _change(lambda now: (*now, made))
    return made


_LOCK = threading.Lock()
_hooks: tuple[CompileHook, ...] = ()
_subscription: events.Subscription | None = None
_open = (
    threading.local()
)  # .compiles: those under way in this thread, (how each began, what is done around it), outermost first


def _change(change: Callable[[tuple[CompileHook, ...]], tuple[CompileHook, ...]]) -> None:
    global _hooks, _subscription
    with _LOCK:
        _hooks = change(_hooks)
        _core.set_graphs_are_changed(bool(_hooks))
        if _hooks and _subscription is None:
            _subscription = events.subscribe(_read)
        elif not _hooks and _subscription is not None:
            _subscription.close()
            _subscription = None


def _compiles() -> list[tuple[events.CompileStarted, CompileInProgress]]:
    if not hasattr(_open, "compiles"):
        _open.compiles = []
    return _open.compiles


def _read(event: events.Event) -> None:
    compiles = _compiles()
    if isinstance(event, events.CompileStarted):
        compiles.append((event, _begun(event)))
    elif isinstance(event, events.CaptureRestarted) and compiles:
        started, dropped = compiles.pop()
        dropped._clean_up()
        compiles.append((started, _begun(started)))
    elif isinstance(event, events.CompileFinished) and compiles:
        compiles.pop()[1]._clean_up()


def _begun(event: events.CompileStarted) -> CompileInProgress:
    made = CompileInProgress(event)
    for hook in _hooks:
        try:
            hook._hook(made)
        except Exception as error:
            _core.report_unraisable(error, hook._hook)
    return made


def before_backend(gm: GraphModule) -> Callable[[Callable], Callable]:
    """Called with a finished graph, just before its backend; gives what is to be done with the compiled form.

    Example:
        >>> compiled = before_backend(gm)(backend(gm, inputs))
    """
    compiles = _compiles()
    if not compiles:
        return lambda compiled: compiled
    _, now = compiles[-1]
    now._clean_up()
    now._finalize(gm)
    before = tuple(now._before_graph)
    return lambda compiled: _with_code_before(before, compiled) if before else compiled


def is_used() -> bool:
    """Whether any hook is registered.

    Example:
        >>> if is_used():
        ...     wrap = before_backend(gm)
    """
    return bool(_hooks)


def _with_code_before(before: tuple[Callable[[], object], ...], compiled: Callable) -> Callable:
    def call(*inputs: Any) -> Any:
        for run in before:
            try:
                run()
            except Exception as error:
                _core.report_unraisable(error, run)
        return compiled(*inputs)

    return call
