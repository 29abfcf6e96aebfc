"""A schedule: the module counts its steps and takes an element of a list by the count."""

import torch
from torch import nn

import pellucid


class Schedule(nn.Module):
    def __init__(self):
        super().__init__()
        self.factors = [1.0, 0.5, 0.25, 0.125]
        self.step = 0

    def forward(self, x):
        factor = self.factors[self.step % len(self.factors)]
        self.step += 1
        return x * factor


module = Schedule()
compiled = pellucid.compile(module, backend="eager")
for _ in range(6):
    print(compiled(torch.ones(2)).tolist())
