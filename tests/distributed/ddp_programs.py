"""Training with DistributedDataParallel: of a compiled module, and itself compiled."""

from __future__ import annotations

import torch
import torch.distributed as dist
from ranks import Program, program
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PROGRAMS: dict[str, Program] = {}


class Branches(nn.Module):
    """Each process uses the layer of its number, and no other."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 1)
        self.second = nn.Linear(8, 1)

    def forward(self, x):
        return self.second(x) if dist.get_rank() else self.first(x)


class WithNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 1)

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))


class Named(nn.Module):
    """Gives more than a tensor."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 4)

    def forward(self, x, scale=1.0):
        hidden = self.first(x) * scale
        return {"value": hidden, "loss": hidden.sum(-1)}


def net():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))


def batches(count=3):
    made = torch.Generator().manual_seed(dist.get_rank())
    return [torch.randn(4, 8, generator=made) for _ in range(count)]


def state(model):
    return [p.grad.clone() for p in model.parameters() if p.grad is not None] + [b.clone() for b in model.buffers()]


def trained(model, plain, loss_of=lambda out: out.pow(2).mean()):
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    seen = []
    for batch in batches():
        loss = loss_of(model(batch))
        loss.backward()
        seen += [loss.detach(), *state(plain)]
        optimizer.step()
        optimizer.zero_grad()
    return [*seen, *(p.detach() for p in plain.parameters())]


def inside(compiler, plain, **options):
    return DistributedDataParallel(compiler(plain), **options)


def outside(compiler, plain, **options):
    return compiler(DistributedDataParallel(plain, **options))


def made(kind):
    torch.manual_seed(0)
    return kind()


def add(name, kind, graphs=1, **options):
    """The program in both orders."""

    def run(order):
        def of(compiler):
            plain = made(kind)
            return trained(order(compiler, plain, **options), plain)

        return of

    for order in (inside, outside):
        PROGRAMS[f"{name}_{order.__name__}"] = Program(run(order), graphs)


add("plain", net)
add("buffers", WithNorm)
add("no_broadcast_of_buffers", WithNorm, broadcast_buffers=False)
add("unused_parameters", Branches, find_unused_parameters=True)
add("static_graph", net, static_graph=True)
add("buckets_as_gradients", net, gradient_as_bucket_view=True)
add("small_buckets", net, bucket_cap_mb=0.0001)


def accumulated(order):
    """Gradients of two batches, the first of them without communication."""

    def run(compiler):
        plain = made(net)
        model = order(compiler, plain)
        wrapper = model if isinstance(model, DistributedDataParallel) else model._orig_mod
        first, second, third = batches()
        seen = []
        with wrapper.no_sync():
            model(first).pow(2).mean().backward()
            seen += state(plain)
        model(second).pow(2).mean().backward()
        seen += state(plain)
        with torch.no_grad():
            seen.append(model(third))
        return seen

    return run


PROGRAMS["no_sync_inside"] = Program(accumulated(inside), 2)
PROGRAMS["no_sync_outside"] = Program(accumulated(lambda f, plain: _with_orig(f, plain)), 2)


class _Pair:
    def __init__(self, model, wrapper):
        self.model, self._orig_mod = model, wrapper

    def __call__(self, *args):
        return self.model(*args)


def _with_orig(compiler, plain):
    wrapper = DistributedDataParallel(plain)
    return _Pair(compiler(wrapper), wrapper)


@program(PROGRAMS)
def outputs_in_a_dict(compiler):
    plain = made(Named)
    model = compiler(DistributedDataParallel(plain))
    return trained(lambda batch: model(batch, scale=2.0), plain, lambda out: out["loss"].mean() + out["value"].sum())


@program(PROGRAMS)
def communication_hook(compiler):
    def halved(pool, bucket):
        work = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return work.then(lambda future: future.value()[0] / 4)

    plain = made(net)
    wrapper = DistributedDataParallel(plain)
    wrapper.register_comm_hook(None, halved)
    return trained(compiler(wrapper), plain)


@program(PROGRAMS)
def second_model(compiler):
    """Two wrappers of equal nets: neither hears of the other's forward."""
    nets = [made(net), made(net)]
    wrappers = [compiler(DistributedDataParallel(plain)) for plain in nets]
    return [trained(wrapper, plain) for wrapper, plain in zip(wrappers, nets, strict=True)]
