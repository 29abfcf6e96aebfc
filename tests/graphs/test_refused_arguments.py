"""Numbers and texts that a kernel refuses before it looks at any element: eager's error, with every backend."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import pellucid
from support import CountingOf

REFUSED = {
    "gelu": lambda x: F.gelu(x, approximate="bad"),
    "quantile": lambda x: torch.quantile(x, 0.5, interpolation="bad"),
    "nanquantile": lambda x: torch.nanquantile(x, 0.5, interpolation="bad"),
    "randint": lambda x: x + torch.randint(3, 1, (4,)),
    "random_": lambda x: x.clone().random_(3, 1),
    "random_ to": lambda x: x.clone().random_(0),
    "uniform_": lambda x: x.clone().uniform_(1, 0),
    "exponential_": lambda x: x.clone().exponential_(-1),
    "geometric_": lambda x: x.clone().geometric_(2),
    "cauchy_": lambda x: x.clone().cauchy_(0, -1),
    "log_normal_": lambda x: x.clone().log_normal_(0, -1),
    "normal_": lambda x: x.clone().normal_(0, -1),
    "bernoulli_": lambda x: x.clone().bernoulli_(2.0),
}

# What the check of a range is too strict for, and kernels take.
TAKEN = {
    "normal_ without a width": lambda x: x.clone().normal_(1, 0),
    "bernoulli_ of one": lambda x: x.clone().bernoulli_(1.0),
    "uniform_ of one number": lambda x: x.clone().uniform_(1, 1),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "quantile": lambda x: torch.quantile(x, 0.5, interpolation="lower"),
}


def outcome(f, x):
    torch.manual_seed(3)
    try:
        gave = f(x)
    except Exception as error:
        gave = (type(error), str(error))
    return gave, torch.rand(2), x


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_kernel_refuses_is_an_error_of_the_program(name, backend):
    def f(x):
        return REFUSED[name](x * 2)

    x = torch.linspace(-1, 1, 8).view(2, 4)
    eager, drawn, _ = outcome(f, x.clone())
    assert isinstance(eager, tuple)
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        gave, drawn_behind, after = outcome(compiled, x.clone())
        assert gave == eager
        assert torch.equal(drawn, drawn_behind) and torch.equal(after, x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", TAKEN)
def test_what_a_kernel_takes_is_captured(name, backend):
    counting = CountingOf(backend)
    x = torch.linspace(-1, 1, 8).view(2, 4)
    gave, drawn, _ = outcome(pellucid.compile(TAKEN[name], backend=counting, fullgraph=True), x)
    eager, drawn_by_eager, _ = outcome(TAKEN[name], x)
    torch.testing.assert_close(gave, eager)
    assert torch.equal(drawn, drawn_by_eager) and counting.count == 1
