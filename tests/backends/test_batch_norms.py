"""Batch norms whose momentum is a number that the graph computes or is given: statistics are eager's, bit for bit."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import update_bn

import pellucid
from support import CountingOf, FailsWithItems


def nets():
    last = torch.channels_last
    return {
        "two": (
            nn.Sequential(nn.Linear(3, 4), averaging(nn.BatchNorm1d, 4), nn.ReLU(), averaging(nn.BatchNorm1d, 4)),
            (5, 3),
        ),
        "convolution": (nn.Sequential(nn.Conv2d(3, 4, 3), averaging(nn.BatchNorm2d, 4)), (2, 3, 6, 6)),
        "channels last": (
            nn.Sequential(nn.Conv2d(3, 4, 3), averaging(nn.BatchNorm2d, 4)).to(memory_format=last),
            (2, 3, 6, 6),
        ),
        "no weight": (averaging(nn.BatchNorm2d, 3, affine=False), (2, 3, 6, 6)),
        "no statistics": (averaging(nn.BatchNorm2d, 3, track_running_stats=False), (2, 3, 6, 6)),
        "double": (averaging(nn.BatchNorm3d, 3).double(), (2, 3, 3, 3, 3)),
        "bfloat16": (averaging(nn.BatchNorm2d, 3).bfloat16(), (2, 3, 6, 6)),
    }


def averaging(kind, features, **options):
    return kind(features, momentum=None, **options)


def step(f, net, x):
    net.zero_grad()
    x = x.clone().requires_grad_()
    y = f(x)
    (y * torch.linspace(0, 1, y.numel()).to(y.dtype).view_as(y)).sum().backward()
    gradients = [x.grad, *(parameter.grad for parameter in net.parameters() if parameter.grad is not None)]
    return [y.detach(), *(buffer.clone() for buffer in net.buffers())], gradients


def check(net, shape, compiled, dtype=torch.float32, calls=6):
    """Calls both, the compiled one of `net`. The fifth call is none of training."""
    reference = copy.deepcopy(net)
    for call in range(calls):
        x = torch.randn(shape).to(dtype)
        for one in (net, reference):
            one.train(call != 4)
        got, want = step(compiled, net, x), step(reference, reference, x)
        assert all(torch.equal(one, other) for one, other in zip(got[0], want[0], strict=True))
        torch.testing.assert_close(got[1], want[1], atol=1e-4, rtol=1e-4)  # AOTAutograd lays some out otherwise


@pytest.mark.parametrize("name", nets())
def test_one_that_averages_over_all_calls_is_one_graph(name):
    torch.manual_seed(0)
    net, shape = nets()[name]
    compiled = pellucid.compile(net, backend=(counting := CountingOf("aot_eager")), fullgraph=True)
    check(net, shape, compiled, {"double": torch.float64, "bfloat16": torch.bfloat16}.get(name, torch.float32))
    assert counting.count <= 2  # one for eval()


def test_without_fullgraph_too():
    """The program's own item() ends a region for backends that compile; that of torch's batch norms does not."""
    net = nn.Sequential(nn.Linear(3, 4), averaging(nn.BatchNorm1d, 4), nn.ReLU())
    compiled = pellucid.compile(net, backend=(counting := CountingOf("aot_eager")))
    check(net, (5, 3), compiled, calls=12)
    assert counting.count <= 2 and not pellucid.break_reasons(compiled)


def test_a_backend_that_fails_with_the_number_gets_graphs_without():
    net = averaging(nn.BatchNorm1d, 3)
    check(net, (5, 3), pellucid.compile(net, backend=(counting := FailsWithItems("aot_eager"))), calls=4)
    assert len(counting.failed) == 1 and counting.count > 0


def test_statistics_of_averaged_weights():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
    reference = copy.deepcopy(net)
    compiled = pellucid.compile(net, backend=(counting := CountingOf("aot_eager")))
    data = [torch.randn(5, 3) for _ in range(12)]
    update_bn(data, compiled)
    update_bn(data, reference)
    assert all(torch.equal(got, want) for got, want in zip(net.buffers(), reference.buffers(), strict=True))
    assert counting.count == 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_momentum_that_changes(backend, by_keyword):
    def positional(x, mean, var, momentum):
        return F.batch_norm(x, mean, var, None, None, True, momentum) * momentum

    def keywords(x, mean, var, momentum):
        return F.batch_norm(x, mean, var, training=True, momentum=momentum) * momentum

    program = keywords if by_keyword else positional
    compiled = pellucid.compile(program, backend=(counting := CountingOf(backend)), fullgraph=True)
    got, want = [torch.zeros(3), torch.ones(3)], [torch.zeros(3), torch.ones(3)]
    for momentum in (0.1, 0.2, 0.35, 0.5, 0.0, 1.0):
        x = torch.randn(4, 3)
        torch.testing.assert_close(compiled(x, *got, momentum), program(x, *want, momentum))
        torch.testing.assert_close(got, want)
        if backend == "aot_eager":
            assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])
    assert counting.count <= 3


def test_an_eps_that_changes_is_a_constant_of_each_graph():
    def program(x, eps):
        return F.batch_norm(x, None, None, training=True, eps=eps)

    compiled = pellucid.compile(program, backend=(counting := CountingOf("aot_eager")), fullgraph=True)
    x = torch.randn(4, 3)
    for eps in (1e-5, 1e-3, 1e-1):
        assert torch.equal(compiled(x, eps), program(x, eps))
    assert counting.count == 3


def test_a_batch_of_one_raises_as_in_eager():
    net = averaging(nn.BatchNorm1d, 3)
    compiled = pellucid.compile(net, backend="aot_eager", fullgraph=True)
    compiled(torch.randn(4, 3))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        net(torch.randn(1, 3))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        compiled(torch.randn(1, 3))
