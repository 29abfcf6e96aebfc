# A leaf of a class with `__torch_function__` stays a leaf, with its gradient.
import torch


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


def reset():
    pass


change = reset


def inputs(variant):
    return [torch.arange(6.0).view(2, 3) + variant], {}


def f(x):
    y = (x * 2).as_subclass(Tagged).detach().requires_grad_()
    (y * x).sum().backward()
    return y, y.grad, y.is_leaf
