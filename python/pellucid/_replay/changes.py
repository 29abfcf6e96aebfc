"""What a program has changed in libraries: flags of modules and classes, and methods that torch wraps when it is used.

Which these are is not known when a record is written. So it has the values that the capture may have read, and a replay puts those in
the place of its own, as long as it captures, that differ.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pellucid._replay import library
from pellucid._replay.codes import codes_in, compiled
from pellucid._replay.errors import RecordError

if TYPE_CHECKING:
    from pellucid._replay.reader import Reader
    from pellucid._replay.writer import Writer

_FLAGS = (bool, int, float, str, type(None))
_NO_VALUE = object()


def written(writer: Writer, codes: Iterable[types.CodeType]) -> list[list[Any]]:
    """[module, class or "", name, whether it is a function, part] of all that the code of libraries may have read."""
    rows: list[list[Any]] = []
    for module, owner, holder in _holders(codes):
        for name, value in list(holder.__dict__.items()):
            if name not in writer.names or name.startswith("__"):
                continue
            if type(value) in _FLAGS:
                rows.append([module, owner, name, False, writer.write(value, f"{module}.{owner}.{name}")])
            elif isinstance(value, types.FunctionType) and owner and _is_wrapper(value, f"{owner}.{name}"):
                part = writer.write_layered(value, (module, f"{owner}.{name}"), layers_of(value))
                rows.append([module, owner, name, True, part])
    return rows


def _holders(codes: Iterable[types.CodeType]) -> Iterator[tuple[str, str, Any]]:
    """The modules and classes of libraries whose code this is."""
    seen = set()
    for code in codes:
        name, _ = library.module_of_file(code.co_filename)
        if not _may_change(name):
            continue
        owner = code.co_qualname.partition(".<locals>")[0].rpartition(".")[0] if "." in code.co_qualname else ""
        for holder in ("", owner):
            if (name, holder) not in seen:
                seen.add((name, holder))
                with contextlib.suppress(RecordError):
                    yield name, holder, library.found(name, holder)


def _may_change(module: str) -> bool:
    return module.partition(".")[0] in ("torch", "numpy")


def _is_wrapper(function: types.FunctionType, name: str) -> bool:
    return function.__code__.co_qualname != name


def layers_of(function: Any) -> list[str]:
    """The names in the code of a function and of those that it wraps."""
    layers: list[str] = []
    while isinstance(function, types.FunctionType) and len(layers) < 50:
        layers.append(function.__code__.co_qualname)
        function = function.__dict__.get("__wrapped__")
    return layers


@contextlib.contextmanager
def held(rows: list[list[Any]], reader: Reader, notes: list[str]) -> Iterator[None]:
    """The libraries as they were for the recorded capture. `notes` gets what cannot be so."""
    with contextlib.ExitStack() as stack:
        for module, owner, name, is_function, part in rows:
            if not _may_change(module):
                raise RecordError(f"the record changes {module}")
            try:
                holder = library.found(module, owner)
            except RecordError as error:
                notes.append(str(error))
                continue
            now = holder.__dict__.get(name, _NO_VALUE)
            value = reader.part(part)
            if not is_function:
                _switch(stack, holder, name, now, value)
            elif value is not now:
                if isinstance(holder, type) and isinstance(value, types.FunctionType) and _is_of_library(value):
                    _replace(stack, holder, name, now, value)
                else:
                    notes.append(f"The program has replaced {module}.{owner}.{name}; here it is the library's own.")
        yield


def _switch(stack: contextlib.ExitStack, holder: Any, name: str, now: Any, value: Any) -> None:
    is_flag = type(now) in _FLAGS and type(value) in _FLAGS
    if is_flag and (type(now) is not type(value) or now != value):
        _replace(stack, holder, name, now, value)


def _replace(stack: contextlib.ExitStack, holder: Any, name: str, now: Any, value: Any) -> None:
    put, drop = (type.__setattr__, type.__delattr__) if isinstance(holder, type) else (setattr, delattr)
    put(holder, name, value)
    stack.callback(*((drop, holder, name) if now is _NO_VALUE else (put, holder, name, now)))


def _is_of_library(function: types.FunctionType) -> bool:
    """Whether its code is in the module that its globals are of, as that module is here."""
    module = library.module_named(function.__globals__.get("__name__", ""))
    return module.__dict__ is function.__globals__ and function.__code__ in _codes_of(module.__dict__.get("__file__"))


@functools.lru_cache(maxsize=16)
def _codes_of(filename: str | None) -> frozenset[types.CodeType]:
    if filename is None:
        return frozenset()
    with open(filename, encoding="utf-8") as file:
        return frozenset(code for _, code in codes_in(compiled(file.read(), filename)))
