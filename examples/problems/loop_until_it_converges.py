"""Newton's method goes on until nothing changes much: how often depends on the values."""

import torch

import pellucid


@pellucid.compile(backend="eager")
def root(x):
    guess = x
    while (guess * guess - x).abs().max() > 1e-3:
        guess = (guess + x / guess) / 2
    return guess


print([round(value, 3) for value in root(torch.tensor([1.0, 2.0, 9.0])).tolist()])
