"""Custom operators, other layouts, and small libraries that stand in loops."""

from __future__ import annotations

import importlib.util
import logging
import time

import torch
import torch.nn.functional as F
from torch import nn

from programs import Case, program
from programs.checkpointing import leaf_calls


@torch.library.custom_op("corpus::scaled_sin", mutates_args=())
def scaled_sin(x: torch.Tensor, scale: float) -> torch.Tensor:
    return scale * x.sin()


@scaled_sin.register_fake
def _(x, scale):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    x, ctx.scale = inputs
    ctx.save_for_backward(x)


def _backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * ctx.scale * x.cos(), None


scaled_sin.register_autograd(_backward, setup_context=_setup)


@torch.library.custom_op("corpus::add_into", mutates_args=("out",))
def add_into(out: torch.Tensor, x: torch.Tensor) -> None:
    out.add_(x)


@torch.library.custom_op("corpus::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("corpus::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@program("custom operators", inductor=True)
def custom_operator_with_gradient():
    return Case(lambda x: scaled_sin(x * 2, 3.0) + 1, leaf_calls(3, 4))


@program("custom operators", inductor=True)
def custom_operator_that_writes():
    def f(x):
        out = torch.zeros(4)
        add_into(out, x)
        add_into(out, x * 2)
        return out

    return Case(f, [(torch.randn(4),) for _ in range(3)])


@program("custom operators")
def custom_operator_writes_an_argument():
    def f(x, out):
        add_into(out, x)
        return out * 2

    return Case(f, [(torch.randn(4), torch.zeros(4)) for _ in range(3)])


@program("custom operators")
def custom_operator_of_data():
    return Case(lambda x: positive(x) * 2, [(torch.randn(6),) for _ in range(3)])


@program("custom operators")
def custom_operator_without_fake():
    return Case(lambda x: no_fake(x + 1) * 3, [(torch.randn(4),) for _ in range(3)])


@program("custom operators")
def custom_operator_by_packet():
    return Case(lambda x: torch.ops.corpus.scaled_sin(x, 2.0) + torch.ops.aten.relu.default(x), leaf_calls(3, 4))


@program("custom operators")
def custom_operator_in_checkpoint():
    from torch.utils.checkpoint import checkpoint

    return Case(lambda x: checkpoint(lambda x: scaled_sin(x, 2.0).cos(), x, use_reentrant=False), leaf_calls(3, 4))


@program("layouts")
def sparse_matrix_product():
    def f(indices, values, x):
        matrix = torch.sparse_coo_tensor(indices, values, (3, 4))
        return torch.sparse.mm(matrix, x)

    return Case(f, [(torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.randn(3), torch.randn(4, 2)) for _ in range(3)])


@program("layouts")
def sparse_argument():
    calls = [(torch.randn(3, 4).relu().to_sparse(), torch.randn(4, 2)) for _ in range(3)]
    return Case(lambda s, x: torch.sparse.mm(s, x) + 1, calls)


@program("layouts")
def sparse_rows():
    calls = [(torch.randn(3, 4).relu().to_sparse_csr(), torch.randn(4)) for _ in range(3)]
    return Case(lambda s, x: s @ x, calls)


@program("layouts")
def sparse_gradient():
    table = nn.Embedding(10, 4, sparse=True)
    return Case(lambda rows: table(rows).sum(0), [(torch.randint(0, 10, (3,)),) for _ in range(3)], state=table)


@program("layouts")
def quantised_argument():
    calls = [(torch.quantize_per_tensor(torch.randn(4), 0.1, 10, torch.quint8),) for _ in range(3)]
    return Case(lambda q: q.dequantize() * 2, calls)


@program("layouts")
def quantised_inside():
    def f(x):
        q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
        return q.dequantize(), q.int_repr()

    return Case(f, [(torch.randn(4),) for _ in range(3)])


@program("layouts", inductor=True)
def fake_quantised():
    def f(x):
        scale = x.detach().abs().max() / 127
        zero = torch.zeros((), dtype=torch.int32)
        return torch.fake_quantize_per_tensor_affine(x, scale, zero, -128, 127)

    return Case(f, leaf_calls(3, 4))


@program("layouts")
def dynamic_int8_linear():
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), {nn.Linear})
    return Case(lambda x: model(x), [(torch.randn(2, 4),) for _ in range(3)])


@program("layouts")
def complex_spectrum():
    def f(x):
        spectrum = torch.fft.rfft(x)
        return torch.fft.irfft(spectrum * torch.exp(-spectrum.abs())), torch.view_as_real(spectrum)

    return Case(f, leaf_calls(3, 8))


@program("layouts")
def channels_last():
    layer = nn.Conv2d(3, 4, 3)
    calls = [(torch.randn(1, 3, 6, 6).to(memory_format=torch.channels_last),) for _ in range(3)]
    return Case(lambda x: layer(x), calls, state=layer)


@program("libraries")
def recorded_function():
    def f(x):
        with torch.profiler.record_function("block"):
            y = x.sin()
        return y * 2

    return Case(f, leaf_calls(3, 4))


@program("libraries")
def logging_inside():
    logger = logging.getLogger("corpus")

    def f(x):
        logger.debug("sizes %s", x.shape)
        return x.sin() * 2

    return Case(f, leaf_calls(3, 4))


@program("libraries")
def timed():
    def f(x):
        start = time.perf_counter()
        y = x.sin()
        return y, time.perf_counter() - start >= 0

    return Case(f, leaf_calls(3, 4))


@program("libraries")
def warned():
    import warnings

    def f(x):
        if x.shape[0] == 3:
            warnings.warn("three rows", stacklevel=2)
        return x.sin() * 2

    return Case(f, leaf_calls(3, 4))


@program("libraries")
def metric_of_torchmetrics():
    if importlib.util.find_spec("torchmetrics") is None:
        return Case(lambda x: x, [(torch.ones(1),)] * 2)
    from torchmetrics.classification import MulticlassAccuracy

    metric = MulticlassAccuracy(num_classes=3)

    def f(x, y):
        metric.update(x, y)
        return metric.compute()

    return Case(f, [(torch.randn(5, 3), torch.randint(0, 3, (5,))) for _ in range(3)])


@program("libraries")
def progress_bar():
    if importlib.util.find_spec("tqdm") is None:
        return Case(lambda x: x, [(torch.ones(1),)] * 2)
    from tqdm import tqdm

    def f(x):
        for step in tqdm(range(3), disable=True):
            x = x.sin() + step
        return x

    return Case(f, leaf_calls(3, 4))


@program("libraries")
def rearranged():
    """einops where it is installed, else what it would call."""
    if importlib.util.find_spec("einops") is None:
        return Case(lambda x: x.reshape(2, 3, 4).permute(1, 0, 2).flatten(1), [(torch.randn(6, 4),) for _ in range(3)])
    from einops import rearrange, reduce

    return Case(
        lambda x: (rearrange(x, "(b h) d -> h (b d)", b=2), reduce(x, "b d -> b", "mean")),
        [(torch.randn(6, 4),) for _ in range(3)],
    )


@program("libraries")
def profiled_around():
    def f(x):
        with torch.profiler.profile() as profile:
            y = F.relu(x) + 1
        return y, len(profile.events()) > 0

    return Case(f, [(torch.randn(3),) for _ in range(3)])
