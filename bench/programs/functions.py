"""torch.autograd.Function: both styles, and what their contexts are told."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from programs import Case, program
from programs.checkpointing import leaf_calls


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


@program("autograd functions", inductor=True)
def old_style():
    return Case(lambda x: Exp.apply(x * 2).sum(-1), leaf_calls(3, 4))


class Cube(Function):
    @staticmethod
    def forward(x, scale):
        return scale * x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.scale = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * ctx.scale * x**2, None


@program("autograd functions", inductor=True)
def setup_context_style():
    return Case(lambda x: Cube.apply(x.sin(), 2.0), leaf_calls(3, 4))


@program("autograd functions")
def once_differentiable_backward():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * grad * x

    return Case(lambda x: Square.apply(x) + 1, leaf_calls(3, 4))


@program("autograd functions")
def marked_dirty():
    class AddOne(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def f(x):
        y = x * 3
        z = AddOne.apply(y)
        return z * y

    return Case(f, leaf_calls(3, 4))


@program("autograd functions")
def not_differentiable_result():
    class SortWithOrder(Function):
        @staticmethod
        def forward(ctx, x):
            values, order = x.sort()
            ctx.mark_non_differentiable(order)
            ctx.save_for_backward(order)
            return values, order

        @staticmethod
        def backward(ctx, grad, _):
            (order,) = ctx.saved_tensors
            return torch.zeros_like(grad).scatter(-1, order, grad)

    def f(x):
        values, order = SortWithOrder.apply(x)
        return values * 2, order + 1

    return Case(f, leaf_calls(3, 4))


@program("autograd functions")
def needs_input_grad():
    class Linear(Function):
        @staticmethod
        def forward(ctx, x, w, b):
            ctx.save_for_backward(x, w)
            return x @ w.t() + b

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            gx = grad @ w if ctx.needs_input_grad[0] else None
            gw = grad.t() @ x if ctx.needs_input_grad[1] else None
            gb = grad.sum(0) if ctx.needs_input_grad[2] else None
            return gx, gw, gb

    w, b = nn.Parameter(torch.randn(2, 4)), torch.randn(2)
    calls = [(torch.randn(3, 4),), (torch.randn(3, 4, requires_grad=True),), (torch.randn(3, 4),)]
    return Case(lambda x: Linear.apply(x, w, b), calls, state=[w, b])


@program("autograd functions")
def straight_through():
    class Round(Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad):
            return grad

    return Case(lambda x: Round.apply(x * 4) / 4, leaf_calls(3, 4))


@program("autograd functions", inductor=True)
def gradient_reversal():
    class Reverse(Function):
        @staticmethod
        def forward(ctx, x, strength):
            ctx.strength = strength
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return -ctx.strength * grad, None

    features, domain = nn.Linear(4, 4), nn.Linear(4, 2)

    def f(x, strength):
        return domain(Reverse.apply(torch.relu(features(x)), strength))

    calls = [(torch.randn(3, 4), strength) for strength in (0.1, 0.5, 0.5)]
    return Case(f, calls, state=[features, domain])


@program("autograd functions")
def no_materialized_grads():
    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            total = None
            if first is not None:
                total = first * 2
            if second is not None:
                total = second * 3 if total is None else total + second * 3
            return total

    return Case(lambda x: Pair.apply(x)[1], leaf_calls(3, 4))


@program("autograd functions")
def double_backward():
    def f(x):
        y = Exp.apply(x).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        return (first * first).sum()

    return Case(f, leaf_calls(4))


@program("autograd functions")
def in_a_module():
    class Swish(nn.Module):
        class Op(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * torch.sigmoid(x)

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                s = torch.sigmoid(x)
                return grad * (s * (1 + x * (1 - s)))

        def forward(self, x):
            return self.Op.apply(x)

    model = nn.Sequential(nn.Linear(4, 4), Swish(), nn.Linear(4, 2))
    return Case(model, [(torch.randn(3, 4),) for _ in range(3)], state=model)


@program("autograd functions")
def backward_reads_a_global():
    """The factor is changed between forward and backward of later calls; eager reads it in the backward pass."""
    factor = {"value": 2.0}

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * factor["value"]

    def between(number: int) -> None:
        factor["value"] = 2.0 + number

    return Case(lambda x: Scaled.apply(x) * 2, leaf_calls(3, 4), state=factor, between=between)


@program("autograd functions")
def function_with_vmap():
    class Double(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

        @staticmethod
        def vmap(info, in_dims, x):
            return Double.apply(x), in_dims[0]

    return Case(lambda x: torch.func.vmap(Double.apply)(x).sin(), leaf_calls(3, 4))


@program("autograd functions")
def backward_logs():
    log: list = []

    class Logged(Function):
        @staticmethod
        def forward(ctx, x, name):
            log.append(("forward", name))
            ctx.name = name
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            log.append(("backward", ctx.name))
            return grad * 2, None

    return Case(lambda x: Logged.apply(Logged.apply(x, "a"), "b"), leaf_calls(3, 4), state=log)


@program("autograd functions")
def backward_that_raises():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("no gradient here")

    return Case(lambda x: Broken.apply(x).sin(), leaf_calls(3, 4))


@program("autograd functions")
def wrong_number_of_gradients():
    class Two(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return grad

    w = torch.randn(4, requires_grad=True)
    return Case(lambda x: Two.apply(x, w), leaf_calls(3, 4), state=w)
