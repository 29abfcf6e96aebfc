"""torch.autograd.Function without grad mode, and with numbers that change."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

import pellucid
from support import CountingOf


class Dirty(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


class Itself(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 11


class Viewed(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.view(-1, 3) * 5


class OneOfTwo(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x

    @staticmethod
    def backward(ctx, grad, other):
        return grad * 2 + other


class Fresh(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def seen(result, others, x):
    results = result if isinstance(result, tuple) else (result,)
    facts = [(z.requires_grad, z.is_leaf, z.detach().clone()) for z in results]
    loss = sum(z.sum() for z in (*results, *others) if z.requires_grad)
    loss.backward()
    return facts, x.grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("keeps", [False, True], ids=["alone", "with its input"])
@pytest.mark.parametrize("kind, graphs", [(Dirty, 2), (Itself, 2), (Viewed, 2), (OneOfTwo, 2), (Fresh, 1)])
def test_without_grad_mode_what_a_function_gives_of_its_input_is_autograds(kind, graphs, keeps, backend):
    def f(x):
        y = x * 2
        with torch.no_grad():
            z = kind.apply(y)
        return z, (y,) if keeps else (x * 4,)

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for n in (2, 2, 3, 4):
        x, other = torch.ones(n, 3, requires_grad=True), torch.ones(n, 3, requires_grad=True)
        (facts, grad), (want, want_grad) = seen(*compiled(x), x), seen(*f(other), other)
        assert [fact[:2] for fact in facts] == [fact[:2] for fact in want]
        assert all(torch.equal(one[2], two[2]) for one, two in zip(facts, want, strict=True))
        assert torch.equal(grad, want_grad)
    assert graphs <= len(counting.graphs) <= 3 * graphs


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.s, None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("step", [1, 1.5, -0.25])
def test_numbers_that_a_function_is_given_stay_open(step, needs_grad, backend):
    def f(x, s):
        return Scaled.apply(x, s).sin()

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for i in range(8):
        x, other = (torch.ones(4 + i // 4, 3, requires_grad=needs_grad) for _ in range(2))
        got, want = compiled(x, (i + 2) * step), f(other, (i + 2) * step)
        assert torch.equal(got, want)
        if needs_grad:
            got.sum().backward(), want.sum().backward()
            torch.testing.assert_close(x.grad, other.grad)
    # A float of a node that calls the class is a constant: sizes may be computed of it there.
    assert len(counting.graphs) <= (9 if isinstance(step, float) and needs_grad else 4)


class Branching(Function):
    @staticmethod
    def forward(ctx, x, s, sizes):
        ctx.s, ctx.sizes = s, sizes
        return x.expand(sizes).clone() if s > 3 else x.expand(sizes) * s

    @staticmethod
    def backward(ctx, grad):
        return grad.sum(0) * (1 if ctx.s > 3 else ctx.s), None, None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_a_function_decides_by_its_numbers_is_guarded(backend):
    def f(x, s, n):
        return Branching.apply(x, s, (n, 3)).sin()

    compiled = pellucid.compile(f, backend=backend)
    for s in (2, 3, 5, 6, 1, 7):
        for n in (2, 4, 5):
            x, other = (torch.ones(3, requires_grad=True) for _ in range(2))
            got, want = compiled(x, s, n), f(other, s, n)
            assert torch.equal(got, want)
            got.sum().backward(), want.sum().backward()
            torch.testing.assert_close(x.grad, other.grad)


FACTOR = 2


class Sized(Function):
    @staticmethod
    def forward(ctx, x):
        return x * x.shape[0] + torch.zeros(x.shape[0], 1)

    @staticmethod
    def backward(ctx, grad):
        return grad * grad.shape[0]


class OfGlobal(Function):
    @staticmethod
    def forward(ctx, x):
        return x * FACTOR

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_function_may_read_sizes_of_what_it_is_given(backend):
    def f(x):
        return Sized.apply((x * 2)[1:]).sin()

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for n in (4, 5, 7, 3, 9):
        x, other = (torch.ones(n, 3, requires_grad=True) for _ in range(2))
        got, want = compiled(x), f(other)
        assert torch.equal(got, want)
        got.sum().backward(), want.sum().backward()
        torch.testing.assert_close(x.grad, other.grad)
    assert len(counting.graphs) == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_global_number_that_a_function_reads_may_change(backend, monkeypatch):
    def f(x):
        return OfGlobal.apply(x).sin()

    compiled = pellucid.compile(f, backend=backend)
    for factor in (2, 3, 4, 5):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        x = torch.ones(3, requires_grad=True)
        assert torch.equal(compiled(x), (torch.ones(3) * factor).sin())


class OfBoth(Function):
    @staticmethod
    def forward(ctx, x, step):
        return x * step * FACTOR

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class InBackward(Function):
    @staticmethod
    def forward(ctx, x, step):
        return x * step

    @staticmethod
    def backward(ctx, grad):
        return grad * FACTOR, None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", [OfBoth, InBackward])
@pytest.mark.parametrize("given", [lambda n: n, lambda n: n * 2, lambda n: (n, 2)[0]])
def test_a_global_number_may_be_an_argument_as_well(given, kind, backend, monkeypatch):
    def f(x):
        return kind.apply(x, given(FACTOR)).sin()

    compiled = pellucid.compile(f, backend=backend)
    for factor in (2, 3, 4, 5, 6):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        x, other = (torch.ones(3, requires_grad=True) for _ in range(2))
        got, want = compiled(x), f(other)
        assert torch.equal(got, want)
        got.sum().backward(), want.sum().backward()
        torch.testing.assert_close(x.grad, other.grad)
