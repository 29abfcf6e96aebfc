# call 0 (- eager, + compiled)
# -result[1]: int 6
# +result[1]: int 1
# A dict from outside that |= has changed: its items are no longer what was read of it.

import torch

TABLE = {}


def reset():
    TABLE.clear()
    TABLE.update({3: 4, (0, 2): 1, "a": 2})


def change():
    TABLE[3] = 8


def inputs(variant):
    return [torch.ones(2), {(0, 2): variant, 3: 1}], {}


def f(x, table):
    global TABLE
    before = TABLE[3]
    TABLE |= {3: 6, "new": before}
    TABLE[3] += 1
    table |= [((0, 2), TABLE[3])]
    return x + 1, table[0, 2], table.get(3), TABLE[3], TABLE["new"], TABLE.pop("a"), list(TABLE.items()), before
