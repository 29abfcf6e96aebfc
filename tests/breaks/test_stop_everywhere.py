"""A region may end before any instruction: programs stopped at each of theirs in turn, the rest goes on in real frames and in the regions behind."""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect

import torch

from support.stops import stop_tests


class Linear:
    scale = 2

    def __init__(self, weight, *, bias=None):
        self.weight = weight
        self.bias = bias
        self.calls = []

    @property
    def size(self):
        return len(self.weight)

    def __call__(self, x):
        self.calls.append(self.size)
        y = x @ self.weight
        return y if self.bias is None else y + self.bias

    def __add__(self, other):
        return NotImplemented if other is None else Linear(self.weight + other, bias=self.bias)

    def __radd__(self, other):
        return Linear(other + self.weight)

    def __bool__(self):
        return self.bias is not None

    def __len__(self):
        return 7

    def __getattr__(self, name):
        if name.startswith("made_"):
            return name
        raise AttributeError(name)

    def __getitem__(self, key):
        return self.weight[key]

    def __contains__(self, item):
        return item == 3


def calls(x):
    def scaled(y, factor=2, *rest, power=1, **named):
        total = y * factor + sum(rest)
        for name in sorted(named):
            total = total + named[name]
        return total**power

    z = scaled(x) + scaled(x, 3, 1, 2, power=2, a=4)
    return scaled(*(z, 2), **{"b": 1})


def objects(x):
    layer = Linear(torch.ones(3, 2), bias=1)
    y = layer(x) * Linear.scale + layer.size
    other = layer + 1
    third = 2 + layer
    if other and not third:
        y = y + len(other) + other(x)
    return y, layer.calls, layer.made_up, layer[0], 3 in layer, 4 in layer, getattr(layer, "missing", "default")


def loops(x):
    total = x
    for i, row in enumerate(x):
        if i == 1:
            continue
        total = total + row
    n = 0
    while n < 3:
        n += 1
        if n == 2:
            break
    else:
        total = total * 100
    pairs = {k: v for k, v in zip("abc", range(3), strict=True) if v}
    nested = [[a * b for a in range(2)] for b in range(2)]
    return total + n, pairs, nested, {len(k) for k in pairs}


def cells(x):
    count = 0

    def step(y):
        nonlocal count
        count += 1
        return y + count

    return step(step(x)), count, (lambda: count)()


def exceptions(x):
    order = []
    try:
        try:
            order.append("try")
            {}["missing"]
        except KeyError as error:
            order.append(error.args)
            raise ValueError("second") from error
        finally:
            order.append("finally")
    except ValueError as error:
        order.append(type(error.__cause__).__name__)
        x = x + 1
    else:
        order.append("never")
    for _ in range(2):
        try:
            continue
        finally:
            order.append("each")
    return x, order


@contextlib.contextmanager
def manager(order):
    order.append("enter")
    try:
        yield len(order)
    except KeyError:
        order.append("swallowed")
    finally:
        order.append("exit")


class Plain:
    def __init__(self, order):
        self.order = order

    def __enter__(self):
        self.order.append("in")
        return self

    def __exit__(self, kind, value, tb):
        self.order.append(kind and kind.__name__)
        return kind is IndexError


def blocks(x):
    order = []
    with manager(order) as n, Plain(order):
        x = x * n
    with Plain(order):
        order[100]
    with manager(order):
        raise KeyError(1)
    with torch.no_grad():
        y = x * 2
    return x, y, order


def generators(x):
    def rows(t):
        received = yield t[0]
        yield t[1] + (received or 0)

    def both(t):
        result = yield from rows(t)
        yield result

    g = rows(x)
    first = next(g)
    second = g.send(5)
    total = sum((row * 2 for row in x), torch.zeros(3))
    return first, second, total, [v is None for v in both(x)], list(map(lambda r: r + 1, rows(x)))


def callbacks(x):
    names = sorted(["bb", "a", "ccc"], key=lambda name: -len(name))
    largest = max(range(4), key=lambda n: (n % 3, n))
    folded = functools.reduce(lambda a, b: a + b, [x, x, x])
    kept = list(filter(lambda n: n % 2, range(5)))
    return names, largest, folded, kept, any(n > 2 for n in kept), tuple(str(n) for n in kept)


def containers(x):
    d = collections.OrderedDict(a=x, b=x + 1)
    d.move_to_end("a")
    items = [*d.values()]
    items.append(items)
    a, *rest, b = range(5)
    q = collections.deque([1, 2], maxlen=2)
    q.append(a)
    s = {1, 2} | {b}
    t = items[:1] + [rest]
    del items[0]
    return list(d), len(items), items[-1] is items, rest, list(q), s, t, f"{b:>3}|{d!r:.5}" if not d else f"{b:03d}"


def conditions(x):
    a = (x.shape[0] == 2 and "yes") or "no"
    b = None if a else 1
    c = a if b is None else b
    d = (e := 3) > 2 < 5
    return x + (1 if d else 2), a, b, c, d, e, x is not None, a in ("yes",), not a


def fails(x):
    def inner(y):
        z = y + 1
        return z.shape[5]

    return inner(x * 2) + 1


def raises(x):
    y = x + 1
    if y.ndim == 2:
        raise RuntimeError("no", y.ndim)
    return y


def looks_at_the_stack(x):
    def here():
        frame = inspect.currentframe()
        return [frame.f_code.co_name, frame.f_back.f_code.co_name, frame.f_back.f_lineno - first]

    first = looks_at_the_stack.__code__.co_firstlineno
    y = x + 1
    return y, here(), sorted(locals())


PROGRAMS = [
    calls,
    objects,
    loops,
    cells,
    exceptions,
    blocks,
    generators,
    callbacks,
    containers,
    conditions,
    fails,
    raises,
    looks_at_the_stack,
]


test_stopped_at_each_instruction_in_turn, test_stopped_all_the_time = stop_tests(PROGRAMS)
