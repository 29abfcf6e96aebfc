"""A recording of captures: every step of them, to be looked at in any order once they are over."""

from __future__ import annotations

import bisect
import dis
import json
import linecache
import os
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid._explain.places import short


@dataclass(frozen=True)
class StepFrame:
    """An open frame of the program, before the instruction at `offset`."""

    code: int
    """Its number in `Steps.codes`."""
    offset: int
    locals: tuple[tuple[str, str], ...] = ()
    """The variables that have a value, in words."""
    stack: tuple[str, ...] = ()
    """The evaluation stack in words, the top last."""


@dataclass(frozen=True)
class Step:
    """An instruction, before it is captured; or the end of a capture, with the frame where it ended."""

    frame: StepFrame
    caller: int
    """The step at which the frame around this one called; -1: it is one of `Capture.outer`, or there is none."""
    outer: int
    """How many of `Capture.outer` are around the frame."""
    graph: int
    """How far the graph has come: a number in `Capture.graphs`."""
    guards: int
    """What it relies on so far: a number in `Capture.guards`."""
    is_end: bool = False


@dataclass
class Versions:
    """Texts of many lines, each much like the one before: how many lines it has in common with that, and the others."""

    changes: list[tuple[int, list[str]]] = field(default_factory=list)
    last: list[str] = field(default_factory=list)

    def add(self, lines: list[str]) -> int:
        """Gives the number of this text."""
        if not self.changes or lines != self.last:
            pairs = enumerate(zip(self.last, lines, strict=False))
            common = next((at for at, (old, new) in pairs if old != new), min(len(self.last), len(lines)))
            self.changes.append((common, lines[common:]))
            self.last = lines
        return len(self.changes) - 1

    def lines(self, number: int) -> list[str]:
        """The text with this number."""
        lines: list[str] = []
        for common, tail in self.changes[: number + 1]:
            lines[common:] = tail
        return lines

    def first_with(self, is_it: Callable[[str], bool]) -> int:
        """The number of the first text that has such a line; -1: none has."""
        return next((number for number, (_, tail) in enumerate(self.changes) if any(map(is_it, tail))), -1)


@dataclass
class Capture:
    """One capture of a part of the program: from its first instruction to where it ended."""

    function: str
    begins_at: tuple[tuple[int, int], ...]
    """Behind a graph break: the open frames, outermost first, by the number of their code and the offset."""
    first: int
    """The number of its first step."""
    last: int = -1
    """The number of its last one, which is its end."""
    name: str = ""
    """"__compiled_fn_0"; empty when nothing became of it."""
    end: str = ""
    """What ended it: "region", "break", "restart" or "error"."""
    why: tuple[str, ...] = ()
    """What is to be said of the end: the reason of a graph break and how to remove it, why it was captured once more."""
    graphs: Versions = field(default_factory=Versions)
    guards: Versions = field(default_factory=Versions)
    outer: list[StepFrame] = field(default_factory=list)
    """The frames that were open when it began, outermost first, but for the one that runs."""


class CodeText:
    """A code object in words. The object itself is not kept."""

    def __init__(self, code: types.CodeType) -> None:
        self.name, self.file, self.first_line = code.co_qualname, code.co_filename, code.co_firstlineno
        self.instructions: dict[int, str] = {}
        self.line_at: dict[int, int] = {}
        line = code.co_firstlineno
        begins = -1  # of an instruction its prefixes are a part of
        for one in dis.get_instructions(code):
            line = (one.positions.lineno if one.positions else None) or line
            begins = one.offset if begins < 0 else begins
            argument = f" {one.arg}" if one.arg is not None else ""
            if one.opname == "EXTENDED_ARG":
                continue
            self.instructions[begins] = one.opname + argument + (f" ({one.argrepr})" if one.argrepr else "")
            self.line_at[begins] = line
            begins = -1
        numbers = {line, *self.line_at.values()}
        texts = {
            number: linecache.getline(code.co_filename, number) for number in range(min(numbers), max(numbers) + 1)
        }
        self.source = {number: text.rstrip() for number, text in texts.items()}

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "name": self.name,
            "file": self.file,
            "instructions": {str(at): [self.line_at[at], text] for at, text in self.instructions.items()},
            "source": {str(number): text for number, text in sorted(self.source.items())},
        }


@dataclass
class Steps:
    """What `pellucid.step` gives: every instruction of every capture of a run, in the order in which they were captured.

    `steps[i]` is a `Step`, `text(i)` tells it in words; `prompt()` asks for commands, `to_html(path)` writes a page.
    """

    steps: list[Step] = field(default_factory=list)
    captures: list[Capture] = field(default_factory=list)
    codes: list[CodeText] = field(default_factory=list)
    result: Any = field(default=None, repr=False)
    """What the call gave."""
    is_cut: bool = False
    """Whether there were more steps than `limit`."""

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, number: int) -> Step:
        return self.steps[number]

    def __repr__(self) -> str:
        return f"<Steps: {len(self.steps)} steps of {len(self.captures)} captures>"

    def capture_of(self, number: int) -> Capture:
        """The capture that the step is of.

        Example:
            >>> steps.capture_of(0).name
            '__compiled_fn_0'
        """
        return self.captures[bisect.bisect_right([capture.first for capture in self.captures], number) - 1]

    def frames(self, number: int) -> list[StepFrame]:
        """The open frames, innermost first. Those around the innermost one are told as they stood when they called.

        Example:
            >>> [steps.place(frame) for frame in steps.frames(12)]
        """
        step = self.steps[number]
        frames = [step.frame]
        while step.caller >= 0:
            step = self.steps[step.caller]
            frames.append(step.frame)
        return frames + list(reversed(self.capture_of(number).outer[: step.outer]))

    def line(self, frame: StepFrame) -> int:
        """The line of the program where the frame stands.

        Example:
            >>> steps.line(steps[0].frame)
            7
        """
        return self.codes[frame.code].line_at.get(frame.offset, self.codes[frame.code].first_line)

    def place(self, frame: StepFrame) -> str:
        """The same with file and function: "model.py:7, in forward".

        Example:
            >>> steps.place(steps[0].frame)
            'model.py:7, in forward'
        """
        code = self.codes[frame.code]
        return f"{short(code.file)}:{self.line(frame)}, in {code.name}"

    def source(self, frame: StepFrame) -> str:
        """That line's text.

        Example:
            >>> steps.source(steps[0].frame)
            'return x + 1'
        """
        return self.codes[frame.code].source.get(self.line(frame), "").strip()

    def instruction(self, number: int) -> str:
        """The instruction in words; of the end of a capture what ended it.

        Example:
            >>> steps.instruction(3)
            'BINARY_OP 0 (+)'
        """
        step = self.steps[number]
        if step.is_end:
            return f"({END_WORDS[self.capture_of(number).end]})"
        return self.codes[step.frame.code].instructions.get(step.frame.offset, "?")

    def graph(self, number: int) -> list[str]:
        """The graph so far, a line for each node.

        Example:
            >>> print("\\n".join(steps.graph(9)))
        """
        return self.capture_of(number).graphs.lines(self.steps[number].graph)

    def guards(self, number: int) -> list[str]:
        """What the capture relies on so far, a line for each guard.

        Example:
            >>> print("\\n".join(steps.guards(9)))
        """
        return self.capture_of(number).guards.lines(self.steps[number].guards)

    def text(self, number: int, parts: tuple[str, ...] = ("place",)) -> str:
        """A step in words.

        Args:
            parts: some of "place", "stack", "locals", "graph", "guards", "why", "frames".

        Example:
            >>> print(steps.text(9, ("place", "stack")))
        """
        from pellucid._step.words import text

        return text(self, number, parts)

    def prompt(self, commands: str | None = None) -> None:
        """Goes through the steps by commands: those of this text (";" or a new line between two), or of the standard input.

        Example:
            >>> pellucid.step(f, x).prompt("n; n; stack; q")
        """
        from pellucid._step.prompt import walk

        walk(self, commands)

    def to_dict(self, at: int | None = None) -> dict[str, Any]:
        """As plain data for `json.dumps`: all of it, or one step in full.

        Example:
            >>> json.dumps(steps.to_dict(at=12))
        """
        from pellucid._step.data import all_steps, one_step

        return all_steps(self) if at is None else one_step(self, at)

    def to_html(self, path: str | os.PathLike[str], title: str = "pellucid step") -> str:
        """Writes one page that loads nothing; arrow keys go forward and back. Gives the path.

        Example:
            >>> pellucid.step(f, x).to_html("steps.html")
        """
        from pellucid._step.page import page

        Path(path).write_text(page(json.dumps(self.to_dict()), title), encoding="utf-8")
        return os.fspath(path)


END_WORDS = {
    "region": "the end: all of it was captured",
    "break": "the end: a graph break",
    "restart": "the end: it is captured once more",
    "error": "the end: capture raised",
    "": "the recording ends here",
}
"""What is said at the end of a capture."""
