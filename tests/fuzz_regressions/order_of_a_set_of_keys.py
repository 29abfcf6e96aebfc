# call 0 (- eager, + compiled)
# -result[1]: [9, 1.5, frozenset({0}), 17]
# +result[1]: [9, frozenset({0}), 1.5, 17]

import decimal

import torch
from value_matrix_values import MyFrozenSet, MyTuple, Point


def reset():
    pass


def change():
    pass


def inputs(variant):
    rows = [
        [make(), 9, 17, 1.5]
        for make in (
            lambda: frozenset([0]),
            lambda: MyFrozenSet([0]),
            lambda: MyTuple((1, 0)),
            lambda: Point(1, variant),
            lambda: decimal.Decimal(1),
            lambda: range(variant),
        )
    ]
    return [torch.ones(2), rows], {}


def f(x, rows):
    return x + 1, [({k for k in row}, set(row), frozenset(row), {(k, 1) for k in row}) for row in rows]
