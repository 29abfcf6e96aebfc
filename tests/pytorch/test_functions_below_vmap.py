"""autograd.Functions below vmap: torch makes the rule of one that asks for it from its forward."""

import pytest
import torch

import pellucid

ROWS = torch.tensor([1, 0])


class Picks(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, indices, by=2):
        return torch.ops.aten.index(x, indices) * by

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[1])
        ctx.shape = inputs[0].shape

    @staticmethod
    def backward(ctx, grad):
        return grad.new_zeros(ctx.shape).index_put(ctx.saved_tensors, grad, accumulate=True) * 2, None, None


class Returns(torch.autograd.Function):
    """Its input, and something of it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x, x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad, more):
        return grad + more * 2


class SavesWhatItReturns(Returns):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[0])


class Writes(Returns):
    @staticmethod
    def forward(x):
        return x.mul_(2), x + 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])


class WritesAndSaves(Writes):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])
        ctx.save_for_backward(inputs[0])


class WithoutRule(Picks):
    generate_vmap_rule = False


class OwnRule(WithoutRule):
    @staticmethod
    def vmap(info, in_dims, x, indices, by=2):
        return x * 3, in_dims[0]


def picked(x):
    return torch.vmap(lambda row: Picks.apply(row, [ROWS]))(x)


def picked_by_each(x):
    return torch.vmap(lambda a, b: Picks.apply(x, [a, b], 3))(torch.tensor([0, 1]), torch.tensor([2, 1]))


def picked_twice(x):
    return torch.vmap(torch.vmap(lambda item: Picks.apply(item[None], [ROWS[1]])))(x)


def returned(x):
    return torch.vmap(Returns.apply)(x)


def below_no_grad(x):
    weight = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        return torch.vmap(lambda row: Returns.apply(row * 2)[1])(x * weight)


def own_rule(x):
    return torch.vmap(lambda row: OwnRule.apply(row, [ROWS]))(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [picked, picked_by_each, picked_twice, returned, below_no_grad, own_rule])
def test_the_forward_is_part_of_the_graph(program, backend):
    """A28: vmap of a function that has asked for a rule."""
    x = torch.arange(6.0).view(2, 3)
    want, got = program(x), pellucid.compile(program, backend=backend, fullgraph=True)(x)
    for one, other in zip(torch.utils._pytree.tree_leaves(want), torch.utils._pytree.tree_leaves(got), strict=True):
        assert torch.equal(one, other) and one.stride() == other.stride()
        assert (one.data_ptr() == x.data_ptr()) == (other.data_ptr() == x.data_ptr())
    assert pellucid.explain(program)(x).graph_count == 1


def of_outer_gradients(x):
    weight = torch.ones(2, 3, requires_grad=True)
    return torch.vmap(lambda row: Picks.apply(row, [ROWS]))(x * weight)


def gradient_below(x):
    return torch.func.grad(lambda v: Picks.apply(v, [ROWS]).sum())(x)


class AddsNoise(Returns):
    @staticmethod
    def forward(x):
        return x + torch.rand(2), x


def noise_at_the_outer_level(x):
    both = torch.vmap(
        lambda row: torch.vmap(lambda item: AddsNoise.apply(row[:2])[0] + item, randomness="different")(row),
        randomness="different",
    )
    return both(x)


def without_rule(x):
    return torch.vmap(lambda row: WithoutRule.apply(row, [ROWS]))(x)


def saved_and_returned(x):
    return torch.vmap(SavesWhatItReturns.apply)(x * 2)


def saved_and_returned_without_vmap(x):
    return SavesWhatItReturns.apply(x + 1)


def written(x):
    return torch.vmap(Writes.apply)(x + 1)


def written_and_saved(x):
    return torch.vmap(WritesAndSaves.apply)(x + 1)


def written_and_saved_without_vmap(x):
    return WritesAndSaves.apply(x + 1)


def outcome(program, x):
    torch.manual_seed(0)
    try:
        result = program(x)
    except Exception as error:
        return type(error), str(error)
    return torch.utils._pytree.tree_map(lambda t: (t.tolist(), t.requires_grad), result)


@pytest.mark.parametrize(
    "program",
    [
        without_rule,
        saved_and_returned,
        saved_and_returned_without_vmap,
        written,
        written_and_saved,
        written_and_saved_without_vmap,
    ],
)
def test_what_torch_refuses_is_refused(program):
    x = torch.arange(6.0).view(2, 3)
    assert outcome(pellucid.compile(program, backend="eager"), x) == outcome(program, x)
    assert outcome(pellucid.compile(program, backend="eager", fullgraph=True), x) == outcome(program, x)


@pytest.mark.parametrize("program", [noise_at_the_outer_level, of_outer_gradients, gradient_below])
def test_what_asks_for_more_and_is_a_node(program):
    x = torch.arange(6.0).view(2, 3)
    compiled = pellucid.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert outcome(compiled, x) == outcome(program, x)
    assert len(pellucid.cache_entries(compiled)) == 1
