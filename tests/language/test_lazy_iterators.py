"""What map, zip, filter, enumerate and their like do when they are made, and what they are: caught errors, types, laziness."""

from __future__ import annotations

import collections
import functools
import itertools

import pytest
import torch

import pellucid
from support import same
from support.outcomes import assert_as_eager_each_time

X = torch.arange(3.0)


class Bare:
    pass


class FailsToIterate:
    def __iter__(self):
        raise ZeroDivisionError("iter")


class FailsToAdvance:
    def __iter__(self):
        return self

    def __next__(self):
        raise ZeroDivisionError("next")


EXPRESSIONS = """
enumerate() | enumerate(1) | enumerate(Bare()) | enumerate("abc", 3, 4) | enumerate("abc", 2.5) | enumerate(FailsToIterate())
map() | map(len) | map(len, 1) | map(len, FailsToIterate()) | list(map(lambda v: v, FailsToAdvance()))
zip(1) | zip([1], FailsToIterate()) | list(zip([1, 2], FailsToAdvance())) | zip([1], 2, strict=True)
filter(None, 1) | filter(None) | filter(lambda v: v, Bare()) | max() | max([]) | max([1, 2], key=1) | min(1)
any(1) | all() | any([], []) | sum(1) | sum(["a", "b"]) | sorted() | sorted([2, 1], reverse="x") | next(iter([]), 5)
itertools.islice([1], -1) | itertools.chain(1) | list(itertools.chain(1)) | itertools.starmap(len, 1) | itertools.product(1)
functools.reduce(lambda a, b: a, []) | len(map(len, [])) | map(len, [])[0] | map(len, []) + 1 | map(len, []) == 1
type(map(lambda v: v, [1])).__name__ | type(zip([1], [2])).__name__ | type(filter(None, [1])).__name__
isinstance(map(lambda v: v, []), map) | isinstance(enumerate(FailsToAdvance()), enumerate) | isinstance(map(len, []), list)
list(map(lambda a, b: a + b, [1, 2], (3, 4))) | list(enumerate({1: 2}, start=3)) | [*zip("ab", range(5))]
list(itertools.accumulate([1, 2], function=max)) | list(itertools.accumulate([1, 2, 4], func=max)) | itertools.accumulate()
list(itertools.accumulate([1, 2], initial=5)) | list(enumerate([1], begin=2)) | list(itertools.islice([1], "a"))
"""


# A live iterator that a region cannot hand over: the call runs eagerly.
EAGER = {
    "isinstance(enumerate(FailsToAdvance()), enumerate)",
}


@pytest.mark.parametrize(
    "expression", [e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split(" | ")]
)
def test_as_eager(expression):
    source = f"""
def f(x):
    y = x + 1
    try:
        value = {expression}
    except Exception as error:
        return y, type(error).__name__, str(error)
    return y, value if isinstance(value, (int, str, list, bool)) else type(value).__name__
"""
    names = {**globals(), "functools": functools, "itertools": itertools}
    exec(source, names)
    f = names["f"]
    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        assert same(compiled(X), f(X))
    assert bool(pellucid.cache_entries(compiled)) == (expression not in EAGER)


class Told:
    """Tells what it is asked."""

    def __init__(self, log, *values):
        self.log, self.values = log, list(values)

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        self.log.append("next")
        if not self.values:
            raise StopIteration
        return self.values.pop(0)


class Asked:
    def __init__(self, log, *values):
        self.log, self.values = log, values

    def __iter__(self):
        self.log.append("asked")
        return iter(self.values)


class Generates(Asked):
    def __iter__(self):
        self.log.append("asked")
        yield from self.values


class Items:
    def __init__(self, log, *values):
        self.log, self.values = log, values

    def __getitem__(self, index):
        self.log.append(index)
        return self.values[index]


def changed_later(log, *values):
    return list(values)


def changed_table(log, *values):
    return dict.fromkeys(values)


def changed_deque(log, *values):
    return collections.deque(values)


def table_view(log, *values):
    return dict.fromkeys(values).keys()


def generator(log, *values):
    log.append("begins")
    yield from values


def generator_over(log, *values):
    return (value for value in Told(log, *values))


def rows(log, *values):
    return torch.tensor(values)


def no_rows(log, *values):
    return torch.tensor(1.0)


def a_number(log, *values):
    return 5


LAZY = {
    "map": lambda f, a, b: map(f, a),
    "map2": lambda f, a, b: map(lambda p, q: (p, q), a, b),
    "filter": lambda f, a, b: filter(f, a),
    "zip": lambda f, a, b: zip(a, b),
    "zip_strict": lambda f, a, b: zip(a, b, strict=True),
    "enumerate": lambda f, a, b: enumerate(a, 3),
    "starmap": lambda f, a, b: itertools.starmap(f, a),
    "starmap_pairs": lambda f, a, b: itertools.starmap(lambda p, q: (q, p), enumerate(a)),
    "takewhile": lambda f, a, b: itertools.takewhile(f, a),
    "dropwhile": lambda f, a, b: itertools.dropwhile(f, a),
    "filterfalse": lambda f, a, b: itertools.filterfalse(f, a),
    "filterfalse_none": lambda f, a, b: itertools.filterfalse(None, a),
    "compress": lambda f, a, b: itertools.compress(a, b),
    "cycle": lambda f, a, b: itertools.islice(itertools.cycle(a), 7),
    "accumulate": lambda f, a, b: itertools.accumulate(a),
    "accumulate_initial": lambda f, a, b: itertools.accumulate(a, lambda p, q: p * q, initial=2),
    "pairwise": lambda f, a, b: itertools.pairwise(a),
    "chain": lambda f, a, b: itertools.chain(a, b),
    "chain_from": lambda f, a, b: itertools.chain.from_iterable([a, b]),
    "chain_from_it": lambda f, a, b: itertools.chain.from_iterable(a),
    "islice": lambda f, a, b: itertools.islice(a, 1, None),
    "zip_longest": lambda f, a, b: itertools.zip_longest(a, b, fillvalue=9),
    "product": lambda f, a, b: itertools.product(a, b),
    "product_repeat": lambda f, a, b: itertools.product(a, repeat=2),
    "product_none": lambda f, a, b: itertools.product(a, repeat=0),
    "product_bad": lambda f, a, b: itertools.product(a, repeat=-1),
    "combinations": lambda f, a, b: itertools.combinations(a, 2),
    "zip_word": lambda f, a, b: zip(a, strong=True),
    "longest_word": lambda f, a, b: itertools.zip_longest(a, b, fill=9),
    "reversed": lambda f, a, b: reversed(a),
}
SOURCES = [
    *(Told, Asked, Generates, Items, changed_later, changed_table, changed_deque, table_view),
    *(generator, generator_over, rows, no_rows, a_number),
]


@pytest.mark.parametrize("make", [enumerate, itertools.accumulate], ids=lambda make: make.__name__)
def test_iterable_given_by_name(make):
    def f(x, log):
        return x + 1, list(make(iterable=Asked(log, 1, 2)))

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(3):
        log = []
        assert same(compiled(X, log), f(X, []))
        assert log == ["asked"]


def lazily(make, first, second, breaks):
    def f(x):
        y = x + 1
        log, took = [], []
        a, b = first(log, 1, 0, 2), second(log, 1, 1)
        try:
            lazy = make(lambda v: v, a, b)
            log.append("made")
            if first is changed_later or first is changed_deque:
                a.append(7)
            if breaks:
                print("made")
            took.append(next(lazy))
            log.append("took")
            if first is changed_table:
                a["new"] = 1
            if breaks:
                print("took")
            for value in lazy:
                took.append(value)
                log.append("went on")
        except Exception as error:
            log.append((type(error), str(error)))
        return y * 2, took, log

    return f


@pytest.mark.parametrize("breaks", [False, True], ids=["whole", "breaks"])
@pytest.mark.parametrize("name", LAZY)
def test_asks_when_eager_asks(name, breaks):
    captured = 0
    for first in SOURCES:
        for second in (changed_later, Told):
            f = lazily(LAZY[name], first, second, breaks)
            _, graphs = assert_as_eager_each_time(f, lambda: (X.clone(),), calls=2)
            captured += graphs > 0
    assert captured > len(SOURCES) or breaks  # what is half used may not be made again
