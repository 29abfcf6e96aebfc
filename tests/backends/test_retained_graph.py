"""A backward pass that keeps its graph, behind backends that run AOTAutograd."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pellucid
from support import CountingOf


class Counted(nn.Module):
    """A field of a differential equation, as solvers call it: it counts its evaluations."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
        self.evaluations = 0

    def forward(self, t, y):
        self.evaluations += 1
        return self.net(y) * torch.cos(t)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_number_that_no_graph_gets_may_change(backend):
    torch.manual_seed(0)
    field, t = Counted(), torch.tensor(0.3)
    counting = CountingOf(backend)
    compiled = pellucid.compile(field, backend=counting)
    with torch.no_grad():
        for _ in range(3):
            compiled(t, torch.randn(3, 2))
    for call in range(3):
        y = torch.randn(3, 2, requires_grad=True)
        wanted, got = (
            torch.autograd.grad(f(t, y), (y, *field.parameters()), torch.ones(3, 2), retain_graph=True)
            for f in (field, compiled)
        )
        for one, other in zip(wanted, got, strict=True):
            torch.testing.assert_close(one, other)
        assert field.evaluations == 3 + 2 * (call + 1)
    assert counting.count == 3
