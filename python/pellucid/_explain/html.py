"""The page of an ExplainOutput: one file that loads nothing. Its first screen answers how many graphs there are, where each
break is and how to remove it, why each recompile happened, and where the time went."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid._explain import sections
from pellucid._explain.facts import BreakFact, Cause, Facts, Place, facts_of
from pellucid._explain.places import short
from pellucid._explain.text import counted

if TYPE_CHECKING:
    from pellucid._explain.output import ExplainOutput

_FOLDER = Path(__file__).parent
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
# As many as fit the first screen at 1280 × 800 with texts of the usual length; the others are below.
_FIRST_BREAKS = 5
_FIRST_CAUSES = 4
_FIRST_LINES = 5


def page(output: ExplainOutput, title: str) -> str:
    """The whole page."""
    facts = facts_of(output)
    style, script = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{style}</style>'
    )
    body = [
        f'<header><h1>{escape(title)}</h1><span class="soft">{_sentence(facts)}</span></header>',
        _answers(facts),
        f'<div class="columns"><section>{_breaks(facts.breaks)}</section>'
        f"<section>{_recompiles(facts.causes)}{_times(facts)}</section></div>",
        sections.navigation(),
        *sections.all_of(output, facts),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body><main>\n'
        + "\n".join(body)
        + f"\n</main><script>{script}</script></body></html>\n"
    )


def _sentence(facts: Facts) -> str:
    if not facts.graphs:
        return "Nothing was captured."
    first = sum(not graph.recompiled for graph in facts.graphs)
    if not facts.breaks and first == 1:
        return "Captured as one graph, without a break."
    return f"Captured as {counted(first, 'graph')}" + (
        f", with {counted(len(facts.breaks), 'break')} in between." if facts.breaks else "."
    )


def _answers(facts: Facts) -> str:
    again = sum(graph.recompiled for graph in facts.graphs)
    all_recompiles = len(facts.recompiles)
    operations = sum(graph.report.op_count for graph in facts.graphs)
    cells = [
        ("graphs", len(facts.graphs), f"graph{'s' * (len(facts.graphs) != 1)}" + (f", {again} of them compiled again" if again else f", {counted(operations, 'operation')}")),
        ("breaks", len(facts.breaks), f"graph break{'s' * (len(facts.breaks) != 1)}"),
        ("recompiles", len(facts.causes), f"recompile{'s' * (len(facts.causes) != 1)}" + (f" ({all_recompiles} with parts behind breaks)" if all_recompiles > len(facts.causes) else "")),
        ("time", f"{facts.milliseconds:.1f} ms", "to compile"),
    ]  # fmt: skip
    return (
        '<ul class="answers">'
        + "".join(f'<li id="answer-{key}"><b>{value}</b><span>{name}</span></li>' for key, value, name in cells)
        + "</ul>"
    )


def _link(target: str, place: Place) -> str:
    """A place without folders, which stand in the tooltip: its line of the program needs the room."""
    text = f"{short(place.file).rpartition('/')[2]}:{place.line}" if place.file else place.function
    if not place.source:  # nothing of it is below
        return f"<span>{escape(text)}</span>"
    return f'<a href="#{target}" title="{escape(place.file)}">{escape(text)}</a>'


def _breaks(breaks: list[BreakFact]) -> str:
    shown = [_break(number, one) for number, one in enumerate(breaks[:_FIRST_BREAKS], 1)]
    return _list("Where it breaks, and how to remove it", shown, len(breaks), "break", "No graph breaks.")


def _list(title: str, shown: list[str], count: int, noun: str, none: str) -> str:
    rest = count - len(shown)
    more = f'<a href="#{noun}s">{rest} more below</a>' if rest else ""
    items = "".join(shown) if shown else f'<div class="none">{none}</div>'
    return f"<h3>{title}</h3>{items}{more}"


def _break(number: int, one: BreakFact) -> str:
    often = f'<span class="soft">{one.times}×</span>' if one.times > 1 else ""
    return (
        f'<div class="item break"><div class="top">{_link(f"break-{number}", one.place)}'
        f"<code>{escape(one.place.source)}</code>{often}</div>"
        f'<div>{escape(one.message)} <span class="soft">{escape(one.code)}</span></div><div class="fix">{escape(one.fix)}</div></div>'
    )


def _recompiles(causes: list[Cause]) -> str:
    shown = [_cause(number, cause) for number, cause in enumerate(causes[:_FIRST_CAUSES], 1)]
    return _list("Why it was compiled again", shown, len(causes), "recompile", "No recompiles.")


def _cause(number: int, cause: Cause) -> str:
    first = cause.first
    along = f"{counted(len(cause.along), 'part')} behind breaks with it, " if cause.along else ""
    changes = "; ".join(change.text for change in first.changes)
    advice = "".join(f'<div class="fix">{escape(text)}</div>' for text in _once(one.advice for one in first.changes))
    return (
        f'<div class="item recompile"><div class="top">{_link(f"recompile-{number}", first.changes[0].place)}'
        f'<code>{escape(changes)}</code><span class="soft">{along}{cause.milliseconds:.1f} ms</span></div>{advice}</div>'
    )


def _once(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]


def _times(facts: Facts) -> str:
    title = '<h3 style="margin-top: 12px">Where the time went</h3>'
    if not facts.phases:
        return title + '<div class="none">Nothing was compiled.</div>'
    whole = facts.milliseconds or 1.0
    bars = "".join(
        f'<i style="width: {100 * one.milliseconds / whole:.2f}%; background: var(--bar{min(at, 6)})"></i>'
        for at, one in enumerate(facts.phases, 1)
    )
    legend = "".join(
        f'<span title="{escape(one.what)}"><i style="background: var(--bar{min(at, 6)})"></i>{escape(one.name)} '
        f'<span class="soft">{one.milliseconds:.1f} ms</span></span>'
        for at, one in enumerate(facts.phases, 1)
    )
    lines = "".join(
        f'<span class="number">{one.milliseconds:.2f} ms</span>{_link(sections.line_id(one.place), one.place)}'
        f"<code>{escape(one.place.source)}</code>"
        for one in facts.line_times[:_FIRST_LINES]
    )
    slow = f'<div class="soft">slowest lines to capture</div><div class="slow">{lines}</div>' if lines else ""
    return f'{title}<div class="panel"><div class="stack">{bars}</div><div class="legend">{legend}</div>{slow}</div>'
