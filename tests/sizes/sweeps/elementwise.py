"""Elementwise operators with broadcasting, in-place operators, factories from sizes."""

from __future__ import annotations

import torch

from support.calls import ramp
from sweeps.table import sweep, tensors


@sweep(2, each=lambda n: (n,), trains=True, brute=0)
def chain_of_pointwise(x):
    return (x.sin() * 2 + x.exp().clamp(max=3)).relu(), x.abs().sqrt()


@sweep(2, each=lambda n: ((n, 3), (n, 3)), inputs=tensors, trains=True, brute=0)
def sum_of_equal_sizes(x, y):
    return x + y, x * y - x / (y.abs() + 1)


@sweep(2, each=lambda n: ((n, 3), (3,)), inputs=tensors, trains=True, brute=0)
def broadcast_of_a_row(x, row):
    return x + row, x > row


@sweep(2, each=lambda n: ((n, 1), (1, 4)), inputs=tensors, trains=True, brute=0)
def broadcast_of_column_and_row(x, y):
    return x * y, x - y


@sweep(2, *[((n, 1), (1, m)) for n, m in ((3, 4), (5, 2), (7, 7), (4, 9), (9, 4))], inputs=tensors, trains=True)
def outer_by_broadcasting(x, y):
    return x * y


@sweep(2, each=lambda n: ((n, 4), ()), inputs=tensors, trains=True, brute=0)
def scalar_tensor(x, s):
    return x * s, s - x, torch.where(x > s, x, s)


@sweep(
    4,
    *[((n, 3), (m, 3)) for n, m in ((4, 4), (5, 5), (1, 5), (6, 1), (7, 7), (1, 8), (9, 1))],
    inputs=tensors,
    trains=True,
)
def broadcast_when_one(x, y):
    return x + y


@sweep(
    5,
    *[((n, 3), (m, 3)) for n, m in ((4, 4), (5, 5), (5, 6), (7, 7), (8, 3), (9, 9))],
    inputs=tensors,
    why="calls that raise may capture what comes before",
)
def sizes_that_do_not_fit(x, y):
    z = x * 2
    return z + y


@sweep(4, *[(n, 3) for n in (5, 1, 7, 0, 4, 1, 2, 0, 9)], trains=True)
def none_one_and_many(x):
    return x * 2 + 1, x.sum()


@sweep(2, each=lambda n: (2, n, 3), trains=True, brute=0)
def middle_dimension(x):
    return x.tanh() * x.mean(-1, keepdim=True)


@sweep(2, *[(n, n) for n in (4, 5, 7, 3)], trains=True)
def square(x):
    return x + x.T, x.T


@sweep(2, *[(n, m) for n, m in ((4, 4), (5, 5), (6, 7), (7, 6), (3, 3), (2, 9))])
def equal_by_chance_then_not(x):
    return x * 2, x.t().contiguous()


@sweep(3, *[(n, m) for n, m in ((4, 6), (5, 6), (7, 6), (7, 8), (3, 5), (9, 2))], trains=True)
def dimensions_that_change_in_turn(x):
    return x.sigmoid() * 2, x.sum(1)


@sweep(4, *[s for s in ((2, 3, 4), (5, 3, 4), (5, 6, 4), (5, 6, 7), (2, 2, 2), (3, 8, 9), (4, 4, 4))], trains=True)
def three_dimensions_in_turn(x):
    return x.cos(), x.sum((0, 2))


@sweep(2, each=lambda n: (n, 3), brute=0)
def comparison_and_where(x):
    return torch.where(x > 0, x, -x), (x == x.flip(0)).all(), torch.maximum(x, x.flip(1))


@sweep(2, each=lambda n: (n, 4), brute=0)
def changes_of_dtype(x):
    return x.double() + 1, x.to(torch.int64) // 2, x.bool(), x.half().float()


@sweep(2, each=lambda n: (n, 4), brute=0)
def in_place(x):
    x.mul_(2).add_(1)
    return x, x.clamp_(min=0)


@sweep(2, each=lambda n: ((n, 4), (n, 4)), inputs=tensors, brute=0)
def copied_in_place(x, y):
    x.copy_(y)
    y.zero_()
    return x


@sweep(2, each=lambda n: ((n, 4), (4,)), inputs=tensors, brute=0)
def row_added_in_place(x, row):
    x += row
    x[:, 0] = 7
    return x


@sweep(3, each=lambda n: (n, 4), brute=1, why="half of 2 or 3 is 1")
def half_filled_in_place(x):
    x[: x.size(0) // 2] = 0
    return x


@sweep(2, each=lambda n: (n, 4), brute=0)
def masked_in_place(x):
    x.masked_fill_(x > 2, -1)
    x[x < 0] = 3
    return x


@sweep(2, each=lambda n: (n, 4), brute=0)
def view_changed_in_place(x):
    y = x.t()
    y.add_(1)
    x.unsqueeze(0)[..., 1].mul_(2)
    return x, y


@sweep(2, each=lambda n: (n, 4), brute=0)
def metadata_changed_in_place(x):
    y = x + 1
    y.unsqueeze_(1)
    y.transpose_(0, 2)
    return y, y.shape


@sweep(2, each=lambda n: (n, 4), brute=0)
def written_to_out(x):
    z = torch.empty(x.shape)
    torch.add(x, 1, out=z)
    return z


@sweep(2, each=lambda n: (n, 4), brute=0)
def zeros_of_a_size(x):
    return torch.zeros(x.size(0), 3), torch.ones(x.shape), torch.full((x.size(0),), 2.5)


@sweep(2, each=lambda n: (n, 4), brute=0)
def new_tensors(x):
    return x.new_zeros(x.size(0)), x.new_ones(x.shape[::-1]), x.new_full((2, x.size(0)), 3)


@sweep(2, each=lambda n: (n, 4), trains=True, brute=0)
def new_tensors_of_numbers(x):
    weights = x.new_tensor([1, 2.5, 3.0, True])
    return x * weights + x.new_tensor(3), x.new_tensor([[1], [2]], dtype=torch.int64, device="cpu"), x.new_tensor(())


@sweep(2, each=lambda n: (n, 4), trains=True, brute=0)
def like_tensors(x):
    return torch.zeros_like(x) + x, torch.ones_like(x, dtype=torch.float64), torch.full_like(x, 3)


@sweep(2, each=lambda n: (2, n), trains=True, brute=0)
def arange_of_a_size(x):
    return x * torch.arange(x.shape[1]), torch.arange(1, x.size(1) + 1)


@sweep(3, each=lambda n: (2, n), brute=1, why="half of 2 is 1")
def arange_with_step(x):
    return torch.arange(0, x.size(1), 2)


@sweep(2, each=lambda n: (n, 4), brute=0)
def eye_of_a_size(x):
    return x, torch.eye(x.size(0)), torch.eye(3, x.size(0))


@sweep(8, each=lambda n: (n, 4), why="the operator takes no number of steps but a plain one")
def linspace_of_a_size(x):
    return x * 2, torch.linspace(0, 1, x.size(0))


@sweep(2, each=lambda n: (n, 4), brute=0)
def positions(x):
    return x + torch.arange(x.size(0), dtype=x.dtype).unsqueeze(1) / x.size(0)


@sweep(2, each=lambda n: (n, 4), trains=True, brute=0)
def tensor_divided_by_its_size(x):
    return x / x.size(0) if x.size(0) else x, x * len(x), x.sum() / x.numel() if x.numel() else x.sum()


@sweep(2, each=lambda n: (n, 4), brute=0)
def tensor_of_a_size(x):
    return x + torch.tensor(x.size(0)), torch.tensor([x.size(0), 1])


@sweep(3, each=lambda n: (n, n + 1), inputs=lambda n, m: [ramp(n, m).T], trains=True, brute=1, why="1 beside 2")
def transposed_input(x):
    return x * 2, x.reshape(-1), x.contiguous()


@sweep(2, each=lambda n: (2, 3, n, 4), inputs=lambda *s: [ramp(*s).to(memory_format=torch.channels_last)], brute=0)
def channels_last(x):
    return x * 2, x.contiguous(), x.sum(1)


@sweep(
    2,
    *[(b, 3, h, w) for b, h, w in ((2, 4, 5), (3, 6, 4), (4, 5, 7))],
    inputs=lambda *s: [ramp(*s).to(memory_format=torch.channels_last)],
)
def channels_last_in_all_dimensions(x):
    return x.relu() + 1, x.is_contiguous(), x.is_contiguous(memory_format=torch.channels_last)


@sweep(2, each=lambda n: (n,), inputs=lambda n: [ramp(20, 6)[:n, 1:4]], brute=0)
def view_of_a_bigger_tensor(x):
    return x + 1, x.contiguous(), x.t()


@sweep(2, each=lambda n: (n,), inputs=lambda n: [ramp(40)[n : 3 * n : 2]], brute=0)
def view_with_step_and_offset(x):
    return x * 2, x.flip(0), x


@sweep(2, each=lambda n: (n,), inputs=lambda n: [ramp(20, 6)[2 : 2 + n]])
def view_changed_from_outside(x):
    x += 1
    return x


@sweep(2, each=lambda n: (n,), inputs=lambda n: [ramp(1, 4).expand(n, 4)], brute=0)
def expanded_input(x):
    return x + 1, x.sum(0), x.contiguous()


def overlapping(n):
    x = ramp(n, 4)
    return [x, x[:2]]


@sweep(2, each=lambda n: (n,), inputs=overlapping)
def inputs_that_share_memory(x, y):
    return x * 2, y + 1


@sweep(2, each=lambda n: (n, 4), inputs=lambda *s: [t := ramp(*s), t], brute=0)
def one_tensor_twice(x, y):
    return x + y, x is y


@sweep(2, *[((n, 3), (m, 3)) for n, m in ((4, 6), (5, 3), (7, 7), (2, 9), (6, 2))], inputs=tensors, trains=True)
def inputs_of_different_sizes(x, y):
    return x.sum(0) + y.sum(0), x * 2, y * 3


@sweep(3, *[((n, 3), (m, 3)) for n, m in ((4, 4), (5, 4), (5, 6), (7, 7), (2, 9))], inputs=tensors)
def inputs_that_change_in_turn(x, y):
    return x.mean(0) - y.mean(0)


RANKS = [(4,), (5,), (7,), (4, 5), (3, 7), (6, 2), (2, 3, 4), (3, 4, 5), (5, 2, 7), (9,), (8, 8)]


@sweep(6, *RANKS, trains=True, why="two graphs for each number of dimensions")
def changes_of_rank(x):
    return x * 2, x.flatten(), x.dim()


@sweep(2, each=lambda n: (n, 4), inputs=lambda *s: [ramp(*s).to(torch.int64)], brute=0)
def integers(x):
    return x + 1, x // 2, x % 3, x.sum(), x << 1


@sweep(2, each=lambda n: (n, 4), inputs=lambda *s: [torch.complex(ramp(*s), ramp(*s))], brute=0)
def complex_numbers(x):
    return x * 1j, x.abs(), x.real, torch.view_as_real(x)
