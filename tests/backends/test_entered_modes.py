"""Regions that begin where gradients are not recorded and turn recording on: what they write to their inputs then is seen
by autograd, with each backend."""

import pytest
import torch

import pellucid
from support import CountingOf

BACKENDS = ["eager", "aot_eager", "inductor"]


def broken(a, x):
    with torch.no_grad():
        pellucid.graph_break()
    a *= 5
    return a, x * 1


def computed(a, x):
    a = a + x
    with torch.no_grad():
        pellucid.graph_break()
    a.mul_(3).add_(x * x)
    return a, a.sum()


def entered(a, x):
    with torch.enable_grad():
        a *= 5
        return a, x * 1


def entered_and_left(a, x):
    with torch.enable_grad():
        a.mul_(2).sub_(x * x)
    a += 1  # not recorded
    with torch.enable_grad():
        return a.exp(), x * 1


def entered_in_parts(a, x):
    with torch.enable_grad():
        a[0] = x[1] * 2
        pellucid.graph_break()
        a[1:] *= 4
    return a, x


def turned_on(a, x):
    torch.set_grad_enabled(True)
    a *= 7
    return a, x * 1


def outcome(function, mode, size):
    x = torch.arange(1.0, size + 1).requires_grad_()
    a = x * 3
    before = a.detach().clone()
    with torch.set_grad_enabled(mode):
        results = function(a, x)
        left = torch.is_grad_enabled()
    torch.autograd.backward([result.sum() for result in results if result.requires_grad])
    return [result.detach() for result in results], x.grad, a.detach(), left, before


# Those that record nothing in no_grad are of the other mode.
ENTERED = [entered, entered_and_left, entered_in_parts, turned_on]
CASES = [(function, True) for function in (broken, computed, *ENTERED)] + [(function, False) for function in ENTERED]


@pytest.mark.parametrize(("function", "mode"), CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_is_recorded_as_in_eager(backend, function, mode):
    counting = CountingOf(backend)
    compiled = pellucid.compile(function, backend=counting)
    for size in (3, 3, 4, 5):
        got, wanted = outcome(compiled, mode, size), outcome(function, mode, size)
        for ours, eagers in zip(got[0], wanted[0], strict=True):
            torch.testing.assert_close(ours, eagers)
        torch.testing.assert_close(got[1:3], wanted[1:3])
        assert got[3] == wanted[3]
    assert counting.count >= 1


def test_a_compiled_form_that_raises_leaves_the_mode_as_it_was():
    calls = []

    def backend(gm, inputs):
        def compiled(*args):
            calls.append(torch.is_grad_enabled())
            raise ValueError("refused")

        return compiled

    compiled = pellucid.compile(entered, backend=backend)
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        a, _ = compiled(x.clone(), x)  # runs as it is then
        assert not torch.is_grad_enabled() and torch.equal(a, torch.full((3,), 5.0))
    assert calls == [True]


def test_the_graph_says_so_itself():
    graphs = []

    def backend(gm, inputs):
        graphs.append([node.args for node in gm.graph.nodes if node.target is torch._C._set_grad_enabled])
        return gm

    compiled = pellucid.compile(entered, backend=backend)
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        a, y = compiled(x.clone(), x)
    assert graphs == [[(False,), (True,), (False,)]] and torch.equal(a, torch.full((3,), 5.0)) and y.requires_grad
