"""TORCH_TRACE: a reader of the events that writes the structured records which `tlparse` makes a report of."""

from __future__ import annotations

import dis
import threading
from collections.abc import Callable
from typing import Any

import torch._logging
import torch._logging._internal as torch_logs
from torch._guards import CompileId
from torch._logging.structured import intern_string

from pellucid import events


def is_on() -> bool:
    """Whether structured records go anywhere: a handler is there that formats them, and torch's own has a folder."""
    return any(
        getattr(handler.formatter, "_is_trace", False) and getattr(handler, "root_dir", "elsewhere") is not None
        for handler in torch_logs.trace_log.handlers
    )


def _write(event: events.Event, name: str, metadata: Any = dict, payload: Any = lambda: None) -> None:
    frame, compilation = event.compile_id or (None, None)
    compile_id = CompileId(frame_id=frame, frame_compile_id=compilation) if frame is not None else None
    torch._logging.trace_structured(
        name, metadata, payload_fn=payload, expect_trace_id=False, record_logging_overhead=False, compile_id=compile_id
    )


def _artifact(event: events.Event, name: str, text: Any, encoding: str = "string") -> None:
    _write(event, "artifact", lambda: {"name": name, "encoding": encoding}, text)


def _stack(code: Any) -> list[dict[str, Any]]:
    file = intern_string(code.co_filename)
    return [{"line": code.co_firstlineno, "name": code.co_qualname, "filename": file}]


class Reader(threading.local):
    """Writes a record, or a few, for each event; what it remembers of a compile is its thread's."""

    def __init__(self) -> None:
        self._started: list[events.CompileStarted] = []
        self._facts: dict[str, Any] = {}

    def __call__(self, event: events.Event) -> None:
        write = _WRITES.get(type(event))
        if write is not None:
            write(self, event)

    def _compile_started(self, event: events.CompileStarted) -> None:
        self._started.append(event)
        self._facts = {}
        stack = _stack(event.code)
        _write(event, "dynamo_start", lambda: {"stack": stack})

    def _backend_started(self, event: events.BackendStarted) -> None:
        from pellucid._log_reader import code_text, sizes

        module = event.graph_module
        self._facts["graph_op_count"] = sum(node.op.startswith("call_") for node in module.graph.nodes)
        self._facts["graph_node_count"] = len(module.graph.nodes)
        self._facts["graph_input_count"] = len(module.graph.find_nodes(op="placeholder"))
        texts = {name: [dim if type(dim) is int else str(dim) for dim in size] for name, size in sizes(module).items()}
        _write(event, "dynamo_output_graph", lambda: {"sizes": texts}, lambda: code_text(module))

    def _backend_finished(self, event: events.BackendFinished) -> None:
        if event.error is not None:
            error = event.error
            self._facts["fail_type"], self._facts["fail_reason"] = type(error).__qualname__, str(error)
            _artifact(event, "dynamo_error", lambda: f"{type(error).__name__}: {error}")

    def _region_finished(self, event: events.RegionFinished) -> None:
        lines = event.guard_lines.splitlines()
        self._facts["guard_count"] = len(lines)
        code, made = event.code, event.emitted_function.__code__
        rows = [{"code": line, "stack": None, "user_stack": None} for line in lines]
        _write(event, "dynamo_guards", dict, lambda: rows)
        _write(event, "dynamo_cpp_guards_str", dict, lambda: event.guard_lines)
        _artifact(event, f"{code.co_name}_ORIGINAL_BYTECODE", lambda: dis.Bytecode(code).dis())
        _artifact(event, f"{code.co_name}_MODIFIED_BYTECODE", lambda: dis.Bytecode(made).dis())
        if event.effects:
            _artifact(event, "dynamo_side_effects", lambda: "\n".join(event.effects))

    def _graph_break(self, event: events.GraphBreak) -> None:
        _artifact(event, "dynamo_graph_break_reason", lambda: str(event.record))

    def _recompiled(self, event: events.Recompiled) -> None:
        _artifact(event, "recompile_reasons", lambda: str(event.record))

    def _compile_finished(self, event: events.CompileFinished) -> None:
        if not self._started:
            return
        started = self._started.pop()
        code = started.code
        facts = {
            "compile_id": "/".join(map(str, event.compile_id or ())),
            "co_name": code.co_name,
            "co_filename": code.co_filename,
            "co_firstlineno": code.co_firstlineno,
            "entire_frame_compile_time_s": event.seconds - started.seconds,
            **dict.fromkeys(("fail_type", "fail_reason")),
            **self._facts,
        }
        _write(event, "compilation_metrics", lambda: facts)


_WRITES: dict[type[events.Event], Callable[[Any, Any], None]] = {
    events.CompileStarted: Reader._compile_started,
    events.BackendStarted: Reader._backend_started,
    events.BackendFinished: Reader._backend_finished,
    events.RegionFinished: Reader._region_finished,
    events.GraphBreak: Reader._graph_break,
    events.Recompiled: Reader._recompiled,
    events.CompileFinished: Reader._compile_finished,
}
