import torch


def f(x):
    return torch.vmap(torch.func.grad(lambda row: row.sin().sum()))(x)


f(torch.ones(2, 3))
