"""Sizes of tensors that change: batches, sequences, images, and numbers that are sizes by meaning or by chance."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from corpus.table import program, ramp


@program(2, now=2)
def batch_sizes():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    for n in (8, 5, 3, 2, 7, 8, 6, 4, 12):
        yield model, ramp(n, 3)


@program(2, now=2)
def ragged_last_batch():
    model = torch.nn.Linear(3, 2)

    def f(x):
        return model(x).mean(0), x.shape[0]

    for n in (8, 8, 8, 8, 3, 8, 8, 8, 8, 3):
        yield f, ramp(n, 3)


@program(4, now=4, why="0 and 1 have graphs of their own")
def batches_of_none_and_one():
    def f(x):
        return (x * 2).sum(0), len(x)

    for n in (4, 3, 1, 0, 5, 1, 0, 2, 6):
        yield f, ramp(n, 3)


@program(2, now=2)
def two_batch_sizes_in_turn():
    def f(x):
        return x.softmax(0) * x.size(0)

    for i in range(8):
        yield f, ramp(4 + i % 2 * 3, 2)


@program(2, now=2)
def sequence_lengths():
    table = torch.nn.Embedding(10, 4)

    def f(ids):
        return table(ids).mean(1)

    for n in (5, 7, 3, 12, 9, 2, 4, 11):
        yield f, torch.arange(2 * n).reshape(2, n) % 10


@program(2, now=2)
def batch_and_length_together():
    def f(x):
        b, t, c = x.shape
        return x.reshape(b * t, c).sum(0), x.transpose(1, 2).reshape(b, -1), b * t

    for b, t in ((2, 5), (3, 4), (4, 7), (2, 3), (5, 2), (3, 9)):
        yield f, ramp(b, t, 3)


@program(3, now=3, why="the length changes first at the fourth call")
def one_dimension_after_the_other():
    def f(x):
        return x.cumsum(1) / x.size(0)

    for b, t in ((2, 5), (3, 5), (4, 5), (4, 6), (4, 7), (3, 8), (6, 9)):
        yield f, ramp(b, t)


@program(2, now=2)
def image_sizes():
    conv = torch.nn.Conv2d(2, 3, 3, padding=1)

    def f(x):
        return F.adaptive_avg_pool2d(conv(x).relu(), 1).flatten(1)

    for h, w in ((8, 6), (7, 9), (5, 4), (12, 8), (9, 9), (4, 11)):
        yield f, ramp(1, 2, h, w)


@program(2, now=2)
def image_scaled_to_half():
    def f(x):
        h, w = x.shape[-2:]
        return F.interpolate(x, size=(h // 2, w // 2))

    for h, w in ((8, 6), (6, 10), (5, 4), (12, 9), (7, 7), (4, 11)):
        yield f, ramp(1, 1, h, w)


@program(2, now=2)
def strided_inputs():
    def f(x):
        return x * 2, x.reshape(-1)

    for n in (4, 6, 3, 5, 7, 2, 8):
        yield f, ramp(n, n + 1).T


@program(2, now=2)
def mask_of_lengths():
    def f(x, lengths):
        mask = torch.arange(x.size(1))[None, :] < lengths[:, None]
        return (x * mask).sum(1) / lengths

    for n in (6, 4, 8, 5, 7, 3, 10):
        yield f, ramp(2, n), torch.tensor([2, 3])


@program(2, now=2)
def mask_of_a_number():
    def f(x, n):
        return x * (torch.arange(8) < n)

    for n in range(9):
        yield f, ramp(8), n


@program(2, now=2)
def padding_to_a_multiple():
    def f(x):
        return F.pad(x, (0, -x.size(1) % 8)).reshape(x.size(0), -1, 8).sum(1)

    for n in (5, 11, 8, 17, 3, 16, 20):
        yield f, ramp(2, n)


@program(2, now=2)
def padding_by_a_number():
    def f(x, left, right):
        return F.pad(x, (left, right), value=0.5)

    for i in range(1, 9):
        yield f, ramp(2, 3), i, 10 - i


@program(4, now=4, why="how many pieces there are is known")
def chunks():
    def f(x, n):
        return [piece.sum() for piece in x.chunk(n)]

    for n in (2, 3, 4, 2, 3, 4, 6, 2):
        yield f, ramp(12), n


@program(4, now=4, why="how many pieces there are is known")
def pieces_of_fixed_length():
    def f(x):
        return [piece.mean(0) for piece in x.split(4)]

    for n in (6, 7, 5, 10, 9, 3, 4, 11):
        yield f, ramp(n, 2)


@program(4, now=4, why="how many rows there are is known")
def loop_over_rows():
    def f(x):
        total = 0
        for row in x:
            total = total + row * 2
        return total

    for n in (2, 3, 4, 5, 2, 3, 4, 5):
        yield f, ramp(n, 3)


@program(2, now=2)
def halves():
    def f(x):
        middle = x.size(0) // 2
        return x[:middle].sum(0), x[middle:].sum(0), x[::2].sum(0)

    for n in (6, 9, 4, 11, 8, 5, 12):
        yield f, ramp(n, 2)


@program(2, now=2)
def heads():
    def f(x, heads):
        b, t, c = x.shape
        return x.view(b, t, heads, c // heads).transpose(1, 2).softmax(-1)

    for t, heads in ((3, 2), (4, 4), (5, 6), (6, 3), (7, 2), (2, 4), (3, 6)):
        yield f, ramp(2, t, 12), heads


@program(2, now=2)
def queries_and_keys():
    def f(q, k, v):
        return (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(-1) @ v

    for n, m in ((3, 5), (4, 6), (2, 9), (5, 5), (7, 3), (6, 4)):
        yield f, ramp(n, 4), ramp(m, 4), ramp(m, 4).cos()


@program(2, now=2)
def causal_mask():
    def f(x):
        n = x.size(0)
        mask = torch.full((n, n), float("-inf")).triu(1)
        return (x @ x.T + mask).softmax(-1)

    for n in (3, 5, 4, 7, 6, 2, 8):
        yield f, ramp(n, 2)


@program(2, now=2)
def relative_positions():
    bias = torch.nn.Embedding(9, 1)

    def f(x):
        i = torch.arange(x.size(0))
        distance = (i[None, :] - i[:, None]).clamp(-4, 4) + 4
        return bias(distance).squeeze(-1) @ x

    for n in (3, 5, 4, 7, 6, 2, 9):
        yield f, ramp(n, 2)


@program(2, now=2)
def mean_by_hand():
    def f(x):
        return x.sum() / x.numel(), x.numel(), x.dim()

    for n in (3, 5, 4, 7, 6, 2, 9):
        yield f, ramp(n, 2)


@program(2, now=2)
def size_in_arithmetic():
    def f(x, n):
        return x * (x.size(0) * n), x.size(0) * n + x.size(1)

    for n in (3, 5, 4, 7, 6, 2, 9):
        yield f, ramp(n, 2 + n), n * 10


@program(2, now=2)
def size_and_number_equal_by_chance():
    def f(x, n):
        return x / n, x.size(0) - n

    for size, n in ((4, 4), (5, 7), (6, 2), (3, 3), (7, 9), (2, 5), (8, 8)):
        yield f, ramp(size, 2), n


@program(2, now=2)
def two_sizes_equal_by_chance():
    def f(x, y):
        return x[:, None] * y[None, :]

    for n, m in ((4, 4), (5, 3), (6, 6), (2, 7), (7, 2), (3, 3)):
        yield f, ramp(n), ramp(m)


@program(2, now=2)
def two_numbers_equal_by_chance():
    def f(x, n, m):
        return x * n + m, n * m

    for n, m in ((4, 4), (5, 3), (6, 6), (2, 7), (7, 2), (3, 3), (0, 9)):
        yield f, ramp(3), n, m


@program(2, now=2)
def number_equal_to_a_parameter_by_chance():
    model = torch.nn.Linear(4, 4)

    def f(x, n):
        return model(x)[:n] * n

    for size, n in ((4, 4), (5, 3), (6, 2), (7, 5), (8, 8), (9, 4)):
        yield f, ramp(size, 4), n


@program(2, now=2)
def sizes_that_must_agree():
    def f(x, y):
        return x + y

    for n, m in ((4, 4), (5, 5), (6, 6), (6, 5), (3, 3), (7, 2), (2, 2)):
        yield f, ramp(n), ramp(m)


@program(3, now=3, why="both sides of the branch")
def branch_on_a_size():
    def f(x):
        if x.size(0) > 4:
            return x[:4].sum(0)
        return x.mean(0)

    for n in (3, 4, 5, 8, 2, 7, 6, 3):
        yield f, ramp(n, 2)


@program(3, now=3, why="even and odd")
def odd_lengths_are_padded():
    def f(x):
        if x.size(0) % 2:
            x = torch.cat([x, x[-1:]])
        return x.view(-1, 2).sum(1)

    for n in (4, 5, 6, 7, 8, 9, 3, 2):
        yield f, ramp(n)


@program(3, now=3, why="one graph for each number of dimensions")
def ranks():
    def f(x):
        return x * x.dim(), x.sum(-1)

    for shape in ((3,), (2, 3), (2, 2, 3), (3,), (2, 3), (2, 2, 3), (3,)):
        yield f, ramp(*shape)


@program(4, now=4, why="how many tensors there are is known")
def lists_of_tensors():
    def f(xs):
        return torch.stack(xs).sum(0)

    for n in (2, 3, 4, 5, 2, 3, 4, 5):
        yield f, [ramp(3) * i for i in range(n)]


@program(2, now=2)
def dict_of_a_batch():
    def f(batch):
        return {name: value.float().mean(0) for name, value in batch.items()}

    for n in (4, 3, 6, 5, 2, 7, 8):
        yield f, {"ids": torch.arange(2 * n).reshape(n, 2), "mask": torch.ones(n, 2, dtype=torch.bool)}


@program(2, now=2)
def einsum():
    def f(x, y):
        return torch.einsum("bnd,bmd->bnm", x, y)

    for n, m in ((3, 5), (4, 2), (5, 4), (2, 6), (6, 3), (7, 8)):
        yield f, ramp(2, n, 3), ramp(2, m, 3)


@program(2, now=2)
def sliding_windows_by_unfold():
    def f(x):
        return x.unfold(0, 4, 2).mean(1)

    for n in (8, 9, 5, 12, 7, 6, 11):
        yield f, ramp(n)


@program(2, now=2)
def expanded_to_a_number():
    def f(x, n):
        return x.expand(n, 3) * 2, x.repeat(n, 1)

    for n in (2, 3, 5, 4, 7, 6, 9):
        yield f, ramp(3), n


@program(2, now=2)
def norms_over_changing_batches():
    norm = torch.nn.BatchNorm1d(3)

    def f(x):
        return norm(x)

    for n in (4, 5, 3, 6, 7, 8, 9):
        yield f, ramp(n, 3)


@program(2, now=2)
def unpacked_and_returned():
    def f(x):
        *batch, c = x.shape
        return x * c, batch, x.shape, tuple(x.stride())

    for n in (4, 5, 3, 6, 7, 8, 9):
        yield f, ramp(n, n + 2)


@program(2, now=2)
def new_tensors_of_these_sizes():
    def f(x):
        return x.new_zeros(x.size(0), 2), torch.ones_like(x), torch.eye(x.size(0)), torch.empty(x.shape[0], 0)

    for n in (4, 5, 3, 6, 7, 2, 9):
        yield f, ramp(n, 3)


@program(2, now=2)
def joined_with_a_fixed_part():
    start = ramp(2, 3)

    def f(x):
        return torch.cat([start, x, start])[1:-1]

    for n in (4, 5, 3, 6, 7, 2, 9):
        yield f, ramp(n, 3)
