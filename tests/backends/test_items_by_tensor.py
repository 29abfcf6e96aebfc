"""An item of a tensor by a tensor without dimensions, with a compiler: while its value stays it is a constant of the graph;
once another one is met the graph reads it. As an end of a slice it runs eagerly then, and the rest is captured."""

from __future__ import annotations

import pytest
import torch

import pellucid

TABLE = torch.arange(10.0)


def by_one(x, t):
    return x * TABLE[t]


def written(x, t):
    y = x.clone()
    y[t] = 5.0
    return y


def sliced(x, t):
    return x[t : t + 2] + x[t]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "f, graphs",
    [
        (by_one, {"eager": 1, "aot_eager": 2}),
        (written, {"eager": 1, "aot_eager": 2}),
        (sliced, {"eager": 3, "aot_eager": 3}),
    ],
)
def test_an_index_without_dimensions_is_no_error_of_the_compiler(f, graphs, backend):
    compiled = pellucid.compile(f, backend=backend)
    for at in (3, 2, 0):
        x = torch.ones(6, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        got, want = compiled(x, torch.tensor(at)), f(y, torch.tensor(at))
        got.sum().backward()
        want.sum().backward()
        torch.testing.assert_close(got, want, rtol=0, atol=0)
        torch.testing.assert_close(x.grad, y.grad, rtol=0, atol=0)
    assert pellucid.counters()["graphs"] == graphs[backend]
    if backend == "aot_eager":
        assert {record.code for record in pellucid.break_reasons()} == ({"PEL0201"} if f is sliced else set())
