"""Every stage of a compiled function as text: `pellucid.show` and `python -m pellucid show`."""

from __future__ import annotations

import dis
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid._addresses import Addresses
from pellucid._explain import Guard
from pellucid.backends.eager import eager
from pellucid.errors import BreakRecord, frame_summary

STAGES = ("bytecode", "graph", "guards", "effects", "code")
"""What can be shown of a region, in the order in which it comes to be."""


@dataclass(frozen=True)
class ShownRegion:
    """One compiled region: a part of the program that became one graph and one emitted function."""

    name: str
    """"__compiled_fn_0"; of a region that goes on behind a graph break "__resume_at_26_1". Numbered from 0 in each `Shown`."""
    function: str
    """The qualified name of the function whose code the region begins in."""
    file: str
    begin: str
    """Where it begins: "line 3 (offset 0)"."""
    end: tuple[str, ...]
    """Where it ends, of each open frame, outermost first."""
    graph_break: str
    """Why it ends before the program does; empty when it does not."""
    bytecode: str
    graph: str
    """Empty when the region calls no tensor operation."""
    guards: tuple[str, ...]
    effects: tuple[str, ...]
    """What happens to objects from outside, behind the graph."""
    code: str
    """The body of the emitted function."""

    def text(self, only: Sequence[str] = STAGES) -> str:
        """The stages that `only` names.

        Raises:
            ValueError: a name that is not in `STAGES`.

        Example:
            >>> print(shown.regions[0].text(["graph"]))
        """
        lines = [f"== {self.name}: {self.function} from {self.begin} to {' > '.join(self.end)}"]
        if self.graph_break:
            lines.append(f"   graph break: {self.graph_break}")
        for stage in checked(only):
            value = getattr(self, stage)
            body = value.splitlines() if isinstance(value, str) else value
            lines += ["", f"-- {stage}", *(body or ["(none)"])]
        return "\n".join(lines) + "\n"


@dataclass
class Shown:
    """What `show` gives: the regions in the order in which they were compiled, and the graph breaks. `str()` is the report."""

    regions: list[ShownRegion] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    """The graph breaks behind which nothing was compiled: the call ran eagerly."""
    result: Any = field(default=None, repr=False)
    """What the call gave."""

    def text(self, only: Sequence[str] = STAGES) -> str:
        """The stages that `only` names, of all regions.

        Raises:
            ValueError: a name that is not in `STAGES`.

        Example:
            >>> print(pellucid.show(f)(x).text(only=["graph", "guards"]))
        """
        only = checked(only)
        parts = [region.text(only) for region in self.regions]
        parts += [f"== not captured: {why}\n" for why in self.breaks]
        return "\n".join(parts)

    def __str__(self) -> str:
        return self.text()

    def to_dict(self, only: Sequence[str] = STAGES) -> dict[str, Any]:
        """The same as plain data for `json.dumps`.

        Raises:
            ValueError: a name that is not in `STAGES`.

        Example:
            >>> json.dumps(pellucid.show(f)(x).to_dict(["code"]))
        """
        head = ("name", "function", "file", "begin", "end", "graph_break")
        wanted = (*head, *checked(only))
        return {
            "regions": [{key: _plain(getattr(region, key)) for key in wanted} for region in self.regions],
            "not_captured": list(self.breaks),
        }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def checked(only: Sequence[str]) -> tuple[str, ...]:
    """The stages that `only` names, in their order; ValueError when there is no such stage."""
    for name in only:
        if name not in STAGES:
            raise ValueError(f"there is no stage {name!r}; the stages are {', '.join(STAGES)}")
    return tuple(stage for stage in STAGES if stage in only)


class Watch:
    """The backend of `show`: graphs run as they are, and `_core` tells it of each region."""

    takes_numbers = True

    __name__ = "show"

    def __init__(self) -> None:
        self.regions: list[dict[str, Any]] = []
        self.stops: list[BreakRecord] = []
        self._ends: set[int] = set()  # the stops (by index) that are the end of a region

    def __call__(self, gm: Any, example_inputs: Sequence[Any]) -> Callable:
        return eager(gm, example_inputs)

    def _on_region(self, region: dict[str, Any]) -> None:
        self.regions.append(region)
        if region["stop"]:  # `_core` tells of the stop first, then of the region that ends there
            self._ends.add(len(self.stops) - 1)

    def _on_stop(self, record: BreakRecord) -> None:
        self.stops.append(record)

    def shown(self) -> Shown:
        texts = _Texts([region["name"] for region in self.regions])
        regions = [_region(raw, texts) for raw in self.regions]
        lost = [
            texts.clean(f"{stop.code} {stop.name}: {stop.message} (in {stop.function})")
            for index, stop in enumerate(self.stops)
            if index not in self._ends
        ]
        return Shown(regions, list(dict.fromkeys(lost)))


def _region(raw: dict[str, Any], texts: _Texts) -> ShownRegion:
    code: types.CodeType = raw["code"]
    end: list[tuple[types.CodeType, int]] = raw["end"]
    return ShownRegion(
        name=texts.clean(raw["name"]),
        function=code.co_qualname,
        file=texts.path(code.co_filename),
        begin=_place(code, max(raw["begin"], 0)),
        end=tuple(_place(inner, at) + (f" of {inner.co_qualname}" if inner is not code else "") for inner, at in end),
        graph_break=texts.clean(raw["stop"]),
        bytecode=texts.clean(_bytecode(code, max(raw["begin"], 0), end[0][1] if end[0][0] is code else -1)),
        graph=texts.clean(raw["graph"]),
        guards=tuple(texts.clean(_guard_line(Guard(**guard, region=0), texts)) for guard in raw["guards"]),
        effects=tuple(texts.clean(effect) for effect in raw["effects"]),
        code=texts.clean(raw["emitted"]),
    )


def _place(code: types.CodeType, offset: int) -> str:
    return f"line {frame_summary(code, offset).lineno} (offset {offset})"


def _guard_line(guard: Guard, texts: _Texts) -> str:
    head = " ".join(part for part in (guard.kind, guard.source, guard.text) if part)
    if not guard.file:
        return head
    return f"{head}  # {texts.path(guard.file)}:{guard.line}" + (f", {guard.operation}" if guard.operation else "")


def _bytecode(code: types.CodeType, begin: int, end: int) -> str:
    """The instructions of `code` as `dis` words them. "->" marks where the region begins, "<-" where it ends."""
    return "\n".join(_instructions(code, begin, end))


def _instructions(code: types.CodeType, begin: int, end: int) -> Iterator[str]:
    for at in dis.get_instructions(code):
        line = str(at.starts_line) if at.starts_line is not None else ""
        begins, ends = "->" if at.offset == begin else "", "<-" if at.offset == end else ""
        jump = ">>" if at.is_jump_target else ""
        argument = "" if at.arg is None else f"{at.arg:>4} ({at.argrepr})" if at.argrepr else f"{at.arg:>4}"
        yield f"{line:>5} {begins:2}{ends:2} {jump:2} {at.offset:>5} {at.opname:<22}{argument}".rstrip()


class _Texts:
    """Takes out of texts what differs from run to run: numbers of regions, addresses, the folders of libraries."""

    def __init__(self, region_names: Sequence[str]) -> None:
        self._numbers = {name.rpartition("_")[2]: str(index) for index, name in enumerate(region_names)}
        self._addresses = Addresses()
        self._loaders: dict[str, str] = {}
        roots = {os.path.abspath(entry or os.getcwd()) for entry in (*sys.path, "")}
        self._roots = sorted(roots, key=len, reverse=True)

    def path(self, file: str) -> str:
        """Relative to the entry of sys.path, or the working directory, that it lies below."""
        if file.startswith("<"):
            return file
        full = os.path.abspath(file)
        root = next((root for root in self._roots if full.startswith(root + os.sep)), None)
        return full if root is None else full[len(root) + 1 :]

    def clean(self, text: str) -> str:
        text = re.sub(r"\b(__compiled_fn_|__resume_at_\d+_)(\d+)\b", self._renumbered, text)
        text = re.sub(r"\b__inputs_\d+\b", self._loader, text)
        return self._addresses.without(text)

    def _renumbered(self, match: re.Match[str]) -> str:
        return match[1] + self._numbers.get(match[2], match[2])

    def _loader(self, match: re.Match[str]) -> str:
        return self._loaders.setdefault(match[0], f"__inputs_{len(self._loaders)}")


def show(fn: Callable) -> Callable[..., Shown]:
    from pellucid import api

    if not callable(fn):
        raise TypeError(f"pellucid.show needs a callable, not {type(fn).__name__}")

    def inner(*args: Any, **kwargs: Any) -> Shown:
        watch = Watch()
        compiled = api.compile(fn, backend=watch) if not isinstance(fn, type) else api.Settings(backend=watch)(fn)
        result = compiled(*args, **kwargs)
        shown = watch.shown()
        shown.result = result
        return shown

    return inner
