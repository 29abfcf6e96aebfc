"""Sizes of tensors around tensors stay open: the first call is compiled for its sizes, the second for all."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import pellucid
from support import CountingOf

BACKENDS = ["eager", "aot_eager"]
ROWS = (4, 5, 6, 7, 9, 13)


def two(*shape):
    return TwoTensor(torch.randn(*shape), torch.randn(*shape))


class Padded(torch.Tensor):
    """What is inside has rows up to a multiple of four."""

    @staticmethod
    def __new__(cls, inner, rows):
        return torch.Tensor._make_wrapper_subclass(cls, (rows, *inner.shape[1:]), dtype=inner.dtype)

    def __init__(self, inner, rows):
        self.inner = inner

    def __repr__(self):
        return "Padded()"

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, outer_size, outer_stride):
        return Padded(parts["inner"], outer_size[0])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        rows = [arg.shape[0] for arg in args if isinstance(arg, Padded)][0]
        inner = func(*[arg.inner if isinstance(arg, Padded) else arg for arg in args], **(kwargs or {}))
        return Padded(inner, rows)


class Packed(torch.Tensor):
    """A weight of four bits: what is inside has half as many columns."""

    @staticmethod
    def __new__(cls, pairs, scale):
        return torch.Tensor._make_wrapper_subclass(cls, (pairs.shape[0], pairs.shape[1] * 2), dtype=scale.dtype)

    def __init__(self, pairs, scale):
        self.pairs = pairs
        self.scale = scale

    def __repr__(self):
        return "Packed()"

    def __tensor_flatten__(self):
        return ["pairs", "scale"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, outer_size, outer_stride):
        return Packed(parts["pairs"], parts["scale"])

    def unpacked(self):
        low, high = (self.pairs & 15).float() - 8, (self.pairs >> 4).float() - 8
        return torch.stack([low, high], -1).reshape(self.pairs.shape[0], -1) * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*[arg.unpacked() if isinstance(arg, Packed) else arg for arg in args], **(kwargs or {}))


class Known(torch.Tensor):
    """Its context says its sizes as numbers."""

    @staticmethod
    def __new__(cls, values, sizes):
        return torch.Tensor._make_wrapper_subclass(cls, sizes, dtype=values.dtype)

    def __init__(self, values, sizes):
        self.values_held = values
        self.sizes = tuple(sizes)

    def __repr__(self):
        return "Known()"

    def __tensor_flatten__(self):
        return ["values_held"], self.sizes

    @staticmethod
    def __tensor_unflatten__(parts, context, outer_size, outer_stride):
        return Known(parts["values_held"], context)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*[arg.values_held if isinstance(arg, Known) else arg for arg in args], **(kwargs or {}))


def padded(rows):
    return Padded(torch.randn((rows + 3) // 4 * 4, 3), rows)


def packed(rows, columns):
    return Packed(torch.randint(0, 255, (rows, columns // 2), dtype=torch.uint8), torch.randn(rows, 1))


def facts(value):
    """Of a tensor its class, layout, values and gradient, at every depth."""
    if not isinstance(value, torch.Tensor):
        return [facts(item) for item in value] if isinstance(value, (list, tuple)) else value
    own = [type(value), tuple(value.shape), value.stride(), value.dtype, value.requires_grad]
    if type(value) is torch.Tensor:
        return [*own, value.tolist()]
    return [*own, *(facts(getattr(value, name)) for name in value.__tensor_flatten__()[0])]


def run(program, make, backend, sizes=ROWS):
    """How many graphs there are once it has been called with each of these sizes."""
    counting = CountingOf(backend)
    compiled = pellucid.compile(program, backend=counting, fullgraph=True)
    for size in sizes:
        torch.manual_seed(size)
        args = make(size)
        assert facts(compiled(*args)) == facts(program(*args)), size
    return counting.count


WEIGHT = two(3, 4)

PROGRAMS = {
    "pointwise": (lambda x: (x * 2).sin(), lambda n: (two(n, 3),)),
    "a product": (lambda x: (x @ x.t()).relu().sum(-1), lambda n: (two(n, 3),)),
    "reads sizes": (lambda x: x * x.shape[0] + x.size(1), lambda n: (two(n, 3),)),
    "gives sizes": (lambda x: (x * 2, x.shape, x.numel(), x.stride(), len(x)), lambda n: (two(n, 3),)),
    "two of them": (lambda x, y: x + y, lambda n: (two(n, 3), two(n, 3))),
    "one twice": (lambda x, y: x + y, lambda n: (two(n, 3),) * 2),
    "other sizes": (lambda x, y: torch.cat([x, y]), lambda n: (two(n, 3), two(n + 1, 3))),
    "beside a plain one": (lambda x, y: x + y, lambda n: (two(n, 3), torch.randn(n, 3))),
    "a plain one": (lambda x: x @ WEIGHT, lambda n: (torch.randn(n, 3),)),
    "transposed": (lambda x: x * 2, lambda n: (TwoTensor(torch.randn(3, n).t(), torch.randn(3, n).t()),)),
    "views": (lambda x: x[1:].t().contiguous().view(-1), lambda n: (two(n, 3),)),
    "reshaped": (lambda x: x.reshape(x.shape[0] * 3 // 3, -1).sum(), lambda n: (two(n, 4),)),
    "nested": (lambda x: x * 2, lambda n: (TwoTensor(two(n, 3), two(n, 3)),)),
    "made inside": (lambda x: TwoTensor(x, x * 2) + 1, lambda n: (torch.randn(n, 3),)),
    "made of sizes": (lambda x: torch.zeros_like(x) + x.new_ones(x.shape), lambda n: (two(n, 3),)),
    "its parts": (lambda x: x.a * 2 + x.b, lambda n: (two(n, 3),)),
    "a part beside": (lambda x, y: x.a + y, lambda n: (lambda x: (x, x.a))(two(n, 3))),
    "padded": (lambda x: x.sin() * x.shape[0], lambda n: (padded(n),)),
    "packed": (lambda x, w: x @ w.t() + w.shape[0], lambda n: (torch.randn(2, 8), packed(n, 8))),
    "packed columns": (lambda x, w: x @ w.t() + x.shape[1], lambda n: (torch.randn(2, 2 * n), packed(5, 2 * n))),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_graphs_serve_all_sizes(name, backend):
    assert run(*PROGRAMS[name], backend) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches_on_sizes_are_guarded(backend):
    def program(x):
        return x * 2 if x.shape[0] > 6 else x + 1

    assert run(program, lambda n: (two(n, 3),), backend, (4, 5, 6, 9, 8, 3)) == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_few_rows_have_graphs_of_their_own(backend):
    assert run(lambda x: x * 2 + x.shape[0], lambda n: (two(n, 3),), backend, (1, 2, 0, 3, 4, 5, 1, 0)) <= 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_the_context_says_are_constants(backend):
    assert run(lambda x: x * 2, lambda n: (Known(torch.randn(n, 3), (n, 3)),), backend, (4, 5, 6)) == 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "make", [lambda n: two(n, 3), lambda n: TwoTensor(two(n, 3), two(n, 3))], ids=["flat", "nested"]
)
def test_gradients_with_open_sizes(make, backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(lambda x, w: (x * x @ w).relu(), backend=counting, fullgraph=True)
    for rows in ROWS:
        seen = []
        for function in (compiled, lambda x, w: (x * x @ w).relu()):
            torch.manual_seed(rows)
            x, w = make(rows).requires_grad_(), torch.randn(3, 2, requires_grad=True)
            result = function(x, w)
            result.backward(torch.ones_like(result))
            seen.append(facts([result.detach(), x.grad, w.grad]))
        assert seen[0] == seen[1], rows
    assert counting.count == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_what_is_computed_outside(backend):
    """Inputs that are no leaves; torch.compile has gradients for them, too."""
    counting = CountingOf(backend)
    compiled = pellucid.compile(lambda x: x * x + 1, backend=counting, fullgraph=True)
    for rows in ROWS:
        seen = []
        for function in (compiled, lambda x: x * x + 1):
            torch.manual_seed(rows)
            x = two(rows, 3).requires_grad_()
            result = function(x.sin())
            assert result.requires_grad
            result.backward(torch.ones_like(result))
            seen.append(facts([result.detach(), x.grad]))
        assert seen[0] == seen[1], rows
    assert counting.count == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_stay_as_they_are(backend):
    """Sizes of parameters are constants, those of their parts, too."""
    counting = CountingOf(backend)

    def program(x, weight):
        return x @ weight

    compiled = pellucid.compile(program, backend=counting, fullgraph=True)
    for columns in (4, 5, 6):
        weight = torch.nn.Parameter(two(3, columns), requires_grad=False)
        x = torch.randn(2, 3)
        assert facts(compiled(x, weight)) == facts(program(x, weight))
    assert counting.count == 3


def test_dynamic_settings_are_honoured():
    for settings, graphs in (({"dynamic": True}, 1), ({"dynamic": False}, 3), ({}, 2)):
        counting = CountingOf("eager")
        compiled = pellucid.compile(lambda x: x * 2, backend=counting, fullgraph=True, **settings)
        for rows in (4, 5, 6):
            x = two(rows, 3)
            assert facts(compiled(x)) == facts(x * 2)
        assert counting.count == graphs, settings


@pytest.mark.parametrize("mark", [pellucid.mark_dynamic, torch._dynamo.mark_dynamic])
@pytest.mark.parametrize("backend", BACKENDS)
def test_marks_open_the_parts_as_well(mark, backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(lambda x: x * 2, backend=counting, fullgraph=True)
    for rows in (4, 5, 6):
        x = two(rows, 3)
        mark(x, 0)
        assert facts(compiled(x)) == facts(x * 2)
    assert counting.count == 1


def test_a_mark_of_a_size_that_must_be_one_is_an_error():
    compiled = pellucid.compile(lambda x: x * (1 if x.shape[0] == 4 else 2), backend="eager", fullgraph=True)
    x = two(4, 3)
    pellucid.mark_dynamic(x, 0)
    with pytest.raises(pellucid.errors.ConstraintViolation):
        compiled(x)


def test_a_recompile_says_which_size_differs():
    compiled = pellucid.compile(lambda x: x * 2, backend="eager", dynamic=False)
    for rows in (4, 5):
        compiled(two(rows, 3))
    assert "size mismatch at index 0, expected 4, actual 5" in str(pellucid.recompile_reasons(compiled)[0])
