"""Dimensions that are equal, or 1, by chance when a program is captured: no size is mixed up with another one later.

Each program takes several dimensions. The first call has them all equal, all prime (so that no product is another
size), all 1, or equal to numbers that stand in the program; then all of them take other sizes, together and one by one.
"""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from sweeps.table import program_of

from support.calls import Program, ramp
from support.sizes import assert_as_eager_with_few_graphs

MATRIX: dict[str, tuple] = {}
"""Name -> (number of dimensions, what makes arguments of them, graphs for branches, function)."""

STARTS = {
    "equal": (4, 4, 4, 4),
    "equal twos": (2, 2, 2, 2),
    "pairs": (3, 3, 6, 6),
    "primes": (5, 7, 11, 13),
    "products": (2, 3, 6, 12),
    "as in the program": (8, 3, 8, 3),
    "ones": (1, 1, 1, 1),
    "one among others": (1, 5, 1, 7),
}
# Every dimension is another one in the first row than in every start.
TOGETHER = [
    (10, 9, 7, 5),
    (3, 4, 5, 6),
    (7, 5, 3, 2),
    (6, 6, 6, 6),
    (4, 2, 8, 4),
    (2, 9, 2, 9),
    (9, 2, 4, 3),
    (5, 5, 7, 7),
]
BOTH_KINDS = [1, 3]


def over(count, inputs, branches=0):
    """Adds a function of so many dimensions to the matrix, and how many graphs more its branches may make."""

    def add(function):
        MATRIX[function.__name__] = (count, inputs, branches, function)
        return function

    return add


@over(2, lambda a, b: [ramp(a, b)], branches=2)  # a view where a == b, and the operator asks for a < b too
def reshaped(x):
    a, b = x.shape
    return x.reshape(b, a), x.view(-1), x.t().reshape(a, b), torch.zeros(b, a)


@over(3, lambda a, b, c: [ramp(a, b, c)])
def merged(x):
    a, b, c = x.shape
    return x.view(a * b, c), x.view(a, b * c), x.permute(1, 2, 0).reshape(b, -1), x.transpose(0, 1) * 2


@over(3, lambda a, b, c: [ramp(a, b), ramp(b, c)])
def product(x, y):
    return x @ y, (x @ y).sum(0)


@over(4, lambda a, b, c, d: [ramp(a, b, c), ramp(a, c, d)])
def batched_product(x, y):
    return torch.bmm(x, y), torch.einsum("abc,acd->bd", x, y)


@over(2, lambda a, b: [ramp(a, 3), ramp(b, 3)])
def joined(x, y):
    return torch.cat([x, y]), x.sum(0) + y.sum(0), x.size(0) + y.size(0)


@over(2, lambda a, b: [ramp(a, 1), ramp(1, b)])
def outer(x, y):
    return x * y, (x + y).sum(0), x.expand(-1, y.size(1))


@over(3, lambda a, b, c: [ramp(a, b, c), ramp(a, 1, c)])
def broadcast_over_the_middle(x, y):
    return x + y, torch.where(x > y, x, y)


@over(2, lambda a, b: [ramp(a, b, 8), ramp(8, 3)])
def projection_of_a_fixed_size(x, weight):
    return x @ weight, x.view(-1, 8) @ weight, x.reshape(-1, 2, 4).sum(1)


@over(3, lambda a, b, c: [ramp(a, 2, b, 4), ramp(a, 2, c, 4)])
def attention(q, k):
    return F.scaled_dot_product_attention(q, k, k), (q @ k.mT).softmax(-1)


@over(2, lambda a, b: [ramp(a, b)])
def masks(x):
    a, b = x.shape
    places = torch.arange(b)
    mask = places[:, None] <= places[None, :]
    return x @ (mask * 1.0), torch.ones(a, b).tril(), x.masked_fill(places > a, 0)


@over(3, lambda a, b, c: [ramp(a, 3, b + 2, c + 2), ramp(8, 3, 3, 3)])
def convolution(x, weight):
    return F.conv2d(x, weight), F.conv2d(x, weight, padding=1).mean((2, 3)), F.max_pool2d(x, 2)


@over(2, lambda a, b: [torch.arange(a * b).view(a, b) % 8, ramp(8, 3)])
def embedding(ids, table):
    return F.embedding(ids, table), F.one_hot(ids, 8).sum(1), table[ids[:, 0]]


@over(3, lambda a, b, c: [ramp(a, b, c)])
def reductions(x):
    return x.sum(0), x.mean((0, 2)), x.softmax(1), x.amax(-1, keepdim=True) + x, F.layer_norm(x, x.shape[-1:])


@over(2, lambda a, b: [ramp(a, b).t(), ramp(b, a)])
def strides_of_two_kinds(x, y):
    return x + y, y + x, x.contiguous(), torch.cat([x, y])


@over(2, lambda a, b: [ramp(20, 20)[:a, :b], ramp(a, b)])
def view_beside_a_dense_tensor(x, y):
    return x + y, x.reshape(-1), (x * 2).flatten()


@over(2, lambda a, b: [[ramp(a, 3), ramp(b, 3)], {"n": a, "m": b}])
def numbers_beside_sizes(pair, numbers):
    x, y = pair
    return x * numbers["n"] + x.size(0), y * numbers["m"], x.reshape(numbers["n"], -1)


def calls(count: int, start: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The first call, all dimensions changed, again, and each combination of 1 and 3."""
    mixed = list(itertools.product(BOTH_KINDS, repeat=count))
    return [start[:count], *[sizes[:count] for sizes in TOGETHER], *mixed, start[:count]]


def most_graphs(sizes: list[tuple[int, ...]]) -> int:
    """One for each set of dimensions that are 1, and the first call's, which serves no other sizes.

    The sizes of TOGETHER change all dimensions at once, so that all are open when the first set of ones comes.
    """
    return (set(sizes[0]) != {1}) + len({tuple(n == 1 for n in call) for call in sizes})


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", MATRIX)
def test_coincidence(name, start):
    count, inputs, branches, function = MATRIX[name]
    sizes = calls(count, STARTS[start])
    most = most_graphs(sizes) + branches
    assert_as_eager_with_few_graphs(Program(program_of(function, sizes, inputs, trains=False), most, most, ""))


SQUARES = [(n,) * 4 for n in (4, 5, 7, 3, 9)]


@pytest.mark.parametrize("name", MATRIX)
def test_always_equal_and_then_not(name):
    """Five calls with equal dimensions teach nothing that would make other sizes wrong, or need many graphs."""
    count, inputs, branches, function = MATRIX[name]
    sizes = [sizes[:count] for sizes in [*SQUARES, *TOGETHER]]
    program = Program(program_of(function, sizes, inputs, trains=False), 2 + branches, 2 + branches, "")
    assert_as_eager_with_few_graphs(program)
