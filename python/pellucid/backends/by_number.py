"""Backends by graph number: `backend="<=5:aot_eager;>5:inductor"`.

    choice   = rule {";" rule}
    rule     = numbers ":" backend
    numbers  = part {"," part} | "else"
    part     = N | N "-" N | "<" N | "<=" N | ">" N | ">=" N

The number of a graph is the one in its name: `__compiled_fn_3` and `__resume_at_26_3` have number 3. The first rule that has a
graph's number says who compiles it. Every number must have a rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid._fx import name_of_graph
from pellucid.backends import builtin
from pellucid.errors import InvalidBackend

if TYPE_CHECKING:
    from torch.fx import GraphModule

_PART = re.compile(r"\s*(?:(?P<low>\d+)\s*-\s*(?P<high>\d+)|(?P<relation><=|>=|<|>)?\s*(?P<number>\d+))\s*")
_FOREVER = float("inf")


@dataclass(frozen=True)
class _Rule:
    ranges: tuple[tuple[float, float], ...]  # first and last number
    backend: str

    def has(self, number: float) -> bool:
        return any(first <= number <= last for first, last in self.ranges)


def is_choice(name: str) -> bool:
    """Whether the name of a backend is a choice by graph number."""
    return ":" in name or ";" in name


class Choice:
    """A backend that hands each graph on to the one that its number asks for."""

    def __init__(self, text: str, rules: Sequence[tuple[_Rule, Callable]]) -> None:
        self.__name__ = text
        self._rules = rules
        self.takes_numbers = all(getattr(backend, "takes_numbers", False) is True for _, backend in rules)
        self.uses_aot = any(builtin.uses_aot(rule.backend) for rule, _ in rules)
        self.takes_symbols = all(builtin.takes_symbols(rule.backend) for rule, _ in rules)

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
        return self.backend_for(graph_number(gm))(gm, example_inputs, **options)

    def backend_for(self, number: int) -> Callable:
        """The backend of the graph with this number."""
        return next(backend for rule, backend in self._rules if rule.has(number))


def graph_number(gm: GraphModule) -> int:
    """The number of a graph that was captured by pellucid. One that was made otherwise counts as the first."""
    name = name_of_graph(gm)
    return int(name.rpartition("_")[2]) if name else 0


def choice(text: str, lookup: Callable[[str], Callable]) -> Choice:
    """The backend for a choice by graph number. `lookup` gives the backend of a name.

    Raises:
        InvalidBackend: the text does not follow the grammar, leaves graphs without a backend, or names one that is unknown.

    Example:
        >>> choice("<=5:aot_eager;>5:inductor", lookup_backend)
    """
    texts = [part for part in text.split(";") if part.strip()]
    rules = [_rule(text, part) for part in texts]
    _check_all_numbers(text, rules)
    return Choice(text, [(rule, lookup(rule.backend)) for rule in rules])


def _rule(text: str, part: str) -> _Rule:
    numbers, colon, backend = (piece.strip() for piece in part.partition(":"))
    if not colon or not numbers or not backend:
        raise _wrong(text, f"{part.strip()!r} is not of the form numbers:backend")
    if ":" in backend:
        raise _wrong(text, f"{part.strip()!r} has two colons; rules are separated by ';'")
    if numbers == "else":
        return _Rule(((0, _FOREVER),), backend)
    return _Rule(tuple(_range(text, each) for each in numbers.split(",")), backend)


def _range(text: str, part: str) -> tuple[float, float]:
    found = _PART.fullmatch(part)
    if found is None:
        raise _wrong(text, f"{part.strip()!r} is no graph number, range (2-4) or comparison (<=5)")
    if found["low"] is not None:
        low, high = int(found["low"]), int(found["high"])
        if low > high:
            raise _wrong(text, f"the range {part.strip()!r} is empty")
        return low, high
    number = int(found["number"])
    ranges: dict[str | None, tuple[float, float]] = {
        None: (number, number),
        "<=": (0, number),
        "<": (0, number - 1),
        ">=": (number, _FOREVER),
        ">": (number + 1, _FOREVER),
    }
    return ranges[found["relation"]]


def _check_all_numbers(text: str, rules: Sequence[_Rule]) -> None:
    # A number without a rule follows the last number of some range, if it is not the first one.
    ends = sorted({0, *(last + 1 for rule in rules for _, last in rule.ranges if 0 <= last < _FOREVER)})
    missing = next((number for number in ends if not any(rule.has(number) for rule in rules)), None)
    if missing is not None:
        raise _wrong(text, f"graph {missing} has no backend; a last rule 'else:eager' takes what is left")


def _wrong(text: str, problem: str) -> InvalidBackend:
    return InvalidBackend(
        text, [], f"Backend {text!r} is no choice by graph number: {problem}. An example: '<=5:aot_eager;>5:inductor'"
    )
