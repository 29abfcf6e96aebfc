"""A branch on a number that the program has computed of single elements from outside is decided before the graph runs, by
the same operators: the region goes on behind it. Eager is the specification, at each call and for each outcome."""

from __future__ import annotations

import math

import pytest
import torch

import pellucid
from support import Counting

T = torch.tensor


def outcome(f, args):
    """What a call gives or raises, and what becomes of its arguments."""
    try:
        result = f(*args)
    except Exception as error:
        result = (type(error), str(error))
    return repr(result), repr(args), [x._version for x in args if isinstance(x, torch.Tensor)]


def check(f, calls, graphs, breaks=False, backend=None):
    """Each call is as eager's; so many graphs are made by the end, and not one more when all is called again."""
    counting = Counting()
    compiled = pellucid.compile(f, backend=backend or counting)
    for call in calls:
        assert outcome(compiled, call()) == outcome(f, call())
    if backend is None:
        assert counting.count == graphs
    assert bool(pellucid.break_reasons(compiled)) == breaks
    for call in calls:
        assert outcome(compiled, call()) == outcome(f, call())
    if backend is None:
        assert counting.count == graphs
    return compiled


def of(*values, dtype=torch.float32, more=()):
    return [lambda v=v: (torch.arange(3.0), T(v, dtype=dtype), *more) for v in values]


def input_itself(x, flag):
    return x + 1 if flag else x - 1


def a_comparison(x, step):
    return x * 2 if step > 5.0 else x / 2


def a_chain(x, step):
    bias = 1 - 0.9**step
    length = 19.0 - 2 * step * (0.9**step) / bias
    if length > 5.0:
        return x * length
    return x


def behind_a_write(x, step):
    step += 1
    return x + step if step > 3 else x - step


def between_writes(x, step):
    step.mul_(2)
    large = bool(step >= 8)
    step.sub_(1)
    odd = bool(step % 2 == 1)
    return x + large, odd, step


def by_item(x, step):
    step += 1
    n = step.item()
    return x + 1 if n != 3 else x * n


def by_arithmetic_of_items(x, step):
    half = step.item() / 2
    x.add_(1)
    return x * half if 1 <= half < 2.5 else x - half


def by_float(x, step):
    return x + 1 if float(step) > 2 else x - 1


def of_a_constant(x, step):
    one = torch.tensor(1.0)
    return x + 1 if torch.maximum(one, step) > one else x - 1


def greatest(x, step):
    return x / max(1, step - 2)


def reduced(x, step):
    return x * 2 if (step + 1).sum().max() > 6 else x / 2


def in_a_function(x, step):
    def decide(value):
        return not value > 2 and value < 10

    return x + 1 if decide(step) else x - 1


FORESEEN = [
    input_itself,
    a_comparison,
    a_chain,
    behind_a_write,
    between_writes,
    by_item,
    by_arithmetic_of_items,
    by_float,
    of_a_constant,
    greatest,
    reduced,
    in_a_function,
]


@pytest.mark.parametrize("f", FORESEEN)
def test_C02_each_outcome_has_one_graph(f):
    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 30.0]
    for _ in range(2):
        for value in values:
            args = lambda: (torch.arange(3.0), T(value))  # noqa: E731
            assert outcome(compiled, args()) == outcome(f, args())
    assert not pellucid.break_reasons(compiled)
    assert 2 <= counting.count <= 4 and counting.count == len(pellucid.cache_entries(compiled))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0])
@pytest.mark.parametrize("f", FORESEEN)
def test_values_that_are_no_numbers(f, value):
    compiled = pellucid.compile(f, backend="eager")
    for one in (1.0, value, 7.0, value):
        args = lambda: (torch.arange(3.0), T(one))  # noqa: E731
        assert outcome(compiled, args()) == outcome(f, args())


def beside_a_number(x, step, first):
    x = x * (1 - first * step.item())
    return x / max(1, step.item() - first) + (x if step.item() != 3 else 1)


def test_numbers_from_outside_beside_it():
    calls = [lambda n=n, first=first: (torch.arange(3.0), T(n), first) for n in (1.0, 3.0, 9.0) for first in (2.0, 4.5)]
    check(beside_a_number, calls, 3)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64])
def test_dtypes(dtype):
    check(input_itself, of(True, False, dtype=dtype), 2)
    check(lambda x, n: x + 1 if n.item() else x - 1, of(True, False, dtype=dtype), 2)


def test_whole_graph():
    f = pellucid.compile(a_chain, backend="eager", fullgraph=True)
    for step in range(1, 12):
        assert torch.equal(f(torch.ones(3), T(float(step))), a_chain(torch.ones(3), T(float(step))))


def test_backends_that_compile():
    f = pellucid.compile(a_chain, backend="aot_eager", fullgraph=True)
    for step in range(1, 12):
        assert torch.allclose(f(torch.ones(3), T(float(step))), a_chain(torch.ones(3), T(float(step))))
    assert len(pellucid.cache_entries(f)) == 2


def test_tensors_of_several_elements_are_a_break():
    counting = Counting()
    compiled = pellucid.compile(lambda x: x * 2 if x.sum() > 6 else x / 2, backend=counting)
    for x in (T([1.0, 2.0]), T([4.0, 4.0])):
        assert torch.equal(compiled(x), x * 2 if x.sum() > 6 else x / 2)
    assert counting.count and pellucid.break_reasons(compiled)


# ---- what is written behind the back of a chain


def test_an_input_that_shares_memory_with_one_that_is_written():
    def f(a, b):
        a.add_(5)
        return a + 1 if b > 3 else a - 1

    def apart():
        return T([1.0]), T([1.0])

    def together():
        x = T([1.0])
        return x, x.view(1)

    def together_by_numpy():
        x = T([1.0])
        return x, torch.from_numpy(x.numpy())

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    for call in (apart, together, together_by_numpy, apart, together):
        assert outcome(compiled, call()) == outcome(f, call())
    assert counting.count >= 2


def test_inputs_that_share_memory_in_the_first_call_alone():
    def f(a, b):
        c = a + 1
        return c + 1 if b > 3 else c - 1

    x = T([1.0])
    compiled = pellucid.compile(f, backend="eager")
    for a, b in ((x, x.view(1)), (T([1.0]), T([5.0])), (T([5.0]), T([1.0])), (x, x.view(1))):
        assert torch.equal(compiled(a, b), f(a, b))


def test_a_view_that_the_region_makes_and_writes_to():
    def f(x, step):
        step.view(1).add_(2)
        return x + 1 if step > 3 else x - 1

    compiled = pellucid.compile(f, backend="eager")
    for call in of(0.0, 1.5, 2.5, 4.0):
        assert outcome(compiled, call()) == outcome(f, call())


def test_a_large_tensor_that_is_written_and_read():
    def f(big, step):
        big.fill_(step.item())
        return big + 1 if big[0] > 2 else big - 1

    compiled = pellucid.compile(f, backend="eager")
    for value in (1.0, 2.0, 3.0, 1.0):
        args = lambda: (torch.zeros(100), T(value))  # noqa: E731
        assert outcome(compiled, args()) == outcome(f, args())


def test_random_numbers_are_not_drawn_ahead():
    def f(x):
        y = torch.rand(())
        return x + y if y > 0.5 else x - y

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    for seed in range(6):
        torch.manual_seed(seed)
        got = compiled(torch.ones(3)), torch.rand(())
        torch.manual_seed(seed)
        wanted = f(torch.ones(3)), torch.rand(())
        assert torch.equal(got[0], wanted[0]) and torch.equal(got[1], wanted[1])
    assert counting.count and pellucid.break_reasons(compiled)


def test_code_of_the_program_in_the_graph():
    seen = []

    @torch.library.custom_op("test_foreseen::touch", mutates_args=("x",))
    def touch(x: torch.Tensor) -> None:
        seen.append(x.item())
        x.add_(1)

    def f(x, step):
        touch(step)
        return x + 1 if step > 2 else x - 1

    compiled = pellucid.compile(f, backend="eager")
    for call in of(0.0, 1.0, 2.0, 3.0):
        assert outcome(compiled, call()) == outcome(f, call())
    assert seen == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]


def test_a_loop_that_ends_by_what_it_computes_is_not_laid_out_for_each_count():
    def f(x, n):
        while n > 0:
            n = n - 1
            x = x * 2
        return x

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    for value in range(12):
        assert torch.equal(compiled(torch.ones(2), T(value)), f(torch.ones(2), T(value)))
    assert counting.count <= 6


def test_the_report_names_the_branch():
    def f(x, step):
        return x + 1 if step > 5 else x - 1

    compiled = pellucid.compile(f, backend="eager")
    compiled(torch.ones(2), T(1.0))
    compiled(torch.ones(2), T(6.0))
    (text,) = pellucid.guard_failures(compiled)
    assert "FORESEEN" in text and "is False, found" in text and "test_foreseen.py" in text


def test_grad_mode_and_gradients():
    def f(w, step):
        y = (w * step).sum()
        return y * 2 if step * 2 > 3 else y

    def run(g, step):
        w = torch.ones(3, requires_grad=True)
        step = T(step, requires_grad=True)
        g(w, step).backward()
        return w.grad, step.grad

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    for step in (1.0, 2.0, 1.0, 2.0):
        for a, b in zip(run(compiled, step), run(f, step), strict=True):
            assert torch.equal(a, b)
    assert counting.count == 2 and not pellucid.break_reasons(compiled)


def test_calls_within_autocast():
    def f(x, step):
        with torch.autocast("cpu", torch.bfloat16):
            y = step.reshape(1, 1).clone() * 1.003
        return x + 1 if (step * 1.003) > 5 else x - 1, y

    compiled = pellucid.compile(f, backend="eager")
    for call in of(4.98, 4.99, 4.984, 4.985, 5.0):
        assert outcome(compiled, call()) == outcome(f, call())
