"""The program's source, line by line: what was captured, what broke, what ran eagerly, what was compiled again, and the time."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pellucid._explain.facts import changes_of
from pellucid._explain.places import Definition, definition_at, is_library
from pellucid._explain.record import RecordedCompile
from pellucid.errors import BreakRecord

STATES = {
    "captured": "part of a graph, or decided when the graph was made",
    "broken": "a graph break: this step ran as plain Python",
    "eager": "the function ran as plain Python, because of a break that nothing was captured around",
    "recompiled": "a later call was compiled anew because of what this line needs",
}
"""What can be said of a line."""


@dataclass
class SourceLine:
    """One line of a function that took part."""

    number: int
    text: str
    states: list[str] = field(default_factory=list)
    """Some of `STATES`; none: no capture came here."""
    milliseconds: float = 0.0
    """Of capture, without what it calls. 0.0 where time was not taken."""
    notes: list[str] = field(default_factory=list)
    """Why, for people."""


@dataclass
class SourceFunction:
    """A function that took part."""

    name: str
    file: str
    library: bool
    """Whether it is an installed library's."""
    lines: list[SourceLine]

    @property
    def milliseconds(self) -> float:
        return sum(line.milliseconds for line in self.lines)


class _Marks:
    """What is known of lines, before the source is looked at."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, int], set[str]] = {}
        self.notes: dict[tuple[str, int], list[str]] = {}
        self.broken: set[tuple[str, int]] = set()  # where the break itself is: a part of the line may be captured

    def add(self, file: str, line: int, state: str, note: str = "") -> None:
        if not file or not line:
            return
        self.states.setdefault((file, line), set()).add(state)
        notes = self.notes.setdefault((file, line), [])
        if note and note not in notes:
            notes.append(note)


def annotated(
    compiles: list[RecordedCompile],
    graph_lines: Iterable[tuple[str, int]],
    time_of_line: Mapping[tuple[str, int], float],
) -> list[SourceFunction]:
    """The functions that took part, the user's before those of libraries, in the order in which they came.

    Args:
        graph_lines: file and line of the nodes of all graphs.
        time_of_line: the milliseconds that capture spent at lines, of all lines that it came to.
    """
    marks = _Marks()
    kept = set(graph_lines)
    for compiled in compiles:
        kept |= {(guard["file"], guard["line"]) for guard in (compiled.region.guards if compiled.region else ())}
    for place in (*time_of_line, *kept):
        marks.add(*place, "captured")
    for compiled in compiles:
        for record in compiled.breaks:
            _mark_break(marks, record)
        if compiled.recompile is not None:
            for change in changes_of(compiled, compiled.recompile)[1]:
                marks.add(change.place.file, change.place.line, "recompiled", f"compiled again: {change.text}")
    _mark_eager(marks, compiles, kept)
    return _functions(marks, time_of_line)


def _mark_break(marks: _Marks, record: BreakRecord) -> None:
    if record.user_stack:
        at = record.user_stack[-1]
        marks.broken.add((at.filename, at.lineno or 0))
        marks.add(at.filename, at.lineno or 0, "broken", f"break: {record.message}")
        for frame in record.user_stack[:-1]:  # the calls that led there: what they call is partly captured
            marks.add(frame.filename, frame.lineno or 0, "broken", f"break inside of this call: {record.message}")


def _mark_eager(marks: _Marks, compiles: list[RecordedCompile], kept: set[tuple[str, int]]) -> None:
    """Of a compile that made no region, raised nothing, and that no other goes on from: the call ran as if there were none."""
    for at, compiled in enumerate(compiles):
        goes_on = at + 1 < len(compiles) and compiles[at + 1].started.goes_on
        if goes_on or compiled.started.fullgraph or compiled.region is not None or not compiled.breaks:
            continue
        for frame in compiled.breaks[-1].user_stack:
            broken = frame.lineno or 0
            function = definition_at(frame.filename, broken)
            if function is None:
                continue
            first = broken + 1 if compiled.started.goes_on else function.first + 1
            for line in range(first, function.last + 1):
                place = (frame.filename, line)
                if place not in kept and line != broken and _has_code(*place):
                    marks.states[place] = marks.states.get(place, set()) - {"captured"} | {"eager"}


def _has_code(file: str, line: int) -> bool:
    text = linecache.getline(file, line).strip()
    return bool(text) and not text.startswith(("#", ")", "]", "}"))


def _functions(marks: _Marks, time_of_line: Mapping[tuple[str, int], float]) -> list[SourceFunction]:
    lines_of: dict[tuple[str, Definition | None], set[int]] = {}
    for file, line in marks.states:
        if linecache.getline(file, line):
            lines_of.setdefault((file, definition_at(file, line)), set()).add(line)
    found = []
    for (file, function), numbers in lines_of.items():
        if function is None:  # of lambdas: these lines alone
            found.append(_function("<module>", file, sorted(numbers), marks, time_of_line))
        elif not any(file == other and _holds(outer, function) for other, outer in lines_of):
            found.append(_function(function.name, file, range(function.first, function.last + 1), marks, time_of_line))
    return sorted(found, key=lambda one: one.library)


def _holds(outer: Definition | None, inner: Definition) -> bool:
    return outer is not None and outer != inner and outer.first <= inner.first and inner.last <= outer.last


def _function(
    name: str, file: str, numbers: Iterable[int], marks: _Marks, time_of_line: Mapping[tuple[str, int], float]
) -> SourceFunction:
    lines = [_line(file, number, marks, time_of_line) for number in numbers]
    return SourceFunction(name, file, is_library(file), lines)


def _line(file: str, number: int, marks: _Marks, time_of_line: Mapping[tuple[str, int], float]) -> SourceLine:
    states = marks.states.get((file, number), set()) - ({"captured"} if (file, number) in marks.broken else set())
    return SourceLine(
        number,
        linecache.getline(file, number).rstrip("\n"),
        [state for state in STATES if state in states],
        time_of_line.get((file, number), 0.0),
        marks.notes.get((file, number), []),
    )
