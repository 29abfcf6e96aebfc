"""Collectives in compiled functions."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from ranks import Program, program
from torch.distributed.device_mesh import init_device_mesh

PROGRAMS: dict[str, Program] = {}


def given(*shape):
    return torch.arange(float(torch.Size(shape).numel())).view(shape) + 10 * dist.get_rank()


def both_calls(compiled):
    """Two calls with other values: the second one is the cached entry."""
    return [compiled(given(4)), compiled(given(4) * 3)]


@program(PROGRAMS)
def functional_all_reduce(compiler):
    return both_calls(compiler(lambda x: functional.all_reduce(x + 1, "sum", dist.group.WORLD) * 2))


@program(PROGRAMS)
def functional_by_mesh(compiler):
    mesh = init_device_mesh("cpu", (2,))
    return both_calls(compiler(lambda x: functional.all_reduce(x + 1, "max", mesh) * 2))


@program(PROGRAMS)
def functional_by_name(compiler):
    name = dist.group.WORLD.group_name
    return both_calls(compiler(lambda x: functional.all_reduce(x + 1, "avg", name) * 2))


@program(PROGRAMS)
def functional_all_gather(compiler):
    return both_calls(compiler(lambda x: functional.all_gather_single(x + 1, 0, dist.group.WORLD) * 2))


@program(PROGRAMS)
def functional_all_gather_of_columns(compiler):
    f = compiler(lambda x: functional.all_gather_single(x.view(2, 2), 1, dist.group.WORLD) * 2)
    return both_calls(f)


@program(PROGRAMS)
def functional_reduce_scatter(compiler):
    return both_calls(compiler(lambda x: functional.reduce_scatter_single(x + 1, "sum", 0, dist.group.WORLD) * 2))


@program(PROGRAMS)
def functional_all_to_all(compiler):
    return both_calls(compiler(lambda x: functional.all_to_all_single(x + 1, None, None, dist.group.WORLD) * 2))


@program(PROGRAMS)
def functional_broadcast(compiler):
    return both_calls(compiler(lambda x: functional.broadcast(x + 1, 1, dist.group.WORLD) * 2))


@program(PROGRAMS)
def functional_with_gradients(compiler):
    def f(x):
        return (functional.all_reduce(x * x, "sum", dist.group.WORLD) * x).sum()

    x = given(4).requires_grad_()
    y = compiler(f)(x)
    y.backward()
    return [y.detach(), x.grad]


@program(PROGRAMS)
def result_that_one_process_ignores(compiler):
    """Both take part in a collective, whoever looks at what it gives."""
    rank = dist.get_rank()

    def f(x):
        total = functional.all_reduce(x, "sum", dist.group.WORLD)
        return x + total if rank == 0 else x + 1

    return both_calls(compiler(f))


@program(PROGRAMS)
def rank_and_size(compiler):
    return both_calls(compiler(lambda x: x * (dist.get_rank() + 1) + dist.get_world_size()))


@program(PROGRAMS)
def all_reduce(compiler):
    def f(x):
        y = x + 1
        dist.all_reduce(y)
        return y * 2

    return both_calls(compiler(f))


@program(PROGRAMS)
def all_reduce_of_an_argument(compiler):
    def f(x):
        dist.all_reduce(x, dist.ReduceOp.MAX)
        return x * 2

    f = compiler(f)
    x = given(4)
    return [f(x), x.clone(), f(x), x]


@program(PROGRAMS)
def all_reduce_in_a_group(compiler):
    group = dist.new_group([0, 1])

    def f(x):
        y = x + 1
        dist.all_reduce(y, op=dist.ReduceOp.PRODUCT, group=group)
        return y * 2

    return both_calls(compiler(f))


@program(PROGRAMS)
def all_gather(compiler):
    def f(x):
        parts = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x + 1)
        return torch.cat(parts) * 2

    return both_calls(compiler(f))


@program(PROGRAMS)
def all_gather_single(compiler):
    def f(x):
        whole = x.new_empty(8)
        dist.all_gather_single(whole, x + 1)
        return whole * 2

    return both_calls(compiler(f))


@program(PROGRAMS)
def reduce_scatter_single(compiler):
    def f(x):
        mine = x.new_empty(2)
        dist.reduce_scatter_single(mine, x + 1)
        return mine * 2

    return both_calls(compiler(f))


@program(PROGRAMS)
def broadcast(compiler):
    def f(x):
        y = x + 1
        dist.broadcast(y, 1)
        return y * 2

    return both_calls(compiler(f))


@program(PROGRAMS)
def mean_of_gradients(compiler):
    """What programs without DDP do by hand, in one step."""
    w = torch.ones(4, requires_grad=True)

    def average():
        with torch.no_grad():
            dist.all_reduce(w.grad)
            w.grad.div_(dist.get_world_size())

    (given(4) * w).sum().backward()
    compiler(average)()
    return [w.grad]


@program(PROGRAMS)
def asynchronous(compiler):
    """The work that this gives is an object of C++, which waits for real."""

    def f(x):
        y = x + 1
        work = dist.all_reduce(y, async_op=True)
        work.wait()
        return y * 2

    return both_calls(compiler(f))
