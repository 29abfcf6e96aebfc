import torch


def inner(x):
    y = x + 1
    print("in the middle")
    return y * 2


def f(x):
    return inner(x.sin()).cos()


f(torch.ones(2))
