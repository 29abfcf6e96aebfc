"""operator.itemgetter and operator.attrgetter, made before the region or in it."""

import operator

import pytest
import torch

import pellucid
from support import assert_as_eager

X = torch.arange(6.0).reshape(2, 3)


class Node:
    def __init__(self, x):
        self.x = x
        self.child = None

    @property
    def twice(self):
        return self.x * 2


SECOND, TWO, NAMES = operator.itemgetter(1), operator.itemgetter("b", "a"), operator.attrgetter("x", "child.twice")


def items(x):
    return SECOND([x, x + 1]), TWO({"a": x, "b": x - 1}), operator.itemgetter(0)(x), operator.itemgetter(slice(1))(x)


def attributes(x):
    node = Node(x)
    node.child = Node(x + 1)
    return NAMES(node), operator.attrgetter("twice")(node)


def as_key(x):
    pairs = [(3, x), (1, x + 1), (2, x * 2)]
    return [value for _, value in sorted(pairs, key=operator.itemgetter(0))], max(pairs, key=SECOND_OF)[0]


def SECOND_OF(pair):
    return operator.itemgetter(0)(pair)


def missing(x):
    try:
        return operator.attrgetter("no.such")(Node(x))
    except AttributeError as error:
        return x, str(error)


def out_of_range(x):
    return SECOND([x])


@pytest.mark.parametrize("f", [items, attributes, as_key, missing])
def test_one_graph_as_in_eager(f, counting):
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for _ in range(2):
        assert_as_eager(compiled, f, X)
    assert counting.count <= 1


@pytest.mark.parametrize("reverse", [False, True])
def test_key_functions_run_first_and_in_order(reverse):
    calls = []

    def key(pair):
        calls.append(pair[1])
        return pair[0]

    def f(x):
        calls.clear()
        ordered = sorted([(2, "a"), (1, "b"), (2, "c"), (0, "d")], key=key, reverse=reverse)
        return x + 1, ordered, list(calls)

    assert_as_eager(pellucid.compile(f, backend="eager", fullgraph=True), f, X)


def test_errors():
    assert_as_eager(pellucid.compile(out_of_range, backend="eager"), out_of_range, X)


def test_another_getter_is_noticed():
    def f(x, getter):
        return getter([x, x + 1, x + 2])

    compiled = pellucid.compile(f, backend="eager")
    for index in (0, 1, 2, 0):
        assert_as_eager(compiled, f, X, operator.itemgetter(index))
