"""Sizes in Python: arithmetic, branches, texts, keys, loops, torch.Size; tensors in containers; breaks."""

from __future__ import annotations

import copy
import math
import operator
from dataclasses import dataclass

import torch

from support import Plain
from support.calls import ramp
from sweeps.table import sweep, tensors


@sweep(2, each=lambda n: (n, 3), brute=0)
def shape_returned(x):
    return x * 2, x.shape, x.size(), x.size(0), len(x), x.numel(), x.dim()


@sweep(3, each=lambda n: (n, 3), trains=True, brute=1, why="half of 2 or 3 is 1")
def arithmetic(x):
    n = x.shape[0]
    return x * (n // 2), x.sum(0) + n % 3, torch.ones(n * 2 + 1), torch.zeros(n // 2), -n, n**2


@sweep(2, each=lambda n: (n, 3), brute=0)
def shape_beside_other_shapes(x):
    n, one = x.size(0), torch.Size([1])
    return x * 2, x.shape + torch.Size([]), one + x.shape, one + (n,), (n,) + one, torch.Size([]) + x.shape[:1] + one


@sweep(2, each=lambda n: (n, 3), brute=0)
def copies_of_sizes(x):
    n = x.size(0)
    return x * 2, copy.copy(n), copy.deepcopy(n), copy.deepcopy({"n": n, "more": [n + 1, (n, 2.5)]})


@sweep(2, each=lambda n: (n, 3), brute=0)
def samples_of_distributions(x):
    normal = torch.distributions.Normal(x, x.exp())
    return normal.log_prob(x + 1), torch.distributions.Independent(normal, 1).rsample((2,)).shape


@sweep(2, each=lambda n: (n, 3), brute=0)
def quotient_and_rest(x):
    n, rest = divmod(x.size(0), 4)
    return x + n - rest, n, rest, x.size(0) // -2, x.size(0) % -4


@sweep(8, each=lambda n: (n, 3), why="what has no rule for numbers asks for the value")
def number_given_to_c_code(x):
    n = x.size(0)
    return x * 2, round(n / 3), n.bit_length(), hex(n), complex(n)


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def floats_of_sizes(x):
    n = x.size(0) + 1
    return x / math.sqrt(n), x * (1 / n), x * n**-0.5, x + float(n), math.log(n), n / 2


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def products_of_sizes(x):
    return x.reshape(math.prod(x.shape)), x * math.prod(x.shape), x.shape.numel(), operator.mul(*x.shape)


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def length(x):
    return x * len(x), torch.arange(len(x)), len(x) + 1


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def sums_of_sizes(x):
    return x + sum(x.shape), [n + 1 for n in x.shape], tuple(map(float, x.shape)), abs(-x.size(0))


@sweep(4, each=lambda n: (n, 3), trains=True, brute=2, why="min and max may be taken as branches")
def least_and_most(x):
    n = min(x.size(0), 5)
    return x[:n], torch.zeros(max(x.size(0), 3)), n


@sweep(3, *[(n, 3) for n in (4, 7, 3, 9, 5, 6, 2)], trains=True, why="two branches")
def branch_on_a_size(x):
    return x * 2 if x.size(0) > 5 else x.sum(0)


@sweep(3, *[(n, 3) for n in (4, 7, 8, 9, 6, 5)], trains=True, why="two branches")
def even_or_odd(x):
    if x.shape[0] % 2 == 0:
        return x.view(2, -1, 3).sum(0)
    return x[1:] * 2


@sweep(4, *[(n, m) for n, m in ((4, 4), (5, 6), (7, 7), (9, 3), (6, 6), (3, 8))], why="smaller, equal, larger")
def sizes_compared(x):
    n, m = x.shape
    if n == m:
        return x.trace()
    return x.sum(0) if n < m else x.sum(1)


@sweep(3, *[(n, 3) for n in (4, 7, 8, 5, 8, 9)], trains=True, why="8, and the others")
def special_size(x):
    return x + 1 if x.size(0) == 8 else x - 1


@sweep(5, *[(n, 3) for n in (3, 5, 9, 15, 4, 6, 30, 2, 8, 17, 33)], why="up to 4, up to 8, up to 16, more; the first")
def rounded_up_to_a_bucket(x):
    for bucket in (4, 8, 16):
        if x.size(0) <= bucket:
            return torch.nn.functional.pad(x, (0, 0, 0, bucket - x.size(0)))
    return x


@sweep(3, *[(n, 3) for n in (4, 7, 0, 5, 0, 2)], why="none")
def truth_of_a_size(x):
    return x.sum(0) if x.size(0) else torch.zeros(3)


@sweep(4, *[(n, 3) for n in (4, 12, 7, 3, 20, 15, 9)], why="below, within, above")
def chained_comparison(x):
    n = x.size(0)
    return x * 2 if 5 < n < 14 else x * 3 if n <= 5 else x.sum()


@sweep(4, *[(n, 3) for n in (4, 7, 3, 9)], why="assertions hold or raise")
def asserted(x):
    assert x.size(0) > 3, f"only {x.size(0)}"
    return x * 2


@sweep(5, *[(n, 3) for n in (4, 7, 3, 9)], why="each raises with its own text")
def raised_with_the_size(x):
    if x.size(0) < 8:
        raise ValueError(f"{x.size(0)} rows")
    return x * 2


@sweep(8, each=lambda n: (n, 3), why="a text for each size")
def texts(x):
    return x * 2, f"{x.shape[0]} rows", str(x.shape), "%d" % len(x), repr(x.size())


@sweep(4, each=lambda n: (n, 3), why="two parts")
def printed(x):
    print("shape", x.shape, x.size(0))
    return x * 2


@sweep(8, each=lambda n: (n, 3), why="a key for each size")
def keys(x):
    return {x.size(0): x + 1, "shape": x.shape}, {4: "four"}.get(x.size(0)), {x.shape: 1}


@sweep(8, each=lambda n: (n, 3), why="an element for each size")
def element_of_a_list(x):
    return x * [0.5, 1.0, 2.0][x.size(0) % 3], list(range(20))[x.size(0)]


@sweep(8, each=lambda n: (n, 3), why="as many turns")
def loop_over_a_size(x):
    y = torch.zeros(3)
    for i in range(x.size(0)):
        y = y * 0.5 + x[i]
    return y


@sweep(8, each=lambda n: (n, 3), why="as many turns")
def loop_over_rows(x):
    total = 0
    for row in x:
        total = total + row.sum()
    return total


@sweep(8, each=lambda n: (n, 3), why="as many turns")
def halved_until_one(x):
    n = x.size(0)
    while n > 1:
        x = x[: n // 2] + 1
        n = x.size(0)
    return x


@sweep(8, each=lambda n: (n, 3), why="as many elements")
def list_as_long(x):
    return [0] * x.size(0), x * 2, "-" * len(x), list(range(len(x)))


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def size_sliced_and_joined(x):
    return torch.zeros(x.shape[:-1] + (2,)), x.view(*x.shape[:1], 1, 3), torch.Size([2, *x.shape]), x.shape[::-1]


@sweep(2, *[(b, t, 3) for b, t in ((2, 5), (3, 4), (4, 7), (2, 3))], trains=True)
def size_unpacked(x):
    *lead, c = x.shape
    b, t = lead
    return x.reshape(b * t, c), x.new_zeros(lead), torch.Size(lead), tuple(x.shape[:2])


@sweep(2, each=lambda n: ((n, 3), (n, 3)), inputs=tensors, brute=0)
def sizes_of_two_compared(x, y):
    return x + y if x.shape == y.shape else x.sum(), x.size() == y.size(), x.shape != (7,)


@sweep(8, each=lambda n: (n, 3), why="equal or not to a constant size")
def size_compared_with_a_constant(x):
    return x * 2, x.shape == (4, 3), 4 in x.shape, x.shape.count(3), x.shape.index(3)


@sweep(3, *[(n, 3) for n in (4, 7, 5, 9)], why="types of numbers")
def types_of_sizes(x):
    n = x.size(0)
    return x * 2, type(n), isinstance(n, int), isinstance(x.shape, tuple), type(x.shape)


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def keywords_and_defaults(x):
    def inner(y, n=x.size(0), *, scale=len(x)):
        return y * scale + n

    return inner(x), inner(x, scale=2), inner(x, 3)


@sweep(2, each=lambda n: (n, 3), brute=0)
def helper_in_a_closure(x):
    n = x.size(0)
    return (lambda y: y.view(n, -1) + n)(x), [n * i for i in range(3)], {"n": n}


@sweep(2, each=lambda n: (n, 3), inputs=lambda *s: [[ramp(*s), ramp(*s)]], brute=0)
def tensors_in_a_list(pair):
    return [p * 2 for p in pair], torch.cat(pair)


@sweep(2, each=lambda n: (n, 3), inputs=lambda *s: [{"ids": ramp(*s), "mask": ramp(*s) > 0}], brute=0)
def tensors_in_a_dict(batch):
    return {name: value * 2 for name, value in batch.items()}, (batch["ids"] * batch["mask"]).sum(0)


@dataclass
class Batch:
    """Two tensors."""

    values: torch.Tensor
    weights: torch.Tensor


@sweep(2, each=lambda n: (n, 3), inputs=lambda *s: [Batch(ramp(*s), ramp(s[0], 1))], brute=0)
def tensors_in_a_dataclass(batch):
    return Batch(batch.values * batch.weights, batch.weights.sum())


@sweep(2, each=lambda n: (n, 3), inputs=lambda *s: [Plain(x=ramp(*s))], brute=0)
def tensor_in_an_attribute(holder):
    holder.n = holder.x.size(0)
    holder.y = holder.x * 2
    return holder.y + holder.n


KEPT = {"x": ramp(2, 3)}


def keeping(*shape):
    KEPT["x"] = ramp(*shape)
    return [torch.ones(3)]


@sweep(2, each=lambda n: (n, 3), inputs=keeping, brute=0)
def tensor_in_a_global(row):
    return KEPT["x"] * row, KEPT["x"].size(0)


@sweep(2, each=lambda n: (n, 3), trains=True)
def tensor_in_a_module():
    class Remembers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.seen = None, 0

        def forward(self, x):
            self.last = x.detach() * 2
            self.seen = x.size(0)
            return self.last.sum(0) + x

    return Remembers()


@sweep(2, each=lambda n: (n, 3))
def tensor_kept_from_the_last_call():
    state = {"last": torch.zeros(1, 3)}

    def f(x):
        y = x.sum(0) + state["last"].sum(0)
        state["last"] = x + 1
        return y

    return f


@torch.compiler.disable
def outside(*values):
    """Runs as plain Python."""
    return values[-1] if values else None


@sweep(4, each=lambda n: (n, 3), trains=True, why="two parts")
def size_behind_a_break(x):
    y = x * 2
    outside()
    return y.view(y.size(0) * 3) + x.size(0)


@sweep(4, each=lambda n: (n, 3), trains=True, why="two parts")
def size_carried_over_a_break(x):
    n = x.size(0)
    y = x * n
    outside(y)
    return y.sum(0) / (n + 1), n


@sweep(4, each=lambda n: (n, 3), why="two parts")
def size_that_a_break_gives(x):
    y = x * 2
    n = outside(x.size(0))
    return y + n, torch.zeros(n, 2)


@sweep(6, *[(n, 3) for n in (4, 7, 3, 9, 5, 6)], why="two parts, and a branch in the second")
def branch_behind_a_break(x):
    y = x * 2
    outside(y)
    return y.sum(0) if y.size(0) > 5 else y - 1


@sweep(3, *[(n, 3) for n in (4, 7, 8, 9, 5, 6)], trains=True, why="two calls of one helper at different sizes")
def helper_at_two_sizes(x):
    def helper(y):
        return y.reshape(-1, y.size(0)).sum(0) * y.shape[0]

    return helper(x), helper(torch.cat([x, x]))


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def size_of_what_was_computed(x):
    y = torch.cat([x, x.sum(0, keepdim=True)])
    return y * y.size(0), y.shape, y[: x.size(0)]


@sweep(3, each=lambda n: (n, 3), trains=True, brute=1, why="2 less one is 1")
def one_less(x):
    return x[1:] - x[:-1], x.diff(dim=0)


@sweep(2, each=lambda n: (n, 3), inputs=lambda n, m: [ramp(n, m), n], brute=0)
def size_and_equal_number(x, n):
    return x.reshape(n, -1) * n, x.size(0) == n


@sweep(3, *[(n, m) for n, m in ((4, 2), (5, 3), (7, 2), (9, 4), (6, 5))], inputs=lambda n, m: [ramp(n, 3), m])
def size_and_another_number(x, m):
    return x * m, x.repeat(m, 1).shape, x.size(0) + m


@sweep(2, each=lambda n: (n, 3), trains=True)
def without_gradient_in_part(x):
    with torch.no_grad():
        scale = x.sum(0) / (x.size(0) + 1)
    return x * scale, x.detach() + 1


@sweep(2, each=lambda n: (n, 3), brute=0)
def checked(x):
    torch._check(x.size(0) >= 0)
    torch._check(x.size(1) == 3)
    return x + x.size(0)
