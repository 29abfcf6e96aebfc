"""Which stage of the compiler is at fault, and for which graph: the program runs with backends that go deeper and deeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pellucid._triage.outcome import Graph, Outcome, problem_of

__all__ = ["STAGES", "Stage", "Triage", "of_function", "of_runner"]


@dataclass(frozen=True)
class Stage:
    """One step that compiling takes beyond the stage before it."""

    name: str
    backend: str


STAGES = (
    Stage("capture", "eager"),
    Stage("eager graph", "interpreter"),
    Stage("AOTAutograd", "aot_eager"),
    Stage("decompositions", "aot_eager_decomp_partition"),
    Stage("Inductor", "inductor"),
)
_WITHOUT_CAPTURE = "skip"  # the backend before the first stage
OWN = "the program's own"
"""In the place of a backend: each compiled function has the one that the program gives it."""


class Runner(Protocol):
    """Runs the program; `command` is what a user types for one backend, with the field {backend}."""

    command: str
    minify: str | None
    """What makes a graph of the program smaller that fails with its own backend; None: it has none."""

    def run(self, backend: str | None) -> Outcome: ...


@dataclass
class Step:
    """One run: its backend, and in what it differed from the eager run."""

    stage: str
    backend: str
    problem: str | None
    outcome: Outcome


@dataclass
class Triage:
    """What triage found out; `str()` of it is the report.

    Example:
        >>> found = pellucid.triage(f, x)
        >>> found.stage, found.graph.number
        ('Inductor', 3)
    """

    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stage: str | None = None
    """The first stage at fault; None: none is."""
    problem: str | None = None
    """What differs there."""
    graph: Graph | None = None
    """The first graph at fault; None: it could not be told."""
    node: str | None = None
    """The first node at fault, in words; None: it was not looked for (`--accuracy`)."""
    next: str = ""
    """What to type next; empty where nothing is at fault."""
    detail: str = field(default="", repr=False)
    """Of one backend that was asked for: the traceback, and the code of its graphs."""

    def __str__(self) -> str:
        width = max([len(step.stage) for step in self.steps] or [0])
        backends = max([len(step.backend) for step in self.steps] or [0])
        lines = [
            f"{step.stage:{width}}  {step.backend:{backends}}  {step.outcome.seconds:6.1f} s  {_short(step.problem)}"
            for step in self.steps
        ]
        lines += ["", *self.notes] if self.notes else [""]
        lines.append(f"first stage at fault: {self.stage}" if self.stage else "no stage is at fault")
        if self.problem:
            lines.append(f"what differs: {self.problem}")
        if self.graph:
            lines.append(f"first graph at fault: {self.graph}")
        if self.node:
            lines.append(self.node)
        if self.next:
            lines.append(f"next: {self.next}")
        return "\n".join([*lines, *([self.detail] if self.detail else [])])


def _short(problem: str | None) -> str:
    return "as eager" if problem is None else f"FAULT: {problem.splitlines()[0][:100]}"


def of_function(fn: Callable, args: tuple, kwargs: dict[str, Any], backend: str | None = None) -> Triage:
    """`pellucid.triage`."""
    from pellucid._triage.function import FunctionRunner

    return of_runner(FunctionRunner(fn, args, kwargs), backend)


def of_runner(runner: Runner, backend: str | None = None) -> Triage:
    """All stages, and then the graphs of the first one at fault. With `backend`: this one alone, in detail.

    Raises:
        TimeoutError: the eager run takes longer than the runner lets it.
    """
    return _Search(runner).run(backend)


class _Search:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._found = Triage()
        self._reference = Outcome()
        self._compares = {"compares_values": True, "compares_prints": True}

    def run(self, backend: str | None) -> Triage:
        self._run_eagerly()
        stages = STAGES if backend is None else (Stage("asked for", backend),)
        before = _WITHOUT_CAPTURE
        for stage in stages:
            step = self._try(stage.name, stage.backend)
            if step.problem is not None:
                self._found.stage, self._found.problem = stage.name, step.problem
                if backend is None:
                    self._find_graph(before, step)
                break
            before = stage.backend
        if backend is None and self._found.stage is None and self._runner.minify is not None:
            step = self._try("own backend", OWN)
            if step.problem is not None:
                self._found.stage, self._found.problem = step.stage, step.problem
                self._found.next = self._runner.minify
        if backend is not None:
            self._found.detail = _detail(step.outcome)
        return self._found

    def _run_eagerly(self) -> None:
        """Twice: what differs between two eager runs says nothing of a compiled one."""
        self._reference = self._runner.run(None)
        if not self._reference.is_done:
            raise TimeoutError(f"the eager run: {self._reference.error}; nothing could be compared with it")
        again = self._runner.run(None)
        self._found.steps.append(Step("eager", "-", None, self._reference))
        if problem_of(self._reference, again, compares_prints=False) is not None:
            self._compares["compares_values"] = False
            self._found.notes.append(
                "Two eager runs give different results (seed the random numbers, and keep no state): only exceptions are "
                "compared."
            )
        if problem_of(self._reference, again, compares_values=False) is not None:
            self._compares["compares_prints"] = False
            self._found.notes.append("Two eager runs print different lines: what is printed is not compared.")
        if self._reference.error is not None:
            self._found.notes.append(f"The eager run ends with {self._reference.error}")

    def _try(self, name: str, backend: str) -> Step:
        outcome = self._runner.run(backend)
        step = Step(name, backend, problem_of(self._reference, outcome, **self._compares), outcome)
        self._found.steps.append(step)
        return step

    def _find_graph(self, before: str, failing: Step) -> None:
        """The first graph which makes a difference: of graphs up to it the stage at fault compiles all, of the others none."""
        graphs = sorted(failing.outcome.graphs, key=lambda graph: graph.number)
        self._found.next = self._runner.command.format(backend=failing.backend)
        if not graphs or (before == _WITHOUT_CAPTURE and self._try("no graph", before).problem is not None):
            return
        first = self._first_failing(before, failing.backend, graphs)
        if first is None:
            self._found.notes.append(
                "No single graph makes the difference: it shows only where all go through this stage."
            )
            return
        self._found.graph = graphs[first]
        number = graphs[first].number
        alone = self._try("this graph alone", f"{number}:{failing.backend};else:{before}")
        choice = alone.backend if alone.problem is not None else f"<={number}:{failing.backend};else:{before}"
        self._found.next = self._runner.command.format(backend=choice)

    def _first_failing(self, before: str, backend: str, graphs: Sequence[Graph]) -> int | None:
        low, high = 0, len(graphs) - 1
        while low < high:
            middle = (low + high) // 2
            step = self._try(
                f"graphs up to {graphs[middle].number}", f"<={graphs[middle].number}:{backend};else:{before}"
            )
            low, high = (low, middle) if step.problem is not None else (middle + 1, high)
        if low < len(graphs) - 1 or len(graphs) == 1:
            return low
        last = self._try(f"graphs up to {graphs[low].number}", f"<={graphs[low].number}:{backend};else:{before}")
        return low if last.problem is not None else None


def _detail(outcome: Outcome) -> str:
    parts = [outcome.traceback.rstrip("\n")]
    parts += [f"-- {graph}\n{graph.code}".rstrip("\n") for graph in outcome.graphs]
    return "\n\n".join(["", *(part for part in parts if part)])
