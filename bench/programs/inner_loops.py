"""Optimisation inside of the function: attacks, meta-learning, penalties on gradients, sampling; leaves that are made in it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from programs import Case, program
from programs.optimizers import batches, small_net


@program("inner loops")
def fast_gradient_sign():
    model = small_net()

    def f(x, y):
        x = x.clone().requires_grad_(True)
        loss = F.cross_entropy(model(x), y)
        (grad,) = torch.autograd.grad(loss, x)
        return (x + 0.1 * grad.sign()).detach()

    return Case(f, batches(), state=model)


@program("inner loops")
def projected_gradient():
    model = small_net()

    def f(x, y):
        delta = torch.zeros_like(x)
        for _ in range(3):
            delta.requires_grad_(True)
            loss = F.cross_entropy(model(x + delta), y)
            (grad,) = torch.autograd.grad(loss, delta)
            delta = (delta.detach() + 0.1 * grad.sign()).clamp(-0.2, 0.2)
        return F.cross_entropy(model(x + delta), y)

    return Case(f, batches(), state=model)


@program("inner loops")
def attack_by_backward():
    """A leaf made in the region, `backward` and `.grad`."""
    model = small_net()

    def f(x, y):
        delta = torch.zeros_like(x, requires_grad=True)
        for _ in range(2):
            F.cross_entropy(model(x + delta), y).backward()
            with torch.no_grad():
                delta += 0.1 * delta.grad.sign()
            delta.grad.zero_()
        model.zero_grad()
        return delta.detach()

    return Case(f, batches(), state=model)


@program("inner loops")
def model_agnostic_meta_learning():
    model = small_net()

    def f(x, y):
        fast = dict(model.named_parameters())
        for _ in range(2):
            loss = F.cross_entropy(torch.func.functional_call(model, fast, (x,)), y)
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), grads)}
        return F.cross_entropy(torch.func.functional_call(model, fast, (x,)), y)

    return Case(f, batches(), state=model)


@program("inner loops")
def first_order_meta_learning():
    model = small_net()

    def f(x, y):
        fast = [p.detach().clone().requires_grad_() for p in model.parameters()]
        names = [name for name, _ in model.named_parameters()]
        loss = F.cross_entropy(torch.func.functional_call(model, dict(zip(names, fast)), (x,)), y)
        grads = torch.autograd.grad(loss, fast)
        return [p - 0.1 * g for p, g in zip(fast, grads)]

    return Case(f, batches(), state=model)


@program("inner loops")
def gradient_penalty():
    judge = nn.Sequential(nn.Linear(6, 8), nn.Softplus(), nn.Linear(8, 1))

    def f(real, fake):
        mix = torch.rand(len(real), 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_(True)
        (grad,) = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
        return ((grad.norm(dim=1) - 1) ** 2).mean()

    return Case(f, [(torch.randn(4, 6), torch.randn(4, 6)) for _ in range(3)], state=judge)


@program("inner loops")
def gradient_penalty_step():
    judge = nn.Sequential(nn.Linear(6, 8), nn.Softplus(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)

    def f(real):
        real = real.detach().requires_grad_(True)
        optimizer.zero_grad()
        scores = judge(real)
        (grad,) = torch.autograd.grad(scores.sum(), real, create_graph=True)
        loss = scores.mean() + grad.square().sum(1).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(f, [(torch.randn(4, 6),) for _ in range(3)], state=judge)


@program("inner loops")
def langevin_sampling():
    def energy(x):
        return (x**4 - 2 * x**2).sum()

    def f(x):
        for _ in range(3):
            x = x.detach().requires_grad_(True)
            (grad,) = torch.autograd.grad(energy(x), x)
            x = x - 0.01 * grad + 0.1 * torch.randn_like(x)
        return x.detach()

    return Case(f, [(torch.randn(4),) for _ in range(3)])


@program("inner loops")
def latent_search():
    """An optimizer that is made in the function."""
    maker = nn.Linear(3, 6)

    def f(target):
        z = torch.zeros(3, requires_grad=True)
        optimizer = torch.optim.SGD([z], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.mse_loss(maker(z), target)
            loss.backward()
            optimizer.step()
        maker.zero_grad()
        return z.detach()

    return Case(f, [(torch.randn(6),) for _ in range(3)], state=maker)


@program("inner loops")
def physics_informed():
    """Derivatives of a net by its input, twice."""
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def f(t):
        t = t.clone().requires_grad_(True)
        u = net(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
        return (ddu + u).square().mean()

    return Case(f, [(torch.randn(5, 1),) for _ in range(3)], state=net)


@program("inner loops")
def implicit_layer():
    """A fixed point without gradients, and one step with."""
    w = nn.Parameter(torch.randn(4, 4) * 0.2)

    def f(x):
        with torch.no_grad():
            z = torch.zeros_like(x)
            for _ in range(5):
                z = torch.tanh(z @ w + x)
        z = z.detach().requires_grad_(True)
        return torch.tanh(z @ w + x)

    return Case(f, [(torch.randn(3, 4, requires_grad=True),) for _ in range(3)], state=w)


@program("inner loops")
def grad_of_unused():
    def f(x, y):
        return torch.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)

    return Case(f, [(torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)) for _ in range(3)])


@program("inner loops")
def grad_of_unused_refused():
    def f(x, y):
        return torch.autograd.grad((x * 2).sum(), [x, y])

    return Case(f, [(torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)) for _ in range(3)])


@program("inner loops")
def second_backward_refused():
    def f(x):
        loss = (x * x).sum()
        loss.backward()
        loss.backward()

    return Case(f, [(torch.randn(3, requires_grad=True),) for _ in range(3)])


@program("inner loops")
def written_before_backward():
    """What autograd refuses: a saved tensor was written."""

    def f(x):
        y = x.exp()
        z = y * y
        y.add_(1)
        return z.sum()

    return Case(f, [(torch.randn(3, requires_grad=True),) for _ in range(3)])


@program("inner loops")
def parameter_made_inside():
    def f(x):
        w = nn.Parameter(torch.ones(3, 3))
        loss = (x @ w).square().sum()
        loss.backward()
        return w.grad, w.is_leaf

    return Case(f, [(torch.randn(2, 3),) for _ in range(3)])


@program("inner loops")
def enabled_below_no_grad():
    w = nn.Parameter(torch.randn(3))

    def f(x):
        with torch.no_grad():
            a = x * w
            with torch.enable_grad():
                b = x * w
        return a, b, torch.is_grad_enabled()

    return Case(f, [(torch.randn(3),) for _ in range(3)], state=w)
