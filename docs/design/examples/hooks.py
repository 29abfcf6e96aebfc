import torch


def f(x):
    y = x * 2
    y.register_hook(lambda gradient: gradient * 10)
    return (y * 3).sum()


f(torch.ones(2, requires_grad=True))
