"""Logs: a reader of the events that writes to torch's loggers, while one of them is on (TORCH_LOGS, torch._logging.set_logs).

The loggers are children of "torch._dynamo", so all switches of torch's mean ours too; torch._dynamo itself is not imported.
"""

from __future__ import annotations

import dis
import functools
import linecache
import logging
import math
import os
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._logging

from pellucid import _core, _trace_reader, config, events
from pellucid._decompile import CannotDecompile, decompile

_PARENT = "torch._dynamo.pellucid"
_steps = logging.getLogger(_PARENT)
_ARTIFACTS = ("graph", "graph_code", "graph_sizes", "bytecode", "guards", "graph_breaks", "side_effects")
_TRACED = ("trace_source", "trace_call", "trace_bytecode")
_loggers = {name: torch._logging.getArtifactLogger(_PARENT, name) for name in (*_ARTIFACTS, *_TRACED)}


def _place(code: types.CodeType) -> str:
    return f"{code.co_qualname} {code.co_filename}:{code.co_firstlineno}"


def table(module: Any) -> str:
    """The nodes of a graph, a row for each."""
    head = ("opcode", "name", "target", "args", "kwargs")
    rows = [head, *((n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in module.graph.nodes)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def sizes(module: Any) -> dict[str, list[Any]]:
    """The size of each tensor of a graph, by the name of its node."""
    found = {}
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            found[node.name] = list(value.shape)
    return found


_Symbols = dict[str, tuple[str | None, Any]]  # name -> source, value in this call
_MATH = {"__builtins__": {}, "min": min, "max": max, "int": int, "float": float, "abs": abs, "math": math}


def sizes_text(name: str, module: Any, symbols: _Symbols) -> str:
    """The size of each tensor; where it is open, a second line says what it is in this call."""
    hints = {symbol: value for symbol, (_, value) in symbols.items()}
    lines = [f"TRACED GRAPH TENSOR SIZES of {name}"]
    for node, size in sizes(module).items():
        lines.append(f"{node}: ({', '.join(map(str, size))})")
        if not all(type(dim) is int for dim in size):
            known = [dim if type(dim) is int else _evaluated(str(dim), hints) for dim in size]
            lines.append(f"{node} (concrete): ({', '.join(map(str, known))})")
    return "\n".join(lines)


def symbols_of(event: events.BackendStarted) -> _Symbols:
    """All that stay open: of a backend that takes numbers the core keeps no sizes, which its inputs have."""
    found = dict(event.symbols)
    for node in event.graph_module.graph.find_nodes(op="placeholder"):
        real, fake = node.meta["grapharg"].example, node.meta.get("example_value")
        if isinstance(real, torch.Tensor) and isinstance(fake, torch.Tensor):
            for i, (dim, size) in enumerate(zip(fake.shape, real.shape, strict=True)):
                if type(dim) is not int:
                    found.setdefault(str(dim), (f"{node._dynamo_source.path}.size({i})", size))
    return found


def _evaluated(expression: str, hints: dict[str, Any]) -> Any:
    try:
        return eval(expression, {**_MATH, **hints})
    except Exception:  # of a number that only the graph knows
        return "?"


@functools.cache
def load_printer() -> None:
    """Imports what torch's printer of graphs imports when it is first used, so that no compile does: a process that forks while
    another thread is inside of an import would wait for that import for good."""
    graph = torch.fx.Graph()
    graph.output(graph.placeholder("x"))
    code_text(torch.fx.GraphModule({}, graph))


def _prints_graphs() -> bool:
    return _loggers["graph_code"].isEnabledFor(logging.DEBUG) or _trace_reader.is_on() or _writes_debug_files()


def _writes_debug_files() -> bool:
    return os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1"


def code_text(module: Any) -> str:
    return module.print_readable(print_output=False, include_stride=True, include_device=True)


def _underlined(file: str, at: dis.Positions) -> str:
    """The line of the program with the expression marked; of one that goes over several lines the part in the first."""
    line = linecache.getline(file, at.lineno or 0).rstrip()
    if at.col_offset is None or at.end_col_offset is None:
        return line
    in_bytes = line.encode()
    begin = len(in_bytes[: at.col_offset].decode(errors="replace"))
    end = len(in_bytes[: at.end_col_offset].decode(errors="replace")) if at.end_lineno == at.lineno else len(line)
    return f"{line}\n{' ' * begin}{'^' * max(end - begin, 1)}"


def _bytecode(event: events.RegionFinished) -> str:
    old, new = event.code, event.emitted_function.__code__
    return (
        f"ORIGINAL BYTECODE {_place(old)}\n{dis.Bytecode(old).dis()}\n"
        f"MODIFIED BYTECODE {event.name} of {_place(old)}\n{dis.Bytecode(new).dis()}"
        + (_sources(event) if config.value_of("bytecode_log_source") else "")
    )


def _sources(event: events.RegionFinished) -> str:
    try:
        original = str(decompile(event.code))
    except CannotDecompile as error:
        original = f"# it cannot be decompiled: {error}"
    return f"\nORIGINAL SOURCE {_place(event.code)}\n{original}\nMODIFIED SOURCE {event.name}\n{event.emitted}"


def _details(event: events.BackendStarted) -> Iterator[str]:
    """A line for each input, open number, input that nothing needs, and assertion of the graph."""
    graph = event.graph_module.graph
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("example_value")
        number = f", {value} in this call" if type(value) in (int, float) else ""
        yield f"input {node.name} of {event.name}: {node._dynamo_source.path}{number}"
    for symbol, (source, value) in symbols_of(event).items():
        yield f"symbol {symbol} of {event.name}: {source or 'a number that the graph gives'}, {value} in this call"
    for source in event.unused_inputs:
        yield f"unused input of {event.name}, which the graph does not get: {source}"
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default):
        yield f"assertion {node.name} of {event.name}: {node.args[1]}"


class _Reader(threading.local):
    """Writes to loggers; what it remembers of a compile is its thread's. `loggers`: by artifact; `steps`: for everything else."""

    def __init__(self, steps: logging.Logger, loggers: dict[str, logging.Logger]) -> None:
        self.steps = steps
        self.loggers = loggers
        self._started: list[events.CompileStarted] = []
        self._backend = ""
        self._line: tuple[str, int] | None = None
        self._codes: dict[int, tuple[types.CodeType, dict[int, Any]]] = {}  # while something is compiled

    def __call__(self, event: events.Event) -> None:
        write = _WRITES.get(type(event))
        if write is not None:
            write(self, event)

    def _write(self, artifact: str, text: Callable[[], str]) -> None:
        log = self.loggers[artifact]
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s", text())

    def _compile_started(self, event: events.CompileStarted) -> None:
        self._started.append(event)
        behind = ", behind a graph break" if event.goes_on else ""
        self.steps.info("Step 1: pellucid starts to capture %s%s", _place(event.code), behind)

    def _compile_finished(self, event: events.CompileFinished) -> None:
        started = self._started.pop() if self._started else None
        if not self._started:
            self._codes.clear()
        if started is not None and not event.failed:
            took = (event.seconds - started.seconds) * 1000
            self.steps.info("pellucid is done with %s, %.1f ms", _place(started.code), took)

    def _capture_restarted(self, event: events.CaptureRestarted) -> None:
        self.steps.debug("Step 1: what was captured is dropped, torch's state is put back: %s", event.why)

    def _backend_started(self, event: events.BackendStarted) -> None:
        if self._started:
            self.steps.info("Step 1: pellucid is done with capturing %s", _place(self._started[-1].code))
        self._write("graph", lambda: f"TRACED GRAPH\n{event.name}\n{table(event.graph_module)}")
        self._write("graph_code", lambda: f"TRACED GRAPH\n===== {event.name} =====\n{code_text(event.graph_module)}")
        self._write("graph_sizes", lambda: sizes_text(event.name, event.graph_module, symbols_of(event)))
        if self.steps.isEnabledFor(logging.DEBUG):
            for line in _details(event):
                self.steps.debug("%s", line)
        self._backend = event.backend
        self.steps.info("Step 2: the backend %s is called with %s", event.backend, event.name)

    def _backend_finished(self, event: events.BackendFinished) -> None:
        if event.error is None:
            self.steps.info("Step 2: the backend %s is done", self._backend)

    def _region_finished(self, event: events.RegionFinished) -> None:
        self._write("bytecode", lambda: _bytecode(event))
        self._write("guards", lambda: f"GUARDS of {event.name}:\n{event.guard_lines}")
        if event.effects:
            self._write("side_effects", lambda: f"effects of {event.name}:\n" + "\n".join(event.effects))
        why = "a graph break" if event.ends_early else "the end of the program"
        self.steps.debug("%s ends with %s", event.name, why)

    def _graph_break(self, event: events.GraphBreak) -> None:
        self._write("graph_breaks", lambda: f"Graph break in {event.record.function}\n{event.record}")

    def _limit_hit(self, event: events.LimitHit) -> None:
        self.steps.debug("%s", event.text)

    def _instruction(self, event: events.Instruction) -> None:
        code = event.code
        at = self._decoded(code)[event.offset]
        where = at.positions
        line = code.co_firstlineno if where.lineno is None else where.lineno
        if self._line != (code.co_filename, line):
            self._line = (code.co_filename, line)
            self._write(
                "trace_source",
                lambda: (
                    f"TRACE starts_line {code.co_filename}:{line} in {code.co_qualname}\n"
                    f"    {linecache.getline(code.co_filename, line).strip()}"
                ),
            )
        self._write("trace_bytecode", lambda: f"TRACE {at.opname} {at.argrepr} {event.stack}")
        if at.opname in ("CALL", "CALL_FUNCTION_EX", "BINARY_OP"):
            self._write(
                "trace_call",
                lambda: (
                    f"TRACE {at.opname} in {code.co_qualname}, {code.co_filename}:{line}\n"
                    + _underlined(code.co_filename, where)
                ),
            )

    def _decoded(self, code: types.CodeType) -> dict[int, Any]:
        """The instructions by their offset. Codes are kept by identity: comparing two looks through both."""
        kept = self._codes.get(id(code))
        if kept is None:
            kept = self._codes[id(code)] = (code, {one.offset: one for one in dis.get_instructions(code)})
        return kept[1]


_WRITES: dict[type[events.Event], Callable[[Any, Any], None]] = {
    events.CompileStarted: _Reader._compile_started,
    events.CompileFinished: _Reader._compile_finished,
    events.CaptureRestarted: _Reader._capture_restarted,
    events.BackendStarted: _Reader._backend_started,
    events.BackendFinished: _Reader._backend_finished,
    events.RegionFinished: _Reader._region_finished,
    events.GraphBreak: _Reader._graph_break,
    events.LimitHit: _Reader._limit_hit,
    events.Instruction: _Reader._instruction,
}

# What listens because of torch's switches; made and dropped by _follow.
_readers: dict[str, events.Subscription] = {}


_following = threading.RLock()


def _follow() -> None:
    """Called by `_core` at the first compile, and at the first one after any level of `logging` has changed."""
    on = _steps.isEnabledFor(logging.INFO) or any(log.isEnabledFor(logging.DEBUG) for log in _loggers.values())
    traced = any(_loggers[name].isEnabledFor(logging.DEBUG) for name in _TRACED)
    if _prints_graphs():
        load_printer()
    with _following:
        _set("logs", on, lambda: _Reader(_steps, _loggers), traced)
        _set("trace", _trace_reader.is_on(), _trace_reader.Reader, False)
        _set("debug", _writes_debug_files(), _debug_reader, False)
    _loggers["graph"].isEnabledFor(logging.DEBUG)  # its cache, which _core looks at, is filled


def _set(name: str, on: bool, make: Callable[[], Any], instructions: bool) -> None:
    now = _readers.get(name)
    if now is not None and (not on or now.instructions != instructions):
        _readers.pop(name).close()
        now = None
    if on and now is None:
        _readers[name] = events.subscribe(make(), instructions=instructions)


def _debug_reader() -> Any:
    """What goes to debug.log of the run's debug directory, which torch chooses: its Inductor writes there as well."""
    from torch._dynamo.utils import get_debug_dir

    folder = os.path.join(get_debug_dir(), "torchdynamo")
    os.makedirs(folder, exist_ok=True)
    log = logging.Logger("pellucid.debug", min(logging.INFO, _steps.getEffectiveLevel()))
    handler = logging.FileHandler(os.path.join(folder, "debug.log"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    detail = logging.Logger("pellucid.debug", logging.DEBUG)
    detail.addHandler(handler)
    quiet = logging.Logger("pellucid.debug", logging.CRITICAL)
    return _Reader(log, {name: quiet if name in _TRACED else detail for name in _loggers})


def follow_torch() -> None:
    """Called once when pellucid is imported."""
    if _prints_graphs():
        load_printer()
    _loggers["graph"]._cache.clear()  # type: ignore[attr-defined]
    _core.set_log_levels(_loggers["graph"]._cache, _follow)  # type: ignore[attr-defined]
