"""Keys of dicts that are equal, but not the same: the dict keeps its first one, and finds it by any other."""

from __future__ import annotations

import collections
import datetime
import fractions

import pytest
import torch

import pellucid
from support import Counting

PROGRAMS_ON_A_DICT = {
    "update_then_store": lambda d: (d.__ior__({2.0: 1}), d.__setitem__(2, 4)),
    "store_then_update": lambda d: (d.__setitem__(2.0, 1), d.update({2: 4})),
    "store_twice": lambda d: (d.__setitem__(2.0, 1), d.__setitem__(2, 4)),
    "store_again": lambda d: (d.__setitem__(2.0, 1), d.pop(2), d.__setitem__(2, 4)),
    "over_an_old_one": lambda d: (d.__setitem__(3.0, 1), d.pop(1.0), d.__setitem__(True, 3)),
    "old_one_again": lambda d: (d.pop(3.0), d.__setitem__(3.0, 1), d.setdefault(3, 7)),
    "two_old_ones": lambda d: d.update({1.0: 5, 3.0: 6, 8: 9}),
}


@pytest.mark.parametrize("name", PROGRAMS_ON_A_DICT)
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, lambda d: collections.defaultdict(int, d)])
def test_the_first_of_equal_keys_is_kept(name, kind, counting):
    change = PROGRAMS_ON_A_DICT[name]

    def f(d, x):
        change(d)
        return x + len(d)

    def g(d, x):
        d |= {2.0: 1}
        d[2] = 4
        return x + len(d)

    for program in (f, g):
        compiled = pellucid.compile(program, backend=counting)
        for old in ({3: 1, 1: 2}, {3: 1, True: 2}, {3.0: 1, 1: 2}):
            want, got = kind(old), kind(old)
            x = torch.ones(2)
            assert torch.equal(compiled(got, x), program(want, x))
            assert [(type(key), key, value) for key, value in got.items()] == [
                (type(key), key, value) for key, value in want.items()
            ]
    assert counting.graphs


KEYS = {
    "memoryview": lambda n: memoryview(bytes([97, 98 + n])),
    "fraction": lambda n: fractions.Fraction(1, 2 + n),
    "timedelta": datetime.timedelta,
    "complex": lambda n: complex(n, 1),
    "bytes": lambda n: bytes([n]),
    "tuple": lambda n: (n, datetime.timedelta(n)),
}
MAKERS = {
    "dict": dict,
    "OrderedDict": collections.OrderedDict,
    "defaultdict": lambda pairs: collections.defaultdict(int, pairs),
    "subclass": type("Own", (collections.OrderedDict,), {}),
}


def check_all_pairs(f, key_of):
    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    for a, b in ((1, 0), (0, 0), (0, 1), (1, 1)):
        x = torch.ones(2)
        want, got = f(key_of(a), key_of(b), x), compiled(key_of(a), key_of(b), x)
        assert torch.equal(got[0], want[0]) and got[1] == want[1], (a, b)
    assert counting.graphs


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("maker", MAKERS)
def test_pairs_with_equal_keys(maker, key):
    make, key_of = MAKERS[maker], KEYS[key]

    def f(a, b, x):
        made = make([(a, 7), [b, 2]])
        return x + 1, list(made.values())

    check_all_pairs(f, key_of)


class ByValue:
    """Compared and hashed by Python code."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, ByValue) and self.value == other.value

    def __hash__(self):
        return hash(self.value)


class HashedList(list):
    """Compared by C code, hashed by Python code."""

    def __hash__(self):
        return 1


@pytest.mark.parametrize(
    "key", [*KEYS.values(), ByValue, lambda n: HashedList([n])], ids=[*KEYS, "object", "hashed_list"]
)
@pytest.mark.parametrize("within", [lambda key: key, lambda key: (key,)], ids=["itself", "in_a_tuple"])
@pytest.mark.parametrize("maker", [set, frozenset])
def test_sets_of_equal_elements(maker, within, key):
    def f(a, b, x):
        y = x.sin()
        made = maker([within(a), within(b)])
        return y + 1, len(made)

    check_all_pairs(f, key)
