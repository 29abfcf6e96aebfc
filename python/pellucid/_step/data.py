"""A recording as plain data: all of it for pages and other tools, or one step in full."""

from __future__ import annotations

from typing import Any

from pellucid._step.steps import END_WORDS, Capture, StepFrame, Steps

VERSION = 1
"""It changes when a key goes or means something else."""


def all_steps(steps: Steps) -> dict[str, Any]:
    """Everything, with each text once: `texts` are referred to by their numbers."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def frame_of(frame: StepFrame) -> list[Any]:
        values = [[number(name), number(value)] for name, value in frame.locals]
        return [frame.code, frame.offset, values, [number(value) for value in frame.stack]]

    def changes_of(changes: list[tuple[int, list[str]]]) -> list[Any]:
        return [[common, [number(line) for line in tail]] for common, tail in changes]

    def capture_of(capture: Capture) -> dict[str, Any]:
        return {
            "function": capture.function,
            "name": capture.name,
            "goes_on": bool(capture.begins_at),
            "first": capture.first,
            "last": capture.last,
            "end": capture.end,
            "end_words": END_WORDS[capture.end],
            "why": list(capture.why),
            "graphs": changes_of(capture.graphs.changes),
            "guards": changes_of(capture.guards.changes),
            "outer": [frame_of(frame) for frame in capture.outer],
        }

    captures = [capture_of(capture) for capture in steps.captures]
    rows = [
        [*frame_of(step.frame), step.caller, step.outer, step.graph, step.guards, int(step.is_end)]
        for step in steps.steps
    ]
    return {
        "version": VERSION,
        "is_cut": steps.is_cut,
        "captures": captures,
        "codes": [code.to_dict() for code in steps.codes],
        "steps": rows,
        "texts": list(texts),
    }


def one_step(steps: Steps, at: int) -> dict[str, Any]:
    """One step in full.

    Raises:
        IndexError: there is no such step.
    """
    if not 0 <= at < len(steps):
        raise IndexError(f"there is no step {at}; there are {len(steps)}")
    capture = steps.capture_of(at)
    frames = [
        {
            "function": steps.codes[frame.code].name,
            "file": steps.codes[frame.code].file,
            "line": steps.line(frame),
            "source": steps.source(frame),
            "offset": frame.offset,
            "locals": dict(frame.locals),
            "stack": list(frame.stack),
        }
        for frame in steps.frames(at)
    ]
    return {
        "version": VERSION,
        "step": at,
        "steps": len(steps),
        "capture": {"number": steps.captures.index(capture), "name": capture.name, "function": capture.function},
        "instruction": steps.instruction(at),
        "frames": frames,
        "graph": steps.graph(at),
        "guards": steps.guards(at),
        "end": capture.end,
        "why": list(capture.why),
    }
