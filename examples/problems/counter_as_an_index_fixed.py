"""The factors are a tensor, and so is the count: the graph takes the element."""

import torch
from torch import nn

import pellucid


class Schedule(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("factors", torch.tensor([1.0, 0.5, 0.25, 0.125]))
        self.register_buffer("step", torch.tensor(0))

    def forward(self, x):
        factor = self.factors.take(self.step % len(self.factors))
        self.step += 1
        return x * factor


module = Schedule()
compiled = pellucid.compile(module, backend="eager")
for _ in range(6):
    print(compiled(torch.ones(2)).tolist())
