# A backward pass below a transform begins at a tensor whose hook the region has just registered.
import torch

LOG = []
WEIGHT = torch.nn.Parameter(torch.ones(2, 3))


def reset():
    LOG.clear()


change = reset


def inputs(variant):
    return [torch.arange(6.0).view(2, 3) + variant], {}


def noted_gradient(grad):
    LOG.append(float(grad.sum()))
    return grad * 2


def f(x):
    y = x * WEIGHT
    y.register_hook(noted_gradient)
    return torch.func.vjp(lambda t: y, y)[1](x)[0]
