"""Activation checkpointing: results and gradients are eager's, in one graph, and the memory is saved."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

import pellucid
from support import Counting, CountingOf

BACKENDS = ["eager", "aot_eager"]


class Block(nn.Module):
    def __init__(self, width=8, dropout=0.5):
        super().__init__()
        self.first = nn.Linear(width, 2 * width)
        self.second = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.dropout(self.second(torch.relu(self.first(x))))


def trained(module, function, x):
    """The result and all gradients of one step."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    torch.manual_seed(0)
    result = function(x)
    result.sum().backward()
    after = torch.rand(())  # the generator stands where it stands in eager
    return [result.detach(), x.grad, after, *(p.grad.clone() for p in module.parameters())]


def check(module, x, backend, calls=2):
    compiled = pellucid.compile(module, backend=backend, fullgraph=True)
    for _ in range(calls):
        wanted = trained(module, module, x)
        got = trained(module, compiled, x)
        for one, other in zip(wanted, got, strict=True):
            assert torch.equal(one, other)


class Stack(nn.Module):
    def __init__(self, blocks, **options):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.options = options

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reentrant", [False, True])
def test_one_graph_with_the_gradients_of_eager(backend, reentrant):
    check(Stack([Block(), Block()], use_reentrant=reentrant), torch.randn(3, 8), backend)


@pytest.mark.parametrize(
    "options", [{"preserve_rng_state": False}, {"determinism_check": "none"}, {"early_stop": False}], ids=str
)
def test_options(options):
    check(Stack([Block(dropout=0.0)], use_reentrant=False, **options), torch.randn(3, 8), "eager")


def test_the_graph_holds_its_bodies():
    counting = Counting()
    module = Stack([Block(), Block()], use_reentrant=False)
    pellucid.compile(module, backend=counting, fullgraph=True)(torch.randn(3, 8, requires_grad=True))
    (gm,) = counting.graphs
    operators = [node.target for node in gm.graph.nodes if node.op == "call_function"]
    assert operators.count(torch.ops.higher_order.tag_activation_checkpoint) == 2
    assert [name for name, _ in gm.named_children()] == ["wrap_body_0", "wrap_body_1"]
    inside = [node.name for node in gm.wrap_body_0.graph.nodes if node.op.startswith("call")]
    assert len(inside) == 5 and not any(name.startswith("relu") for name in (n.name for n in gm.graph.nodes))
    gm.recompile()  # what torch.fx makes of it by itself
    gm.graph.lint()


class InBetween(nn.Module):
    """Bodies with everything that they reach by other ways than their arguments."""

    def __init__(self):
        super().__init__()
        self.inner = Block()
        self.scale = nn.Parameter(torch.rand(8))

    def forward(self, x):
        y = x.sin()
        kept = []

        def body(a, *, shift):
            b = a * self.scale + shift
            kept_here = [b, y]
            return {"b": b, "all": (sum(kept_here), a)}, 3

        out, number = checkpoint(body, x, shift=y.exp(), use_reentrant=False)
        kept.append(out["all"][0])
        assert out["all"][1] is x and number == 3
        return (
            checkpoint(lambda a: checkpoint(self.inner, a * y, use_reentrant=False) + x, out["b"], use_reentrant=False)
            + kept[0]
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_nested_bodies_and_what_they_close_over(backend):
    check(InBetween(), torch.randn(3, 8), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sequential(backend):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))

        def forward(self, x):
            return checkpoint_sequential(self.layers, 2, x, use_reentrant=False)

    check(Model(), torch.randn(3, 8), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("by_name", [False, True])
def test_a_number_that_changes_is_given_to_the_body(backend, by_name):
    block = nn.Linear(8, 8)

    def part(x, scale, *, shift=0):
        return torch.tanh(block(x)) * scale + shift

    def f(x, scale, shift):
        if by_name:
            return checkpoint(part, x, scale=scale, shift=shift, use_reentrant=False)
        return checkpoint(part, x, scale, shift=shift, use_reentrant=False)

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for scale, shift in ((1.0, 1), (0.5, 2), (0.25, 3), (2.0, 4), (3.5, 9)):
        found = []
        for function in (f, compiled):
            torch.manual_seed(0)
            x = torch.randn(3, 8, requires_grad=True)
            y = function(x, scale, shift)
            y.sum().backward()
            found.append((y.detach(), x.grad, block.weight.grad))
            block.weight.grad = None
        assert all(torch.allclose(a, b) for a, b in zip(*found, strict=True))
    assert counting.count <= 3 and not pellucid.break_reasons(compiled)


def policy(context, operator, *args, **kwargs):
    keep = operator in (torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


selective = functools.partial(create_selective_checkpoint_contexts, policy)


@pytest.mark.parametrize("backend", BACKENDS)
def test_selective(backend):
    check(Stack([Block()], use_reentrant=False, context_fn=selective), torch.randn(3, 8), backend)


def test_selective_policy_is_told_to_the_backend():
    counting = Counting()
    module = Stack([Block()], use_reentrant=False, context_fn=selective)
    pellucid.compile(module, backend=counting, fullgraph=True)(torch.randn(3, 8, requires_grad=True))
    assert counting.graphs[0].wrap_body_0.meta["_checkpoint_context_fn"] is selective


def test_without_gradients_it_is_the_function():
    module = Stack([Block(dropout=0.0)], use_reentrant=False)
    compiled = pellucid.compile(module, backend="eager", fullgraph=True)
    x = torch.randn(3, 8)
    with torch.no_grad():
        assert torch.equal(module(x), compiled(x))


class Statistics(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        return checkpoint(self.norm, x, use_reentrant=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_statistics_are_counted_as_often_as_in_eager(backend):
    x = torch.randn(4, 8)
    torch.manual_seed(0)
    states = []
    for compiles in (False, True):
        module = Statistics()
        function = pellucid.compile(module, backend=backend) if compiles else module
        results = trained(module, function, x)
        states.append((results, list(module.buffers())))
    for one, other in zip(*(results + buffers for results, buffers in states), strict=True):
        assert torch.equal(one, other)


# ---- what runs again must not do anything else

log: list = []
factor = torch.ones(8, requires_grad=True)


class Counter:
    value = 0


counter = Counter()


def appends(x):
    log.append(1)
    return x.sin() * factor


def counts(x):
    counter.value += 1
    return x.sin() * factor


def to_made_list(x):
    made = []

    def body(x):
        made.append(2)
        return x.sin() * factor

    y = checkpoint(body, x, use_reentrant=False)
    return y * len(made)


def to_made_cell(x):
    n = 1

    def body(x):
        nonlocal n
        n += 1
        return x.sin() * factor

    y = checkpoint(body, x, use_reentrant=False)
    return y * n


def advances(x):
    numbers = iter([1, 2, 3])
    y = checkpoint(lambda a: a.sin() * factor * next(numbers), x, use_reentrant=False)
    return y * next(numbers)


def raises(x):
    def body(x):
        if x.dim() == 1:
            raise ValueError("one dimension")
        return x * factor

    try:
        return checkpoint(body, x, use_reentrant=False)
    except ValueError as error:
        return x * len(str(error))


def prints_a_number(x):
    return checkpoint(lambda a: a * a.sum().item() * factor, x, use_reentrant=False)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: checkpoint(appends, x, use_reentrant=False),
        lambda x: checkpoint(counts, x, use_reentrant=False),
        to_made_list,
        to_made_cell,
        advances,
        raises,
        prints_a_number,
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_has_effects_is_a_break(function, backend):
    x = torch.randn(8)

    def run(f):
        log.clear()
        counter.value = 0
        factor.grad = None
        result = f(x)
        forward = (len(log), counter.value)
        try:
            result.sum().backward()
        except RuntimeError as error:  # an iterator has gone on: other shapes, or none
            return result.detach(), forward, str(type(error))
        except StopIteration as error:
            return result.detach(), forward, str(type(error))
        return result.detach(), forward, (len(log), counter.value), factor.grad.clone()

    compiled = pellucid.compile(function, backend=backend)
    for _ in range(2):
        wanted, got = run(function), run(compiled)
        assert torch.equal(wanted[0], got[0]) and wanted[1:3] == got[1:3]
        assert len(wanted) == len(got) and (len(got) == 3 or torch.equal(wanted[3], got[3]))


def test_effects_without_gradients_stay_in_the_graph():
    def function(x):
        def body(x):
            log.append(1)
            return x.sin()

        return checkpoint(body, x, use_reentrant=False)

    log.clear()
    compiled = pellucid.compile(function, backend="eager", fullgraph=True)
    x = torch.randn(4)
    assert torch.equal(compiled(x), x.sin()) and log == [1]


def test_without_use_reentrant_it_warns_as_in_eager():
    def function(x):
        return checkpoint(torch.sin, x)

    compiled = pellucid.compile(function, backend="eager")
    x = torch.randn(4, requires_grad=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed"):
        result = compiled(x)
    assert torch.equal(result, x.sin())


def test_a_reentrant_one_without_gradients_of_its_arguments():
    def function(x):
        return checkpoint(lambda a: a * factor, x, use_reentrant=True)

    compiled = pellucid.compile(function, backend="eager")
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        assert not compiled(torch.randn(8)).requires_grad


def test_a_tensor_that_a_body_writes():
    def function(x):
        y = x * 2

        def body(a):
            y.add_(1)
            return a * y.detach()

        z = checkpoint(body, x, use_reentrant=False)
        return z + y

    x = torch.randn(4, requires_grad=True)
    wanted = function(x)
    got = pellucid.compile(function, backend="eager")(x)
    assert torch.equal(wanted, got)


# ---- memory


def kept_bytes(function, x):
    """Of the tensors that autograd keeps behind a call, counted once each."""
    held = {}

    def pack(tensor):
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(x)
    return sum(held.values()), result


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory(backend):
    module = Stack([Block(64, 0.0) for _ in range(24)], use_reentrant=False)
    x = torch.randn(256, 64, requires_grad=True)
    compiled = pellucid.compile(module, backend=backend, fullgraph=True)
    parameters = sum(p.untyped_storage().nbytes() for p in module.parameters())
    wanted, kept = kept_bytes(module, x)
    got, kept_too = kept_bytes(compiled, x)
    assert torch.equal(kept, kept_too)
    assert got <= 1.1 * (wanted + parameters)
    assert got >= x.untyped_storage().nbytes() * 20  # something was counted: the input of each block


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_pass_of_the_region_through_a_block_that_draws(backend):
    """AOTAutograd cannot draw the same numbers again in one graph, so the pass is no part of it, and behind it begins
    another."""

    def step(module, x):
        loss = checkpoint(module, x, use_reentrant=False).square().mean()
        loss.backward()
        return loss.detach() + 1

    module, x = Block(), torch.randn(3, 8)
    counting = CountingOf(backend)
    compiled = pellucid.compile(step, backend=counting)
    for _ in range(2):
        outcomes = []
        for function in (step, compiled):
            module.zero_grad()
            torch.manual_seed(0)
            outcomes.append([function(module, x), *(p.grad.clone() for p in module.parameters()), torch.rand(())])
        assert all(torch.equal(one, other) for one, other in zip(*outcomes, strict=True))
    assert counting.count == (1 if backend == "eager" else 2)


class Collector:
    """What libraries keep for hooks while a forward runs: nobody asks for anything here."""

    active = None
    seen: list = []


class Announced(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        Collector.seen.append("begins")
        collector.active = {}
        try:
            return checkpoint(self.block, x, use_reentrant=False)
        finally:
            collector.active = None
            Collector.seen.append("ends")


collector = Collector()


class Asking(Block):
    def forward(self, x):
        return super().forward(x) * (1 if collector.active is None else 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_changed_around_a_block_that_does_not_read_it(backend):
    Collector.seen.clear()
    check(Announced(Block()), torch.randn(4, 8), backend, calls=1)
    assert Collector.seen == ["begins", "ends"] * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_changed_around_a_block_that_reads_it_is_a_break(backend):
    module, x = Announced(Asking(dropout=0)), torch.randn(4, 8)
    compiled = pellucid.compile(module, backend=backend)
    for _ in range(3):  # the second run of the block finds another value: eager's gradient is of that one
        for one, other in zip(trained(module, module, x), trained(module, compiled, x), strict=True):
            assert torch.equal(one, other)
    with pytest.raises(pellucid.errors.Unsupported, match="it reads what has been changed before"):
        pellucid.compile(module, backend=backend, fullgraph=True)(x.clone().requires_grad_())
