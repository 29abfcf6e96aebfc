"""Training: gradients of parameters and inputs equal eager's with every backend."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import pellucid
from support import same

BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
EXACT = {"eager", "aot_eager"}


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (part.view(2, 5, 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(2, 5, 8))


class TiedEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6, padding_idx=0)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids).tanh())


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.first.requires_grad_(False)

    def forward(self, x):
        return self.second(self.first(x).relu())


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def conv():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
    )


def dropout():
    return nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 4))


MODELS = {
    "mlp": (mlp, lambda: torch.randn(5, 4)),
    "conv": (conv, lambda: torch.randn(3, 2, 6, 6)),
    "attention": (Attention, lambda: torch.randn(2, 5, 8)),
    "tied": (TiedEmbedding, lambda: torch.tensor([[1, 2, 0], [3, 3, 10]])),
    "frozen": (Frozen, lambda: torch.randn(3, 4)),
    "lstm_cell": (lambda: nn.GRUCell(4, 6), lambda: torch.randn(3, 4)),
}


def close(got, want, exact):
    if (got is None) != (want is None):
        return False
    if want is None:
        return True
    return torch.equal(got, want) if exact else torch.allclose(got, want, rtol=1e-4, atol=1e-5)


def assert_same_state(got: nn.Module, want: nn.Module, exact: bool) -> None:
    """Parameters, their gradients and buffers."""
    for (name, a), (_, b) in zip(got.named_parameters(), want.named_parameters(), strict=True):
        assert close(a.detach(), b.detach(), exact), name
        assert close(a.grad, b.grad, exact), f"{name}.grad"
    for (name, a), (_, b) in zip(got.named_buffers(), want.named_buffers(), strict=True):
        assert close(a, b, exact), name


def model_pair(name):
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    eager = make().train()
    return eager, copy.deepcopy(eager), inputs()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_equal_eager(name, backend):
    eager, model, x = model_pair(name)
    compiled = pellucid.compile(model, backend=backend, fullgraph=True)
    exact = backend in EXACT
    for _ in range(2):
        ours, theirs = x.clone(), x.clone()
        if x.is_floating_point():
            ours.requires_grad_(), theirs.requires_grad_()
        got, want = compiled(ours), eager(theirs)
        assert close(got.detach(), want.detach(), exact) and got.requires_grad
        weights = torch.randn_like(want)
        (got * weights).sum().backward()
        (want * weights).sum().backward()
        assert close(ours.grad, theirs.grad, exact)
        assert_same_state(model, eager, exact)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_optimizer_loop(backend, optimizer):
    eager, model, x = model_pair("conv")
    compiled = pellucid.compile(model, backend=backend, fullgraph=True)
    # A bias before a batch norm has a gradient of pure rounding noise: a large eps keeps AdamW from scaling it up to a
    # whole step.
    options = {"eps": 1e-2} if optimizer is torch.optim.AdamW else {}
    steps = [optimizer(m.parameters(), lr=0.01, **options) for m in (eager, model)]
    for step in range(5):
        losses = []
        for net, opt in zip((eager, compiled), steps, strict=True):
            opt.zero_grad(set_to_none=step % 2 == 0)
            loss = functional.cross_entropy(net(x + step), torch.tensor([0, 1, 0]))
            loss.backward()
            opt.step()
            losses.append(loss.detach())
        assert close(losses[1], losses[0], backend in EXACT)
        assert_same_state(model, eager, backend in EXACT)
    assert len(pellucid.cache_entries(compiled)) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_dropout_with_the_same_seed(backend):
    torch.manual_seed(0)
    eager = dropout()
    model = copy.deepcopy(eager)
    compiled = pellucid.compile(model, backend=backend, fullgraph=True)
    x = torch.randn(6, 4)
    for seed in (1, 2):
        torch.manual_seed(seed)
        want = eager(x)
        want.sum().backward()
        after = torch.get_rng_state()
        torch.manual_seed(seed)
        got = compiled(x)
        got.sum().backward()
        assert torch.equal(got, want) and torch.equal(torch.get_rng_state(), after)
        assert_same_state(model, eager, True)
    eager.eval(), model.eval()
    assert torch.equal(compiled(x), eager(x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_loss_and_backward_through_a_compiled_step(backend):
    eager, model, x = model_pair("mlp")
    target = torch.tensor([0, 1, 2, 0, 1])

    def loss_of(net, x, target):
        return functional.cross_entropy(net(x), target, label_smoothing=0.1)

    compiled = pellucid.compile(loss_of, backend=backend, fullgraph=True)
    for _ in range(3):
        compiled(model, x, target).backward()
        loss_of(eager, x, target).backward()
        assert_same_state(model, eager, True)


# ---- what changes between calls


def grads_of(f, *inputs):
    inputs = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    outputs = f(*inputs)
    flat = outputs if isinstance(outputs, tuple) else (outputs,)
    live = [y for y in flat if y.requires_grad]
    if live:
        sum((y * torch.arange(1.0, y.numel() + 1).view_as(y)).sum() for y in live).backward()
    return (
        [(y.detach(), y.requires_grad, y.is_leaf) for y in flat],
        [x.grad for x in inputs],
        [x.detach() for x in inputs],
    )


def assert_as_eager(compiled, eager, *inputs):
    (got, got_grads, got_inputs), (want, want_grads, want_inputs) = (
        grads_of(compiled, *inputs),
        grads_of(eager, *inputs),
    )
    assert [y[1:] for y in got] == [y[1:] for y in want]
    assert all(torch.equal(a[0], b[0]) for a, b in zip(got, want, strict=True))
    assert all(close(a, b, True) for a, b in zip(got_grads, want_grads, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(got_inputs, want_inputs, strict=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_requires_grad_changes_between_calls(backend):
    def f(x, w):
        return (x @ w).relu(), x * 2

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        for x_grad in (False, True):
            for w_grad in (True, False):
                x, w = torch.randn(3, 4).requires_grad_(x_grad), torch.randn(4, 2).requires_grad_(w_grad)
                assert_as_eager(compiled, f, x, w)
    assert len(pellucid.cache_entries(compiled)) == 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_frozen_and_thawed(backend):
    eager, model, x = model_pair("mlp")
    compiled = pellucid.compile(model, backend=backend, fullgraph=True)
    for frozen in (False, True, False):
        for net in (eager, model):
            net.zero_grad(set_to_none=True)
            net[0].requires_grad_(not frozen)
        for net in (eager, compiled):
            net(x).sum().backward()
        assert_same_state(model, eager, True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_grad_modes(backend):
    eager, model, x = model_pair("mlp")
    compiled = pellucid.compile(model, backend=backend, fullgraph=True)
    for _ in range(2):
        assert compiled(x).requires_grad
        with torch.no_grad():
            got = compiled(x)
            assert not got.requires_grad and torch.equal(got, eager(x))
        with torch.inference_mode():
            got = compiled(x)
            assert got.is_inference() and torch.equal(got, eager(x))
    compiled(x).sum().backward()
    eager(x).sum().backward()
    assert_same_state(model, eager, True)


def inner_no_grad(x):
    with torch.no_grad():
        scale = x.abs().max()
    with torch.enable_grad():
        y = x / scale
    return y, scale


def under_outer_no_grad(x):
    y = x * 2
    torch.set_grad_enabled(False)
    z = y * 3
    torch.set_grad_enabled(True)
    return y, z, z + y


def detached(x):
    y = x.exp()
    return y, y.detach(), (y.detach() * x), y.detach().sum()


def some_without(x, ids):
    return x * 2, ids + 1, x.argmax(-1), (x > 0).float(), x.mean()


def in_place_on_intermediate(x):
    y = x * 2
    y.add_(x)
    y[0] = 0.0
    y.mul_(x.detach() + 1)
    return y


def in_place_on_input(x, buffer):
    buffer.add_(x.detach().sum())
    buffer[1:].mul_(2)
    return x * buffer


def in_place_on_base(x):
    y = x.clone()
    y.view(-1)[2:].mul_(3)
    return y, y.view(-1)


def views(x):
    return x.view(-1), x.t(), x[1:]


def checkpointed_shape(x):
    return torch.where(x > 0, x, x.new_zeros(())).cumsum(0), torch.stack([x, x * x]).unbind(0)[1]


def leaf_made_inside(x):
    w = torch.ones(4, requires_grad=True)
    return x * w.detach(), x


CASES = [
    inner_no_grad,
    under_outer_no_grad,
    detached,
    in_place_on_intermediate,
    in_place_on_base,
    views,
    checkpointed_shape,
    leaf_made_inside,
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_parts_of_the_graph_without_gradient(f, backend):
    compiled = pellucid.compile(f, backend=backend)
    x = torch.randn(3, 4)
    for requires in (True, False, True):
        assert_as_eager(compiled, f, x.detach().requires_grad_(requires))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_outputs_without_gradient(backend):
    compiled = pellucid.compile(some_without, backend=backend, fullgraph=True)
    for requires in (True, False):
        assert_as_eager(compiled, some_without, torch.randn(3, 4).requires_grad_(requires), torch.arange(3.0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_in_place_on_an_input(backend):
    compiled = pellucid.compile(in_place_on_input, backend=backend, fullgraph=True)
    for _ in range(2):
        assert_as_eager(compiled, in_place_on_input, torch.randn(4).requires_grad_(), torch.ones(4))


def scaled_after(x, buffer):
    buffer += 0.5
    return x * buffer


def scaled_before(x, buffer):
    y = x * (buffer * 2)
    buffer.add_(1)
    return y


def scaled_by_a_view(x, buffer):
    y = x * (buffer.view(2, 2).t() * 3).reshape(4)
    buffer.mul_(2)
    return y


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [scaled_after, scaled_before, scaled_by_a_view], ids=lambda f: f.__name__)
def test_what_the_gradient_needs_of_a_written_input(f, backend):
    """Torch's partitioner computes `buffer * 2` once more in the backward graph, from what is in the buffer then."""
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        assert_as_eager(compiled, f, torch.randn(4).requires_grad_(), torch.ones(4))


def expanded_after_a_write_of_the_base(x, row):
    x.add_(1)
    return row.expand(2, 3), x, row


def viewed_after_both_were_written(x, row):
    row.add_(1)
    x[0].add_(row)
    return row.view(1, 3), row[1:], x.t()


def written_through_the_view(x, row):
    row.mul_(2)
    return x[1] + row, row.unsqueeze(0), x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f",
    [expanded_after_a_write_of_the_base, viewed_after_both_were_written, written_through_the_view],
    ids=lambda f: f.__name__,
)
def test_views_of_an_input_that_is_a_view_of_another(f, backend):
    """AOTAutograd replayed what the program did to the view on the base of both."""
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        results = []
        for run in (compiled, f):
            x = torch.arange(6.0).view(2, 3) - 2
            results.append([(y.tolist(), y.stride(), y.storage_offset(), y._is_view()) for y in (*run(x, x[0]), x)])
        assert results[0] == results[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("p", [0.5, 0.0])
@pytest.mark.parametrize("requires", [True, False])
def test_dropout_that_drops_nothing_gives_its_argument(requires, p, backend):
    def f(x):
        y = functional.dropout(x, p, training=p == 0)
        x *= 2
        z = y.detach()
        y += 1
        return y, z

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        leaves = [torch.arange(4.0).requires_grad_(requires) for _ in range(2)]
        inputs = [leaf + 0 for leaf in leaves]
        (got, got_alias), (want, want_alias) = compiled(inputs[0]), f(inputs[1])
        assert want is inputs[1] and got is inputs[0]
        assert torch.equal(got, want) and torch.equal(got_alias, want_alias)
        assert got_alias.data_ptr() == got.data_ptr()
        if requires:
            got.sum().backward(), want.sum().backward()
            assert torch.equal(leaves[0].grad, leaves[1].grad)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_in_place_on_a_non_leaf_input(backend):
    def f(y):
        y.mul_(2)
        return y.sin()

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        results = []
        for g in (compiled, f):
            x = torch.arange(4.0).requires_grad_()
            y = x * 3
            g(y).sum().backward()
            results.append((y.detach(), x.grad))
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_in_place_on_a_leaf_is_an_error_as_in_eager(backend):
    def f(x):
        x.add_(1)
        return x * 2

    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="leaf Variable"):
            compiled(torch.ones(2, requires_grad=True))
        x = torch.ones(2)
        assert torch.equal(compiled(x), torch.full((2,), 4.0)) and torch.equal(x, torch.full((2,), 2.0))


def test_twice_differentiable_with_eager():
    f = pellucid.compile(lambda x: (x**3).sum(), backend="eager", fullgraph=True)
    x = torch.arange(3.0, requires_grad=True)
    (first,) = torch.autograd.grad(f(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second, 6 * x.detach())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_custom_function_and_hooks(backend):
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(0, 1)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x > 0.5)

    def f(x):
        return Clip.apply(x) * 2

    assert_as_eager(pellucid.compile(f, backend=backend), f, torch.linspace(-1, 2, 6).requires_grad_())


def by_a_factory(x):
    y = x * 2
    w = torch.ones(2, requires_grad=True)
    return y, w, w * y


def by_requires_grad_(x):
    w = (x * 2).detach().requires_grad_()
    return w, w * 2


def from_a_list(x):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    return x.sin() * w, w


def without_gradients_at_first(x):
    with torch.no_grad():
        w = torch.ones(2, requires_grad=True) * 2
    v = torch.zeros(2)
    v.requires_grad = True
    return w, v, (v + w) * x


def and_goes_backward(x):
    w = torch.ones(2, requires_grad=True)
    (w * x).sum().backward()
    return w, w.grad * x


def takes_it_back(x):
    w = torch.ones(2, requires_grad=True)
    w.requires_grad_(False)
    return w * x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f",
    [by_a_factory, by_requires_grad_, from_a_list, without_gradients_at_first, and_goes_backward, takes_it_back],
)
def test_leaves_that_a_region_makes(f, backend):
    def outcome(f):
        results = f(torch.tensor([1.0, 2.0]))
        results = results if isinstance(results, tuple) else (results,)
        state = [(t.tolist(), t.requires_grad, t.is_leaf) for t in results]
        needed = [t.sum() for t in results if t.requires_grad]
        if needed:
            sum(needed).backward()
        return state, [t.grad.tolist() for t in results if t.is_leaf and t.grad is not None]

    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        assert outcome(compiled) == outcome(f)
    # A compiled graph gives no tensors that gradients are accumulated in.
    stays = backend == "eager" or f is takes_it_back
    names = {record.name for record in pellucid.break_reasons(compiled)}
    assert names == set() if stays else "LeafInGraph" in names


class Separate(torch.autograd.Function):
    """With a setup_context of its own; gives an input back, beside its work."""

    weight = torch.ones(3, requires_grad=True)

    @staticmethod
    def forward(x, y, k=2.0):
        return x.sin() * k, y, torch.is_grad_enabled(), x * Separate.weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[2]
        assert len(inputs) == 3 and len(output) == 4

    @staticmethod
    def backward(ctx, *grads):
        return grads[0] * ctx.saved_tensors[0].cos() * ctx.k, None, None


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, asked):
        asked.append(ctx.needs_input_grad)
        ctx.mark_dirty(x)
        return x.mul_(2)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_custom_functions_without_gradients(fullgraph):
    def f(x, y):
        out = Separate.apply(x, y)
        return out[0], out[1], out[1] is y, out[2], out[3], out[0].requires_grad, out[3].requires_grad

    def under_no_grad(x, y):
        with torch.no_grad():
            return f(x, y)

    def dirty(x, y):
        asked = []
        out = Dirty.apply(x, asked)
        return out, out is x, asked

    x, y = torch.arange(3.0), torch.ones(3)
    for program in (f, under_no_grad, dirty):
        compiled = pellucid.compile(program, backend="eager", fullgraph=fullgraph)
        for grad in (False, True) if program is under_no_grad else (False,):
            got, want = ([g(x.clone().requires_grad_(grad), y) for _ in range(2)] for g in (compiled, program))
            assert same(got, want)
            assert [t.requires_grad for t in got[0] if isinstance(t, torch.Tensor)] == [
                t.requires_grad for t in want[0] if isinstance(t, torch.Tensor)
            ]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradient_accumulates_and_hooks_of_parameters_run(backend):
    eager, model, x = model_pair("mlp")
    compiled = pellucid.compile(model, backend=backend, fullgraph=True)
    seen = {id(eager): [], id(model): []}
    for net in (eager, model):
        net[0].weight.register_hook(lambda grad, log=seen[id(net)]: log.append(float(grad.sum())))
    for _ in range(3):
        compiled(x).sum().backward()
        eager(x).sum().backward()
    assert seen[id(model)] == seen[id(eager)] and len(seen[id(model)]) == 3
    assert_same_state(model, eager, True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_autocast_in_training(backend):
    eager, model, x = model_pair("mlp")
    compiled = pellucid.compile(model, backend=backend, fullgraph=True)
    for enabled in (True, False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            got, want = compiled(x), eager(x)
        assert got.dtype == want.dtype and torch.equal(got, want)
        got.float().sum().backward()
        want.float().sum().backward()
        assert_same_state(model, eager, True)
