"""torch.compiler.nested_compile_region: for a backend that compiles a call is one operator with a graph inside, and equal
calls have one graph. Values, gradients and effects are eager's."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo.backends.debugging import aot_eager
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import pellucid
from support import nearly_same, same

region = torch.compiler.nested_compile_region
torch.manual_seed(0)
WEIGHT = torch.randn(4, 4, requires_grad=True)
LOG: list = []


class Kept:
    """aot_eager; the regions that it is given, as (name, name of the module) of each call, and the modules."""

    def __init__(self):
        self.graphs = 0
        self.calls, self.bodies = [], []

    def __call__(self, gm, inputs):
        self.graphs += 1
        for node in gm.graph.nodes:
            if node.target is torch.ops.higher_order.invoke_subgraph:
                self.calls.append((node.args[1], node.args[0].target))
        self.bodies += [name for name, _ in gm.named_children()]
        return aot_eager(gm, inputs)


@region
def part(x, w):
    return torch.tanh(x @ w)


@region
def dropped(x):
    return F.dropout(x, 0.5) * 2


@region
def structured(x):
    y = x * 2
    return {"a": y, "b": (y + 1, y)}, 5, None


@region
def inner(x):
    return x.sin()


@region
def outer(x):
    return inner(inner(x)) + 1


@region
def writes_its_own(x):
    y = x.clone()
    y.add_(1)
    y[0] = 2
    return y


@region
def scaled(x, factor):
    return x * factor


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    @region
    def forward(self, x):
        return torch.relu(self.inner(x)) + x


MODEL = nn.Sequential(Layer(), Layer(), Layer())


def chain(x):
    for _ in range(3):
        x = part(x, WEIGHT)
    return x


def model(x):
    return MODEL(x)


def random(x):
    return dropped(dropped(x))


def structures(x):
    one = structured(x)
    return one, structured(one[0]["b"][0])


def nested(x):
    return outer(outer(x))


def own_writes(x):
    return writes_its_own(writes_its_own(x))


def closed_over(x):
    w = WEIGHT * 2
    f = region(lambda y: (y @ w).relu())
    return f(f(x))


def other_constants(x):
    return scaled(scaled(scaled(x, 2.0), 3.0), 2.0)


def step(f, x):
    """What a call gives, and all gradients."""
    WEIGHT.grad = None
    MODEL.zero_grad()
    LOG.clear()
    torch.manual_seed(7)
    x = x.clone().requires_grad_()
    leaves = tree_leaves(f(x))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if tensors:
        sum(tensor.sum() for tensor in tensors).backward()
    grads = [x.grad, WEIGHT.grad, *[p.grad for p in MODEL.parameters()]]
    return [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], grads, list(LOG)


def check(f, backend):
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        x = torch.randn(3, 4)
        assert nearly_same(step(compiled, x), step(f, x))
    return compiled


@pytest.mark.parametrize(
    ("f", "calls", "bodies"),
    [
        (chain, 3, 1),
        (model, 3, 1),
        (random, 2, 1),
        (structures, 2, 1),
        (nested, 2, 1),
        (own_writes, 2, 1),
        (closed_over, 2, 1),
        (other_constants, 3, 2),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_A28_equal_calls_share_one_graph(f, calls, bodies):
    kept = Kept()
    compiled = check(f, kept)
    assert not pellucid.break_reasons(compiled)
    assert kept.graphs == 1 and len(kept.calls) == calls
    assert len(set(kept.calls)) == len({name for name, _ in kept.calls}) == len(kept.bodies) == bodies


@pytest.mark.parametrize("f", [chain, model, random, structures, nested, own_writes, closed_over, other_constants])
def test_with_eager_it_is_what_it_calls(f):
    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        x = torch.randn(3, 4)
        assert same(step(compiled, x), step(f, x))
    assert pellucid.explain(f)(torch.randn(3, 4)).graph_count == 1
    assert not pellucid.break_reasons(compiled)


@region
def views(x):
    return x.view(-1), x


@region
def no_tensor(x):
    return x.shape


@region
def without_gradients(x):
    with torch.no_grad():
        y = x * 2
    return x * y


@region
def detached(x):
    return x.detach() * 2, x * 3


@pytest.mark.parametrize("f", [views, no_tensor, without_gradients, detached])
def test_what_no_operator_can_give_is_followed(f):
    kept = Kept()
    compiled = check(lambda x: (f(x), x.sin()), kept)
    assert kept.graphs == 1 and not kept.calls and not pellucid.break_reasons(compiled)


@region
def appends(x):
    LOG.append(1)
    return x * 2


@region
def writes(x):
    x.add_(1)
    return x * 2


@region
def raises(x):
    raise ValueError("no")


def caught(x):
    try:
        return raises(x)
    except ValueError as error:
        return x + len(str(error))


def written(x):
    y = x * 1
    return writes(y), y


@pytest.mark.parametrize("f", [lambda x: appends(x.sin()) + 1, written, caught], ids=["appends", "writes", "raises"])
def test_effects_are_breaks(f):
    kept = Kept()
    compiled = check(f, kept)
    assert not kept.calls
    assert {record.name for record in pellucid.break_reasons(compiled)} == {"ImpureBody"}


def test_other_sizes_are_other_regions():
    kept = Kept()
    check(lambda x: part(x, WEIGHT).sum() + part(x[:2], WEIGHT).sum(), kept)
    assert len(kept.bodies) == 2 and len(set(kept.calls)) == 2


def test_sizes_that_change():
    kept = Kept()
    compiled = pellucid.compile(chain, backend=kept)
    for rows in (2, 3, 5, 7):
        x = torch.randn(rows, 4)
        assert nearly_same(step(compiled, x), step(chain, x))
    assert kept.graphs == 2 and len(kept.calls) == 6


def test_below_checkpoint_and_a_transform_it_is_what_it_calls():
    kept = Kept()

    def f(x):
        y = checkpoint(lambda x: part(x, WEIGHT), x, use_reentrant=False)
        return y + torch.vmap(lambda row: part(row, WEIGHT.detach()))(x)

    compiled = check(f, kept)
    assert not kept.calls and kept.graphs == 1 and not pellucid.break_reasons(compiled)
