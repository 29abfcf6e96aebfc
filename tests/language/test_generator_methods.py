"""Generators and iterators: delegation, throw, islice, those that did not start or have ended."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import re
import traceback

import pytest
import torch

import pellucid
from support import Counting
from support.programs import Programs, check_tensor_program, error_of

PROGRAMS = program = Programs()


def delegating(items):
    if isinstance(items, list):
        for item in items:
            yield from delegating(item) if isinstance(item, list) else iter([item])
    yield "end"


@program
def delegation_deeper_than_the_interpreter_recurses(x):
    x = x + 1
    nested = [1]
    for _ in range(2000):
        nested = [nested]
    try:
        return x, list(delegating(nested))
    except RecursionError as error:
        return x, str(error)[:32]


async def coroutine():
    return 1


@program
def yield_from_a_coroutine(x):
    x = x + 1
    waiting = coroutine()

    def generator():
        yield from waiting

    try:
        return x, list(generator())
    except TypeError as error:
        return x, str(error)
    finally:
        waiting.close()


@program
def iterating_what_has_only_subscripts(x):
    x = x + 1
    told = []
    for odd in (re.match("a", "a"), torch.float32):
        try:
            told.append(list(odd))
        except TypeError as error:
            told.append(str(error))
    return x, told


def generator_that_ends(items=()):
    print(end="")
    yield from items


@program
def exhausted_generators_side_by_side(x):
    x = x + 1
    pairs = list(zip(generator_that_ends(), generator_that_ends()))
    more = list(zip(generator_that_ends([1, 2]), generator_that_ends([3])))
    return x, pairs, more, list(map(operator.add, generator_that_ends(), generator_that_ends()))


@program
def methods_of_generators_across_a_break(x):
    x = x + 1
    print(end="")
    generator = (i for i in (1, 2))
    advance, itself, send = generator.__next__, generator.__iter__, generator.send
    print(end="")
    return x, advance(), itself() is generator, send(None)


@program
def thrown_exceptions_keep_their_context(x):
    @contextlib.contextmanager
    def raising(error):
        try:
            yield
        finally:
            raise error

    x = x + 1
    first, *others = [Exception(number) for number in range(4)]
    chain = []
    try:
        with contextlib.ExitStack() as stack:
            for other in reversed(others):
                stack.enter_context(raising(other))
            raise first
    except Exception as error:
        while error is not None:
            chain.append(error.args)
            error = error.__context__
    return x, chain


def numbers(count):
    total = 0
    for number in range(count):
        pellucid.graph_break()
        yield number + total
        total += 1


def plain_numbers(count):
    yield from range(count)


class AsksOften:
    """An iterator that notes each call of __iter__."""

    def __init__(self):
        self.asked = self.given = 0

    def __iter__(self):
        self.asked += 1
        return self

    def __next__(self):
        if self.given == 3:
            raise StopIteration
        self.given += 1
        return self.given


@program
def islice_of_a_generator_behind_a_break(x):
    g = numbers(4)
    first = next(g)
    return x + 1, first, list(itertools.islice(g, 2)), list(g)


@program
def islice_in_a_handler(x):
    try:
        raise KeyError
    except KeyError:
        g = numbers(6)
        first = next(g)
        rest = [number for number in itertools.islice(g, 1, 4, 2)]
    return x + 1, first, rest, next(g, None)


@program
def bounds_that_islice_refuses(x):
    g = plain_numbers(3)
    return (
        x + 1,
        error_of(itertools.islice, g, -1),
        error_of(itertools.islice, g, 1.5),
        error_of(itertools.islice, g, 0, 2, 0),
        error_of(itertools.islice, 3, 2),
        list(itertools.islice(g, None)),
    )


@program
def throw_into_a_generator_that_did_not_start(x):
    def thrown(error):
        try:
            raise OSError("handled")
        except OSError:
            return error_of(plain_numbers(1).throw, error)

    over = plain_numbers(0)
    list(over)
    kinds = [thrown(ValueError(1)), thrown(StopIteration(2))] if x.shape[0] else []
    try:
        raise OSError("handled")
    except OSError:
        kinds.append(error_of(over.throw, KeyError(3)))
    return x + 1, kinds


@program
def iterators_asked_for_their_iterator_once(x):
    asked = []
    for use in (
        lambda i: functools.reduce(operator.add, i),
        lambda i: functools.reduce(operator.add, i, 1),
        lambda i: list(itertools.accumulate(i)),
        lambda i: list(itertools.dropwhile(lambda n: n < 2, i)),
        lambda i: list(itertools.islice(i, 2)),
    ):
        iterator = AsksOften()
        asked.append((use(iterator), iterator.asked))
    return x + 1, asked


@program
def what_cannot_be_iterated(x):
    return (
        x + 1,
        error_of(functools.reduce, operator.add, 3),
        error_of(functools.reduce, operator.add, []),
        error_of(itertools.takewhile, bool, 3),
        error_of(itertools.dropwhile, bool, None),
        error_of(itertools.starmap, pow, 1.5),
        error_of(itertools.accumulate, 1),
    )


def test_islice_of_an_outside_generator_is_taken_at_each_call():
    def f(x, g):
        return x + 1, list(itertools.islice(g, 2))

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(3):
        g = plain_numbers(4)
        assert compiled(torch.ones(1), g)[1] == [0, 1]
        assert list(g) == [2, 3]
    assert backend.count > 0


def test_traceback_of_a_generator_that_did_not_start():
    def f(x):
        plain_numbers(1).throw(ValueError(1))
        return x + 1

    def places(function):
        with pytest.raises(ValueError, match="1") as info:
            function(torch.ones(1))
        frames = traceback.extract_tb(info.value.__traceback__)
        return [(frame.name, frame.lineno, frame.colno, frame.end_colno) for frame in frames][1:]

    assert places(pellucid.compile(f, backend="eager")) == places(f)


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_as_eager(f):
    check_tensor_program(f)
