# A generator that dies inside a try block runs its `finally` there and then.
import torch

LOG = []


def reset():
    LOG.clear()


change = reset


def inputs(variant):
    return [torch.ones(2), 1 + variant], {}


def numbers(name, n):
    try:
        for i in range(n):
            yield i
    finally:
        LOG.append((name, n))


def inner(x):
    left = numbers("left", 3)
    return x + next(left)


def f(x, n):
    for i in numbers("loop", 4):
        x = x + i
        if i == n:
            break
    LOG.append("after the loop")
    x = inner(x)
    LOG.append("after the call")
    first = next(numbers("next", 2))
    last = numbers("last", 2)
    next(last)
    return x + first, len(LOG)
