"""Floats that change between calls, beside tensors of no dimension: in graphs for compilers, where such a float is a tensor
of double precision, results have eager's dtype and bits."""

import operator

import pytest
import torch

import pellucid
from support import CountingOf

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv]
# A method needs a tensor in front; of two functions the number may be the first.
METHODS = {
    "add": lambda scalar, number: scalar.add(number),
    "sub": lambda scalar, number: scalar.sub(number),
    "rsub": lambda scalar, number: torch.rsub(scalar, number),
    "mul": lambda scalar, number: scalar.mul(number),
    "div": lambda scalar, number: scalar.div(number),
    "torch.mul": lambda scalar, number: torch.mul(scalar, number),
    "torch.pow": lambda scalar, number: torch.pow(number * number, scalar),
    "__rpow__": lambda scalar, number: (number * number) ** scalar,
}
DTYPES = [torch.float32, torch.float64]
OTHERS = [torch.bfloat16, torch.float16, torch.int64, torch.complex64, torch.bool]
VALUES = [0.1, 1e-3, 3.0000001, -7.7, 1e30, 0.3, 1 / 3]


def outcome(f, *args):
    try:
        result = f(*args)
    except RuntimeError as error:
        return str(error)
    return result.dtype, result.shape, str(result.tolist())  # NaNs are equal as text


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", OPERATORS)
def test_two_graphs_for_all_numbers(function, dtype, backend):
    def f(x, number):
        scalar = x[0]
        return torch.stack([function(scalar, number), function(number, scalar), scalar * number / 3])

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for i, number in enumerate(VALUES):
        x = torch.tensor([0.7 + i, 2.0], dtype=dtype)
        assert outcome(compiled, x, number) == outcome(f, x, number)
    assert counting.count == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", METHODS)
def test_two_graphs_for_methods_and_functions(name, dtype, backend):
    def f(x, number):
        return METHODS[name](x[0], number) + METHODS[name](x.sum(), number)

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for i, number in enumerate(VALUES):
        x = torch.tensor([0.7 + i, 2.0], dtype=dtype)
        if backend == "inductor":
            torch.testing.assert_close(compiled(x, number), f(x, number))
        else:
            assert outcome(compiled, x, number) == outcome(f, x, number)
    assert counting.count == 2


class Ones(torch.overrides.TorchFunctionMode):
    """torch.zeros() gives ones."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return (torch.ones if func is torch.zeros else func)(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_below_a_mode_of_functions(backend):
    def f(x, number):
        with Ones():
            return x + torch.zeros(x.shape[0]).sum() * number

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for rows, number in zip((4, 4, 6, 8, 5, 7, 9), VALUES, strict=True):
        assert outcome(compiled, torch.ones(rows), number) == outcome(f, torch.ones(rows), number)
    assert counting.count <= 3


@pytest.mark.parametrize("dtype", OTHERS)
@pytest.mark.parametrize("function", OPERATORS)
def test_other_dtypes(function, dtype):
    def f(x, number):
        return function(x[0] * 1, number) + function(number, x[0])

    counting = CountingOf("aot_eager")
    compiled = pellucid.compile(f, backend=counting)
    for i, number in enumerate(VALUES):
        x = torch.tensor([1 + i, 2]).to(dtype)
        assert outcome(compiled, x, number) == outcome(f, x, number)
    assert counting.count


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend):
    def f(x, rate):
        total = x.sum()
        return rate / (total * rate - rate) + (total + rate)

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for rate in VALUES:
        gradients = []
        for run in (compiled, f):
            x = torch.arange(1.0, 4.0).requires_grad_()
            run(x, rate).backward()
            gradients.append(x.grad)
        assert torch.allclose(*gradients, rtol=1e-6)
    assert counting.count == 2


def test_what_is_written_stays_the_programs_own_tensor():
    def f(total, rate):
        total += rate
        total *= rate
        return total

    compiled = pellucid.compile(f, backend=(counting := CountingOf("aot_eager")))
    for rate in VALUES:
        ours, eagers = torch.tensor(0.5), torch.tensor(0.5)
        assert compiled(ours, rate) is ours and torch.equal(ours, f(eagers, rate))
    assert counting.count


SCALED = {
    "add": lambda a, b, rate: a.add(b, alpha=rate),
    "add_": lambda a, b, rate: a.add_(b, alpha=rate),
    "sub": lambda a, b, rate: torch.sub(a, b, alpha=rate),
    "addcdiv": lambda a, b, rate: a.addcdiv(b, b + 1, value=rate),
    "addcmul_": lambda a, b, rate: a.addcmul_(b, b + 1, value=rate),
    "foreach": lambda a, b, rate: torch._foreach_add([a, a], [b, b], alpha=rate)[1],
    "foreach_": lambda a, b, rate: (torch._foreach_add_([a], [b], alpha=rate), a)[1],
}


@pytest.mark.parametrize(
    "dtypes", [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32), (torch.bfloat16,) * 2]
)
@pytest.mark.parametrize("name", SCALED)
def test_factors_beside_short_floats(name, dtypes):
    """Torch computes them in float32 and rounds once, whichever dtype the operands have (Muon's updates)."""
    f = SCALED[name]
    counting = CountingOf("aot_eager")
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for rate in (0.1, 0.01234, 1 / 3, 7.7):
        torch.manual_seed(0)
        a, b = torch.rand(64).add(0.5).to(dtypes[0]), torch.rand(64).add(0.5).to(dtypes[1])
        got, wanted = compiled(a.clone(), b.clone(), rate), f(a.clone(), b.clone(), rate)
        assert got.dtype == wanted.dtype
        error = (got.double() - wanted.double()).abs().max().item()
        assert error <= 2 * torch.finfo(wanted.dtype).eps * wanted.double().abs().max().item()
    assert counting.count == 2
