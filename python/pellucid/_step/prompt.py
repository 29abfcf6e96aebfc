"""The commands that go through a recording: at a prompt, or from a text."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

from pellucid._explain.places import short
from pellucid._step.steps import Steps
from pellucid._step.words import PARTS, text

HELP = """\
n [count]          the next instruction, also of a function that is called here
p, back [count]    the instruction before
line               on to the next line of the program; "line back" the other way
over, out          on until the call here has returned; until this function has returned
c                  on to the next breakpoint, or the end of this capture; "c back" the other way
break WHERE        a breakpoint: a line ("12"), a file and a line ("model.py:12"), or a function ("forward"); alone: which there are
goto N             to step N; "goto end" to the last one
capture N          to the first step of capture N; alone: which captures there are
node NAME          to the first step behind which the graph has the node
guard TEXT         to the first step behind which a guard has this text in it
stack, locals, graph, guards, frames, why
                   what is on the evaluation stack; the variables; the graph and the guards so far; the open frames; how this
                   capture ended
h, q               this text; the end"""


class Walk:
    """Where somebody stands in a recording, and what can be said to it."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.at = 0
        self.breaks: list[str] = []
        self.is_over = False

    def do(self, command: str) -> str:
        """Carries a command out, and gives what is to be printed. A wrong one changes nothing.

        Example:
            >>> print(Walk(steps).do("n 3"))
        """
        words = command.split()
        if not words:
            return ""
        name = _SHORT.get(words[0], words[0])
        if name in PARTS:
            return text(self.steps, self.at, (name,))
        run = _COMMANDS.get(name)
        if run is None:
            return f"there is no command {words[0]!r}; h tells which there are"
        try:
            return run(self, words[1:])
        except _WrongError as error:
            return str(error)

    # ---- going

    def _to(self, number: int, instead: str) -> str:
        if not 0 <= number < len(self.steps):
            return instead
        self.at = number
        return text(self.steps, self.at)

    def _by(self, count: int) -> str:
        last = len(self.steps) - 1
        wanted = min(max(self.at + count, 0), last)
        if wanted == self.at:
            return "this is the last step" if count > 0 else "this is the first step"
        return self._to(wanted, "")

    def _search(self, steps: range, found: Callable[[int], bool], instead: str) -> str:
        return self._to(next((number for number in steps if found(number)), -1), instead)

    def _ahead(self) -> range:
        return range(self.at + 1, len(self.steps))

    def _behind(self) -> range:
        return range(self.at - 1, -1, -1)

    def next(self, words: list[str]) -> str:
        return self._by(_count(words))

    def previous(self, words: list[str]) -> str:
        return self._by(-_count(words))

    def line(self, words: list[str]) -> str:
        here = self._line_of(self.at)
        if not _is_back(words):
            return self._search(self._ahead(), lambda number: self._line_of(number) != here, "this is the last line")
        first = next((number for number in self._behind() if self._line_of(number) != here), -1)
        while first > 0 and self._line_of(first - 1) == self._line_of(first):
            first -= 1
        return self._to(first, "this is the first line")

    def _line_of(self, number: int) -> tuple[object, ...]:
        step = self.steps[number]
        return (step.frame.code, self.steps.line(step.frame), step.caller, step.outer)

    def over(self, words: list[str]) -> str:
        _none(words)
        depth = self._depth(self.at)
        return self._search(self._ahead(), lambda number: self._depth(number) <= depth, "this is the last step")

    def out(self, words: list[str]) -> str:
        _none(words)
        depth = self._depth(self.at)
        return self._search(
            self._ahead(), lambda number: self._depth(number) < depth, "nothing is around this function"
        )

    def _depth(self, number: int) -> int:
        return len(self.steps.frames(number))

    def go_on(self, words: list[str]) -> str:
        capture = self.steps.capture_of(self.at)
        back = _is_back(words)
        stop = capture.first if back else capture.last

        def found(number: int) -> bool:
            is_edge = number == stop or (self.at == stop and self.steps[number].is_end)
            return is_edge or self._is_break(number)

        steps = self._behind() if back else self._ahead()
        return self._search(steps, found, "this is the first step" if back else "this is the last step")

    def _is_break(self, number: int) -> bool:
        """Whether the step is the first one of a line, or of a function, that has a breakpoint."""
        if not self.breaks:
            return False
        step = self.steps[number]
        code = self.steps.codes[step.frame.code]
        entered = number == 0 or self._line_of(number - 1) != self._line_of(number)
        line = self.steps.line(step.frame)
        places = {
            str(line),
            f"{code.file}:{line}",
            f"{short(code.file)}:{line}",
            f"{code.file.rpartition('/')[2]}:{line}",
        }
        if entered and any(place in places for place in self.breaks):
            return True
        names = {code.name, code.name.rpartition(".")[2]}
        return step.frame.offset == min(code.instructions, default=0) and any(place in names for place in self.breaks)

    # ---- places

    def set_break(self, words: list[str]) -> str:
        if not words:
            return "\n".join(self.breaks) or "there is no breakpoint"
        place = words[-1]
        if not _stops(self.steps, place):
            return f"no step is at {place}"
        self.breaks.append(place)
        return f"breakpoint at {place}"

    def goto(self, words: list[str]) -> str:
        if words == ["end"]:
            return self._to(len(self.steps) - 1, "")
        number = _number(words, "goto")
        return self._to(number, f"there is no step {number}; the last one is {len(self.steps) - 1}")

    def capture(self, words: list[str]) -> str:
        captures = self.steps.captures
        if not words:
            from pellucid._step.words import capture_head

            return "\n".join(f"[{one.first}] {capture_head(self.steps, one.first)}" for one in captures)
        number = _number(words, "capture")
        first = captures[number].first if 0 <= number < len(captures) else -1
        return self._to(first, f"there is no capture {number}; there are {len(captures)}")

    def node(self, words: list[str]) -> str:
        name = _one(words, "node").removeprefix("%")
        pattern = re.compile(rf"\s*%{re.escape(name)} :")
        return self._maker(lambda line: pattern.match(line) is not None, "graph", f"there is no node {name}")

    def guard(self, words: list[str]) -> str:
        wanted = " ".join(words)
        if not wanted:
            raise _WrongError("guard needs a text")
        return self._maker(lambda line: wanted in line, "guards", f"there is no guard with {wanted}")

    def _maker(self, is_it: Callable[[str], bool], of: str, instead: str) -> str:
        """The step that made the first such line: the last one at which it is not there yet."""
        for capture in self.steps.captures:
            versions = capture.graphs if of == "graph" else capture.guards
            version = versions.first_with(is_it)
            if version < 0:
                continue
            steps = range(capture.first, len(self.steps))
            behind = next(number for number in steps if getattr(self.steps[number], of) >= version)
            return self._to(max(behind - 1, capture.first), instead)
        return instead

    def help(self, words: list[str]) -> str:
        return HELP

    def quit(self, words: list[str]) -> str:
        self.is_over = True
        return ""


class _WrongError(Exception):
    """What is wrong with a command."""


def _stops(steps: Steps, place: str) -> bool:
    """Whether any step is at this place."""
    alone = Walk(steps)
    alone.breaks = [place]
    return any(alone._is_break(number) for number in range(len(steps)))


def _none(words: list[str]) -> None:
    if words:
        raise _WrongError(f"it needs nothing more than its name, not {' '.join(words)!r}")


def _is_back(words: list[str]) -> bool:
    if words not in ([], ["back"]):
        raise _WrongError(f"the only word behind it is back, not {' '.join(words)!r}")
    return bool(words)


def _one(words: list[str], command: str) -> str:
    if len(words) != 1:
        raise _WrongError(f"{command} needs one word")
    return words[0]


def _number(words: list[str], command: str) -> int:
    word = _one(words, command)
    if not word.isdecimal():
        raise _WrongError(f"{command} needs a number, not {word!r}")
    return int(word)


def _count(words: list[str]) -> int:
    return _number(words, "it") if words else 1


_SHORT = {
    "p": "back", "s": "n", "next": "n", "l": "line", "o": "over", "b": "break", "g": "goto", "bt": "frames", "w": "why",
    "help": "h", "?": "h", "quit": "q", "exit": "q", "continue": "c",
}  # fmt: skip
_COMMANDS: dict[str, Callable[[Walk, list[str]], str]] = {
    "n": Walk.next,
    "back": Walk.previous,
    "line": Walk.line,
    "over": Walk.over,
    "out": Walk.out,
    "c": Walk.go_on,
    "break": Walk.set_break,
    "goto": Walk.goto,
    "capture": Walk.capture,
    "node": Walk.node,
    "guard": Walk.guard,
    "h": Walk.help,
    "q": Walk.quit,
}


def walk(steps: Steps, commands: str | None = None) -> None:
    """Prints the first step, then what each command gives, until "q" or the end of the commands.

    Args:
        commands: with ";" or new lines between them. None: they are asked for, or read from the standard input.
    """
    if not len(steps):
        print("nothing was captured")
        return
    here = Walk(steps)
    print(text(steps, 0))
    for command in _asked() if commands is None else re.split(r"[;\n]", commands):
        said = here.do(command)
        if said:
            print(said)
        if here.is_over:
            return


def _asked() -> Iterator[str]:
    at_keyboard = sys.stdin is not None and sys.stdin.isatty()
    if at_keyboard:
        import readline  # noqa: F401  # input() then has a history
    while True:
        try:
            given = input("(step) ") if at_keyboard else input()
        except EOFError:
            if at_keyboard:
                print()
            return
        except KeyboardInterrupt:
            print()
            continue
        yield from given.split(";")
