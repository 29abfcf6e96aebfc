"""Numbers that must be known: they choose a branch, an item, a key or how often a loop runs."""

from __future__ import annotations

import torch

from corpus.table import program, ramp
from support import Plain


@program(4, now=4, why="the loop is unrolled: one graph for each number of turns")
def range_of_a_number():
    def f(x, n):
        for i in range(n):
            x = x * 0.5 + i
        return x

    for n in (2, 3, 4, 5, 2, 3, 4, 5):
        yield f, ramp(3), n


@program(4, now=4, why="the loop is unrolled: one graph for each number of turns")
def range_of_a_size():
    def f(x):
        return [x[i].sum() for i in range(x.size(0))]

    for n in (2, 3, 4, 5, 2, 3, 4, 5):
        yield f, ramp(n, 2)


@program(4, now=5, why="one graph for each number of pieces")
def range_with_a_step():
    def f(x):
        n = x.size(0)
        return torch.stack([x[i : i + 4].sum() for i in range(0, n, 4)])

    for n in (6, 7, 5, 10, 12, 9, 3, 2):
        yield f, ramp(n)


@program(4, now=4, why="one graph for each number of turns")
def while_a_number_halves():
    def f(x, n):
        turns = 0
        while n > 1:
            x, n, turns = x + n, n // 2, turns + 1
        return x, turns

    for n in (4, 5, 6, 7, 9, 12, 3, 2, 15):
        yield f, ramp(3), n


@program(4, now=4, why="an index into a list is known")
def item_of_a_list():
    scales = [0.5, 1.5, 2.5, 3.5]

    def f(x, i):
        return x * scales[i]

    for i in (0, 1, 2, 3, 0, 1, 2, 3):
        yield f, ramp(3), i


@program(4, now=4, why="an index into a list is known")
def item_from_the_end():
    def f(xs, i):
        return xs[-i] * i

    for i in (1, 2, 3, 4, 1, 2, 3, 4):
        yield f, [ramp(3), ramp(3) + 1, ramp(3) + 2, ramp(3) + 3], i


@program(4, now=4, why="a key of a dict is known")
def item_of_a_dict():
    table = {3: 0.5, 5: 1.5, 7: 2.5, 9: 3.5}

    def f(x, n):
        return x * table[n]

    for n in (3, 5, 7, 9, 3, 5, 7, 9):
        yield f, ramp(3), n


@program(8, now=8, why="a key of a dict is known")
def memo_with_a_number_as_key():
    memo = {}

    def f(x, n):
        if n not in memo:
            memo[n] = n * n
        return x + memo[n]

    for n in (3, 5, 7, 9, 3, 5, 7, 9):
        yield f, ramp(3), n


@program(4, now=4, why="an index into a list is known")
def layer_of_a_module_list():
    layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(4))

    def f(x, i):
        return layers[i](x)

    for i in (0, 1, 2, 3, 0, 1, 2, 3):
        yield f, ramp(2, 3), i


@program(4, now=4, why="the end of a slice of a list is known")
def first_layers():
    layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(4))

    def f(x, depth):
        for layer in layers[:depth]:
            x = layer(x)
        return x

    for depth in (1, 2, 3, 4, 1, 2, 3, 4):
        yield f, ramp(2, 3), depth


@program(4, now=4, why="the text that names the layer is known")
def layer_by_a_name_with_a_number():
    model = torch.nn.Module()
    for i in range(4):
        setattr(model, f"layer{i}", torch.nn.Linear(3, 3))

    def f(x, i):
        return getattr(model, f"layer{i}")(x)

    for i in (0, 1, 2, 3, 0, 1, 2, 3):
        yield f, ramp(2, 3), i


@program(3, now=3, why="both sides of the branch")
def every_tenth_step():
    logged = []

    def f(x, step):
        y = x * step
        if step % 10 == 0:
            logged.append(step)
            return y, y.mean()
        return y, None

    for step in range(5, 25):
        yield f, ramp(3), step


@program(3, now=3, why="both sides of the branch")
def every_third_call():
    state = Plain(calls=0, skipped=0)

    def f(x):
        state.calls += 1
        if state.calls % 3:
            state.skipped += 1
            return x + state.skipped
        return x * state.calls

    for _ in range(12):
        yield f, ramp(3)


@program(4, now=4, why="three ranges, and the first call")
def ranges_of_a_number():
    def f(x, n):
        if 3 <= n < 6:
            return x * n
        elif n >= 6:
            return x - n
        return x + n

    for n in (1, 2, 3, 4, 5, 6, 7, 8, 0, 4):
        yield f, ramp(3), n


@program(3, now=3, why="the number is smaller, equal or larger")
def two_numbers_compared():
    def f(x, n, m):
        if n < m:
            return x * (m - n)
        if n == m:
            return x
        return x / (n - m)

    for n, m in ((1, 5), (2, 7), (4, 4), (9, 3), (5, 6), (8, 8), (7, 2), (0, 3)):
        yield f, ramp(3), n, m


@program(3, now=3, why="one number is special")
def one_special_value():
    def f(x, n):
        if n == 5:
            return x.sin()
        return x * n

    for n in range(2, 12):
        yield f, ramp(3), n


@program(3, now=3, why="zero and the others")
def truth_of_a_number():
    def f(x, n):
        return x * n if n else x.neg()

    for n in (3, 2, 0, 1, 0, -1, 4, 0):
        yield f, ramp(3), n


@program(3, now=3, why="zero and the others")
def number_or_its_default():
    def f(x, n):
        n = n or 4
        return x * n, n

    for n in (3, 2, 0, 1, 5, 0, 6, 7):
        yield f, ramp(3), n


@program(3, now=3, why="None is a value of its own")
def number_or_none():
    def f(x, scale=None):
        if scale is None:
            scale = x.size(-1) ** -0.5
        return x * scale, scale

    for scale in (0.5, 0.25, None, 0.75, None, 2.0, 3.0):
        yield f, ramp(4), scale


@program(4, now=4, why="one graph for each case that is met, and the first")
def match_on_a_number():
    def f(x, n):
        match n % 3:
            case 0:
                return x + n
            case 1:
                return x - n
            case _:
                return x * n

    for n in range(3, 12):
        yield f, ramp(3), n


@program(5, now=5, why="each of the three members is a value, and the first call")
def number_in_a_set():
    special = {3, 6, 9}

    def f(x, n):
        return x * n if n in special else x + n

    for n in range(1, 11):
        yield f, ramp(3), n


@program(4, now=4, why="below, in and above the range, and the first call")
def number_in_a_range():
    def f(x, n):
        return x * n if n in range(3, 7) else x + n

    for n in range(1, 11):
        yield f, ramp(3), n


@program(3, now=3, why="the assertion holds, or it fails")
def assertion_on_a_number():
    def f(x, n):
        y = x + 1
        assert n > 0, "n must be positive"
        return y * n

    for n in (3, 2, 0, 1, 5, -2, 6):
        yield f, ramp(3), n


@program(3, now=3, why="the bit is set, or it is not")
def flags_as_bits():
    def f(x, flags):
        if flags & 4:
            x = x.neg()
        return x * flags

    for flags in (1, 2, 3, 4, 5, 6, 7, 8, 12):
        yield f, ramp(3), flags


@program(4, now=4, why="how long the list becomes is known")
def list_times_a_number():
    def f(x, n):
        return torch.cat([x] * n)

    for n in (2, 3, 4, 5, 2, 3, 4, 5):
        yield f, ramp(2), n


@program(4, now=4, why="how deep the recursion goes is known")
def recursion():
    def power(x, n):
        return x if n == 0 else x * power(x, n - 1)

    def f(x, n):
        return power(x, n)

    for n in (2, 3, 4, 5, 2, 3, 4, 5):
        yield f, ramp(3), n


@program(4, now=4, why="an axis is known")
def axis():
    def f(x, dim):
        return x.sum(dim), x.transpose(0, dim)

    for dim in (0, 1, 2, -1, 0, 1, 2, -1):
        yield f, ramp(2, 3, 4), dim


@program(4, now=4, why="the size of a window is known")
def window_of_a_pool():
    def f(x, width):
        return torch.nn.functional.avg_pool1d(x, width)

    for width in (2, 3, 4, 6, 2, 3, 4, 6):
        yield f, ramp(1, 2, 12), width


@program(4, now=7, why="the largest of three numbers is first, second or third, and the first call")
def order_of_numbers():
    def f(x, a, b, c):
        where = [a, b, c].index(max(a, b, c))
        return x * where

    for a, b, c in ((1, 2, 3), (4, 5, 6), (7, 1, 2), (3, 9, 1), (5, 6, 9), (8, 2, 4), (2, 7, 5)):
        yield f, ramp(3), a, b, c
