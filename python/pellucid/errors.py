"""The exceptions of pellucid, and the record of a place where capture stopped."""

from __future__ import annotations

import collections
import dis
import functools
import itertools
import linecache
import os
import re
import shlex
import sys
import traceback
import types
from collections.abc import Sequence
from dataclasses import dataclass, field

from pellucid import _core, config

__all__ = [
    "BackendCompilerFailed",
    "BreakRecord",
    "CaptureTakenOver",
    "ConstraintViolation",
    "GraphFailed",
    "InvalidBackend",
    "PellucidError",
    "Reason",
    "RecompileError",
    "RecompileLimitExceeded",
    "SkipFrame",
    "Unsupported",
    "reasons",
]


class PellucidError(RuntimeError):
    """The base of what pellucid raises on its own account.

    Where torch._dynamo has been imported, what is raised is an instance of its class of the same meaning as well, so that
    programs which expect that one need no change.
    """

    _torch_name: str | None = None
    """The class of torch._dynamo.exc of this meaning."""

    def __new__(cls, *args: object, **kwargs: object) -> PellucidError:
        return super().__new__(_with_class_of_torch(cls), *args)

    def __init__(self, *args: object) -> None:
        RuntimeError.__init__(self, *args)  # not super(): the class of torch._dynamo wants other arguments

    def __reduce__(self) -> tuple:
        return (_own_class(self), self.args)


def _own_class(error: PellucidError) -> type[PellucidError]:
    """The class that can be imported."""
    return next(cls for cls in type(error).__mro__ if cls.__dict__.get("_is_of_torch_too") is None)


def _with_class_of_torch(cls: type) -> type:
    exceptions = sys.modules.get("torch._dynamo.exc")
    other = getattr(exceptions, cls._torch_name, None) if cls._torch_name else None  # type: ignore[attr-defined]
    return cls if other is None or issubclass(cls, other) else _both(cls, other)


@functools.cache
def _both(cls: type, other: type) -> type:
    own = {"__module__": cls.__module__, "__doc__": cls.__doc__, "_is_of_torch_too": True}
    # What torch._dynamo's own handlers read of what they catch.
    own |= {"first_useful_frame": None, "frame_exec_strategy": None, "_torch_dynamo_tracer_output": None}
    return type(cls.__name__, (cls, other), own)


@dataclass(frozen=True)
class Reason:
    """Why capture stops: one row of the registry (docs/reasons.md)."""

    code: str
    """The stable id, "PEL0304"."""
    name: str
    what: str
    """What happened; the fields in braces are filled in for each stop."""
    why: str
    fix: str
    example: str
    """Defines `f` that stops for this reason when called with `torch.ones(3)`. Empty when no program should."""


@functools.cache
def reasons() -> dict[str, Reason]:
    """All reasons by their code.

    Example:
        >>> pellucid.errors.reasons()["PEL0304"].name
        'SideEffect'
    """
    return {row[0]: Reason(*row) for row in sorted(_core.reasons())}


class Unsupported(PellucidError):
    """The function cannot be captured as one graph, with `fullgraph=True` or in a block of `pellucid.error_on_graph_break(True)`.

    `record` is the BreakRecord.
    """

    _torch_name = "Unsupported"

    def __init__(self, record: BreakRecord) -> None:
        self.record = record
        super().__init__(str(record))

    def __reduce__(self):
        return (_own_class(self), (self.record,))


class InvalidBackend(PellucidError):
    """There is no backend of this name, or a choice by graph number is wrong. `name` is what was asked for."""

    _torch_name = "InvalidBackend"

    def __init__(self, name: str, known: list[str], message: str | None = None) -> None:
        self.name = name
        self.known = known
        self.message = message
        super().__init__(
            message
            or f"Invalid backend: {name!r}. Known are {', '.join(known)}; "
            "see pellucid.list_backends(None) for the debug ones too, or pass the backend itself."
        )

    def __reduce__(self) -> tuple[type, tuple]:
        return (_own_class(self), (self.name, self.known, self.message))


def user_stack_text(frames: Sequence[traceback.FrameSummary]) -> str:
    """The frames of the program, outermost first, as the part of a message; empty without any."""
    text = "".join(traceback.StackSummary.from_list(list(frames)).format()).rstrip("\n")
    return f"\nfrom user code:\n{text}\n" if text else ""


_INTERNAL_STACK = "\ninternal stack:\n"
_ASKS_FOR_IT = "pellucid.config.verbose = True (TORCHDYNAMO_VERBOSE=1) adds the internal stack."


def _is_verbose() -> bool:
    return config.verbose  # type: ignore[attr-defined]


class BackendCompilerFailed(PellucidError):
    """The backend raised, or gave back something that cannot be called. `inner_exception` is what it raised, with its traceback.

    Attributes:
        backend_name: its name.
        inner_exception: what it raised.
        user_stack: the frames of the program where the graph ends, outermost first.
        repro: the script that `config.repro_after` wrote; None: there is none.
    """

    _torch_name = "BackendCompilerFailed"
    _HINT = (
        "Hint: `python -m pellucid triage script.py` finds out which stage fails, and for which graph; with "
        "pellucid.config.suppress_errors = True such a call runs eagerly, with a warning."
    )

    def __init__(
        self,
        backend_name: str,
        inner_exception: BaseException,
        user_stack: Sequence[traceback.FrameSummary] = (),
        repro: str | None = None,
    ) -> None:
        self.backend_name = backend_name
        self.inner_exception = inner_exception
        self.user_stack = list(user_stack)
        self.repro = repro
        raised = f"backend={backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}"
        parts = [raised, user_stack_text(self.user_stack), f"{self._HINT} {_ASKS_FOR_IT}"]
        if _is_verbose():
            parts[1] += _INTERNAL_STACK + "".join(traceback.format_exception(inner_exception))
            parts[2] = self._HINT
        if repro is not None:
            parts.append(f"The failure as a script: python {repro}")
        super().__init__("\n".join(parts))

    def __reduce__(self) -> tuple[type, tuple]:
        return (_own_class(self), (self.backend_name, self.inner_exception, self.user_stack, self.repro))


class GraphFailed(PellucidError):
    """What a debugging backend says of a graph while it runs. It reaches whoever called the compiled function.

    Any other error of a compiled graph is held against the graph as it was captured: if that one does not raise, its result
    counts and there is a warning.

    Example:
        >>> raise pellucid.errors.GraphFailed("the graph ran longer than a second")
    """


class SkipFrame(PellucidError):
    """A backend raises it while it compiles a graph: the call runs as if it were not compiled, without a warning.

    Example:
        >>> def backend(gm, example_inputs):
        ...     if len(gm.graph.nodes) < 4:
        ...         raise pellucid.errors.SkipFrame
        ...     return compile_it(gm)
    """


class ConstraintViolation(PellucidError):
    """A size that the program marked as dynamic can have one value only in the code that was captured.

    Attributes:
        source: the size, as Python text.
        condition: what the captured code needs to be true.
    """

    def __init__(self, message: str, source: str, condition: str) -> None:
        self.source = source
        self.condition = condition
        super().__init__(message)

    def __reduce__(self) -> tuple[type, tuple]:
        return (_own_class(self), (str(self), self.source, self.condition))


class ExportError(PellucidError):
    """`pellucid.export` cannot make a graph module of what it captured.

    Example:
        >>> try:
        ...     pellucid.export(f, x)
        ... except pellucid.errors.ExportError as error:
        ...     print(error)
    """

    _torch_name = "UserError"


def constraint_violation(
    source: str, size: int, condition: str, code: types.CodeType | None, offset: int, operation: str
) -> ConstraintViolation:
    """The error for a marked size that `condition` leaves this one value; `operation` of this instruction needs it."""
    frame = frame_summary(code, offset) if code is not None else None
    where = f"{frame.filename}:{frame.lineno} in {frame.name}\n    {frame.line}\n" if frame else "torch\n"
    message = (
        f"{source} is marked as dynamic, but the code that was captured for {size} serves no other size: it needs "
        f"{condition} ({operation}) at {where}"
        "Change this line so that it takes any size, mark the size with pellucid.maybe_mark_dynamic, which lets it be a "
        "constant, or take the mark away."
    )
    return ConstraintViolation(message, source, condition)


class RecompileLimitExceeded(PellucidError):
    """A function reached `config.recompile_limit` or `config.accumulated_recompile_limit`.

    It is raised while `config.fail_on_recompile_limit_hit` is set, and with `fullgraph=True`.
    """

    _torch_name = "FailOnRecompileLimitHit"


class RecompileError(PellucidError):
    """A call fits no compiled version of its function, and `config.error_on_recompile` or `set_stance` forbids another."""

    _torch_name = "RecompileError"


class CaptureTakenOver(PellucidError):
    """Something asked torch._dynamo to capture a frame while pellucid is installed (torch.export with strict=True, …)."""


@dataclass
class BreakRecord:
    """Why and where capture stopped."""

    code: str
    """The stable id of the reason, "PEL0301"."""
    name: str
    """Its name, "UntracedCallable"."""
    message: str
    hint: str
    function: str
    """The qualified name of the compiled function; of a module that of its `forward`."""
    user_stack: list[traceback.FrameSummary] = field(default_factory=list)
    """The frames that led there, outermost first."""
    internal_stack: list[str] = field(default_factory=list)
    """With `config.verbose`: the instructions that the frames stand at, the line of pellucid's own code that stopped, and the
    traceback of what was raised there."""
    recording: str | None = None
    """The file that `config.replay_record_enabled` made write what this capture reads (docs/replay.md)."""

    @property
    def why(self) -> str:
        """Why such a step cannot be captured."""
        row = reasons().get(self.code)
        return row.why if row is not None else ""

    @property
    def cause(self) -> str:
        """The message without the words of an exception, which are others each time: "the program raises ValueError"."""
        if self.code not in _TELLS_EXCEPTION:
            return self.message
        before = reasons()[self.code].what.partition(_TELLS_EXCEPTION[self.code])[0].rpartition("}")[2]
        head, _, raised = self.message.partition(before)
        return head + before + re.split(r"\W", raised, maxsplit=1)[0]

    @property
    def place(self) -> tuple[str, int, int]:
        """File, line and column of the step; of one outside of all frames the function alone."""
        if not self.user_stack:
            return (self.function, 0, 0)
        at = self.user_stack[-1]
        return (at.filename, at.lineno or 0, at.colno or 0)

    @property
    def reason(self) -> str:
        """The name torch._dynamo gives it."""
        return self.message

    def __str__(self) -> str:
        lines = [f"{self.code} {self.name}: {self.message}"]
        if self.user_stack:
            shown = [frame for frame in self.user_stack if not _is_module_call(frame.filename, frame.name)]
            stack = "".join(traceback.StackSummary.from_list(shown or self.user_stack).format())
            lines += ["", "from user code:", stack.rstrip("\n"), ""]
        if self.internal_stack:
            lines += [_INTERNAL_STACK.strip(), *self.internal_stack, ""]
        if self.why:
            lines.append(f"Why: {self.why}")
        lines.append(f"Hint: {self.hint}")
        if self.recording is not None:
            lines.append(recording_text(self.recording))
        return "\n".join(lines)


def recording_text(file: str) -> str:
    """What an error says of the record of its capture."""
    return f"The capture as a file: python -m pellucid replay {shlex.quote(file)}"


# Reasons whose message ends with an exception of the program, and the field that it is: its class comes first.
_TELLS_EXCEPTION = {"PEL0202": "{error}", "PEL0401": "{exception}"}

# The newest stops of all functions; each compiled function keeps its own as well.
_stops: collections.deque[BreakRecord] = collections.deque(maxlen=1000)
# How often captures stopped for each reason, since `pellucid.counters.clear()`.
_stop_counts: collections.Counter[str] = collections.Counter()


_LONGEST_CALL = 60  # characters that a message has of one


def frame_summary(code: types.CodeType, offset: int) -> traceback.FrameSummary:
    """The instruction at this byte offset, as a line of a traceback."""
    nowhere = (code.co_firstlineno, None, None, None)
    line, end_line, column, end_column = next(itertools.islice(code.co_positions(), offset // 2, None), nowhere)
    return traceback.FrameSummary(
        code.co_filename,
        line if line is not None else code.co_firstlineno,
        code.co_name,
        lookup_line=False,
        end_lineno=end_line,
        colno=column,
        end_colno=end_column,
    )


def _text_at(code: types.CodeType, offset: int) -> str:
    """The call that this instruction is, as it stands in the file; "" where it is none, or no short one."""
    line, end_line, column, end_column = next(itertools.islice(code.co_positions(), offset // 2, None), (None,) * 4)
    if line is None or line != end_line or column is None:
        return ""
    text = linecache.getline(code.co_filename, line).encode()[column:end_column].decode(errors="replace")
    return text if text.endswith(")") and len(text) <= _LONGEST_CALL else ""


def _internal_stack(
    stack: list[tuple[types.CodeType, int]], thrown_at: str, exception: BaseException | None
) -> list[str]:
    lines = []
    for code, offset in stack:
        at = next((one for one in dis.get_instructions(code) if one.offset == offset), None)
        instruction = f"{at.opname} {at.argrepr}".rstrip() if at is not None else "?"
        lines.append(f"  {code.co_qualname} at offset {offset}: {instruction}")
    lines.append(f"  {thrown_at}")
    if exception is not None:
        lines += "".join(traceback.format_tb(exception.__traceback__)).splitlines()
    return lines


def _is_module_call(file: str, name: str) -> bool:
    """Whether it is torch.nn.Module's code around `forward`."""
    return name in ("_wrapped_call_impl", "_call_impl") and file.endswith(_MODULE_FILE)


_MODULE_FILE = os.path.join("torch", "nn", "modules", "module.py")


def _called_code(code: types.CodeType, stack: list[tuple[types.CodeType, int]]) -> types.CodeType:
    """What the user wrote: of a module's call `forward`."""
    codes = [code, *(of_frame for of_frame, _ in stack)]
    return next((one for one in codes if not _is_module_call(one.co_filename, one.co_name)), code)


_UNTOLD = "…"  # the text of an exception that only code of the program can tell


def _text_of(exception: BaseException) -> str:
    if isinstance(type(exception).__str__, types.FunctionType):  # the program's: it is not called here
        return _UNTOLD
    try:
        return str(exception)
    except Exception:  # of one of its arguments
        return _UNTOLD


def _record_stop(
    function_code: types.CodeType,
    code: str,
    name: str,
    message: str,
    hint: str,
    stack: list[tuple[types.CodeType, int]],
    exception: BaseException | None,
    backend: object = None,
    thrown_at: str = "",
) -> BreakRecord:
    """Called by `_core`. The exception itself is not kept: its traceback holds the program's frames.

    A backend that has a method `_on_stop` is told: it has no other way to learn of it. `thrown_at`: file, line and function
    of `_core` that stopped.
    """
    if exception is not None:
        text = _text_of(exception)
        if text not in message and not (text == _UNTOLD and type(exception).__name__ in message):
            message = f"{message} ({type(exception).__name__}: {text})"
    frames = [frame_summary(frame_code, offset) for frame_code, offset in stack]
    internal = _internal_stack(stack, thrown_at, exception) if _is_verbose() else []
    record = BreakRecord(code, name, message, hint, _called_code(function_code, stack).co_qualname, frames, internal)
    _stops.append(record)
    _stop_counts[record.cause] += 1
    from pellucid import events

    if events.wanted():
        events.emit(events.GraphBreak, record=record)
    on_stop = getattr(getattr(backend, "function", None), "_on_stop", None)
    if on_stop is not None:
        on_stop(record)
    return record


def forget_stop(record: BreakRecord) -> None:
    """Takes back what `_record_stop` noted last, of a capture that is no part of the program.

    Example:
        >>> forget_stop(stop)
    """
    if _stops and _stops[-1] is record:
        _stops.pop()
        _stop_counts[record.cause] -= 1
        if not _stop_counts[record.cause]:
            del _stop_counts[record.cause]


def _unsupported(record: BreakRecord, cause: BaseException | None) -> Unsupported:
    """Called by `_core` for `fullgraph=True`."""
    error = Unsupported(record)
    error.__cause__ = cause
    return error
