# A class with __delitem__ alone has the slot for both: setting an item is an AttributeError, not a TypeError.
import enum


class Color(enum.IntEnum):
    RED = 1


G_INT = 3
G_DICT = {"a": 1, "c": 3}
G_TENSOR = torch.arange(6.0).view(2, 3)


class Members:
    def __delitem__(self, index):
        del self.items[1:]


class A(Members):
    def __init__(self, count=1):
        pass


G_OBJ = A(2)


def reset():
    pass


def change():
    pass


def inputs(variant):
    x = torch.arange(6.0).view(2, 3).requires_grad_(False) - 2 + variant
    items = [1, 2, 3 + variant]
    return (
        [
            x,
            x[0] if False else torch.ones(3),
            2 + variant,
            items,
            {"a": 1, "b": 2 + variant},
            A(3),
            items if False else [5],
        ],
        {"flag": variant == 0, "more": [x, torch.ones(2, 3)]},
    )


def f(x, y, n, items, table, obj, others, *, flag=True, more=()):
    n, (t28, s29) = (n << 2, (G_TENSOR.unbind()[1].expand(2, 3), "%d-%s" % (n if flag else G_INT, "ab")))
    for i51 in range(3):
        try:
            if i51 == G_INT:
                continue
            G_OBJ[(functools.partial(f30, n % 4) if False else abs)(Color.RED.value)] = (
                1 * G_DICT.setdefault(s29, i51) % 97
            )
        finally:
            LOG.append(i51)
