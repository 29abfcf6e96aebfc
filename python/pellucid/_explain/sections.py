"""What the page of `explain` tells below its first screen: breaks and recompiles in full, source, graphs, guards, times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from pellucid._explain.facts import Facts, GraphFact, GuardFact, Place
from pellucid._explain.graphs import GraphLine
from pellucid._explain.places import short
from pellucid._explain.sources import STATES, SourceFunction
from pellucid._explain.text import amount, counted, graph_size, graph_title, where

if TYPE_CHECKING:
    from pellucid._explain.output import ExplainOutput

_NAMES = {"source": "Source", "graphs": "Graphs", "guards": "Guards", "breaks": "Breaks", "recompiles": "Recompiles", "times": "Times"}  # fmt: skip


def navigation() -> str:
    """The bar with links to all sections and the search box."""
    links = "".join(f'<a href="#{key}">{name}</a>' for key, name in _NAMES.items())
    return (
        f'<nav>{links}<span class="soft" id="found"></span>'
        '<input id="search" type="search" placeholder="search source, graphs, guards ( / )" aria-label="search"></nav>'
    )


def all_of(output: ExplainOutput, facts: Facts) -> Iterator[str]:
    """The sections, in the order of the links."""
    parts = {
        "source": _source(output.details.sources),
        "graphs": "".join(_graph(graph, len(facts.graphs)) for graph in facts.graphs),
        "guards": _guards(facts.guards),
        "breaks": _breaks(facts),
        "recompiles": _recompiles(facts),
        "times": _times(facts),
    }
    for key, name in _NAMES.items():
        yield f'<section id="{key}"><h2>{name}</h2>{parts[key] or "<p class=soft>None.</p>"}</section>'


def line_id(place: Place) -> str:
    """The id of a line of source on the page."""
    return f"line-{re.sub(r'[^A-Za-z0-9]+', '-', short(place.file))}-{place.line}"


def _line_link(place: Place) -> str:
    text = escape(where(place))
    return f'<a href="#{line_id(place)}">{text}</a>' if place.source else text


# ---- source


def _source(functions: list[SourceFunction]) -> str:
    if not functions:
        return ""
    legend = " ".join(f'<span class="tag {state}">{state}</span> {words}.' for state, words in STATES.items())
    own = [function for function in functions if not function.library]
    others = [function for function in functions if function.library]
    parts = [f'<p class="soft">{legend} The number beside a line is the time that its capture took, in ms.</p>']
    parts += [_function(function, " open") for function in own]
    if others:
        inner = "".join(_function(function, "") for function in others)
        parts.append(
            f'<details><summary>Libraries <span class="soft">{counted(len(others), "function")}</span></summary>{inner}</details>'
        )
    return "".join(parts)


def _function(function: SourceFunction, opened: str) -> str:
    rows = []
    for line in function.lines:
        shown = [state for state in line.states if state != "captured"] or line.states
        tags = "".join(f'<span class="tag {state}">{state}</span>' for state in shown)
        time = f"{line.milliseconds:.2f}" if line.milliseconds >= 0.005 else ""
        place = Place(function.file, line.number, function.name)
        rows.append(
            f'<tr id="{line_id(place)}" class="{" ".join(line.states)}"><td class="mark">{tags}</td><td class="ms">{time}</td>'
            f'<td class="no">{line.number}</td><td class="mono">{escape(line.text)}</td></tr>'
        )
        rows += [
            f'<tr class="note"><td></td><td></td><td></td><td class="mono">{escape(note)}</td></tr>'
            for note in line.notes
        ]
    about = f"{short(function.file)}, {function.milliseconds:.1f} ms"
    return (
        f'<details{opened}><summary>{escape(function.name)} <span class="soft">{escape(about)}</span></summary>'
        f'<div class="scroll"><table class="source"><tbody>{"".join(rows)}</tbody></table></div></details>'
    )


# ---- graphs


_MANY_INPUTS = 8


def _graph(graph: GraphFact, count: int) -> str:
    title = graph_title(graph)
    about = f"{graph_size(graph)}; {graph.milliseconds:.1f} ms"
    inputs = [_graph_row(line) for line in graph.report.lines if line.kind == "input"]
    others = [_graph_row(line) for line in graph.report.lines if line.kind != "input"]
    if len(inputs) > _MANY_INPUTS:  # parameters, for the most part
        tables = (
            f"<details><summary>{len(inputs)} inputs</summary>{_graph_table(inputs)}</details>{_graph_table(others)}"
        )
    else:
        tables = _graph_table(inputs + others)
    return (
        f'<details id="graph-{graph.number}"{" open" if count <= 2 else ""}><summary>{escape(title[0].upper() + title[1:])} '
        f'<span class="soft">{escape(about)}</span></summary>{tables}</details>'
    )


def _graph_table(rows: list[str]) -> str:
    head = "<tr><th>code</th><th>value</th><th></th><th>line</th></tr>"
    return f'<div class="scroll"><table class="nodes"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _graph_row(line: GraphLine) -> str:
    place = f"{short(line.file)}:{line.line}" if line.line else ""
    code = f"return {line.code}" if line.kind == "output" else line.name + (f" = {line.code}" if line.code else "")
    flops = amount(line.flops, "FLOP") if line.flops else ""
    return (
        f'<tr><td class="mono">{escape(code)}</td><td class="mono">{escape(line.value)}</td>'
        f'<td class="number">{flops}</td><td class="place">{escape(place)}</td></tr>'
    )


# ---- guards


def _guards(guards: list[GuardFact]) -> str:
    if not guards:
        return ""
    values = [guard for guard in guards if guard.of_values]
    others = [guard for guard in guards if not guard.of_values]
    parts = ['<p class="soft">What must hold for the compiled code to be used again. Each guard stands here once.</p>']
    if values:
        parts.append(_guard_table("About values that calls bring along", values, " open"))
    if others:
        parts.append(_guard_table("About types, functions, modules and the state of torch", others, ""))
    return "".join(parts)


def _guard_table(title: str, guards: list[GuardFact], opened: str) -> str:
    rows = []
    for guard in guards:
        place = f"{short(guard.place.file)}:{guard.place.line}" if guard.place.file else ""
        graphs = ", ".join(str(number) for number in guard.graphs if number)
        rows.append(
            f'<tr><td class="mono">{escape(guard.python)}</td><td class="place">{graphs}</td>'
            f'<td class="place">{escape(place)}</td><td>{escape(guard.operation)}</td></tr>'
        )
    head = "<tr><th>guard</th><th>graphs</th><th>line</th><th>because it</th></tr>"
    return (
        f'<details{opened}><summary>{title} <span class="soft">{counted(len(guards), "guard")}</span></summary>'
        f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div></details>'
    )


# ---- breaks, recompiles, times


def _breaks(facts: Facts) -> str:
    cards = []
    for number, one in enumerate(facts.breaks, 1):
        frames = "".join(
            f'<span class="soft">{escape(frame.file)}:{frame.line} in {escape(frame.function)}</span>\n    {escape(frame.source)}\n'
            for frame in one.stack
        )
        often = f", met {one.times} times" if one.times > 1 else ""
        cards.append(
            f'<div class="card" id="break-{number}"><b>{escape(one.code)} {escape(one.name)}</b>: {escape(one.message)}'
            f'<span class="soft">{often}</span><div class="fix">{escape(one.fix)}</div>'
            f'<div class="soft">{escape(one.why)}</div><pre>{frames}</pre></div>'
        )
    return "".join(cards)


def _recompiles(facts: Facts) -> str:
    cards = []
    for number, cause in enumerate(facts.causes, 1):
        parts = []
        for one in (cause.first, *cause.along):
            changes = "".join(
                f'<div><code>{escape(change.text)}</code> <span class="soft">{escape(change.operation)}, {escape(where(change.place))}</span></div>'
                for change in one.changes
            )
            parts.append(f"<div><b>{escape(where(one.place))}</b>, {one.milliseconds:.1f} ms{changes}</div>")
        advice = dict.fromkeys(change.advice for change in cause.first.changes if change.advice)
        fixes = "".join(f'<div class="fix">{escape(text)}</div>' for text in advice)
        cards.append(f'<div class="card" id="recompile-{number}">{parts[0]}{fixes}{"".join(parts[1:])}</div>')
    return "".join(cards)


def _times(facts: Facts) -> str:
    if not facts.phases:
        return ""
    phases = "".join(
        f'<tr><td>{escape(one.name)}</td><td class="number">{one.milliseconds:.2f} ms</td><td>{escape(one.what)}</td></tr>'
        for one in facts.phases
    )
    graphs = "".join(
        f'<tr><td><a href="#graph-{one.number}">{escape(graph_title(one))}</a></td><td class="number">{one.milliseconds:.2f} ms</td><td></td></tr>'
        for one in sorted(facts.graphs, key=lambda one: -one.milliseconds)
    )
    lines = "".join(
        f'<tr><td>{_line_link(one.place)}</td><td class="number">{one.milliseconds:.2f} ms</td>'
        f'<td class="mono">{escape(one.place.source)}</td></tr>'
        for one in facts.line_times
    )
    tables = {"By phase": phases, "By graph": graphs, "By line of the program, libraries that it calls included": lines}
    return "".join(
        f'<details open><summary>{title}</summary><div class="scroll"><table><tbody>{rows}</tbody></table></div></details>'
        for title, rows in tables.items()
        if rows
    )
