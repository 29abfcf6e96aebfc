"""Higher-order operators, with gradients where they have them."""

from __future__ import annotations

import torch
from torch import nn
from torch._higher_order_ops import associative_scan, map, scan, while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from programs import Case, program
from programs.checkpointing import leaf_calls


@program("higher-order", inductor=True)
def cond_of_data():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    return Case(f, [(torch.ones(3),), (-torch.ones(3),), (torch.full((3,), 2.0),)])


@program("higher-order")
def cond_of_a_bool():
    def f(x, flag):
        return torch.cond(flag, lambda x: x + 1, lambda x: x - 1, (x,))

    return Case(f, [(torch.ones(3), True), (torch.ones(3), False), (torch.ones(3), True)])


@program("higher-order")
def cond_with_gradients():
    w = torch.randn(4, 4, requires_grad=True)

    def f(x):
        return torch.cond(x.sum() > 0, lambda x: torch.tanh(x @ w), lambda x: x @ w * 2, (x,))

    return Case(f, [((torch.randn(3, 4) + bias).requires_grad_(),) for bias in (2.0, -2.0, 2.0)], state=w)


@program("higher-order")
def cond_nested():
    def f(x):
        def positive(x):
            return torch.cond(x.max() > 2, lambda x: x * 10, lambda x: x * 5, (x,))

        return torch.cond(x.sum() > 0, positive, lambda x: -x, (x,))

    return Case(f, [(torch.ones(3),), (torch.full((3,), 3.0),), (-torch.ones(3),)])


@program("higher-order")
def cond_in_module():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.yes, self.no = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return torch.cond(x.mean() > 0, lambda x: self.yes(x), lambda x: self.no(x), (x,)) + 1

    model = Gate()
    return Case(model, [(torch.randn(3, 4) + bias,) for bias in (1.0, -1.0, 1.0)], state=model)


@program("higher-order")
def cond_with_different_results():
    """What torch.cond refuses."""

    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x, lambda x: x[:2], (x,))

    return Case(lambda x: type(_error(f, x)).__name__, [(torch.ones(3),), (-torch.ones(3),)])


def _error(f, *arguments):
    try:
        f(*arguments)
    except Exception as error:
        return error
    return None


@program("higher-order")
def while_loop_to_a_limit():
    def f(x):
        count = torch.tensor(0)
        return while_loop(lambda i, x: x.sum() < 100, lambda i, x: (i + 1, x * 2), (count, x))

    return Case(f, [(torch.ones(3),), (torch.full((3,), 5.0),), (torch.full((3,), 90.0),)])


@program("higher-order")
def scan_of_a_recurrence():
    w = torch.randn(4, 4) / 2

    def f(start, xs):
        def combine(carry, x):
            new = torch.tanh(carry @ w + x)
            return new, new * 2

        return scan(combine, start, xs, dim=0)

    return Case(f, [(torch.randn(4), torch.randn(5, 4)) for _ in range(3)])


@program("higher-order")
def scan_with_gradients():
    w = (torch.randn(4, 4) / 2).requires_grad_()

    def f(start, xs):
        return scan(lambda carry, x: (torch.tanh(carry @ w + x), carry.sum()), start, xs, dim=0)

    return Case(f, [(torch.randn(4, requires_grad=True), torch.randn(5, 4)) for _ in range(3)], state=w)


@program("higher-order")
def map_over_rows():
    def f(xs, y):
        return map(lambda x, y: x.sin() + y, xs, y)

    return Case(f, [(torch.randn(5, 3), torch.randn(3)) for _ in range(3)])


@program("higher-order")
def associative_scan_of_sums():
    def f(xs):
        return associative_scan(lambda a, b: a + b, xs, dim=0, combine_mode="generic")

    return Case(f, [(torch.randn(6, 3),) for _ in range(3)])


def _heads(count: int = 3, length: int = 16) -> list[tuple]:
    return [tuple(torch.randn(1, 2, length, 8) for _ in range(3)) for _ in range(count)]


@program("higher-order", inductor=True)
def flex_plain():
    return Case(lambda q, k, v: flex_attention(q, k, v), _heads())


@program("higher-order")
def flex_with_score():
    slopes = torch.tensor([0.5, 0.25])

    def f(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score - slopes[h] * (i - j).abs())

    return Case(f, _heads())


@program("higher-order")
def flex_with_block_mask():
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")

    def f(q, k, v):
        return flex_attention(q, k, v, block_mask=mask)

    return Case(f, _heads())


@program("higher-order")
def flex_makes_its_mask():
    def f(q, k, v):
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
        return flex_attention(q, k, v, block_mask=mask)

    return Case(f, _heads())


@program("higher-order")
def nested_compile_region():
    @torch.compiler.nested_compile_region
    def part(x, w):
        return torch.tanh(x @ w)

    w = torch.randn(4, 4, requires_grad=True)

    def f(x):
        for _ in range(3):
            x = part(x, w)
        return x

    return Case(f, leaf_calls(3, 4), state=w)


@program("higher-order")
def nested_region_of_modules():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        @torch.compiler.nested_compile_region
        def forward(self, x):
            return torch.relu(self.inner(x)) + x

    model = nn.Sequential(Layer(), Layer(), Layer())
    return Case(model, leaf_calls(3, 4), state=model)
