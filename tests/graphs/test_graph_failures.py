"""What a backend made of a graph raises, and the graph itself does not: it runs as captured, and in the end always does."""

from __future__ import annotations

import logging

import pytest
import torch

import pellucid

X = torch.arange(4.0)


def records_of(caplog):
    return [record for record in caplog.records if record.name == "pellucid"]


class Failing:
    """A backend whose graphs raise where `raises` says so. Counts the calls of the backend and of its graphs."""

    def __init__(self, raises=lambda call: RuntimeError("of the backend's")):
        self.raises = raises
        self.backend_calls = self.graph_calls = 0

    def __call__(self, gm, example_inputs):
        self.backend_calls += 1

        def graph(*inputs):
            self.graph_calls += 1
            error = self.raises(self.graph_calls)
            if error is not None:
                raise error
            return gm.forward(*inputs)

        return graph


def test_given_up_with_one_warning(caplog):
    def f(x, buffer):
        buffer.add_(1)
        return x * buffer + torch.rand(4)

    backend = Failing()
    compiled = pellucid.compile(f, backend=backend)
    ours, theirs = torch.zeros(4), torch.zeros(4)
    with caplog.at_level(logging.INFO, "pellucid"):
        for call in range(6):
            torch.manual_seed(call)
            want = f(X, theirs)
            torch.manual_seed(call)
            assert torch.equal(compiled(X, ours), want) and torch.equal(ours, theirs)
            assert ours._version == theirs._version
    assert (backend.backend_calls, backend.graph_calls) == (1, 3)
    [record] = records_of(caplog)
    assert record.levelno == logging.WARNING and "of the backend's" in record.message
    assert "test_graph_failures.py" in record.message and "graph_failure_limit" in record.message
    compiled(X + 1.0, torch.ones(4))
    assert backend.graph_calls == 3
    pellucid.reset()
    compiled(X, ours)
    assert (backend.backend_calls, backend.graph_calls) == (2, 4)


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_limit(limit):
    backend = Failing()
    with pellucid.config.patch(graph_failure_limit=limit):
        compiled = pellucid.compile(lambda x: x + 1, backend=backend)
        for _ in range(10):
            assert torch.equal(compiled(X), X + 1)
    assert backend.graph_calls == (limit or 10)


def test_only_failures_in_a_row_and_of_one_type():
    errors = [RuntimeError, RuntimeError, None, RuntimeError, RuntimeError, ValueError, RuntimeError, RuntimeError]
    backend = Failing(lambda call: errors[call - 1] and errors[call - 1]("x") if call <= len(errors) else None)
    compiled = pellucid.compile(lambda x: x + 1, backend=backend)
    for _ in range(12):
        assert torch.equal(compiled(X), X + 1)
    assert backend.graph_calls == 12


@pytest.mark.parametrize("backend", ["aot_eager", "counting"])
@pytest.mark.parametrize("handled", [False, True])
def test_errors_of_the_program_are_not_the_graphs(backend, handled, caplog):
    failing = Failing(lambda call: None)

    def raising(x, index):
        return x[index] + 1

    def handling(x, index):
        try:
            return x[index] + 1
        except IndexError:
            return x - 1

    f = handling if handled else raising
    compiled = pellucid.compile(f, backend=failing if backend == "counting" else backend)
    good, bad = torch.tensor([1]), torch.tensor([7])
    assert torch.equal(compiled(X, good), f(X, good))
    for _ in range(8):
        if handled:
            assert torch.equal(compiled(X, bad), X - 1)
        else:
            with pytest.raises(IndexError):
                compiled(X, bad)
    assert torch.equal(compiled(X, good), f(X, good))
    assert not records_of(caplog)
    if backend == "counting":
        assert (failing.backend_calls, failing.graph_calls) == (1, 10)


def test_interruptions_are_raised():
    backend = Failing(lambda call: KeyboardInterrupt())
    compiled = pellucid.compile(lambda x, y: y.add_(x), backend=backend)
    y = torch.zeros(4)
    with pytest.raises(KeyboardInterrupt):
        compiled(X, y)
    assert torch.equal(y, torch.zeros(4))


def test_behind_a_break(caplog):
    def f(x):
        y = x + 1
        pellucid.graph_break()
        return y * 2

    backend = Failing()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(5):
        assert torch.equal(compiled(X), f(X))
    assert (backend.backend_calls, backend.graph_calls) == (2, 6)
    assert len(records_of(caplog)) == 2


def test_gradients_of_a_graph_given_up():
    backend = Failing()
    compiled = pellucid.compile(lambda x: (x * x).sum(), backend=backend)
    for _ in range(5):
        x = X.clone().requires_grad_()
        compiled(x).backward()
        assert torch.equal(x.grad, 2 * X)
    assert backend.graph_calls == 3
