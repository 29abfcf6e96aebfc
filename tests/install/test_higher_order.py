"""torch.cond and its like while pellucid is installed: the values and derivatives of plain Python."""

import contextlib

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as hop_map
from torch._higher_order_ops.scan import scan

import pellucid

W = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def choose(x):
    return torch.cond(x.sum() > 0, lambda x: x * W, lambda x: x + W, (x,))


def choose_plainly(x):
    return x * W if x.sum() > 0 else x + W


def loop(x):
    return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x.detach()))[1] * W


def loop_plainly(x):
    return x.detach() * 8 * W


def running(x):
    return scan(lambda carry, row: (carry + row * W, carry * row), torch.zeros(3), torch.stack([x, x + 1]))[1]


def running_plainly(x):
    carry, rows = torch.zeros(3), []
    for row in (x, x + 1):
        rows.append(carry * row)
        carry = carry + row * W
    return torch.stack(rows)


def each(x):
    return hop_map(lambda row: row * W, torch.stack([x, x + 1]))


def each_plainly(x):
    return torch.stack([x * W, (x + 1) * W])


def sums(x):
    return associative_scan(lambda a, b: a + b, torch.stack([x, x + 1]), 0, combine_mode="generic") * W


def sums_plainly(x):
    return torch.stack([x, x + 1]).cumsum(0) * W


def nested(x):
    return torch.cond(x.sum() > 0, lambda x: torch.cond(x.sum() > 9, lambda x: x, choose, (x,)), lambda x: x, (x,))


def nested_plainly(x):
    return choose_plainly(x)


PAIRS = [
    (choose, choose_plainly),
    (loop, loop_plainly),
    (running, running_plainly),
    (each, each_plainly),
    (sums, sums_plainly),
    (nested, nested_plainly),
]


def values(f, sign):
    x = (torch.tensor([0.5, 1.0, 1.5]) * sign).requires_grad_()
    W.grad = None
    y = f(x)
    y.sum().backward()
    return [y.detach(), x.grad, W.grad]


@pytest.mark.parametrize("f, plain", PAIRS, ids=[f.__name__ for f, _ in PAIRS])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_values_and_derivatives_are_those_of_plain_python(f, plain, compiled):
    for sign in (1, -1) if f is not nested else (1,):
        want = values(plain, sign)
        with pellucid.installed():
            got = values(torch.compile(f, backend="eager") if compiled else f, sign)
        for a, b in zip(got, want):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("f, plain", PAIRS[:1], ids=["cond"])
def test_a_compiled_function_has_them_in_its_graph_without_install_too(f, plain, counting):
    compiled = pellucid.compile(lambda x: f(x.sin()) + 1, backend=counting)
    for got, want in zip(values(compiled, 1), values(lambda x: plain(x.sin()) + 1, 1)):
        torch.testing.assert_close(got, want)
    assert counting.count == 1
    assert not pellucid.break_reasons(compiled)


@pytest.mark.parametrize("installed", [False, True])
def test_nested_compile_region_is_what_it_calls(installed, counting):
    region = torch.compiler.nested_compile_region(lambda x: x * W)

    def f(x):
        return region(x.sin()) + 1

    compiled = pellucid.compile(f, backend=counting)
    want = values(f, 1)
    with pellucid.installed() if installed else contextlib.nullcontext():
        for got, eager in zip(values(compiled, 1), want):
            torch.testing.assert_close(got, eager)


def test_fake_tensors_have_rules_of_their_own():
    with pellucid.installed(), torch._subclasses.FakeTensorMode():
        x = torch.ones(3)
        assert torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)).shape == (3,)
