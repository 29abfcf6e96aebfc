"""torch's while_loop, scan and map in a region: operators with graphs inside, and the values and gradients of Python's loops."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as hop_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import pellucid
from support import Counting, nearly_same

BACKENDS = ["eager", "aot_eager"]
WEIGHT = torch.tensor([1.0, 0.5, 0.25], requires_grad=True)
STEPS = 4


class Operators:
    while_loop = staticmethod(while_loop)
    scan = staticmethod(scan)
    map = staticmethod(hop_map)


class Loops:
    """What they do, in Python."""

    @staticmethod
    def while_loop(cond_fn, body_fn, carried):
        while cond_fn(*carried):
            carried = body_fn(*carried)
        return tuple(carried)

    @staticmethod
    def scan(combine_fn, init, xs, *, dim=0, reverse=False):
        flat, spec = torch.utils._pytree.tree_flatten(xs)
        rows = [[x.select(dim, i) for x in flat] for i in range(flat[0].shape[dim])]
        carry, outs, out_spec = init, [], None
        for row in reversed(rows) if reverse else rows:
            carry, out = combine_fn(carry, torch.utils._pytree.tree_unflatten(row, spec))
            leaves, out_spec = torch.utils._pytree.tree_flatten(out)
            outs.append(leaves)
        outs = outs[::-1] if reverse else outs
        stacked = [torch.stack(column, min(dim, column[0].dim())) for column in zip(*outs)]
        return carry, torch.utils._pytree.tree_unflatten(stacked, out_spec)

    @staticmethod
    def map(f, xs, *args):
        flat, spec = torch.utils._pytree.tree_flatten(xs)
        outs = []
        for i in range(flat[0].shape[0]):
            leaves, out_spec = torch.utils._pytree.tree_flatten(
                f(torch.utils._pytree.tree_unflatten([x[i] for x in flat], spec), *args)
            )
            outs.append(leaves)
        return torch.utils._pytree.tree_unflatten([torch.stack(column) for column in zip(*outs)], out_spec)


def step(function, x, parameters=(WEIGHT,)):
    for parameter in parameters:
        parameter.grad = None
    x = x.clone().requires_grad_()
    leaves, spec = torch.utils._pytree.tree_flatten(function(x))
    sum(leaf.sum() for leaf in leaves if leaf.requires_grad).backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in (x, *parameters)]
    return [str(spec), [leaf.detach() for leaf in leaves], grads]


def check(program, backend, sizes=(5, 5)):
    counting = Counting() if backend == "eager" else backend
    compiled = pellucid.compile(functools.partial(program, Operators), backend=counting, fullgraph=True)
    for size in sizes:
        x = torch.linspace(-1, 1, size * 3).reshape(size, 3)
        got, want = step(compiled, x), step(functools.partial(program, Loops), x)
        assert nearly_same(got, want), (got, want)
    return counting


def counted(ops, x):
    return ops.while_loop(lambda i, a: i < STEPS, lambda i, a: (i + 1, a * WEIGHT + x.sin()), (torch.tensor(0), x))


def by_values(ops, x):
    def goes_on(state):
        return state["a"].abs().sum() > 1

    def body(state):
        return ({"a": state["a"] * 0.5, "n": (state["n"][0] + 1,)},)

    return ops.while_loop(goes_on, body, ({"a": x, "n": (torch.tensor(0),)},))


def never(ops, x):
    return ops.while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x * 1))


def carried_is_closed_over(ops, x):
    return ops.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + x), (torch.tensor(0), x))


def loop_in_a_loop(ops, x):
    def body(i, a):
        return i + 1, ops.while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b * WEIGHT), (torch.tensor(0), a + 1))[1]

    return ops.while_loop(lambda i, a: i < 3, body, (torch.tensor(0), x))


def cumulated(ops, x):
    return ops.scan(lambda carry, row: (carry + row * WEIGHT, carry * row), torch.zeros(3), x)


def backwards(ops, x):
    return ops.scan(lambda carry, row: (carry * 0.5 + row, (carry + row).sin()), x[0], x, reverse=True)


def summed(ops, x):
    carry, outs = ops.scan(lambda carry, row: (carry * 0.5 + row * WEIGHT, carry.sin()), torch.zeros(3), x)
    return carry.sum() + outs.sum()  # the gradients of both are one element, expanded


def other_dimension(ops, x):
    def combine(carry, row):
        return {"sum": carry["sum"] + row["b"].sum()}, (row["a"] * WEIGHT[0], carry["sum"] * 2)

    return ops.scan(combine, {"sum": torch.zeros(())}, {"a": x, "b": x.cos()}, dim=1)


def over_rows(ops, x):
    y = x.sum()
    return ops.map(lambda row: {"a": row * WEIGHT, "b": row.sum() + y}, x)


def with_arguments(ops, x):
    return ops.map(lambda pair, b, n: (pair[0] * b + pair[1] * n).exp(), (x, x.sin()), WEIGHT, 3)


def map_of_scan(ops, x):
    return ops.map(lambda row: ops.scan(lambda c, e: (c * 0.5 + e, c + e), torch.zeros(()), row)[1], x)


def cond_in_scan(ops, x):
    def combine(carry, row):
        new = torch.cond(row.sum() > 0, lambda c, r: c * WEIGHT + r, lambda c, r: c - r, (carry, row))
        return new, new * 2

    def plain(carry, row):
        new = carry * WEIGHT + row if row.sum() > 0 else carry - row
        return new, new * 2

    return ops.scan(combine if ops is Operators else plain, torch.ones(3), x)


def associative(ops, x):
    if ops is Loops:
        return (x * WEIGHT).cumsum(0)
    return associative_scan(lambda a, b: a + b, x * WEIGHT, 0, combine_mode="generic")


LOOPS = [counted, by_values, never, carried_is_closed_over, loop_in_a_loop]
ROWS = [
    cumulated,
    backwards,
    summed,
    other_dimension,
    over_rows,
    with_arguments,
    map_of_scan,
    cond_in_scan,
    associative,
]


@pytest.mark.parametrize("program", [*LOOPS, *ROWS], ids=lambda program: program.__name__)
def test_values_and_gradients(program):
    check(program, "eager")


# torch's own backward pass of a loop runs at least once, also of one that did not run: its gradients are other ones.
@pytest.mark.parametrize(
    "program", [p for p in (*LOOPS, *ROWS) if p not in (never, loop_in_a_loop)], ids=lambda program: program.__name__
)
def test_values_and_gradients_of_the_operators_themselves(program):
    check(program, "aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("program", [counted, cumulated, summed, over_rows], ids=lambda program: program.__name__)
def test_inductor(program):
    check(program, "inductor")


@pytest.mark.parametrize("program", [*LOOPS, *ROWS[:-1]], ids=lambda program: program.__name__)
def test_sizes_that_change(program):
    counting = check(program, "eager", sizes=(5, 4, 7, 3, 9))
    assert counting.count <= 3


@pytest.mark.parametrize("program", [counted, cumulated, over_rows], ids=lambda program: program.__name__)
def test_sizes_that_change_for_compilers(program):
    check(program, "aot_eager", sizes=(5, 4, 7))


def test_A28_the_graphs_of_a_loop():
    (gm,) = check(counted, "eager").graphs
    (call,) = gm.graph.find_nodes(op="call_function", target=torch.ops.higher_order.while_loop)
    cond, body, carried, used = call.args
    assert (cond.target, body.target, len(carried), len(used)) == ("cond_fn_0", "body_fn_0", 2, 2)
    for name in ("cond_fn_0", "body_fn_0"):
        graph = getattr(gm, name).graph
        assert len(graph.find_nodes(op="placeholder")) == 4
        graph.lint()
    (output,) = gm.cond_fn_0.graph.find_nodes(op="output")
    assert isinstance(output.args[0], torch.fx.Node)


def test_A28_the_graph_of_a_scan():
    (gm,) = check(cumulated, "eager").graphs
    (call,) = gm.graph.find_nodes(op="call_function", target=torch.ops.higher_order.scan)
    function, init, rows, used = call.args
    assert (function.target, len(init), len(rows), len(used)) == ("scan_combine_fn_0", 1, 1, 1)
    assert len(gm.scan_combine_fn_0.graph.find_nodes(op="placeholder")) == 3


def test_A33_a_global_that_a_body_reads_is_guarded(monkeypatch, counting):
    compiled = pellucid.compile(functools.partial(counted, Operators), backend=counting, fullgraph=True)
    x = torch.ones(2, 3, requires_grad=True)
    assert int(compiled(x)[0]) == 4
    monkeypatch.setitem(globals(), "STEPS", 6)
    assert int(compiled(x)[0]) == 6
    assert counting.count == 2


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)

    def forward(self, ops, x):
        return ops.scan(lambda h, row: ((new := self.cell(row, h)), new.clone()), x.new_zeros(2, 3), x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_recurrent_layer(backend):
    torch.manual_seed(0)
    module = Recurrent()
    compiled = pellucid.compile(lambda x: module(Operators, x), backend=backend, fullgraph=True)
    x = torch.randn(4, 2, 3)
    parameters = tuple(module.parameters())
    assert nearly_same(step(compiled, x, parameters), step(lambda x: module(Loops, x), x, parameters))


# ---- what is not captured

SEEN = []


def begins_to_need_gradients(x):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * WEIGHT), (torch.tensor(0), x))[1]


def carries_an_int_by_values(x):
    return while_loop(lambda i, a: a.sum() < 9, lambda i, a: (i + 1, a * 2 + 1), (0, x))[1]


def other_shape(x):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a[:1]), (torch.tensor(0), x))


def writes_to_what_it_carries(x):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.mul_(2)), (torch.tensor(0), x.clone()))[1]


def gives_what_it_carries(x):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a), (torch.tensor(0), x))[1]


def has_an_effect(x):
    def body(i, a):
        SEEN.append(1)
        return i + 1, a * 2

    return while_loop(lambda i, a: i < 3, body, (torch.tensor(0), x))[1]


def reads_a_value(x):
    return scan(lambda c, row: (c + row.sum().item(), c * 1), torch.zeros(()), x)


def has_an_effect_once(x):
    def combine(c, row):
        if not SEEN:
            SEEN.append(1)
        return c + row * WEIGHT, c * 1

    return scan(combine, torch.zeros(3), x)


def carry_of_another_dtype(x):
    return scan(lambda c, row: (c + row.double(), c * 1), torch.zeros(3), x)


def carry_twice(x):
    def combine(c, row):
        c = c + row
        return c, c

    return scan(combine, torch.zeros(3), x)


def gives_its_row(x):
    return hop_map(lambda row: row, x)


def gives_a_number(x):
    return hop_map(lambda row: (row * 2, 3), x)


REFUSED = [
    begins_to_need_gradients,
    carries_an_int_by_values,
    other_shape,
    writes_to_what_it_carries,
    gives_what_it_carries,
    has_an_effect,
    reads_a_value,
    has_an_effect_once,
    carry_of_another_dtype,
    carry_twice,
    gives_its_row,
    gives_a_number,
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_A32_what_is_refused_is_a_break(program):
    x = torch.ones(2, 3)
    with pytest.raises(pellucid.errors.Unsupported) as error:
        pellucid.compile(program, backend="eager", fullgraph=True)(x)
    assert "test_loops.py" in str(error.value) and program.__name__ in str(error.value)
    assert not SEEN

    def outcome(function):
        SEEN.clear()
        try:
            return function(x)
        except Exception as error:
            return type(error)

    want = outcome(program)
    got = outcome(pellucid.compile(program, backend="eager"))
    assert got is want if isinstance(want, type) else nearly_same(got, want)
    SEEN.clear()
