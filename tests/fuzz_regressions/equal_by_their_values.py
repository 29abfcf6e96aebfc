# torch relied on two sizes being equal that had one value each, which the guard of what a backend asks did not read.
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math


class Suppress:
    pass


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


G_TENSOR = torch.arange(6.0).view(2, 3)
G_RATE = [1.5]
KEPT = {"rows": torch.ones(2, 3)}
STEPS = []
LOG = []
COUNTER = collections.Counter("xxy")
QUEUE = collections.deque([1, 2], maxlen=4)
MODULE = Scale()


class Members:
    pass


class A(Members):
    shared = -1
    name = "A"

    def __init__(self, count=1):
        self.count = count
        self.items = [count, 1]
        self.buf = torch.full((2, 3), 1.0)

    def apply(self, t5):
        pass
        return torch.nn.functional.linear(t5, torch.ones(3, 3)).expand(2, 3)


G_OBJ = A(2)
TAKES_NUMBERS = False


def reset():
    pass


def change():
    MODULE.rate *= 0.9
    G_RATE[0] += 1
    KEPT["rows"] = torch.cat([KEPT["rows"], torch.zeros(1, 3)])
    MODULE.train(not MODULE.training)


def inputs(variant):
    which = variant % 2
    rows = 2 + 1 * variant
    x = torch.arange(rows * 3.0).view(rows, 3).requires_grad_(False) - 2 + variant
    items = [1, 2, 3 + variant]
    return (
        [
            x,
            x[0] if False else torch.ones(3),
            2 + variant,
            items,
            {"a": 1, "b": 2 + variant},
            A(3),
            items if False else [5],
        ],
        {
            "flag": variant == 0,
            "more": [x, torch.ones(2, 3)],
            "grown": torch.ones(3 + 0 * variant, 3).cumsum(0),
            "rate": 0.25 + variant / 8,
        },
    )


def f(x, y, n, items, table, obj, others, *, flag=None, more=None, grown=None, rate=None):

    def f6(t7, l8=[]):
        pass

    for r15 in MODULE(KEPT["rows"][n:]).split(2):
        grown = torch.cat([grown, grown[-1:]])
    i16 = len("{}:{x}".format(n, x="b"))
