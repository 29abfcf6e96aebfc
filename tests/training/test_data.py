"""`tensor.data` read, written and set, and backward passes with `inputs` and `create_graph`, each against eager: values,
gradients, version counters, which tensors share memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pellucid
from support import CountingOf, nearly_same

COMPILED_TOO, EAGER = {}, {}


def program(run):
    """Captured whole by all backends."""
    COMPILED_TOO[run.__name__] = EAGER[run.__name__] = run
    return run


def with_eager(run):
    """A backend that compiles breaks where `data` is set."""
    EAGER[run.__name__] = run
    return run


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


# ---- each takes two modules and an input


@program
def clipped_weights(model, other, x):
    model(x).sum().backward()
    for p in model.parameters():
        p.data.clamp_(-0.1, 0.1)


@program
def average(model, other, x):
    for p, mean in zip(model.parameters(), other.parameters()):
        mean.data.mul_(0.9).add_(p.data, alpha=0.1)


@program
def copied(model, other, x):
    for p, target in zip(model.parameters(), other.parameters()):
        target.data.copy_(p.data)
    return other(x)


@program
def step_in_place(model, other, x):
    model(x).square().sum().backward()
    for p in model.parameters():
        p.data -= 0.1 * p.grad
        p.grad = None
    return model(x)


@with_eager
def step_with_new_data(model, other, x):
    model(x).square().sum().backward()
    for p in model.parameters():
        p.data = p.data - 0.1 * p.grad
        p.grad.zero_()
    return model(x)


@with_eager
def average_with_new_data(model, other, x):
    for p, mean in zip(model.parameters(), other.parameters()):
        mean.data = 0.9 * mean.data + 0.1 * p.data
    return other(x)


@program
def step_with_new_data_alone(model, other, x):
    model(x).square().sum().backward()
    for p in model.parameters():
        p.data = p.data - 0.1 * p.grad
        p.grad = None


@program
def clipped_to_new_data(model, other, x):
    for p in model.parameters():
        p.data = p.data.clamp(-0.3, 0.3)
    with torch.no_grad():
        return model(x)


@program
def average_of_new_data(model, other, x):
    for p, mean in zip(model.parameters(), other.parameters()):
        mean.data = 0.9 * mean.data + 0.1 * p.data
    return other(x).detach()


@program
def from_a_vector(model, other, x):
    vector = torch.nn.utils.parameters_to_vector(model.parameters()) * 0.9
    begin = 0
    for p in model.parameters():
        p.data = (vector[begin : begin + p.numel()].view_as(p) + 1).data
        begin += p.numel()


@program
def moved_twice(model, other, x):
    weight = model[0].weight
    weight.data = weight.data * 2
    weight.data = weight.data + x.sum()
    return (weight * 3).detach()


@with_eager
def moved_and_written(model, other, x):
    bias = model[0].bias
    bias.data = bias.data * 2
    with torch.no_grad():
        bias.add_(1)
    bias.data.mul_(2)


@with_eager
def written_before_it_is_taken(model, other, x):
    new = torch.zeros(3)
    new.add_(x.sum())
    model[0].bias.data = new


@program
def backward_behind_the_move(model, other, x):
    for p in model.parameters():
        p.data = p.data * 0.5
    model(x).square().sum().backward()


@program
def backward_around_the_move(model, other, x):
    loss = model(x).square().sum()
    for p in model.parameters():
        p.data = p.data * 0.5
    loss.backward()


@program
def gradient_around_the_move(model, other, x):
    weight = model[0].weight
    loss = (weight * 2).sum() * weight.detach().sum()
    weight.data = weight.data * 3
    (gradient,) = torch.autograd.grad(loss, weight)
    return gradient


@with_eager
def a_loss_leaves(model, other, x):
    loss = model(x).square().sum()
    for p in model.parameters():
        p.data = p.data * 0.5
    return loss


@with_eager
def the_memory_is_seen(model, other, x):
    weight = model[0].weight
    old = weight.data
    new = old * 2
    weight.data = new
    return old, new


@with_eager
def another_layout(model, other, x):
    model[0].weight.data = (x[:1] * torch.ones(3, 1)).t().contiguous().t()
    model[2].weight.data = torch.ones(2, 5)[:, :3]


@with_eager
def another_dtype(model, other, x):
    other[0].bias.data = other[0].bias.data.double()


@with_eager
def shared_data(model, other, x):
    other[0].weight.data = model[0].weight.data
    other[0].weight.data.add_(1)
    return model(x), other(x)


@with_eager
def swapped(model, other, x):
    a, b = model[0].bias, other[0].bias
    a.data, b.data = b.data, a.data
    return model(x), other(x)


@with_eager
def of_new_tensor(model, other, x):
    y = x * 2
    z = y.detach()
    y.data = torch.ones(3)
    y.add_(1)
    return y, z, y.shape


@with_eager
def an_alias_that_is_met_later(model, other, x):
    weight = model[0].weight
    weight.data = torch.ones_like(weight)
    return other.alias + 1, weight + 1


@program
def read(model, other, x):
    data = model[0].weight.data
    return data * 2, data.requires_grad, data.is_leaf


@program
def inputs_of_a_pass(model, other, x):
    loss = model(x).sum()
    loss.backward(inputs=[model[0].weight, model[2].bias], retain_graph=True)
    loss.backward(inputs=model[0].weight)


@program
def second_derivatives(model, other, x):
    model(x).square().sum().backward(create_graph=True)
    penalty = sum((p.grad**2).sum() for p in model.parameters())
    for p in model.parameters():
        p.grad = None
    penalty.backward()


@with_eager
def gradients_with_graphs(model, other, x):
    model(x).square().sum().backward(create_graph=True)
    model(x).square().sum().backward(create_graph=True)


def seen(tensor, versions):
    if not isinstance(tensor, torch.Tensor):
        return tensor
    grad = tensor.grad if tensor.is_leaf else None
    grad = None if grad is None else (grad.detach().clone(), grad.requires_grad)
    facts = [tensor.detach().clone(), tensor.requires_grad, tensor.is_leaf, grad, tuple(tensor.stride())]
    return [*facts, tensor._version] if versions else facts


def runs(f, versions):
    model, other = net(), net()
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(0.5)
    other.alias = model[0].weight.detach()
    gave = []
    for i in range(4):
        result = f(model, other, torch.full((2, 4), 0.3 + i))
        results = list(result) if isinstance(result, tuple) else [result]
        tensors = [*model.parameters(), *other.parameters(), other.alias]
        gave.append([seen(t, versions) for t in [*results, *tensors]])
        places = [t.data_ptr() for t in [*results, *tensors] if isinstance(t, torch.Tensor)]
        gave.append([places.index(place) for place in places])
    return gave


def check(f, backend, versions):
    want = runs(f, versions)
    pellucid.reset()
    got = runs(pellucid.compile(f, backend=backend), versions)
    assert nearly_same(want, got), (want, got)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("name", EAGER)
def test_data_eager(name):
    check(EAGER[name], "eager", True)
    assert not pellucid.counters["graph_break"]


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("name", sorted(set(EAGER) - {"shared_data"}))  # AOTAutograd refuses aliases among parameters
def test_data_aot_eager(name):
    check(EAGER[name], "aot_eager", False)
    assert not pellucid.counters["graph_break"] or name not in COMPILED_TOO


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("name", EAGER)
def test_data_of_a_graph_that_is_handed_on(name):
    check(EAGER[name], lambda module, inputs: module.forward, False)
    assert not pellucid.counters["graph_break"] or name not in COMPILED_TOO


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_data_beside_open_sizes(backend):
    def f(model, x):
        model(x).square().mean().backward()
        for p in model.parameters():
            p.data = p.data - 0.1 * p.grad
            p.grad = None

    model, compiled_model = net(), net()
    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for rows in (2, 3, 4, 5):
        x = torch.linspace(-1, 1, rows * 4).view(rows, 4)
        f(model, x)
        compiled(compiled_model, x)
        for p, q in zip(model.parameters(), compiled_model.parameters(), strict=True):
            torch.testing.assert_close(p, q)
    assert counting.count == 2


@pytest.mark.parametrize(
    "name", ["step_with_new_data_alone", "clipped_to_new_data", "average_of_new_data", "backward_around_the_move"]
)
def test_data_inductor(name):
    check(EAGER[name], "inductor", False)
    assert not pellucid.counters["graph_break"]


def test_data_of_an_input_is_put_back_when_the_graph_raises():
    def f(p, x, index):
        p.data = x * 2
        return torch.gather(p, 0, index)

    compiled = pellucid.compile(f, backend="eager")
    for index in (torch.tensor([0, 1]), torch.tensor([0, 9])):
        outcomes = []
        for run in (f, compiled):
            p, x = nn.Parameter(torch.zeros(3)), torch.arange(3.0)
            try:
                result = run(p, x, index).detach()
            except RuntimeError as error:
                result = str(error).split("\n")[0]
            outcomes.append((result, p.detach().clone(), p._version))
        assert nearly_same(*outcomes), outcomes


def test_errors_are_torchs():
    def f(x):
        y = x * 2
        try:
            y.data = torch.ones(3, device="meta")
        except RuntimeError as error:
            return str(error)

    x = torch.ones(3)
    assert pellucid.compile(f, backend="eager")(x) == f(x)
