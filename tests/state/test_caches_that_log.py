"""A function behind functools.lru_cache that logs, as those that warn once do: no graph break, and logged once."""

from __future__ import annotations

import functools
import io
import logging
import sys

import pytest
import torch

import pellucid
from support import Counting, same

X = torch.arange(3.0)
seen: list = []


@pytest.fixture
def log(request):
    """A logger that writes to memory, and that nobody has."""
    logger, stream = logging.getLogger(request.node.name), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(funcName)s %(message)s"))
    logger.propagate = False
    logger.text = stream.getvalue
    logger.only = [handler]
    yield logger
    logger.handlers = []


@functools.lru_cache(None)
def warning_once(self, *arguments, **named):
    self.warning(*arguments, **named)


@functools.cache
def noted(logger, text):
    logger.info("not shown")
    logger.warning(f"{text}!")


@functools.lru_cache
def counted(logger, text):
    logger.warning(text)
    seen.append(text)


@functools.lru_cache
def valued(logger, text):
    logger.warning(text)
    return len(text)


@functools.lru_cache
def failing(logger, text):
    logger.warning(text)
    raise ValueError(text)


@functools.lru_cache
def printing(logger, text):
    logger.warning(text)
    print(text, file=sys.stderr)


def both(f, log, calls=3):
    """What is logged by f, compiled and then eagerly; and the number of graphs."""
    log.handlers = log.only  # pytest has handlers of its own by now
    backend = Counting()
    texts, results = [], []
    for run in (pellucid.compile(f, backend=backend), f):
        for cache in (warning_once, noted, counted, valued, failing, printing):
            cache.cache_clear()
        seen.clear()
        begun = len(log.text())
        results.append([run(X + turn) for turn in range(calls)])
        sizes = [cache.cache_info().currsize for cache in (warning_once, noted, counted, valued, failing, printing)]
        texts.append((log.text()[begun:], sizes, list(seen)))
    assert same(*results) and texts[0] == texts[1] and texts[0][0]
    return backend.count


def test_one_that_warns_once_is_part_of_the_graph(log):
    def f(x):
        y = x * 2
        warning_once(log, "%s is slow", "it")
        warning_once(log, "%s is slow", "it")
        noted(log, "twice")
        return y + 1

    assert both(f, log) == 1


def test_in_its_place_between_other_lines(log):
    def f(x):
        log.warning("before")
        warning_once(log, "once")
        log.warning("behind")
        return x + 1

    assert both(f, log) == 1


def test_a_cache_that_is_cleared(log):
    def f(x):
        warning_once(log, "once")
        return x + 1

    log.handlers = log.only
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for turn in range(3):
        warning_once.cache_clear()
        assert same(compiled(X + turn), X + turn + 1) and same(compiled(X), X + 1)
        assert log.text().count("once\n") == turn + 1 and warning_once.cache_info().currsize == 1
    assert backend.count == 2


@pytest.mark.parametrize("cached", [counted, valued, printing])
def test_one_that_does_more_is_a_break(log, cached):
    def f(x):
        y = x * 2
        cached(log, "once")
        return y + 1

    assert both(f, log) == 2


def test_one_that_raises_keeps_nothing(log):
    def f(x):
        y = x * 2
        try:
            failing(log, "each time")
        except ValueError:
            y = y + 1
        return y

    assert both(f, log) >= 1


def test_a_handler_that_flushes_with_a_method_of_its_stream(log):
    def f(x):
        warning_once(log, "once")
        log.warning("each time")
        return x + 1

    handler = log.only[0]
    handler.flush = handler.stream.flush
    assert both(f, log) == 1
