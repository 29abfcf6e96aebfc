"""The points where tools look at graphs and kernels, and where they change which file these run from (docs/stable.md)."""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch._guards import CompileContext

from pellucid import _core, _graph_readers, events

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from pellucid._dump.graphs import GraphText
    from pellucid._dump.stepping import Stepping

__all__ = [
    "Artifact",
    "HookHandle",
    "innermost_fn",
    "register_artifact_hook",
    "register_graph_code_hook",
    "register_kernel_loader",
]

_NUMBERED = ("post_grad", "kernel")


@dataclass(frozen=True)
class Artifact:
    """A graph, or the code that a backend has made of one, as text."""

    name: str
    """The captured graph that it is, or is made of: "__compiled_fn_0", behind a graph break "__resume_at_26_1"."""
    kind: str
    """"captured", of AOTAutograd "joint", "forward" and "backward", of Inductor "post_grad" and "kernel"."""
    index: int
    """Which one of this kind of the same graph, from 0 on."""
    text: str

    @property
    def file_name(self) -> str:
        """How a dump calls it: "__compiled_fn_0.kernel_1.py"."""
        number = self.name.rpartition("_")[2]
        suffix = f"_{self.index}" if self.index or self.kind in _NUMBERED else ""
        return f"__compiled_fn_{number}.{self.kind}{suffix}.py"


class HookHandle:
    """What the functions that register a hook give: ends with `remove()`."""

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo: Callable[[], object] | None = undo

    def remove(self) -> None:
        """The hook is not called any more. A second time it does nothing.

        Example:
            >>> handle.remove()
        """
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()


def innermost_fn(fn: Callable) -> Callable:
    """The function of the user, below any number of the wrappers that `compile`, `disable` and their like put around it.

    Wrappers of others (`functools.wraps`) are functions of the user. A compiled module gives the module.

    Raises:
        TypeError: `fn` cannot be called.

    Example:
        >>> pellucid.innermost_fn(pellucid.compile(pellucid.disable(f))) is f
        True
    """
    if not callable(fn):
        raise TypeError(f"innermost_fn needs a callable, not {type(fn).__name__}")
    while True:
        inner = _wrapped_by_compilers(fn)
        if inner is None or inner is fn:
            return fn
        fn = inner


def _wrapped_by_compilers(fn: Callable) -> Callable | None:
    """What pellucid or torch.compile has wrapped; None: `fn` is a function of the user."""
    from pellucid import api

    code = getattr(fn, "__code__", None)
    if code is not None and code in api.disable.__code__.co_consts:
        return fn.__wrapped__  # type: ignore[attr-defined]
    # functools.wraps copies the marks of torch's wrappers to those of others, who are not the one that is named there.
    if getattr(fn, "_torchdynamo_wrapper_id", id(fn)) != id(fn):
        return None
    inner = getattr(fn, "_torchdynamo_orig_callable", None)
    return inner if callable(inner) else None


class _Names:
    """The names of the graphs that compiles have made, while anybody wants to know them."""

    def __init__(self) -> None:
        self._by_compile: dict[tuple[int, int], str] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def note(self, event: events.BackendStarted) -> None:
        if event.compile_id is not None:
            self._by_compile[event.compile_id] = event.name

    def of(self, compile_id: tuple[int, int]) -> str | None:
        return self._by_compile.get(compile_id)

    def now(self) -> str | None:
        """Of the graph that torch says something is compiled for now."""
        now = CompileContext.current_compile_id()
        if now is None or now.frame_id is None or now.frame_compile_id is None:
            return None
        return self.of((now.frame_id, now.frame_compile_id))

    def next_index(self, name: str, kind: str) -> int:
        index = self._counts.get((name, kind), -1) + 1
        self._counts[name, kind] = index
        return index


def _check(hook: object) -> None:
    if not callable(hook):
        raise TypeError(f"hook must be callable, not {type(hook).__name__}")


def _asked(hook: Callable, *arguments: Any) -> Any:
    """What the hook says; what it raises is reported, and it has said nothing then."""
    try:
        return hook(*arguments)
    except Exception as error:
        _core.report_unraisable(error, hook)
        return None


def register_artifact_hook(hook: Callable[[Artifact], None]) -> HookHandle:
    """From here on `hook` is called with each graph that is captured, and with each graph and each kernel file that AOTAutograd and
    Inductor make of it, as text: all of them pass here, whatever shows or keeps them.

    What it raises is reported through `sys.unraisablehook`, and changes nothing else.

    Args:
        hook: a function of an `Artifact`: `name`, `kind`, `index`, `text`, `file_name`.

    Raises:
        TypeError: `hook` cannot be called.

    Example:
        >>> handle = pellucid.register_artifact_hook(lambda one: Path(one.file_name).write_text(one.text))
        >>> compiled(x)
        >>> handle.remove()
    """
    from pellucid._dump import graphs
    from pellucid._dump.artifacts import Handler

    _check(hook)
    names = _Names()

    def tell(name: str, kind: str, text: str) -> None:
        _asked(hook, Artifact(name, kind, names.next_index(name, kind), text))

    def read(event: events.Event) -> None:
        if isinstance(event, events.BackendStarted):
            names.note(event)
            tell(event.name, "captured", graphs.text_of(event.graph_module, "").text)

    def note(compile_id: tuple[int, int], kind: str, text: str, file: str) -> None:
        name = names.of(compile_id)
        if name is not None:
            tell(name, kind, text if kind == "kernel" else graphs.as_python(text, kind))

    handler = Handler(note)
    undo = contextlib.ExitStack()
    undo.enter_context(events.subscribe(read))
    undo.callback(handler.stop)
    handler.start()
    return HookHandle(undo.close)


def register_graph_code_hook(hook: Callable[[str, str], str | Path | None]) -> HookHandle:
    """From here on `hook` says from which file the Python function behind a graph runs: that of a captured graph, and the forward
    and backward graphs that `aot_eager` runs as they are.

    Debuggers stop in that file, and tracebacks name it. `handle.remove()` gives the functions their own code again.

    Args:
        hook: gets the name of the graph ("__compiled_fn_0.captured", "….forward", "….backward") and its text, and gives the path of a
            file that holds this text, or None. What it raises is reported through `sys.unraisablehook`.

    Raises:
        TypeError: `hook` cannot be called.

    Example:
        >>> def to_file(name, text):
        ...     path = Path(f"graphs/{name}.py")
        ...     path.write_text(text)
        ...     return path
        >>> handle = pellucid.register_graph_code_hook(to_file)
    """
    from pellucid._dump.stepping import Stepping

    _check(hook)
    redirect = _Redirect(hook, Stepping())
    undo = contextlib.ExitStack()
    undo.callback(redirect.stepping.swaps.undo)
    undo.enter_context(events.subscribe(redirect.read))
    for readers, reader in ((_graph_readers.captured, redirect.captured), (_graph_readers.made, redirect.made)):
        readers.append(reader)
        undo.callback(readers.remove, reader)
    return HookHandle(undo.close)


class _Redirect:
    """What `register_graph_code_hook` does with each graph."""

    def __init__(self, hook: Callable[[str, str], str | Path | None], stepping: Stepping) -> None:
        self.stepping = stepping
        self._hook = hook
        self._names = _Names()
        self._lock = threading.RLock()
        self._texts: dict[str, tuple[GraphText, Path]] = {}  # of the compiles that are open

    def read(self, event: events.Event) -> None:
        from pellucid._dump import graphs

        if isinstance(event, events.BackendStarted):
            self._names.note(event)
            text = graphs.text_of(event.graph_module, "")
            place = _asked(self._hook, f"{event.name}.captured", text.text)
            if place is not None:
                self._texts[event.name] = (text, Path(place))
        elif isinstance(event, events.RegionFinished):
            found = self._texts.pop(event.name, None)
            called = event.emitted_function.__globals__.get(event.name)
            if found is not None:
                text, place = found
                self.stepping.run_assembled(getattr(called, "__wrapped__", None), place, text.first, text.line_of)

    def captured(self, module: GraphModule) -> None:
        from pellucid._fx import name_of_graph

        found = self._texts.get(name_of_graph(module))
        if found is None:
            return
        text, place = found
        native = module.__dict__.get("_native_forward")
        if isinstance(native, types.FunctionType):
            self.stepping.run_assembled(native, place, text.first, text.line_of)
        else:
            module.forward  # noqa: B018  torch.fx writes it when it is first asked for
            self.stepping.run_text(module, text.text, place, text.globals)

    def made(self, module: GraphModule) -> None:
        from pellucid._dump import graphs

        name = self._names.now()
        if name is None:
            return
        inputs = [str(node.target) for node in module.graph.find_nodes(op="placeholder")]
        kind = "backward" if any(one.startswith("tangents") for one in inputs) else "forward"
        text = graphs.text_of(module, "", kind)
        place = _asked(self._hook, f"{name}.{kind}", text.text)
        if place is not None:
            self.stepping.run_text(module, text.text, Path(place), text.globals)


def register_kernel_loader(hook: Callable[[str, str], str | Path | None]) -> HookHandle:
    """From here on `hook` says which file is loaded for each kernel file of Inductor's.

    Args:
        hook: gets the name of the graph ("__compiled_fn_0") and the path of the file that Inductor has written, and gives the path
            of the file to load instead, or None. What it raises is reported through `sys.unraisablehook`.

    Raises:
        TypeError: `hook` cannot be called.

    Example:
        >>> handle = pellucid.register_kernel_loader(lambda name, path: shutil.copy(path, f"{name}.kernel.py"))
    """
    from pellucid._dump.stepping import kernels_from

    _check(hook)
    names = _Names()

    def read(event: events.Event) -> None:
        if isinstance(event, events.BackendStarted):
            names.note(event)

    def place_of(path: str) -> Path | None:
        name = names.now()
        place = None if name is None else _asked(hook, name, path)
        return None if place is None else Path(place)

    undo = contextlib.ExitStack()
    undo.enter_context(events.subscribe(read))
    undo.enter_context(kernels_from(place_of))
    return HookHandle(undo.close)
