"""What the reports say, before it is laid out: text, JSON and the page are three layouts of the same facts."""

from __future__ import annotations

import collections
import linecache
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid._compile_times import PHASES
from pellucid._explain.graphs import GraphReport
from pellucid._explain.guard_text import MACHINERY
from pellucid._explain.places import definition_at, is_library
from pellucid._explain.record import RecordedCompile, break_key
from pellucid._in_words import attribute_of, line_at
from pellucid._recompiles import GuardFailure, Recompile
from pellucid.errors import BreakRecord

if TYPE_CHECKING:
    from pellucid._capture_profile import CompileProfile
    from pellucid._explain.output import ExplainOutput, Guard

_MISMATCH = re.compile(r"(\w[\w ]*) mismatch(?: at index (\d+))?, expected (.*), actual (.*)")


@dataclass(frozen=True)
class Place:
    """A line of the program."""

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        return linecache.getline(self.file, self.line).strip()


@dataclass(frozen=True)
class BreakFact:
    """One graph break."""

    code: str
    name: str
    message: str
    why: str
    fix: str
    place: Place
    stack: tuple[Place, ...]
    """The frames that led there, outermost first."""
    times: int
    """How often a capture stopped there."""


@dataclass(frozen=True)
class Change:
    """A guard that a later call did not meet."""

    what: str
    """In the program's names: "x", "self.scale"."""
    expected: str
    found: str
    place: Place
    operation: str
    """What the program does there."""
    advice: str

    @property
    def text(self) -> str:
        """ "x.size(0): 4 → 6", "mode: 'train' → 'eval'"."""
        parts = [_MISMATCH.fullmatch(part) for part in self.found.split("; ")]
        if not all(parts):
            return f"{self.what}: {self.expected} → {self.found}"
        shown = [
            f"{attribute_of(self.what, f'.{part[1]}' + (f'({part[2]})' if part[2] else ''))}: {part[3]} → {part[4]}"
            for part in parts
            if part is not None and (part[1] != "stride" or len(parts) == 1)
        ]
        return ", ".join(shown)

    @property
    def of_size(self) -> bool:
        return all(part.startswith("size mismatch") for part in self.found.split("; "))


@dataclass(frozen=True)
class RecompileFact:
    """One recompile, and what differed from the versions that came nearest: those with the fewest guards that failed."""

    function: str
    place: Place
    goes_on: bool
    """Whether it is the part of the function behind a graph break."""
    changes: tuple[Change, ...]
    milliseconds: float

    def comes_along_with(self, other: RecompileFact) -> bool:
        """Whether it is a part behind a break that follows from a recompile of the function's start: sizes go on."""
        return self.goes_on and not other.goes_on and all(one.of_size for one in other.changes) and self._of_sizes

    @property
    def _of_sizes(self) -> bool:
        return any(one.of_size for one in self.changes)


@dataclass(frozen=True)
class Cause:
    """Why there was a recompile, with the recompiles of parts behind breaks that follow from the same."""

    first: RecompileFact
    along: tuple[RecompileFact, ...]

    @property
    def milliseconds(self) -> float:
        return self.first.milliseconds + sum(one.milliseconds for one in self.along)


@dataclass(frozen=True)
class PhaseFact:
    name: str
    what: str
    milliseconds: float


@dataclass(frozen=True)
class LineTime:
    """The time that capture took at a line, without the functions that it calls."""

    place: Place
    milliseconds: float


@dataclass(frozen=True)
class GraphFact:
    """One graph."""

    number: int
    """From 1."""
    compile_id: str
    place: Place
    last_line: int
    report: GraphReport
    recompiled: bool
    milliseconds: float
    """To compile it."""


@dataclass(frozen=True)
class GuardFact:
    """One guard, with all graphs that have it."""

    python: str
    kind: str
    graphs: tuple[int, ...]
    """Numbers of graphs; 0: a region without one."""
    place: Place
    operation: str
    of_values: bool
    """Whether it looks at values that calls bring along, not at classes, functions and modules."""


@dataclass(frozen=True)
class Facts:
    graphs: list[GraphFact]
    breaks: list[BreakFact]
    recompiles: list[RecompileFact]
    phases: list[PhaseFact]
    line_times: list[LineTime]
    """Longest first; none where time was not taken."""
    guards: list[GuardFact]

    @property
    def milliseconds(self) -> float:
        return sum(phase.milliseconds for phase in self.phases)

    @property
    def causes(self) -> list[Cause]:
        """The recompiles, by what led to them."""
        found: list[tuple[RecompileFact, list[RecompileFact]]] = []
        for recompile in self.recompiles:
            start = next((one for one in reversed(found) if not one[0].goes_on), None)
            if start is not None and recompile.comes_along_with(start[0]):
                start[1].append(recompile)
            else:
                found.append((recompile, []))
        return [Cause(first, tuple(along)) for first, along in found]


def facts_of(output: ExplainOutput) -> Facts:
    """All facts of a run."""
    details = output.details
    return Facts(
        _graphs(output),
        _breaks(output),
        [_recompile(one, one.recompile) for one in details.compiles if one.recompile is not None],
        [PhaseFact(name, PHASES.get(name, ""), time) for name, time in _by_time(details.phases)],
        _line_times(output),
        _guards(output),
    )


def _by_time(times: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(times.items(), key=lambda item: -item[1])


# ---- graphs


def _graphs(output: ExplainOutput) -> list[GraphFact]:
    found: list[GraphFact] = []
    reports = iter(output.details.graphs)
    for compiled in output.details.compiles:
        for _ in compiled.graphs:
            report = next(reports)
            file, first, last, function = report.span or _start_of(compiled)
            id_text = "/".join(map(str, compiled.started.compile_id or ()))
            place = Place(file, first, _qualified(file, first, function))
            time = sum(compiled.milliseconds.values())
            found.append(GraphFact(len(found) + 1, id_text, place, last, report, compiled.recompile is not None, time))
    return found


def _start_of(compiled: RecordedCompile) -> tuple[str, int, int, str]:
    code = compiled.started.code
    return code.co_filename, code.co_firstlineno, code.co_firstlineno, code.co_name


def _qualified(file: str, line: int, function: str) -> str:
    """With the class around it, where the source says."""
    definition = definition_at(file, line)
    return definition.name if definition is not None else function


# ---- breaks


def _breaks(output: ExplainOutput) -> list[BreakFact]:
    counts = collections.Counter(
        break_key(record) for compiled in output.details.compiles for record in compiled.breaks
    )
    return [_break(record, counts[break_key(record)]) for record in output.break_reasons]


def _break(record: BreakRecord, times: int) -> BreakFact:
    frames = [
        Place(frame.filename, frame.lineno or 0, _qualified(frame.filename, frame.lineno or 0, frame.name))
        for frame in record.user_stack
    ]
    own = [frame for frame in frames if not is_library(frame.file)]
    place = own[-1] if own else frames[-1] if frames else Place("", 0, record.function)
    return BreakFact(
        record.code, record.name, record.message, record.why, record.hint, place, tuple(frames), max(times, 1)
    )


# ---- recompiles


def _recompile(compiled: RecordedCompile, record: Recompile) -> RecompileFact:
    place, changes = changes_of(compiled, record)
    if not changes:
        gone = "the objects that the compiled versions depend on are gone"
        changes = [
            Change(gone, "them alive", "them gone", place, "", "keep what the program reads alive between calls")
        ]
    time = sum(compiled.milliseconds.values())
    return RecompileFact(place.function, place, compiled.started.goes_on, tuple(changes), time)


def changes_of(compiled: RecordedCompile, record: Recompile) -> tuple[Place, list[Change]]:
    """Where it is, and what differed from the versions that came nearest."""
    fewest = min(map(len, record.failures.values()), default=0)
    newest = [one for failures in record.failures.values() if len(failures) == fewest for one in failures]
    place = _beginning(compiled, record)
    return place, list(dict.fromkeys(_change(failure, place) for failure in newest))


def _beginning(compiled: RecordedCompile, record: Recompile) -> Place:
    """Of a part behind a break the user's innermost frame."""
    for code, offset in reversed(compiled.started.begins_at):
        if not is_library(code.co_filename):
            return Place(code.co_filename, line_at(code, offset), code.co_qualname)
    return Place(record.file, record.line, record.function)


def _change(failure: GuardFailure, function: Place) -> Change:
    what = failure.what or _of_process(failure)
    place = Place(failure.file, failure.line, _qualified(failure.file, failure.line, ""))
    if is_library(failure.file):
        place = function
    return Change(what, failure.expected, failure.found, place, failure.operation, failure.advice)


def _of_process(failure: GuardFailure) -> str:
    if failure.kind in ("CONDITION", "FORESEEN"):
        return "a decision of the program"
    return "the state of torch" if failure.kind == "GLOBAL_STATE" else failure.kind


# ---- times


def _line_times(output: ExplainOutput) -> list[LineTime]:
    """The user's lines, with what they spend in libraries; where there are none, those of libraries."""
    profile = output.details.profile
    if profile is None:
        return []
    return _times_of(profile, lambda file: not is_library(file)) or _times_of(profile, lambda _: True)


def _times_of(profile: CompileProfile, counts: Callable[[str], bool]) -> list[LineTime]:
    sums: dict[tuple[str, int, str], float] = {}
    for span in profile.spans:
        stack = [profile.places[at] for at in profile.stack(span.place)]
        lines = [place for place in stack if place.kind == "line" and counts(place.file)]
        if lines:
            key = (lines[-1].file, lines[-1].line, lines[-1].name)
            sums[key] = sums.get(key, 0.0) + (span.end - span.start) * 1e3
    ranked = sorted(sums.items(), key=lambda item: -item[1])
    return [LineTime(Place(file, line, _qualified(file, line, name)), time) for (file, line, name), time in ranked]


# ---- guards


def _guards(output: ExplainOutput) -> list[GuardFact]:
    found: dict[str, GuardFact] = {}
    numbers: dict[str, list[int]] = {}
    number = 0
    for compiled in output.details.compiles:
        number += len(compiled.graphs)
        if compiled.region is None:
            continue
        own = number if compiled.graphs else 0
        for guard in (one for one in output.details.guards if one.region == compiled.region.number):
            python = guard.python
            graphs = numbers.setdefault(python, [])
            if own not in graphs:
                graphs.append(own)
            place = Place(guard.file, guard.line, _qualified(guard.file, guard.line, "") if guard.file else "")
            of_values = _looks_at_values(guard, python)
            found.setdefault(python, GuardFact(python, guard.kind, (), place, guard.operation, of_values))
    return _ordered(found, numbers)


def _looks_at_values(guard: Guard, python: str) -> bool:
    if guard.kind in ("TENSOR_MATCH", "CONDITION", "FORESEEN", "NUMBER_MATCH"):
        return True
    is_namespace = python.endswith("globals()") or " in vars(" in python
    return guard.kind not in MACHINERY and not is_library(guard.file) and not is_namespace


def _ordered(found: dict[str, GuardFact], numbers: dict[str, list[int]]) -> list[GuardFact]:
    ordered = [
        GuardFact(one.python, one.kind, tuple(numbers[python]), one.place, one.operation, one.of_values)
        for python, one in found.items()
    ]
    return sorted(ordered, key=lambda one: not one.of_values)
