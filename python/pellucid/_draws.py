"""Random numbers that a region draws: which calls those are, and what one gives during capture.

A region draws at each call, from the program's generators. While it is captured they stay as they are: `ahead` draws
from copies, and capture goes on with a number of the same type that lies within the same bounds.
"""

from __future__ import annotations

import _random
import copy
import math
import random
import sys
from collections.abc import Callable
from typing import Any

Bounds = tuple[int, int]

# Beyond these a float that is computed of one might be infinite, or raise.
_LARGE, _SMALL = 1e100, 1e-100


def _is_moderate(number: Any) -> bool:
    """Whether floats computed of it stay finite."""
    if type(number) not in (int, float):
        return False
    return number == 0 or (not math.isnan(number) and _SMALL <= abs(number) <= _LARGE)


def _of_floats(*arguments: Any) -> Bounds | None:
    return (0, 0) if all(map(_is_moderate, arguments)) else None


def _of_a_rate(rate: Any = 1.0) -> Bounds | None:
    return (0, 0) if _is_moderate(rate) and rate != 0 else None


def _of_two_powers(alpha: Any, beta: Any) -> Bounds | None:
    known = all(type(power) in (int, float) and 0.01 <= power <= _LARGE for power in (alpha, beta))
    return (0, 0) if known else None


def _of_bits(count: Any) -> Bounds | None:
    return (0, (1 << count) - 1) if type(count) is int and 0 <= count < 63 else None


def _of_ends(first: Any, last: Any) -> Bounds | None:
    return (first, last) if type(first) is type(last) is int and first <= last else None


def _of_range(*arguments: Any) -> Bounds | None:
    if not all(type(argument) is int for argument in arguments):
        return None
    numbers = range(*arguments)
    return (min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])) if numbers else None


def _of_numpy_range(low: Any, high: Any = None) -> Bounds | None:
    return _of_range(low) if high is None else _of_range(low, high)


def _of_nothing() -> Bounds | None:
    return (0, 0)


def _of_positive_scale(scale: Any = 1.0) -> Bounds | None:
    return (0, 0) if _is_moderate(scale) and scale >= 0 else None


def _of_normal(location: Any = 0.0, scale: Any = 1.0) -> Bounds | None:
    return (0, 0) if _is_moderate(location) and _is_moderate(scale) and scale >= 0 else None


# Of each function that draws: the bounds of what it gives for these arguments, (0, 0) of a float; None: it may raise,
# or give no number of 64 bits. No function keeps anything in the generator but the state that getstate() tells.
_BOUNDS: dict[Any, Callable[..., Bounds | None]] = {
    _random.Random.random: _of_nothing,
    _random.Random.getrandbits: _of_bits,
    random.Random.uniform: _of_floats,
    random.Random.randint: _of_ends,
    random.Random.randrange: _of_range,
    random.Random.triangular: _of_floats,
    random.Random.normalvariate: _of_floats,
    random.Random.expovariate: _of_a_rate,
    random.Random.betavariate: _of_two_powers,
}

_OF_RANDOM_STATE: dict[str, Callable[..., Bounds | None]] = {
    "rand": _of_nothing,
    "random": _of_nothing,
    "random_sample": _of_nothing,
    "randn": _of_nothing,
    "standard_normal": _of_nothing,
    "standard_exponential": _of_nothing,
    "uniform": _of_floats,
    "normal": _of_normal,
    "exponential": _of_positive_scale,
    "randint": _of_numpy_range,
}
_OF_GENERATOR: dict[str, Callable[..., Bounds | None]] = {
    "random": _of_nothing,
    "standard_normal": _of_nothing,
    "standard_exponential": _of_nothing,
    "uniform": _of_floats,
    "normal": _of_normal,
    "exponential": _of_positive_scale,
}


def functions_of_numpy() -> list[Any]:
    """The methods of generators of numpy that draw; numpy.random is imported."""
    numpy = sys.modules["numpy.random"]
    found = []
    for kind, table in ((numpy.RandomState, _OF_RANDOM_STATE), (numpy.Generator, _OF_GENERATOR)):
        for name, bounds in table.items():
            function = kind.__dict__.get(name)
            if function is not None:
                _BOUNDS[function] = bounds
                found.append(function)
    return found


def _is_known(generator: Any) -> bool:
    """Whether all that it draws comes from code of Python or numpy alone."""
    kind = type(generator)
    if kind is random.Random:
        return kind.random is _random.Random.random and kind.getrandbits is _random.Random.getrandbits
    numpy = sys.modules.get("numpy.random")
    if numpy is None or kind not in (numpy.RandomState, numpy.Generator):
        return False
    source = generator._bit_generator if kind is numpy.RandomState else generator.bit_generator
    return type(source) in (numpy.MT19937, numpy.PCG64, numpy.PCG64DXSM, numpy.Philox, numpy.SFC64)


def copy_of(generator: Any) -> Any:
    """A generator that draws the same numbers; None of one that no region draws from."""
    if not _is_known(generator):
        return None
    if type(generator) is not random.Random:
        return copy.deepcopy(generator)
    made = random.Random()
    made.setstate(generator.getstate())
    return made


def ahead(generator: Any, function: Any, arguments: tuple[Any, ...]) -> tuple[int | float, int, int] | None:
    """What a call draws of a copy, with the bounds of what it may give; None: no region can draw that.

    Raises:
        Exception: whatever the function raises.
    """
    bounds = _BOUNDS[function](*arguments)
    if bounds is None or not (bounds[0] >= -(1 << 63) and bounds[1] < 1 << 63):
        return None
    number = function(generator, *arguments)
    if type(number) is int:
        return (number, *bounds) if bounds[0] <= number <= bounds[1] else None
    return (number, 0, 0) if type(number) is float and math.isfinite(number) else None


def is_of_program(target: Any) -> bool:
    """Whether a node of a graph calls a function of the program, which may draw itself."""
    kind = type(target)
    if kind.__module__ == "builtins" and not hasattr(target, "__globals__"):
        return False  # of C
    home = target.__globals__.get("__name__", "") if hasattr(target, "__globals__") else kind.__module__
    return str(home).partition(".")[0] not in ("torch", "numpy", "pellucid", "functools")


def state_of(generator: Any) -> Any:
    """What `put_back` takes to put a generator of numpy where it is now."""
    legacy = hasattr(generator, "get_state")
    return generator.get_state(legacy=False) if legacy else generator.bit_generator.state


def put_back(generator: Any, state: Any) -> None:
    """The generator draws again what it has drawn since `state_of`."""
    if hasattr(generator, "set_state"):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state
