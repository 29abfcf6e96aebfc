"""Masks are made once for each length, and kept in a dict whose keys are the lengths."""

import torch

import pellucid

masks = {n: torch.ones(n, n).tril() for n in range(2, 8)}


@pellucid.compile(backend="eager")
def causal(scores):
    return scores * masks[scores.size(-1)]


for n in (3, 4, 5, 6):
    print(causal(torch.ones(n, n)).sum().item())
