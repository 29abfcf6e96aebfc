"""torch.cond below torch.vmap, with a predicate that differs between rows: values and gradients of torch's own rule, one graph,
and the same refusals."""

from __future__ import annotations

import pytest
import torch
from torch import vmap

import pellucid
from pellucid.errors import Unsupported
from support import Counting, nearly_same

BACKENDS = ["eager", "aot_eager"]
COND = torch.ops.higher_order.cond
WEIGHT = torch.tensor([2.0, 3.0])
FACTOR = 2
X = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [3.0, -1.0]])


def one_row(row):
    return torch.cond(row.sum() > 0, lambda r: r.sin() * WEIGHT, lambda r: r * FACTOR, (row,))


def rows(x):
    return vmap(one_row)(x)


def columns(x):
    return vmap(one_row, in_dims=1, out_dims=1)(x.t())


def in_a_tuple(x):
    return vmap(lambda row: torch.cond(row[0] > 0, lambda r: (r.sin(),), lambda r: (r.exp(),), (row,)))(x)


def computes_in_steps(x):
    def true(row):
        y = row.double()
        y = y.clone().mul_(3)
        return y + 1

    return vmap(lambda row: torch.cond(row.sum() > 0, true, lambda r: r.double() - 1, (row,)))(x) * 2


def two_levels(x):
    return vmap(vmap(lambda v: torch.cond(v > 0, lambda a: a.sin(), lambda a: a * 2, (v,))))(x)


def two_conds(x):
    def row(r):
        y = torch.cond(r.sum() > 0, torch.sin, torch.cos, (r,))
        return torch.cond(y[0] > 0.6, lambda a: a * 3, lambda a: a - 1, (y,))

    return vmap(row)(x)


def operands_of_all_rows(x):
    return vmap(lambda row: torch.cond(row[0] > 0, lambda a, b: a * b, lambda a, b: a + b, (row, WEIGHT)))(x)


PROGRAMS = [rows, columns, in_a_tuple, computes_in_steps, two_levels, two_conds, operands_of_all_rows]


def step(function, x):
    x = x.clone().requires_grad_()
    result = function(x)
    tensor = result[0] if isinstance(result, tuple) else result
    tensor.sum().backward()
    return type(result).__name__, tensor.detach(), tensor.stride(), x.grad


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values_and_gradients_of_each_row(program, backend):
    counting = Counting()
    compiled = pellucid.compile(program, backend=counting if backend == "eager" else backend, fullgraph=True)
    for sign in (1, -1, 1):
        got, want = step(compiled, X * sign), step(program, X * sign)
        assert nearly_same(got, want), (sign, got, want)
    if backend == "eager":
        assert counting.count == 1


def test_the_graph_has_both_branches_and_a_choice(counting):
    compiled = pellucid.compile(rows, backend=counting, fullgraph=True)
    assert torch.equal(compiled(X), torch.stack([row.sin() * WEIGHT if row.sum() > 0 else row * 2 for row in X]))
    (gm,) = counting.graphs
    found = [node.target for node in gm.graph.nodes]
    assert torch.where in found and COND not in found


def test_what_a_branch_reads_is_guarded(counting, monkeypatch):
    compiled = pellucid.compile(rows, backend=counting, fullgraph=True)
    compiled(X)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert torch.equal(compiled(X)[1], X[1] * 5)
    monkeypatch.setitem(globals(), "WEIGHT", torch.tensor([7.0, 8.0]))
    assert torch.equal(compiled(X)[0], X[0].sin() * WEIGHT)


SEEN: list[int] = []


def gives_its_operand(r):
    return r


def gives_a_view(r):
    return r[:]


def writes(r):
    return r.add_(1) * 1


def gives_two(r):
    return r * 3, r * 4


def gives_another_type(r):
    return r.double()


def notes(r):
    SEEN.append(1)
    return r * 3


def uses_nothing(r):
    return torch.ones(2)


REFUSED = [gives_its_operand, gives_a_view, writes, gives_two, gives_another_type, notes]


def choice(true, false, **options):
    return lambda x: vmap(lambda row: torch.cond(row.sum() > 0, true, false, (row,)), **options)(x + 0)


def outcome(function):
    try:
        return function(X.clone())
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("true", REFUSED, ids=lambda true: true.__name__)
def test_what_is_refused_is_what_torch_does(true):
    false = (lambda r: (r * 2, r * 5)) if true is gives_two else (lambda r: r * 2)
    program = choice(true, false)
    with pytest.raises(Unsupported):
        pellucid.compile(program, backend="eager", fullgraph=True)(X)
    counting = Counting()
    SEEN.clear()
    want, seen = outcome(program), SEEN.copy()
    SEEN.clear()
    got = outcome(pellucid.compile(lambda x: program(x * 1), backend=counting))
    assert nearly_same(got, want)
    assert SEEN == seen
    assert all(torch.where not in [node.target for node in gm.graph.nodes] for gm in counting.graphs)


def test_branches_that_use_nothing_of_a_row_are_refused():
    program = choice(uses_nothing, uses_nothing)
    with pytest.raises(Unsupported, match="maps over"):
        pellucid.compile(program, backend="eager", fullgraph=True)(X)


def test_a_level_that_allows_randomness_is_refused_as_torch_forbids_it_in_branches():
    program = choice(lambda r: r + torch.rand(2), lambda r: r * 2, randomness="different")
    with pytest.raises(Unsupported):
        pellucid.compile(program, backend="eager", fullgraph=True)(X)
    assert outcome(pellucid.compile(program, backend="eager")) == outcome(program)


def test_a_level_of_gradients_is_refused():
    with pytest.raises(Unsupported):
        pellucid.compile(torch.func.grad(lambda x: rows(x).sum()), backend="eager", fullgraph=True)(X)
