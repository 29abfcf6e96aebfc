"""Measuring two compilers in one process, by turns. Used by the demo and by bench/run.py."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

import pellucid


class StubBackend:
    """A backend whose graphs run once and give that result from then on: what is left of a call is the compiler's own work."""

    def __init__(self) -> None:
        self.graphs = 0
        self.graph_seconds = 0.0  # CPU time of the real runs

    def __call__(self, gm: Any, example_inputs: Sequence[torch.Tensor], **options: Any) -> Callable:
        self.graphs += 1
        stored: list[Any] = []

        def call(*args):
            if not stored:
                start = time.process_time()
                stored.append(gm.forward(*args))
                self.graph_seconds += time.process_time() - start
            return stored[0]

        return call


@dataclass
class Compiler:
    """One of those compared: `compile(model, backend)` and `reset()`."""

    name: str
    compile: Callable[[Any, Any], Callable]
    reset: Callable[[], None]
    around_first_call: Callable[[], AbstractContextManager] = nullcontext


def pellucid_compiler() -> Compiler:
    return Compiler("pellucid", lambda model, backend: pellucid.compile(model, backend=backend), pellucid.reset)


def torch_compiler() -> Compiler:
    import torch._dynamo

    return Compiler("torch.compile", lambda model, backend: torch.compile(model, backend=backend), torch._dynamo.reset)


@dataclass
class Samples:
    """Measured values of one compiler, in seconds."""

    capture: list[float] = field(default_factory=list)
    """CPU seconds of the first call, without the graph's own run."""
    call: list[float] = field(default_factory=list)
    """Seconds of a later call with a stub for the graph; one value for each batch."""
    graphs: int = 0


def measure(
    compilers: Sequence[Compiler],
    model: Any,
    args: tuple,
    kwargs: dict[str, Any],
    *,
    rounds: int = 5,
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, Samples]:
    """Captures `model` with each compiler in turn, `rounds` times, and then times calls of each in turn."""
    samples = {compiler.name: Samples() for compiler in compilers}
    compiled: dict[str, Callable] = {}
    with torch.no_grad():
        for round in range(rounds):
            for compiler in _turned(compilers, round):
                progress(f"capture {round + 1}/{rounds} {compiler.name}")
                compiled[compiler.name] = _capture(compiler, model, args, kwargs, samples[compiler.name])
        for round in range(3 * rounds):
            for compiler in _turned(compilers, round):
                samples[compiler.name].call.append(_seconds_per_call(compiled[compiler.name], args, kwargs))
    for compiler in compilers:
        compiler.reset()
    return samples


def _turned(compilers: Sequence[Compiler], by: int) -> list[Compiler]:
    """Another one comes first in each round: none always runs after the same other."""
    by %= len(compilers)
    return [*compilers[by:], *compilers[:by]]


def _capture(compiler: Compiler, model: Any, args: tuple, kwargs: dict[str, Any], samples: Samples) -> Callable:
    compiler.reset()
    gc.collect()
    stub = StubBackend()
    compiled = compiler.compile(model, stub)
    with compiler.around_first_call():
        start = time.process_time()
        compiled(*args, **kwargs)
        samples.capture.append(time.process_time() - start - stub.graph_seconds)
    samples.graphs = stub.graphs
    return compiled


def _seconds_per_call(compiled: Callable, args: tuple, kwargs: dict[str, Any], at_least: float = 0.01) -> float:
    number = 10
    while True:
        start = time.perf_counter()
        for _ in range(number):
            compiled(*args, **kwargs)
        elapsed = time.perf_counter() - start
        if elapsed >= at_least:
            return elapsed / number
        number = max(2 * number, int(number * 1.2 * at_least / max(elapsed, 1e-9)))


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float]) -> float:
    """Half the distance of the quartiles over the median."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / statistics.median(values)
