"""FSDP2 over gloo: a model whose layers are sharded, then compiled."""

import sys

import torch
import torch.distributed as dist
from reported import leave, report
from torch.distributed.fsdp import fully_shard
from two_processes import begun, losses

net = begun()
mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
for layer in (net[0], net[2], net):
    fully_shard(layer, mesh=mesh)
model = torch.compile(net, backend="eager") if "--compile" in sys.argv else net
seen = [loss.item() for loss in losses(model, net.parameters())]
if dist.get_rank() == 0:
    report(*seen)
leave()
