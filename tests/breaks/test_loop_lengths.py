"""Lists that a loop fills for as long as the elements of tensors say: what is made of them behind the loop."""

from __future__ import annotations

import pytest
import torch

import pellucid
from support import Counting


def halved(x):
    outs = []
    while x.sum() > 1:
        outs.append(x)
        x = x / 2
    return torch.stack(outs).sum(0) if outs else x


def halved_in_the_middle(x):
    outs = []
    while True:
        x = x / 2
        if x.sum() < 1:
            break
        outs.append(x)
    return torch.stack([x, *outs]).sum(0)


def collect(x, outs):
    while x.sum() > 1:
        outs.append(x)
        x = x / 2
    return x


def halved_by_a_function(x):
    outs = []
    x = collect(x, outs)
    return torch.stack([x, *outs]).sum(0)


class Holder:
    def __init__(self):
        self.outs = []


def halved_in_an_object(x):
    holder = Holder()
    while x.sum() > 1:
        holder.outs.append(x)
        x = x / 2
    return torch.stack([x, *holder.outs]).sum(0)


def calls_of(compiled, f, values):
    """Graphs that each call adds; every call is compared with eager's."""
    added = []
    for value in values:
        x = torch.full((3,), value)
        before = compiled.backend.count
        torch.testing.assert_close(compiled.function(x.clone()), f(x.clone()), rtol=0, atol=0)
        added.append(compiled.backend.count - before)
    return added


class Compiled:
    def __init__(self, f):
        self.backend = Counting()
        self.function = pellucid.compile(f, backend=self.backend)


@pytest.mark.parametrize("f", [halved, halved_in_the_middle, halved_by_a_function, halved_in_an_object])
def test_what_is_behind_the_loop_is_compiled_when_a_length_comes_again(f):
    compiled = Compiled(f)
    # 3 and 30 have lists of other lengths: the turns alone are compiled. What has come before is.
    first, others = calls_of(compiled, f, [3.0, 30.0])
    assert first >= 1 and others == 0
    assert calls_of(compiled, f, [3.0, 30.0]) == [1, 1]
    assert calls_of(compiled, f, [3.0, 30.0]) == [0, 0]


def test_lengths_that_never_come_again_are_looked_at_ever_more_rarely():
    compiled = Compiled(halved)
    calls_of(compiled, halved, [3.0, 3.0])
    made = compiled.backend.count
    assert sum(calls_of(compiled, halved, [float(2**k) for k in range(3, 60)])) == 0
    looked_at = [r for r in pellucid.recompile_reasons(compiled.function) if r.region is None]
    assert compiled.backend.count == made and 8 < len(looked_at) < 20


def test_a_loop_of_the_program_s_own_numbers_waits_for_nothing():
    def f(x, n):
        outs = []
        for _ in range(n):
            pellucid.graph_break()
            outs.append(x)
            x = x / 2
        return torch.stack(outs).sum(0)

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    x = torch.ones(3)
    torch.testing.assert_close(compiled(x, 3), f(x, 3), rtol=0, atol=0)
    made = backend.count
    torch.testing.assert_close(compiled(x, 3), f(x, 3), rtol=0, atol=0)
    assert made >= 2 and backend.count == made


def test_a_list_that_the_loop_leaves_as_long_waits_for_nothing():
    def f(x, outs):
        while x.sum() > 1:
            outs[0] = x
            x = x / 2
        return torch.stack(outs).sum(0)

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for value in (9.0, 9.0):
        x = torch.full((3,), value)
        torch.testing.assert_close(compiled(x, [x, x]), f(x, [x, x]), rtol=0, atol=0)
    assert backend.count >= 2
    made = backend.count
    compiled(x, [x, x])
    assert backend.count == made
