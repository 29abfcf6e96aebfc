"""What capture makes of a function: read from the events and records of one real run."""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid import _core
from pellucid._recompiles import Recompile
from pellucid.backends import resolve_backend
from pellucid.backends.registry import lookup_backend
from pellucid.errors import BreakRecord

if TYPE_CHECKING:
    import torch

# Event number -> its name in the table of times, in the order in which the steps run.
_STEPS = {
    "ms": "capture",
    "finish_ms": "finish_graph",
    "guards_ms": "guards",
    "hand_off_ms": "graph_module",
    "backend_ms": "backend",
    "emit_ms": "emit",
}


@dataclass(frozen=True)
class Guard:
    """One assumption of a region, and the line of the program that made it."""

    kind: str
    """"TENSOR_MATCH", "TYPE_MATCH", …"""
    source: str
    """What is looked at, as Python: "L['self'].training"; empty for state of the process."""
    source_kind: str
    text: str
    """What it must be."""
    file: str
    line: int
    operation: str
    """What the program did there."""
    region: int

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else "(state of the process)"
        rows = [
            f"Name: {self.source!r}",
            f"    Source: {self.source_kind or 'global'}",
            f"    Create Function: {self.kind}",
            f"    Expected: {self.text}",
            f"    User Line: {place}" + (f" {self.operation}" if self.operation else ""),
        ]
        return "\n".join(rows) + "\n"


@dataclass
class Region:
    """One compiled region: whose code it stands for, its graph, and what each step took."""

    number: int
    function: str
    graph: int | None
    """Index in `ExplainOutput.graphs`; None when it calls no graph."""
    milliseconds: dict[str, float]


@dataclass
class ExplainOutput:
    """What `explain` tells; `str()` of it is the report, `to_html` writes a page."""

    graphs: list[torch.fx.GraphModule]
    graph_count: int
    graph_break_count: int
    """`graph_count - 1`, as torch._dynamo defines it."""
    break_reasons: list[BreakRecord]
    op_count: int
    """call_function nodes of all graphs."""
    ops_per_graph: list[list[Any]] | None = None
    out_guards: list[Guard] | None = None
    compile_times: str | None = None
    regions: list[Region] = field(default_factory=list, repr=False)
    recompiles: list[Recompile] = field(default_factory=list)
    """Of functions that the call runs more than once."""

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for number, record in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {number}:", f"    Reason: {record.reason}", "    User Stack:"]
            lines += [f"      {frame}" for frame in record.user_stack]
        if self.ops_per_graph is not None:
            lines.append("Ops per Graph:")
            for number, ops in enumerate(self.ops_per_graph, 1):
                lines += [f"  Ops {number}:", *(f"    {op}" for op in ops)]
        if self.out_guards is not None:
            lines.append("Out Guards:")
            for number, guard in enumerate(self.out_guards, 1):
                lines += [f"  Guard {number}:", f"    {guard}".rstrip("\n")]
        if self.recompiles:
            lines.append("Recompiles:")
            for number, recompile in enumerate(self.recompiles, 1):
                lines += [f"  Recompile {number}:", *(f"    {line}" for line in str(recompile).splitlines())]
        if self.compile_times is not None:
            lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines) + "\n"

    def to_html(self, path: str | Path, title: str = "pellucid") -> Path:
        """Writes the report as one page that needs nothing else. Returns its path.

        Raises:
            OSError: it cannot be written.

        Example:
            >>> pellucid.explain(f)(x).to_html("report.html")
        """
        from pellucid._explain_html import page

        path = Path(path)
        path.write_text(page(self, title), encoding="utf-8")
        return path


def call_function_targets(graph_module: torch.fx.GraphModule) -> list[Any]:
    return [node.target for node in graph_module.graph.nodes if node.op == "call_function"]


class ExplainWithBackend:
    """A backend that hands on to another one and remembers what passes: graphs, operations, reasons of breaks.

    Example:
        >>> watched = pellucid.ExplainWithBackend("inductor")
        >>> pellucid.compile(f, backend=watched)(x)
        >>> print(watched.output())
    """

    def __init__(self, backend: str | Callable) -> None:
        """
        Raises:
            InvalidBackend: there is no backend of that name.
            TypeError: neither a name nor a callable.
        """
        self.backend = lookup_backend(backend)
        marks = resolve_backend(backend)  # what is watched is asked for no other graphs
        self.takes_numbers = marks.takes_numbers
        self.takes_symbols = marks.takes_symbols
        self.uses_aot = marks.aot
        self.graphs: list[torch.fx.GraphModule] = []
        self.break_reasons: list[BreakRecord] = []
        self.op_count = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor], **options: Any) -> Callable:
        self.graphs.append(gm)
        self.op_count += len(call_function_targets(gm))
        return self.backend(gm, example_inputs, **options)

    def _on_stop(self, record: BreakRecord) -> None:
        # A function that stops at a call is tried again from the inner function on: the same place, one break.
        if not any(_same_break(record, known) for known in self.break_reasons):
            self.break_reasons.append(record)

    def output(self) -> ExplainOutput:
        """What passed so far. The parts that a backend does not see are None."""
        count = len(self.graphs)
        return ExplainOutput(list(self.graphs), count, count - 1, list(self.break_reasons), self.op_count)


def _same_break(a: BreakRecord, b: BreakRecord) -> bool:
    def place(record: BreakRecord) -> tuple:
        if not record.user_stack:
            return (record.function,)
        frame: traceback.FrameSummary = record.user_stack[-1]
        return (frame.filename, frame.lineno, frame.colno, frame.name)

    return (a.code, a.message, place(a)) == (b.code, b.message, place(b))


class _Watch(ExplainWithBackend):
    """The backend of `explain`: graphs run as they are. Notes where in the events each graph came."""

    def __init__(self) -> None:
        super().__init__("eager")
        self.marks: list[int] = []

    def __call__(self, gm, example_inputs, **options):
        # Looking at the nodes would build the FX graph, inside of the time that counts as the backend's: output() does
        # it later.
        self.marks.append(_core.next_event())
        self.graphs.append(gm)
        return self.backend(gm, example_inputs, **options)

    def output(self) -> ExplainOutput:
        self.op_count = sum(len(call_function_targets(graph)) for graph in self.graphs)
        return super().output()


def explain(fn: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        return _explained(fn, args, kwargs)

    if not callable(fn):
        raise TypeError(f"pellucid.explain needs a callable, not {type(fn).__name__}")
    if not extra_args and not extra_kwargs:
        return inner
    warnings.warn(
        "explain(f, *args, **kwargs) is deprecated, use explain(f)(*args, **kwargs) instead: "
        "keyword arguments of f could collide with later ones of explain.",
        FutureWarning,
        stacklevel=3,
    )
    return inner(*extra_args, **extra_kwargs)


def _explained(fn: Callable, args: tuple, kwargs: dict[str, Any]) -> ExplainOutput:
    from pellucid import api

    api.reset()
    earlier = api.recompile_reasons()  # that someone still holds, a CompileProfiler for one
    try:
        watch = _Watch()
        first_event = _core.next_event()
        # A class is called to make an instance; compile would change the class for good.
        settings = api.Settings(backend=watch)
        compiled = settings(fn) if inspect.isclass(fn) else api._compile_with(fn, settings=settings, disabled=False)
        compiled(*args, **kwargs)
        guards = _core.guards_of(api._compiled_function_of(compiled))
        output = _output(watch, guards, _core.events(first_event))
        output.recompiles = [record for record in api.recompile_reasons() if all(record is not one for one in earlier)]
        return output
    finally:
        api.reset()


def _output(watch: _Watch, guards: dict[int, list[dict]], events: Sequence[_core.Event]) -> ExplainOutput:
    output = watch.output()
    output.ops_per_graph = [call_function_targets(graph) for graph in output.graphs]
    output.out_guards = [Guard(**row, region=region) for region in sorted(guards) for row in guards[region]]
    output.regions = _regions(watch.marks, guards, events)
    output.compile_times = _table_of_times(output.regions, events)
    return output


def _regions(marks: list[int], guards: dict[int, list[dict]], events: Sequence[_core.Event]) -> list[Region]:
    """The regions of this run. Other functions (and threads) may have written events in between."""
    regions = []
    before: dict[tuple[int, str], _core.Event] = {}  # (thread, kind) -> the newest event
    for event in events:
        number = event["numbers"].get("region")
        if event["kind"] == "entry" and number in guards:
            capture = before.get((event["thread"], "capture"))
            backend = before.get((event["thread"], "backend"))
            if capture and backend and backend["serial"] < capture["serial"]:
                backend = None
            numbers = {
                **(capture or {"numbers": {}})["numbers"],
                **(backend or {"numbers": {}})["numbers"],
                **event["numbers"],
            }
            regions.append(
                Region(
                    int(number),
                    event["text"],
                    _graph_index(marks, backend),
                    {_STEPS[key]: numbers[key] for key in _STEPS if key in numbers},
                )
            )
        before[event["thread"], event["kind"]] = event
    return regions


def _graph_index(marks: list[int], backend_event: _core.Event | None) -> int | None:
    """The newest graph that was handed over before its backend's event was written."""
    if backend_event is None:
        return None
    return max((index for index, mark in enumerate(marks) if mark <= backend_event["serial"]), default=None)


def _table_of_times(regions: list[Region], events: Sequence[_core.Event]) -> str:
    stopped = [
        event["numbers"]["ms"] for event in events if event["kind"] == "capture" and not event["numbers"]["captured"]
    ]
    rows = [
        (step, [region.milliseconds[step] for region in regions if step in region.milliseconds])
        for step in _STEPS.values()
    ]
    rows.append(("stopped captures", stopped))
    lines = ["pellucid compilation metrics:", f"{'Function':<18}{'Total (ms)':>12}   Runtimes (ms)"]
    lines += [
        f"{step:<18}{sum(times):>12.3f}   {', '.join(f'{time:.3f}' for time in times)}" for step, times in rows if times
    ]
    lines.append(f"{'all':<18}{sum(sum(times) for _, times in rows):>12.3f}")
    return "\n".join(lines)
