"""An autograd.Function that gives a view: its gradients, whatever else of that memory leaves the graph."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

import pellucid

BACKENDS = ["eager", "aot_eager"]


class Reversed(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


class WithItsView(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        return y, y.view(-1)

    @staticmethod
    def backward(ctx, grad, grad_of_view):
        return grad * 2 + grad_of_view.view_as(grad) * 3


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 5  # not the real one: it shows whose backward ran


def beside_what_it_gets(x):
    h = x.sin()
    return h, Reversed.apply(h)


def beside_its_part(x):
    r = Reversed.apply(x.sin())
    return r, r[0]


def parts_of_an_input(x):
    r = Reversed.apply(x)
    return r[0], r[1]


def two_results(x):
    return WithItsView.apply(x)


def called_twice(x):
    h = x.sin()
    return Reversed.apply(h), Reversed.apply(h)


def in_a_checkpoint(x):
    h = x.sin()
    return h, checkpoint(Reversed.apply, h, use_reentrant=False)


# These stay one graph with a compiler.
def alone(x):
    return Reversed.apply(x.sin()).t()


def of_an_input(x):
    return x, Reversed.apply(x)


def used_inside(x):
    h = x.sin()
    return h, Reversed.apply(h) * 2


def given_back(x):
    h = x.sin()
    return h[0], Doubled.apply(h)


def written_behind_a_break(x):
    h = x.sin()
    torch._dynamo.graph_break()  # now `h` is an input of the graph
    return Doubled.apply(h).cos(), h * 3


def its_part_written_behind_a_break(x):
    h = x.sin()
    torch._dynamo.graph_break()
    Doubled.apply(h[0])
    return h.cos()


def observed(f, x):
    x = x.clone().requires_grad_()
    results = f(x)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum((result * result).sum() * (i + 1) for i, result in enumerate(results))
    loss.backward()
    memory = [result.untyped_storage().data_ptr() == results[0].untyped_storage().data_ptr() for result in results]
    strides = [result.stride() for result in results]
    return [x.grad, *(result.detach() for result in results)], memory, strides


def compare(f, backend):
    compiled = pellucid.compile(f, backend=backend)
    for seed in range(2):
        torch.manual_seed(seed)
        x = torch.randn(2, 3)
        got, want = observed(compiled, x), observed(f, x)
        torch.testing.assert_close(got[0], want[0])
        assert got[1:] == want[1:]
    return pellucid.counters()["graphs"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f, graphs",  # with a compiler; what the function itself computes is one of them, parts that make views are none
    [
        (beside_what_it_gets, 2),
        (beside_its_part, 2),
        (parts_of_an_input, 1),
        (two_results, 1),
        (called_twice, 2),
        (in_a_checkpoint, 1),
    ],
)
def test_gradients_are_the_functions_where_its_view_shares_memory_with_other_results(f, graphs, backend):
    assert compare(f, backend) == (1 if backend == "eager" else graphs)
    codes = [record.code for record in pellucid.break_reasons()]
    assert codes == [] if backend == "eager" else codes[0] == "PEL0121"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [written_behind_a_break, its_part_written_behind_a_break])
def test_gradients_are_the_functions_where_it_writes_to_an_input(f, backend):
    assert compare(f, backend) >= 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [alone, of_an_input, used_inside, given_back])
def test_a_view_that_is_no_risk_stays_in_the_graph(f, backend):
    assert compare(f, backend) == 1
    assert pellucid.break_reasons() == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_to_the_view_raises_as_in_eager(backend):
    def f(x):
        r = Reversed.apply(x.sin())
        part = r.t()
        part.add_(1)
        return r

    x = torch.randn(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        f(x)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        pellucid.compile(f, backend=backend)(x)


def test_fullgraph_says_why():
    with pytest.raises(pellucid.errors.Unsupported, match="it gives a view"):
        pellucid.compile(beside_what_it_gets, backend="aot_eager", fullgraph=True)(torch.ones(2, 3, requires_grad=True))
