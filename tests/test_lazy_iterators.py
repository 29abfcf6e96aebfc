"""What map, zip, filter, enumerate and their like do when they are made, and what they are: caught errors, types, laziness."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from runtime_common import same

import pellucid

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
"""


# A live iterator that a region cannot hand over: the call runs eagerly.
EAGER = {
    "itertools.product(1)",
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
