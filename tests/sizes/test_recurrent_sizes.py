"""Recurrent networks over sequences and batches of changing length: torch's kernel takes as many steps as a sequence has, a
capture none of them."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import pellucid

KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *args, **options: nn.RNN(*args, nonlinearity="relu", **options),
    "projected": lambda *args, **options: nn.LSTM(*args, proj_size=3, **options),
}
SHAPES = [
    dict(zip(("batch_first", "bidirectional", "bias"), flags)) for flags in itertools.product([True, False], repeat=3)
]


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in tensors(item)]


def check_equal(got, want):
    for ours, eager in zip(tensors(got), tensors(want), strict=True):
        assert torch.equal(ours, eager)
        assert (ours.shape, ours.stride(), ours.dtype) == (eager.shape, eager.stride(), eager.dtype)
        assert ours.requires_grad == eager.requires_grad and ours.is_leaf == eager.is_leaf


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(
    "options", SHAPES, ids=lambda options: "-".join(name for name in options if options[name]) or "plain"
)
@pytest.mark.parametrize("kind", KINDS)
def test_one_graph_serves_all_lengths(kind, options, layers):
    torch.manual_seed(0)
    net = KINDS[kind](4, 6, layers, **options)

    def f(x):
        out, state = net(x)
        return out * 2, out.contiguous(), state

    compiled = pellucid.compile(f, backend="eager")
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            for length, batch in [(5, 3), (7, 3), (8, 4), (2, 9), (3, 2), (30, 5)]:
                x = torch.randn(batch, length, 4) if options["batch_first"] else torch.randn(length, batch, 4)
                check_equal(compiled(x), f(x))
    assert len(pellucid.cache_entries(compiled)) <= 4
    assert not pellucid.break_reasons(compiled)


@pytest.mark.parametrize("kind", KINDS)
def test_layouts_are_known_to_the_capture(kind):
    """A program asks for them, so they are of the capture and not of the run."""
    net = KINDS[kind](4, 6, 2, bidirectional=True, batch_first=True)

    def f(x, *state):
        out, last = net(x, *state)
        last = last if isinstance(last, tuple) else (last,)
        return [(t.shape, t.stride(), t.dtype, t.is_contiguous(), t.requires_grad, t.is_leaf) for t in (out, *last)]

    for dynamic in (False, True):
        compiled = pellucid.compile(f, backend="eager", fullgraph=True, dynamic=dynamic)
        for x in (torch.randn(3, 5, 4), torch.randn(5, 4), torch.randn(1, 1, 4), torch.randn(2, 1, 4)):
            assert compiled(x) == f(x)
        pellucid.reset()


@pytest.mark.parametrize("wrong", ["features", "state", "empty"])
def test_what_it_refuses(wrong):
    net = nn.GRU(4, 6)

    def f(x, state):
        try:
            return net(x, state)[0]
        except RuntimeError as error:
            return str(error)

    x, state = torch.randn(5, 3, 4), torch.zeros(1, 3, 6)
    if wrong == "features":
        x = torch.randn(5, 3, 5)
    elif wrong == "state":
        state = torch.zeros(1, 2, 6)
    else:
        x = torch.randn(0, 3, 4)
    compiled = pellucid.compile(f, backend="eager")
    assert compiled(x, state) == f(x, state)


def test_gradients_and_dropout():
    net = nn.LSTM(4, 6, 3, dropout=0.5)
    step = lambda x: net(x)[0].pow(2).sum()  # noqa: E731
    compiled = pellucid.compile(step, backend="eager")
    for length in (3, 5, 6, 9):
        x = torch.randn(length, 2, 4)
        grads = []
        for f in (step, compiled):
            torch.manual_seed(length)
            net.zero_grad()
            f(x).backward()
            grads.append([parameter.grad.clone() for parameter in net.parameters()])
        assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
    assert len(pellucid.cache_entries(compiled)) <= 2


def test_under_autocast():
    net = nn.LSTM(4, 6)
    compiled = pellucid.compile(lambda x: net(x), backend="eager")
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        for length in (3, 5, 6):
            x = torch.randn(length, 2, 4)
            check_equal(compiled(x), net(x))


@pytest.mark.parametrize(
    "operation", [torch.linalg.inv, lambda x: torch.linalg.solve(x, x.sum(-1)), lambda x: torch.linalg.solve(x, x.mT)]
)
def test_batches_of_matrices(operation):
    def f(x):
        try:
            made = operation(x)
        except RuntimeError as error:
            return type(error)
        return made + 1, made

    compiled = pellucid.compile(f, backend="eager")
    for batch in (2, 3, 5, 7, 4):
        x = torch.randn(batch, 3, 3) + 3 * torch.eye(3)
        check_equal(compiled(x), f(x))
    assert len(pellucid.cache_entries(compiled)) <= 2
    assert compiled(torch.zeros(4, 3, 3)) == f(torch.zeros(4, 3, 3))
