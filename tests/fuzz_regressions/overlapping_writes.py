# A write into memory that the tensor shares with itself or with what is read raises, inside the program's `try`.
import torch

LOG = []


def reset():
    LOG.clear()


change = reset


def inputs(variant):
    return [torch.arange(6.0).view(2, 3) + variant], {}


def f(x):
    y = x + 1
    try:
        x.copy_(x.reshape(3, 2).t())
    except RuntimeError as error:
        LOG.append(str(error)[:30])
    try:
        y[-1].expand(2, 3)[:, 1] = 4
    except RuntimeError as error:
        LOG.append(str(error)[:30])
    return x + y
