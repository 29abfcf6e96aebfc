"""A region that gives back a key or an element gives the one that is there now, where a program can tell them apart."""

import collections

import pytest
import torch

import pellucid

Point = collections.namedtuple("Point", "x")


class Row(tuple):
    pass


KEYS = {
    "a subclass of tuple": lambda: Row([1]),
    "in a tuple": lambda: (Row([1]), 2),
    "in a frozenset": lambda: frozenset([Row([1]), 2]),
    "in a tuple in a frozenset": lambda: frozenset([(Point(1), 2)]),
    "in a frozenset in a tuple": lambda: (frozenset([Point(1)]), 2),
    "a struct sequence in a frozenset": lambda: frozenset([torch.return_types.max((1, 0))]),
}


@pytest.mark.parametrize("made", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("container", [dict.fromkeys, set, list], ids=["dict", "set", "list"])
def test_a_key_is_given_back(made, container, counting):
    def f(x, keys):
        return x + 1, {key: 1 for key in keys}, list(keys)

    compiled = pellucid.compile(f, backend=counting)
    for rows in (2, 3, 4, 5):
        keys = container([made()])
        x = torch.ones(rows)
        total, written, listed = compiled(x, keys)
        (key,) = keys
        assert torch.equal(total, x + 1)
        assert next(iter(written)) is key and listed[0] is key
    assert counting.count


@pytest.mark.parametrize("container", [dict.fromkeys, set], ids=["dict", "set"])
def test_equal_values_need_no_graph_of_their_own(container, counting):
    compiled = pellucid.compile(lambda x, keys: x + len([key for key in keys if 3 in key]), backend=counting)
    for _ in range(3):
        keys = container([frozenset([int("300"), (1, 2.5)]), frozenset([3])])
        assert torch.equal(compiled(torch.zeros(2), keys), torch.ones(2))
    assert counting.count == 1
