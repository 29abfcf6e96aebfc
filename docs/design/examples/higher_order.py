import torch


def f(x, w):
    def true(y):
        return y @ w

    return torch.cond(x.sum() > 0, true, lambda y: y.sin(), (x,))


f(torch.ones(2, 3), torch.ones(3, 3, requires_grad=True))
