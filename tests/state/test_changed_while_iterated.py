"""Containers from outside that change while the region goes over them: what the iterators notice, and when."""

from __future__ import annotations

import collections

import pytest
import torch

from support.outcomes import assert_as_eager_each_time


class List(list):
    pass


class Dict(dict):
    pass


class Ordered(collections.OrderedDict):
    pass


WALKS = {
    "iter": iter,
    "reversed": reversed,
    "enumerate": enumerate,
    "zip": lambda c: zip(c, c),
    "map": lambda c: map(str, c),
    "keys": lambda c: iter(c.keys()),
    "items": lambda c: iter(c.items()),
    "values": lambda c: iter(c.values()),
    "reversed_keys": lambda c: reversed(c.keys()),
    "reversed_items": lambda c: reversed(c.items()),
    "reversed_values": lambda c: reversed(c.values()),
}
CONTAINERS = {
    "list": lambda: [1, 2, 3],
    "list_subclass": lambda: List([1, 2, 3]),
    "deque": lambda: collections.deque([1, 2, 3]),
    "set": lambda: {1, 2, 3},
    "dict": lambda: {1: 2, 3: 4},
    "dict_subclass": lambda: Dict({1: 2, 3: 4}),
    "defaultdict": lambda: collections.defaultdict(int, {1: 2, 3: 4}),
    "Counter": lambda: collections.Counter("abca"),
    "OrderedDict": lambda: collections.OrderedDict({1: 2, 3: 4}),
    "ordered_subclass": lambda: Ordered({1: 2, 3: 4}),
}


def add(c):
    if isinstance(c, dict):
        c[9] = 9
    elif isinstance(c, set):
        c.add(9)
    else:
        c.append(9)


def write(c):
    if not isinstance(c, set):
        c[1 if isinstance(c, dict) else 0] = 7


def take(c):
    if isinstance(c, dict):
        c.popitem()
    else:
        c.pop()


CHANGES = {"add": add, "write": write, "take": take, "clear": lambda c: c.clear()}


def changed_on_the_way(walk, change, breaks):
    def f(x, c):
        y = x + 1
        told = []
        try:
            iterator = walk(c)
            told.append(next(iterator))
            if breaks:
                print(end="")
            change(c)
            if breaks:
                print(end="")
            told.append(list(iterator))
        except (RuntimeError, TypeError, AttributeError) as error:
            told.append((type(error), str(error)))
        return y * 2, told, c

    return f


@pytest.mark.parametrize("breaks", [False, True], ids=["whole", "breaks"])
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("walk", WALKS)
def test_changed_on_the_way(walk, container, breaks):
    captured = 0
    for change in CHANGES.values():
        f = changed_on_the_way(WALKS[walk], change, breaks)
        _, graphs = assert_as_eager_each_time(f, lambda: (torch.ones(2), CONTAINERS[container]()), calls=2)
        captured += graphs > 0
    # What is half used may not be made again.
    assert captured or breaks or container == "ordered_subclass"


@pytest.mark.parametrize("container", [name for name in CONTAINERS if isinstance(CONTAINERS[name](), dict)])
def test_read_and_written_in_turn(container):
    def f(x, c):
        y = x + 1
        for value in c.values():
            y = y + value
        for key in c:
            c[key] += 1
        for key, value in c.items():
            c[key] = value * 2
        c["new"] = 5
        total = 0
        for value in c.values():
            total += value
            c["new"] = 7
        return y, total, c

    _, graphs = assert_as_eager_each_time(f, lambda: (torch.ones(2), CONTAINERS[container]()))
    assert graphs or container == "ordered_subclass"
