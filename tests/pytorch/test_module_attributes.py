"""Attributes of modules: set in forward, guarded by value, looked up by dotted names (docs/feature_rows.md, A17 and A18)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pellucid
from support import same
from support.graphs import calls


# A17, A18: attributes of modules
class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        self.cache = self.linear(x)
        self.seen = [*getattr(self, "seen", []), x.shape[0]]
        return self.cache * len(self.seen)


def test_A17_attributes_set_in_forward(counting):
    torch.manual_seed(0)
    eager, module = Remembers(), Remembers()
    module.load_state_dict(eager.state_dict())
    compiled = pellucid.compile(module, backend=counting, fullgraph=True)
    for x in (torch.rand(1, 2), torch.rand(1, 2), torch.rand(1, 2)):
        assert same(compiled(x), eager(x))
        assert same(module.cache, eager.cache) and module.seen == eager.seen
    assert "cache" not in module.state_dict() and "cache" in vars(module)
    assert counting.count == 2  # the first makes the cache; the length of the list is a constant in the others


def test_A17_class_changed(counting):
    class Scaled(nn.Module):
        factor = 2

        def forward(self, x):
            return x * self.factor

    module = Scaled()
    compiled = pellucid.compile(module, backend=counting, fullgraph=True)
    x = torch.ones(2)
    assert same(compiled(x), x * 2)
    Scaled.factor = 3
    assert same(compiled(x), x * 3)
    module.factor = 4
    assert same(compiled(x), x * 4)
    Scaled.forward = lambda self, x: x - self.factor
    assert same(compiled(x), x - 4)
    assert counting.count == 4


class Configured(nn.Module):
    def __init__(self):
        super().__init__()
        self.dtype = torch.float64
        self.mode = "up"
        self.steps = (1, 2)

    def forward(self, x):
        x = x.to(self.dtype)
        for step in self.steps:
            x = x + step if self.mode == "up" else x - step
        return x


def test_A18_attributes_of_other_kinds_are_guarded_by_value(counting):
    module = Configured()
    compiled = pellucid.compile(module, backend=counting, fullgraph=True)
    x = torch.ones(2)
    changes = [
        ("mode", "up", 1),
        ("mode", "".join(["u", "p"]), 1),  # equal: not the same object
        ("mode", "down", 2),
        ("dtype", torch.float16, 3),
        ("steps", (1, 2), 3),
        ("steps", (5,), 4),
        ("mode", "up", 5),
    ]
    for name, value, graphs in changes:
        setattr(module, name, value)
        assert same(compiled(x), module(x))
        assert counting.count == graphs, (name, value)


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Module()
        self.a.b = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x, name):
        try:
            module = self.get_submodule(name)
        except AttributeError as error:
            return x, str(error)
        return x if module is self else module(x), type(module).__name__


@pytest.mark.parametrize("name, ops", [("a.b.0", 1), ("a.b", 2), ("", 0), ("a.c", 0), ("a.b.9", 0)])
def test_A18_dotted_look_up(name, ops):
    module, x = Nested(), torch.rand(1, 2)
    found = []

    def backend(gm, example_inputs):
        found.extend(calls(gm))
        return gm.forward

    assert same(pellucid.compile(module, backend=backend, fullgraph=True)(x, name), module(x, name))
    assert len(found) == ops
