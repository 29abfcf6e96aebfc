"""Graph breaks in the body of a generator that runs: it is handed over as a real generator in the middle of its step."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import itertools
import sys
from contextlib import redirect_stdout

import pytest
import torch

from support.outcomes import assert_as_eager_each_time, whole_outcome
from support.stops import stop_tests

X = torch.arange(6.0).reshape(2, 3) - 1


def both(f, *make_args, calls=3):
    """Calls f eagerly and compiled, each with arguments of its own; the number of graphs."""
    _, graphs = assert_as_eager_each_time(f, lambda: (X, *(make() for make in make_args)), calls)
    return graphs


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


# ---- builtin iterators that are alive at a break


def three(x):
    for n in range(3):
        yield x + n


@pytest.mark.parametrize(
    "make",
    [
        lambda x: enumerate(three(x)),
        lambda x: zip(three(x), three(x * 2), strict=False),
        lambda x: map(lambda a, b: a * b, three(x), three(x)),
        lambda x: filter(lambda row: row.ndim == 2, three(x)),
        lambda x: itertools.chain(three(x), [x]),
        lambda x: itertools.islice(three(x), 1, 3),
        lambda x: itertools.starmap(torch.add, zip(three(x), three(x), strict=True)),
        lambda x: itertools.takewhile(lambda row: row.ndim == 2, three(x)),
        lambda x: enumerate(zip(three(x), map(torch.neg, three(x)), strict=True)),
    ],
)
def test_loop_with_a_break_in_its_body(make):
    """Nobody sees the iterator of the loop: its body is captured on, as before the break."""

    def f(x):
        total = x
        for row in make(x):
            print("row")
            for part in row if isinstance(row, tuple) else (row,):
                total = total * 2 + (part if not isinstance(part, tuple) else part[0])
        return total

    want = len(whole_outcome(f, X)[1].splitlines()) + 1
    assert both(f) in (want, want - 1)  # the first row need not be computed before it is used


def test_iterators_that_the_program_sees():
    def iterators(x):
        return [
            enumerate(three(x), 3),
            zip(three(x), three(x), strict=True),
            itertools.chain(three(x), [x]),
            itertools.islice(three(x), 1, 3),
            map(lambda row: row * 2, three(x)),
            filter(None, (row.ndim for row in three(x))),
            itertools.takewhile(lambda row: row.ndim == 2, three(x)),
            itertools.starmap(torch.add, zip(three(x), three(x), strict=True)),
        ]

    def f(x, taken):
        y = x + 1
        kept = iterators(x)
        rows = [next(one, None) for _ in range(taken) for one in kept]
        print([type(one).__name__ for one in kept])
        rows += [next(one, "ended") for _ in range(2) for one in kept]
        print("break")
        return y * 2, rows, [list(one) for one in kept]

    for taken in range(3):
        assert both(lambda x, taken=taken: f(x, taken)) >= 1


@pytest.mark.parametrize(
    "make",
    [
        lambda f: map(f, [1, 2, 3]),
        lambda f: map(f, [1, 2, 3], [0, 0, 0]),
        lambda f: filter(f, [1, 2, 3]),
        lambda f: itertools.starmap(f, [(1,), (2,), (3,)]),
        lambda f: itertools.takewhile(f, [1, 2, 3]),
        lambda f: itertools.dropwhile(f, [1, 2, 3]),
        lambda f: itertools.accumulate([1, 2, 3], f),
        lambda f: iter(functools.partial(f, 2), 7),
    ],
)
@pytest.mark.parametrize("break_first", [True, False])
def test_stop_iteration_of_the_function(make, break_first):
    def function(*args):
        if break_first:
            print("break")
        if args[-1] == 2:
            raise StopIteration
        return args[-1]

    def f(x):
        iterator = make(function)
        first = list(iterator)
        return x * 2, first, list(iterator), [v for v in make(function)]

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


def builtins(x):
    def rows(t):
        for n in range(3):
            yield t + n

    first = [a * b for a, b in zip(rows(x), rows(x + 1), strict=True)]
    second = [n * a for n, (a, _) in enumerate(zip(rows(x), itertools.count()), 1)]
    third = list(itertools.chain(rows(x), itertools.islice(rows(x * 2), 1, None)))
    seen = enumerate(rows(x))
    fourth = next(seen), type(seen).__name__, next(seen), list(seen), next(seen, None)
    return first, second, third, fourth, list(map(lambda a, b: a - b, rows(x), rows(x + 2)))


PROGRAMS = [sends, throws, nested, managed, builtins]


test_stopped_at_each_instruction_in_turn, test_stopped_all_the_time = stop_tests(PROGRAMS)
