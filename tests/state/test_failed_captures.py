"""What a capture that fails leaves behind: nothing (row A42)."""

from __future__ import annotations

import gc
import random
import weakref

import pytest
import torch

import pellucid
from support import Counting, Plain, same

X = torch.arange(3.0)


def stops_late(x, state, seen):
    state.count += 1
    seen.append(state.count)
    seen[0] = "changed"
    state.buffer.add_(1)
    torch.set_grad_enabled(False)
    torch.manual_seed(random.randrange(7)) if state.draws else None
    y = torch.rand(3) + x * state.count
    input()  # which a capture does not do
    return y


def test_A42_a_failed_capture_leaves_objects_and_states_as_they_were():
    state, seen = Plain(count=0, buffer=torch.zeros(3), draws=False), ["first"]
    before, python = torch.get_rng_state(), random.getstate()
    backend = Counting()
    compiled = pellucid.compile(stops_late, backend=backend, fullgraph=True)
    for _ in range(2):
        with pytest.raises(pellucid.errors.Unsupported, match="input"):
            compiled(X, state, seen)
        assert state.count == 0 and seen == ["first"] and same(state.buffer, torch.zeros(3))
        assert torch.is_grad_enabled() and torch.equal(torch.get_rng_state(), before) and random.getstate() == python
    assert backend.count == 0 and pellucid.cache_entries(compiled) == []


def test_A42_the_next_capture_has_nothing_of_the_failed_one():
    def f(x, stop):
        y = x * 2 + 1
        if stop:
            input()
        return y

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    with pytest.raises(pellucid.errors.Unsupported):
        compiled(X, True)
    assert same(compiled(X, False), X * 2 + 1)
    (entry,) = pellucid.cache_entries(compiled)
    alone = pellucid.compile(f, backend=Counting(), fullgraph=True)
    assert same(alone(X, False), X * 2 + 1)
    assert entry["guards"] == pellucid.cache_entries(alone)[0]["guards"]
    assert [node.op for node in backend.graphs[0].graph.nodes] == ["placeholder", *["call_function"] * 2, "output"]


def test_A42_a_failed_capture_keeps_nothing_alive():
    def f(x):
        made = Plain(t=x * 2)
        refs.append(weakref.ref(x))
        input()
        return made

    refs: list = []
    x = torch.ones(3)
    kept = weakref.ref(x)
    with pytest.raises(pellucid.errors.Unsupported):
        pellucid.compile(f, backend="eager", fullgraph=True)(x)
    assert refs == []
    del x
    gc.collect()
    assert kept() is None
