"""A backward pass in the region that comes through an autograd.Function of the same region: one graph for backends that
compile or are given the graph, a break with its reason where the graph runs as it is."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable

import pellucid
from support import same

CALLS: list[str] = []


def named(backend):
    return backend if isinstance(backend, str) else backend.__name__


def given_the_graph(module, example_inputs):
    return module.forward


COMPILED = [given_the_graph, "aot_eager", "inductor"]
INPUTS = [torch.randn(2, 3) for _ in range(3)]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Scaled(torch.autograd.Function):
    """Set up apart, with a number, an attribute, a gradient that is None, and no second derivative."""

    @staticmethod
    def forward(x, scale, shift):
        return x * scale + shift

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return (grad * ctx.scale if ctx.needs_input_grad[0] else None), None, grad.sum((0,))


class Parts(torch.autograd.Function):
    """Two results of which a pass uses one, and one without a gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        signs = x.sign()
        ctx.mark_non_differentiable(signs)
        return x.sin(), x.exp(), signs

    @staticmethod
    def backward(ctx, sine, power, _):
        (x,) = ctx.saved_tensors
        return sine * x.cos() + power * x.exp()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Loud(Square):
    @staticmethod
    def backward(ctx, grad):
        CALLS.append("backward")
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Wrong(Square):
    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class Unfilled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, one, other):
        return one * 2 if other is None else other * 3


def step(apply):
    def program():
        torch.manual_seed(0)
        model = nn.Linear(3, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def f(x):
            optimizer.zero_grad()
            loss = apply(model(x), model.bias).sum()
            CALLS.append("before")
            loss.backward()
            CALLS.append("behind")
            optimizer.step()
            return loss.detach()

        return f, model

    return program


def gradient(apply):
    def program():
        torch.manual_seed(0)
        model = nn.Linear(3, 3)

        def f(x):
            x = x.clone().requires_grad_()
            loss = apply(model(x), model.bias).sum()
            (found,) = torch.autograd.grad(loss, x)
            return found * 2

        return f, model

    return program


def found(program, backend):
    f, model = program()
    if backend is not None:
        f = pellucid.compile(f, backend=backend)
    CALLS.clear()
    results = []
    for x in INPUTS:
        try:
            results.append(f(x.clone()))
        except Exception as error:
            results.append((type(error), str(error)))
    state = [(p.detach().clone(), None if p.grad is None else p.grad.clone()) for p in model.parameters()]
    return (results, state, list(CALLS)), f


FUNCTIONS = {
    "saves": lambda h, b: Square.apply(h),
    "twice": lambda h, b: Square.apply(Square.apply(h).sin()),
    "set_up_apart": lambda h, b: Scaled.apply(h, 3, b),
    "parts": lambda h, b: Parts.apply(h)[0] * Parts.apply(h)[2],
    "dirty": lambda h, b: Doubled.apply(h.sin()),
}


@pytest.mark.parametrize("backend", COMPILED, ids=named)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [step, gradient], ids=["step", "gradient"])
def test_a_pass_through_a_function_is_in_the_graph(kind, name, backend):
    program = kind(FUNCTIONS[name])
    (want, grads, order), _ = found(program, None)
    (got, compiled_grads, compiled_order), f = found(program, backend)
    torch.testing.assert_close((got, compiled_grads), (want, grads))  # inductor rounds in another way
    assert compiled_order == order
    assert not pellucid.break_reasons(f)


REFUSED = {
    "loud": lambda h, b: Loud.apply(h),
    "wrong": lambda h, b: Wrong.apply(h),
    "none": lambda h, b: Unfilled.apply(h)[0],
}


@pytest.mark.parametrize("backend", [given_the_graph, "eager", "aot_eager"], ids=named)
@pytest.mark.parametrize("name", REFUSED)
def test_what_was_not_followed_ends_the_region(name, backend):
    program = step(REFUSED[name])
    want, _ = found(program, None)
    got, f = found(program, backend)
    assert same(got, want)
    assert pellucid.break_reasons(f)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_graph_that_runs_as_it_is_ends_before_the_pass(name):
    program = step(FUNCTIONS[name])
    want, _ = found(program, None)
    got, f = found(program, "eager")
    assert same(got, want)
    assert any("a backward pass" in str(reason) for reason in pellucid.break_reasons(f))


@pytest.mark.parametrize("backend", [given_the_graph, "aot_eager"], ids=named)
def test_what_a_pass_has_freed_is_freed(backend):
    def program():
        torch.manual_seed(0)
        model = nn.Linear(3, 3)

        def f(x):
            loss = Square.apply(model(x)).sum()
            loss.backward()
            return loss

        return f

    messages = []
    for compiled in (False, True):
        f = program()
        run = pellucid.compile(f, backend=backend) if compiled else f
        loss = run(INPUTS[0])
        with pytest.raises(RuntimeError) as error:
            loss.backward()
        messages.append("second time" in str(error.value))
    assert messages == [True, True]


def by_name(x):
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
    return torch.autograd.grad(first.sum(), x)[0]


def by_position(x):
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(Square.apply(x).sum(), x, None, None, True, allow_unused=True)
    return torch.autograd.grad(first.sum(), x)[0]


@pytest.mark.parametrize("f", [by_name, by_position])
def test_a_pass_that_records_a_graph_ends_the_region(f):
    g = pellucid.compile(f, backend=given_the_graph)
    for x in INPUTS:
        assert same(g(x), f(x))
    assert pellucid.break_reasons(g)
