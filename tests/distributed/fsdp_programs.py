"""Training with FSDP2 (fully_shard): of compiled layers, and of a model that is compiled as a whole."""

from __future__ import annotations

import functools

import torch
import torch.distributed as dist
from ranks import Program, program
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

PROGRAMS: dict[str, Program] = {}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


@functools.cache
def mesh():
    return init_device_mesh("cpu", (2,))


def net():
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block(), nn.Linear(8, 1))


def sharded(model, **options):
    for part in (model[0], model[1], model):
        fully_shard(part, mesh=mesh(), **options)
    return model


def trained(model, plain):
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    seen = []
    for i in range(3):
        batch = torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * dist.get_rank() + i))
        loss = model(batch).pow(2).mean()
        loss.backward()
        seen += [loss.detach(), *[p.grad.full_tensor() for p in plain.parameters()]]
        optimizer.step()
        optimizer.zero_grad()
    return [*seen, *[p.detach().full_tensor() for p in plain.parameters()]]


@program(PROGRAMS, graphs=2)
def compiled_layers(compiler):
    plain = net()
    for layer in (plain[0], plain[1]):
        layer.forward = compiler(layer.forward)
    return trained(sharded(plain), plain)


@program(PROGRAMS, graphs=2)
def compiled_as_a_whole(compiler):
    """What FSDP2 does around each layer runs for real; the equal layers are one graph, the last one is another."""
    plain = sharded(net())
    return trained(compiler(plain), plain)


@program(PROGRAMS, graphs=2)
def parameters_that_stay_gathered(compiler):
    plain = sharded(net(), reshard_after_forward=False)
    return trained(compiler(plain), plain)
