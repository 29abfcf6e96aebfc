"""What one run of a program gave, and in what one run differs from another."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import torch

from pellucid.backends.verify import difference

_LARGEST = 1 << 16  # of larger tensors so many elements are compared, evenly spread
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Graph:
    """One that a backend got: its number, and where in the program it ends."""

    number: int
    name: str
    place: str
    code: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return f"graph {self.number} ({self.name}, {self.place})"


@dataclass
class Outcome:
    """What one run gave. The tensors in `results` are copies."""

    results: list[tuple[str, Any]] = field(default_factory=list)
    """Pairs: what it is, and the value."""
    printed: str = ""
    error: str | None = None
    """Type and text of the exception that ended it."""
    traceback: str = ""
    complaints: list[str] = field(default_factory=list)
    """What pellucid could mend by itself: graphs that raised, errors of its own."""
    graphs: list[Graph] = field(default_factory=list)
    seconds: float = 0.0
    is_done: bool = True
    """False: it was ended because it took too long."""


def kept(value: Any) -> Any:
    """A copy of a result that says what is compared of it, and can be pickled.

    Example:
        >>> kept({"loss": torch.ones(1), "net": torch.nn.ReLU()})
        [("['loss']", tensor([1.])), ("['net']", 'ReLU')]
    """
    leaves, _ = torch.utils._pytree.tree_flatten_with_path(value)
    return [(torch.utils._pytree.keystr(path), _kept_leaf(leaf)) for path, leaf in leaves]


def _kept_leaf(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            try:
                plain = value.detach().to("cpu")
                if plain.layout is not torch.strided:
                    plain = plain.to_dense()
                plain = plain.resolve_conj().resolve_neg()
                kept = plain.reshape(-1)[:: max(1, plain.numel() // _LARGEST)].clone()
            except (RuntimeError, NotImplementedError):  # of a type without these
                return f"a tensor {tuple(value.shape)} {value.dtype}"
        return (tuple(value.shape), str(value.device), kept)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    return type(value).__qualname__  # nothing else of it can be compared in general


def problem_of(
    reference: Outcome, outcome: Outcome, compares_values: bool = True, compares_prints: bool = True
) -> str | None:
    """In what a run is not what the eager run is, in words; None: in nothing."""
    if reference.error != outcome.error:
        return outcome.error or f"raises nothing, where eager raises {reference.error}"
    if outcome.complaints:
        return outcome.complaints[0]
    if compares_values:
        found = _result_difference(reference, outcome)
        if found is not None:
            return found
    return _print_difference(reference.printed, outcome.printed) if compares_prints else None


def _result_difference(reference: Outcome, outcome: Outcome) -> str | None:
    for (place, wanted), (other, got) in zip(reference.results, outcome.results):
        found = f"{other} in place of {place}" if place != other else _value_difference(wanted, got, place)
        if found is not None:
            return found
    if len(reference.results) != len(outcome.results):
        return f"{len(outcome.results)} results of compiled functions instead of {len(reference.results)}"
    return None


def _value_difference(wanted: Any, got: Any, place: str) -> str | None:
    if [path for path, _ in wanted] != [path for path, _ in got]:
        return f"{place} is built otherwise"
    for (path, a), (_, b) in zip(wanted, got, strict=True):
        found = _leaf_difference(a, b, place + path)
        if found is not None:
            return found
    return None


def _leaf_difference(wanted: Any, got: Any, place: str) -> str | None:
    """Tensors are tuples of shape, device and elements here."""
    if isinstance(wanted, tuple) and isinstance(got, tuple):
        if wanted[:2] != got[:2]:
            return f"{place} has shape and device {got[:2]} instead of {wanted[:2]}"
        return difference(wanted[2], got[2], place)
    if isinstance(wanted, tuple) or isinstance(got, tuple):
        return f"only one of both gives a tensor as {place}"
    if isinstance(wanted, float) and isinstance(got, float):
        return difference(torch.tensor(wanted), torch.tensor(got), place)
    return difference(wanted, got, place)


def _print_difference(wanted: str, got: str) -> str | None:
    """Numbers may differ as they do when they are computed in another order."""
    lines, others = wanted.splitlines(), got.splitlines()
    for number, (a, b) in enumerate(zip(lines, others), 1):
        if _NUMBER.sub("0", a) != _NUMBER.sub("0", b) or not _close(_NUMBER.findall(a), _NUMBER.findall(b)):
            return f"line {number} that it prints is {b!r} instead of {a!r}"
    if len(lines) != len(others):
        return f"it prints {len(others)} lines instead of {len(lines)}"
    return None


def _close(wanted: list[str], got: list[str]) -> bool:
    return all(abs(float(a) - float(b)) <= 1e-4 + 1e-3 * abs(float(a)) for a, b in zip(wanted, got, strict=True))
