"""A mean over everything seen so far: each call adds to a list that the next one stacks."""

import torch

import pellucid

seen = []


@pellucid.compile(backend="eager")
def running_mean(x):
    seen.append(x)
    return torch.stack(seen).mean(0)


for i in range(4):
    print(running_mean(torch.full((2,), float(i))).tolist())
