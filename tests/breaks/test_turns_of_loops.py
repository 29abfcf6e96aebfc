"""Loops with a graph break in them: their first turn finds variables unbound that the others find bound.

Where nobody reads such a variable before it is stored, one region serves all turns; where somebody does, each turn sees
what eager would.
"""

from __future__ import annotations

import contextlib
import gc
import io
import sys
import weakref

import pytest
import torch

import pellucid
from support import Counting, CountingOf, outcome, same

pytestmark = pytest.mark.usefixtures("continued")

X = torch.tensor([1.0, 2.0, 3.0])


def shown(value):
    print("turn", tuple(value.shape))
    return value


def run(f, *args):
    """What a call gives and prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        got = outcome(f, *args)
    return [got, text.getvalue()]


def compared(f, *calls, backend="eager"):
    """The backend, after each call gave what eager gives."""
    counting = Counting() if backend == "eager" else CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for args in calls:
        assert same(run(compiled, *args), run(f, *args)), args
    return counting


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("turns", [1, 2, 5])
def test_one_region_serves_the_first_turn_and_the_others(turns, backend):
    def f(x, limit):
        while x.sum() < limit:
            doubled = x * 2
            low, high = doubled.aminmax()
            x = doubled + high - low
            kept = shown(x)
        return x.cos(), kept

    limit = [X.sum()]
    x = X
    for _ in range(turns):
        x = x * 2 + (x * 2).max() - (x * 2).min()
        limit.append(x.sum())
    counting = compared(f, (X, limit[-1]), (X, limit[-1]), (X, limit[1]), backend=backend)
    # The test at the start, a turn up to what is shown, the test behind that, and the end.
    assert counting.count == 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_variables_of_the_frames_outside(backend):
    def inner(x, by):
        for part in by:
            scaled = x * part
            x = shown(scaled + 1)
        return x

    def f(x):
        for by in (2.0, 3.0), (2.0, 3.0), (2.0, 3.0):
            y = inner(x, by)
            x = y.sin()
            z = x + y
        return z

    counting = compared(f, (X,), (X + 1,), backend=backend)
    # Before the first break; the turns of the inner loop, and with a turn of the outer one around them; the end.
    assert counting.count == 4


@pytest.mark.parametrize("sizes", [(2, 3, 4), (4, 4, 2)])
def test_what_lies_behind_both_keys_is_told_once(sizes):
    def f(x):
        for _ in range(3):
            x = shown(x + 1)
            held = x * 2
        return held

    compiled = pellucid.compile(f, backend="eager", dynamic=False)
    for size in sizes:
        run(compiled, torch.ones(size))
    told = [str(reason) for reason in pellucid.recompile_reasons(compiled)]
    assert told and len(set(told)) == len(told)


def test_a_variable_that_a_handler_reads_is_another_matter():
    def f(x, fails):
        for turn in range(3):
            try:
                shown(x)
                if turn == fails:
                    raise ValueError(turn)
                held = x + turn
                x = held * 2
            except ValueError:
                try:
                    x = x - held
                except UnboundLocalError as error:
                    x = x - len(str(error))
        return x

    compared(f, *[(X, fails) for fails in (0, 1, 2, 3, 0)])


def test_a_variable_that_is_deleted_or_asked_for():
    def deleted(x, last):
        for turn in range(3):
            x = shown(x + 1)
            if turn == last:
                del held  # noqa: F821
            held = x * 2
        return held

    def asked(x, last):
        for turn in range(3):
            x = shown(x + 1)
            if turn == last:
                return x, held  # noqa: F821
            held = x * 2
        return held

    for f in (deleted, asked):
        counting = compared(f, *[(X, last) for last in (2, 1, 0, 5, 0)])
        assert counting.count > 2


def test_locals_name_what_is_bound():
    def f(x):
        seen = []
        for turn in range(3):
            shown(x)
            x = x + turn
            seen.append(sorted(locals()))
            held = x * 2
        return held, seen

    compared(f, (X,), (X,))


def test_stacks_show_what_is_bound():
    def look(x):
        frame = sys._getframe(1)
        print(sorted(name for name in frame.f_locals if name != "look"))
        return x

    def f(x):
        for turn in range(3):
            x = look(x * 2)
            held = x + turn
            other = held.cos()
        return other

    compared(f, (X,), (X,))


def locals_of_traceback(f, *args):
    try:
        f(*args)
    except ZeroDivisionError as error:
        traceback = error.__traceback__
        while traceback.tb_next is not None:
            traceback = traceback.tb_next
        return {
            name: value for name, value in traceback.tb_frame.f_locals.items() if isinstance(value, (torch.Tensor, int))
        }
    return None


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 3, 0)])
def test_frames_of_tracebacks_hold_what_is_bound(order):
    """The region that raises in the first turn has served others, or the other way round."""

    def f(x, last):
        for turn in range(4):
            x = shown(x * 2)
            share = x / (turn + 1)
            if turn == last:
                1 // 0
            held = share + turn
        return held

    compiled = pellucid.compile(f, backend=Counting())
    for last in order * 2:
        with contextlib.redirect_stdout(io.StringIO()):
            got, wanted = locals_of_traceback(compiled, X, last), locals_of_traceback(f, X, last)
        assert (got is None) == (wanted is None)
        assert got is None or same(dict(sorted(got.items())), dict(sorted(wanted.items()))), last


class Noisy:
    def __init__(self, turn):
        self.turn = turn

    def __del__(self):
        print("gone", self.turn)


@pytest.mark.parametrize("made", [Noisy, lambda turn: [Noisy(turn)], lambda turn: {"n": Noisy(turn)}])
def test_what_a_turn_lets_go_of_goes_where_it_went(made):
    def f(x, noisy):
        for turn in range(4):
            x = shown(x + turn)
            held = made(turn) if noisy else [turn]
            other = held
            x = x * 2
        del held, other
        return x

    counting = compared(f, (X, False), (X, True), (X, False), (X, True))
    assert counting.count


def test_weak_references_to_what_a_turn_lets_go_of():
    def f(x, watched):
        gone = []
        for turn in range(4):
            x = shown(x + turn)
            y = x * 2
            if watched:
                weakref.finalize(y, gone.append, turn).atexit = False
            x = y + len(gone)
        return x, list(gone)

    compared(f, (X, False), (X, True), (X, False), (X, True))


def test_a_generator_in_a_variable_of_the_loop():
    def numbers(turn):
        try:
            yield turn
            yield turn + 1
        finally:
            print("closed", turn)

    def f(x, lazy):
        for turn in range(4):
            x = shown(x + turn)
            held = numbers(turn) if lazy else None
            x = x * (next(held) + 1 if held is not None else 2)
        return x

    compared(f, (X, False), (X, True), (X, False))
    gc.collect()


def test_one_object_in_several_variables():
    def f(x, noisy):
        for turn in range(4):
            x = shown(x + turn)
            first = second = third = Noisy(turn) if noisy else (turn,)
            x = x * 2
            second = third = turn
        return x, (first is second, second is third)

    compared(f, (X, False), (X, True), (X, False), (X, True))


def test_the_argument_that_super_reads():
    class Base:
        def scaled(self, x):
            return x * 2

    class Derived(Base):
        def scaled(self, x):
            for turn in range(3):
                x = shown(super().scaled(x))
                held = x + turn
            return held

    compared(lambda x: Derived().scaled(x), (X,), (X,))


def test_variables_of_cells_and_of_generators():
    def f(x):
        parts = []
        for turn in range(3):
            x = shown(x + 1)
            factor = x * turn
            parts.append(lambda y: y * factor)
        return [part(x) for part in parts]

    def walked(x):
        def steps(x):
            for turn in range(3):
                x = shown(x + 1)
                held = x * turn
                yield held

        return [step * 2 for step in steps(x)]

    compared(f, (X,), (X,))
    compared(walked, (X,), (X,))
