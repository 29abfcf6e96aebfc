"""A print, left from debugging, in the forward of a model."""

import torch
from torch import nn

import pellucid


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 3)

    def forward(self, x):
        hidden = self.first(x).relu()
        print("hidden", tuple(hidden.shape))
        return self.second(hidden).softmax(-1)


torch.manual_seed(0)
model = pellucid.compile(Classifier(), backend="eager")
print(model(torch.randn(4, 8)).argmax(-1).tolist())
