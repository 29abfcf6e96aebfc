"""What tests of all kinds share: how results are compared, a backend that counts, global state for the length of a block."""

from __future__ import annotations

import contextlib
import os

import torch

# The address sanitizer keeps freed memory for a while: sizes of processes and the reuse of addresses say nothing then.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")


class Counting:
    """A backend that counts its calls and runs the graph as it is."""

    takes_numbers = True

    def __init__(self) -> None:
        self.graphs: list = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward

    @property
    def count(self) -> int:
        return len(self.graphs)


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


def outcome(f, *args, **kwargs):
    """What a call gives: ("value", v) or ("raises", type, text)."""
    try:
        return ("value", f(*args, **kwargs))
    except Exception as error:
        return ("raises", type(error), str(error))


def assert_as_eager(compiled, eager, *args, **kwargs) -> None:
    got, want = outcome(compiled, *args, **kwargs), outcome(eager, *args, **kwargs)
    assert got[0] == want[0] and (same(got[1], want[1]) if got[0] == "value" else got == want), (got, want)


class Plain:
    """An object with these attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class SinIsCos(torch.overrides.TorchFunctionMode):
    """A mode whose effect shows in values."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return torch.cos(*args) if func is torch.sin else func(*args, **(kwargs or {}))


@contextlib.contextmanager
def deterministic_algorithms():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
