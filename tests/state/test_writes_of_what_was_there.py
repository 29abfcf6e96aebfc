"""A text that is written over the very same object changes nothing in that call, and something where another one was there."""

import collections

import pytest
import torch

import pellucid
from support import Counting

KEPT: list = []
QUEUE: collections.deque = collections.deque()


def insert(to):
    to.insert(0, "ab")


def slice_of(to):
    to[1:] = ["ab"]


def all_of(to):
    to[:] = ["ab", "ab"]


def item(to):
    to[1] = "ab"


def item_of_bytes(to):
    to[1] = b"ab"


def complex_item(to):
    to[1] = 1j


def pop_and_append(to):
    to.pop()
    to.append("ab")


def clear(to):
    to.clear()
    to.extend(["ab", "ab"])


def delete(to):
    del to[0]
    to.extend(["ab"])


def reverse(to):
    to.reverse()
    to[0] = "ab"


def swap(to):
    to[0], to[1] = to[1], to[0]


WRITES = [insert, slice_of, all_of, item, item_of_bytes, complex_item, pop_and_append, clear, delete, reverse, swap]
STATES = [
    ["ab", "ab"],
    ["ab", "b"],
    ["zz", "ab"],
    ["q", "q"],
    [b"ab", b"ab"],
    [b"ab", b"c"],
    [1j, 1j],
    [2j, 3j],
    ["ab"] * 2,
]


def results(function, to, argument):
    seen = []
    for state in STATES * 2:
        to.clear()
        to.extend(state)
        result = function(argument)
        seen.append((list(to), result.tolist()))
        function(argument)  # what the region put there is there
        seen.append(list(to))
    return seen


ON_LISTS = [(write, KEPT) for write in WRITES]
ON_DEQUES = [(write, QUEUE) for write in WRITES if write not in (slice_of, all_of)]  # which have no slices


@pytest.mark.parametrize(("write", "to"), ON_LISTS + ON_DEQUES)
def test_as_eager(write, to):
    def f(x):
        write(to)
        return x + 1

    counting = Counting()
    with pellucid.config.patch(recompile_limit=64):
        compiled = pellucid.compile(f, backend=counting)
        assert results(compiled, to, torch.ones(2)) == results(f, to, torch.ones(2))
    assert counting.count
