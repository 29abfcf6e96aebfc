"""The module around a program's function: imports, state, classes and helpers. Templates as in statements.py.

Every class has the same members (count, total, items, buf, name, bump, apply, make, and the dunders that expressions.py uses), made in
different ways; inside of them `self.count` and the like are names that expressions use.
"""

HEAD = """
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import random
import sys
from typing import NamedTuple

import torch


class Problem(Exception):
    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


class Point(NamedTuple):
    x: int
    y: int
    z: int


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Config:
    level = 1
    table = {}


class Suppress:
    def __init__(self, *kinds):
        self.kinds = kinds

    def __enter__(self):
        LOG.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        LOG.append(kind.__name__ if kind else None)
        return kind is not None and issubclass(kind, self.kinds)


@contextlib.contextmanager
def noted(text):
    LOG.append(text)
    try:
        yield len(text)
    finally:
        LOG.append("end of " + text)


def count_up(n):
    for i in range(n):
        yield i


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        with torch.no_grad():
            self.linear.weight.copy_(torch.arange(9.0).view(3, 3) / 9)
            self.linear.bias.zero_()
        self.register_buffer("scale", torch.ones(3))
        self.steps = 0
        self.rate = 0.5
        self.kept = torch.ones(2, 3)

    def forward(self, x):
        self.steps += 1
        self.scale += 0.5
        return self.linear(x) * self.scale


G_INT = 3
G_LIST = [1, 2, 3]
G_DICT = {"a": 1, "c": 3}
G_SET = {8, 1}
G_TENSOR = torch.arange(6.0).view(2, 3)
G_RATE = [1.5]
KEPT = {"rows": torch.ones(2, 3)}
STEPS = []
LOG = []
COUNTER = collections.Counter("xxy")
QUEUE = collections.deque([1, 2], maxlen=4)
MODULE = Scale()


class Members:
    __slots__ = ()

    def __add__(self, other):
        return type(self)(self.count + other.count)

    def __eq__(self, other):
        return isinstance(other, Members) and self.count == other.count

    def __hash__(self):
        return hash(self.count)

    def __len__(self):
        return len(self.items)

    def __bool__(self):
        return self.count > 1

    def __contains__(self, item):
        return item == self.count or item in self.items

    def __iter__(self):
        yield from list(self.items)[:4]

    def __getitem__(self, index):
        return self.count + index

    def __setitem__(self, index, value):
        self.items.append(index - value)

    def __delitem__(self, index):
        del self.items[1:]

    def __call__(self, n):
        return self.bump(n)

    def __repr__(self):
        return f"<{self.name} {self.count}>"

    def __enter__(self):
        self.count += 1
        return self

    def __exit__(self, kind, value, traceback):
        self.count -= 1
        LOG.append(kind)
        return False

    @classmethod
    def make(cls, n):
        return cls(n)

"""

# How the members are made. The bodies of the methods come from METHODS.
PLAIN = """
class <c:cls>(Members):
    shared = {int}
    name = "<c>"

    def __init__(self, count=1):
        self.count = count
        self.items = [count, 1]
        self.buf = torch.full((2, 3), 1.0)
"""

SLOTS = """
class <c:cls>(Members):
    __slots__ = ("count", "items", "buf", "__dict__")
    shared = {int}

    def __init__(self, count=1):
        self.count, self.items, self.buf = count, [count], torch.ones(2, 3)

    @property
    def name(self):
        return type(self).__name__.lower()
"""

INHERITED = """
class <c:cls>({^cls}):
    def __init__(self, count=1):
        super().__init__(count + 1)
        self.items.append(count)

    def __getitem__(self, index):
        return super().__getitem__(index) + {int}

    def __str__(self):
        return "str of " + super().__repr__()
"""

DATACLASS = """
@dataclasses.dataclass(eq=False, repr=False)
class <c:cls>(Members):
    count: int = 1
    items: list = dataclasses.field(default_factory=lambda: [1, 2])
    buf: torch.Tensor = dataclasses.field(default_factory=lambda: torch.zeros(2, 3))
    name = "data"

    def __post_init__(self):
        self.items.append(self.count)
"""

LAZY = """
class <c:cls>(Members):
    shared = {int}
    name = staticmethod(lambda: "lazy")()

    def __init__(self, count=1):
        self.count = count

    def __getattr__(self, name):
        if name == "items":
            self.items = [self.count]
            return self.items
        if name == "buf":
            self.__dict__["buf"] = torch.ones(2, 3)
            return self.buf
        raise AttributeError(name)

    def __setattr__(self, name, value):
        if name == "extra":
            LOG.append(("extra", value))
        super().__setattr__(name, value)
"""

DESCRIBED = """
class <d:any>:
    def __set_name__(self, owner, name):
        self.key = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.key, {int})

    def __set__(self, instance, value):
        setattr(instance, self.key, value)


class <c:cls>(Members):
    count = <d>()
    name = "described"

    def __init__(self, count=1):
        self.count = count
        self.items = []
        self.buf = torch.arange(6.0).view(2, 3)
"""

KINDS = [PLAIN, SLOTS, INHERITED, DATACLASS, LAZY, DESCRIBED]

METHODS = """
    @property
    def total(self):
        METHOD
        return {int}

    @total.setter
    def total(self, <~n:int>):
        self.count = {int}
        METHOD

    def bump(self, <~n:int>):
        METHOD
        return {int}

    def apply(self, <~t:T>):
        METHOD
        return {T}
"""

STATE = """
G_OBJ = A(2)
TAKES_NUMBERS = {takes}


def reset():
    global G_INT, G_OBJ, G_SET
    G_INT = {int}
    G_SET = {0, 8, 1}
    G_SET.discard(0)
    G_LIST[:] = [1, 2, 3]
    G_DICT.clear()
    G_DICT.update(a=1, c=3)
    G_TENSOR.copy_(torch.arange(6.0).view(2, 3))
    LOG.clear()
    Config.level = 1
    Config.table.clear()
    MODULE.scale.fill_(1.0)
    MODULE.steps = 0
    MODULE.rate = 0.5
    MODULE.kept = torch.ones(2, 3)
    G_RATE[:] = [1.5]
    KEPT.clear()
    KEPT["rows"] = torch.ones(2, 3)
    STEPS.clear()
    G_OBJ = A(2)
KEYS_RESET
AREAS_RESET

def change():
    global G_INT
    G_INT += 1
    G_LIST.append(9)
    G_DICT["new"] = G_INT
    G_SET.discard(8)
    G_SET.add(16)
    G_TENSOR.mul_(2)
    G_OBJ.count += 5
    Config.level = 7
    MODULE.rate *= 0.9
    G_RATE[0] += 1
    KEPT["rows"] = torch.cat([KEPT["rows"], torch.zeros(1, 3)])
    MODULE.train(not MODULE.training)
KEYS_CHANGE
AREAS_CHANGE

def inputs(variant):
    which = variant % 2
    rows = 2 + {growth} * variant
    x = torch.arange(rows * 3.0).view(rows, 3).requires_grad_({grad}) - 2 + variant
    items = [1, 2, 3 + variant]
    return [x, x[0] if {shared} else torch.ones(3), 2 + variant, items, {"a": 1, "b": 2 + variant}, {cls}(3), items if {shared} else [5]], {
        "flag": variant == 0,
        "more": [x, torch.ones(2, 3)],
        "grown": torch.ones(3 + {length} * variant, 3).cumsum(0),
        "rate": 0.25 + variant / 8,
KEYS_INPUTS
    }
"""
