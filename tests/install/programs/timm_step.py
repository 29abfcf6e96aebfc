"""A training step of a timm model with timm's own loss, optimizer and averaged weights."""

import sys
import types

import torch

try:
    import torchvision  # noqa: F401
except Exception:  # timm needs names of it, not its operators
    sys.modules.pop("torchvision", None)
import timm
from reported import norms, report
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.utils import ModelEmaV3

assert isinstance(timm, types.ModuleType)
torch.manual_seed(0)
model = timm.create_model("resnet18", num_classes=5, in_chans=3)
called = torch.compile(model, backend="eager") if "--compile" in sys.argv else model
averaged = ModelEmaV3(model, decay=0.5)
optimizer = create_optimizer_v2(model, opt="adamw", lr=0.001)
criterion = LabelSmoothingCrossEntropy(0.1)
losses = []
for step in range(2):
    loss = criterion(called(torch.randn(2, 3, 32, 32)), torch.tensor([1, 3]))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    averaged.update(model, step)
    losses.append(loss.item())
report(*losses, norms(model), norms(averaged.module))
