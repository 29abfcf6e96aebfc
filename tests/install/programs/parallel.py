"""DDP over gloo: the model compiled inside, or outside of DDP (`--outside`)."""

import sys

import torch
import torch.distributed as dist
from reported import leave, norms, report
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
compiles = "--compile" in sys.argv
model = torch.compile(net, backend="eager") if compiles and "--outside" not in sys.argv else net
model = DistributedDataParallel(model)
if compiles and "--outside" in sys.argv:
    model = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(dist.get_rank())
losses = []
for _ in range(3):
    loss = model(torch.randn(4, 8, generator=generator)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item())
if dist.get_rank() == 0:
    report(*losses, norms(net))
leave()
