"""itertools.groupby, operator.methodcaller and weak references that the program makes: one graph, as in eager."""

from __future__ import annotations

import itertools
import operator
import typing
import weakref

import pytest
import torch

import pellucid
from support import Counting, assert_as_eager


def groups(x):
    rows = [("a", 1), ("a", 2), ("b", 3), ("a", 4)]
    return [(key, [n * x for _, n in group]) for key, group in itertools.groupby(rows, key=lambda row: row[0])]


def groups_without_key(x):
    return {key: sum(1 for _ in group) * x for key, group in itertools.groupby("aabbba")}


def groups_left_behind(x):
    """A group is over as soon as the next one is asked for."""
    pairs = list(itertools.groupby([1, 1, 2, 3, 3], lambda n: n))
    return x + sum(len(list(group)) for _, group in pairs)


def groups_read_in_part(x):
    taken = []
    for key, group in itertools.groupby([1, 1, 1, 2, 2, 3]):
        taken.append((key, next(group)))
    return x * len(taken), taken


def groups_of_equal_keys(x):
    nan = float("nan")
    return [len(list(group)) * x for _, group in itertools.groupby([nan, nan, 1, 1.0, True, float("nan")])]


def groups_of_generator(x):
    def numbers():
        for n in (3, 3, 5):
            log.append(n)
            yield n

    log = []
    found = [(key, [*group], [*log]) for key, group in itertools.groupby(numbers(), key=lambda n: n % 2)]
    return x + 1, found


def key_raises(x):
    try:
        return [(key, list(group)) for key, group in itertools.groupby([1, 0], lambda n: 1 / n)], x
    except ZeroDivisionError as error:
        return x + 1, str(error)


def groups_of_empty(x):
    return list(itertools.groupby([])), x + 1


def wrong_arguments(x):
    try:
        itertools.groupby()
    except TypeError as error:
        return x + 1, str(error)


total = operator.methodcaller("sum", 0, keepdim=True)


def method_callers(x):
    return total(x) + operator.methodcaller("mean")(x), operator.methodcaller("upper")("a")


def method_callers_in_map(x):
    return list(map(operator.methodcaller("split", "-", maxsplit=1), ["a-b-c", "d"])), x + 1


def no_such_method(x):
    try:
        operator.methodcaller("missing")(3)
    except AttributeError as error:
        return x + 1, str(error)


class Node:
    def __init__(self, value):
        self.value = value


node = Node(3)


def own_reference(x):
    reference = weakref.ref(node)
    return x * reference().value


PROGRAMS = [
    groups,
    groups_without_key,
    groups_left_behind,
    groups_read_in_part,
    groups_of_equal_keys,
    groups_of_generator,
    key_raises,
    groups_of_empty,
    wrong_arguments,
    method_callers,
    method_callers_in_map,
    no_such_method,
    own_reference,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph_as_eager(program):
    counting = Counting()
    compiled = pellucid.compile(program, backend=counting, fullgraph=True)
    for _ in range(2):
        assert_as_eager(compiled, program, torch.ones(2, 3))
    assert counting.count == 1


def test_a_group_that_leaves():
    def f(x):
        key, group = next(itertools.groupby([1, 1, 2]))
        return x + key, group

    y, group = pellucid.compile(f, backend="eager")(torch.ones(2))
    assert y.tolist() == [2, 2] and type(group) is type(f(y)[1]) and list(group) == [1, 1]


def test_a_reference_to_another_object():
    counting = Counting()
    compiled = pellucid.compile(own_reference, backend=counting)
    assert compiled(torch.ones(2)).tolist() == [3, 3]
    before, node.value = node.value, 5
    try:
        assert compiled(torch.ones(2)).tolist() == [5, 5]
    finally:
        node.value = before


def test_types_that_nobody_has_made_yet():
    """Those of `typing` are kept by caches, which are cold in a new process: the first step of an optimizer makes some."""

    def f(x, name):
        return x + 1, typing.Optional[name], typing.Union[int, name]  # noqa: UP007, UP045

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    y, optional, union = compiled(torch.ones(2), "OnlyInThisTest")
    assert y.tolist() == [2, 2] and counting.count == 1
    assert (optional, union) == f(torch.ones(2), "OnlyInThisTest")[1:]
