"""Products, reductions, norms, look-ups, convolutions and attention: what networks are made of."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from support.calls import ramp
from sweeps.table import sweep, tensors, tokens

BATCHES = ((2, 5), (3, 4), (4, 7), (2, 3), (5, 9), (3, 12))
IMAGES = ((2, 8, 6), (3, 7, 9), (4, 10, 8), (2, 9, 9), (5, 12, 11))
MAKE_IMAGE = [(b, 3, h, w) for b, h, w in IMAGES]


def filled(module: nn.Module) -> nn.Module:
    """The module with weights that do not depend on the generator's state."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).view_as(parameter))
    return module


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def linear():
    return filled(nn.Linear(3, 4))


@sweep(2, *[(b, t, 3) for b, t in BATCHES], trains=True)
def perceptron():
    return filled(nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 2), nn.ReLU()))


@sweep(2, each=lambda n: ((n, 3), (3, n)), inputs=tensors, trains=True, brute=0)
def product(x, y):
    return x @ y, torch.mm(y, x), x.matmul(y).sum()


@sweep(2, *[((n, m), (m, k)) for n, m, k in ((2, 3, 4), (3, 5, 2), (7, 7, 7), (4, 2, 9))], inputs=tensors, trains=True)
def product_of_all_sizes(x, y):
    return x @ y


@sweep(
    7,
    *[((n, m), (k, 2)) for n, m, k in ((2, 3, 3), (3, 5, 5), (4, 5, 6), (7, 7, 7), (4, 2, 3))],
    inputs=tensors,
    why="calls that raise may capture what comes before",
)
def product_that_may_not_fit(x, y):
    return (x + 1) @ y


@sweep(2, each=lambda n: ((n, 3), (3,), (n,)), inputs=tensors, trains=True, brute=0)
def product_with_vectors(x, y, z):
    return x @ y, z @ x, torch.outer(y, z), z.dot(z)


@sweep(2, *[((b, t, 3), (b, 3, t)) for b, t in BATCHES], inputs=tensors, trains=True)
def batched_product(x, y):
    return torch.bmm(x, y), x @ y, torch.baddbmm(x[:, :, :1], x, y)


@sweep(2, *[((b, 2, t, 3), (b, 2, 3, t)) for b, t in BATCHES], inputs=tensors, trains=True)
def product_of_four_dimensions(x, y):
    return x @ y, (x @ y) @ x


@sweep(2, *[((b, t, 3), (t, 3)) for b, t in BATCHES], inputs=tensors, trains=True)
def product_that_broadcasts(x, y):
    return x @ y.T, x.matmul(y[0])


@sweep(2, *[((b, t, 4), (b, t, 4)) for b, t in BATCHES], inputs=tensors, trains=True)
def einsums(x, y):
    return torch.einsum("btc,bsc->bts", x, y), torch.einsum("btc,btd->bcd", x, y), torch.einsum("btc->bc", x)


@sweep(2, each=lambda n: ((2, 3), (n, 3), (3, 2)), inputs=tensors, trains=True, brute=0)
def product_plus(a, x, y):
    return torch.addmm(a[0, :2], x, y), F.linear(x, a), F.bilinear(x, x, ramp(2, 3, 3))


@sweep(2, each=lambda n: (n + 1, 3), trains=True, brute=0)
def reductions(x):
    return x.sum(), x.sum(0), x.mean(0), x.amax(0), x.amin(1), x.prod(0), x.norm(), x.logsumexp(0)


@sweep(2, *[(n, 3) for n in (5, 7, 4, 9, 6, 2)], trains=True)
def spread(x):
    return x.std(0), x.var(), x.var(0, unbiased=False), torch.var_mean(x, 0)


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def running_sums(x):
    return x.cumsum(0), x.cumprod(0), x.cumsum(1), x.logcumsumexp(0)


@sweep(2, *[(n, 3) for n in (5, 7, 4, 9, 6, 2)])
def ordering(x):
    return x.sort(0), x.argmax(0), x.max(0), x.topk(2, dim=0), x.argsort(0), x.kthvalue(2, 0), x.median(0)


@sweep(2, each=lambda n: (n, 3), brute=0)
def tests_of_all(x):
    return (x > 0).any(), (x > 0).all(0), x.isnan().sum(), torch.count_nonzero(x, 0)


@sweep(2, *[(b, t) for b, t in BATCHES], trains=True)
def softmaxes(x):
    return x.softmax(-1), x.log_softmax(0), F.softmin(x, 1), x.softmax(1).sum(0)


@sweep(2, *[(b, t, 4) for b, t in BATCHES], trains=True)
def layer_norm():
    return filled(nn.LayerNorm(4))


@sweep(2, *[(b, t, 4) for b, t in BATCHES], trains=True)
def root_mean_square(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), F.normalize(x, dim=-1), F.rms_norm(x, (4,))


@sweep(2, *MAKE_IMAGE, trains=True)
def batch_norm_in_training():
    return filled(nn.BatchNorm2d(3)).train()


@sweep(2, *MAKE_IMAGE, trains=True)
def batch_norm_in_evaluation():
    return filled(nn.BatchNorm2d(3)).eval()


@sweep(2, *[(b, 4, h, w) for b, h, w in IMAGES], trains=True)
def group_and_instance_norm(x):
    return F.group_norm(x, 2), F.instance_norm(x)


@sweep(2, *[(b, t) for b, t in BATCHES], inputs=lambda *s: [ramp(*s), torch.arange(s[0]) % s[1]], trains=True)
def losses(x, target):
    return F.cross_entropy(x, target), F.mse_loss(x, x * 2), F.nll_loss(x.log_softmax(1), target, reduction="none")


@sweep(2, each=lambda n: (2, n), inputs=tokens, trains=True, brute=0)
def embedding():
    return filled(nn.Embedding(10, 4))


@sweep(2, *BATCHES, inputs=tokens, trains=True)
def embeddings_of_tokens_and_positions():
    words, places = filled(nn.Embedding(10, 4)), filled(nn.Embedding(20, 4))

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = words, places

        def forward(self, ids):
            return self.words(ids) + self.places(torch.arange(ids.size(1)))

    return Both()


@sweep(2, *[(n,) for n in (5, 7, 4, 9, 6, 2)], inputs=lambda n: [ramp(10, 3), torch.arange(n) * 3 % 10], trains=True)
def indexed(x, i):
    return x[i], x.index_select(0, i), x[i, i % 3], x[:, i % 3], x.take(i)


@sweep(2, *[(n,) for n in (5, 7, 4, 9, 6, 2)], inputs=lambda n: [ramp(n, 4), torch.arange(2 * n).view(n, 2) % 4])
def gathered(x, i):
    return x.gather(1, i), torch.zeros_like(x).scatter(1, i, 1.0), x.scatter_add(1, i, torch.ones(i.shape))


@sweep(2, *[(n,) for n in (5, 7, 4, 9, 6, 2)], inputs=lambda n: [ramp(n, 3), torch.arange(n) % 4], trains=True)
def summed_by_index(x, i):
    return torch.zeros(4, 3).index_add(0, i, x), x.new_zeros(4, 3).index_copy(0, i[:1], x[:1])


@sweep(2, each=lambda n: (n, 4), brute=0)
def rows_put_by_index(x):
    y = torch.zeros_like(x)
    y[torch.arange(x.size(0)), torch.arange(x.size(0)) % 4] = 1
    return y, F.one_hot(torch.arange(x.size(0)) % 4, 4)


@sweep(2, *[(2, n) for n in (5, 7, 4, 9, 6)], inputs=lambda b, n: [ramp(b, n), torch.tensor([2, 3])], trains=True)
def mask_of_lengths(x, lengths):
    mask = torch.arange(x.size(1))[None, :] < lengths[:, None]
    return x.masked_fill(~mask, 0), (x * mask).sum(1) / lengths, torch.where(mask, x, -1.0)


@sweep(6, *[(n, 3) for n in (5, 7, 4, 9)], why="three parts: how many are chosen is known when it runs")
def chosen_by_a_mask(x):
    return x[x > 0] * 2, x.masked_select(x > 1).sum()


@sweep(2, *MAKE_IMAGE, trains=True)
def convolution():
    return filled(nn.Conv2d(3, 4, 3, padding=1))


@sweep(2, *MAKE_IMAGE, trains=True)
def convolution_with_stride():
    return filled(nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Conv2d(4, 2, 2)))


@sweep(2, *[(b, 3, t) for b, t in BATCHES], trains=True)
def convolution_of_one_dimension():
    return filled(nn.Sequential(nn.Conv1d(3, 4, 3, padding=2, dilation=2), nn.Conv1d(4, 4, 1, groups=2)))


@sweep(2, *MAKE_IMAGE, trains=True)
def convolution_transposed():
    return filled(nn.ConvTranspose2d(3, 2, 2, stride=2))


@sweep(2, *MAKE_IMAGE, inputs=lambda *s: [ramp(*s).to(memory_format=torch.channels_last)], trains=True)
def convolution_of_channels_last():
    return filled(nn.Conv2d(3, 4, 3, padding="same"))


@sweep(2, *[(n, 3, 6, 6) for n in (3, 5, 4, 7, 2)], trains=True)
def convolution_of_batches():
    return filled(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    ).eval()


@sweep(2, *MAKE_IMAGE, trains=True)
def pools(x):
    return F.max_pool2d(x, 2), F.avg_pool2d(x, 3, stride=2, padding=1), F.max_pool2d(x, 3, 2, ceil_mode=True)


@sweep(2, *MAKE_IMAGE, trains=True)
def adaptive_pools(x):
    return F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (2, 3)), F.adaptive_max_pool2d(x, 2)


@sweep(2, *MAKE_IMAGE, trains=True)
def scaled_up(x):
    return F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


@sweep(2, *MAKE_IMAGE, trains=True)
def scaled_to_sizes(x):
    h, w = x.shape[-2:]
    return F.interpolate(x, size=(h // 2, w // 2)), F.interpolate(x, size=(h + 1, w * 2), mode="bilinear")


@sweep(2, *MAKE_IMAGE, trains=True)
def scaled_to_half(x):
    return F.interpolate(x, scale_factor=0.5, mode="nearest"), F.avg_pool2d(x, 2)


@sweep(2, *[(b, 4, h, w) for b, h, w in IMAGES], trains=True)
def pixels_shuffled(x):
    return F.pixel_shuffle(x, 2), F.fold(F.unfold(x, 3, padding=1), x.shape[-2:], 3, padding=1)


@sweep(2, *[(n, 3, 8, 8) for n in (3, 5, 4, 7, 2)], trains=True)
def small_image_network():
    class Block(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.first, self.second = nn.Conv2d(channels, channels, 3, padding=1), nn.Conv2d(channels, channels, 1)
            self.norm = nn.GroupNorm(2, channels)

        def forward(self, x):
            return F.relu(x + self.second(self.norm(self.first(x)).relu()))

    return filled(nn.Sequential(nn.Conv2d(3, 4, 3), Block(4), nn.MaxPool2d(2), Block(4), nn.AdaptiveAvgPool2d(1)))


@sweep(2, *[(b, 2, t, 4) for b, t in BATCHES], trains=True)
def attention(x):
    return F.scaled_dot_product_attention(x, x * 2, x + 1)


@sweep(2, *[(b, 2, t, 4) for b, t in BATCHES], trains=True)
def causal_attention(x):
    return F.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True)


@sweep(2, *[(b, 2, t, 4) for b, t in BATCHES], trains=True)
def attention_with_a_mask_made_of_ones(x):
    t = x.size(-2)
    mask = torch.ones(t, t, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


@sweep(2, *[(b, 2, t, 4) for b, t in BATCHES], trains=True)
def attention_with_a_mask_of_positions(x):
    places = torch.arange(x.size(2))
    mask = places[:, None] >= places[None, :]
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask[None, None])


@sweep(2, *[(b, 2, t, 4) for b, t in BATCHES], trains=True)
def attention_by_hand(x):
    scores = x @ x.transpose(-1, -2) / math.sqrt(x.size(-1))
    mask = torch.full((x.size(2), x.size(2)), float("-inf")).triu(1)
    return (scores + mask).softmax(-1) @ x


@sweep(
    2,
    *[((b, 2, t, 4), (b, 2, s, 4)) for b, t, s in ((2, 3, 5), (3, 4, 4), (4, 7, 2), (2, 5, 9))],
    inputs=tensors,
    trains=True,
)
def attention_to_another_sequence(q, k):
    return F.scaled_dot_product_attention(q, k, k)


@sweep(2, *[(b, 2, t, 4) for b, t in BATCHES])
def attention_of_few_heads(x):
    return F.scaled_dot_product_attention(torch.cat([x, x], 1), x, x, enable_gqa=True)


@sweep(2, *[(b, t, 4) for b, t in BATCHES], trains=True)
def attention_module():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 4)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (p.view(b, t, 2, c // 2).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(b, t, c))

    return filled(Attention())


@sweep(2, *[(b, t, 4) for b, t in BATCHES], trains=True)
def rotary_positions(x):
    angles = torch.arange(x.size(1))[:, None] * torch.tensor([1.0, 0.1])
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)


@sweep(2, *[(b, t, 4) for b, t in BATCHES], trains=True)
def relative_positions(x):
    t = x.size(1)
    distance = torch.arange(t)[None, :] - torch.arange(t)[:, None]
    return (x @ x.mT) + ramp(21)[distance.clamp(-10, 10) + 10]


@sweep(
    3,
    *[((2, 2, t, 4), (2, 2, 1, 4)) for t in (3, 4, 5, 6, 7, 8)],
    inputs=tensors,
    why="the cache and what is added to it",
)
def cache_that_grows(cache, new):
    keys = torch.cat([cache, new], dim=2)
    return F.scaled_dot_product_attention(new, keys, keys), keys
