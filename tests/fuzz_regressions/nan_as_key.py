# call 2 (- eager, + compiled)
# -ORDERED: #… OrderedDict of 2
# +ORDERED: #… OrderedDict of 1

import collections

import torch

ORDERED = collections.OrderedDict()


def reset():
    ORDERED.clear()


def change():
    pass


def inputs(variant):
    return [torch.ones(2)], {}


def f(x):
    ORDERED[float("nan")] = 1
    return x + 1
