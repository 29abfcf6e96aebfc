"""Graphs with open sizes and numbers, as backends get them: torch.SymInt, as under torch.compile. What a backend decides by
them becomes part of the guards."""

from __future__ import annotations

import functools
import math

import pytest
import torch
import torch._functorch.aot_autograd  # the backend that loads it is called once more, which the tests would count
import torch.nn.functional as F
from sweeps import SWEEPS
from torch import nn

import pellucid
from pellucid.backends import lookup_backend
from support.calls import ramp, run
from support.sizes import many_entries


class CountingOf:
    """A backend that counts its calls and hands them on."""

    def __init__(self, name: str = "aot_eager") -> None:
        self.count, self.name = 0, name
        self.graphs: list = []

    def __call__(self, gm, example_inputs):
        self.count += 1
        self.graphs.append([list(example_inputs), gm])
        return lookup_backend(self.name)(gm, example_inputs)


class Asking:
    """A backend that asks something of the open sizes while it compiles, and runs the graph as it is."""

    def __init__(self, ask) -> None:
        self.ask, self.count, self.open = ask, 0, 0

    def __call__(self, gm, example_inputs):
        self.count += 1
        fakes = [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]
        tensors = [fake for fake in fakes if isinstance(fake, torch.Tensor)]
        sizes = [size for fake in tensors for size in fake.shape if isinstance(size, torch.SymInt)]
        self.open += bool(sizes)
        if sizes:
            self.ask(*sizes)
        return gm.forward


# What AOTAutograd's tracing makes a constant of, in torch.compile too.
CONSTANT_IN_TORCH = {"tensor_of_a_size": 8, "running_sums_trained": 8, "split_into_pieces_of_two": 6}


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.name)
def test_sweep_with_aot_autograd(sweep):
    """Static graphs are the measure: AOTAutograd's decompositions are not always eager's bit for bit."""
    counting = CountingOf()
    want = run(sweep, lambda f: f)
    with many_entries():
        got = run(sweep, lambda f: pellucid.compile(f, backend=counting))
        if got != want:
            want = run(sweep, lambda f: pellucid.compile(f, backend="aot_eager", dynamic=False))
    for number, (expected, ours) in enumerate(zip(want, got, strict=True)):
        assert ours == expected, (sweep.name, number)
    assert 1 <= counting.count <= max(sweep.target, CONSTANT_IN_TORCH.get(sweep.name, 0))


def lengths(f, backend, sizes, make, **options):
    """Calls `f` for each size, beside eager, with gradients of what requires one."""
    compiled = pellucid.compile(f, backend=backend, **options)
    for size in sizes:
        results = []
        for function in (f, compiled):
            torch.manual_seed(0)
            inputs = make(size)
            leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad]
            made = function(*inputs)
            tensors = [made] if isinstance(made, torch.Tensor) else [x for x in made if isinstance(x, torch.Tensor)]
            gradients = ()
            if leaves and any(x.requires_grad for x in tensors):
                gradients = torch.autograd.grad(
                    sum(x.sum() for x in tensors if x.requires_grad), leaves, allow_unused=True
                )
            results.append((made, gradients, inputs, [x.stride() for x in tensors]))
        torch.testing.assert_close(results[0], results[1], msg=lambda text: f"size {size}: {text}")


def test_the_backend_gets_symbols():
    counting = CountingOf()
    lengths(lambda x: x * x.size(0), counting, (3, 5, 6, 7), lambda n: [torch.randn(n, 2)])
    assert counting.count == 2
    examples, gm = counting.graphs[1]
    assert [type(example) for example in examples] == [torch.SymInt, torch.Tensor]
    placeholders = gm.graph.find_nodes(op="placeholder")
    fake = placeholders[1].meta["example_value"]
    assert fake.shape[0] == placeholders[0].meta["example_value"] and fake.shape[1] == 2
    assert fake.shape[0].node.shape_env is examples[0].node.shape_env


def test_example_values_say_what_requires_gradients():
    counting = CountingOf()
    linear = nn.Linear(2, 2)
    lengths(lambda x: (linear(x).relu(), x * 2), counting, (3, 5), lambda n: [torch.randn(n, 2)])
    for _, gm in counting.graphs:
        found = {node.name: node.meta["example_value"] for node in gm.graph.nodes if "example_value" in node.meta}
        known = {name: value.requires_grad for name, value in found.items() if isinstance(value, torch.Tensor)}
        assert {name for name, requires in known.items() if not requires} == {"l_x_", "mul"}, known


def test_conditions_of_the_backend_are_guards():
    backend = Asking(lambda s: bool(s * 2 <= 16) and bool(s % 2 == 0))
    f = pellucid.compile(lambda x: x + 1, backend=backend)
    with many_entries():
        for n in (3, 6, 8, 4, 2):
            assert torch.equal(f(torch.ones(n)), torch.full((n,), 2.0))
        assert (backend.count, backend.open) == (2, 1)
        f(torch.ones(10))  # more than 8
        assert backend.count == 3
        f(torch.ones(5))  # odd
        assert backend.count == 4
        f(torch.ones(12)), f(torch.ones(7))
        assert backend.count == 4


@pytest.mark.parametrize("ask", [lambda s: bool(s == 6), lambda s: int(s), lambda s: bool(s >= 6) and bool(s <= 6)])
def test_a_size_that_the_backend_fixes_is_a_constant_then(ask):
    backend = Asking(ask)
    f = pellucid.compile(lambda x: x + 1, backend=backend)
    for n in (3, 6, 3, 6):
        assert torch.equal(f(torch.ones(n)), torch.full((n,), 2.0))
    assert (backend.count, backend.open) == (2, 1)
    f(torch.ones(9))
    assert (backend.count, backend.open) == (3, 1)


def test_what_has_no_words_of_ours_makes_constants():
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from torch.utils._sympy.functions import OpaqueUnaryFn_exp

    def ask(s):
        env: ShapeEnv = s.node.shape_env
        bool(env.evaluate_expr(OpaqueUnaryFn_exp(s.node.expr) < 1e9, fx_node=None))

    backend = Asking(ask)
    f = pellucid.compile(lambda x: x + 1, backend=backend)
    for n in (3, 6, 3, 6, 9):
        assert torch.equal(f(torch.ones(n)), torch.full((n,), 2.0))
    assert (backend.count, backend.open) == (3, 1)


def test_a_mark_that_the_backend_breaks_is_an_error():
    f = pellucid.compile(lambda x: x + 1, backend=Asking(lambda s: bool(s == 6)))
    x = torch.ones(6)
    pellucid.mark_dynamic(x, 0)
    with pytest.raises(
        pellucid.errors.ConstraintViolation, match=r"L\['x'\]\.size\(0\) == 6 .*the backend compiles it"
    ):
        f(x)


def test_a_backend_that_fails_for_symbols_gets_constants(caplog):
    def ask(s):
        raise NotImplementedError("no symbols here")

    backend = Asking(ask)
    f = pellucid.compile(lambda x: x + 1, backend=backend)
    with caplog.at_level("WARNING", logger="pellucid"):
        for n in (3, 6, 3, 6, 9):
            assert torch.equal(f(torch.ones(n)), torch.full((n,), 2.0))
    assert (backend.count, backend.open) == (4, 1)
    assert [record for record in caplog.records if "no symbols here" in record.getMessage()]


def test_a_marked_size_that_fails_is_the_backends_error():
    def ask(s):
        raise NotImplementedError("no symbols here")

    f = pellucid.compile(lambda x: x + 1, backend=Asking(ask))
    x = torch.ones(6)
    pellucid.mark_dynamic(x, 0)
    with pytest.raises(pellucid.errors.BackendCompilerFailed, match="no symbols here"):
        f(x)


def test_ranges_of_marks_reach_the_backend():
    def ask(s):
        assert s.node.shape_env.var_to_range[s.node.expr].upper == 16
        assert bool(s <= 20) and bool(s >= 4)  # follows from the mark: no guard

    backend = Asking(ask)
    f = pellucid.compile(lambda x: x + 1, backend=backend)
    for n in (4, 16, 9):
        x = torch.ones(n)
        pellucid.mark_dynamic(x, 0, min=4, max=16)
        f(x)
    assert (backend.count, backend.open) == (1, 1)


LAYOUTS = {
    "view": lambda n: [torch.randn(n + 3, 6)[2:-1]],
    "view with a gap": lambda n: [torch.randn(n, 9)[:, 1:7]],
    "view that needs a gradient": lambda n: [(torch.randn(n + 3, 6, requires_grad=True) * 1)[1:-2]],
    "leaf": lambda n: [torch.randn(n, 6, requires_grad=True)],
    "no leaf": lambda n: [torch.randn(n, 6, requires_grad=True) * 2],
    "transposed": lambda n: [torch.randn(6, n).T],
    "expanded": lambda n: [torch.randn(n, 1).expand(n, 6)],
    "parameter beside": lambda n: [torch.randn(n, 6), nn.Parameter(torch.ones(6))],
    "two equal sizes": lambda n: [torch.randn(n, 6), torch.randn(n, 6)],
    "shared": lambda n: (lambda x: [x[:-1], x[1:]])(torch.randn(n + 1, 6)),
    "channels last": lambda n: [torch.randn(2, 3, n, 5).to(memory_format=torch.channels_last)],
}


def plain(*tensors):
    y = sum(t * 2 for t in tensors)
    return y.flatten(0, -2).sum(0), y.mT.contiguous(), y.clone()


def writing(x, *others):
    x.add_(1)
    return x * 2, x.view(x.shape)


def views(x, *others):
    return x[1:], x.unsqueeze(0), x.mT, x.detach()


@pytest.mark.parametrize("f", [plain, writing, views], ids=lambda f: f.__name__)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_inputs(layout, f):
    if f is writing and layout in ("leaf", "expanded"):
        return  # eager refuses the write
    counting = CountingOf()
    lengths(f, counting, (5, 7, 4, 9, 6), LAYOUTS[layout])
    assert counting.count <= 3


@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode, functools.partial(torch.autocast, "cpu")])
def test_modes_around(grad):
    linear = nn.Linear(6, 6)

    def f(x):
        with grad():
            return F.relu(linear(x)).sum(-1)

    counting = CountingOf()
    lengths(f, counting, (5, 7, 4, 9, 6), lambda n: [torch.randn(n, 6)])
    assert counting.count == 2


def test_inference_tensors():
    """Nobody counts the writes to them."""

    def f(x):
        return x * x.size(0), x[1:]

    def write(x):
        x.add_(1)
        return x, x.view(-1)

    with torch.inference_mode():
        for function in f, write:
            counting = CountingOf()
            compiled = pellucid.compile(function, backend=counting)
            for n in (3, 5, 6, 4):
                x, y = torch.arange(2.0 * n + 2).view(n + 1, 2)[1:], torch.arange(2.0 * n + 2).view(n + 1, 2)[1:]
                ours, eager = compiled(x), function(y)
                for a, b in zip((x, *ours), (y, *eager), strict=True):
                    assert torch.equal(a, b) and a.is_inference() == b.is_inference()
                assert ours[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            assert counting.count == 2


def test_numbers_beside_sizes():
    def f(x, n, rate):
        return x[: n // 2] * n + max(n, 4), x[n - 1] * rate, x.new_full((n + 1,), n / 2)

    counting = CountingOf()
    rates = {3: 0.5, 6: 0.5, 9: 0.5, 4: 0.5, 8: 0.25}
    lengths(f, counting, rates, lambda n: [torch.arange(20.0), n, rates[n]])
    assert counting.count == 3  # the rate is open from its first change on
    examples, gm = counting.graphs[1]
    assert [type(example) for example in examples].count(torch.SymInt) == 1


# Operations on an int that changes, whose results torch's symbols give bit for bit.
OF_SYMBOLS = (
    "-n, abs(3 - n), ~n, n + 5, 5 - n, n * 3, n // 3, n // -3, -n // 3, n % 5, -n % 5, n % -3, divmod(n, 3)[1]",
    "n & 6, n | 5, n ^ 5, n << 2, n >> 1, n**3, 2**n, pow(n, 2), min(n, 4), max(n, 4), round(n)",
    "n / 3, 3 / n, n * 0.1, n - 0.5, float(n) * 0.1, n**0.5, 0.3**n, (n / 3) ** 1.5, max(n / 2, 1.5), min(n / 2, 1.5)",
    "int(n / 3), math.floor(n / 3), math.ceil(n / 3), math.trunc(-n / 3), round((n - 5) / 2)",
    "math.sqrt(n), math.sin(n), math.tanh(n / 5), math.log2(n)",
)
# Torch has another result of these, or none: each value has a graph of its own.
OF_PYTHON = ("n // 0.1", "n % 0.1", "(n / 3) // 0.1", "math.exp(n / 3)", "math.fabs(3 - n)")


@pytest.mark.parametrize(
    ("operations", "backend"),
    [*((row, "aot_eager") for row in OF_SYMBOLS + OF_PYTHON), *((row, "inductor") for row in OF_SYMBOLS)],
)
def test_operations_on_an_int(operations, backend):
    """What Python computes, also where it meets a tensor first."""
    numbers = eval(f"lambda n: ({operations},)", {"math": math})

    def f(x, n):
        return [x * number for number in numbers(n)]

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    x = torch.tensor([1.0, 3.0, -7.0], dtype=torch.float64)
    values = (2, 3, 1, 5, 8, 9, 11, 6, 13)[: 4 if backend == "inductor" else None]
    with many_entries():
        for n in values:
            for number, (ours, eager) in enumerate(zip(compiled(x, n), f(x, n), strict=True)):
                operation = operations.split(", ")[number]
                if operation.startswith("math.") and backend != "eager":
                    # AOTAutograd computes them with tensors, whose functions round otherwise on some processors.
                    torch.testing.assert_close(ours, eager, rtol=4e-16, atol=0, msg=f"{operation} of {n}")
                else:
                    assert torch.equal(ours, eager), (n, operation, ours, eager)
    assert counting.count == (2 if operations in OF_SYMBOLS else len(values))


FLOATS = (0.1, 0.3, -0.7, 0.123456789, 3.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_floats_are_tensors_for_backends(backend, dtype):
    """Bit for bit what the float gives, in arithmetic with tensors of floats that have dimensions."""

    def f(x, rate, n):
        y = x.clone().mul_(rate / 2).add_(rate)
        return x * rate + (1 - rate) * n, y - rate, rate - y, x / rate, x > rate, x <= -rate

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for i, rate in enumerate(FLOATS):
        x = torch.linspace(-2, 2, 4 * (i + 3)).view(-1, 4).to(dtype)
        for ours, eager in zip(compiled(x, rate, i + 3), f(x, rate, i + 3), strict=True):
            assert ours.dtype == eager.dtype and torch.equal(ours, eager), rate
    assert counting.count == 2
    kinds = [type(example) for example in counting.graphs[1][0]]
    assert float not in kinds and kinds.count(torch.Tensor) == 2


def test_floats_that_no_tensor_can_stand_for_are_values():
    """A tensor of float64 would give another dtype here, or another last bit."""

    def f(x, whole, scalar, rate):
        return (
            x.pow(rate),
            x + rate**2,
            torch.full((2,), rate),
            whole * rate,
            scalar * rate,
            torch.add(x, x, alpha=rate),
        )

    for part in range(6):
        counting = CountingOf()
        compiled = pellucid.compile(lambda *args, part=part: f(*args)[part], backend=counting)
        for rate in FLOATS[:3]:
            given = torch.rand(3, 4), torch.arange(4), torch.tensor(0.5), rate
            ours, eager = compiled(*given), f(*given)[part]
            assert (ours.dtype == eager.dtype and torch.equal(ours, eager)) or part == 0
        assert counting.count == 3


def test_a_tensor_of_no_dimension_from_outside():
    """torch would give a float64 one a symbol for its item(), and refuse the graph."""
    counting = CountingOf()
    compiled = pellucid.compile(lambda x, rate: x * rate, backend=counting)
    for dtype in (torch.float64, torch.int64):
        rate = torch.tensor(3, dtype=dtype)
        assert torch.equal(compiled(torch.ones(2), rate), torch.full((2,), 3.0))
    assert counting.count == 2


def test_what_the_backward_decides_is_a_guard():
    """torch's derivative of cumprod asks for the number of elements."""
    counting = CountingOf()
    lengths(lambda x: torch.cumprod(x, 0), counting, (5, 7, 4, 9), lambda n: [torch.randn(n, 2, requires_grad=True)])
    assert counting.count == 4


def test_an_input_that_is_written_and_reshaped():
    """AOTAutograd lays it by its offset in a copy; it begins in the middle of its storage."""

    def f(x):
        x.add_(1)
        x.t_()
        return x * 2

    counting = CountingOf()
    lengths(f, counting, (5, 7, 4), lambda n: [torch.arange(6.0 * (n + 3)).view(n + 3, 6)[2:-1]])
    compiled, base = pellucid.compile(f, backend="aot_eager"), torch.arange(48.0)
    compiled(base[12:36].view(4, 6))
    assert base.tolist() == [*range(12), *range(13, 37), *range(36, 48)]


@pytest.mark.parametrize(("sizes", "most"), [((2, 3, 4, 5, 2), 2), ((5, 4, 3, 2), 8)])
def test_open_sizes_of_inputs_that_begin_to_overlap(sizes, most):
    """They begin where they did when it was compiled: how long they are tells whether they share an element. AOTAutograd fails for
    open sizes of inputs that overlap, and compiles for each size then."""

    def write_one(x, y):
        y.add_(1)
        return x * 2

    counting = CountingOf()
    compiled = pellucid.compile(write_one, backend=counting)
    for n in sizes:
        (a, b), (c, d) = (
            [base[: n * 2].view(n, 2), base[6 : 6 + n * 2].view(n, 2)]
            for base in (torch.arange(30.0), torch.arange(30.0))
        )
        assert torch.equal(compiled(c, d), write_one(a, b))
        assert torch.equal(c, a) and torch.equal(d, b)
    assert 1 <= counting.count <= most


def write_in_place(x):
    y = x.detach()
    return y.mul_(3), y + 1


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_inputs_with_elements_at_one_place_that_are_written(dynamic):
    counting = CountingOf()
    compiled = pellucid.compile(write_in_place, backend=counting, dynamic=dynamic)
    for n in (2, 3, 4):
        a, b = torch.arange(n + 2.0), torch.arange(n + 2.0)
        for want, got in zip(write_in_place(a.unfold(0, 3, 1)), compiled(b.unfold(0, 3, 1)), strict=True):
            assert torch.equal(got, want)
        assert torch.equal(a, b)
    assert counting.count >= 1


@pytest.mark.parametrize("sizes", [(3, 4, 5), (0, 2, 3)])
def test_an_input_that_gets_more_memory(sizes):
    def into(x, out):
        torch.add(x, 1, out=out)
        return out * 2

    compiled = pellucid.compile(into, backend="aot_eager")
    for n in sizes:
        out = torch.empty(0)
        assert torch.equal(compiled(torch.ones(n), out), torch.full((n,), 4.0))
        assert torch.equal(out, torch.full((n,), 2.0))


def test_a_view_of_a_leaf_without_elements():
    compiled = pellucid.compile(lambda x: x * 2, backend=(counting := CountingOf()))
    for shape in ((5, 3), (4, 3), (0, 4), (4, 0), (6, 0)):
        leaf = torch.ones(shape[::-1], requires_grad=True)
        got = compiled(leaf.t())
        assert got.shape == shape
        got.sum().backward()
        assert torch.equal(leaf.grad, torch.full_like(leaf, 2.0))
    assert counting.count >= 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_changing_float_divided_by_a_tensor(dtype):
    """Eager multiplies the reciprocal with the number."""

    def divide(x, number):
        return number / x, (number + 1.5) / x

    counting = CountingOf()
    compiled = pellucid.compile(divide, backend=counting)
    x = torch.arange(1, 40).to(dtype)
    for number in (0.5, 0.1, 0.3, 1e-3, 7.7, -0.0, 3.3):
        for want, got in zip(divide(x, number), compiled(x, number), strict=True):
            assert got.dtype == want.dtype and torch.equal(got, want)
    assert counting.count == 2


def test_inductor(tmp_path, monkeypatch):
    """Forward and backward; from its warm cache as from the compiler, conditions too."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    linear = nn.Linear(6, 6)

    def f(x):
        y = torch.softmax(linear(x), 0)
        return y.view(-1, 2).sum(1) * x.size(0)

    counts = []
    for _ in range(2):
        counting = CountingOf("inductor")
        lengths(f, counting, (5, 7, 4, 9, 6), lambda n: [torch.randn(n, 6, requires_grad=True)])
        counts.append(counting.count)
        pellucid.reset()
    assert counts == [2, 2]


def write_column(x, n, value):
    x[:, n] = value
    return x * 2


def write_of_cache(x, n, value):
    x[:, :, n] = value
    return x.sum(0)


PICKS = {
    "column": lambda x, n, v: x[:, n] + 1,
    "of_last": lambda x, n, v: x[..., n, 1:] + n,
    "new_dimension": lambda x, n, v: x[None, :, n, None],
    "two": lambda x, n, v: x[n, n - 1] * x[0, n],
    "with_indices": lambda x, n, v: x[torch.tensor([1, 0]), n],
    "with_mask_of_rows": lambda x, n, v: x[:, n][:, v[0, 0] > -9],
    "row": lambda x, n, v: x[n],
    "view": lambda x, n, v: (x[:, n].mul_(2), x)[1] + 1,
    "tensor": lambda x, n, v: x + torch.tensor(n),
    "tensor_of_list": lambda x, n, v: x[0, 0, :2] + torch.tensor([n, x.shape[0]], dtype=torch.int64),
    "as_tensor": lambda x, n, v: x + torch.as_tensor(n, device="cpu"),
    "write_row": lambda x, n, v: (x.__setitem__(n, 0.5), x)[1] * 2,
    "write_column": write_column,
    "write_of_cache": lambda x, n, v: write_of_cache(x, n, v[..., 0]),
    "write_number": lambda x, n, v: write_column(x, n, n),
    "write_slice": lambda x, n, v: write_column(x[:, :, 1:], n, v[..., 1:]),
}


@pytest.mark.parametrize("name", PICKS)
def test_ints_that_select(name):
    """Of a backend that compiles too, one graph serves all places in a tensor."""
    f, counting = PICKS[name], CountingOf()
    compiled = pellucid.compile(f, backend=counting)
    for n in (2, 3, 5, 6, 4, 3):
        x, value = torch.randn(8, 8, 8), torch.randn(8, 8)
        own = x.clone()
        want, got = f(x, n, value), compiled(own, n, value)
        assert torch.equal(got, want) and (got.dtype, got.stride()) == (want.dtype, want.stride())
        assert torch.equal(own, x), n
        assert (got._base is own) == (want._base is x)
    assert counting.count == 2


@pytest.mark.parametrize("key", [(0, 9), (3, 1, 2, 0), (slice(None), 8)], ids=str)
def test_ints_that_select_what_is_not_there(key):
    def f(x, n):
        try:
            return x[(*key[:-1], key[-1] + n)] + 1
        except IndexError:
            return x - 1

    def uncaught(x, n):
        return x[(*key[:-1], key[-1] + n)] + 1

    x = torch.randn(8, 8, 8)
    compiled = pellucid.compile(f, backend="aot_eager", dynamic=True)
    raising = pellucid.compile(uncaught, backend="aot_eager", dynamic=True)
    for n in (0, 1, 0):
        assert torch.equal(compiled(x, n), f(x, n))
        with pytest.raises(IndexError) as want:
            uncaught(x, n)
        with pytest.raises(IndexError) as got:
            raising(x, n)
        assert str(got.value) == str(want.value)


def test_gradients_through_what_an_int_selects():
    def f(x, n):
        y = x * 2
        y[:, n] = y[:, n - 1] * 3
        return y.sum(1)

    counting = CountingOf()
    compiled = pellucid.compile(f, backend=counting)
    for n in (2, 3, 5, 6):
        grads = []
        for g in (f, compiled):
            x = torch.arange(64.0).reshape(8, 8).requires_grad_()
            g(x, n).backward(torch.arange(8.0))
            grads.append(x.grad)
        assert torch.equal(*grads)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_size_that_is_twice_another_one(backend):
    """torch computes the ends of such sizes in floats."""

    def halves(x, y):
        return x[: y.shape[0]] + y if x.shape[0] == 2 * y.shape[0] else x

    def joined(x, y):
        return x.reshape(-1) + torch.cat([y.reshape(-1), y.reshape(-1)])

    for f in halves, joined:
        counting = CountingOf(backend)
        lengths(f, counting, [3, 4, 7], lambda n: [ramp(2 * n), ramp(n)], dynamic=True)
        assert counting.count == 1


def test_what_torch_has_no_symbols_for_is_compiled_for_constants(monkeypatch):
    """The program does not see that its sizes could not be made symbols of torch."""
    from pellucid.backends import open_numbers

    def refuse(*args):
        raise AssertionError("no such symbols")

    monkeypatch.setattr(open_numbers.Symbols, "__init__", refuse)
    counting = CountingOf()
    lengths(lambda x: x.sin() * x.shape[0], counting, [3, 4], lambda n: [ramp(n)], dynamic=True)
    assert counting.count == 2
