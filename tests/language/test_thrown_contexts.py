"""throw() and close() of generators that delegate: the context and the traceback of what comes out."""

from __future__ import annotations

import itertools
import sys
import traceback

import pytest
import torch

from support.outcomes import assert_as_eager_each_time, whole_outcome
from support.stops import check_again

X = torch.arange(6.0).reshape(2, 3) - 1


def chain(error):
    """Each exception in the chain of contexts, with the lines of its traceback."""
    told = []
    while error is not None:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)]
        told.append((type(error), error.args, lines))
        error = error.__context__
    return told


def types(error):
    told = []
    while error is not None:
        told.append(type(error))
        error = error.__context__
    return told


def plain(log):
    yield 1


def catches_and_fails_later(log):
    try:
        yield 1
    except ValueError:
        yield 5
        raise IndexError("in") from None


def suspended_in_a_handler(log):
    try:
        raise OSError("o")
    except OSError:
        yield 1
        yield 2


def looks(log):
    try:
        yield 1
    except BaseException as error:
        log.append(chain(error))
        raise


def looks_without_traceback(log):
    try:
        yield 1
    except BaseException as error:
        log.append(types(error))
        raise


class Throws:
    def __init__(self, log):
        self.log = log

    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def throw(self, *arguments):
        self.log.append(sys.exc_info()[0])
        raise ZeroDivisionError("throw")

    def close(self):
        self.log.append(sys.exc_info()[0])
        raise ZeroDivisionError("close")


class OnlyNext:
    def __init__(self, log):
        pass

    def __iter__(self):
        return self

    def __next__(self):
        return 1


def directly(inner, log):
    yield from inner(log)


def in_a_handler(inner, log):
    try:
        raise KeyError("k")
    except KeyError:
        yield from inner(log)


def raises_another(inner, log):
    try:
        yield from in_a_handler(inner, log)
    except ValueError:
        raise TypeError("t") from None


def in_two_handlers(inner, log):
    try:
        raise TypeError("3")
    except TypeError:
        yield from in_a_handler(inner, log)


OUTERS = [directly, in_a_handler, raises_another, in_two_handlers]
INNERS = [plain, catches_and_fails_later, suspended_in_a_handler, looks, looks_without_traceback, Throws, OnlyNext]
THROWN = [ValueError("v"), GeneratorExit(), StopIteration("s"), None]  # None: close()


def program(outer, inner, thrown, tell, handles):
    def end(generator):
        return generator.close() if thrown is None else generator.throw(type(thrown)(*thrown.args))

    def run(x):
        x = x + 1
        log = []
        generator = outer(inner, log)
        next(generator)
        try:
            if handles:
                try:
                    raise AssertionError("a")
                except AssertionError:
                    log.append(end(generator))
            else:
                log.append(end(generator))
            log.append(next(generator))
        except BaseException as error:
            log.append(tell(error))
        return x * 2, log

    return run


@pytest.mark.parametrize("inner", INNERS, ids=lambda inner: inner.__name__)
@pytest.mark.parametrize("outer", OUTERS, ids=lambda outer: outer.__name__)
def test_contexts_and_tracebacks(outer, inner):
    counts = set()
    for thrown, handles in itertools.product(THROWN, [False, True]):
        run = program(outer, inner, thrown, chain, handles)
        _, graphs = assert_as_eager_each_time(run, lambda: (X.clone(),), calls=2)
        counts.add(graphs)
    # extract_tb looks at frames, so each splits; what left a handler of a generator does not cross that
    assert counts <= ({0, 1, 2} if inner is suspended_in_a_handler else {1, 2})


@pytest.mark.parametrize("outer", OUTERS, ids=lambda outer: outer.__name__)
def test_contexts_in_one_graph(outer):
    for inner, thrown, handles in itertools.product([plain, looks_without_traceback, OnlyNext], THROWN, [False, True]):
        run = program(outer, inner, thrown, types, handles)
        _, graphs = assert_as_eager_each_time(run, lambda: (X.clone(),), calls=2)
        assert graphs == 1


@pytest.mark.parametrize("thrown", THROWN, ids=repr)
def test_stopped_on_the_way(thrown):
    def ends_with_a_print(log):
        try:
            yield 1
        finally:
            print("inner", sys.exc_info()[0])

    for outer in OUTERS:
        run = program(outer, ends_with_a_print, thrown, types, True)
        check_again(run, whole_outcome(run, X.clone()))
