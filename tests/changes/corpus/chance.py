"""Numbers and sizes that are special at the first call only by chance: zero, one, equal, without effect."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from corpus.table import program, ramp
from support import Plain


@program(2, now=2)
def one_at_first():
    def f(x, n):
        return x * n, x / n, n * 3, n**2

    for n in (1, 2, 3, -1, 5, 1, 7):
        yield f, ramp(3), n


@program(2, now=2)
def zero_at_first():
    def f(x, n):
        return x + n, x * n, n - 1

    for n in (0, 2, 3, -1, 5, 0, 7):
        yield f, ramp(3), n


@program(2, now=2)
def rate_of_one_at_first():
    def f(x, y, rate):
        return x.mul(rate).add(y, alpha=rate), x**rate

    for rate in (1.0, 0.5, 0.25, 2.0, 1.0, 3.0, 0.125):
        yield f, ramp(3).abs(), ramp(3), rate


@program(2, now=2)
def rate_of_zero_at_first():
    def f(x, y, rate):
        return x.lerp(y, rate), x + rate * y

    for rate in (0.0, 0.5, 0.25, -0.0, 1.0, 0.75, 0.0):
        yield f, ramp(3), ramp(3).cos(), rate


@program(2, now=2)
def square_at_first():
    def f(x, e):
        return x**e, (x + 4) ** -e

    for e in (2, 3, 4, 5, 1, 2, 6):
        yield f, ramp(3), e


@program(2, now=2)
def batch_of_one_at_first():
    def f(x):
        return x.softmax(0).sum(0) * x.size(0)

    for n in (1, 4, 3, 1, 5, 7, 2):
        yield f, ramp(n, 2)


@program(2, now=2)
def square_matrix_at_first():
    def f(x):
        return x.T @ x, x.sum(0) / x.size(1)

    for n, m in ((3, 3), (4, 2), (2, 5), (6, 6), (5, 4), (2, 3)):
        yield f, ramp(n, m)


@program(2, now=2)
def three_sizes_equal_at_first():
    def f(x, y, z):
        return (x @ y) @ z, x.size(0) + y.size(1) * z.size(1)

    for a, b, c, d in ((3, 3, 3, 3), (2, 4, 5, 6), (6, 2, 3, 4), (5, 5, 2, 2), (4, 3, 3, 4), (2, 6, 4, 3)):
        yield f, ramp(a, b), ramp(b, c), ramp(c, d)


@program(2, now=2)
def rate_equal_to_momentum_at_first():
    def f(x, rate, momentum):
        return x * rate + momentum, rate * (1 - momentum)

    for rate, momentum in ((0.9, 0.9), (0.5, 0.8), (0.25, 0.75), (0.9, 0.95), (0.5, 0.5), (0.1, 0.2)):
        yield f, ramp(3), rate, momentum


@program(2, now=2)
def number_equal_to_a_constant_at_first():
    def f(x, n):
        return x * 4 + n, [4, n], n + 4

    for n in (4, 5, 6, 4, 7, 8, 3):
        yield f, ramp(3), n


@program(2, now=2)
def number_equal_to_the_length_of_a_list_at_first():
    names = ["a", "b", "c"]

    def f(x, n):
        return x * (n - len(names)), len(names) / n

    for n in (3, 4, 5, 2, 3, 6, 1):
        yield f, ramp(3), n


@program(3, now=4, why="an int and a float are told apart")
def int_equal_to_a_float():
    def f(x, n, a):
        return x * n + a, n, a, n + a

    for n, a in ((2, 2.0), (3, 4.0), (5, 5.0), (4.0, 4), (6, 7.5), (8.0, 8), (1, 1.0)):
        yield f, ramp(3), n, a


@program(2, now=2)
def slice_of_everything_at_first():
    def f(x, n):
        return x[:n].sum(0), x[-n:] * 2

    for n in (6, 4, 3, 5, 2, 6, 1):
        yield f, ramp(6, 2), n


@program(2, now=3)
def slice_beyond_the_end():
    def f(x, n):
        return x[:n].sum(0), x[n:].sum(0)

    for n in (4, 6, 8, 10, 12, 5, 7):
        yield f, ramp(6, 2), n


@program(2, now=2)
def nothing_padded_at_first():
    def f(x, n):
        return F.pad(x, (0, n)), F.pad(x, (n, 0), value=1.0)

    for n in (0, 2, 3, 1, 4, 0, 5):
        yield f, ramp(2, 3), n


@program(2, now=2)
def nothing_rolled_at_first():
    def f(x, n):
        return x.roll(n), x.roll((n, 1), (0, 1))

    for n in (0, 2, 3, -1, 4, 0, 5):
        yield f, ramp(2, 3), n


@program(2, now=2)
def offset_of_zero_at_first():
    def f(x, offset):
        return x[offset : offset + 2] + torch.arange(offset, offset + 2)[:, None]

    for offset in (0, 2, 3, 1, 4, 0, 5):
        yield f, ramp(8, 3), offset


@program(2, now=2)
def same_shape_at_first_broadcast_later():
    def f(x, y):
        return x * y[None, : x.size(1)]

    for n, m in ((3, 3), (4, 6), (2, 5), (5, 9), (6, 6), (3, 8)):
        yield f, ramp(2, n), ramp(m)


@program(2, now=2)
def view_of_the_same_shape_at_first():
    def f(x, n):
        return x.view(n, -1) * n

    for n in (4, 2, 6, 8, 3, 12, 4):
        yield f, ramp(4, 6), n


@program(3, now=7, why="one tensor twice, and two tensors")
def one_tensor_in_two_places_at_first():
    def f(x, y):
        return x * y, x.size(0) + y.size(0)

    x = ramp(4)
    yield f, x, x
    for n in (5, 3, 6, 2, 7, 4):
        yield f, ramp(n), ramp(n).cos()


@program(2, now=3)
def true_division_without_a_rest_at_first():
    def f(x, n, m):
        return x * (n // m), n / m, n % m

    for n, m in ((8, 2), (9, 2), (10, 4), (7, 3), (12, 6), (5, 8), (8, 8)):
        yield f, ramp(3), n, m


@program(2, now=2)
def whole_float_at_first():
    def f(x, a):
        return x * int(a), a, a // 1, a % 1

    for a in (2.0, 2.5, 3.75, -1.5, 4.0, 0.25, 7.5):
        yield f, ramp(3), a


@program(2, now=2)
def bounds_that_meet_at_first():
    def f(x, low, high):
        return x.clamp(low, high), high - low

    for low, high in ((0.5, 0.5), (0.25, 0.75), (-1.0, 1.0), (0.0, 0.0), (-0.5, 0.25), (0.0, 2.0)):
        yield f, ramp(9), low, high


@program(2, now=2)
def counters_that_start_together():
    state = Plain(read=0, written=0)

    def f(x, read, written):
        state.read += read
        state.written += written
        return x + state.read, x * state.written, state.read - state.written

    for read, written in ((2, 2), (1, 3), (4, 4), (2, 5), (3, 3), (5, 1), (1, 1)):
        yield f, ramp(3), read, written


@program(3, now=3, why="a graph for the shorter one and one for the longer, after the first call")
def first_by_a_tie():
    def f(x, n, m):
        return x[:n] if n <= m else x[:m] * 2

    for n, m in ((4, 4), (3, 5), (5, 3), (2, 6), (6, 1), (7, 7), (1, 2)):
        yield f, ramp(8), n, m
