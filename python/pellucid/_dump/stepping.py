"""Functions that run with the lines of a file of the dump: a debugger stops there, and tracebacks name it."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid._after_import import call_after, forget
from pellucid._dump.texts import identifiers, is_python
from pellucid._line_table311 import line_table

if TYPE_CHECKING:
    import torch


class Swaps:
    """Code that functions have for the length of a dump. They are held weakly."""

    def __init__(self) -> None:
        self._before: list[tuple[weakref.ref[types.FunctionType], types.CodeType, types.CodeType, list[str]]] = []

    def swap(self, function: types.FunctionType, code: types.CodeType, names: Mapping[str, Any]) -> None:
        """The function has this code from here on, and these globals where it has none of that name."""
        added = [name for name in names if name not in function.__globals__]
        self._before.append((weakref.ref(function), function.__code__, code, added))
        function.__globals__.update({name: names[name] for name in added})
        function.__code__ = code

    def undo(self) -> None:
        """All functions have the code that they had, unless somebody has given them another one since."""
        while self._before:
            reference, before, code, added = self._before.pop()
            function = reference()
            if function is not None and function.__code__ is code:
                function.__code__ = before
                for name in added:
                    function.__globals__.pop(name, None)


def with_lines(
    code: types.CodeType, file: Path, first: int, line_of: Mapping[int, int], numbered: types.CodeType
) -> types.CodeType:
    """The same code with other lines.

    Args:
        code: what is run.
        file: where the lines are.
        first: the line of the `def`.
        line_of: the lines in the file, by those of `numbered`; the `def` for others.
        numbered: the same instructions, whose lines `line_of` knows.
    """
    lines = [line_of.get(position[0] or 0, first) for position in numbered.co_positions()]
    runs = [(len(list(units)), line, None, None, None) for line, units in itertools.groupby(lines)]
    return code.replace(co_filename=str(file), co_firstlineno=first, co_linetable=line_table(runs, first, len(lines)))


class Stepping:
    """Has what is compiled run with the lines of the dump.

    Attributes:
        graph_files: those whose code is a graph's, by which the core knows it.
    """

    def __init__(self) -> None:
        self.swaps = Swaps()
        self.graph_files: set[str] = set()

    def run_listing(
        self,
        function: types.FunctionType,
        file: Path,
        first: int,
        line_of: Mapping[int, int],
        numbered: types.CodeType,
        named: Mapping[str, Any],
    ) -> bool:
        """An emitted function gets the lines of its text, and as globals what the text names. One whose text is about other
        instructions stays, and is told by False."""
        code = function.__code__
        if (code.co_code, code.co_names) != (numbered.co_code, numbered.co_names):
            return False
        names = identifiers(code.co_varnames, named)
        renamed = code.replace(co_varnames=tuple(names[name] for name in code.co_varnames))
        self.swaps.swap(function, with_lines(renamed, file, first, line_of, numbered), named)
        return True

    def run_assembled(self, function: object, file: Path, first: int, line_of: Mapping[int, int]) -> None:
        """The function that the core made of a graph gets the lines of the graph's text.

        Args:
            function: anything else stays as it is.
            line_of: lines by the number of the node.
        """
        if isinstance(function, types.FunctionType) and function.__code__.co_filename == "<pellucid graph>":
            code = function.__code__
            lines = {node + 2: line for node, line in line_of.items()}  # behind its `def` each node has a line
            self.graph_files.add(str(file))
            self.swaps.swap(function, with_lines(code, file, first, lines, code), {})

    def run_text(self, module: torch.fx.GraphModule, text: str, file: Path, names: Mapping[str, Any]) -> None:
        """A graph module's `forward` becomes the one that the text has.

        Args:
            names: what the text reads besides its arguments.
        """
        code = function_code(text, file, "forward") if is_python(text) else None
        function = type(module).__dict__.get("forward")
        if code is None or not isinstance(function, types.FunctionType):
            return
        if (code.co_argcount, code.co_freevars) == (function.__code__.co_argcount, function.__code__.co_freevars):
            self.graph_files.add(str(file))
            self.swaps.swap(function, code, names)


def function_code(text: str, file: Path, name: str) -> types.CodeType | None:
    """The code of the first function or method of that name in a text.

    Example:
        >>> function_code("class A:\\n    def f(self): pass\\n", Path("a.py"), "f").co_firstlineno
        2
    """
    codes = _codes_in(compile(text, str(file), "exec"))
    return next((one for one in codes if one.co_name == name and one.co_flags & inspect.CO_OPTIMIZED), None)


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes_in(constant)


PlaceOf = Callable[[str], Path | None]

_places: list[PlaceOf] = []  # who says where Inductor's code is loaded from; the last one is asked first
_loader_before: list[Any] = []  # the class whose method is ours for now, and its own method


@contextlib.contextmanager
def kernels_from(place_of: PlaceOf) -> Iterator[None]:
    """Inductor loads its code from elsewhere, as soon as there is an Inductor.

    Args:
        place_of: gives the file to load in the place of one; None: that one.
    """
    _places.append(place_of)
    if len(_places) == 1:
        call_after("torch._inductor.codecache", _patch_loader)
    try:
        yield
    finally:
        _places.remove(place_of)
        if not _places:
            forget(_patch_loader)
            if _loader_before:
                owner, original = _loader_before
                owner.load_by_key_path = original
                _loader_before.clear()


def _patch_loader() -> None:
    from torch._inductor.codecache import PyCodeCache

    original = PyCodeCache.__dict__["load_by_key_path"]

    def load_by_key_path(cls: Any, key: str, path: str, *args: Any, **kwargs: Any) -> types.ModuleType:
        others = (place_of(path) for place_of in reversed(_places))
        place = next((other for other in others if other is not None), path)
        return original.__func__(cls, key, str(place), *args, **kwargs)

    _loader_before[:] = [PyCodeCache, original]
    PyCodeCache.load_by_key_path = classmethod(load_by_key_path)  # type: ignore[method-assign, assignment]
