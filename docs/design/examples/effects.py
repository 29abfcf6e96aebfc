import torch


class Counter:
    def __init__(self):
        self.calls = 0
        self.seen = []

    def step(self, x):
        self.calls += 1
        y = x * 2
        self.seen.append({"value": y, "call": self.calls})
        return y


Counter().step(torch.ones(2))
