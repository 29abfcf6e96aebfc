# A write that changes nothing in the first call is left out of the region's effects; in a later call it changes something.
import torch


class A:
    def __init__(self):
        self.count = 2


G = A()
D = {"a": 1, "b": 2}


def reset():
    pass


def change():
    G.count = 3
    D.update(a=5, b=6)


def inputs(variant):
    return [torch.ones(2), 2], {}


def f(x, n):
    G.count = 5
    G.count = n
    D["a"] = 1
    return x + 1
