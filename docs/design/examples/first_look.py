import torch


class Scale:
    def __init__(self):
        self.options = {"factor": 2}
        self.last = None

    def apply(self, x):
        y = x.sin() * self.options["factor"]
        self.last = {"scaled": y}
        return y + 1


scale = Scale()
scale.apply(torch.ones(3))
scale.apply(torch.zeros(3))
