"""What looks at compiled code and resets it: reset, explain, compile_times, counters, backends."""

from __future__ import annotations

import collections
import functools
import sys
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from pellucid import api
from pellucid.takeover.switch import is_installed


def in_place_of(ours: Callable) -> Callable[[Callable], Callable]:
    """A function of the same arguments and meaning; torch's again when nothing is installed."""

    def stand_in(original: Callable) -> Callable:
        @functools.wraps(original)
        def chosen(*args: Any, **kwargs: Any) -> Any:
            return (ours if is_installed() else original)(*args, **kwargs)

        return chosen

    return stand_in


def reset(original: Callable) -> Callable:
    """Both forget: torch's own holds the kernels of Inductor and what torch.compile made earlier."""

    @functools.wraps(original)
    def reset_both() -> None:
        if is_installed():
            api.reset()
        if not is_installed() or "torch._dynamo" in sys.modules:
            original()

    return reset_both


def counters(original: dict[str, collections.Counter[str]]) -> _Counters:
    """Stands in for torch._dynamo.utils.counters."""
    return _Counters(original)


class _Counters(MutableMapping[str, "collections.Counter[str]"]):
    """The groups that pellucid counts, and those of AOTAutograd and Inductor, which count into torch's own object."""

    def __init__(self, of_torch: dict[str, collections.Counter[str]]) -> None:
        self._of_torch = of_torch

    def __getitem__(self, group: str) -> collections.Counter[str]:
        if is_installed() and group in api.counters:
            return self._of_torch.get(group, collections.Counter()) + api.counters[group]
        return self._of_torch[group]

    def __setitem__(self, group: str, counts: collections.Counter[str]) -> None:
        self._of_torch[group] = counts

    def __delitem__(self, group: str) -> None:
        del self._of_torch[group]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._of_torch, **(api.counters if is_installed() else {})})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        self._of_torch.clear()
        if is_installed():
            api.counters.clear()
