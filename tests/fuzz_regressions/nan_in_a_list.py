# call 3 (- eager, + compiled)
# -result[1]: bool True
# +result[1]: bool False

import torch


def reset():
    pass


def change():
    pass


def inputs(variant):
    new, pair = float("nan"), complex("nan")
    return [torch.ones(2), new, [new if variant else float("nan"), pair], pair], {}


def f(x, value, row, pair):
    return x + 1, value in row, [value] == row[:1], (pair, 1) == (row[1], 1)
