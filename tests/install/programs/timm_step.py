"""A training step of a timm model with timm's own loss, optimizer and averaged weights."""

import importlib.abc
import importlib.machinery
import sys
import types

import torch


class AnyName(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class NoTorchvision(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """timm reads names of torchvision's transforms when it is imported; this program uses none of them."""

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith("torchvision") else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__, module.__file__ = [], __file__
        module.__getattr__ = lambda name: AnyName(name, (), {})
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(NoTorchvision())
import timm  # noqa: E402
from reported import norms, report  # noqa: E402
from timm.loss import LabelSmoothingCrossEntropy  # noqa: E402
from timm.optim import create_optimizer_v2  # noqa: E402
from timm.utils import ModelEmaV3  # noqa: E402

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
