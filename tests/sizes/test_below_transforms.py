"""Sizes that change below transforms of torch.func: one capture more, whose graph serves them all, with eager's values, gradients
and strides."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import pellucid
from support import Counting, nearly_same

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")

WEIGHT = torch.linspace(-1, 1, 9).reshape(3, 3)


def rows(x):
    return vmap(lambda r: (r @ WEIGHT).sin().sum())(x)


def columns(x):
    return vmap(lambda r: r * 2 + r.mean(), in_dims=1, out_dims=1)(x)


def two_levels(x):
    return vmap(vmap(lambda v: v.sin()))(x)


def pairs(x):
    return vmap(lambda a: vmap(lambda b: (a - b).square().sum())(x))(x)


def gradient(x):
    return grad(lambda y: (y @ WEIGHT).sin().sum())(x)


def gradient_of_each(x):
    return vmap(grad(lambda y: (y @ WEIGHT).sin().sum()))(x)


def gradient_through_rows(x):
    return grad(lambda y: vmap(lambda r: r.sin().sum())(y).sum())(x)


def jacobian_backwards(x):
    return jacrev(lambda y: (y @ WEIGHT).sin())(x)


def jacobian_forwards(x):
    return jacfwd(lambda y: (y @ WEIGHT).sin())(x)


def backwards(x):
    out, pull = vjp(lambda y: (y @ WEIGHT).sin(), x)
    return pull(torch.ones_like(out))[0]


def forwards(x):
    return jvp(lambda y: (y @ WEIGHT).sin(), (x,), (x.cos(),))


def reads_sizes(x):
    def row(r):
        n, dims = r.numel(), tuple(r.shape)
        return r * n + r.view(dims[0] * dims[1]).sum() + r.stride(0) + torch.arange(dims[0]).view(-1, 1)

    return vmap(row)(x.unsqueeze(0).expand(2, -1, -1) * 1) / x.shape[0]


def makes_tensors(x):
    return vmap(lambda r: torch.cat([torch.zeros_like(r), r.new_ones(r.shape[0]), r]).view(3, -1))(x.t())


def writes(x):
    def row(r):
        y = r.clone()
        y[1:].mul_(2)
        return y.add_(r[0])

    return vmap(row, in_dims=1)(x)


def draws(x):
    return vmap(lambda r: torch.nn.functional.dropout(r, 0.5), randomness="different")(x)


def scanned(x):
    return vmap(lambda r: scan(lambda c, e: (c * 0.5 + e, c * e), r[0] * 1, r))(torch.stack([x, x.cos()], 1))


class Linear(torch.nn.Linear):
    def loss(self, parameters, row):
        return functional_call(self, parameters, (row,)).square().sum()


torch.manual_seed(0)
LINEAR = Linear(3, 2)


def gradients_per_sample(x):
    parameters = {name: value.detach() for name, value in LINEAR.named_parameters()}
    return vmap(grad(LINEAR.loss), in_dims=(None, 0))(parameters, x)


PROGRAMS = [
    rows,
    columns,
    two_levels,
    pairs,
    gradient,
    gradient_of_each,
    gradient_through_rows,
    jacobian_backwards,
    jacobian_forwards,
    backwards,
    forwards,
    reads_sizes,
    writes,
    draws,
    scanned,
    gradients_per_sample,
]
# torch's rule for random numbers asks the wrapper of a level for plain sizes when they are all open.
DYNAMIC = [program for program in PROGRAMS if program is not draws]


def step(function, size, requires_grad=True):
    x = torch.linspace(-1, 1, size * 3).reshape(size, 3).requires_grad_(requires_grad)
    torch.manual_seed(0)
    leaves, spec = torch.utils._pytree.tree_flatten(function(x))
    needing = [leaf for leaf in leaves if leaf.requires_grad]
    if needing:
        sum(leaf.sin().sum() for leaf in needing).backward()
    return str(spec), [leaf.detach() for leaf in leaves], [leaf.stride() for leaf in leaves], x.grad


@pytest.mark.parametrize("requires_grad", [False, True], ids=["plain", "gradients"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_capture_more_serves_all_sizes(program, requires_grad):
    counting = Counting()
    compiled = pellucid.compile(program, backend=counting, fullgraph=True)
    for size in (4, 5, 7, 3, 9):
        got, want = step(compiled, size, requires_grad), step(program, size, requires_grad)
        assert nearly_same(got, want), (size, got, want)
    assert counting.count == 2


@pytest.mark.parametrize("program", DYNAMIC, ids=lambda program: program.__name__)
def test_dynamic(program):
    counting = Counting()
    compiled = pellucid.compile(program, backend=counting, fullgraph=True, dynamic=True)
    for size in (5, 4, 7):
        assert nearly_same(step(compiled, size), step(program, size)), size
    assert counting.count == 1


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_compilers(program):
    compiled = pellucid.compile(program, backend="aot_eager", fullgraph=True)
    for size in (4, 5, 7):
        assert nearly_same(step(compiled, size), step(program, size)), size


def test_the_size_of_a_level_is_a_number_of_the_graph(counting):
    compiled = pellucid.compile(rows, backend=counting, fullgraph=True)
    for size in (4, 5):
        compiled(torch.ones(size, 3))
    first, second = (
        next(
            node.args[0] for node in gm.graph.nodes if getattr(node.target, "__name__", "") == "_vmap_increment_nesting"
        )
        for gm in counting.graphs
    )
    assert first == 4 and isinstance(second, torch.fx.Node)


# ---- what asks for plain sizes


def in_chunks(x):
    return vmap(lambda r: r.sin(), chunk_size=2)(x)


def second_derivatives(x):
    return hessian(lambda y: (y @ WEIGHT).sin().sum())(x)


def by_the_size(x):
    return vmap(lambda r: r.sin() if r.shape[0] > 5 else r.cos(), in_dims=1)(x)


def counts(x):
    return vmap(lambda r: sum(r[i] * i for i in range(r.shape[0])), in_dims=1)(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "program", [makes_tensors, draws, in_chunks, second_derivatives, by_the_size, counts], ids=lambda p: p.__name__
)
def test_plain_sizes_are_guarded(program, dynamic, backend):
    counting = Counting()
    used = counting if backend == "eager" else backend
    compiled = pellucid.compile(program, backend=used, fullgraph=True, dynamic=dynamic)
    for size in (4, 5, 7, 3, 9, 4, 8):
        assert nearly_same(step(compiled, size), step(program, size)), size
    if backend == "eager":
        assert 0 < counting.count <= 7


def test_a_break_below_a_level_lets_the_call_run_for_real(counting):
    def row(r):
        y = r.sin()
        torch._dynamo.graph_break()
        return y * r.shape[0]

    def program(x):
        return vmap(row, in_dims=1)(x.cos()) + x.shape[0]

    compiled = pellucid.compile(program, backend=counting)
    for size in (4, 5, 7, 9):
        assert nearly_same(step(compiled, size), step(program, size)), size
    assert counting.count == 4
