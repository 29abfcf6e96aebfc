"""The option `guard_filter_fn`: what a filter of the user gets to see of the guards of a region."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

# What torch._dynamo calls them; other kinds have our own names.
_TYPES = {"CONDITION": "SHAPE_ENV"}


@dataclass(frozen=True)
class GuardSource:
    """Where the value of a guard comes from."""

    name: str
    _owners: Sequence[object]

    def _modules(self) -> list[torch.nn.Module]:
        return [owner for owner in self._owners if isinstance(owner, torch.nn.Module)]

    def is_unspecialized_nn_module(self) -> bool:
        """Whether it is a module or belongs to one."""
        return bool(self._modules())

    def is_unspecialized_builtin_nn_module(self) -> bool:
        """The same of one whose class is torch's own."""
        return any(type(module).__module__.startswith(("torch.nn.", "torch.ao.")) for module in self._modules()[:1])


@dataclass(frozen=True)
class OriginalGuard:
    """The guard itself: `source`, and the line of the program that made it."""

    source: GuardSource
    file: str
    line: int


@dataclass(frozen=True)
class GuardFilterEntry:
    """One guard, with the fields that torch.compile gives to a `guard_filter_fn`."""

    name: str
    """What is looked at, as Python: "L['self'].training"; empty for state of the process."""
    has_value: bool
    value: object
    """What is there; None when that is not known."""
    guard_type: str
    derived_guard_types: tuple[str, ...]
    """The name of the kind in `explain`."""
    is_global: bool
    orig_guard: OriginalGuard


def _kept(guard_filter_fn: Callable[[list[GuardFilterEntry]], Sequence[bool]], rows: list[tuple]) -> list[bool]:
    """Called by `_core`: one row for each guard."""
    entries = [
        GuardFilterEntry(
            name,
            has_value,
            value,
            _TYPES.get(kind, kind),
            (kind,),
            is_global,
            OriginalGuard(GuardSource(name, owners), file, line),
        )
        for kind, name, has_value, value, owners, is_global, file, line in rows
    ]
    answers: Any = list(guard_filter_fn(entries))
    if len(answers) != len(entries):
        raise ValueError(f"guard_filter_fn gave {len(answers)} answers for {len(entries)} guards")
    if not all(isinstance(answer, bool) for answer in answers):
        raise TypeError("guard_filter_fn must give True or False for each guard")
    return answers
