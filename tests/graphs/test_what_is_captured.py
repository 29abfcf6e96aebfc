"""What is captured, and into which graph: callees, a module in a global, a tensor as key, C code that nobody knows (docs/feature_rows.md, A01 to A06)."""

from __future__ import annotations

import operator
import zlib

import pytest
import torch
from torch import nn

import pellucid
from support import same
from support.graphs import targets


# A01: callees write into the caller's graph
def aa(x):
    return x * 2 + 1


def ab(x):
    return (x - 3).sin()


def a(x):
    return aa(x) + ab(x)


def b(x):
    return torch.relu(x)


def tree(x):
    return b(a(x))


def test_A01_callees_write_into_the_graph_of_the_caller(counting):
    x = torch.arange(4.0)
    assert same(pellucid.compile(tree, backend=counting, fullgraph=True)(x), tree(x))
    assert counting.count == 1
    assert targets(counting.graphs[0]) == [operator.mul, operator.add, operator.sub, "sin", operator.add, torch.relu]


# A04: a module in a global
FIVE = nn.Sequential(*[nn.Linear(3, 3) for _ in range(5)])


def use_global_module(x):
    return FIVE(x)


def test_A04_module_in_a_global(counting):
    x = torch.rand(2, 3)
    got = pellucid.compile(use_global_module, backend=counting, fullgraph=True)(x)
    assert same(got, FIVE(x))
    (gm,) = counting.graphs
    assert targets(gm) == [torch._C._nn.linear] * 5
    parameters = [n.target for n in gm.graph.find_nodes(op="placeholder")][1:]
    assert parameters == [f"G_FIVE_modules_{i}_parameters_{p}_" for i in range(5) for p in ("weight", "bias")]
    got.sum().backward()
    grads = [p.grad for p in FIVE.parameters()]
    FIVE.zero_grad()
    FIVE(x).sum().backward()
    assert len(grads) == 10 and all(same(grad, p.grad) for grad, p in zip(grads, FIVE.parameters()))
    FIVE.zero_grad()


# A05: a tensor as key


def test_A05_made_in_the_region(counting):
    def f():
        return {torch.ones(2): 5}

    (((key, value),),) = [pellucid.compile(f, backend=counting, fullgraph=True)().items()]
    assert value == 5 and same(key, torch.ones(2))
    assert targets(counting.graphs[0]) == [torch.ones]


def test_A05_from_outside(counting):
    def f(x):
        table = {x: 5}
        return table, x + table[x]

    x = torch.zeros(2)
    table, y = pellucid.compile(f, backend=counting, fullgraph=True)(x)
    assert list(table) == [x] and next(iter(table)) is x and table[x] == 5 and same(y, x + 5)
    assert targets(counting.graphs[0]) == [operator.add]


# A06: C code that nobody knows


def before(x):
    return x.sin() + 1


def after(x, number):
    return x * number


def checksum(x, text):
    y = before(x)
    return after(y, zlib.crc32(text))


def test_A06_unknown_c_code(counting):
    compiled = pellucid.compile(checksum, backend=counting)
    x = torch.arange(3.0)
    for text in (b"a", b"b", b"a"):
        assert same(compiled(x, text), checksum(x, text))
    # Before the call nobody looks at the text; what it gives is a number that changes.
    assert [targets(gm) for gm in counting.graphs] == [["sin", operator.add], [operator.mul], [operator.mul]]
    reasons = {record.reason for record in pellucid.break_reasons(compiled)}
    assert len(reasons) == 1 and "zlib.crc32" in reasons.pop()


def test_A06_fullgraph_is_an_error():
    with pytest.raises(pellucid.errors.Unsupported, match=r"zlib\.crc32"):
        pellucid.compile(checksum, backend="eager", fullgraph=True)(torch.ones(2), b"a")
