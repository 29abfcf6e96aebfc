"""Options that leave numbers, sizes of parameters or marked sizes what they are: as torch._dynamo.config has them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pellucid
from pellucid import backends
from pellucid.errors import ConstraintViolation
from support import Counting
from support.calls import ramp


def graphs(function, *calls, **settings):
    """How many graphs the calls make, each compared with eager."""
    counting = Counting()
    compiled = pellucid.compile(function, backend=counting, **settings)
    for arguments in calls:
        got = compiled(*arguments)  # may raise
        assert torch.equal(got, function(*arguments))
    return counting.count


def scaled(x, n):
    return x * n


INTS = [(ramp(3), n) for n in (2, 3, 4, 5)]
FLOATS = [(ramp(3), n) for n in (2.5, 3.5, 4.5, 5.5)]
SIZES = [(ramp(n), 2) for n in (2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("option", "made"),
    [(None, (2, 2, 2)), ("specialize_int", (4, 2, 2)), ("specialize_float", (2, 4, 2))],
)
def test_ints_and_floats(option, made):
    with pellucid.config.patch({option: True} if option else {}):
        assert tuple(graphs(scaled, *calls) for calls in (INTS, FLOATS, SIZES)) == made


def test_ints_of_objects_classes_and_tuples():
    class Held:
        of_class = 0

        def __init__(self, n):
            self.number = n

    def f(x, held, pair):
        return x * held.number + held.of_class - pair[1]

    def calls():
        for n in (2, 3, 4, 5):
            Held.of_class = n
            yield ramp(3), Held(n), (1, n)

    assert graphs(f, *calls()) <= 2
    with pellucid.config.patch(specialize_int=True):
        assert graphs(f, *calls()) == 4


def test_with_dynamic_true():
    with pellucid.config.patch(specialize_int=True):
        assert graphs(scaled, *INTS, dynamic=True) == 4
        assert graphs(scaled, *SIZES, dynamic=True) == 1


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(ramp(n, 3))

    def forward(self, x):
        return (x * self.weight).sum(1) + self.weight.shape[0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_of_parameters(backend):
    def run():
        graphs = []

        def counting(gm, inputs):
            graphs.append(gm)
            return backends.lookup_backend(backend)(gm, inputs)

        counting.takes_numbers = backend == "eager"
        net = Net(2)
        compiled = pellucid.compile(lambda x: net(x), backend=counting)
        for n in (2, 3, 4, 5):
            net.weight = nn.Parameter(ramp(n, 3))
            mine, its = compiled(ramp(n, 3)), net(ramp(n, 3))
            assert torch.equal(mine, its)
            gradients = [torch.autograd.grad(result.sum(), net.weight)[0] for result in (mine, its)]
            assert torch.equal(*gradients)
        return len(graphs)

    # AOTAutograd's first graph of a process comes twice.
    pellucid.compile(lambda x: x + 1, backend=backend)(ramp(2))
    assert run() == 4
    with pellucid.config.patch(force_parameter_static_shapes=False):
        assert run() == 2


@pytest.mark.parametrize(
    "mark",
    [pellucid.mark_dynamic, lambda x, dim: pellucid.mark_unbacked(x, dim, strict=True), torch._dynamo.mark_dynamic],
)
def test_marks_that_cannot_be_kept(mark):
    def f(x):
        return x * {2: 5, 3: 7}.get(x.shape[0], 1)

    def calls():
        for n in (2, 3, 4):
            x = ramp(n)
            mark(x, 0)
            yield (x,)

    with pytest.raises(ConstraintViolation):
        graphs(f, *calls())
    with pellucid.config.patch(allow_ignore_mark_dynamic=True):
        assert graphs(f, *calls()) == 3
