"""The table of uses: an expression, its tensors for a size, and the most graphs that five sizes may make.

    uses("pooling", image, max_pool=lambda x: F.max_pool2d(x, 2), ...)

Without a size rule an operator makes its sizes constants, so such a use needs a graph for each size: `graphs` of a row
says so, and `why` what is in the way. 0: nothing of it is captured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

SIZES = (5, 8, 4, 9, 6)
USES: list[Use] = []


@dataclass(frozen=True)
class Use:
    family: str
    name: str
    function: Callable
    make: Callable[[int], list]
    graphs: int = 2
    why: str = ""

    @property
    def id(self) -> str:
        return f"{self.family}-{self.name}"


def uses(family: str, make: Callable[[int], list], graphs: int = 2, why: str = "", **functions: Callable) -> None:
    """A row for each function, called with what `make` gives for a size."""
    assert graphs == 2 or why
    USES.extend(Use(family, name, function, make, graphs, why) for name, function in functions.items())


def ramp(*shape: int) -> torch.Tensor:
    """Small numbers that all differ, in no order, of both signs."""
    count = int(torch.Size(shape).numel())
    return (torch.arange(float(count)) * 7 % (count or 1) / 4 - 1.1).reshape(shape)


def vector(n: int) -> list:
    return [ramp(n)]


def matrix(n: int) -> list:
    return [ramp(n, 3)]


def matrices(n: int) -> list:
    """Of one shape."""
    return [ramp(n, 3), ramp(n, 3) * 0.5 + 0.1]


def rows(n: int) -> list:
    """The size comes last."""
    return [ramp(3, n)]


def square(n: int) -> list:
    return [ramp(n, n) / n + torch.eye(n) * 3]


def image(n: int) -> list:
    return [ramp(2, 3, n, n + 1)]


def batch_of_images(n: int) -> list:
    return [ramp(n, 4, 6, 6)]


def volume(n: int) -> list:
    return [ramp(2, 3, n, n, n)]


def sequence(n: int) -> list:
    """Batch, channels, length."""
    return [ramp(2, 4, n)]


def indexed(n: int) -> list:
    """A matrix and an index of each row."""
    return [ramp(n, 3), torch.arange(n) % 3]
