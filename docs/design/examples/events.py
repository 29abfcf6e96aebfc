import torch

import pellucid


def f(x):
    y = x.sin()
    pellucid.graph_break("here")
    return y + 1


f(torch.ones(3))
