import torch
from torch.utils.checkpoint import checkpoint


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


def f(x, w):
    def block(y):
        return torch.tanh(y @ w)

    return Square.apply(checkpoint(block, x, use_reentrant=False))


f(torch.ones(2, 3), torch.ones(3, 3, requires_grad=True))
