"""FSDP2 over gloo: a model whose layers are sharded, then compiled."""

import sys

import torch
import torch.distributed as dist
from reported import leave, report
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
torch.manual_seed(0)
mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
for layer in (net[0], net[2], net):
    fully_shard(layer, mesh=mesh)
model = torch.compile(net, backend="eager") if "--compile" in sys.argv else net
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(dist.get_rank())
losses = []
for _ in range(3):
    loss = model(torch.randn(4, 8, generator=generator)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
if dist.get_rank() == 0:
    report(*losses)
leave()
