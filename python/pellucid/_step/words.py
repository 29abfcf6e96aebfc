"""A step of a recording as text."""

from __future__ import annotations

from collections.abc import Callable

from pellucid._step.steps import Steps

PARTS = ("place", "stack", "locals", "graph", "guards", "frames", "why")
"""What can be told of a step."""


def text(steps: Steps, number: int, parts: tuple[str, ...] = ("place",)) -> str:
    """The parts of the step, one below the other.

    Raises:
        ValueError: there is no such part.
        IndexError: there is no such step.

    Example:
        >>> print(text(steps, 3, ("place", "stack")))
    """
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"there is no part {part!r}; the parts are {', '.join(PARTS)}")
    if not 0 <= number < len(steps):
        raise IndexError(f"there is no step {number}; there are {len(steps)}")
    return "\n".join(line for part in parts for line in _WRITERS[part](steps, number))


def capture_head(steps: Steps, number: int) -> str:
    """The capture that the step is of, in a line: "capture 0 of 2, __compiled_fn_0 (f)".

    Example:
        >>> capture_head(steps, 3)
        'capture 0 of 2, __compiled_fn_0 (f)'
    """
    capture = steps.capture_of(number)
    at = steps.captures.index(capture)
    name = f"{capture.name} ({capture.function})" if capture.name else capture.function
    behind = ", behind a graph break" if capture.begins_at else ""
    return f"capture {at} of {len(steps.captures)}, {name}{behind}"


def _place(steps: Steps, number: int) -> list[str]:
    step = steps[number]
    lines = [f"== {capture_head(steps, number)}"] if number == steps.capture_of(number).first else []
    where = f"[{number}] {steps.place(step.frame)}: {steps.source(step.frame)}"
    lines += [where, f"    offset {step.frame.offset}: {steps.instruction(number)}"]
    if step.is_end:
        lines += [f"    {line}" for line in steps.capture_of(number).why]
    return lines


def _stack(steps: Steps, number: int) -> list[str]:
    return _numbered("stack", steps[number].frame.stack)


def _locals(steps: Steps, number: int) -> list[str]:
    return ["locals:", *(f"    {name} = {value}" for name, value in steps[number].frame.locals)]


def _graph(steps: Steps, number: int) -> list[str]:
    return steps.graph(number)


def _guards(steps: Steps, number: int) -> list[str]:
    return ["guards:", *(f"    {line}" for line in steps.guards(number))]


def _frames(steps: Steps, number: int) -> list[str]:
    return ["frames:", *(f"    {steps.place(frame)}: {steps.source(frame)}" for frame in steps.frames(number))]


def _why(steps: Steps, number: int) -> list[str]:
    """How the capture of this step ended, and why there."""
    from pellucid._step.steps import END_WORDS

    capture = steps.capture_of(number)
    end = steps[capture.last].frame if capture.last >= 0 else None
    place = f", at step {capture.last} ({steps.place(end)}: {steps.source(end)})" if end is not None else ""
    return [f"{capture_head(steps, number)}: {END_WORDS[capture.end]}{place}", *(f"    {line}" for line in capture.why)]


def _numbered(title: str, lines: tuple[str, ...]) -> list[str]:
    return [f"{title}:" + ("" if lines else " empty"), *(f"    {at}: {line}" for at, line in enumerate(lines))]


_WRITERS: dict[str, Callable[[Steps, int], list[str]]] = {
    "place": _place,
    "stack": _stack,
    "locals": _locals,
    "graph": _graph,
    "guards": _guards,
    "frames": _frames,
    "why": _why,
}
