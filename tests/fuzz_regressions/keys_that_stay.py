# call 2 (- eager, + compiled)
# -TABLE.keys()[0]: #… MyInt 1
# +TABLE.keys()[0]: is #…

import decimal

import torch
from value_matrix_values import MyFloat, MyInt

TABLE = {}


def reset():
    TABLE.clear()


def change():
    TABLE["changed"] = 1


def inputs(variant):
    return [torch.ones(2, 3), [MyInt(1), MyFloat(2.5), decimal.Decimal(3 + variant)]], {}


def f(x, keys):
    TABLE.pop(x.shape, None)
    TABLE.pop("text", None)
    for key in (lambda: 1, *keys, x.shape):
        TABLE[key] = TABLE.get(key, 0) + 1
    TABLE["text"] = len(TABLE)
    return x + 1
