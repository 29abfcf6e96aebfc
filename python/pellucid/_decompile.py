"""Functions and code objects as Python text: what `pellucid.decompile` gives, and how sure it is."""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass
from typing import Any, Literal

from pellucid import _core
from pellucid.errors import PellucidError

Verified = Literal["equal", "normalised", "equivalent", "unverified"]


class CannotDecompile(PellucidError, ValueError):
    """No Python text is known for a code object; the message says what in it stands against it."""


@dataclass(frozen=True)
class Decompiled:
    """A code object as Python text, and what compiling that text again has shown.

    Example:
        >>> found = pellucid.Decompiled.of(f)
        >>> found.verified
        'equal'
    """

    text: str
    """The function, class, lambda or comprehension; it ends with a line end."""
    module: str
    """The text as a module that compiles to the same instructions: with a function around that has its free variables. An
    `if 0: import m` at the top, which never runs, says that the name `m` is a module's: CPython 3.11 compiles `m.f()`
    otherwise where the module imports `m`."""
    verified: Verified
    """"equal": the text compiles to the same bytes, names and constants. "normalised": to the same instructions and
    exception table but for those that do nothing, and the places of names and constants. "equivalent": to instructions
    that do the same steps on every way through them, laid out in another order. "unverified": neither was shown; the text
    should mean the same, but need not."""
    difference: str
    """Where the instructions of the text differ first; empty where they are equal or normalised."""

    @classmethod
    def of(cls, function: Any, *, verify: bool = True) -> Decompiled:
        """Decompiles a function, method, compiled function or code object.

        Args:
            function: a function of Python, anything that wraps one (`__wrapped__`, `functools.partial`, a method, a
                class or static method, a property), a generator, coroutine or frame, or a code object.
            verify: compile the text again and compare; where it differs other sources of equal meaning are tried.

        Raises:
            TypeError: there is no code object in it.
            CannotDecompile: no source is known that could have been it.
        """
        found = _core._decompile(code_of(function), verify)
        if isinstance(found, str):
            raise CannotDecompile(f"{function!r} cannot be written as Python: {found}")
        text, module, verified, difference = found
        return cls(text, module, verified, difference)

    def __str__(self) -> str:
        return self.text


def decompile(function: Any) -> str:
    """A function or code object as Python text that compiles to the same instructions.

    Any code object of CPython 3.11 has one: functions, methods, lambdas, comprehensions, generators, coroutines, classes and
    modules, also those whose source is lost or never was, as of `exec`, dataclasses, and what `pellucid` emits. The text
    is compiled again and compared (`pellucid.Decompiled.of` says how closely it agrees); one that was not shown to mean the
    same begins with the comment "# Not verified". Names of local variables, defaults of inner functions and texts of
    documentation are those of the source; comments and lines are not there. Defaults, annotations and decorators of the
    function itself are no part of its code.

    Args:
        function: a function, method, wrapper of one, generator, coroutine, frame or code object.

    Returns:
        Python text. A class in it, whose name says where it was written, may put the text into classes or functions of
        that name, and `if 0: import m` on top says that `m.f()` calls a function of a module.

    Raises:
        TypeError: there is no code object in it, as in a function that is written in C.
        pellucid.errors.PellucidError: the code object is none that source can stand for (edited bytecode); the message
            says what in it is not Python.
        ValueError: the code object is malformed.

    Example:
        >>> print(pellucid.decompile(lambda x, *, k=2: [y + k for y in x if y]), end="")
        lambda x, *, k: [y + k for y in x if y]
    """
    found = Decompiled.of(function)
    if found.verified != "unverified":
        return found.text
    return f"# Not verified: this compiles to other instructions ({found.difference}).\n{found.text}"


def code_of(function: Any) -> types.CodeType:
    """The code object of a function or of what wraps one."""
    given = function
    for _ in range(100):
        if isinstance(given, types.CodeType):
            return given
        for name in ("__code__", "gi_code", "cr_code", "ag_code", "f_code"):
            if isinstance(code := getattr(given, name, None), types.CodeType):
                return code
        given = _inner(given)
        if given is None:
            break
    raise TypeError(f"there is no code object of Python in {function!r}")


def _inner(given: Any) -> Any:
    if isinstance(given, functools.partial):
        return given.func
    if isinstance(given, property):
        return given.fget
    if isinstance(given, functools.cached_property):
        return given.func
    inner = getattr(given, "__wrapped__", None)
    return getattr(given, "__func__", None) if inner is None else inner
