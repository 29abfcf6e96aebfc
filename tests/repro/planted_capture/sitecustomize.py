"""Python imports this at its start: a fault of capture, which takes another function for F.normalize."""

import torch

import pellucid


@pellucid.substitute_in_graph(torch.nn.functional.normalize)
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    return input / (input.sum(dim, keepdim=True) + eps)
