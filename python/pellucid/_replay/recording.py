"""Writing records: of a capture that failed, or of any that is asked for."""

from __future__ import annotations

import dis
import importlib.util
import inspect
import platform
import re
import sys
import threading
import types
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from pellucid import config, events
from pellucid._replay import changes, file, library
from pellucid._replay.outcome import Outcome, Settings, captured
from pellucid._replay.writer import Writer

_recording = threading.local()


def is_recording() -> bool:
    """Whether this thread captures for a record just now."""
    return getattr(_recording, "on", False)


def record_call(
    function: types.FunctionType,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    settings: Settings,
    path: Callable[[Outcome], Path],
) -> tuple[Path, Outcome, list[tuple[str, str]]]:
    """Captures a call once more, to see what code it runs through, and writes what that may read.

    Gives the file, what came of the capture, and what of it could not be written, with why.

    Raises:
        OSError: the file cannot be written.
    """
    executed: dict[types.CodeType, None] = {}

    def see(event: events.Event) -> None:
        if isinstance(event, events.Instruction):
            executed.setdefault(event.code)

    _recording.on = True
    try:
        with settings.hold(), events.subscribe(see, instructions=True):
            outcome, _ = captured(function, args, kwargs, settings)
    finally:
        _recording.on = False
    executed.setdefault(function.__code__)
    program = [code for code in executed if not _is_ours(code)]
    writer = Writer(program)
    libraries = changes.written(writer, program)
    called = {
        "function": writer.write(function, "f"),
        "args": [writer.write(value, f"args[{i}]") for i, value in enumerate(args)],
        "kwargs": {name: writer.write(value, f"kwargs[{name!r}]") for name, value in kwargs.items()},
        "imports": {name: writer.write(sys.modules[name], f"sys.modules[{name!r}]") for name in _imported(program)},
        "reorderable": writer.write(set(config.value_of("reorderable_logging_functions")), "config"),
    }
    record = {
        "format": file.FORMAT,
        "version": file.VERSION,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "settings": asdict(settings),
        "call": called,
        "outcome": asdict(outcome),
        "libraries": libraries,
        "operators": _operators(writer.names),
        "missing": [list(each) for each in writer.missing],
        "rows": writer.rows,
    }
    return file.write(path(outcome), record, writer.texts.texts), outcome, writer.missing


def _operators(names: set[str]) -> list[str]:
    """The operators of `torch.ops` that the code may ask for: a program registers its own, and then a replay lacks them."""
    namespaces = [(name, of) for name, of in list(vars(torch.ops).items()) if isinstance(of, torch._ops._OpNamespace)]
    return [
        f"{namespace}.{name}"
        for namespace, of in namespaces
        for name, operator in list(vars(of).items())
        if {namespace, name} <= names and isinstance(operator, torch._ops.OpOverloadPacket)
    ]


def _is_ours(code: types.CodeType) -> bool:
    return code.co_filename.startswith(_OURS)


_OURS = str(Path(__file__).parent.parent) + "/polyfills"


def _imported(codes: list[types.CodeType]) -> list[str]:
    """Modules of the program that the code imports, which a replay has to find in `sys.modules`."""
    names: dict[str, None] = {}
    for code in codes:
        for name in imports_of(code, library.module_of_file(code.co_filename)[1]):
            if isinstance(sys.modules.get(name), types.ModuleType) and not library.is_library(name):
                names.setdefault(name)
    return list(names)


def imports_of(code: types.CodeType, package: str) -> list[str]:
    """The names of all modules that the import statements of a code object may load, packages first."""
    names: list[str] = []
    before: list[Any] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            level, given = before[-2].argval, before[-1].argval
            name = str(instruction.argval)
            if isinstance(level, int) and level > 0:
                try:
                    name = importlib.util.resolve_name("." * level + name, package)
                except ImportError:
                    continue
            parts = name.split(".")
            names += [".".join(parts[: i + 1]) for i in range(len(parts))]
            names += [f"{name}.{each}" for each in given or ()] if isinstance(given, tuple) else []
        before.append(instruction)
    return names


def bound_call(function: types.FunctionType, slots: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of a call whose parameters are bound, in the order of `co_varnames`."""
    code = function.__code__
    positional, keywords = code.co_argcount, code.co_kwonlyargcount
    args = slots[:positional]
    kwargs = dict(zip(code.co_varnames[positional : positional + keywords], slots[positional:], strict=False))
    rest = list(slots[positional + keywords :])
    if code.co_flags & inspect.CO_VARARGS:
        args += rest.pop(0)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(rest.pop(0))
    return args, kwargs


def default_path(function: str, kind: str, line: int) -> Path:
    """`base_dir/recordings/f_PEL0304_12.rec`, absolute: the command that names it is good anywhere."""
    name = re.sub(r"\W+", "_", function).strip("_")[-80:] or "function"
    return Path(config.value_of("base_dir")).absolute() / "recordings" / f"{name}_{kind}_{line}.rec"
