"""Every form of the call of pellucid.compile (docs/feature_rows.md, A02)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pellucid


# A02: every form of the call. Bare and empty parentheses mean the default backend, Inductor.
def plain(x, scale=2.0):
    return x * scale + 1


@pellucid.compile
def bare(x, scale=2.0):
    return x * scale + 1


@pellucid.compile()
def empty_parentheses(x, scale=2.0):
    return x * scale + 1


@pellucid.compile(backend="eager")
def with_backend(x, scale=2.0):
    return x * scale + 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, scale=1.0):
        return self.linear(x) * scale


@pytest.mark.parametrize("form", ["bare", "empty parentheses", "backend=", "function", "module"])
def test_A02_call_forms(form):
    net = Net()
    compiled, eager = {
        "bare": (bare, plain),
        "empty parentheses": (empty_parentheses, plain),
        "backend=": (with_backend, plain),
        "function": (pellucid.compile(plain, backend="eager"), plain),
        "module": (pellucid.compile(net, backend="eager"), net),
    }[form]
    x = torch.arange(3.0)
    for arguments in ((x,), (x, 3.0), (x,)):
        assert torch.allclose(compiled(*arguments), eager(*arguments))
    counts = pellucid.counters()
    assert (counts["graphs"], counts["ops"], counts["stops"]) == (2, 4, 0)
