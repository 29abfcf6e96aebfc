"""Operators that fail when the compiled graph runs: what the program sees is what it sees in eager Python."""

from __future__ import annotations

import logging

import pytest
import torch

import pellucid
from support import same

X = torch.arange(3.0)
GOOD, BAD = torch.tensor([0, 1]), torch.tensor([0, 7])


def test_effects_before_the_error_happen_and_later_ones_do_not(counting):
    def f(x, index, log):
        log.append("before")
        y = x.index_select(0, index)
        log.append("after")
        return y + 1

    compiled = pellucid.compile(f, backend=counting)
    log: list = []
    assert same(compiled(X, GOOD, log), X[:2] + 1) and log == ["before", "after"]
    log = []
    compiled(X, GOOD, log)
    count = counting.count
    log.clear()
    with pytest.raises(IndexError) as caught:
        compiled(X, BAD, log)
    assert log == ["before"] and counting.count == count
    assert caught.traceback[-1].name == "f" and caught.value.__context__ is None
    with pytest.raises(IndexError) as eager:
        f(X, BAD, [])
    assert str(caught.value) == str(eager.value)


def test_the_programs_handler_sees_it(counting):
    def f(x, index):
        try:
            y = x.index_select(0, index)
        except IndexError:
            y = x - 1
        return y * 2

    compiled = pellucid.compile(f, backend=counting)
    for index in (GOOD, BAD, GOOD, BAD):
        assert same(compiled(X, index), f(X, index))
    assert counting.count == 1


def test_written_inputs_are_not_written_twice():
    def f(x, index):
        x.add_(1)
        return x.index_select(0, index)

    compiled = pellucid.compile(f, backend="eager")
    x = X.clone()
    assert same(compiled(x, GOOD), X[:2] + 1)
    with pytest.raises(IndexError):
        compiled(x, BAD)
    assert same(x, X + 2)


def test_grad_mode_is_put_back():
    def f(x, index):
        with torch.no_grad():
            return x.index_select(0, index)

    compiled = pellucid.compile(f, backend="eager")
    compiled(X, GOOD)
    with pytest.raises(IndexError):
        compiled(X, BAD)
    assert torch.is_grad_enabled()
    assert same(compiled(X, GOOD), X[:2])


def test_error_of_the_backends_own_code_is_told_once(caplog):
    def backend(gm, inputs):
        def broken(*args):
            raise ValueError("my own")

        return broken

    compiled = pellucid.compile(lambda x: x + 1, backend=backend)
    with caplog.at_level(logging.WARNING, logger="pellucid"):
        for _ in range(3):
            assert same(compiled(X), X + 1)
    assert len(caplog.records) == 1 and "ValueError: my own" in caplog.text


def test_interrupts_are_not_run_again():
    calls = []

    def backend(gm, inputs):
        def interrupted(*args):
            calls.append(1)
            raise KeyboardInterrupt

        return interrupted

    def f(x):
        return x + 1

    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            compiled(X)
    assert len(calls) == 2
