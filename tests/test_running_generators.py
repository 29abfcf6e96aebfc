"""Graph breaks in the body of a generator that runs: it is handed over as a real generator in the middle of its step."""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import sys
import traceback
from contextlib import redirect_stdout

import pytest
import torch
from runtime_common import same
from stop_common import stop_all_the_time, stop_at_each_instruction

import pellucid

X = torch.arange(6.0).reshape(2, 3) - 1


def told(value):
    """An exception as what can be compared of it."""
    if not isinstance(value, BaseException):
        return value
    frames = [(s.name, s.lineno, s.colno) for s in traceback.extract_tb(value.__traceback__) if s.filename == __file__]
    return type(value), str(value), frames[1:], told(value.__cause__), told(value.__context__)


def outcome(f, *args):
    printed = io.StringIO()
    with redirect_stdout(printed):
        try:
            value = f(*args)
        except Exception as error:  # compared as a whole
            value = told(error)
    return value, printed.getvalue()


def both(f, *make_args, calls=3):
    """Calls f eagerly and compiled, each with arguments of its own; the number of graphs."""
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    compiled = pellucid.compile(f, backend=backend)
    for _ in range(calls):
        want = outcome(f, X, *(make() for make in make_args))
        got = outcome(compiled, X, *(make() for make in make_args))
        assert same(got, want), (got, want)
    return len(graphs)


def rows(x, note=print):
    """Breaks before each of its steps."""
    y = x + 1
    note("first")
    received = yield y * 2
    z = y.sin()
    note("second", received)
    yield z + (received or 0)
    return z.cos()


def test_for_loop():
    def f(x):
        total = x.cos()
        for row in rows(x):
            total = total + row
        return total.sin()

    assert both(f) == 3


def test_next_send_and_the_end():
    def f(x):
        g = rows(x)
        a = next(g)
        b = g.send(3)
        return a + b, next(g, None), next(g, "ended")

    assert both(f) == 3


def test_yield_from():
    def middle(x):
        result = yield from rows(x)
        yield result.tan()

    def f(x):
        return [row.sin() for row in middle(x)]

    assert both(f) == 3


@pytest.mark.parametrize(
    "use",
    [
        list,
        tuple,
        sum,
        lambda g: [*g],
        lambda g: dict(enumerate(g)),
        lambda g: next(g) + next(g),
        lambda g: [a * n for n, a in enumerate(g, 2)],
        lambda g: [a + b for a, b in zip(g, [1, 2], strict=False)],
        lambda g: list(map(torch.sin, g)),
        lambda g: list(filter(lambda row: row.ndim == 2, g)),
        lambda g: torch.stack(list(g)),
        lambda g: {i: a.sum() for i, a in enumerate(g)},
        lambda g: any(a is None for a in g),
        lambda g: max(len(a) for a in g),
        lambda g: list(itertools.chain(g, [1])),
    ],
)
def test_whoever_resumes_it(use):
    def f(x):
        return use(rows(x))

    assert both(f) == 3


def test_several_at_once():
    def f(x):
        return [a + b for a, b in zip(rows(x), rows(x * 2), strict=True)]

    assert both(f) == 5


def test_a_tree():
    def walk(tree, x):
        for node in tree:
            if isinstance(node, list):
                yield from walk(node, x.cos())
            else:
                y = x * node
                print("at", node)
                yield y + 1

    def f(x):
        return [y.sin() for y in walk([1, [2, [3]], 4], x)]

    assert both(f) == 5


def test_break_in_a_function_that_the_body_calls():
    def helper(y):
        z = y * 2
        print("in helper")
        return z + 1

    def f(x):
        return sum(helper(row) for row in (x, x + 1))

    assert both(f) == 3


def test_throw_and_close():
    def g(x):
        try:
            yield x + 1
        finally:
            y = x * 2
            print("finally")
            kept.append(y + 1)

    kept = []

    def f(x):
        kept.clear()
        first, second = g(x), g(x * 2)
        a, b = next(first), next(second)
        first.close()
        with contextlib.suppress(KeyError):
            second.throw(KeyError("k"))
        return a + b, list(kept)

    both(f)


def test_exception_of_the_step_in_the_body():
    def g(x, caught):
        y = x + 1
        try:
            int("no number")
        except ValueError:
            if not caught:
                raise
            yield y * 2
        yield y * 3

    def f(x):
        total = [row for row in g(x, True)]
        try:
            total += g(x, False)
        except ValueError as error:
            return total, str(error)
        return total

    def escapes(x):
        return list(g(x, False))

    both(f)
    both(escapes)


def test_generator_that_raises_after_the_break():
    def g(x):
        y = x + 1
        print("break")
        yield y
        raise KeyError("behind")

    def f(x):
        total = x
        for row in g(x):
            total = total + row
        return total

    assert both(f) == 2


def test_stop_iteration_in_the_body_is_a_runtime_error():
    def g(x):
        y = x + 1
        print("break")
        yield y
        next(iter(()))

    both(lambda x: [row * 2 for row in g(x)])


def test_what_the_program_sees_of_it():
    def g(x):
        y = x + 1
        frame = sys._getframe()
        print(generator.gi_running, generator.gi_frame is frame, frame.f_back.f_code.co_name, sorted(frame.f_locals))
        del frame
        try:
            next(generator)
        except ValueError as error:
            print(error)
        yield y * 2

    generator = None

    def f(x):
        nonlocal generator
        generator = g(x)
        for row in generator:
            x = x + row
        print(generator.gi_running, generator.gi_frame, inspect.getgeneratorstate(generator))
        return x.sin()

    both(f)


def test_the_stack_is_that_of_the_program():
    def names():
        return [info.function for info in inspect.stack()[:4]]

    def g(x):
        y = x + 1
        print(names())
        yield y

    def f(x):
        return [row * n for n, row in enumerate(map(torch.neg, g(x)), 3)]

    both(f)


def test_traceback_through_builtin_iterators():
    def g(x):
        y = x + 1
        print("break")
        yield y
        int("no number")

    def f(x):
        total = x
        for n, (row, _) in enumerate(zip(map(torch.neg, g(x)), itertools.count(), strict=False)):
            total = total + row * n
        return total

    both(f)


def test_its_frame_is_kept():
    kept = []

    def g(x):
        y = x + 1
        kept.append(sys._getframe())
        z = y * 2
        yield z

    def f(x):
        kept.clear()
        result = [row + 1 for row in g(x)]
        return result, sorted(kept[0].f_locals), kept[0].f_lineno

    both(f)


def test_it_ended_before_the_break():
    def g(x):
        yield x + 1

    def f(x):
        one = g(x)
        a = next(one)
        b = next(one, 5)
        print(one.gi_frame)
        return a * b, next(one, 7)

    assert both(f) == 2


def test_one_from_outside():
    def g(x):
        for n in itertools.count():
            y = x + n
            print("at", n)
            yield y * 2

    def started():
        one = g(X)
        with redirect_stdout(io.StringIO()):
            next(one)
        return one

    def f(x, one):
        total = x.cos()
        for row in one:
            total = total + row
            if len(calls) % 2:
                break
            calls.append(1)
        calls.append(1)
        return total, next(one)

    calls = []
    both(f, started)


def test_abandoned_while_it_is_suspended():
    def g(x):
        try:
            y = x + 1
            print("break")
            yield y
            yield y * 2
        finally:
            print("finally")

    def f(x):
        for row in g(x):
            x = x + row
            break
        print("behind the loop")
        return x.sin()

    both(f)


def test_context_manager_of_a_generator():
    @contextlib.contextmanager
    def manager(x):
        y = x + 1
        print("enter")
        try:
            yield y * 2
        finally:
            print("exit")

    def f(x):
        with manager(x) as y:
            z = y.sin()
        return z + 1

    assert both(f) == 3


def test_polyfill_iterator_that_the_program_can_see():
    """It must be an enumerate: the region ends earlier."""

    def g(x):
        y = x + 1
        print("break")
        yield y

    def f(x):
        pairs = enumerate(g(x))
        for n, row in pairs:
            x = x + row * n
        return x, type(pairs).__name__

    both(f)


def test_break_in_a_key_function():
    def key(n):
        if n == 2:
            print("key")
        return -n

    def f(x):
        numbers = [1, 2, 3]
        first = sorted(numbers, key=key)
        numbers.sort(key=key)
        return (x + 1) * first[0] * max(numbers, key=key), first, numbers

    both(f)


# ---- stopped everywhere


def sends(x):
    def echo(t):
        got = None
        while True:
            got = yield t + (got or 0)
            if got is None:
                return t * 2
            t = t + got

    def outer(t):
        result = yield from echo(t)
        print("returned")
        yield result

    g = outer(x)
    return next(g), g.send(2), g.send(3), next(g), next(g, None)


def throws(x):
    def g(t):
        while True:
            try:
                t = yield t + 1
            except KeyError:
                t = t * 2
            finally:
                order.append(len(order))

    order = []
    one = g(x)
    values = [next(one), one.throw(KeyError), one.send(x * 3)]
    one.close()
    return values, order


def nested(x):
    def inner(t, n):
        for i in range(n):
            yield t * i

    def outer(t):
        yield from inner(t, 2)
        for a, b in zip(inner(t, 3), enumerate(inner(t + 1, 3), 1), strict=True):
            yield a + b[1] * b[0]

    return [row + 1 for row in outer(x)], sum(row for row in inner(x, 3)), max(len(row) for row in inner(x, 2))


def managed(x):
    @contextlib.contextmanager
    def manager(name):
        order.append(name)
        try:
            yield len(order)
        except KeyError as error:
            order.append(str(error))
        finally:
            order.append(f"/{name}")

    order = []
    with manager("a") as n, manager("b"):
        x = x * n
        raise KeyError(1)
    return x, order


PROGRAMS = [sends, throws, nested, managed]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_stopped_at_each_instruction_in_turn(program):
    assert stop_at_each_instruction(program) >= 20


@pytest.mark.parametrize("every", [2, 3, 5, 11])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_stopped_all_the_time(program, every):
    stop_all_the_time(program, every)
