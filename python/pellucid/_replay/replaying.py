"""Captures of records: `pellucid.replay`, and `pellucid.record` for captures that did not fail."""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import linecache
import platform
import re
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from pellucid import events
from pellucid._replay import changes, file, library
from pellucid._replay.errors import RecordError
from pellucid._replay.outcome import Outcome, Settings, captured
from pellucid._replay.reader import Reader
from pellucid._replay.recording import default_path, imports_of, record_call
from pellucid._replay.results import Recorded, Replayed, Status

_AT = re.compile(r"NotRecorded at 0x([0-9a-f]+)")


def replay(path: Path, trust: bool) -> Replayed:
    record, texts = file.read(path)
    try:
        with _Held():
            return _replayed(path, record, texts, trust)
    except RecordError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RecordError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def missing_in(path: str | Path) -> list[tuple[str, str]]:
    """What of a record could not be recorded: how it is reached, and why it is not there.

    Raises:
        RecordError: it is no record.
        OSError: there is no such file.

    Example:
        >>> missing_in("f.rec")
        [("args[0].handle", "_io.TextIOWrapper: an object of C code, of which nothing is known")]
    """
    record, _ = file.read(Path(path))
    return [(str(where), str(why)) for where, why in record.get("missing", ())]


def _replayed(path: Path, record: dict[str, Any], texts: list[str], trust: bool) -> Replayed:
    recorded = Outcome(**record["outcome"])
    settings = Settings(**record["settings"])
    call = record["call"]
    reader = Reader(record["rows"], texts)
    try:
        reader.read()
    except RuntimeError as error:  # of torch, about a tensor in the place of something else
        raise RecordError(f"{path} is damaged: {error}") from error
    function = reader.part(call["function"])
    if not isinstance(function, types.FunctionType):
        missing = "; ".join(f"{where}: {why}" for where, _, why in reader.missing.values())
        raise RecordError(f"{path} does not contain the function that was captured ({missing[:500]})")
    args = tuple(reader.parts(call["args"]))
    kwargs = {str(name): reader.part(value) for name, value in call["kwargs"].items()}
    imports = {name: reader.part(value) for name, value in call["imports"].items()}
    reorderable = reader.part(call["reorderable"])
    if not isinstance(reorderable, (types.NoneType, set, frozenset, list, tuple)):
        raise RecordError(f"{path} is damaged: reorderable is a {type(reorderable).__name__}")
    logs = {each for each in reorderable or () if isinstance(each, types.FunctionType)}
    read: dict[str, None] = {}

    notes = _other_versions(record)
    guard = _NothingRuns(set() if trust else reader.codes, read)

    def see(event: events.Event) -> None:
        if not isinstance(event, events.Instruction):
            return
        guard.arm()
        for text in event.stack if reader.missing else ():
            for address in _AT.findall(text):
                known = reader.missing.get(int(address, 16))
                if known is not None:
                    read.setdefault(f"{known[0]}: a {known[1]} ({known[2]})")

    with contextlib.ExitStack() as stack:
        stack.enter_context(settings.hold())
        stack.enter_context(_with_logs(logs))
        stack.enter_context(_lines_of(record["rows"], texts))
        stack.enter_context(_modules(imports, reader))
        stack.enter_context(_without_devices())
        stack.enter_context(changes.held(record["libraries"], reader, notes))
        stack.enter_context(events.subscribe(see, instructions=True))
        with guard:
            outcome, stop = captured(function, args, kwargs, settings)
    is_same = outcome.key() == recorded.key()
    for name in record["operators"]:
        if not _has_operator(name):
            read.setdefault(f"torch.ops.{name}: an operator that no library here has registered")
    status: Status = "same" if is_same else "not recorded" if read else "differs"
    return Replayed(path, status, outcome, recorded, stop, list(read), notes)


def _has_operator(name: str) -> bool:
    namespace, _, operator = name.partition(".")
    if not (namespace.isidentifier() and operator.isidentifier()):
        raise RecordError("the record is damaged: an operator without a name")
    try:
        getattr(getattr(torch.ops, namespace), operator)
    except (AttributeError, RuntimeError):
        return False
    return True


def _other_versions(record: dict[str, Any]) -> list[str]:
    here = {"python": platform.python_version(), "torch": torch.__version__}
    return [
        f"The record was made with {name} {record.get(name)}; this is {version}."
        for name, version in here.items()
        if record.get(name) != version
    ]


class _Held(contextlib.AbstractContextManager):
    """One replay at a time in a process: it stands in for modules and lines of source."""

    _lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@contextlib.contextmanager
def _with_logs(functions: set[Any]) -> Iterator[None]:
    from pellucid import config

    with config.patch(reorderable_logging_functions={*config.value_of("reorderable_logging_functions"), *functions}):
        yield


@contextlib.contextmanager
def _lines_of(rows: list[list[Any]], texts: list[str]) -> Iterator[None]:
    """The lines of the program, as `linecache` would have read them."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        form = row[4] if row[0] == "function" else None
        if not isinstance(form, dict):
            continue
        name = form["file"]
        if "places" not in form:
            lines[name] = texts[form["text"]].splitlines(keepends=True)
            continue
        first, shown = form.get("shown", [1, []])
        if type(first) is int and 0 < first < 1_000_000 and shown:
            known = lines.setdefault(name, [])
            known += ["\n"] * (first + len(shown) - 1 - len(known))
            known[first - 1 : first - 1 + len(shown)] = [f"{line}\n" for line in shown]
    before = {name: linecache.cache.get(name) for name in lines}
    linecache.cache.update({name: (sum(map(len, each)), None, each, name) for name, each in lines.items()})
    try:
        yield
    finally:
        for name, entry in before.items():
            linecache.cache.pop(name, None)
            if entry is not None:
                linecache.cache[name] = entry


class _Refuses(importlib.abc.MetaPathFinder):
    """Keeps import statements of a record from loading what is on this machine."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._tops = {top for top in (name.partition(".")[0] for name in names) if not library.is_library(top)}
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        is_asked = fullname in self._names or fullname.partition(".")[0] in self._tops
        if is_asked and threading.get_ident() == self._thread and not library.is_importable(fullname):
            raise ImportError(f"a replay does not import {fullname}, which is not in the record", name=fullname)


@contextlib.contextmanager
def _modules(imports: dict[str, Any], reader: Reader) -> Iterator[None]:
    """Stand-ins of the modules that the program imports while it is captured; nothing else of its is imported."""
    stand_ins = {
        name: module
        for name, module in imports.items()
        if isinstance(module, types.ModuleType) and not library.is_library(name)
    }
    packages = {str(module.__dict__.get("__package__") or name) for name, module in reader.modules.items()}
    names = set(packages)
    for code in reader.codes:
        for package in packages | {""}:
            names.update(imports_of(code, package))
    before = {name: sys.modules.get(name) for name in stand_ins}
    finder = _Refuses(names)
    sys.modules.update(stand_ins)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@contextlib.contextmanager
def _without_devices() -> Iterator[None]:
    """Tensors of a device that this machine lacks are made as fakes, so torch need not start the device."""
    lazy = [module for module in (torch.cuda, torch.xpu) if not module.is_available()]
    before = [module._lazy_init for module in lazy]
    for module in lazy:
        module._lazy_init = lambda: None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, function in zip(lazy, before, strict=True):
            module._lazy_init = function  # type: ignore[attr-defined]


class _NothingRuns(contextlib.AbstractContextManager):
    """An error before the first instruction of a function of the record that is called after all; `told` gets its name.

    There are calls of that kind: a capture asks a function with its own gradient what shapes it gives.
    """

    def __init__(self, codes: set[types.CodeType], told: dict[str, None]) -> None:
        self._codes = codes
        self._told = told
        self._thread = threading.get_ident()

    def arm(self) -> None:
        """CPython drops a profile function that has raised: it is set once more before the next instruction is captured."""
        if self._codes and threading.get_ident() == self._thread and sys.getprofile() is None:
            sys.setprofile(self._see)

    def _see(self, frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in self._codes:
            name = frame.f_code.co_qualname
            self._told.setdefault(f"{name}: captures run it for real, and a replay only if it is told to")
            raise RecordError(f"{name} of the record was about to run, which no replay does")

    def __enter__(self) -> None:
        self._before = sys.getprofile()
        sys.setprofile(None)
        self.arm()

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)


def record(function: Callable, path: Path | None, fullgraph: bool, backend: str | Callable) -> Callable[..., Recorded]:
    from pellucid import api

    settings = api.Settings(fullgraph=fullgraph, backend=backend)
    plain, first = _called(function)

    @functools.wraps(plain)
    def recorded(*args: Any, **kwargs: Any) -> Recorded:
        now = Settings.now(settings.resolved, fullgraph, False)

        def target(outcome: Outcome) -> Path:
            line = plain.__code__.co_firstlineno
            return path or default_path(plain.__qualname__, outcome.code or "captured", line)

        return Recorded(*record_call(plain, (*first, *args), kwargs, now, target))

    return recorded


def _called(function: Any) -> tuple[types.FunctionType, tuple[Any, ...]]:
    """The Python function that a call runs, and the arguments before those of the call."""
    from pellucid import _core, api
    from pellucid._module import OptimizedModule

    if isinstance(function, OptimizedModule):
        function = function._orig_mod
    if isinstance(function, _core.CompiledFunction):
        function = function.__wrapped__
    if isinstance(function, types.MethodType):
        below, first = _called(function.__func__)
        return below, (function.__self__, *first)
    if isinstance(function, types.FunctionType):
        return function, ()
    call = getattr(type(function), "__call__", None)  # noqa: B004
    if isinstance(call, types.FunctionType) and not isinstance(function, type):
        return call, (function,)
    return api._calling(function), ()
