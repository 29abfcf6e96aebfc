"""What tests of all kinds share: how results are compared, a backend that counts, global state for the length of a block."""

from __future__ import annotations

import contextlib
import os
import re

import torch

from pellucid.backends import lookup_backend

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


class CountingOf(Counting):
    """A backend that counts its calls and hands the graphs to a registered one."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.takes_numbers = name == "eager"  # others compile: they get what torch.compile gives
        # torch's own: the first of pellucid's that loads AOTAutograd in a process is called twice for its graph.
        self.backend = lookup_backend(name) if name == "eager" else torch._dynamo.lookup_backend(name)

    def __call__(self, gm, example_inputs):
        super().__call__(gm, example_inputs)
        return self.backend(gm, example_inputs)


class FailsWithItems(CountingOf):
    """One that compiles no graph which gives a number: these are kept in `failed`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.failed: list = []

    def __call__(self, gm, example_inputs):
        if any(node.target == "item" for node in gm.graph.nodes):
            self.failed.append(gm)
            raise NotImplementedError("a number that the graph gives")
        return super().__call__(gm, example_inputs)


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


def name_of(value) -> str:
    """A name of a test's parameter that is the same in each process: its text without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def nearly_same(a, b) -> bool:
    """Lists and tuples of what backends may round otherwise, and of facts that are equal."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.allclose(a, b, rtol=1e-5, atol=1e-6)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(nearly_same, a, b))
    return a == b


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
