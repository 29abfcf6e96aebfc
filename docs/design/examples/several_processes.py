import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def f(x):
    y = x * 2
    dist.all_reduce(y)
    return y + dist.get_rank()


f(torch.ones(2))
dist.destroy_process_group()
