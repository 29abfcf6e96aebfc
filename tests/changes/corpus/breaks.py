"""Numbers that live across a graph break: what is opened in one part needs no second graph in the next."""

from __future__ import annotations

import torch

from corpus.table import program, ramp
from support import Plain


@torch.compiler.disable
def outside(*values):
    """Runs as plain Python."""
    return values[-1] if values else None


@program(4, now=4, why="two parts")
def step_across_a_break():
    def f(x, step):
        y = x * step
        outside()
        return y + step

    for step in range(2, 12):
        yield f, ramp(3), step


@program(4, now=4, why="two parts")
def number_made_before_a_break():
    def f(x, step):
        rate = 0.1 * 0.9**step
        y = x * rate
        outside(y)
        return y - rate, rate

    for step in range(2, 12):
        yield f, ramp(3), step


@program(3, now=3, why="two parts, the first without a number")
def number_used_only_behind_a_break():
    def f(x, step):
        y = x.sin()
        outside(y)
        return y * step

    for step in range(2, 12):
        yield f, ramp(3), step


@program(3, now=3, why="two parts, the second without a number")
def number_used_only_before_a_break():
    def f(x, step):
        y = x * step
        outside(y)
        return y.sin()

    for step in range(2, 12):
        yield f, ramp(3), step


@program(4, now=4, why="two parts")
def counter_on_both_sides():
    state = Plain(step=0)

    def f(x):
        state.step += 1
        y = x * state.step
        outside()
        state.step += 1
        return y + state.step

    for _ in range(10):
        yield f, ramp(3)


@program(4, now=4, why="two parts")
def number_from_outside():
    def f(x, n):
        y = x + 1
        m = outside(n, n * 2)
        return y * m, m

    for n in range(2, 12):
        yield f, ramp(3), n


@program(3, now=3, why="two parts, the first without a number")
def number_out_of_a_tensor():
    def f(x):
        y = x.cumsum(0)
        n = int(y.abs().sum().item())
        return y * n, n

    for i in range(1, 10):
        yield f, ramp(3) * i


@program(4, now=4, why="two parts")
def size_across_a_break():
    def f(x):
        n = x.size(0)
        y = x.cumsum(0)
        outside(y)
        return y[: n // 2] * n

    for n in (4, 6, 3, 8, 5, 7, 9):
        yield f, ramp(n, 2)


@program(4, now=5, why="two parts")
def new_size_behind_a_break():
    def f(x):
        y = x * 2
        keep = y > 0
        z = y[keep]
        return z / z.size(0)

    for n in (8, 9, 7, 12, 10, 6, 11):
        yield f, ramp(n)


@program(5, now=5, why="three parts; one is met first when the number is known to change")
def branch_on_a_value_with_a_number():
    def f(x, n):
        y = x * n
        if y.sum() > 0:
            return y + n
        return y - n

    for n in (2, -3, 4, -5, 6, -7, 8, -9):
        yield f, ramp(12), n


@program(4, now=4, why="two parts: up to the first break, and from one to the next")
def number_in_a_loop_with_breaks():
    def f(x, rate):
        for _ in range(3):
            x = x * rate
            outside(x)
        return x

    for i in range(1, 9):
        yield f, ramp(3), i / 4


@program(6, now=6, why="three parts")
def three_parts():
    def f(x, n, a):
        x = x + n
        outside(x)
        x = x * a
        n, a = n + 1, a / 2
        outside(x)
        return x * n + a

    for i in range(2, 11):
        yield f, ramp(3), i, i / 4


@program(4, now=4, why="two parts")
def break_in_a_function_that_is_called():
    def inner(x, n):
        y = x * n
        outside(y)
        return y + n

    def f(x, n):
        return inner(x, n + 1) * n

    for n in range(2, 11):
        yield f, ramp(3), n


@program(4, now=4, why="two parts")
def break_in_a_with_block():
    def f(x, n):
        with torch.no_grad():
            y = x * n
            outside(y)
            y = y + n
        return y

    for n in range(2, 11):
        yield f, ramp(3), n


@program(5, now=5, why="two parts, and both sides of a branch in the second")
def break_in_a_try_block():
    def f(x, n):
        y = x * n
        try:
            if outside(n % 3) == 0:
                raise ValueError(n)
        except ValueError as error:
            n = -error.args[0]
        return y + n

    for n in range(4, 14):
        yield f, ramp(3), n


@program(4, now=4, why="two parts")
def numbers_in_containers_across_a_break():
    def f(x, n):
        box = {"n": n, "pair": (n + 1, [n / 2])}
        y = x * box["n"]
        outside(y)
        return y * box["pair"][0] + box["pair"][1][0], box

    for n in range(2, 11):
        yield f, ramp(3), n


@program(4, now=4, why="two parts")
def numbers_in_a_closure_across_a_break():
    def f(x, n):
        def grow(y):
            nonlocal n
            n += 1
            return y * n

        y = grow(x)
        outside(y)
        return grow(y) + n

    for n in range(2, 11):
        yield f, ramp(3), n


@program(4, now=10, why="two parts")
def generator_across_a_break():
    def steps(n):
        while True:
            yield n
            n = n + 1

    def f(x, n):
        numbers = steps(n)
        y = x * next(numbers)
        outside(y)
        return y + next(numbers)

    for n in range(2, 11):
        yield f, ramp(3), n


@program(4, now=4, why="two parts")
def two_numbers_equal_by_chance_across_a_break():
    def f(x, n, m):
        y = x * n
        outside(y)
        return y + n * m

    for n, m in ((3, 3), (4, 5), (6, 6), (2, 9), (7, 1), (5, 5), (0, 8)):
        yield f, ramp(3), n, m


@program(4, now=4, why="two parts")
def loss_taken_out_in_the_middle():
    losses = []

    def f(x, scale):
        loss = (x * scale).square().mean()
        losses.append(loss.item() / scale)
        return loss * scale

    for i in range(1, 10):
        yield f, ramp(4) * i, 2.0**i


@program(3, now=3, why="two parts")
def text_of_a_number_across_a_break():
    def f(x, step):
        y = x * step
        message = f"step {step}"
        outside(y)
        return y.sin(), message

    for step in range(2, 12):
        yield f, ramp(3), step
