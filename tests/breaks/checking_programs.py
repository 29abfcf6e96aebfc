"""Programs that check values of tensors. They are no test module: pytest rewrites the assert statements of those."""

import torch


def asserted(x, log):
    log.append("before")
    y = x * 2
    assert y.sum() < 100, f"too much: {y.sum().item()}"
    log.append("after")
    return y + 1


def asserted_not(x, log):
    y = x.cos()
    if torch.isnan(y).any():
        message = "not a number"
        raise ValueError(message)
    log.append(1)
    return y


def negated(x, log):
    if not (x < 50).all():
        raise RuntimeError("large", x.shape)
    return x - 1


def in_place_before(x, log):
    x.add_(1)
    if x.max() > 50:
        raise OverflowError
    return x.mul_(2)


def handled(x, log):
    try:
        assert x.max() < 50
        log.append("fits")
        return x + 1
    except AssertionError as error:
        log.append(type(error).__name__)
        return x - 1


def random_before(x, log):
    y = x + torch.rand(3)
    assert y.max() < 50
    return y + torch.rand(3)


def in_callee(x, log):
    check(x)
    return x.sin()


def check(x):
    if x.max() > 50:
        raise IndexError("from the callee")


def both_raise(x, log):
    if x.sum() > 0:
        raise ValueError
    raise KeyError


def many_elements(x, log):
    assert x > 0


def no_check(x, log):
    return x + 1 if x.sum() > 0 else x - 1


def gradients_behind(x):
    y = x.exp()
    assert y.sum() > 0
    return (y * y).sum()
