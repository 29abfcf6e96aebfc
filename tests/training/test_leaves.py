"""Tensors that gradients are accumulated in, and parameters, that the compiled function makes: attacks on inputs,
penalties on gradients, modules made inside. Each against eager, with how many regions and graph breaks it may make."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import pellucid
from support import nearly_same

PROGRAMS = {}
WEIGHT = torch.linspace(-1, 1, 16).reshape(4, 4)


@dataclass
class Program:
    """`breaks`: with "eager", and with a backend that compiles, where a leaf that leaves ends the region."""

    run: object
    breaks: int = 0
    compiled_breaks: int = 0


def program(**limits):
    def note(run):
        PROGRAMS[run.__name__] = Program(run, **limits)
        return run

    return note


def loss_of(x):
    return (x @ WEIGHT).tanh().square().sum()


# ---- leaves whose gradients stay inside


@program()
def fgsm(x):
    x = x.detach().requires_grad_()
    loss_of(x).backward()
    return x.detach() + 0.1 * x.grad.sign()


@program()
def pgd(x):
    start, attacked = x.clone().detach(), x.clone().detach() + 0.01
    for _ in range(3):
        attacked = attacked.clone().detach().requires_grad_(True)
        gradient = torch.autograd.grad(loss_of(attacked), attacked)[0]
        attacked = torch.min(torch.max(attacked.detach() + 0.1 * gradient.sign(), start - 0.3), start + 0.3)
    return attacked


@program()
def pgd_with_one_delta(x):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        loss_of(x + delta).backward()
        with torch.no_grad():
            delta += 0.1 * delta.grad.sign()
            delta.clamp_(-0.3, 0.3)
        delta.grad.zero_()
    return x + delta.detach()


@program()
def gradient_of_zeros(x):
    delta = torch.zeros(x.shape, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss_of(x + delta), delta)
    return gradient.sign()


@program()
def requires_grad_as_attribute(x):
    y = x.detach() * 1
    y.requires_grad = True
    (gradient,) = torch.autograd.grad(loss_of(y), [y])
    y.requires_grad = False
    return gradient, y


@program()
def parameter_inside(x):
    weight = nn.Parameter(WEIGHT.clone())
    (x.detach() @ weight).tanh().sum().backward()
    return weight.grad * 2, type(weight).__name__, isinstance(weight, nn.Parameter), weight.is_leaf


@program()
def inner_loop(x):
    fast = nn.Parameter(torch.eye(4))
    optimizer = torch.optim.SGD([fast], lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        (x.detach() @ fast).tanh().square().sum().backward()
        optimizer.step()
    return fast.detach()


@program()
def module_inside(x):
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(0.1)
    net(x.detach()).sum().backward()
    return [p.grad for p in net.parameters()], [name for name, _ in net.named_parameters()]


@program()
def accumulated_twice(x):
    leaf = torch.ones(4, requires_grad=True)
    (x.detach() * leaf).sum().backward()
    first = leaf.grad.clone()
    (x.detach() * leaf * leaf).sum().backward()
    return first, leaf.grad.clone()


@program()
def gradient_set_by_hand(x):
    leaf = torch.ones(4, requires_grad=True)
    leaf.grad = torch.full((4,), 2.0)
    (x.detach() * leaf).sum().backward()
    was = leaf.grad.clone()
    leaf.grad = None
    return was, leaf.grad is None


@program()
def saliency(x):
    x = x.clone().detach()
    x.requires_grad_()
    scores = x @ WEIGHT
    scores[:, 0].sum().backward()
    return x.grad.abs().max(dim=1).values


@program()
def hessian_vector(x):
    leaf = x.detach().requires_grad_()
    (first,) = torch.autograd.grad(loss_of(leaf), leaf, create_graph=True)
    (second,) = torch.autograd.grad((first * WEIGHT).sum(), leaf)
    return second


# ---- leaves that leave, or what is computed of them


@program(compiled_breaks=1)
def parameter_of_input(x):
    weight = nn.Parameter(x.detach())
    return (weight * 2).sum()


@program(compiled_breaks=1)
def leaf_returned(x):
    delta = torch.zeros_like(x, requires_grad=True)
    return delta, (delta + x).square().sum()


@program()
def parameter_returned(x):
    weight = nn.Parameter(torch.ones(4), requires_grad=False)
    return weight, x * weight


@program()
def parameters_without_gradients(x):
    """Of what was computed with gradients, of a part of it in the same memory, and of another one, with attributes."""
    y = x * 2
    kept = nn.ParameterList([nn.Parameter(y, requires_grad=False), nn.Parameter(y[1:], requires_grad=False)])
    again = nn.Parameter(kept[0], requires_grad=False)
    again.names = ["a", "b"]
    kept[1].mul_(3)
    again.grad = x.detach() + 1
    return kept, again, again.t(), again.data, kept[0] + again, again is kept[0]


@program(breaks=1, compiled_breaks=1)
def parameter_without_gradients_across_a_break(x):
    weight = nn.Parameter(x.detach().clone(), requires_grad=False)
    torch._dynamo.graph_break()
    return weight, weight * 2


@program(compiled_breaks=1)
def parameter_that_gets_gradients_after_all(x):
    weight = nn.Parameter(x.detach().clone(), requires_grad=False)
    weight.requires_grad = True
    return weight, (weight * x).sum()


@program()
def parameter_that_gets_gradients_inside(x):
    weight = nn.Parameter(x.detach().clone(), requires_grad=False)
    weight.requires_grad_(True)
    return torch.autograd.grad(loss_of(weight), weight)[0] + x


@program(compiled_breaks=1)
def tensor_of_numbers(x):
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    return (scale * x).sum()


@program(compiled_breaks=1)
def leaf_with_gradient_returned(x):
    leaf = torch.ones(4, requires_grad=True)
    (x.detach() * leaf).sum().backward()
    return leaf


@program(compiled_breaks=2)
def module_returned(x):
    net = nn.Linear(4, 2)
    with torch.no_grad():
        net.weight.fill_(0.5)
        net.bias.zero_()
    return net, net(x).sum()


@program(compiled_breaks=1)
def parameter_with_attributes(x):
    weight = nn.Parameter(torch.ones(4))
    weight.is_shared = True
    weight.names = ["a", "b"]
    return weight, x * weight


@program(compiled_breaks=1)
def penalty(x):
    between = (0.3 * x + 0.7 * WEIGHT).detach().requires_grad_(True)
    gradient = torch.autograd.grad(loss_of(between), between, create_graph=True)[0]
    return ((gradient.norm(2, 1) - 1) ** 2).mean()


@program(compiled_breaks=1)
def added_in_place(x):
    y = x.detach().clone()
    leaf = torch.ones(4, requires_grad=True)
    y.add_(leaf)
    return y


@program(compiled_breaks=2)
def kept_in_a_list(x):
    kept = []
    for i in range(2):
        kept.append(torch.full((4,), float(i), requires_grad=True))
    return kept, sum((k * x).sum() for k in kept)


@program()
def not_differentiable_after_all(x):
    leaf = torch.ones(4, requires_grad=True)
    with torch.no_grad():
        return leaf * x.detach(), (leaf * 2).detach()


@program()
def leaf_turned_off_again(x):
    leaf = torch.ones(4, requires_grad=True)
    leaf.requires_grad_(False)
    return leaf * x


def seen(value, versions):
    """What programs can see of a value."""
    if isinstance(value, torch.Tensor):
        facts = [type(value), value.requires_grad, value.is_leaf, value.dtype, value.stride(), value.detach().clone()]
        grad_fn = type(value.grad_fn).__name__ if versions else value.grad_fn is None
        attributes = {name: item for name, item in vars(value).items() if not name.startswith("_")}
        grad = value.grad if value.is_leaf else None
        return [*facts, grad_fn, attributes, seen(grad, versions), value._version if versions else None]
    if isinstance(value, nn.Module):
        return [(name, seen(p, versions)) for name, p in value.named_parameters()]
    return [seen(item, versions) for item in value] if isinstance(value, (list, tuple)) else value


@program(compiled_breaks=1)
def leaf_beside_a_loss(x):
    loss = (x * x).sum()
    w = x.detach().clone()
    w.requires_grad_()
    return w, loss, (w * w).sum()


@program(compiled_breaks=1)
def leaf_by_attribute_beside_a_loss(x):
    loss = (x * x).sum()
    w = x.detach().clone()
    w.requires_grad = True
    return w, loss, (w * w).sum()


@program(compiled_breaks=1)
def parameter_beside_a_loss(x):
    loss = (x * x).sum()
    w = nn.Parameter(x.detach().clone())
    return w, loss, (w * w).sum()


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, nn.Module):
        return list(value.parameters())
    return [t for item in value for t in tensors_in(item)] if isinstance(value, (list, tuple)) else []


def backward(value):
    """Gradients flow behind the function too."""
    total = [t.sum() for t in tensors_in(value) if t.requires_grad]
    if total:
        sum(total).backward()


def runs(f, requires_grad, versions):
    torch.manual_seed(0)
    gave = []
    for _ in range(3):
        x = torch.randn(4, 4, requires_grad=requires_grad)
        result = f(x)
        gave.append(copy.deepcopy(seen(result, versions)))
        backward(result)
        gave.append(copy.deepcopy([seen(result, versions), seen(x, versions)]))
    return gave


def check(name, backend, requires_grad):
    row = PROGRAMS[name]
    versions = backend == "eager"
    want = runs(row.run, requires_grad, versions)
    pellucid.reset()
    compiled = pellucid.compile(row.run, backend=backend)
    got = runs(compiled, requires_grad, versions)
    assert nearly_same(want, got), (want, got)
    breaks = row.breaks if backend == "eager" else row.compiled_breaks
    assert pellucid.counters["stats"]["unique_graphs"] >= 1
    assert sum(pellucid.counters["graph_break"].values()) <= breaks, pellucid.counters["graph_break"]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_leaves_eager(name, requires_grad):
    check(name, "eager", requires_grad)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_leaves_aot_eager(name, requires_grad):
    check(name, "aot_eager", requires_grad)
