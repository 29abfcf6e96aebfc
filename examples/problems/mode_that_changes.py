"""Each step of the training is followed by an evaluation without gradients."""

import torch
from torch import nn

import pellucid


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x):
        return self.layer(x).sum()


torch.manual_seed(0)
model = pellucid.compile(Regression(), backend="eager")


def step(batch):
    model(batch).backward()


def evaluate(batch):
    with torch.no_grad():
        return model(batch).item()


for batch in (torch.ones(3, 2), torch.ones(3, 2)):
    step(batch)
    print(round(evaluate(batch), 4))
