"""Both cases are computed, and torch.where chooses."""

import torch

import pellucid


@pellucid.compile(backend="eager")
def clipped(gradient, most):
    norm = gradient.norm()
    return torch.where(norm > most, gradient * (most / norm), gradient)


for factor in (1.0, 10.0):
    print(clipped(factor * torch.ones(4), 5.0).tolist())
