"""dict_keys, dict_values and dict_items: what can be done with them, in one region and behind the break that they cross."""

from __future__ import annotations

import collections

import pytest
import torch

from support.outcomes import assert_as_eager_each_time

# With a dict d = {1: 2, 3: 4} and its views k, v, i.
EXPRESSIONS = """
k == {1, 3} ; {1, 3} == k ; k != {1} ; k == {1: 0, 3: 0}.keys() ; k == k ; k == d.keys() ; i == {(1, 2), (3, 4)}
i == d.items() ; i == {1: 2, 3: 4}.items() ; k <= {1, 3, 5} ; k < {1, 3} ; {1} < k ; k >= {1} ; i >= {(1, 2)}
k | {9} ; {9} | k ; k & {1} ; {1} & k ; k - {1} ; {1, 9} - k ; k ^ {1, 7} ; i | {5} ; i & {(1, 2)} ; k & [1]
k | [8] ; k - v ; list(k) ; set(k) ; tuple(i) ; sorted(k) ; len(k) ; len(v) ; bool(k) ; not k ; 1 in k
(1, 2) in i ; 2 in v ; 7 in k ; repr(k) ; str(i) ; f"{v}" ; k.isdisjoint({9}) ; i.isdisjoint({(1, 2)})
list(reversed(k)) ; list(reversed(i)) ; list(reversed(v)) ; dict(i) ; [a for a in k] ; max(v) ; sum(v) ; min(k)
v == v ; v == d.values() ; v != d.values() ; k is k ; type(k).__name__ ; hasattr(k, "mapping") ; dict(k.mapping)
isinstance(k, collections.abc.KeysView) ; {*k} ; [*v] ; dict.fromkeys(k) ; list(zip(k, v)) ; list(enumerate(i))
{1, 3, 5}.issuperset(k) ; {1}.union(k) ; {1}.issubset(k) ; frozenset(k) == k ; k == frozenset({1, 3})
list(map(str, k)) ; any(v) ; all(k) ; k == [1, 3] ; i == 5 ; iter(k).__length_hint__() ; next(iter(i))
collections.Counter(k) ; collections.deque(v) ; "".join(map(str, k)) ; d.update(i) ; [].extend(k) ; {}.update(i)
k.__contains__(1) ; k.__len__() ; k.__eq__({1, 3}) ; k.__or__({2}) ; list(k.__iter__()) ; {1}.__le__(k)
{3} <= k ; {1, 3} >= k ; [k] == [d.keys()] ; (k,) == (k,) ; k in [{1, 3}] ; [{1,3}].index(k)
{1:k} == {1:{1,3}} ; max([k, {1}]) ; bytes(k) ; complex(len(i)) ; k and 1 ; k or 1 ; slice(k) == slice({1, 3})
[1, 2].__eq__(k) ; min(i) ; list(filter(None, v)) ; {**dict(i)} ; divmod(len(k), 2) ; k > {1}
i < {(1, 2), (3, 4), 5}
"""
DICTS = {
    "made": ("{1: 2, 3: 4}", None),
    "made_ordered": ("collections.OrderedDict({1: 2, 3: 4})", None),
    "given": (None, lambda: {1: 2, 3: 4}),
    "given_ordered": (None, lambda: collections.OrderedDict({1: 2, 3: 4})),
    "given_subclass": (None, lambda: collections.defaultdict(int, {1: 2, 3: 4})),
}


@pytest.mark.parametrize("breaks", [False, True], ids=["whole", "breaks"])
@pytest.mark.parametrize("kind", DICTS)
def test_views(kind, breaks):
    made, given = DICTS[kind]
    expressions = [e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split(" ; ")]
    captured = 0
    for expression in expressions:
        source = f"""
def f(x, d=None):
    x = x + 1
    d = {made or "d"}
    k, v, i = d.keys(), d.values(), d.items()
    {"print(end=str())" if breaks else "pass"}
    try:
        result = {expression}
    except Exception as error:
        result = type(error), str(error)
    return x * 2, repr(result)
"""
        names = {"collections": collections}
        exec(source, names)
        _, graphs = assert_as_eager_each_time(
            names["f"], lambda: (torch.ones(2), given()) if given else (torch.ones(2),), calls=2
        )
        captured += graphs > 0
    assert captured > len(expressions) // 2 or (
        breaks and "ordered" in kind
    )  # OrderedDict's views do not cross a break


OTHERS = {
    "set": lambda: ({1, 3}, {(1, 2), (3, 4)}),
    "frozenset": lambda: (frozenset({1, 3}), frozenset({(1, 2), (3, 4)})),
    "views": lambda: ({1: 1, 3: 3}.keys(), {1: 2, 3: 4}.items()),
    "ordered_views": lambda: (collections.OrderedDict({1: 1, 3: 3}).keys(), {1: 2, 3: 4}.items()),
    "lists": lambda: ([1, 3], [(1, 2)]),
}


@pytest.mark.parametrize("others", OTHERS)
def test_with_what_was_given(others):
    def compares(x, s, t):
        d = {1: 2, 3: 4}
        k, i = d.keys(), d.items()
        return x + 1, k == s, s == k, k != s, i == t, t == i, [k] == [s], k in [s], k == t

    def orders(x, s, t):
        k = {1: 2, 3: 4}.keys()
        return x + 1, k <= s, s >= k, k < s, s > t

    def combines(x, s, t):
        k = {1: 2, 3: 4}.keys()
        return x + 1, k | s, k & s, k - s, k ^ t, k.isdisjoint(s)

    captured = 0
    for f in (compares, orders, combines):
        captured += assert_as_eager_each_time(f, lambda: (torch.ones(2), *OTHERS[others]()), calls=2)[1]
    assert captured
