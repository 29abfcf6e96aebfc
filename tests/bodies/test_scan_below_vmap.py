"""scan below torch.vmap: one graph, whose operator is called below the levels; values, strides and gradients of torch's own rule,
and its refusals."""

from __future__ import annotations

import pytest
import torch
from torch import vmap
from torch._higher_order_ops.scan import scan

import pellucid
from pellucid.errors import Unsupported
from support import Counting, nearly_same

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")

BACKENDS = ["eager", "aot_eager"]
WEIGHT = torch.tensor([1.0, 0.5, 0.25], requires_grad=True)
FACTOR = 0.5
SEEN: list[int] = []


def combine(c, e):
    return c * FACTOR + e * WEIGHT, c * e


def rows(x):
    return vmap(lambda r: scan(combine, r[0] * 1, r))(x)


def columns(x):
    return vmap(lambda r: scan(combine, r[0] * 1, r), in_dims=1, out_dims=1)(x)


def backwards_over_another_dimension(x):
    return vmap(lambda r: scan(lambda c, e: (c * 0.5 + e, c * e), r[:, 0] * 1, r, dim=1, reverse=True))(x)


def two_levels(x):
    return vmap(vmap(lambda r: scan(combine, r[0] * 1, r)), in_dims=1)(torch.stack([x, x.cos()]))


def uses_rows(x):
    return vmap(lambda r, w: scan(lambda c, e: (c * w + e * WEIGHT, c * r[0]), r[0] * 1, r))(x, x[:, 1].cos())


def uses_what_it_carries(x):
    def row(r):
        first = r[0] * 1
        return scan(lambda c, e: (c * first + e, c * r.sum()), first, r)

    return vmap(row)(x)


def uses_rows_of_two_levels(x):
    def inner(r):
        return vmap(lambda a, b: scan(lambda c, e: (c * b + e * r.sum(), c * e), a[0] * 1, a), in_dims=(1, 0))(r, r[0])

    return vmap(inner)(x)


def gives_what_is_the_same_for_all(x):
    return vmap(lambda r: scan(lambda c, e: (c * 0.5 + e, WEIGHT * 2), r[0] * 1, r))(x)


def trees(x):
    def step(c, e):
        return {"a": c["a"] + e[0], "b": c["b"] * e[1]}, [c["a"].sum(), e[1] * WEIGHT]

    return vmap(lambda r: scan(step, {"a": r[0] * 1, "b": r[1] * 1}, (r, r.cos())))(x)


def vmap_inside(x):
    return vmap(lambda r: scan(lambda c, e: (vmap(lambda a, b: a * b)(c, e), c * e), r[0] * 1, r))(x)


def goes_on_behind_it(x):
    def row(r):
        y = scan(combine, r[0] * 1, r)[1]
        return (vmap(torch.sin)(y) @ WEIGHT).sum()

    return vmap(row)(x) * 2


def in_chunks(x):
    return vmap(lambda r: scan(combine, r[0] * 1, r), chunk_size=2)(x)


def draws(x):
    def step(c, e):
        return c + torch.nn.functional.dropout(e), c * e

    return vmap(lambda r: scan(step, r[0] * 1, r), randomness="different")(x)


def scan_in_a_scan(x):
    def row(r):
        def step(c, e):
            return scan(lambda d, g: (d * r[1, 0] + g, d + e[0]), c, r[:, 0])[0], c * 2

        return scan(step, r[0, 0] * 1, r)

    return vmap(row)(x)


def written_before(x):
    def row(r):
        b = r[0].clone()
        b.add_(1)
        return scan(lambda c, e: (c * b + e, c * e), r[0] * 1, r)

    return vmap(row)(x)


PROGRAMS = [
    rows,
    columns,
    backwards_over_another_dimension,
    two_levels,
    uses_rows,
    uses_what_it_carries,
    uses_rows_of_two_levels,
    gives_what_is_the_same_for_all,
    trees,
    vmap_inside,
    goes_on_behind_it,
    in_chunks,
    draws,
    scan_in_a_scan,
    written_before,
]


def step(function, x, requires_grad):
    WEIGHT.grad = None
    x = x.clone().requires_grad_(requires_grad)
    torch.manual_seed(0)
    leaves, spec = torch.utils._pytree.tree_flatten(function(x))
    needing = [leaf for leaf in leaves if leaf.requires_grad]
    if needing:
        sum(leaf.cos().sum() for leaf in needing).backward()
    return str(spec), [leaf.detach() for leaf in leaves], [leaf.stride() for leaf in leaves], x.grad, WEIGHT.grad


def x_of(size):
    return torch.linspace(-1, 1, size * 12).reshape(size, 4, 3)


CASES = [
    pytest.param(program, backend, requires_grad, id=f"{program.__name__}-{backend}-{requires_grad}")
    for program in PROGRAMS
    for backend in BACKENDS
    for requires_grad in (False, True)
    # AOTAutograd cannot differentiate torch's operator there: its backward pass finds that inputs are shared.
    if (program, backend, requires_grad) != (scan_in_a_scan, "aot_eager", True)
]


@pytest.mark.parametrize(("program", "backend", "requires_grad"), CASES)
def test_values_and_gradients(program, backend, requires_grad):
    counting = Counting()
    compiled = pellucid.compile(program, backend=counting if backend == "eager" else backend, fullgraph=True)
    for size in (2, 3):
        got, want = step(compiled, x_of(size), requires_grad), step(program, x_of(size), requires_grad)
        assert nearly_same(got, want), (size, got, want)
    if backend == "eager":
        for gm in counting.graphs:
            assert gm.graph.find_nodes(op="call_function", target=torch.ops.higher_order.scan)


def test_the_operator_is_called_below_the_level(counting):
    x = x_of(2)
    pellucid.compile(uses_rows, backend=counting, fullgraph=True)(x)
    (gm,) = counting.graphs
    names = [node.target.__name__ for node in gm.graph.nodes if node.op == "call_function"]
    at = names.index("scan")
    assert names[:at].count("_vmap_increment_nesting") == names[:at].count("_vmap_decrement_nesting") == 1
    body = [node.target for node in gm.scan_combine_fn_0.graph.nodes]
    assert [getattr(target, "__name__", "") for target in body].count("_vmap_increment_nesting") == 1


def test_what_the_function_reads_is_guarded(counting, monkeypatch):
    compiled = pellucid.compile(rows, backend=counting, fullgraph=True)
    x = x_of(2)
    assert nearly_same(compiled(x), rows(x))
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert nearly_same(compiled(x), rows(x))
    assert counting.count == 2


def begins_to_have_rows(x):
    return vmap(lambda r: scan(lambda c, e: (c * 0.5 + e, c * e), torch.zeros(3), r))(x)


def layout_of_its_own(x):
    return vmap(lambda r: scan(lambda c, e: (e.sin(), c * e), r[0] * 1, r), in_dims=2)(x)


def below_gradients(x):
    return torch.func.grad(lambda r: scan(combine, r[0] * 1, r)[1].sum())(x[0])


def has_an_effect(x):
    def step(c, e):
        SEEN.append(1)
        return c + e, c * e

    return vmap(lambda r: scan(step, r[0] * 1, r))(x)


def outcome(function):
    SEEN.clear()
    try:
        return function(x_of(2)), SEEN.copy()
    except Exception as error:
        return type(error).__name__, SEEN.copy()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("program", "why"),
    [
        (begins_to_have_rows, "at some times only"),
        (layout_of_its_own, "layout"),
        (below_gradients, "no torch.vmap"),
        (has_an_effect, "PEL0121"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_refused_is_what_torch_does(program, why):
    with pytest.raises(Unsupported, match=why):
        pellucid.compile(program, backend="eager", fullgraph=True)(x_of(2))
    counting = Counting()
    got = outcome(pellucid.compile(lambda x: program(x * 1) if x.sum() is not None else None, backend=counting))
    assert nearly_same(got, outcome(program))
    for gm in counting.graphs:
        assert not gm.graph.find_nodes(op="call_function", target=torch.ops.higher_order.scan)


def test_a_break_behind_it_lets_the_whole_vmap_run(counting):
    def row(r):
        y = scan(combine, r[0] * 1, r)[1]
        torch._dynamo.graph_break()
        return y * 2

    def program(x):
        return vmap(row)(x.sin()) + 1

    x = x_of(2)
    assert nearly_same(pellucid.compile(program, backend=counting)(x), program(x))
    assert counting.count == 2


def sums_of_rows(x, c):
    return vmap(lambda xs, carry: scan(lambda a, b: (a + b, (a * b).sum()), carry, xs))(x, c)


def by_columns(x, c):
    def follow(xs, carry):
        return scan(lambda a, b: (torch.tanh(a + b * carry), a.cos()), carry, xs)

    return vmap(follow, in_dims=(1, 0))(x.transpose(0, 1), c)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [sums_of_rows, by_columns])
def test_sizes_that_change(program, backend):
    compiled = pellucid.compile(program, backend=backend, fullgraph=True, dynamic=True)
    for rows, steps, width in ((2, 4, 3), (3, 5, 4), (4, 7, 6)):
        x, c = torch.randn(rows, steps, width), torch.randn(rows, width)
        for got, want in zip(compiled(x, c), program(x, c), strict=True):
            torch.testing.assert_close(got, want, check_stride=True)
    assert len(pellucid.cache_entries(compiled)) == 1
