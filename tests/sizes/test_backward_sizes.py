"""Backward passes inside of a region with sizes that change: the second size is compiled for all, as what autograd calls
has size rules, too. A row for each operator of the backward pass that has one of its own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pellucid
from support import Counting, same

ROWS = (3, 4, 5, 8)


def after(*modules):
    """The modules behind one with parameters, so that a gradient passes through them."""
    return lambda: nn.Sequential(nn.Linear(8, 8), *[module for module in modules])


def images(make, channels=4, size=6):
    return (lambda: nn.Sequential(nn.Conv2d(channels, channels, 1), make())), lambda n: (
        torch.randn(n, channels, size, size),
    )


def lines(make):
    return (lambda: nn.Sequential(nn.Conv1d(4, 4, 1), make())), lambda n: (torch.randn(n, 4, 6),)


def volumes(make):
    return (lambda: nn.Sequential(nn.Conv3d(2, 2, 1), make())), lambda n: (torch.randn(n, 2, 4, 4, 4),)


class Loss(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.scores = nn.Linear(8, 4)
        self.function = function

    def forward(self, x, target):
        return self.function(self.scores(x), target)


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
        self.function = function

    def forward(self, x):
        return self.function(x @ self.weight)


def vectors(n):
    return (torch.randn(n, 8),)


def classes(n):
    return torch.randn(n, 8), torch.arange(n) % 4


def targets(n):
    return torch.randn(n, 8), torch.rand(n, 4)


def tokens(n):
    return (torch.randint(0, 10, (n, 3)),)


def attended(x):
    heads = x.view(1, -1, 2, 4).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads)


def sampled(x):
    return F.grid_sample(x.reshape(-1, 1, 2, 4), torch.zeros(x.shape[0], 2, 2, 2), align_corners=False)


PROGRAMS = {
    **{
        type(module).__name__: (after(module), vectors)
        for module in (
            nn.ReLU(),
            nn.GELU(),
            nn.SiLU(),
            nn.Tanh(),
            nn.Sigmoid(),
            nn.ELU(),
            nn.LeakyReLU(),
            nn.Softplus(),
            nn.Hardtanh(),
            nn.Hardswish(),
            nn.Hardsigmoid(),
            nn.Mish(),
            nn.SELU(),
            nn.CELU(),
            nn.LogSigmoid(),
            nn.Softshrink(),
            nn.Hardshrink(),
            nn.ReLU6(),
            nn.PReLU(),
            nn.GLU(),
            nn.Softmax(-1),
            nn.LogSoftmax(-1),
            nn.Dropout(),
            nn.LayerNorm(8),
            nn.RMSNorm(8),
            nn.BatchNorm1d(8),
        )
    },
    "LayerNorm without weights": (after(nn.LayerNorm(8, elementwise_affine=False)), vectors),
    "BatchNorm1d first": (lambda: nn.BatchNorm1d(8), vectors),
    "GroupNorm": images(lambda: nn.GroupNorm(2, 4)),
    "GroupNorm first": (lambda: nn.GroupNorm(2, 4), lambda n: (torch.randn(n, 4, 5),)),
    "BatchNorm2d": images(lambda: nn.BatchNorm2d(4)),
    "BatchNorm2d in eval": images(lambda: nn.BatchNorm2d(4).eval()),
    "InstanceNorm2d": images(lambda: nn.InstanceNorm2d(4, affine=True)),
    "Conv2d": images(lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)),
    "Conv2d without bias": images(lambda: nn.Conv2d(4, 6, 3, bias=False)),
    "Conv2d of any image": (
        lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3, padding=1)),
        lambda n: (torch.randn(2, 4, 7 + n, 9 + n),),
    ),
    "Conv2d channels last": (
        lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        lambda n: (torch.randn(n, 4, 8, 8).to(memory_format=torch.channels_last),),
    ),
    "ConvTranspose2d": images(lambda: nn.ConvTranspose2d(4, 6, 3, stride=2)),
    "Conv1d": lines(lambda: nn.Conv1d(4, 5, 3)),
    "Conv3d": volumes(lambda: nn.Conv3d(2, 3, 3)),
    "MaxPool2d": images(lambda: nn.MaxPool2d(3, stride=2, padding=1)),
    "AvgPool2d": images(lambda: nn.AvgPool2d(2)),
    "LPPool2d": images(lambda: nn.LPPool2d(2, 2)),
    "AdaptiveAvgPool2d": images(lambda: nn.AdaptiveAvgPool2d(2)),
    "AdaptiveAvgPool2d to one": images(lambda: nn.AdaptiveAvgPool2d(1)),
    "AdaptiveMaxPool2d": images(lambda: nn.AdaptiveMaxPool2d(2)),
    "FractionalMaxPool2d": images(lambda: nn.FractionalMaxPool2d(2, output_size=3)),
    "nearest": images(lambda: nn.Upsample(scale_factor=2)),
    "bilinear": images(lambda: nn.Upsample(scale_factor=2, mode="bilinear")),
    "bicubic": images(lambda: nn.Upsample(size=(9, 9), mode="bicubic")),
    "ReflectionPad2d": images(lambda: nn.ReflectionPad2d(1)),
    "ReplicationPad2d": images(lambda: nn.ReplicationPad2d(1)),
    "LocalResponseNorm": images(lambda: nn.LocalResponseNorm(2)),
    "MaxPool1d": lines(lambda: nn.MaxPool1d(2)),
    "AvgPool1d": lines(lambda: nn.AvgPool1d(2)),
    "AdaptiveAvgPool1d": lines(lambda: nn.AdaptiveAvgPool1d(2)),
    "AdaptiveMaxPool1d": lines(lambda: nn.AdaptiveMaxPool1d(2)),
    "nearest of lines": lines(lambda: nn.Upsample(scale_factor=2)),
    "linear": lines(lambda: nn.Upsample(scale_factor=2, mode="linear")),
    "ReflectionPad1d": lines(lambda: nn.ReflectionPad1d(1)),
    "MaxPool3d": volumes(lambda: nn.MaxPool3d(2)),
    "AvgPool3d": volumes(lambda: nn.AvgPool3d(2)),
    "AdaptiveAvgPool3d": volumes(lambda: nn.AdaptiveAvgPool3d(2)),
    "nearest of volumes": volumes(lambda: nn.Upsample(scale_factor=2)),
    "trilinear": volumes(lambda: nn.Upsample(scale_factor=2, mode="trilinear")),
    "Embedding": (lambda: nn.Embedding(10, 8, padding_idx=0), tokens),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(10, 8, mode="mean"), tokens),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True),
        lambda n: (torch.randn(2, n, 8),),
    ),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
        lambda n: (torch.randn(2, n, 8), torch.randn(2, 4, 8)),
    ),
    "attention": (lambda: Of(attended), vectors),
    "grid_sample": (lambda: Of(sampled), vectors),
    "cdist": (lambda: Of(lambda x: torch.cdist(x, x + 1)), vectors),
    "pdist": (lambda: Of(F.pdist), vectors),
    "embedding of what is computed": (lambda: Of(lambda x: F.embedding(torch.tensor([0, 1]), x)), vectors),
    "mean": (lambda: Of(lambda x: x.view(-1, 2, 4).mean((1, 2), keepdim=True)), vectors),
    "cross_entropy": (lambda: Loss(F.cross_entropy), classes),
    "cross_entropy smooth": (lambda: Loss(lambda a, b: F.cross_entropy(a, b, label_smoothing=0.1)), classes),
    "cross_entropy of each": (lambda: Loss(lambda a, b: F.cross_entropy(a, b, reduction="none")), classes),
    "cross_entropy of images": (
        lambda: nn.Sequential(nn.Conv2d(4, 4, 1)),
        lambda n: (torch.randn(n, 4, 2, 2), torch.arange(4 * n).view(n, 2, 2) % 4),
    ),
    "mse": (lambda: Loss(F.mse_loss), targets),
    "l1": (lambda: Loss(F.l1_loss), targets),
    "smooth_l1": (lambda: Loss(F.smooth_l1_loss), targets),
    "huber": (lambda: Loss(F.huber_loss), targets),
    "bce": (lambda: Loss(lambda a, b: F.binary_cross_entropy(a.sigmoid(), b)), targets),
    "bce with logits": (lambda: Loss(F.binary_cross_entropy_with_logits), targets),
    "kl_div": (lambda: Loss(lambda a, b: F.kl_div(a.log_softmax(-1), b, reduction="batchmean")), targets),
}


def loss_of(module, inputs):
    if len(inputs) == 2 and isinstance(module, nn.Sequential):
        return F.cross_entropy(module(inputs[0]), inputs[1])
    return module(*inputs).square().sum()


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_graphs_serve_all_sizes(name):
    make, inputs = PROGRAMS[name]
    torch.manual_seed(0)
    module = make()
    counting = Counting()

    def step(*given):
        loss = loss_of(module, given)
        loss.backward()
        gradients = [parameter.grad for parameter in module.parameters()]
        for parameter in module.parameters():
            parameter.grad = None
        return loss.detach(), gradients

    compiled = pellucid.compile(step, backend=counting, fullgraph=True)
    for rows in ROWS:
        given = inputs(rows)
        state = {key: value.clone() for key, value in module.state_dict().items()}
        outcomes = []
        for run in (compiled, step):
            module.load_state_dict(state)
            torch.manual_seed(rows)
            outcomes.append(run(*given))
        (got, got_gradients), (wanted, wanted_gradients) = outcomes
        assert same(got, wanted)
        for ours, eagers in zip(got_gradients, wanted_gradients, strict=True):
            assert same(ours, eagers) and ours.stride() == eagers.stride()
    assert counting.count == 2
