"""The programs of the corpus, by area: what people write around a model, each small enough to read at a glance.

A program is a function that makes its case anew: the function to be compiled, the calls of it, and the state that a call may
change. It runs in a process whose random generators are seeded before.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Case:
    f: Callable
    """What is compiled: a function or a module."""
    calls: Sequence[tuple]
    """The arguments of each call, at least two."""
    state: Any = None
    """What calls may change beside their arguments; looked at after each call."""
    backward: bool = True
    """Whether the sum of what the call gives is taken backward behind the call, where it requires gradients."""
    between: Callable[[int], None] | None = None
    """Called before each call with its number."""
    before_backward: Callable[[int], None] | None = None
    """Called with its number between a call and the backward pass behind it."""


@dataclass(frozen=True)
class Program:
    name: str
    area: str
    make: Callable[[], Case]
    inductor: bool
    """Whether it runs with backend "inductor" too."""


PROGRAMS: dict[str, Program] = {}


def program(area: str, *, inductor: bool = False, name: str = "") -> Callable:
    """Registers a function that makes a case."""

    def register(make: Callable[[], Case]) -> Callable[[], Case]:
        called = name or make.__name__
        if called in PROGRAMS:
            raise ValueError(f"two programs are called {called}")
        PROGRAMS[called] = Program(called, area, make, inductor)
        return make

    return register


def load() -> dict[str, Program]:
    """All programs by name."""
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return PROGRAMS
