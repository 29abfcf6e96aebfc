"""A part of a program with graph breaks that only makes views runs as it is, and no backend gets it."""

from __future__ import annotations

import pytest
import torch

import pellucid
from support import Counting

SEEN = []


def broken(x):
    y = x * 2
    pellucid.graph_break()
    return y.t()[1:].detach(), y


def begins_with_views(x):
    y = x.t()
    pellucid.graph_break()
    return y.exp(), y


def of_views(x):
    return x.t()[1:].unsqueeze(0)


def views_and_a_sum(x):
    y = x * 2
    pellucid.graph_break()
    return y.t(), y.sum()


def writes_to_a_view(x):
    y = x * 2
    pellucid.graph_break()
    y.t()[0] = 5
    return y


def view_of_a_copy(x):
    y = x * 2
    pellucid.graph_break()
    return y.t().contiguous(), y.reshape(-1)


@pytest.mark.parametrize(
    "f, graphs",
    [
        (broken, 1),
        (begins_with_views, 1),
        (of_views, 1),
        (views_and_a_sum, 2),
        (writes_to_a_view, 2),
        (view_of_a_copy, 2),
    ],
)
def test_the_backend_gets_what_computes(f, graphs):
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for rows in (3, 3, 4, 5):  # also with sizes that are open
        x = torch.randn(rows, 4)
        got, expected = compiled(x), f(x)
        for mine, its in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, expected)), strict=True):
            assert torch.equal(mine, its)
            assert (mine.stride(), mine.storage_offset()) == (its.stride(), its.storage_offset())
    assert backend.count == graphs * 2  # for the first sizes, and for all


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_views_are_those_of_eager(backend):
    def f(x):
        y = x * 2
        pellucid.graph_break()
        return y, y.t()[1:]

    compiled = pellucid.compile(f, backend=backend)
    x = torch.randn(3, 4, requires_grad=True)
    before = pellucid.counters()["graphs"]
    y, view = compiled(x)
    assert pellucid.counters()["graphs"] == before + 1
    assert view._base is not None and view.data_ptr() == y.data_ptr() + y.element_size()
    assert type(view.grad_fn).__name__ == type(f(x)[1].grad_fn).__name__
    view.sum().backward()
    expected = torch.autograd.grad(f(x)[1].sum(), x)[0]
    assert torch.equal(x.grad, expected)


def test_a_write_through_the_view_is_seen():
    backend = Counting()
    compiled = pellucid.compile(lambda x: broken(x), backend=backend)
    x = torch.randn(3, 4)
    view, y = compiled(x)
    view.fill_(7)
    assert (y[:, 1:] == 7).all()
    assert backend.count == 1
