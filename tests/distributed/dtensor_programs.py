"""Distributed tensors in compiled functions, and models that are parallelised with them."""

from __future__ import annotations

import functools

import torch
import torch.distributed as dist
from ranks import Program, program
from torch import nn
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

PROGRAMS: dict[str, Program] = {}
IS_COLD = True


@functools.cache
def mesh():
    return init_device_mesh("cpu", (2,))


def whole(value):
    """What it stands for, and how it lies: plain tensors and text. What a compiler gives is not waited for any more."""
    if isinstance(value, DTensor):
        return [whole(value.to_local().detach()), str(value.placements), list(value.stride())]
    if isinstance(value, AsyncCollectiveTensor):
        return value.wait()
    if isinstance(value, (list, tuple)):
        return [whole(item) for item in value]
    return value.detach() if isinstance(value, torch.Tensor) else value


def lying(placement, *shape, times=1.0):
    numbers = torch.arange(float(torch.Size(shape).numel())).view(shape) * times
    return distribute_tensor(numbers, mesh(), [placement])


def both_calls(f, *made):
    return whole([f(*[one() for one in made]), f(*[one() for one in made])])


@program(PROGRAMS)
def pointwise(compiler):
    return both_calls(compiler(lambda x: x * 2 + x.relu()), lambda: lying(Shard(0), 4, 3))


@program(PROGRAMS)
def reduced(compiler):
    return both_calls(compiler(lambda x: (x * 2).sum(0)), lambda: lying(Shard(0), 4, 5))


@program(PROGRAMS)
def matmul(compiler):
    return both_calls(compiler(lambda x, y: x @ y), lambda: lying(Shard(0), 4, 6), lambda: lying(Replicate(), 6, 2))


@program(PROGRAMS)
def matmul_of_columns_and_rows(compiler):
    """Each process has a part of the sum."""
    f = compiler(lambda x, y: (x @ y).full_tensor())
    return both_calls(f, lambda: lying(Shard(1), 4, 8), lambda: lying(Shard(0), 8, 2))


@program(PROGRAMS)
def uneven(compiler):
    return both_calls(compiler(lambda x: (x + 1).full_tensor() * 2), lambda: lying(Shard(0), 5, 3))


@program(PROGRAMS)
def from_local(compiler):
    one = mesh()
    f = compiler(lambda x: DTensor.from_local(x * 2, one, [Shard(0)]) + 1)
    return both_calls(f, lambda: torch.ones(2, 4) + dist.get_rank())


@program(PROGRAMS)
def to_local(compiler):
    return both_calls(compiler(lambda x: (x * 3).to_local() + 1), lambda: lying(Shard(0), 4, 2))


@program(PROGRAMS)
def redistribute(compiler):
    f = compiler(lambda x: x.redistribute(x.device_mesh, [Replicate()]).to_local() + 1)
    return both_calls(f, lambda: lying(Shard(0), 6, 2))


@program(PROGRAMS)
def redistribute_by_keywords(compiler):
    f = compiler(lambda x: (x * 2).redistribute(placements=[Shard(1)]).to_local() + 1)
    return both_calls(f, lambda: lying(Shard(0), 6, 4))


@program(PROGRAMS)
def there_and_back(compiler):
    one = mesh()

    def f(x):
        d = DTensor.from_local(x, one, [Partial()], run_check=False)
        return d.redistribute(one, [Shard(0)]).to_local() * 2

    return both_calls(compiler(f), lambda: torch.arange(8.0).view(4, 2) + dist.get_rank())


@program(PROGRAMS)
def placements_that_are_asked(compiler):
    def f(x):
        y = x * 2
        if y.placements[0].is_shard() and isinstance(x.placements[0], Shard) and y.placements == x.placements:
            return y + x.placements[0].dim
        return y - 1

    return both_calls(compiler(f), lambda: lying(Shard(1), 2, 4))


@program(PROGRAMS, graphs=3)
def other_placements_need_another_graph(compiler):
    f = compiler(lambda x: x * 2 + 1)
    lie = [Shard(0), Shard(1), Replicate(), Shard(0)]
    return whole([f(lying(placement, 4, 4)) for placement in lie])


@program(PROGRAMS)
def gradients(compiler):
    x = lying(Shard(0), 4, 3, times=0.1).requires_grad_()
    w = lying(Replicate(), 3, 2, times=0.1).requires_grad_()
    loss = compiler(lambda x, w: (x @ w).relu().sum())(x, w)
    loss.backward()
    return whole([loss.full_tensor(), x.grad.full_tensor(), w.grad.full_tensor()])


@program(PROGRAMS)
def gradients_through_local_tensors(compiler):
    one = mesh()
    x = (torch.arange(8.0).view(4, 2) + dist.get_rank()).requires_grad_()

    def f(x):
        d = DTensor.from_local(x, one, [Shard(0)])
        return (d.redistribute(one, [Replicate()]).to_local() ** 2).sum()

    loss = compiler(f)(x)
    loss.backward()
    return [loss.detach(), x.grad]


def at_sizes(f, *made, sizes=(4, 6, 8, 10, 14)):
    """Of tensors with so many rows; what a call gives, and gradients of these, which may lie otherwise with a compiler."""
    seen = []
    for size in sizes:
        given = [one(size).requires_grad_() for one in made]
        result = f(*given)
        result.sum().backward()
        seen.append([result, *(one.grad.full_tensor() for one in given)])
    return whole(seen)


@program(PROGRAMS, graphs=2)
def pointwise_of_any_size(compiler):
    return at_sizes(compiler(lambda x: x * 2 + x.relu()), lambda n: lying(Shard(0), n, 3))


@program(PROGRAMS, graphs=2)
def any_size_beside_the_cut(compiler):
    return at_sizes(compiler(lambda x: (x * 2).exp()), lambda n: lying(Shard(1), n, 4, times=0.01))


@program(PROGRAMS, graphs=2)
def matmul_of_any_size(compiler):
    w = lying(Replicate(), 3, 2)
    return at_sizes(compiler(lambda x: (x @ w).relu()), lambda n: lying(Shard(0), n, 3))


@program(PROGRAMS, graphs=2)
def uneven_of_any_size(compiler):
    """Each process has a size of its own."""
    return at_sizes(compiler(lambda x: x * 3 + 1), lambda n: lying(Shard(0), n + 1, 3))


@program(PROGRAMS, graphs=2)
def redistributed_of_any_size(compiler):
    f = compiler(lambda x: (x * 2).redistribute(x.device_mesh, [Replicate()]) + 1)
    return at_sizes(f, lambda n: lying(Shard(0), n, 3))


@program(PROGRAMS, graphs=2)
def sums_of_any_size(compiler):
    """Each process has a part of the sum."""
    return at_sizes(compiler(lambda x: (x * 2).sum(0).full_tensor()), lambda n: lying(Shard(0), n, 3))


@program(PROGRAMS, graphs=2)
def sizes_that_are_asked(compiler):
    f = compiler(lambda x: x.view(x.shape[0] * 3) * x.shape[0])
    return at_sizes(f, lambda n: lying(Replicate(), n, 3))


@program(PROGRAMS, graphs=2)
def two_of_any_size(compiler):
    f = compiler(lambda x, y: torch.cat([x, y * 2]) + 1)
    with torch.no_grad():
        return whole([f(lying(Replicate(), n, 3), lying(Replicate(), n + 5, 3)) for n in (4, 6, 9)])


@program(PROGRAMS, graphs=2)
def parts_of_any_size(compiler):
    f = compiler(lambda x: (x[1:] * 2, x[:, -1], x.sum(0, keepdim=True).expand(x.shape[0], 3) + x))
    with torch.no_grad():
        return whole([f(lying(Replicate(), rows, 3)) for rows in (4, 6, 9)])


@program(PROGRAMS, graphs=2)
def product_of_any_sizes(compiler):
    f = compiler(lambda x, y: x @ y.t())
    return at_sizes(f, lambda n: lying(Replicate(), n, 3), lambda n: lying(Replicate(), n + 5, 3))


@program(PROGRAMS, graphs=3)
def of_any_size_where_it_is_cut_otherwise(compiler):
    f = compiler(lambda x: x * 2 + 1)
    lie = [(Shard(0), 4), (Shard(0), 6), (Replicate(), 6), (Shard(0), 8), (Replicate(), 10)]
    return whole([f(lying(placement, rows, 4)) for placement, rows in lie])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def steps(model, plain, count=2):
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05)
    seen = []
    for i in range(count):
        batch = torch.randn(4, 8, generator=torch.Generator().manual_seed(i))
        loss = model(batch)
        loss = (loss.full_tensor() if isinstance(loss, DTensor) else loss).pow(2).mean()
        loss.backward()
        for p in plain.parameters():
            seen.append(p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad.clone())
        seen.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return whole(seen)


def made(kind=Block):
    torch.manual_seed(0)
    return kind()


@program(PROGRAMS)
def tensor_parallel(compiler):
    block = made()
    parallelize_module(block, mesh(), {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return steps(compiler(block), block)


@program(PROGRAMS)
def tensor_parallel_without_gradients(compiler):
    block = made()
    parallelize_module(block, mesh(), {"up": ColwiseParallel(), "down": RowwiseParallel()})
    f = compiler(block)
    with torch.no_grad():
        return whole([f(torch.ones(4, 8)), f(torch.ones(4, 8) * 2)])


@program(PROGRAMS, graphs=2)
def tensor_parallel_of_any_size(compiler):
    block = made()
    parallelize_module(block, mesh(), {"up": ColwiseParallel(), "down": RowwiseParallel()})
    f = compiler(block)
    seen = []
    for rows in (4, 5, 6, 7):
        loss = f(torch.ones(rows, 8) * rows).pow(2).mean()
        loss.backward()
        seen.append([loss.detach(), *(whole(p.grad.clone()) for p in block.parameters())])
    return seen


@program(PROGRAMS)
def sequence_parallel(compiler):
    block = made()
    plan = {
        "norm": SequenceParallel(sequence_dim=0),
        "up": ColwiseParallel(input_layouts=Shard(0)),
        "down": RowwiseParallel(output_layouts=Shard(0), use_local_output=False),
    }
    parallelize_module(block, mesh(), plan)
    wrapped = nn.Sequential(block)
    prepared = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Shard(0),))
    parallelize_module(wrapped, mesh(), {"0": prepared})
    return steps(compiler(wrapped), wrapped)


@program(PROGRAMS)
def replicated_module(compiler):
    one = mesh()
    layer = distribute_module(made(lambda: nn.Linear(8, 8)), one)
    f = compiler(layer)
    x = lying(Shard(0), 4, 8, times=0.1)
    loss = f(x).sum()
    loss.backward()
    return whole([loss.full_tensor(), *[p.grad.full_tensor() for p in layer.parameters()]])
