"""The report of `explain` as plain data."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pellucid._explain.facts import Facts, GraphFact, RecompileFact, facts_of

if TYPE_CHECKING:
    from pellucid._explain.output import ExplainOutput
    from pellucid._explain.sources import SourceFunction

VERSION = 1
"""Of the layout. It grows when a key goes or changes its meaning, not when one comes."""


def as_dict(output: ExplainOutput) -> dict[str, Any]:
    """All facts of a run, for `json.dumps`."""
    facts = facts_of(output)
    return {
        "version": VERSION,
        "graph_count": len(facts.graphs),
        "break_count": len(facts.breaks),
        "recompile_count": len(facts.recompiles),
        "milliseconds": facts.milliseconds,
        "breaks": [dataclasses.asdict(one) for one in facts.breaks],
        "recompiles": _recompiles(facts),
        "phases": [dataclasses.asdict(one) for one in facts.phases],
        "lines": [dataclasses.asdict(one) for one in facts.line_times],
        "graphs": [_graph(one) for one in facts.graphs],
        "guards": [dataclasses.asdict(one) for one in facts.guards],
        "source": [_function(one) for one in output.details.sources],
    }


def _recompiles(facts: Facts) -> list[dict[str, Any]]:
    """Each with the number (from 0) of the one that it came along with."""
    leads = {id(along): cause.first for cause in facts.causes for along in cause.along}
    numbers = {id(one): number for number, one in enumerate(facts.recompiles)}
    return [_recompile(one, numbers.get(id(leads.get(id(one))))) for one in facts.recompiles]


def _recompile(one: RecompileFact, along_with: int | None) -> dict[str, Any]:
    changes = [{**dataclasses.asdict(change), "text": change.text} for change in one.changes]
    return {**dataclasses.asdict(one), "changes": changes, "along_with": along_with}


def _graph(graph: GraphFact) -> dict[str, Any]:
    report = graph.report
    return {
        "number": graph.number,
        "compile_id": graph.compile_id,
        "place": dataclasses.asdict(graph.place),
        "last_line": graph.last_line,
        "recompiled": graph.recompiled,
        "milliseconds": graph.milliseconds,
        "op_count": report.op_count,
        "flops": report.flops,
        "input_bytes": report.input_bytes,
        "output_bytes": report.output_bytes,
        "made_bytes": report.made_bytes,
        "sizes": {name: value for name, value in report.sizes.items() if isinstance(value, (int, float))},
        "lines": [dataclasses.asdict(line) for line in report.lines],
    }


def _function(function: SourceFunction) -> dict[str, Any]:
    return {**dataclasses.asdict(function), "milliseconds": function.milliseconds}
