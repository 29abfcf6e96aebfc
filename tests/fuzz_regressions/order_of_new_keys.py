# Which written keys are new decides about the order of a dict; a key that comes back after its deletion goes to the end.
import torch

D = {"a": 1, "x": 2, "c": 3}


def reset():
    D.clear()
    D.update(a=1, x=2, c=3)


def change():
    D.clear()
    D.update(x=7, c=8, y=1)


def inputs(variant):
    return [torch.ones(2)], {}


def f(x):
    D["y"] = 1
    D["a"] = 2
    del D["x"]
    D["x"] = 4
    return x + D["a"]
