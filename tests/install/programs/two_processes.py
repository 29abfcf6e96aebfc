"""How the programs of two processes begin, and train."""

from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist


def begun() -> torch.nn.Sequential:
    """Joins the other process over gloo; gives the net, which is the same in both."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def losses(model: torch.nn.Module, parameters: Iterable[torch.nn.Parameter]) -> Iterator[torch.Tensor]:
    """Those of three steps with batches that each process has of its own."""
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        loss = model(torch.randn(4, 8, generator=generator)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.detach()
