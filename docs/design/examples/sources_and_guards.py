import torch


class Scale:
    def __init__(self):
        self.options = {"factor": 2, "shift": torch.zeros(2)}

    def apply(self, x):
        return x * self.options["factor"] + self.options["shift"]


Scale().apply(torch.ones(2))
