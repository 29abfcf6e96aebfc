"""`explain` and the backend that it and `ExplainWithBackend` watch with."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pellucid._capture_profile import CompileProfile, profile_compiles
from pellucid._compile_times import PHASES
from pellucid._explain.output import Details, ExplainOutput, Guard, Region
from pellucid._explain.record import RecordedCompile, Recorder, break_key
from pellucid.backends import resolve_backend
from pellucid.backends.registry import lookup_backend
from pellucid.errors import BreakRecord

if TYPE_CHECKING:
    import torch


def call_function_targets(graph_module: torch.fx.GraphModule) -> list[Any]:
    return [node.target for node in graph_module.graph.nodes if node.op == "call_function"]


class ExplainWithBackend:
    """A backend that hands on to another one and remembers what passes: graphs, operations, reasons of breaks.

    It listens to `pellucid.events` as long as it lives, so that a report of it agrees with every other.

    Example:
        >>> watched = pellucid.ExplainWithBackend("inductor")
        >>> pellucid.compile(f, backend=watched)(x)
        >>> print(watched.output())
        >>> watched.output().to_html("report.html")
    """

    def __init__(self, backend: str | Callable) -> None:
        """
        Raises:
            InvalidBackend: there is no backend of that name.
            TypeError: neither a name nor a callable.
        """
        self.backend = lookup_backend(backend)
        marks = resolve_backend(backend)  # what is watched is asked for no other graphs
        self.takes_numbers = marks.takes_numbers
        self.takes_symbols = marks.takes_symbols
        self.takes_coo = marks.takes_coo
        self.uses_aot = marks.aot
        self._recorder = Recorder(self)
        self._recorder.start()

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor], **options: Any) -> Callable:
        self._recorder.note_graph(gm, example_inputs)
        return self.backend(gm, example_inputs, **options)

    @property
    def graphs(self) -> list[torch.fx.GraphModule]:
        """All that passed, oldest first."""
        return [graph.module for compiled in self._recorder.compiles for graph in compiled.graphs]

    @property
    def break_reasons(self) -> list[BreakRecord]:
        """Oldest first, each place and reason once."""
        return _breaks(self._recorder.compiles)

    @property
    def op_count(self) -> int:
        """call_function nodes of all graphs."""
        return sum(len(call_function_targets(graph)) for graph in self.graphs)

    def output(self) -> ExplainOutput:
        """What passed so far. Operations by graph, guards and times are None, as in torch._dynamo; reports have them."""
        return _output(self._recorder.compiles, None)


def _breaks(compiles: list[RecordedCompile]) -> list[BreakRecord]:
    """A function that stops at a call is tried again from the inner function on: the same place, one break."""
    found: dict[tuple, BreakRecord] = {}
    for record in (record for compiled in compiles for record in compiled.breaks):
        found.setdefault(break_key(record), record)
    return list(found.values())


@contextlib.contextmanager
def timed_lines() -> Iterator[CompileProfile | None]:
    """Takes the time of each line that is captured. None when somebody is taking it already."""
    try:
        profile = profile_compiles()
        recorded = profile.__enter__()
    except RuntimeError:
        yield None
        return
    try:
        yield recorded
    finally:
        profile.__exit__(None, None, None)


def explain(fn: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        return _explained(fn, args, kwargs)

    if not callable(fn):
        raise TypeError(f"pellucid.explain needs a callable, not {type(fn).__name__}")
    if not extra_args and not extra_kwargs:
        return inner
    warnings.warn(
        "explain(f, *args, **kwargs) is deprecated, use explain(f)(*args, **kwargs) instead: "
        "keyword arguments of f could collide with later ones of explain.",
        FutureWarning,
        stacklevel=3,
    )
    return inner(*extra_args, **extra_kwargs)


def compiled_with(watch: Callable, fn: Callable) -> Callable:
    """`fn`, compiled with this backend; a class is called to make an instance, and stays as it is."""
    from pellucid import api

    settings = api.Settings(backend=watch)
    return settings(fn) if inspect.isclass(fn) else api._compile_with(fn, settings=settings, disabled=False)


def _explained(fn: Callable, args: tuple, kwargs: dict[str, Any]) -> ExplainOutput:
    from pellucid import api

    api.reset()
    try:
        watch = ExplainWithBackend("eager")
        with timed_lines() as profile:
            compiled_with(watch, fn)(*args, **kwargs)
        return full_output(watch, profile)
    finally:
        api.reset()


def full_output(watch: ExplainWithBackend, profile: CompileProfile | None) -> ExplainOutput:
    """With all fields."""
    watch._recorder.stop()
    output = _output(watch._recorder.compiles, profile)
    output.ops_per_graph = [call_function_targets(graph) for graph in output.graphs]
    output.out_guards = output.details.guards
    output.compile_times = _table_of_times(output.details.compiles)
    return output


def _output(compiles: Sequence[RecordedCompile], profile: CompileProfile | None) -> ExplainOutput:
    from pellucid._explain.arguments import words_of
    from pellucid._explain.graphs import GraphReport

    compiles = list(compiles)
    graphs: list[GraphReport] = []
    regions, guards = [], []
    for compiled in compiles:
        region = compiled.region
        words = words_of(compiled)
        graphs += [GraphReport(graph, compiled) for graph in compiled.graphs]
        if region is not None:
            own = len(graphs) - 1 if compiled.graphs else None
            times = {phase: compiled.milliseconds[phase] for phase in PHASES if phase in compiled.milliseconds}
            regions.append(Region(region.number, function_text(compiled), own, times))
            guards += [Guard(**row, region=region.number, goes_on=words.goes_on, words=words) for row in region.guards]
    modules = [graph.module for graph in graphs]
    return ExplainOutput(
        modules,
        len(modules),
        len(modules) - 1,
        _breaks(compiles),
        sum(len(call_function_targets(module)) for module in modules),
        regions=regions,
        recompiles=[compiled.recompile for compiled in compiles if compiled.recompile is not None],
        details=Details(compiles, graphs, guards, profile),
    )


def function_text(compiled: RecordedCompile) -> str:
    code = compiled.started.code
    return f"{compiled.started.function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"


def _table_of_times(compiles: list[RecordedCompile]) -> str:
    whole = [compiled for compiled in compiles if compiled.region is not None]
    rows = [
        (phase, [compiled.milliseconds[phase] for compiled in whole if phase in compiled.milliseconds])
        for phase in PHASES
    ]
    stopped = [sum(compiled.milliseconds.values()) for compiled in compiles if compiled.region is None]
    rows.append(("stopped captures", stopped))
    lines = ["pellucid compilation metrics:", f"{'Function':<18}{'Total (ms)':>12}   Runtimes (ms)"]
    lines += [
        f"{step:<18}{sum(times):>12.3f}   {', '.join(f'{time:.3f}' for time in times)}" for step, times in rows if times
    ]
    lines.append(f"{'all':<18}{sum(sum(times) for _, times in rows):>12.3f}")
    return "\n".join(lines)
