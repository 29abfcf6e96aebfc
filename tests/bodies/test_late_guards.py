"""What a function that runs in the backward pass read in the forward pass, and what has changed by then: an error that names it,
or, where a hook or an autograd.Function is the program's own, what eager does."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

import pellucid
from support import CountingOf

BACKENDS = ["eager", "aot_eager"]
SCALE = 2.0
TABLE = {"scale": 2.0}
LOOP: list = []
LOOP.append(LOOP)  # among the globals that the blocks read


class Config:
    scale = 2.0
    kind = "class"


@pytest.fixture(autouse=True)
def as_before():
    global SCALE
    pellucid.reset()  # of places that have met a change, too
    yield
    SCALE = 2.0
    TABLE["scale"] = 2.0
    Config.scale = 2.0


def leaf():
    return (torch.arange(1.0, 4.0) / 4).requires_grad_()


def by_global(x):
    return checkpoint(lambda y: torch.sin(y) * SCALE, x, use_reentrant=False).sum()


def by_key(x):
    return checkpoint(lambda y: torch.sin(y) * TABLE["scale"], x, use_reentrant=False).sum()


def by_class(x):
    return checkpoint(lambda y: torch.sin(y) * Config.scale, x, use_reentrant=False).sum()


def by_attribute_of_a_class(x):
    config = Config()
    return checkpoint(lambda y: torch.sin(y) * config.scale, x, use_reentrant=False).sum()


def change_global():
    global SCALE
    SCALE = 5.0


CHANGES = {
    by_global: change_global,
    by_key: lambda: TABLE.update(scale=5.0),
    by_class: lambda: setattr(Config, "scale", 5.0),
    by_attribute_of_a_class: lambda: setattr(Config, "scale", 5.0),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", CHANGES, ids=lambda f: f.__name__)
def test_a_change_raises_and_is_a_break_from_then_on(function, backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(function, backend=counting)
    one, two = leaf(), leaf()
    for _ in range(2):  # nothing changes
        function(one).backward()
        compiled(two).backward()
    assert torch.equal(one.grad, two.grad) and counting.count == 1
    loss = compiled(two)
    CHANGES[function]()
    with pytest.raises(RuntimeError, match="in the backward pass"):
        loss.backward()
    one, two = leaf(), leaf()
    function(one).backward()
    compiled(two).backward()
    assert torch.equal(one.grad, two.grad)
    # It is eager's now: what changes is seen.
    one, two = leaf(), leaf()
    losses = function(one), compiled(two)
    as_it_was()
    for loss in losses:
        loss.backward()
    assert torch.equal(one.grad, two.grad)


def as_it_was():
    global SCALE
    SCALE = 2.0
    TABLE["scale"] = 2.0
    Config.scale = 2.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_attributes_and_closures(backend):
    factor = 2.0

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.factor = 3.0

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=False).sum()

        def block(self, x):
            return torch.sin(self.linear(x)) * self.factor * factor

    block = Block()
    compiled = pellucid.compile(block, backend=backend, fullgraph=True)
    compiled(leaf()).backward()
    loss = compiled(leaf())
    block.factor = 3.0  # equal
    loss.backward()
    loss = compiled(leaf())
    block.factor = 4.0
    with pytest.raises(RuntimeError, match=r"factor was 3.0 in the forward pass and is 4.0"):
        loss.backward()

    other = Block()
    pellucid.reset()
    compiled = pellucid.compile(other, backend=backend)
    loss = compiled(leaf())
    factor = 5.0
    with pytest.raises(RuntimeError, match=r"was 2.0 in the forward pass and is 5.0"):
        loss.backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_region_changes_behind_the_block(backend):
    def f(x):
        scale = 2.0
        result = checkpoint(lambda y: torch.sin(y) * scale, x, use_reentrant=False)
        scale = 3.0
        return result.sum()

    def g(x, config):
        config.scale = 7.0
        result = checkpoint(lambda y: torch.sin(y) * config.scale, x, use_reentrant=False)
        return result.sum()

    for function, more in ((f, ()), (g, (Config(),))):
        compiled = pellucid.compile(function, backend=backend)
        for _ in range(2):
            one, two = leaf(), leaf()
            function(one, *more).backward()
            compiled(two, *more).backward()
            assert torch.equal(one.grad, two.grad)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_change_without_gradients_is_none(backend):
    compiled = pellucid.compile(by_global, backend=backend)
    with torch.no_grad():
        first = compiled(leaf())
        change_global()
        assert not torch.equal(compiled(leaf()), first)
        assert torch.equal(compiled(leaf()), by_global(leaf()))


class Reading(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * SCALE


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_backward_of_a_function(backend):
    """With "eager" it is the program's own; a compiler's graph does not have it."""

    def f(x):
        return Reading.apply(x * 1).sum()

    compiled = pellucid.compile(f, backend=backend)
    for changes in (False, True, True):
        as_it_was()
        one, two = leaf(), leaf()
        losses = f(one), compiled(two)
        if changes:
            change_global()
        for loss in losses:
            loss.backward()
        assert torch.equal(one.grad, two.grad)
