import torch


def halves(x):
    while True:
        x = x / 2
        yield x


def f(steps, x):
    return x + next(steps) + next(steps)


f(halves(torch.ones(2)), torch.ones(2))
