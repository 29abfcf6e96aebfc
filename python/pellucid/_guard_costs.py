"""What the checks of the guards of a compiled function cost, by guard and by line of the program: `pellucid.guard_costs`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pellucid import _core
from pellucid._module import OptimizedModule

__all__ = ["GuardCost", "GuardCosts", "guard_costs"]

_REPEATS = 2000
_MOST = 100  # letters of a guard in the table


@dataclass(frozen=True)
class GuardCost:
    """The check of one guard, at a call at which everything is as it was before."""

    nanoseconds: float
    kind: str
    """"TENSOR_MATCH", "TYPE_MATCH", …; "reads" for finding the value that guards are about."""
    source: str
    """What is looked at, as Python: "L['self'].training"; empty for state of the process."""
    text: str
    """What it must be; empty for "reads"."""
    file: str
    """Of the line of the program that made it matter; empty for state of the process."""
    line: int
    operation: str

    @property
    def place(self) -> str:
        """ "file.py:12", without the directory."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else "(state of the process)"


@dataclass(frozen=True)
class GuardCosts:
    """What `guard_costs` gives; `str()` is the table."""

    function: str
    region: int
    """The number in "__compiled_fn_3", as in `cache_entries`."""
    nanoseconds: float
    """What a call spends on all of its guards. Parts that have not moved are compared together, so it may be less than the sum."""
    guards: int
    """How many there are. Those that a version number or another guard proves cost nothing of their own."""
    costs: tuple[GuardCost, ...]
    """The dearest first."""

    def by_line(self) -> dict[tuple[str, int], float]:
        """Nanoseconds by file and line of the program, the dearest first; ("", 0) is state of the process.

        Example:
            >>> pellucid.guard_costs(f)(x).by_line()
            {('/work/train.py', 9): 31.2, ('', 0): 8.0}
        """
        lines: dict[tuple[str, int], float] = {}
        for cost in self.costs:
            lines[cost.file, cost.line] = lines.get((cost.file, cost.line), 0.0) + cost.nanoseconds
        return dict(sorted(lines.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        total = sum(cost.nanoseconds for cost in self.costs) or 1.0
        head = (
            f"{self.function}, __compiled_fn_{self.region}: {self.nanoseconds:.0f} ns a call for {self.guards} guards,"
            f" {len(self.costs)} looked at while nothing moves"
        )
        rows = [
            f"{cost.nanoseconds:8.1f} {100 * cost.nanoseconds / total:4.0f}%  {cost.place:<24} "
            + _clipped(" ".join(part for part in (cost.kind, cost.source, cost.text) if part))
            for cost in self.costs
        ]
        lines = [
            f"{nanoseconds:8.1f} {100 * nanoseconds / total:4.0f}%  "
            + (f"{os.path.basename(file)}:{line}" if file else "(state of the process)")
            for (file, line), nanoseconds in self.by_line().items()
        ]
        title = "      ns    %  "
        return "\n".join([head, "", f"{title}{'line':<24} guard", *rows, "", f"{title}all of a line", *lines])


def _clipped(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def guard_costs(compiled: Any, repeats: int = _REPEATS) -> Callable[..., GuardCosts]:
    """Measures what the guards of a compiled function cost, each for itself, by the line of the program that made it.

    The core repeats each check with the values of one call; the function itself does not run. Of a function with graph breaks
    the guards of its first region are told.

    Args:
        compiled: what `pellucid.compile` gave. It must have been called with such arguments before.
        repeats: how often each check is run; the shortest of five rounds counts.

    Returns:
        A function of the arguments of a call, which gives the costs.

    Raises:
        TypeError: `compiled` was not made by `pellucid.compile`.
        ValueError: at the call: nothing that was compiled before serves it.

    Example:
        >>> print(pellucid.guard_costs(f)(torch.ones(3)))
    """
    from pellucid.api import _compiled_function_of

    function = _compiled_function_of(compiled)
    instance = (compiled._orig_mod,) if isinstance(compiled, OptimizedModule) else ()
    if hasattr(compiled, "__func__"):
        instance = (compiled.__self__,)

    def measure(*args: Any, **kwargs: Any) -> GuardCosts:
        found = _core.guard_costs(function, (*instance, *args), kwargs, repeats)
        if found is None:
            raise ValueError("nothing that was compiled before serves a call with these arguments: call it first")
        region, nanoseconds, guards, rows = found
        costs = [
            GuardCost(
                took,
                "reads" if is_read else guard["kind"],
                guard["source"],
                "" if is_read else guard["text"],
                guard["file"],
                guard["line"],
                guard["operation"],
            )
            for guard, is_read, took in rows
        ]
        return GuardCosts(function.__qualname__, region, nanoseconds, guards, tuple(costs))

    return measure
