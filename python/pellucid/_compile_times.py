"""What compiling took, phase by phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pellucid import _core

# The phases, in the order in which they run; "compile" is the whole, which has parts that no phase counts.
PHASES = {
    "capture": "the program is followed, its graph and guards are made",
    "finish_graph": "inputs, unused nodes, shapes",
    "guards": "the guards become a program",
    "graph_module": "the graph is handed to torch.fx, or assembled for the backend eager",
    "backend": "the call of the backend",
    "emit": "the code that loads inputs, calls the graph and replays effects",
    "compile": "the whole",
}


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    by_phase: dict[str, list[float]] = {}
    by_function: dict[str, list[float]] = {}
    for phase, function, milliseconds in _core.timings():
        by_phase.setdefault(phase, []).append(milliseconds / 1000)
        if phase == "compile":
            by_function.setdefault(function, []).append(milliseconds / 1000)
    phases = {phase: by_phase[phase] for phase in PHASES if phase in by_phase}
    if repr == "csv":
        return list(phases), [_joined(times, aggregate, "{:.6f}".format) for times in phases.values()]
    if repr != "str":
        raise ValueError(f"repr must be 'str' or 'csv', not {repr!r}")
    return "\n".join(_table("Phase", phases, aggregate) + _table("Function", by_function, aggregate))


def _joined(times: list[float], aggregate: bool, text: Callable[[float], str]) -> str:
    return text(sum(times)) if aggregate else ", ".join(map(text, times))


def _table(head: str, rows: dict[str, list[float]], aggregate: bool) -> list[str]:
    width = max(map(len, [head, *rows])) + 2
    lines = [f"{head:<{width}}Runtimes (s)"]
    lines += [f"{name:<{width}}{_joined(times, aggregate, '{:.6f}'.format)}" for name, times in rows.items()]
    return lines
