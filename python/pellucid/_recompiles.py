"""Why functions were compiled again: each guard that failed, what it cost, and what would avoid it."""

from __future__ import annotations

import itertools
import logging
import re
import types
import weakref
from dataclasses import dataclass, replace

import torch
import torch._logging

from pellucid import events
from pellucid._logging import _called_function, log

# What TORCH_LOGS="recompiles" and torch._logging.set_logs(recompiles=True) turn on. Below the logger "torch", which has
# torch's handler: "pellucid" has none.
_artifact_log = torch._logging.getArtifactLogger("torch.pellucid", "recompiles")
_verbose_log = torch._logging.getArtifactLogger("torch.pellucid", "recompiles_verbose")

_MISMATCH = re.compile(r"(.+?) mismatch(?: at index (\d+))?, expected (.*), actual (.*)")
_OF_BACKEND = "is compiled by the backend"  # what the guard is said to be for that has its conditions
_VALUE_ITSELF = re.compile(r"(.+) == -?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_SIZE = re.compile(r"\.(size|stride)\(\d+\)$")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")


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

    def __str__(self) -> str:
        place = f" ({self.file}:{self.line}, {self.operation})" if self.file else ""
        name = f"{self.kind} {self.source}".rstrip()
        return f"{name}: expected {self.expected}, found {self.found}{place}; {self.advice}"


@dataclass
class Recompile:
    """A call that fitted none of the compiled versions of its function, and was compiled anew."""

    function: str
    file: str
    line: int
    failures: dict[int, list[GuardFailure]]
    """By region: what speaks against each version that there was, the one used last first."""
    milliseconds: float = 0.0
    """What the new version cost."""
    region: int | None = None
    """The new version; None when there is none."""

    def __str__(self) -> str:
        became = "nothing was compiled" if self.region is None else f"compiled as region {self.region}"
        lines = [f"{self.function} ({self.file}:{self.line}): {became}, {self.milliseconds:.1f} ms"]
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


def _record_recompile(function: types.FunctionType, first: object, failures: list, backend: object) -> Recompile:
    """Called by `_core` before the compile. A backend that has a method `_on_recompile` is told, as of stops."""
    function = _called_function(function, first)
    code = function.__code__
    explained = {region: [_at_forward(_failure(row, backend), code) for row in rows] for region, rows in failures}
    record = Recompile(function.__qualname__, code.co_filename, code.co_firstlineno, explained)
    _all[next(_numbers)] = record
    on_recompile = getattr(getattr(backend, "function", None), "_on_recompile", None)
    if on_recompile is not None:
        on_recompile(record)
    return record


def _at_forward(failure: GuardFailure, code: types.CodeType) -> GuardFailure:
    """What torch.nn.Module's code around `forward` made matter is a matter of its call, for the program."""
    if (failure.file, failure.line) != _MODULE_CALL:
        return failure
    return replace(failure, file=code.co_filename, line=code.co_firstlineno)


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


def _words(rows: list[tuple], backend: object) -> str:
    """Called by `_core`: a line for each guard that failed."""
    return "\n".join(str(_failure(row, backend)) for row in rows)


def _failure(row: tuple, backend: object) -> GuardFailure:
    kind, source, expected, found, file, line, operation, advice, pinned = row
    if found == "that it does not exist":
        advice = "it was there when this was compiled: keep it, or never have it"
    elif kind in ("ID_MATCH", "TENSOR_MATCH", "EQUALS_MATCH", "TYPE_MATCH") and _is_none(expected) != _is_none(found):
        advice = (
            "with None and with something else the program is compiled apart, once each: pass always the same of both"
        )
    elif kind == "TENSOR_MATCH":
        advice = _advice_about_size(source, found, backend) or advice
    elif kind == "EQUALS_MATCH" and _NUMBER.fullmatch(expected) and _NUMBER.fullmatch(found.split(" ")[0]):
        advice = _advice_about_number(expected, found.split(" ")[0], operation, pinned, backend)
    elif kind == "EQUALS_MATCH" and expected.startswith(("'", '"', "b'", 'b"')):
        advice = (
            "the program looks at this text: each one is compiled anew, unless it is used outside of what is compiled"
        )
    elif kind == "CONDITION":
        advice = _advice_about_condition(expected, found, operation, backend)
    return GuardFailure(kind, source, expected, found, file, line, operation, advice)


def _advice_about_size(source: str, found: str, backend: object) -> str | None:
    """Nothing where more than sizes, and strides because of them, is another: then there is no one way to avoid it."""
    mismatches = [_MISMATCH.fullmatch(text) for text in found.split("; ")]
    if not all(match is not None and match[1] == "size" for match in mismatches):
        return None
    sizes = [(match[2], match[3], match[4]) for match in mismatches if match is not None]
    if any({old, new} & {"0", "1"} or old == "at least 2" for _, old, new in sizes):
        return "sizes of 0 and 1 are compiled apart: leave tensors of these out, or fill them up"
    if getattr(backend, "static", False):
        return "dynamic=False compiles each size anew: leave it away"
    if not _takes_open_sizes(backend):
        return (
            f"the backend {_name(backend)!r} compiles for fixed sizes: fill up to a few sizes, or take another backend"
        )
    if any(old.startswith(("at least ", "at most ")) for _, old, _ in sizes):
        return "the mark of this size says its range: give mark_dynamic a wider one"
    if getattr(backend, "dynamic", False):
        return (
            "sizes are open here, but the program needs this one itself, or marks it as static: each one is compiled"
            " anew, so fill up to a few sizes"
        )
    dims = sizes[0][0] if len(sizes) == 1 else f"[{', '.join(dim for dim, _, _ in sizes)}]"
    what = "this size" if len(sizes) == 1 else "these sizes"
    return f"pellucid.mark_dynamic({source}, {dims}) or dynamic=True opens {what} at the first call already"


def _is_none(text: str) -> bool:
    return text in ("None", "the object None", "type NoneType") or text.endswith("actual NoneType")


def _takes_open_sizes(backend: object) -> bool:
    return getattr(backend, "takes_numbers", False) or getattr(backend, "takes_symbols", False)


def _needs_the_value(operation: str) -> str:
    return f"the program needs the value itself ({operation}), so each one is compiled anew"


def _advice_about_condition(expected: str, found: str, operation: str, backend: object) -> str:
    if operation == _OF_BACKEND:
        return (
            f"the backend {_name(backend)!r} compiled for numbers of which this is true, and compiles again for others:"
            " once for each outcome"
        )
    if operation == "reads an item":
        pads = "fill up to a few sizes, or " if re.search(r"\.size\(\d+\)", expected) else ""
        return (
            f"{_needs_the_value(operation)}: {pads}compute what is looked up from the number, or keep all of it in one"
            " tensor and take from that by a tensor"
        )
    # A value that was asked of an open number or size. `if n == 2` is a way that the program goes.
    known = _VALUE_ITSELF.fullmatch(expected)
    if known is not None and found.startswith(f"{known[1]} = ") and operation not in ("compares", "tests the truth"):
        instead = "fill up to a few sizes" if _SIZE.search(known[1]) else "pass it as a tensor"
        return f"{_needs_the_value(operation)}: {instead}"
    return (
        "the program goes another way for this value, and each way is compiled once: where values go many ways, decide"
        " on tensors (torch.where), or outside of what is compiled"
    )


def _advice_about_number(expected: str, found: str, operation: str, pinned: bool, backend: object) -> str:
    if pinned:
        return f"{_needs_the_value(operation)}: pass it as a tensor"
    if getattr(backend, "static", False):
        return "dynamic=False compiles each number anew: leave it away"
    is_float, was_float = ("." in text or "e" in text for text in (found, expected))
    if is_float != was_float:
        return "ints and floats are compiled apart: pass always the same"
    if is_float and not getattr(backend, "takes_numbers", False):
        return (
            f"the backend {_name(backend)!r} takes a float in a graph for a constant, unless it is added, subtracted,"
            " multiplied, divided or compared with a tensor of floats: pass it as a tensor if it enters the graph"
        )
    if not _takes_open_sizes(backend):
        return (
            f"the backend {_name(backend)!r} takes a number in a graph for a constant: pass it as a tensor if it enters the"
            " graph"
        )
    if getattr(backend, "dynamic", False):
        return _needs_the_value(operation)
    return "dynamic=True opens this number at the first call already"


def _name(backend: object) -> str:
    return getattr(backend, "name", type(backend).__name__)
