"""Traceable wrapper subclasses (tensors around tensors, with `__torch_dispatch__` and `__tensor_flatten__`) are inputs,
nodes and outputs of graphs: values, classes, parts, gradients and aliasing are eager's. Code of a class that is not
functional ends the region before its side effect."""

from __future__ import annotations

import gc
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing

import pellucid
from pellucid._functional import SideEffect, watched
from support import CountingOf, outcome

BACKENDS = ["eager", "aot_eager"]
CALLS: list = []
SETTINGS = {"count": 0}
COUNT = torch.zeros(())
FACTOR = 2


class TwoTensor(torch.Tensor):
    """Every operator is computed twice."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            a.size(),
            strides=a.stride(),
            storage_offset=a.storage_offset(),
            dtype=a.dtype,
            device=a.device,
            requires_grad=a.requires_grad,
        )

    def __init__(self, a, b):
        self.a = a
        self.b = b

    def __repr__(self):  # torch's logs print tensors, whose values a fake does not have
        return "TwoTensor()"

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @classmethod
    def __tensor_unflatten__(cls, parts, context, outer_size, outer_stride):
        return cls(parts["a"], parts["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        a, b = (
            func(
                *pytree.tree_map_only(cls, lambda x: getattr(x, name), args),
                **pytree.tree_map_only(cls, lambda x: getattr(x, name), kwargs),
            )
            for name in ("a", "b")
        )
        flat, spec = pytree.tree_flatten(a)
        made = [
            cls(x, y) if isinstance(x, torch.Tensor) else x for x, y in zip(flat, pytree.tree_leaves(b), strict=True)
        ]
        return return_and_correct_aliasing(func, args, kwargs, pytree.tree_unflatten(made, spec))

    __torch_function__ = torch._C._disabled_torch_function_impl


class Printing(TwoTensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        CALLS.append(func)
        return super().__torch_dispatch__(func, types, args, kwargs)


class Storing(TwoTensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        SETTINGS["count"] = SETTINGS["count"] + 1
        return super().__torch_dispatch__(func, types, args, kwargs)


class CountingInATensor(TwoTensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        torch.ops.aten.add_.Tensor(COUNT, 1)
        return super().__torch_dispatch__(func, types, args, kwargs)


class Noisy(TwoTensor):
    """Draws from torch's generator."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        torch.rand(1)
        return super().__torch_dispatch__(func, types, args, kwargs)


class Scaled(TwoTensor):
    """Reads a global of the program."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if FACTOR == 2:
            return super().__torch_dispatch__(func, types, args, kwargs)
        return super().__torch_dispatch__(torch.ops.aten.abs.default, types, args, kwargs)


class Keeping(TwoTensor):
    """Writes an attribute of a class."""

    last = None

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Keeping.last = str(func)
        return super().__torch_dispatch__(func, types, args, kwargs)


class Quantised(torch.Tensor):
    """A weight of int8 with a scale for each row."""

    @staticmethod
    def __new__(cls, q, scale, dtype, block):
        return torch.Tensor._make_wrapper_subclass(cls, q.shape, dtype=dtype, device=q.device)

    def __init__(self, q, scale, dtype, block):
        self.q = q
        self.scale = scale
        self.block = block

    def __repr__(self):
        return "Quantised()"

    @classmethod
    def of(cls, weight):
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale, weight.dtype, (1, weight.shape[1]))

    def __tensor_flatten__(self):
        return ["q", "scale"], (self.dtype, self.block)

    @classmethod
    def __tensor_unflatten__(cls, parts, context, outer_size, outer_stride):
        return cls(parts["q"], parts["scale"], *context)

    def dequantised(self):
        return self.q.to(self.scale.dtype) * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        aten = torch.ops.aten
        if func in (aten.detach.default, aten.t.default, aten.alias.default):
            w = args[0]
            made = cls(func(w.q), func(w.scale), w.dtype, w.block)
            return return_and_correct_aliasing(func, args, kwargs, made)
        if func in (aten.mm.default, aten.addmm.default):
            return func(*[x.dequantised() if isinstance(x, cls) else x for x in args], **kwargs)
        raise NotImplementedError(f"{func}")

    __torch_function__ = torch._C._disabled_torch_function_impl


class QuantisedAbove(Quantised):
    """Answers above autograd, too."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.linear:
            return F.linear(args[0], args[1].dequantised(), *args[2:], **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


def two(*shape, cls=TwoTensor, requires_grad=False):
    generator = torch.Generator().manual_seed(len(shape))
    made = cls(torch.randn(*shape, generator=generator), torch.randn(*shape, generator=generator))
    return made.requires_grad_() if requires_grad else made


def quantised(cls=Quantised):
    return cls.of(torch.randn(6, 4, generator=torch.Generator().manual_seed(1)))


def facts(value):
    """All of a result that a program can see, parts included."""
    if isinstance(value, (tuple, list)):
        return [facts(one) for one in value]
    if not isinstance(value, torch.Tensor):
        return value
    seen = [type(value), tuple(value.shape), value.stride(), value.dtype, value.requires_grad, value.is_leaf]
    if hasattr(value, "__tensor_flatten__"):
        names, context = value.__tensor_flatten__()
        return [*seen, names, context, [facts(getattr(value, name)) for name in names]]
    return [*seen, value.detach().tolist()]


def gradients_of(result, inputs):
    for one in inputs:
        one.grad = None
    result.sum().backward()
    return [one.grad for one in inputs]


def as_eager(program, *args, backend="eager", graphs=1):
    """Two calls compiled, one eagerly, in `graphs` graphs (None: any number)."""
    counting = CountingOf(backend)
    compiled = pellucid.compile(program, backend=counting, fullgraph=graphs == 1)
    first, second, want = facts(compiled(*args)), facts(compiled(*args)), facts(program(*args))
    assert first == want
    assert second == want
    if graphs is not None:
        assert counting.count == graphs
    return counting.graphs


def pointwise(x):
    return x.sin() * 2 + 1


def beside_plain(x, y):
    return (x * y).cos() @ y.t()


def several(x):
    y = x.abs() + 1
    parts = y.split(2, dim=1)
    return y, parts, y.shape, y.dtype, isinstance(y, TwoTensor), y > 0, -y


def reductions(x):
    return x.sum(), x.mean(0), torch.cat([x, x]), torch.nn.functional.softmax(x, -1)


def read_parts(x):
    return x.a + 1, (x * 2).sum(), x.b.shape


def linear(x, w):
    return F.linear(x, w).relu()


def linear_with_bias(x, w, bias):
    return F.linear(x, w, bias) * 2


@pytest.mark.parametrize("backend", BACKENDS)
class TestJ02InputsAndOutputs:
    def test_pointwise(self, backend):
        as_eager(pointwise, two(3, 4), backend=backend)

    def test_a_plain_tensor_beside_it(self, backend):
        as_eager(beside_plain, two(3, 4), torch.randn(3, 4), backend=backend)

    def test_many_results(self, backend):
        as_eager(several, two(3, 4), backend=backend)

    def test_reductions(self, backend):
        as_eager(reductions, two(3, 4), backend=backend)

    def test_parts_are_read(self, backend):
        as_eager(read_parts, two(3, 4), backend=backend)

    def test_two_of_them(self, backend):
        as_eager(lambda x, y: x @ y, two(3, 4), two(4, 3), backend=backend)

    def test_the_same_one_twice(self, backend):
        x = two(3, 4)
        as_eager(lambda x, y: x + y, x, x, backend=backend)

    def test_nested(self, backend):
        as_eager(pointwise, TwoTensor(two(3, 4), two(3, 4)), backend=backend)

    def test_strided(self, backend):
        as_eager(pointwise, TwoTensor(torch.randn(4, 3).t(), torch.randn(4, 3).t()), backend=backend)

    def test_the_graph_has_the_operators_on_it(self, backend):
        (gm,) = as_eager(pointwise, two(3, 4), backend=backend)
        assert [node.op for node in gm.graph.nodes if node.op == "placeholder"] == ["placeholder"]
        assert [str(node.target) for node in gm.graph.nodes if node.op.startswith("call")] == [
            "sin",
            "<built-in function mul>",
            "<built-in function add>",
        ]

    def test_example_values_are_fakes_of_the_class(self, backend):
        (gm,) = as_eager(pointwise, two(3, 4), backend=backend)
        examples = [node.meta["example_value"] for node in gm.graph.nodes if "example_value" in node.meta]
        assert all(type(example) is TwoTensor for example in examples)

    def test_gradients(self, backend):
        def program(x, y):
            return (x * y).sin() + x

        x, y = two(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
        compiled = pellucid.compile(program, backend=backend, fullgraph=True)
        got, want = (facts(gradients_of(f(x, y), [x, y])) for f in (compiled, program))
        assert got == want

    def test_gradients_through_what_was_computed_before(self, backend):
        x = two(3, 4, requires_grad=True)
        compiled = pellucid.compile(pointwise, backend=backend, fullgraph=True)
        got, want = (facts(gradients_of(f(x * 3), [x])) for f in (compiled, pointwise))
        assert got == want

    def test_results_share_memory_as_in_eager(self, backend):
        def program(x):
            return x.t(), x.a[1:]

        x = two(3, 4)
        for f in (program, pellucid.compile(program, backend=backend)):
            turned, part = f(x)
            before = turned.a.clone()
            x.a.add_(1)
            assert torch.equal(turned.a, before + 1)
            assert torch.equal(part, x.a[1:])

    def test_no_grad(self, backend):
        def program(x):
            with torch.no_grad():
                y = x * 2
            return y + 1

        as_eager(program, two(3, 4, requires_grad=True), backend=backend)

    def test_autocast(self, backend):
        def program(x, y):
            with torch.autocast("cpu"):
                return x @ y

        as_eager(program, two(3, 4), two(4, 3), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cls", [Quantised, QuantisedAbove])
class TestA21QuantisedWeights:
    def test_linear(self, cls, backend):
        x = torch.randn(2, 4, requires_grad=True)
        as_eager(linear, x, quantised(cls), backend=backend)

    def test_gradients_of_the_activation(self, cls, backend):
        x, w, bias = torch.randn(2, 4, requires_grad=True), quantised(cls), torch.randn(6, requires_grad=True)
        compiled = pellucid.compile(linear_with_bias, backend=backend, fullgraph=True)
        got, want = (facts(gradients_of(f(x, w, bias), [x, bias])) for f in (compiled, linear_with_bias))
        assert got == want

    def test_the_weight_of_a_module(self, cls, backend):
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        model[0].weight = nn.Parameter(quantised(cls), requires_grad=False)
        x = torch.randn(2, 4)
        counting = CountingOf(backend)
        compiled = pellucid.compile(model, backend=counting, fullgraph=True)
        assert torch.equal(compiled(x), model(x))
        assert counting.count == 1


class TestGuards:
    def counted(self, program=pointwise):
        counting = CountingOf("eager")
        return pellucid.compile(program, backend=counting), counting

    def test_equal_ones_need_no_other_graph(self):
        compiled, counting = self.counted()
        for _ in range(3):
            x = two(3, 4)
            assert facts(compiled(x)) == facts(pointwise(x))
        assert counting.count == 1

    @pytest.mark.parametrize(
        "other",
        [
            lambda: two(3, 5),
            lambda: two(3, 4, requires_grad=True),
            lambda: TwoTensor(torch.randn(3, 4).double(), torch.randn(3, 4).double()),
            lambda: TwoTensor(torch.randn(3, 4), torch.randn(3, 4).double()),
            lambda: TwoTensor(torch.randn(3, 4), torch.randn(4, 3).t()),
            lambda: TwoTensor(torch.randn(3, 4), two(3, 4)),
            lambda: torch.randn(3, 4),
        ],
    )
    def test_what_differs_needs_one(self, other):
        compiled, counting = self.counted()
        compiled(two(3, 4))
        x = other()
        assert facts(compiled(x)) == facts(pointwise(x))
        assert counting.count == 2

    def test_the_context(self):
        compiled, counting = self.counted(linear)
        x, w = torch.randn(2, 4), quantised()
        compiled(x, w)
        w.block = (2, 4)
        assert facts(compiled(x, w)) == facts(linear(x, w))
        assert counting.count == 2

    def test_a_context_that_cannot_be_compared(self):
        w = quantised()
        w.block = object()
        as_eager(linear, torch.randn(2, 4), w, graphs=None)

    def test_a_global_that_the_class_reads(self):
        global FACTOR
        compiled, counting = self.counted(torch.neg)
        x = two(3, 4, cls=Scaled)
        for FACTOR in (2, 2, 3):
            assert facts(compiled(x)) == facts(torch.neg(x))
        assert counting.count == 2
        FACTOR = 2

    def test_another_size_of_the_activation(self):
        compiled, _ = self.counted(linear)
        w = quantised()
        for rows in (2, 3, 4, 5):
            x = torch.randn(rows, 4)
            assert torch.equal(compiled(x, w), linear(x, w))


class TestSideEffectsAndBreaks:
    def compared(self, program, *args):
        """Eagerly and compiled, with what each changes outside."""
        outcomes = []
        for f in (program, pellucid.compile(program, backend="eager")):
            CALLS.clear()
            SETTINGS["count"] = 0
            COUNT.zero_()
            Keeping.last = None
            torch.manual_seed(0)
            seen = facts(f(*args))
            outcomes.append((seen, list(CALLS), SETTINGS["count"], COUNT.item(), Keeping.last, torch.rand(1).item()))
        assert outcomes[0] == outcomes[1]

    @pytest.mark.parametrize("cls", [Printing, Storing, CountingInATensor, Noisy, Keeping])
    def test_side_effects_of_a_class_happen_once(self, cls):
        self.compared(pointwise, two(3, 4, cls=cls))

    def test_what_the_region_has_changed_before(self):
        def program(x):
            global FACTOR
            FACTOR = 3
            y = torch.neg(x)
            FACTOR = 2
            return y

        self.compared(program, two(3, 4, cls=Scaled))

    def test_what_the_region_changes_behind_it(self):
        def program(x, seen):
            y = torch.neg(x)
            seen.append(1)
            return y

        seen: list = []
        compiled = pellucid.compile(program, backend="eager", fullgraph=True)
        assert facts(compiled(two(3, 4), seen)) == facts(torch.neg(two(3, 4)))
        assert seen == [1]

    def test_writes(self):
        def program(x):
            x.add_(1)
            return x * 2

        outcomes = []
        for f in (program, pellucid.compile(program, backend="eager")):
            x = two(3, 4)
            outcomes.append((facts(f(x)), facts(x)))
        assert outcomes[0] == outcomes[1]

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_writes_to_a_part(self, backend):
        def before(x, part):
            part.add_(1)
            return x * 2

        def behind(x, part):
            y = x * 2
            part.add_(1)
            return y, x + 1

        for program in (before, behind):
            outcomes = []
            for f in (program, pellucid.compile(program, backend=backend)):
                x = two(3, 4)
                outcomes.append((facts(f(x, x.a)), facts(x)))
            assert outcomes[0] == outcomes[1]

    def test_attributes_that_the_region_sets(self):
        def program(x):
            y = x * 2
            y.tag = 3
            return y

        assert pellucid.compile(program, backend="eager")(two(3, 4)).tag == 3

    def test_one_that_the_region_makes(self):
        as_eager(lambda a, b: TwoTensor(a, b) + 1, torch.randn(3), torch.randn(3))
        as_eager(lambda a, b: TwoTensor(a, b) + 1, torch.randn(3, requires_grad=True), torch.randn(3), graphs=None)

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_parts_of_a_result(self, backend):
        def program(x, y):
            z, made = x * 2, TwoTensor(x.a, y)
            return z.a + 1, z.b, z.a is z.a, made.a is x.a, made.b is y, made.b + x.b, z

        as_eager(program, two(3, 4), torch.randn(3, 4), backend=backend)

    def test_gradients_beside_parts_of_a_result(self):
        def program(x):
            y = x * 2
            return (y + y.a.sum()).sin()

        as_eager(program, two(3, 4, requires_grad=True))
        as_eager(program, two(3, 4, requires_grad=True), backend="aot_eager")

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_writes_to_parts_of_a_result(self, backend):
        def fresh(x):
            y = x * 2
            y.a.add_(1)
            return y, y + 1

        def view(x):
            y = x.t()
            y.a.add_(1)
            return y, x + 1

        def raises(x):
            x.t().a.add_(1)
            return torch.ones(3)[x.a.long() + 100]

        for program in (fresh, view, raises):
            outcomes = []
            for f in (program, pellucid.compile(program, backend=backend)):
                x = two(3, 4)
                kind, *rest = outcome(f, x)
                outcomes.append((kind, facts(rest[0]) if kind == "value" else rest[0], facts(x)))
            assert outcomes[0] == outcomes[1]

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_made_of_parts_and_results(self, backend):
        def program(x, y):
            made = TwoTensor(x.a * 2, y)
            y = y + 1
            y.add_(1)
            return made + x, y

        as_eager(program, two(3, 4), torch.randn(3, 4), backend=backend)

    def test_operators_that_the_class_refuses(self):
        w = quantised()
        for f in (torch.sin, pellucid.compile(torch.sin, backend="eager")):
            with pytest.raises(NotImplementedError, match="sin"):
                f(w)

    def test_values_are_asked_for(self):
        as_eager(lambda x: x * 2 if x.a.sum() > 0 else x * 3, two(3, 4), graphs=None)


def changes_one_of_two(held):
    either = held["dict"] if held else {}
    either["a"] = 1


def changes_its_argument(held=None):
    held = held or {}
    held["list"] = 1


class TestWatched:
    """What the code of a class may not do."""

    def outside(self):
        return {"list": [], "dict": {}, "tensor": torch.zeros(2), "object": type("Held", (), {})()}

    @pytest.mark.parametrize(
        "code",
        [
            lambda held: held["list"].append(1),
            lambda held: held["dict"].update(a=1),
            lambda held: held.__setitem__("list", 1),
            changes_one_of_two,
            changes_its_argument,
            lambda held: held["tensor"].add_(1),
            lambda held: held["tensor"].__iadd__(1),
            lambda held: torch.ops.aten.add_.Tensor(held["tensor"], 1),
            lambda held: setattr(held["object"], "a", 1),
            lambda held: print("heard"),
            lambda held: open(held),
            lambda held: torch.manual_seed(3),
            lambda held: torch.rand(2),
            lambda held: torch.set_default_dtype(torch.float64),
            lambda held: sys.setrecursionlimit(100),
            lambda held: torch.set_grad_enabled(False),
            lambda held: torch.neg(torch.ones(2), out=held["tensor"]),
            lambda held: held["object"].__setattr__("a", 1),
        ],
    )
    def test_is_stopped(self, code):
        held = self.outside()
        before = repr(held), torch.get_rng_state()
        with pytest.raises(SideEffect):
            watched(code, held)
        assert repr(held) == before[0]
        assert torch.equal(torch.get_rng_state(), before[1])
        assert sys.gettrace() is None
        assert sys.getprofile() is None
        assert gc.isenabled()

    def test_what_it_made_it_may_change(self):
        def code(x):
            made = []
            made.append(x)
            facts = {"x": made}
            facts["y"] = [len(made)]
            numbers = {}
            numbers["one"] = 1
            numbers.pop("one")
            total = 0
            total += 1
            return [part * 2 for part in made], facts["y"], total

        assert watched(code, 3) == ([6], [1], 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plain_parameter_that_has_a_gradient_around_tensors(backend):
    """It is compiled after the first gradient is there, and adds to it."""

    def train(around):
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(3, 4))
        x = TwoTensor(torch.randn(2, 4), torch.randn(2, 4))

        def program(x):
            return (x @ weight.t()).sin()

        program(x).sum().backward()
        f, seen = around(program), []
        for _ in range(3):
            f(x).sum().backward()
            seen.append(facts(weight.grad))
        return seen

    counting = CountingOf(backend)
    assert train(lambda f: pellucid.compile(f, backend=counting, fullgraph=True)) == train(lambda f: f)
    assert 1 <= counting.count <= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plain_tensor_of_other_sizes_beside_one_is_captured(backend):
    weight = two(3, 4)
    counting = CountingOf(backend)
    compiled = pellucid.compile(lambda x: x @ weight, backend=counting, fullgraph=True)
    for n in (4, 5, 6):
        x = torch.randn(n, 3)
        mine, eager = compiled(x), x @ weight
        assert type(mine) is TwoTensor and torch.equal(mine.a, eager.a) and torch.equal(mine.b, eager.b)
    assert counting.count == 2
