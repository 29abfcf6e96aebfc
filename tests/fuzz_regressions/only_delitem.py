# A class with __delitem__ alone has the slot for both: setting an item is an AttributeError, not a TypeError.
import torch


class OnlyDeletes:
    def __delitem__(self, index):
        pass


def reset():
    pass


change = reset


def inputs(variant):
    return [torch.ones(2) + variant, OnlyDeletes()], {}


def f(x, obj):
    try:
        obj[1] = x * 2
    except (AttributeError, TypeError) as error:
        return x + 1, repr(error)
