"""Every kind of value in every kind of use: a new object of equal value at each call, another value, the first again.

Results, exceptions and what the containers from outside hold (and which of the objects) are compared with eager after each call.
"""

from __future__ import annotations

import re
import types
import warnings

import pytest
import torch
from value_matrix_uses import USES, Holder, State
from value_matrix_values import VALUES

import pellucid
from support import Counting

ADDRESS = re.compile(r"0x[0-9a-f]+")
# Equal ones stand for each other in emitted code.
ATOMS = (int, float, complex, str, bytes, bool, type(None), tuple, range, slice, torch.device)
ONE_OF = (0, 0, 1, 0)  # the values of the calls; the last is the first object once more


class Pictures:
    """Values as text that can be compared between two runs. Objects that were passed in show by when they were."""

    def __init__(self, values):
        self.passed = {}
        for i, value in enumerate(values):
            if type(value) not in ATOMS:
                self.passed.setdefault(id(value), i)

    def __call__(self, value, depth=0):
        number = self.passed.get(id(value))
        return self.content(value, depth) if number is None else ("passed", number, self.content(value, depth))

    def content(self, value, depth):
        kind = type(value).__qualname__
        if depth > 6:
            return kind
        if isinstance(value, torch.Tensor):
            return (
                kind,
                value.dtype,
                value.device,
                tuple(value.shape),
                repr(value.tolist()) if not value.is_meta else "",
            )
        inner = [self.inside(value, depth + 1)]
        return (kind, *inner)

    def inside(self, value, depth):
        if isinstance(value, dict):
            return [(self(k, depth), self(v, depth)) for k, v in dict.items(value)]
        if isinstance(value, (set, frozenset)):
            return sorted(repr(self(x, depth)) for x in value)
        if isinstance(value, (list, tuple)) or kind_is(value, "deque"):
            return [self(x, depth) for x in value]
        if isinstance(value, types.MethodType):
            return self(value.__func__, depth), self(value.__self__, depth)
        if isinstance(value, BaseException):
            return [self(x, depth) for x in value.args]
        if isinstance(value, (type, types.FunctionType)):
            return value.__qualname__
        if isinstance(value, (Holder, State)):
            return [(k, self(v, depth)) for k, v in vars(value).items() if k not in ("cached", "hashed")]
        return ADDRESS.sub("0x", repr(value))


def kind_is(value, name):
    return type(value).__name__ == name


class Run:
    """The calls of one function, and all that may be seen of them."""

    def __init__(self, function, make):
        self.function = function
        first = make(0)
        self.values = [first, make(0), make(1), first]
        self.state = State(make(0), make(1))
        self.pictures = Pictures([*self.values, self.state.known])

    def call(self, i):
        value = self.values[i]
        try:
            self.state.hashed = hash(value)
        except TypeError:
            self.state.hashed = None
        try:
            result = ("value", self.pictures(self.function(torch.arange(2.0) + i, value, self.state)))
        except Exception as error:
            text = str(error).split("\nException raised from")[0]  # torch adds the C++ stack
            result = ("raises", type(error), ADDRESS.sub("0x", text))
        # What a region takes from a cache is no hit.
        return result, self.pictures(self.state), self.pictures(self.values), self.state.cached.cache_info().misses


@pytest.mark.parametrize("name", USES)
def test_use(name):
    function, least = USES[name]
    different, captured = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, make in VALUES.items():
            pellucid.reset()
            backend = Counting()
            compiled = pellucid.compile(function, backend=backend)
            eager, run = Run(function, make), Run(compiled, make)
            for i in range(len(ONE_OF)):
                want, got = eager.call(i), run.call(i)
                if want != got:
                    different += [
                        f"{kind}, call {i}: {w!r}\n     not {g!r}" for w, g in zip(want, got, strict=True) if w != g
                    ]
                    break
            captured += backend.count > 0 and not pellucid.break_reasons(compiled)
    assert not different, "\n".join(different)
    assert captured >= least, f"{captured} kinds of values were captured"
