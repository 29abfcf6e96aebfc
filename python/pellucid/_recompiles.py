"""Why functions were compiled again: each guard that failed, what it cost, and what would avoid it."""

from __future__ import annotations

import inspect
import itertools
import logging
import types
import weakref
from dataclasses import dataclass

import torch
import torch._logging

from pellucid import events
from pellucid._advice import Failed, advice_for, texts_of
from pellucid._in_words import Begin, Words, beginning
from pellucid._logging import _called_function, log

# What TORCH_LOGS="recompiles" and torch._logging.set_logs(recompiles=True) turn on. Below the logger "torch", which has
# torch's handler: "pellucid" has none.
_artifact_log = torch._logging.getArtifactLogger("torch.pellucid", "recompiles")
_verbose_log = torch._logging.getArtifactLogger("torch.pellucid", "recompiles_verbose")


@dataclass(frozen=True)
class GuardFailure:
    """One guard that did not hold."""

    kind: str
    """"TENSOR_MATCH", "EQUALS_MATCH", …"""
    source: str
    """What is looked at, as Python: "L['x']"; empty for state of the process."""
    expected: str
    """The old value, or what it must be."""
    found: str
    """The new one."""
    file: str
    line: int
    """The line of the program that made it matter."""
    operation: str
    """What the program did there."""
    advice: str
    """What would avoid the recompile."""
    what: str = ""
    """What is looked at, in the words of the program: "x", "self.step", "the next element of the iterator over `xs` (line 6)"."""

    def __str__(self) -> str:
        place = f" ({self.file}:{self.line}, {self.operation})" if self.file else ""
        name = f"{self.kind} {self.what or self.source}".rstrip()
        return f"{name}: expected {self.expected}, found {self.found}{place}; {self.advice}"


@dataclass
class Recompile:
    """A call that fitted none of the compiled versions of its function, and was compiled anew."""

    function: str
    file: str
    line: int
    """Where the compiled part begins: the function's first line, or the line behind a graph break."""
    failures: dict[int, list[GuardFailure]]
    """By region: what speaks against each version that there was, the one used last first."""
    milliseconds: float = 0.0
    """What the new version cost."""
    region: int | None = None
    """The new version; None when there is none."""
    goes_on: bool = False
    """Whether it is the part behind a graph break."""

    def __str__(self) -> str:
        became = "nothing was compiled" if self.region is None else f"compiled as region {self.region}"
        behind = ", behind a graph break" if self.goes_on else ""
        lines = [f"{self.function} ({self.file}:{self.line}{behind}): {became}, {self.milliseconds:.1f} ms"]
        if not self.failures:
            lines.append("  the objects that the compiled versions depend on are gone")
        for region, failures in self.failures.items():
            lines.append(f"  not region {region}:")
            lines += [f"    {failure}" for failure in failures]
        return "\n".join(lines)


_MODULE_CALL = (
    torch.nn.Module._wrapped_call_impl.__code__.co_filename,
    torch.nn.Module._wrapped_call_impl.__code__.co_firstlineno,
)

# Those of all functions, oldest first. Each compiled function keeps its own, and takes them along.
_all: weakref.WeakValueDictionary[int, Recompile] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def _record_recompile(
    function: types.FunctionType,
    first: object,
    begins_at: tuple[Begin, ...],
    failures: list[tuple[int, list[GuardFailure]]],
    backend: object,
) -> Recompile:
    """Called by `_core` before the compile. A backend that has a method `_on_recompile` is told, as of stops."""
    code, line = beginning(_called_function(function, first), begins_at)
    name = code.co_qualname if begins_at else _called_function(function, first).__qualname__
    record = Recompile(name, code.co_filename, line, dict(failures), goes_on=bool(begins_at))
    _all[next(_numbers)] = record
    on_recompile = getattr(getattr(backend, "function", None), "_on_recompile", None)
    if on_recompile is not None:
        on_recompile(record)
    return record


def _note_cost(record: Recompile, milliseconds: float, region: int) -> None:
    """Called by `_core` behind the compile. `region`: -1 when none was made."""
    record.milliseconds = milliseconds
    record.region = region if region >= 0 else None
    log.info("recompiled %s", record)
    if events.wanted():
        events.emit(events.Recompiled, record=record)
    for artifact in (_verbose_log, _artifact_log):  # one of them is enough
        if artifact.isEnabledFor(logging.DEBUG):
            artifact.debug("recompiled %s", record)
            break


def _tell_failures(
    function: types.FunctionType, first: object, begins_at: tuple[Begin, ...], rows: list[tuple], backend: object
) -> tuple[list[GuardFailure], str]:
    """Called by `_core`: the guards that failed, and a text with a line for each.

    Args:
        first: the first argument of the call, or behind a graph break the module that was called; None: there is none.
        begins_at: the open frames behind a graph break.
        rows: of each guard what `_core` knows.
    """
    called = _called_function(function, first)
    parameters = None
    if function.__code__ is torch.nn.Module._wrapped_call_impl.__code__:
        code = called.__code__
        parameters = code.co_varnames[1 : code.co_argcount] if called is not function else ()
    words = Words(begins_at, parameters, _keywords_of(function.__code__))
    failures = [_failure(row, called, words, backend) for row in rows]
    return failures, "\n".join(map(str, failures))


def _keywords_of(code: types.CodeType) -> str:
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return ""
    has_rest = bool(code.co_flags & inspect.CO_VARARGS)
    return code.co_varnames[code.co_argcount + code.co_kwonlyargcount + has_rest]


def _failure(row: tuple, function: types.FunctionType, words: Words, backend: object) -> GuardFailure:
    kind, source, expected, found, file, line, operation, advice, history = row
    if not file:  # it is about no value, so no line made it matter
        code, line = beginning(function, words.begins_at)
        file, operation = code.co_filename, "goes on behind a graph break" if words.goes_on else "is called"
    elif (file, line) == _MODULE_CALL:  # for the program it is a matter of its call
        file, line = function.__code__.co_filename, function.__code__.co_firstlineno
    failed = Failed(kind, source, expected, found, operation, history)
    advice = advice_for(failed, words, backend) or advice
    expected, found = texts_of(failed, words)
    return GuardFailure(kind, source, expected, found, file, line, operation, advice, words.of(source))
