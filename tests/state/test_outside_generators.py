"""Generators that existed before a region, or outlive it: suspended in one region (or eagerly) and resumed in another."""

from __future__ import annotations

import collections
import contextlib
import inspect

import pytest
import torch

import pellucid
from support import Counting, same
from support.graphs import calls
from support.outcomes import assert_as_eager_each_time

X = torch.arange(6.0).reshape(2, 3) - 1


def both(f, make_args=lambda: (X.clone(),)):
    """f eagerly and compiled, each time on equal arguments; the operations of each graph."""
    backend = Counting()
    assert_as_eager_each_time(f, make_args, backend=backend)
    return [[node.op for node in calls(gm)] for gm in backend.graphs]


def rows(x):
    for row in x:
        yield row * 2
    yield x.sum()


def test_made_here_resumed_behind_a_break():
    def f(x):
        g = rows(x)
        first = next(g)
        print("between")
        return first + next(g) - 1, list(g), list(g)

    assert len(both(f)) == 2


def test_half_used_by_the_caller():
    def f(g, x):
        return next(g) + x, [v + 1 for v in g]

    def arguments():
        g = rows(X)
        next(g)
        return g, X

    assert len(both(f, arguments)) == 1


def test_the_generator_goes_on_afterwards():
    def f(g, x):
        return next(g) + x

    eager, captured = rows(X), rows(X)
    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        assert same(compiled(captured, X), f(eager, X))
    assert inspect.getgeneratorstate(captured) == "GEN_SUSPENDED"
    assert captured.gi_frame.f_lineno == eager.gi_frame.f_lineno
    assert same(next(captured), next(eager))
    for g in (eager, captured):
        with pytest.raises(StopIteration):
            next(g)
        assert g.gi_frame is None


def test_ended_in_the_region():
    def f(g, x):
        total = x
        for value in g:
            total = total + value
        return total, next(g, "over")

    eager, captured = rows(X), rows(X)
    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    assert same(compiled(captured, X), f(eager, X))
    assert captured.gi_frame is None and inspect.getgeneratorstate(captured) == "GEN_CLOSED"
    assert same(compiled(captured, X), f(eager, X))


def test_a_loop_with_a_break_in_its_body():
    def f(x):
        total = 0
        for row in rows(x):
            total = total + row
            print("in the loop")
        return total

    graphs = both(f)
    assert all(len(ops) for ops in graphs) and len(graphs) <= 5


def test_a_break_in_the_generator():
    def noisy(x):
        for i in range(2):
            print("noisy", i)
            yield x + i

    def f(x):
        total = x * 2
        for value in noisy(x):
            total = total + value.sin()
        return total

    assert len(both(f)) >= 3


def test_context_managers_written_as_generators():
    @contextlib.contextmanager
    def noted(x):
        y = x + 1
        try:
            yield y
        finally:
            seen["sum"] = y.sum()

    def f(x):
        with noted(x) as y:
            z = y * 2
            print("inside")
            z = z - 1
        return z + 3

    seen = {}
    assert len(both(f)) == 2
    assert same(seen["sum"], (X + 1).sum())


def test_delegation_and_sharing():
    def outer(x):
        got = yield from rows(x)
        yield got, x

    def f(x):
        g = outer(x)
        h = g
        next(g)
        print("break")
        return [same_object is g for same_object in (h, iter(g))], list(h), list(g)

    both(f)


def test_send_throw_and_close_behind_a_break():
    def echo(x):
        try:
            while True:
                received = yield x
                x = x + (received or 0)
        except KeyError:
            yield x * 100
        finally:
            order.append("closed")

    def f(x):
        g = echo(x)
        next(g)
        print("break")
        a = next(g)
        b = g.send(3)
        c = g.throw(KeyError(1))
        g.close()
        return a, b, c, next(g, None)

    order = []
    both(f)
    assert order == ["closed"] * 6


def test_other_states_are_other_entries():
    def f(g, x):
        return next(g, None), x + 1

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    eager, captured = rows(X), rows(X)
    for _ in range(6):
        assert same(compiled(captured, X), f(eager, X))

    def other(x):
        yield from (x - 5,)

    assert same(compiled(other(X), X), f(other(X), X))


def test_a_frame_that_somebody_holds_or_a_handler_is_left_alone():
    def handles(x):
        try:
            raise KeyError("mine")
        except KeyError as error:
            yield error.args, x
            yield x * 2

    def f(g, x):
        return next(g), x + 1

    def in_handler():
        g = handles(X)
        next(g)
        return g, X

    both(f, in_handler)

    def with_frame():
        g = rows(X)
        held.append(g.gi_frame)
        next(g)
        return g, X

    held = []
    both(f, with_frame)


def test_an_exception_in_the_generator_ends_it():
    def fails(x):
        yield x
        raise ValueError("mine")

    def f(g, x):
        y = next(g) + x
        try:
            next(g)
        except ValueError as error:
            return y, error.args, next(g, "over")

    both(f, lambda: (fails(X), X))


def test_two_arguments_that_are_one_generator():
    def f(g, h, x):
        return next(g) + x, next(h) + x

    compiled = pellucid.compile(f, backend="eager")
    for same_one in (False, True, False, True):
        eager, captured = [rows(X), rows(X)], [rows(X), rows(X)]
        if same_one:
            eager[1], captured[1] = eager[0], captured[0]
        assert same(compiled(*captured, X), f(*eager, X))


deque = collections.deque


class Holder:
    pass


def closes(log, n):
    try:
        while n:
            n -= 1
            print(end="")
            yield n
    finally:
        log.append("end")


def pops(items):
    items.pop()


DROPS = """del v; v = None; v.pop(); v.clear(); v[:] = []; v[0] = 1; del v[0]; d.pop('a'); d['a'] = 1; d.clear(); o.g = 1; del o.g; g = None; del g
g = v = None; del g, v, d, o; q.popleft(); v = [1]; t = None; v.append(v.pop(0)); g.close(); pops(v); w = g; del g; v, g = g, v; v.pop().close()"""


@pytest.mark.parametrize("drop", [part.strip() for line in DROPS.splitlines() for part in line.split(";")])
def test_a_generator_that_is_dropped_in_a_block_ends_where_it_is_dropped(drop):
    source = f"""
def f(x, log):
    v, g, d, o, q, t = [closes(log, 3)], closes(log, 3), {{'a': closes(log, 3)}}, Holder(), deque([closes(log, 3)]), (closes(log, 3),)
    o.g = closes(log, 3)
    for z in (v[0], g, d['a'], o.g, q[0], t[0]):
        next(z)
    del z
    x = x + 1
    log.append('before')
    {drop}
    log.append('behind')
    return x * 2
"""
    space = {**globals()}
    exec(source, space)
    f = space["f"]
    compiled = pellucid.compile(f, backend="eager")
    want: list[str] = []
    f(torch.ones(2), want)
    for _ in range(3):
        log: list[str] = []
        assert torch.equal(compiled(torch.ones(2), log), torch.full((2,), 4.0))
        assert log == want
    assert pellucid.cache_entries(compiled)


@pytest.mark.parametrize("advanced", [0, 1, 2])
@pytest.mark.parametrize("breaks", [False, True])
def test_what_an_inner_generator_does_when_the_outer_is_dropped(advanced, breaks):
    waiting, told = [], []

    def inner(value):
        try:
            told.append((yield value))
            yield value
        finally:
            told.append("finally")

    def outer():
        for number in range(3):
            yield from inner(number)

    def f(x):
        x = x + 1
        if breaks:
            print(end="")
        told.append(next(waiting.pop(), 0))
        told.append("after")
        seen = list(told)
        told.clear()
        return x * 2, seen

    def arguments():
        generator = outer()
        for _ in range(advanced):
            next(generator)
        waiting.append(generator)
        return (X.clone(),)

    assert both(f, arguments) or not breaks  # the whole call is eager then
