"""Where the time of compiling goes, by function and line of the program: recorded by the core, told here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid import _core


@dataclass(frozen=True)
class Place:
    """A phase of a compile ("capture", "backend", "compile f (file:line)"), a function of the program, or a line of one."""

    kind: str
    """"phase", "function" or "line"."""
    name: str
    file: str
    line: int
    """Of a function its first one."""
    parent: int | None
    """Index in `CompileProfile.places` of what it was run by."""

    def __str__(self) -> str:
        return self.name if self.kind == "phase" else f"{self.name} ({self.file}:{self.line})"


@dataclass
class Span:
    """From `start` to `end`, in seconds since the profile began, thread number `thread` was in the place of this index."""

    start: float
    end: float
    thread: int
    place: int


@dataclass
class CompileProfile:
    """What `profile_compiles` recorded. `str()` of it is a table; see `to_speedscope` and `to_chrome_trace` for pictures."""

    places: list[Place] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Of all compiling."""
        return sum(span.end - span.start for span in self.spans)

    def by_phase(self) -> dict[str, float]:
        """Seconds in each phase; what a phase spends in another one that it holds counts for that one."""
        return self._summed(lambda index: self._phase_of(index))

    def by_function(self) -> dict[Place, tuple[float, float]]:
        """For each function of the program the seconds of its own lines, and with the functions that they call."""
        return self._own_and_total("function")

    def by_line(self) -> dict[Place, tuple[float, float]]:
        """The same for each line."""
        return self._own_and_total("line")

    def to_speedscope(self, path: str | Path) -> Path:
        """Writes a file for https://www.speedscope.app (or `npx speedscope FILE`). Returns its path.

        Raises:
            OSError: it cannot be written.

        Example:
            >>> profile.to_speedscope("compile.speedscope.json")
        """
        frames: list[dict[str, Any]] = []
        number_of: dict[tuple, int] = {}
        frame_of: list[int] = []
        for index, place in enumerate(self.places):
            shown = self._named(index)
            key = (shown, place.file, place.line)
            if key not in number_of:
                number_of[key] = len(frames)
                frames.append({"name": shown, **({"file": place.file, "line": place.line} if place.file else {})})
            frame_of.append(number_of[key])
        profiles = []
        for thread in sorted({span.thread for span in self.spans}):
            spans = [span for span in self.spans if span.thread == thread]
            profiles.append(
                {
                    "type": "sampled",
                    "name": f"compiling, thread {thread}",
                    "unit": "seconds",
                    "startValue": 0,
                    "endValue": spans[-1].end,
                    "samples": [[frame_of[index] for index in self.stack(span.place)] for span in spans],
                    "weights": [span.end - span.start for span in spans],
                }
            )
        return _write(
            path,
            {
                "$schema": "https://www.speedscope.app/file-format-schema.json",
                "exporter": "pellucid",
                "name": "compiling by line",
                "shared": {"frames": frames},
                "profiles": profiles,
            },
        )

    def to_chrome_trace(self, path: str | Path) -> Path:
        """Writes a file for chrome://tracing or https://ui.perfetto.dev. Returns its path.

        Raises:
            OSError: it cannot be written.

        Example:
            >>> profile.to_chrome_trace("compile.trace.json")
        """
        events = []
        for thread in sorted({span.thread for span in self.spans}):
            events += [
                {
                    "ph": "X",
                    "pid": 0,
                    "tid": thread,
                    "name": self._named(span.place),
                    "cat": self.places[span.place].kind,
                    "ts": span.start * 1e6,
                    "dur": (span.end - span.start) * 1e6,
                    "args": {"file": self.places[span.place].file, "line": self.places[span.place].line},
                }
                for span in self._whole_spans(thread)
            ]
        return _write(path, {"traceEvents": events, "displayTimeUnit": "ms"})

    def stack(self, index: int) -> list[int]:
        """Indexes of the places around one, outermost first, itself last. Of a line its function stands before it."""
        found = []
        at: int | None = index
        while at is not None:
            found.append(at)
            at = self.places[at].parent
        return found[::-1]

    def text(self, top: int = 10) -> str:
        """The table: phases, then the functions and lines that took longest.

        Args:
            top: how many functions and lines.

        Raises:
            ValueError: `top` is below 1.
        """
        if top < 1:
            raise ValueError(f"top must be at least 1, got {top}")
        total = self.seconds
        if not self.spans:
            return "Nothing was compiled while the profile was on.\n"
        lines = [f"Compiling took {total * 1e3:.1f} ms."]
        lines += ["", f"{'ms':>10} {'%':>5}  phase"]
        for name, seconds in sorted(self.by_phase().items(), key=lambda item: -item[1]):
            lines.append(f"{seconds * 1e3:10.2f} {100 * seconds / total:5.1f}  {name}")
        for title, rows in (("function", self.by_function()), ("line", self.by_line())):
            lines += ["", f"{'own ms':>10} {'%':>5} {'with calls':>11}  {title}"]
            for place, (own, whole) in sorted(rows.items(), key=lambda item: -item[1][0])[:top]:
                lines.append(f"{own * 1e3:10.2f} {100 * own / total:5.1f} {whole * 1e3:11.2f}  {place}")
            if len(rows) > top:
                lines.append(f"{'':17}{'':11}  … and {len(rows) - top} more")
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.text()

    # ----

    def _named(self, index: int) -> str:
        place = self.places[index]
        return f"line {place.line}" if place.kind == "line" else place.name

    def _phase_of(self, index: int) -> str:
        around = (at for at in reversed(self.stack(index)) if self.places[at].kind == "phase")
        at = next(around, None)
        name = "" if at is None else self.places[at].name
        return "compile, the rest" if name.startswith("compile") else name

    def _summed(self, name_of: Any) -> dict[str, float]:
        sums: dict[str, float] = {}
        for span in self.spans:
            name = name_of(span.place)
            sums[name] = sums.get(name, 0.0) + span.end - span.start
        return sums

    def _own_and_total(self, kind: str) -> dict[Place, tuple[float, float]]:
        own: dict[Place, float] = {}
        whole: dict[Place, float] = {}
        for span in self.spans:
            seconds = span.end - span.start
            shown = [self._without_parent(at) for at in self.stack(span.place) if self.places[at].kind == kind]
            if not shown:
                continue
            for place in dict.fromkeys(shown):  # one that calls itself counts once
                whole[place] = whole.get(place, 0.0) + seconds
            # Inside of a phase that a line has led to (a compile inside of a compile) the time is not the line's own.
            if self.places[span.place].kind != "phase":
                own[shown[-1]] = own.get(shown[-1], 0.0) + seconds
        return {place: (own.get(place, 0.0), seconds) for place, seconds in whole.items()}

    def _without_parent(self, index: int) -> Place:
        place = self.places[index]
        return Place(place.kind, place.name, place.file, place.line, None)

    def _whole_spans(self, thread: int) -> Iterator[Span]:
        """Each place from where it is entered to where it is left, in the order of their ends."""
        open_: list[Span] = []
        for span in (span for span in self.spans if span.thread == thread):
            stack = self.stack(span.place)
            kept = 0
            while (
                kept < min(len(open_), len(stack))
                and open_[kept].place == stack[kept]
                and open_[-1].end == span.start  # nothing in between
            ):
                kept += 1
            yield from reversed(open_[kept:])
            del open_[kept:]
            open_ += [Span(span.start, span.end, thread, place) for place in stack[kept:]]
            for one in open_:
                one.end = span.end
        yield from reversed(open_)


class profile_compiles:
    """Records where the time of compiling goes, in all threads, while the `with` block runs.

    Each instruction that is captured costs a look at the clock then, so captures take about twice as long; calls of
    what is compiled already cost what they always do.

    Raises:
        RuntimeError: at the start of the block, when another profile is being recorded.

    Example:
        >>> with pellucid.profile_compiles() as profile:
        ...     compiled(x)
        >>> print(profile)
        >>> profile.to_speedscope("compile.speedscope.json")
    """

    def __enter__(self) -> CompileProfile:
        _core.start_profile()
        self._profile = CompileProfile()
        return self._profile

    def __exit__(self, *exc_info: object) -> None:
        places, moments = _core.stop_profile()
        for parent, kind, name, file, line in places:
            around = None if parent < 0 else self._profile.places[parent]
            if kind == "line" and around is not None:
                name, file = around.name, around.file
            self._profile.places.append(Place(kind, name, file, line, None if parent < 0 else parent))
        self._profile.spans += _spans(moments)


def _spans(moments: list[tuple[int, int, int]]) -> list[Span]:
    """From the moments at which a thread came to a place (-1: to none)."""
    if not moments:
        return []
    begin, end = moments[0][0], moments[-1][0]
    spans: list[Span] = []
    now: dict[int, tuple[int, int]] = {}
    for nanoseconds, thread, place in [*moments, *((end, thread, -1) for thread in {moment[1] for moment in moments})]:
        since, before = now.get(thread, (0, -1))
        if before >= 0 and nanoseconds > since:
            spans.append(Span((since - begin) / 1e9, (nanoseconds - begin) / 1e9, thread, before))
        now[thread] = (nanoseconds, place)
    return spans


def _write(path: str | Path, content: dict[str, Any]) -> Path:
    path = Path(path)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
