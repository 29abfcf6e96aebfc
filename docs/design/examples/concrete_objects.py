import torch


def f(x, names):
    rank = {name: place for place, name in enumerate(sorted(names))}
    return x * rank["c"]


f(torch.ones(2), ["c", "a", "b"])
