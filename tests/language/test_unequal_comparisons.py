"""Comparisons whose outcome depends on who is asked, and on who is asked first."""

import enum
from decimal import Decimal
from typing import NamedTuple

import numpy
import pytest
import torch

import pellucid


class Pair(NamedTuple):
    first: object
    second: object


class Anything(enum.Enum):
    ONE = 1

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def outcome(function, *args):
    try:
        return function(*args)[1]
    except TypeError as error:
        return repr(error)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (numpy.dtype("i8"), int),
        (int, numpy.dtype("i8")),
        (numpy.dtype("i8"), str),
        ((numpy.dtype("i8"), 1), (int, 1)),
        (Anything.ONE, int),
        ([int], [Anything.ONE]),
        ((numpy.int64(2), 0), Pair(Decimal("1.1"), 3)),  # Decimal asks numpy's int for what it does not have
        (Pair(Decimal("1.1"), 3), (numpy.int64(2), 0)),
        ((numpy.int64(2), 0), (Decimal("1.1"), 3)),
    ],
    ids=repr,
)
def test_who_is_asked(counting, left, right):
    def equal(x, left, right):
        return x + 1, (left == right, left != right)

    compiled = pellucid.compile(equal, backend=counting)
    for _ in range(2):
        assert outcome(compiled, torch.ones(2), left, right) == outcome(equal, torch.ones(2), left, right)
    assert counting.graphs


def test_a_value_that_becomes_equal(counting):
    def equal(x, key, wanted=int):
        return x + 1, key == wanted

    compiled = pellucid.compile(equal, backend=counting)
    for key in (numpy.dtype("f4"), numpy.dtype("i8"), int, numpy.dtype("i8"), numpy.dtype("f4")):
        assert compiled(torch.ones(2), key)[1] == equal(torch.ones(2), key)[1]
    assert counting.graphs
