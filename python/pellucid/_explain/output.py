"""What `explain` gives: the fields of torch._dynamo's class of this name, and what all reports are made of."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid._in_words import Words
from pellucid._recompiles import Recompile
from pellucid.errors import BreakRecord

if TYPE_CHECKING:
    import torch

    from pellucid._capture_profile import CompileProfile
    from pellucid._explain.graphs import GraphReport
    from pellucid._explain.record import RecordedCompile
    from pellucid._explain.sources import SourceFunction


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
    goes_on: bool = False
    """Whether its region goes on behind a graph break: its locals are those of the frames that are open there."""
    words: Words = field(default_factory=Words, repr=False, compare=False)
    """The names that its region's values have in the program."""

    @property
    def python(self) -> str:
        """The same as Python in the program's own names: `self.training is True`."""
        from pellucid._explain.guard_text import python_of

        return python_of(self.kind, self.source, self.text, self.words)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else "(state of the process)"
        rows = [
            f"Name: {self.source!r}",
            f"    Source: {self.source_kind or 'global'}",
            f"    Create Function: {self.kind}",
            f"    Expected: {self.text}",
            f"    Python: {self.python}",
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
class Details:
    """What reports are made of, besides the fields of `ExplainOutput`. Sources and graphs are looked at when they are read."""

    compiles: list[RecordedCompile]
    graphs: list[GraphReport]
    guards: list[Guard]
    profile: CompileProfile | None
    """Of the lines; None where time was not taken."""

    @functools.cached_property
    def lines(self) -> dict[tuple[str, int], float]:
        """Milliseconds of capture at each line that it came to."""
        if self.profile is None:
            return {}
        found: dict[tuple[str, int], float] = {}
        for place, (own, _) in self.profile.by_line().items():
            found[place.file, place.line] = found.get((place.file, place.line), 0.0) + own * 1e3
        return found

    @functools.cached_property
    def sources(self) -> list[SourceFunction]:
        from pellucid._explain.sources import annotated

        places = [(line.file, line.line) for graph in self.graphs for line in graph.lines]
        return annotated(self.compiles, places, self.lines)

    @property
    def phases(self) -> dict[str, float]:
        """Milliseconds of each phase, of all compiles."""
        sums: dict[str, float] = {}
        for compiled in self.compiles:
            for phase, time in compiled.milliseconds.items():
                sums[phase] = sums.get(phase, 0.0) + time
        return sums


@dataclass
class ExplainOutput:
    """What `explain` tells. `str()` of it is the report in torch._dynamo's layout, `text()` the one for people; `to_html`
    writes a page, `to_dict` gives plain data."""

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
    details: Details = field(default_factory=lambda: Details([], [], [], None), repr=False, compare=False)

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
            once = dict.fromkeys(map(str, self.out_guards))  # what several regions ask is told once
            for number, text in enumerate(once, 1):
                lines += [f"  Guard {number}:", f"    {text}".rstrip("\n")]
        if self.recompiles:
            lines.append("Recompiles:")
            for number, recompile in enumerate(self.recompiles, 1):
                lines += [f"  Recompile {number}:", *(f"    {line}" for line in str(recompile).splitlines())]
        if self.compile_times is not None:
            lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines) + "\n"

    def text(self, only: Sequence[str] | None = None) -> str:
        """The report for people: how many graphs, where each break is and how to remove it, why each recompile happened,
        where the time went; then the source line by line, the graphs and the guards.

        Args:
            only: some of "summary", "source", "graphs", "guards".

        Raises:
            ValueError: a name that is none of these.

        Example:
            >>> print(pellucid.explain(f)(x).text(["summary", "source"]))
        """
        from pellucid._explain.text import report

        return report(self, only)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data for `json.dumps`.

        Example:
            >>> json.dumps(pellucid.explain(f)(x).to_dict())
        """
        from pellucid._explain.data import as_dict

        return as_dict(self)

    def to_html(self, path: str | Path, title: str = "pellucid") -> Path:
        """Writes the report as one page that needs nothing else. Returns its path.

        Raises:
            OSError: it cannot be written.

        Example:
            >>> pellucid.explain(f)(x).to_html("report.html")
        """
        from pellucid._explain.html import page

        path = Path(path)
        path.write_text(page(self, title), encoding="utf-8")
        return path
