"""Operators of torch that take numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from corpus.table import program, ramp


@program(2, now=2)
def alpha_of_add():
    def f(x, y, alpha):
        return torch.add(x, y, alpha=alpha), x.sub(y, alpha=alpha)

    for i in range(9):
        yield f, ramp(3), ramp(3).cos(), i / 3


@program(2, now=2)
def bounds_of_clamp():
    def f(x, low, high):
        return x.clamp(low, high), x.clamp(min=low), torch.clamp(x, max=high)

    for i in range(9):
        yield f, ramp(9), -1.0 + i / 9, 1.0 - i / 18


@program(2, now=2)
def exponent_of_pow():
    def f(x, e):
        return x.abs() ** e, x.pow(e), e**x

    for e in (1.5, 2.5, 0.5, 3.0, 2.0, 1.0, 0.25):
        yield f, ramp(5), e


@program(2, now=2)
def exponent_that_is_an_int():
    def f(x, e):
        return x**e

    for e in (3, 4, 5, 2, 1, 0, 6):
        yield f, ramp(5), e


@program(2, now=2)
def value_of_full():
    def f(x, value):
        return x + torch.full((3,), value), torch.full_like(x, value)

    for i in range(9):
        yield f, ramp(3), 0.5 * i


@program(2, now=2)
def size_and_value_of_full():
    def f(n, value):
        return torch.full((n, 2), value)

    for i in range(2, 10):
        yield f, i, i * 3


@program(2, now=2)
def end_of_arange():
    def f(n):
        return torch.arange(n) * 2, torch.arange(1, n + 1), torch.arange(0, 2 * n, 2)

    for n in (3, 5, 4, 8, 6, 2, 7):
        yield (f, n)


@program(2, now=2)
def shift_of_roll():
    def f(x, shift):
        return x.roll(shift, 0)

    for shift in (1, 2, 3, -1, 0, 5, 7):
        yield f, ramp(5, 2), shift


@program(2, now=2)
def start_and_length_of_narrow():
    def f(x, start, length):
        return x.narrow(0, start, length) * 2

    for start, length in ((0, 3), (1, 4), (2, 5), (3, 2), (1, 6), (4, 4), (2, 3)):
        yield f, ramp(8, 2), start, length


@program(2, now=2)
def k_of_topk():
    def f(x, k):
        return x.topk(k, dim=1)

    for k in (2, 3, 4, 5, 2, 6, 7):
        yield f, ramp(2, 8).sin(), k


@program(2, now=7)
def scale_of_interpolate():
    def f(x, scale):
        return F.interpolate(x, scale_factor=scale, mode="nearest")

    for scale in (2.0, 1.5, 3.0, 2.5, 0.5, 1.25, 4.0):
        yield f, ramp(1, 1, 4, 4), scale


@program(2, now=2)
def size_of_interpolate():
    def f(x, h, w):
        return F.interpolate(x, size=(h, w), mode="bilinear", align_corners=False)

    for h, w in ((6, 8), (5, 7), (4, 9), (8, 3), (7, 7), (2, 5)):
        yield f, ramp(1, 1, 4, 4), h, w


@program(2, now=2)
def scale_of_attention():
    def f(q, k, scale):
        return F.scaled_dot_product_attention(q, k, k, scale=scale)

    for i in range(8):
        yield f, ramp(1, 1, 3, 4), ramp(1, 1, 5, 4), 0.25 + i / 8


@program(2, now=2)
def scale_from_a_head_size():
    def f(q, k, head):
        return (q @ k.T * head**-0.5).softmax(-1)

    for head in (16, 32, 64, 24, 8, 48, 12):
        yield f, ramp(3, 4), ramp(5, 4), head


@program(2, now=8)
def slope_of_leaky_relu():
    def f(x, slope):
        return F.leaky_relu(x, slope), F.elu(x, slope), F.threshold(x, slope, 0.5)

    for i in range(1, 9):
        yield f, ramp(9), i / 16


@program(2, now=2)
def epsilon_of_a_norm():
    def f(x, eps):
        return F.layer_norm(x, (4,), eps=eps), F.normalize(x, eps=eps)

    for i in range(8):
        yield f, ramp(2, 4), 10.0 ** -(i + 1)


@program(2, now=2)
def epsilon_in_an_attribute():
    norm = torch.nn.LayerNorm(4)
    for i in range(8):
        norm.eps = 10.0 ** -(i + 1)
        yield norm, ramp(2, 4)


@program(2, now=2)
def beta_and_alpha_of_addmm():
    def f(c, a, b, beta, alpha):
        return torch.addmm(c, a, b, beta=beta, alpha=alpha)

    for i in range(8):
        yield f, ramp(2, 2), ramp(2, 3), ramp(3, 2), i / 2, 1 + i / 4


@program(2, now=2)
def weight_of_lerp():
    def f(x, y, weight):
        return x.lerp(y, weight), torch.addcmul(x, y, y, value=weight)

    for i in range(9):
        yield f, ramp(3), ramp(3).cos(), i / 10


@program(3, now=5, why="above and below the diagonal, and the first call")
def diagonal_of_tril():
    def f(x, k):
        return x.tril(k), x.triu(k), x.diagonal(k)

    for k in (0, 1, 2, -1, -2, 1, 0):
        yield f, ramp(4, 4), k


@program(2, now=2)
def classes_of_one_hot():
    def f(x, classes):
        return F.one_hot(x, classes)

    for classes in (4, 5, 6, 8, 7, 10, 9):
        yield f, torch.tensor([0, 3, 1]), classes


@program(2, now=2)
def value_of_masked_fill():
    def f(x, value):
        return x.masked_fill(x < 0, value), torch.where(x > 0, x, value), x.fill_(value)

    for i in range(8):
        yield f, ramp(5), -1.5 * i


@program(2, now=2)
def index_of_a_row():
    def f(x, i):
        return x[i] * 2, x[-i], x[i, i - 1], x.select(0, i)

    for i in (1, 2, 3, 4, 1, 3, 2):
        yield f, ramp(5, 5), i


@program(3, now=3, why="an index from the start, one from the end, and the first call")
def index_that_is_out_of_range():
    def f(x, i):
        return x[i] * 2

    for i in (1, 2, 7, 4, -3, -9, 0, 8):
        yield f, ramp(5), i


@program(2, now=2)
def row_that_is_set():
    x = torch.zeros(6, 2)

    def f(i, value):
        x[i] = value
        x[i, 0] += i
        return x * 1

    for i in (1, 2, 3, 4, 5, 0, 2):
        yield f, i, i / 2


@program(2, now=2)
def bounds_of_a_slice():
    def f(x, a, b):
        return x[a:b], x[:, a:], x[-b:], x[a:b, ..., :b]

    for a, b in ((1, 4), (2, 6), (0, 5), (3, 7), (1, 2), (2, 3)):
        yield f, ramp(8, 8), a, b


@program(2, now=2)
def step_of_a_slice():
    def f(x, step):
        return x[::step] * 2

    for step in (2, 3, 4, 5, 1, 6, 7):
        yield f, ramp(12), step


@program(2, now=7)
def steps_of_linspace():
    def f(n, end):
        return torch.linspace(0, end, n)

    for n in (3, 5, 4, 8, 6, 2, 7):
        yield f, n, n / 2


@program(3, now=4, why="the quantile is computed between two parts, the first without a number")
def quantiles():
    def f(x, q):
        y = x.sin()
        return y.quantile(q) * q

    for i in range(8):
        yield f, ramp(9), i / 8


@program(2, now=7)
def order_of_a_norm():
    def f(x, p):
        return x.norm(p), torch.linalg.vector_norm(x, p)

    for p in (1.5, 2.5, 3.0, 3.5, 4.0, 5.0, 6.5):
        yield f, ramp(9), p


@program(2, now=2)
def delta_of_a_loss():
    def f(x, y, delta):
        return F.huber_loss(x, y, delta=delta), F.smooth_l1_loss(x, y, beta=delta)

    for i in range(1, 9):
        yield f, ramp(5), ramp(5).cos(), i / 4


@program(2, now=2)
def int_tensor_and_an_int():
    def f(x, n):
        return x // n, x % n, x << n, x & n, x / n

    for n in (2, 3, 4, 5, 1, 6, 7):
        yield f, torch.arange(-4, 5), n


@program(2, now=2)
def int_tensor_and_a_float():
    def f(x, a):
        return x * a, x + a, x > a

    for i in range(8):
        yield f, torch.arange(-4, 5), i / 3


@program(2, now=2)
def half_tensor_and_a_number():
    def f(x, a):
        return x * a, x + a, x.to(torch.float32) / a

    for i in range(1, 9):
        yield f, ramp(5).to(torch.bfloat16), i / 7


@program(2, now=2)
def number_made_a_tensor():
    def f(x, n, a):
        return x * torch.tensor(n), torch.tensor([n, n + 1]), torch.tensor(a), torch.as_tensor(a, dtype=torch.float64)

    for i in range(8):
        yield f, ramp(3), i, i / 3


@program(2, now=2)
def in_place():
    def f(x, a):
        x.mul_(a).add_(a).clamp_(max=a * 2)
        return x.sum()

    for i in range(8):
        yield f, ramp(5), 0.5 + i / 3


@program(2, now=2)
def number_on_the_left():
    def f(x, n):
        return n - x, n / (x + 10), n * x, n // (x + 10), n % (x + 10)

    for n in (2, 3, 4, 5, 1, 6, 7):
        yield f, ramp(5), n


@program(2, now=2)
def tolerances():
    def f(x, y, atol):
        return torch.isclose(x, y, atol=atol)

    for i in range(8):
        yield f, ramp(5), ramp(5) + 0.1, i / 20


@program(2, now=2)
def view_with_a_number():
    def f(x, n):
        return x.view(n, -1).sum(1), x.reshape(-1, n)

    for n in (2, 3, 4, 6, 12, 8, 2):
        yield f, ramp(24), n


@program(2, now=3)
def repeats():
    def f(x, n):
        return x.repeat_interleave(n, 0), x.tile(n)

    for n in (2, 3, 4, 5, 1, 6, 7):
        yield f, ramp(3), n


@program(2, now=2)
def threshold_compared():
    def f(x, limit):
        mask = x > limit
        return mask, mask.sum(), (x >= limit).float().mean()

    for i in range(8):
        yield f, ramp(8), i / 4 - 1


@program(2, now=2)
def correction_of_a_variance():
    def f(x, correction):
        return x.var(0, correction=correction)

    for correction in (0, 1, 2, 3, 1, 0, 2):
        yield f, ramp(6, 2), correction
