"""Exceptions that leave a compiled function, or that it catches, are eager's: type, message, cause, context, notes, user frames with columns."""

from __future__ import annotations

import linecache
import traceback

import pytest
import torch
from exception_programs import (
    BAD,
    PROGRAMS,
    break_in_callee,
    break_in_try,
    finally_returns,
    op_caught_and_raised,
    op_in_generator,
    op_index,
)

import pellucid
from support import same
from support.outcomes import told

X = torch.arange(6.0).reshape(2, 3)
OURS = ("pellucid/", "<pellucid")


def caller(f, x):
    return f(x)


def text_and_all(f, x):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        try:
            return "value", caller(f, x), None
        except BaseException as error:
            text = "".join(traceback.TracebackException.from_exception(error).format())
            return "raised", text, told(error)


def raises_as_eager(program, compiled, x=X):
    want, got = text_and_all(program, x.clone()), text_and_all(compiled, x.clone())
    assert got[0] == want[0], (want, got)
    if want[0] == "value":
        assert torch.equal(got[1], want[1]) if isinstance(want[1], torch.Tensor) else True
        return False
    assert not any(word in got[1] for word in OURS), got[1]
    assert got[1] == want[1]
    assert same(got[2], want[2])
    return True


@pytest.fixture(autouse=True)
def lines_as_they_are():
    linecache.checkcache(__file__)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program, either_mode):
    compiled = pellucid.compile(program, backend="eager")
    for _ in range(3):
        raised = raises_as_eager(program, compiled)
    assert raised or program in (finally_returns,)


def test_there_are_programs():
    assert len(PROGRAMS) > 80


@pytest.mark.parametrize("program", [op_index, op_caught_and_raised, break_in_try, break_in_callee, op_in_generator])
@pytest.mark.parametrize("backend", ["aot_eager", lambda gm, inputs: gm.forward], ids=["aot_eager", "user"])
def test_other_backends(program, backend, either_mode):
    compiled = pellucid.compile(program, backend=backend)
    for _ in range(3):
        assert raises_as_eager(program, compiled)
    captured = pellucid.config.continue_after_break or not program.__name__.startswith("break")
    assert pellucid.counters()["graphs"] >= captured


def inner_of_method(self, x):
    return self.table[x.dim() + 5]


class Model(torch.nn.Module):
    """Frames of torch's own nn.Module.__call__ are eager's too."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.table = [1]

    def forward(self, x):
        y = self.linear(x)
        if self.how == "python":
            return y + inner_of_method(self, x)
        if self.how == "index":
            return y[BAD]
        return y @ y


@pytest.mark.parametrize("how", ["python", "index", "shape"])
def test_modules(how, either_mode):
    model = Model()
    model.how = how
    for program, compiled in [
        (model.forward, pellucid.compile(model.forward, backend="eager")),
        (Model.__call__.__get__(model), pellucid.compile(Model.__call__.__get__(model), backend="eager")),
    ]:
        for _ in range(2):
            assert raises_as_eager(program, compiled)


def summary(error, depth=0):
    """What a program can ask of an exception without its traceback."""
    if error is None or depth > 5:
        return None
    group = [summary(e, depth + 1) for e in error.exceptions] if isinstance(error, BaseExceptionGroup) else None
    return (
        type(error).__name__,
        str(error),
        error.__suppress_context__,
        getattr(error, "__notes__", None),
        group,
        summary(error.__cause__, depth + 1),
        summary(error.__context__, depth + 1),
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_caught_inside(program, either_mode):
    """The handler is in the compiled function too."""

    def asks(x):
        try:
            program(x + 1)
        except BaseException as error:
            return summary(error), x * 2
        return None, x

    def formats(x):
        try:
            program(x + 1)
        except BaseException as error:
            return traceback.format_exception(error), x * 2
        return None, x

    def gives(x):
        try:
            program(x + 1)
        except BaseException as error:
            return error, x * 2
        return None, x

    for f in (asks, formats, gives):
        compiled = pellucid.compile(f, backend="eager")
        for _ in range(2):
            want, got = f(X.clone()), compiled(X.clone())
            if f is gives:
                want, got = [(told(error), tensor) for error, tensor in (want, got)]
            assert same(got[0], want[0]), f
            assert torch.equal(got[1], want[1])


def test_backward(either_mode):
    def hooked(w):
        y = w.exp()

        def hook(grad):
            return grad[BAD]

        y.register_hook(hook)
        return y.sum()

    def twice(w):
        return (w * 2).exp().sum()

    def changed(w):
        y = w.exp()
        z = y * 2
        y += 1
        return z.sum() + y.sum()

    def backward(f):
        w = torch.ones(3, requires_grad=True)
        loss = f(w)
        try:
            loss.backward()
            loss.backward()
        except Exception as error:
            return type(error), str(error), told(error).frames[1:]
        raise AssertionError("nothing failed")

    for program in (hooked, twice, changed):
        compiled = pellucid.compile(program, backend="eager")
        assert backward(compiled) == backward(program)
        assert backward(compiled) == backward(program)
