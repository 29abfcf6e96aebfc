"""DDP over gloo: the model compiled inside, or outside of DDP (`--outside`)."""

import sys

import torch
import torch.distributed as dist
from reported import leave, norms, report
from torch.nn.parallel import DistributedDataParallel
from two_processes import begun, losses

net = begun()
compiles = "--compile" in sys.argv
model = torch.compile(net, backend="eager") if compiles and "--outside" not in sys.argv else net
model = DistributedDataParallel(model)
if compiles and "--outside" in sys.argv:
    model = torch.compile(model, backend="eager")
means = []
for loss in losses(model, model.parameters()):
    mean = loss.clone()
    dist.all_reduce(mean)
    means.append(mean.item())
if dist.get_rank() == 0:
    report(*means, norms(net))
leave()
