"""What would be compiled of a program, why it breaks and why it is compiled again: seen in one run of it."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pellucid._recompiles import GuardFailure, Recompile
from pellucid.errors import BreakRecord

if TYPE_CHECKING:
    import torch

_SHOWN = 3  # values of one guard in the report


class CompileProfiler:
    """A backend that runs graphs as they are, and tells what it has seen: graphs, graph breaks, recompiles.

    What is compiled with it knows no limit of recompiles, so a long run shows all of them.

    Example:
        >>> with pellucid.CompileProfiler() as profiler:
        ...     profiled = pellucid.compile(model, backend=profiler)
        ...     for batch in batches:
        ...         profiled(batch)
        >>> print(profiler.report())
    """

    takes_numbers = True
    _has_no_limit = True

    def __init__(self) -> None:
        self.frame_count = 0
        """Graphs."""
        self.op_count = 0
        """call_function and call_method nodes of all graphs."""
        self.break_reasons: list[BreakRecord] = []
        """Oldest first, the same place as often as a capture stopped there."""
        self.recompiles: list[Recompile] = []
        """Oldest first."""

    def __enter__(self) -> CompileProfiler:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any], **options: Any) -> Callable:
        self.frame_count += 1
        self.op_count += sum(node.op in ("call_function", "call_method", "call_module") for node in gm.graph.nodes)
        return gm.forward

    def _on_stop(self, record: BreakRecord) -> None:
        self.break_reasons.append(record)

    def _on_recompile(self, record: Recompile) -> None:
        self.recompiles.append(record)

    def get_metrics(self) -> dict[str, dict[str, list[str]]]:
        """The guards that failed, by function: for each recompile those of the version that was used last.

        Example:
            >>> profiler.get_metrics()["guard_failures"]
            {'f (example.py:3)': ["EQUALS_MATCH L['k']: expected 2, found 3 (example.py:4, computes); ..."]}
        """
        return {
            "guard_failures": {
                place: [_newest(record) for record in records] for place, records in self._by_function().items()
            }
        }

    def report(self) -> str:
        """The report, for people."""
        parts = ["pellucid profiler report", "========================"]
        parts.append(f"Graphs: {self.frame_count}, operations: {self.op_count}")
        parts += ["", "Graph breaks", "------------", *self._breaks()]
        parts += ["", "Recompiles", "----------", *self._recompiles()]
        return "\n".join(parts) + "\n"

    def _breaks(self) -> list[str]:
        if not self.break_reasons:
            return ["No graph breaks: each function is one graph."]
        lines = ["The graph ended before the program did, with this reason so many times:"]
        counted = collections.Counter(map(_break_line, self.break_reasons))
        hints = {_break_line(record): record.hint for record in self.break_reasons}
        for line, count in counted.most_common():
            lines += [f"  {count}x {line}", f"     Hint: {hints[line]}"]
        return lines

    def _recompiles(self) -> list[str]:
        if not self.recompiles:
            return ["No recompiles: each function was compiled once."]
        lines = ["These functions were compiled again:"]
        for place, records in self._by_function().items():
            cost = sum(record.milliseconds for record in records)
            lines.append(f"  {place}: {len(records)} recompiles, {cost:.1f} ms")
            lines += [f"    {line}" for line in _reasons(records)]
        most = max(map(len, self._by_function().values())) + 1
        lines.append(
            f"Without the profiler a function keeps pellucid.config.recompile_limit versions: {most} would keep all of these."
        )
        return lines

    def _by_function(self) -> dict[str, list[Recompile]]:
        found: dict[str, list[Recompile]] = {}
        for record in self.recompiles:
            found.setdefault(f"{record.function} ({record.file}:{record.line})", []).append(record)
        return found


def _break_line(record: BreakRecord) -> str:
    place = ""
    if record.user_stack:
        frame = record.user_stack[-1]
        place = f" ({frame.filename}:{frame.lineno} in {frame.name})"
    return f"{record.code} {record.name}: {record.cause}{place}"


_GONE = "the objects that the compiled versions depend on are gone"


def _newest_failures(record: Recompile) -> list[GuardFailure]:
    return next(iter(record.failures.values()), [])


def _newest(record: Recompile) -> str:
    return "\n".join(map(str, _newest_failures(record))) or _GONE


def _reasons(records: list[Recompile]) -> list[str]:
    """Guard by guard, with a few of the values that it met."""
    met: dict[tuple, list[str]] = {}
    for record in records:
        if not _newest_failures(record):
            met.setdefault((_GONE, ""), []).append("")
        for failure in _newest_failures(record):
            place = f" ({failure.file}:{failure.line}, {failure.operation})" if failure.file else ""
            key = (f"{failure.kind} {failure.source}".rstrip() + place, failure.advice)
            met.setdefault(key, []).append(f"expected {failure.expected}, found {failure.found}")
    lines = []
    for (guard, advice), values in sorted(met.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(values)}x {guard}")
        lines += [f"   {value}" for value in values[:_SHOWN] if value]
        if len(values) > _SHOWN:
            lines.append(f"   and {len(values) - _SHOWN} more")
        if advice:
            lines.append(f"   Hint: {advice}")
    return lines
