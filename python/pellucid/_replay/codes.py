"""Code objects in records: the text that they were compiled from, and which part of it they are.

What is compiled when a record is loaded is Python text, so what capture meets is bytecode that CPython itself has made: bytecode from
a file could be anything. Text that compiles to other instructions than the program has is not taken.
"""

from __future__ import annotations
import __future__

import inspect
import linecache
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pellucid._decompile import CannotDecompile, Decompiled
from pellucid._line_table311 import line_table
from pellucid._replay.errors import RecordError

_FUTURE = 0
for _feature in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _feature).compiler_flag & ~inspect.CO_NESTED


def codes_in(code: types.CodeType) -> Iterator[tuple[tuple[int, ...], types.CodeType]]:
    """The code objects within, with the places that lead there: indices of constants."""
    waiting: list[tuple[tuple[int, ...], types.CodeType]] = [((), code)]
    while waiting:
        path, at = waiting.pop()
        yield path, at
        waiting += [((*path, i), inner) for i, inner in enumerate(at.co_consts) if isinstance(inner, types.CodeType)]


def compiled(text: str, filename: str, flags: int = 0) -> types.CodeType:
    """A text, compiled. Nothing of it runs.

    Raises:
        RecordError: it is no Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(text, filename, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        raise RecordError(f"the text of {filename} in the record cannot be compiled: {error}") from error


@dataclass
class Texts:
    """The texts of a record while it is written."""

    texts: list[str] = field(default_factory=list)
    _files: dict[str, tuple[int, dict[tuple, list[tuple[tuple[int, ...], types.CodeType]]]] | None] = field(
        default_factory=dict
    )

    def form_of(self, code: types.CodeType) -> dict[str, Any] | str:
        """How a record says what this code is; a text: why it cannot."""
        whole = self._in_file(code)
        return whole if whole is not None else self._decompiled(code)

    def _in_file(self, code: types.CodeType) -> dict[str, Any] | None:
        filename = code.co_filename
        if filename not in self._files:
            self._files[filename] = self._read(filename)
        known = self._files[filename]
        if known is None:
            return None
        number, by_place = known
        for path, candidate in by_place.get((code.co_firstlineno, code.co_qualname), ()):
            if candidate == code and _same_texts(candidate, code):
                return {"text": number, "file": filename, "path": list(path), "name": code.co_qualname}
        return None

    def _read(self, filename: str) -> Any:
        text = "".join(linecache.getlines(filename))
        if not text:
            return None
        try:
            root = compiled(text, filename)
        except RecordError:
            return None
        by_place: dict[tuple, list[tuple[tuple[int, ...], types.CodeType]]] = {}
        for path, code in codes_in(root):
            by_place.setdefault((code.co_firstlineno, code.co_qualname), []).append((path, code))
        self.texts.append(text)
        return len(self.texts) - 1, by_place

    def _decompiled(self, code: types.CodeType) -> dict[str, Any] | str:
        """The source is lost, never was, or is not what was compiled."""
        try:
            found = Decompiled.of(code)
        except (CannotDecompile, ValueError) as error:
            return f"its code cannot be written as Python: {error}"
        flags = code.co_flags & _FUTURE
        try:
            root = compiled(found.module, "<decompiled>", flags)
        except RecordError as error:
            return str(error)
        for path, candidate in codes_in(root):
            if candidate.co_name == code.co_name and _same_instructions(candidate, code):
                self.texts.append(found.module)
                form = {"text": len(self.texts) - 1, "file": code.co_filename, "path": list(path)}
                form |= {"name": code.co_qualname, "flags": flags, "places": _places(code), "shown": _shown(code)}
                return form
        return "its code compiles to other instructions when it is written as Python"


def _same_texts(one: types.CodeType, other: types.CodeType) -> bool:
    return one.co_qualname == other.co_qualname and one.co_flags == other.co_flags


def _same_instructions(one: types.CodeType, other: types.CodeType) -> bool:
    parts = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_exceptiontable")
    if (one.co_flags ^ other.co_flags) & ~inspect.CO_NESTED:  # which says where the text stood, and changes nothing
        return False
    if any(getattr(one, part) != getattr(other, part) for part in parts) or len(one.co_consts) != len(other.co_consts):
        return False
    return all(_same_constant(a, b) for a, b in zip(one.co_consts, other.co_consts, strict=True))


def _same_constant(one: Any, other: Any) -> bool:
    if isinstance(one, types.CodeType):
        return isinstance(other, types.CodeType) and _same_instructions(one, other)
    return type(one) is type(other) and repr(one) == repr(other)


def _places(code: types.CodeType) -> dict[str, Any]:
    """Names and positions, which the text of a decompiled function does not have."""
    inner = [_places(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    positions: list[list[Any]] = []
    for position in code.co_positions():
        if positions and positions[-1][1:] == list(position):
            positions[-1][0] += 1
        else:
            positions.append([1, *position])
    return {
        "name": code.co_name,
        "qualname": code.co_qualname,
        "line": code.co_firstlineno,
        "at": positions,
        "in": inner,
    }


def _shown(code: types.CodeType) -> list[Any]:
    """The first line and all lines of the source, for tracebacks, where it is there though it is not what was compiled."""
    numbers = [line for _, _, line in code.co_lines() if line]
    lines = linecache.getlines(code.co_filename)
    first, last = code.co_firstlineno, max(numbers, default=0)
    return [first, [line.rstrip("\n") for line in lines[first - 1 : last]]]


def rebuilt(form: dict[str, Any], texts: list[str], roots: dict[tuple, types.CodeType]) -> types.CodeType:
    """The code object that a record means. `roots`: what its texts have been compiled to."""
    number, filename, flags = form["text"], form["file"], form.get("flags", 0)
    if flags & ~_FUTURE:
        raise RecordError("a code object of the record has flags that no text can have")
    key = (number, filename, flags)
    if key not in roots:
        roots[key] = compiled(texts[number], filename, flags)
    code = roots[key]
    for at in form["path"]:
        inner = code.co_consts[at] if 0 <= at < len(code.co_consts) else None
        if not isinstance(inner, types.CodeType):
            raise RecordError(f"the record asks for a function {form['name']} that is not in its text")
        code = inner
    if "places" in form:
        return _placed(code, form["places"], filename)
    if code.co_qualname != form["name"]:
        raise RecordError(f"the record asks for a function {form['name']} that is not in its text")
    return code


def _placed(code: types.CodeType, places: dict[str, Any], filename: str) -> types.CodeType:
    inner = iter(places["in"])
    constants = []
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            below = next(inner, None)
            if below is None:
                raise RecordError("positions of an inner function are missing in the record")
            each = _placed(each, below, filename)
        constants.append(each)
    return code.replace(
        co_consts=tuple(constants),
        co_filename=filename,
        co_name=places["name"],
        co_qualname=places["qualname"],
        co_firstlineno=places["line"],
        co_linetable=line_table(places["at"], places["line"], len(code.co_code) // 2),
    )
