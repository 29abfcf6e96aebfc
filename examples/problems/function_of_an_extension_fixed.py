"""The caller hashes; the model gets the number."""

import zlib

import torch
from torch import nn

import pellucid


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 2)

    def forward(self, x, slot):
        return x + self.table(slot)


torch.manual_seed(0)
model = pellucid.compile(Embedding(), backend="eager")
for name in ("colour", "size"):
    slot = torch.tensor(zlib.crc32(name.encode()) % 16)
    print([round(value, 4) for value in model(torch.ones(2), slot).tolist()])
