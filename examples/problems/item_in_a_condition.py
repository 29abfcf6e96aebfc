"""Gradients are clipped if their norm is too large: the norm is taken out of its tensor."""

import torch

import pellucid


@pellucid.compile(backend="eager")
def clipped(gradient, most):
    norm = gradient.norm()
    if norm.item() > most:
        gradient = gradient * (most / norm)
    return gradient


for factor in (1.0, 10.0):
    print(clipped(factor * torch.ones(4), 5.0).tolist())
