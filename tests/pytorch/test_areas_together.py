"""Subclasses, bodies, transforms, numpy and checks of values in one program: what cannot go together is a break, and as in eager."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

import pellucid


class Sub(torch.Tensor):
    """With torch's own __torch_function__."""


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] * 5  # no derivative of a cube: whoever differentiates the forward is caught


def checkpointed(x):
    return checkpoint(lambda t: (t * 2).sin(), x, use_reentrant=False)


def own_function(x):
    return Cube.apply(x)


def gradient(x):
    return torch.func.grad(lambda t: (t * 2).sum())(x)


def gradient_of_own_function(x):
    return torch.vmap(torch.func.grad(lambda row: Cube.apply(row).sum()))(x.detach())


def pushed_through_own_function(x):
    return torch.func.vjp(Cube.apply, x.detach())[1](torch.ones(3, 2))[0]


def written_without_gradients(x):
    with torch.no_grad():
        x.mul_(2)
    return x * 2


def check_in_a_block(x):
    def block(t):
        if (t > 1.5).any():
            raise ValueError("large")
        return t.sin()

    try:
        return checkpoint(block, x, use_reentrant=False)
    except ValueError as error:
        return x * len(str(error))


def index_in_a_block(x):
    try:
        return checkpoint(lambda t, i: t[i].sin(), x, (x.detach() * 4).long()[0], use_reentrant=False)
    except IndexError:
        return x * 7


def from_an_array(x):
    return x + torch.tensor(ARRAY) + torch.as_tensor(ARRAY)


def data_behind_a_block(x):
    p = torch.nn.Parameter(torch.ones(2))
    y = checkpoint(lambda t: (t * p).sin(), x, use_reentrant=False).sum()
    p.data.mul_(3)
    y.backward()
    return p.grad * 1


def forward_mode(x):
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual((forward_ad.make_dual(x[0].detach(), x[1].detach()) * 2).sin())
        return dual.primal.clone() + dual.tangent.clone()


def backward_below_a_transform(x):
    def f(t):
        (t * 2).sum().backward()
        return (t * 3).sum()

    return torch.func.grad(f)(x.detach())


ARRAY = np.ones(2, np.float32)
PROGRAMS = [
    checkpointed,
    own_function,
    gradient,
    gradient_of_own_function,
    pushed_through_own_function,
    written_without_gradients,
    check_in_a_block,
    index_in_a_block,
    from_an_array,
    data_behind_a_block,
    forward_mode,
    backward_below_a_transform,
]


def outcome(f, x, cls):
    leaf = x.clone().as_subclass(cls).requires_grad_()
    # In-place writes of a leaf are for those that are in no_grad.
    try:
        result = f(leaf)
        if result.requires_grad:
            result.sum().backward()
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return type(error)
    grad = None if leaf.grad is None else leaf.grad.as_subclass(torch.Tensor).tolist()
    return type(result), result.detach().as_subclass(torch.Tensor).tolist(), grad, leaf.detach().tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cls", [torch.Tensor, Sub])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager(program, cls, backend):
    compiled = pellucid.compile(program, backend=backend)
    for factor in (0.1, 0.2, 2.0, 0.1):
        x = torch.arange(6.0).reshape(3, 2) * factor
        assert outcome(compiled, x, cls) == outcome(program, x, cls), factor
    if cls is torch.Tensor:
        assert pellucid.cache_entries(compiled) or pellucid.break_reasons(compiled)
