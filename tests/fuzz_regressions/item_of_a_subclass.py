# Storing a tensor of a class with `__torch_function__` into a plain tensor asks that class.
import torch


class Tagged(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.calls.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})


def reset():
    Tagged.calls.clear()


change = reset


def inputs(variant):
    return [torch.arange(6.0).view(2, 3) + variant], {}


def f(x):
    rows = torch.vstack([x, torch.zeros(2, 3)])
    rows[-1] = x.as_subclass(Tagged)[0]
    rows[0] = x[1]
    return rows, list(Tagged.calls)
