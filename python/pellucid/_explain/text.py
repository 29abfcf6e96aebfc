"""The report of `explain` as text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pellucid._explain.facts import Cause, Facts, GraphFact, Place, facts_of
from pellucid._explain.places import short

if TYPE_CHECKING:
    from pellucid._explain.output import ExplainOutput
    from pellucid._explain.sources import SourceFunction

_TOP_LINES = 8
_GUTTER = {"captured": "|", "broken": "X", "eager": "~", "recompiled": "R"}


def report(output: ExplainOutput, only: Sequence[str] | None = None) -> str:
    """The parts that `only` names, all without it.

    Raises:
        ValueError: there is no such part.
    """
    for name in only or ():
        if name not in PARTS:
            raise ValueError(f"there is no part {name!r}; the parts are {', '.join(PARTS)}")
    facts = facts_of(output)
    chosen = [write for name, write in PARTS.items() if only is None or name in only]
    return "\n".join("\n".join(write(output, facts)) + "\n" for write in chosen)


def headline(facts: Facts) -> str:
    """ "5 graphs, 2 graph breaks, no recompiles, 12.3 ms to compile"."""
    along = len(facts.recompiles) - len(facts.causes)
    return ", ".join(
        [
            counted(len(facts.graphs), "graph"),
            counted(len(facts.breaks), "graph break"),
            counted(len(facts.causes), "recompile") + (f" (and {along} along with them)" if along else ""),
            f"{facts.milliseconds:.1f} ms to compile",
        ]
    )


def counted(count: int, noun: str) -> str:
    """ "no graphs", "1 graph", "3 graphs"."""
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def where(place: Place) -> str:
    """ "model.py:12 in Model.forward"."""
    if not place.file:
        return place.function
    return f"{short(place.file)}:{place.line}" + (f" in {place.function}" if place.function else "")


def amount(number: float, unit: str) -> str:
    """ "1.5 kB", "24.6 kFLOP"."""
    for prefix in ("", "k", "M", "G", "T"):
        if abs(number) < 1000 or prefix == "T":
            return f"{number:.0f} {prefix}{unit}" if number == int(number) else f"{number:.1f} {prefix}{unit}"
        number /= 1000
    raise AssertionError


def graph_title(graph: GraphFact) -> str:
    """ "graph 2: Model.forward, model.py:12-14"."""
    lines = f"{graph.place.line}-{graph.last_line}" if graph.last_line != graph.place.line else str(graph.place.line)
    again = ", compiled again" if graph.recompiled else ""
    return f"graph {graph.number}: {graph.place.function}, {short(graph.place.file)}:{lines}{again}"


def graph_size(graph: GraphFact) -> str:
    """ "3 operations, 24.6 kFLOP, 12.9 kB in, 512 B out"."""
    report = graph.report
    parts = [counted(report.op_count, "operation"), amount(report.flops, "FLOP")]
    parts += [f"{amount(report.input_bytes, 'B')} in", f"{amount(report.output_bytes, 'B')} out"]
    if report.sizes:
        parts.append("with " + ", ".join(f"{name} = {value}" for name, value in report.sizes.items()))
    return ", ".join(parts)


# ---- the parts


def _summary(output: ExplainOutput, facts: Facts) -> Iterator[str]:
    yield headline(facts)
    for number, one in enumerate(facts.breaks, 1):
        often = f" ({one.times} times)" if one.times > 1 else ""
        yield ""
        yield f"break {number}: {where(one.place)}{often}"
        if one.place.source:
            yield f"    {one.place.source}"
        yield f"  {one.code} {one.message}"
        yield f"  to remove it: {one.fix}"
    for number, cause in enumerate(facts.causes, 1):
        yield ""
        yield from _cause(number, cause)
    if facts.phases:
        yield ""
        yield "where the time went"
        for phase in facts.phases:
            yield f"  {phase.milliseconds:9.2f} ms  {100 * phase.milliseconds / facts.milliseconds:3.0f} %  {phase.name}: {phase.what}"
    if facts.line_times:
        yield "  lines that took longest to capture"
        for line in facts.line_times[:_TOP_LINES]:
            yield f"  {line.milliseconds:9.2f} ms         {where(line.place)}: {line.place.source}"


def _cause(number: int, cause: Cause) -> Iterator[str]:
    first = cause.first
    yield f"recompile {number}: {where(first.place)}, {cause.milliseconds:.1f} ms"
    for change in first.changes:
        yield f"  {change.text}"
        if change.advice:
            yield f"  to avoid it: {change.advice}"
    if cause.along:
        yield f"  along with it: {counted(len(cause.along), 'part')} behind graph breaks"


def _source(output: ExplainOutput, facts: Facts) -> Iterator[str]:
    yield "source: | captured, X graph break, ~ eager, R compiled again; ms of capture"
    for function in output.details.sources:
        if not function.library:
            yield ""
            yield from _function(function)


def _function(function: SourceFunction) -> Iterator[str]:
    yield f"{function.name} ({short(function.file)})"
    for line in function.lines:
        marks = "".join(_GUTTER[state] for state in line.states)
        time = f"{line.milliseconds:.2f}" if line.milliseconds >= 0.005 else ""
        yield f"{marks:>3} {time:>8} {line.number:>5}  {line.text}".rstrip()
        for note in line.notes:
            yield f"{'':>19}# {note}"


def _graphs(output: ExplainOutput, facts: Facts) -> Iterator[str]:
    if not facts.graphs:
        yield "no graphs"
    for at, graph in enumerate(facts.graphs):
        if at:
            yield ""
        yield graph_title(graph)
        yield f"  {graph_size(graph)}; {graph.milliseconds:.1f} ms to compile"
        for line in graph.report.lines:
            head = {"output": "return "}.get(
                line.kind, line.name + (f": {line.value}" if line.value else "") + (" = " if line.code else "")
            )
            flops = f", {amount(line.flops, 'FLOP')}" if line.flops else ""
            note = f"  # {short(line.file)}:{line.line}{flops}" if line.line and line.kind == "op" else ""
            note = f"  # {line.comes_from}" if line.comes_from else note
            yield f"  {head}{line.code}{note}"


def _guards(output: ExplainOutput, facts: Facts) -> Iterator[str]:
    yield counted(len(facts.guards), "guard")
    for guard in facts.guards:
        graphs = ", ".join(str(number) for number in guard.graphs if number) or "none"
        place = f"{short(guard.place.file)}:{guard.place.line}, {guard.operation}; " if guard.place.file else ""
        comment = "; " if "  # " in guard.python else "  # "
        yield f"  {guard.python}{comment}{place}graphs {graphs}"


PARTS: dict[str, Callable[[ExplainOutput, Facts], Iterator[str]]] = {
    "summary": _summary,
    "source": _source,
    "graphs": _graphs,
    "guards": _guards,
}
"""The parts of a report, in their order."""
