"""Numbers handed on: through calls, defaults, containers, closures, generators; returned, or only stored."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools

import torch

from corpus.table import Keywords, program, ramp
from support import Plain


def scaled(x, scale=2.0, *, shift=0):
    return x * scale + shift


@program(2, now=2)
def through_calls():
    def inner(x, n):
        return x * n

    def middle(x, n):
        return inner(x, n + 1) + n

    def f(x, n):
        return middle(x, n * 2)

    for n in range(2, 12):
        yield f, ramp(3), n


@program(2, now=2)
def through_defaults():
    def f(x, scale=3.0, shift=1):
        return scaled(x, scale, shift=shift)

    yield f, ramp(3)
    for i in range(9):
        yield f, ramp(3), 2.0 + i / 4, i


@program(2, now=2)
def through_star_args():
    def f(x, *numbers):
        a, b, *rest = numbers
        return x * a + b, rest

    for i in range(9):
        yield f, ramp(3), i, i * 2, i * 3, 0.5 + i


@program(2, now=2)
def through_keywords():
    def f(x, **numbers):
        return scaled(x, **numbers), sorted(numbers)

    for i in range(9):
        yield f, ramp(3), Keywords(scale=i / 4, shift=i)


@program(2, now=2)
def through_a_partial():
    def f(x, n):
        return functools.partial(scaled, scale=n, shift=n + 1)(x)

    for n in range(2, 11):
        yield f, ramp(3), n


@program(2, now=2)
def partial_with_another_number_each_time():
    def f(x, scaler):
        return scaler(x)

    for n in range(2, 11):
        yield f, ramp(3), functools.partial(scaled, shift=n)


@program(2, now=2)
def through_a_closure_made_inside():
    def f(x, n):
        def inner(y):
            return y * n + total

        total = n * 2
        return inner(x), inner(x + 1)

    for n in range(2, 11):
        yield f, ramp(3), n


@program(2, now=2)
def closures_made_outside():
    def make(n):
        return lambda x: x * n

    def f(x, scale):
        return scale(x) + 1

    for n in range(2, 11):
        yield f, ramp(3), make(n)


@program(2, now=2)
def in_a_list_argument():
    def f(x, numbers):
        a, b, c = numbers
        return x * a + b * c, sum(numbers)

    for i in range(9):
        yield f, ramp(3), [i, i + 1, i / 2]


@program(2, now=2)
def in_a_dict_argument():
    def f(x, options):
        return x * options["scale"] + options["shift"], {**options, "sum": options["scale"] + options["shift"]}

    for i in range(9):
        yield f, ramp(3), {"scale": i / 2, "shift": i, "name": "a"}


@program(2, now=2)
def in_a_nested_container():
    def f(x, config):
        return x * config["optimizer"][0]["lr"] + config["limits"][1]

    for i in range(9):
        yield f, ramp(3), {"optimizer": [{"lr": 0.1 / (i + 1)}], "limits": (0, i)}


@program(2, now=2)
def in_a_new_container():
    def f(x, n):
        return {"sum": x + n, "n": n, "pair": (n, n * 2), "list": [n, [n + 1]]}

    for n in range(1000, 1009):
        yield f, ramp(3), n


@program(2, now=2)
def through_a_comprehension():
    def f(x, a, b):
        return x + sum(n * n for n in (a, b, a + b)), [n + 1 for n in (a, b)], {n: 1 for n in "ab"}

    for i in range(9):
        yield f, ramp(3), i, 2 * i + 1


@program(2, now=2)
def through_a_generator():
    def steps(a, b):
        yield a
        yield a + b
        yield from (b, b * 2)

    def f(x, a, b):
        for n in steps(a, b):
            x = x + n
        return x

    for i in range(9):
        yield f, ramp(3), i, i + 0.5


@program(2, now=2)
def through_map_zip_and_accumulate():
    def f(x, a, b, c):
        doubled = list(map(lambda n: n * 2, (a, b, c)))
        pairs = [n * m for n, m in zip((a, b, c), doubled)]
        return x + sum(pairs), list(itertools.accumulate([a, b, c]))

    for i in range(9):
        yield f, ramp(3), i, i + 1, i * i


@program(2, now=2)
def through_a_namedtuple_made_inside():
    Sizes = collections.namedtuple("Sizes", "rows columns")

    def f(x, n):
        sizes = Sizes(n, columns=n + 1)
        return x * sizes.rows, sizes, sizes._replace(rows=0)

    for n in range(2, 11):
        yield f, ramp(3), n


@program(2, now=2)
def through_an_object_made_inside():
    class Scale:
        def __init__(self, n):
            self.n, self.half = n, n / 2

        def __call__(self, x):
            return x * self.n + self.half

    def f(x, n):
        scale = Scale(n)
        return scale(x), scale

    for n in range(2, 11):
        yield f, ramp(3), n


@program(2, now=2)
def through_a_context_manager():
    depth = Plain(scale=1)

    @contextlib.contextmanager
    def scaled_by(n):
        before, depth.scale = depth.scale, depth.scale * n
        try:
            yield depth.scale
        finally:
            depth.scale = before

    def f(x, n):
        with scaled_by(n) as scale, scaled_by(2):
            return x * depth.scale + scale

    for n in range(2, 11):
        yield f, ramp(3), n


@program(2, now=2)
def through_a_decorator_that_counts():
    calls = Plain(count=0)

    def counted(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            calls.count += 1
            return function(*args, **kwargs) + calls.count

        return wrapper

    @counted
    def f(x):
        return x * 2

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=2)
def through_an_exception():
    class Stop(Exception):
        def __init__(self, n):
            super().__init__(n)
            self.n = n

    def inner(n):
        raise Stop(n * 2)

    def f(x, n):
        try:
            inner(n)
        except Stop as stop:
            return x + stop.n, stop.args

    for n in range(2, 11):
        yield f, ramp(3), n


@program(1, now=1)
def returned_as_it_is():
    kept = []

    def f(x, n, a):
        return x + 1, n, (a, [n])

    for i in range(9):
        n, a = 10**6 + i, 0.5 + i
        out = yield f, ramp(3), n, a
        kept.append((out[1] is n, out[2][0] is a, out[2][1][0] is n))
        out = None
    return kept


@program(2, now=2)
def the_same_number_twice():
    kept = []

    def f(x, n):
        m = n * 3
        return x + m, m, [m, n]

    for i in range(9):
        out = yield f, ramp(3), 10**6 + i
        kept.append(out[1] is out[2][0])
        out = None
    return kept


@program(1, now=1)
def only_stored():
    box = Plain(n=None, history=[])

    def f(x, n):
        box.n = n
        box.history.append(n)
        return x.sin()

    for i in range(10):
        yield f, ramp(3), 10**6 + i


@program(2, now=2)
def only_moved_between_containers():
    source, target = {"rate": 0.5}, [0]

    def f(x):
        target[0] = source["rate"]
        return x.cos()

    for i in range(10):
        source["rate"] = 0.5 + i
        yield f, ramp(3)


@program(1, now=1)
def argument_that_is_not_used():
    def f(x, step):
        return x.sin()

    for step in range(12):
        yield f, ramp(3), step


@program(1, now=1)
def attribute_that_is_only_passed_on():
    config = Plain(rate=0.0, step=0)

    def ignore(x, rate, step):
        return x.sin()

    def f(x):
        return ignore(x, config.rate, config.step)

    for i in range(12):
        config.rate, config.step = i / 3, i
        yield f, ramp(3)


@program(2, now=2)
def swapped():
    state = Plain(a=1, b=2)

    def f(x):
        state.a, state.b = state.b, state.a + state.b
        return x * state.a

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=3)
def maximum_of_several_arguments():
    def f(x, *sizes):
        return x * max(sizes), sum(sizes), len(sizes)

    for i in range(9):
        yield f, ramp(3), i, 9 - i, 4


@program(2, now=2)
def set_by_name():
    box = Plain(level=3)

    def f(x, name):
        setattr(box, name, getattr(box, name) + 2)
        return x * vars(box)[name]

    for _ in range(9):
        yield f, ramp(3), "level"


@program(2, now=2)
def numbers_beside_tensors_in_a_tuple():
    def f(pairs):
        return [(t * n, n + 1) for t, n in pairs]

    pairs = [(ramp(3), 1), (ramp(2), 2.5)]
    for _ in range(8):
        pairs = yield f, pairs


@program(2, now=2)
def recorded_by_a_hook():
    seen = []
    layer = torch.nn.Linear(3, 3)
    torch.utils.hooks.RemovableHandle.next_id = 0  # is part of the state
    layer.register_forward_hook(lambda module, args, out: seen.append(args[0].size(0)))

    def f(x):
        return layer(x) * len(x)

    for n in (2, 3, 5, 4, 6, 7, 8):
        yield f, ramp(n, 3)
