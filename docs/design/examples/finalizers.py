import torch


class Holder:
    def __init__(self, part):
        self.part = part


class Noisy:
    def __del__(self):
        print("gone")


def f(holder, x):
    y = x + 1
    holder.part = None
    return y * 2


f(Holder([1, 2]), torch.ones(2))
f(Holder(Noisy()), torch.ones(2))
