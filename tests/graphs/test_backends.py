"""Backends by name and as callables: the contract, the state they find, errors, and AOTAutograd and Inductor over our graphs."""

import gc
import logging
import operator
import subprocess
import sys
import textwrap
import weakref

import pytest
import torch

from pellucid import _core, backends
from pellucid._fx import CapturedGraphModule, GraphCompileReason
from pellucid.backends import BackendCompilerFailed, InvalidBackend, call_backend
from pellucid.backends.errors import BackendSkips


class Recorder:
    """A graph made by running operations on fakes, as capture does."""

    def __init__(self):
        self.graph = _core._graph.GraphBuilder()
        self.scope = _core._aten.FakeScope()
        self.examples = []
        self.values = {}

    def input(self, source, real):
        fake = self.scope.fake_of(real)
        self.examples.append(real)
        ref = self.graph.placeholder(source, fake, real=real)
        self.values[id(ref)] = (ref, fake)
        return ref

    def call(self, target, *args, **kwargs):
        fakes = torch.utils._pytree.tree_map(lambda a: self.values[id(a)][1] if id(a) in self.values else a, args)
        if isinstance(target, str):
            example = self.scope.call(getattr(torch.Tensor, target), *fakes, **kwargs)
            ref = self.graph.call_method(target, args, kwargs, example)
        else:
            example = self.scope.call(target, *fakes, **kwargs)
            ref = self.graph.call_function(target, args, kwargs, example)
        self.values[id(ref)] = (ref, example)
        return ref

    def module(self, *outputs):
        self.graph.output(list(outputs))
        return self.graph.graph_module()


def mlp(x, weight):
    return torch.sin(torch.nn.functional.linear(x, weight).view(-1, 3)) * 2


def mlp_module(x, weight):
    r = Recorder()
    px, pw = r.input("L['x']", x), r.input("L['self']._parameters['weight']", weight)
    y = r.call("view", r.call(torch._C._nn.linear, px, pw), -1, 3)
    return r.module(r.call(operator.mul, r.call(torch.sin, y), 2)), r.examples


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    return torch.randn(2, 3), torch.nn.Parameter(torch.randn(3, 3))


def gradients(function, x, weight):
    weight.grad = None
    function(x, weight)[0].sum().backward()
    grad, weight.grad = weight.grad, None
    return grad


# Registry


@pytest.fixture
def registered():
    names = []
    yield names.append
    for name in names:
        backends.unregister_backend(name)


def test_registering(registered):
    @backends.register_backend
    def first_backend(gm, inputs):
        return gm

    second = backends.register_backend(name="second_backend", tags=("debug",))(lambda gm, inputs: gm)
    backends.register_debug_backend(first_backend, name="third_backend")
    for name in ("first_backend", "second_backend", "third_backend"):
        registered(name)
    assert backends.lookup_backend("first_backend") is first_backend
    assert backends.lookup_backend("second_backend") is second
    assert backends.lookup_backend(first_backend) is first_backend
    assert "first_backend" in backends.list_backends() and "second_backend" not in backends.list_backends()
    assert {"second_backend", "third_backend", "eager", "aot_eager"} <= set(backends.list_backends(None))
    assert {"eager", "aot_eager"}.isdisjoint(backends.list_backends()) and "inductor" in backends.list_backends()
    with pytest.raises(AssertionError, match="duplicate name: first_backend"):
        backends.register_backend(first_backend)


def test_names_of_torch(registered):
    from torch._dynamo.backends.registry import _BACKENDS, _COMPILER_FNS, register_backend

    assert set(_BACKENDS) <= set(backends.list_backends(None))
    register_backend(lambda gm, inputs: gm, name="registered_with_torch")
    try:
        assert backends.lookup_backend("registered_with_torch") is _COMPILER_FNS["registered_with_torch"]
    finally:
        del _BACKENDS["registered_with_torch"], _COMPILER_FNS["registered_with_torch"]


def test_unknown_name():
    with pytest.raises(InvalidBackend, match=r"Invalid backend: 'no_such_backend'.*inductor.*list_backends"):
        backends.lookup_backend("no_such_backend")
    with pytest.raises(TypeError):
        backends.lookup_backend(3)


def test_eager_imports_no_compiler():
    program = """
    import sys, torch, operator
    from pellucid import _core
    from pellucid.backends import call_backend
    g = _core._graph.GraphBuilder()
    x = g.placeholder("L['x']")
    g.output([g.call_function(operator.add, (x, 1))])
    gm = g.graph_module()
    gm.graph.lint()
    assert call_backend(gm, [torch.ones(1)], "eager")(torch.ones(1))[0].item() == 2
    print([m for m in ("torch._dynamo", "torch._inductor", "sympy", "torch._functorch.aot_autograd") if m in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


# The contract


def test_D01_D02_a_callable_gets_the_module_and_the_inputs(inputs):
    seen = []

    def backend(gm, example_inputs):
        seen.append((gm, example_inputs))
        return gm.forward

    gm, examples = mlp_module(*inputs)
    compiled = call_backend(gm, examples, backend, reason=GraphCompileReason("why", [], True))
    assert isinstance(gm, CapturedGraphModule) and seen[0][0] is gm
    assert type(seen[0][1]) is list and [a is b for a, b in zip(seen[0][1], inputs)] == [True, True]
    assert gm.compile_subgraph_reason.reason == "why"
    got = compiled(*inputs)
    assert type(got) is tuple and torch.equal(got[0], mlp(*inputs))


@pytest.mark.parametrize(
    "wrap", [lambda gm: gm, lambda gm: gm.forward, lambda gm: torch.fx.Interpreter(gm).run, lambda gm: gm.__call__]
)
def test_D01_what_a_backend_may_return(inputs, wrap):
    gm, examples = mlp_module(*inputs)
    compiled = call_backend(gm, examples, lambda gm, example_inputs: wrap(gm))
    assert torch.equal(compiled(*inputs)[0], mlp(*inputs))


def test_eager_returns_the_forward(inputs, caplog):
    gm, examples = mlp_module(*inputs)
    assert call_backend(gm, examples, "eager") is gm.forward
    with caplog.at_level(logging.WARNING):
        call_backend(gm, examples, "eager", options={"some_option": 1})
    assert "some_option" in caplog.text


def test_options_reach_a_backend(inputs):
    seen = {}

    def backend(gm, example_inputs, **kwargs):
        seen.update(kwargs)
        return gm

    gm, examples = mlp_module(*inputs)
    call_backend(gm, examples, backend, mode="default", options={})
    assert seen == {}
    call_backend(gm, examples, backend, mode="fast", options={"a": 1})
    assert seen == {"mode": "fast", "options": {"a": 1}}


class Planted(ValueError):
    pass


def failing_backend(gm, example_inputs):
    raise Planted("planted text")


def test_D10_failures_name_the_backend_and_keep_the_exception(inputs):
    import traceback

    gm, examples = mlp_module(*inputs)
    with pytest.raises(
        BackendCompilerFailed, match=r"backend='failing_backend' raised:\nPlanted: planted text"
    ) as caught:
        call_backend(gm, examples, failing_backend)
    assert type(caught.value.inner_exception) is Planted and caught.value.backend_name == "failing_backend"
    assert 'raise Planted("planted text")' in "".join(traceback.format_tb(caught.value.__traceback__))


@pytest.mark.parametrize("result", [None, 3, "text"])
def test_D01_a_result_that_cannot_be_called(inputs, result):
    gm, examples = mlp_module(*inputs)
    with pytest.raises(BackendCompilerFailed, match="did not return callable"):
        call_backend(gm, examples, lambda gm, example_inputs: result)


def test_requests_to_skip_pass_through(inputs):
    class SkipFrame(Exception):
        pass

    def backend(gm, example_inputs):
        raise SkipFrame

    gm, examples = mlp_module(*inputs)
    with pytest.raises(BackendSkips) as caught:  # which `_core` knows
        call_backend(gm, examples, backend)
    assert type(caught.value.__cause__) is SkipFrame


@pytest.mark.parametrize("fails", [False, True])
def test_D14_global_state_is_left_alone(inputs, fails):
    import random

    def backend(gm, example_inputs):
        assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_autocast_enabled("cpu", True)
        torch.use_deterministic_algorithms(True)
        torch.rand(3), random.random()
        if fails:
            raise Planted
        return gm

    torch.manual_seed(3)
    random.seed(3)
    expected = (torch.rand(1).item(), random.random())
    torch.manual_seed(3)
    random.seed(3)
    gm, examples = mlp_module(*inputs)
    try:
        call_backend(gm, examples, backend)
    except BackendCompilerFailed:
        assert fails
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    assert torch.get_default_dtype() is torch.float32 and not torch.are_deterministic_algorithms_enabled()
    assert (torch.rand(1).item(), random.random()) == expected


# AOTAutograd


def test_aot_eager_trains(inputs):
    gm, examples = mlp_module(*inputs)
    compiled = call_backend(gm, examples, "aot_eager")
    assert torch.equal(compiled(*inputs)[0], mlp(*inputs))
    expected = gradients(lambda x, w: (mlp(x, w),), *inputs)
    assert torch.equal(gradients(compiled, *inputs), expected)
    other = (torch.randn(2, 3), inputs[1])
    assert torch.equal(gradients(compiled, *other), gradients(lambda x, w: (mlp(x, w),), *other))


def test_aot_eager_compiles_each_direction_once(inputs):
    seen = []

    def compiler(direction):
        def record(gm, example_inputs):
            seen.append((direction, [tuple(x.shape) for x in example_inputs if isinstance(x, torch.Tensor)]))
            return gm.forward

        return record

    def backend(gm, example_inputs):
        from torch._dynamo.backends.common import fake_tensor_unsupported  # noqa: F401  torch's names are there

        from pellucid.backends.aot import aot_eager

        return aot_eager(gm, example_inputs, fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))

    gm, examples = mlp_module(*inputs)
    compiled = call_backend(gm, examples, backend)
    gradients(compiled, *inputs)
    gradients(compiled, *inputs)
    assert [direction for direction, _ in seen] == ["forward", "backward"]
    assert all(type(size) is int for _, shapes in seen for shape in shapes for size in shape)  # static shapes


def test_aot_eager_writes_inputs_and_keeps_aliases():
    x = torch.ones(2, 3)
    base = torch.arange(12.0)
    view = base[2:8].view(2, 3)
    r = Recorder()
    px, pv = r.input("L['x']", x), r.input("L['v']", view)
    y = r.call("add_", px, 1)
    z = r.call(operator.add, y, pv)
    gm = r.module(y, z, r.call("view", pv, 3, 2))
    compiled = call_backend(gm, r.examples, "aot_eager")
    assert torch.equal(x, torch.ones(2, 3))  # compiling runs nothing
    got = compiled(x, view)
    assert torch.equal(x, torch.full((2, 3), 2.0))
    assert torch.equal(got[0], x) and torch.equal(got[1], x + view)
    assert got[2].data_ptr() == view.data_ptr()


def add_into_module(a, b):
    r = Recorder()
    pa, pb = r.input("L['a']", a), r.input("L['b']", b)
    y = r.call("add_", pa, 1)
    return r.module(r.call(operator.add, y, pb)), r.examples


OVERLAPS = [
    (slice(0, 4), slice(4, 8)),
    (slice(0, 4), slice(2, 6)),
    (slice(2, 6), slice(0, 4)),
    (slice(0, 4), slice(0, 4)),
    None,
]


def overlapping(overlap):
    if overlap is None:
        return torch.arange(4.0), torch.arange(4.0)
    base = torch.arange(8.0)
    return base[overlap[0]], base[overlap[1]]


@pytest.mark.parametrize("compiled_for", OVERLAPS)
@pytest.mark.parametrize("name", ["aot_eager", "inductor"])
def test_inputs_that_share_memory(compiled_for, name):
    gm, examples = add_into_module(*overlapping(compiled_for))
    compiled = call_backend(gm, examples, name)
    for overlap in OVERLAPS:
        (a, b), (c, d) = overlapping(overlap), overlapping(overlap)
        (got,) = compiled(a, b)
        assert torch.equal(got, c.add_(1) + d) and torch.equal(a, c) and torch.equal(b, d)


def test_the_memory_guard_stays_on_after_a_cache_hit():
    from torch._dynamo.utils import counters

    counters.clear()
    for _ in range(2):
        gm, examples = add_into_module(torch.arange(5.0), torch.arange(5.0))
        compiled = call_backend(gm, examples, "inductor")
    assert counters["aot_autograd"]["autograd_cache_hit"] > 0
    base = torch.arange(7.0)
    assert torch.equal(compiled(base[:5], base[1:6])[0], torch.tensor([3.0, 5, 7, 9, 10]))


def test_pure_graphs_have_no_memory_guard(inputs):
    gm, examples = mlp_module(*inputs)
    assert type(call_backend(gm, examples, "aot_eager")).__name__ == "function"
    gm, examples = add_into_module(torch.ones(2), torch.ones(2))
    guarded = call_backend(gm, examples, "aot_eager")
    assert type(guarded).__name__ == "PreparedCall" and guarded.otherwise is gm.forward
    assert call_backend(gm, examples, lambda gm, example_inputs: gm) is gm


def test_the_memory_guard_is_released():
    gm, examples = add_into_module(torch.ones(2), torch.ones(2))
    guarded = call_backend(gm, examples, "aot_eager")
    guarded.compiled.cycle = guarded
    refs = [weakref.ref(guarded), weakref.ref(guarded.compiled), weakref.ref(gm)]
    del gm, examples, guarded
    torch._dynamo.reset()
    gc.collect()
    assert [ref() for ref in refs] == [None, None, None]


@pytest.mark.parametrize("name", ["eager", "aot_eager", "inductor"])
def test_constants_of_the_graph(name):
    x, constant = torch.ones(3), torch.arange(3.0)
    r = Recorder()
    px = r.input("L['x']", x)
    c = r.graph.get_attr("_tensor_constant0", constant, r.scope.fake_of(constant))
    r.values[id(c)] = (c, r.scope.fake_of(constant))
    gm = r.module(r.call(operator.mul, px, c))
    compiled = call_backend(gm, r.examples, name)
    assert torch.equal(compiled(x + 1)[0], constant * 2)


def test_aot_metadata(inputs):
    from torch._guards import CompileId
    from torch._subclasses.fake_tensor import FakeTensor

    gm, examples = mlp_module(*inputs)
    call_backend(gm, examples, "aot_eager", compile_id=(7, 2))
    assert gm.meta["dynamo_compile_id"] == CompileId(frame_id=7, frame_compile_id=2)
    for node in gm.graph.nodes:
        if node.op != "output":
            assert isinstance(node.meta["example_value"], FakeTensor)


def test_backend_of_the_user_on_aot(inputs):
    from functorch.compile import make_boxed_func
    from torch._functorch.aot_autograd import aot_module_simplified

    def backend(gm, example_inputs):
        return aot_module_simplified(gm, example_inputs, fw_compiler=lambda g, i: make_boxed_func(g.forward))

    gm, examples = mlp_module(*inputs)
    compiled = call_backend(gm, examples, backend)
    assert torch.equal(gradients(compiled, *inputs), gradients(lambda x, w: (mlp(x, w),), *inputs))


@pytest.mark.parametrize(
    "name",
    [
        "ts",
        "aot_ts",
        "aot_eager_decomp_partition",
        "aot_eager_default_partitioner",
        "eager_noexcept",
        "invoke_subgraph",
    ],
)
def test_debug_backends_of_torch(inputs, name):
    gm, examples = mlp_module(*inputs)
    compiled = call_backend(gm, examples, name)
    assert torch.allclose(compiled(*inputs)[0], mlp(*inputs))
    assert torch.allclose(gradients(compiled, *inputs), gradients(lambda x, w: (mlp(x, w),), *inputs))


# Inductor


def test_inductor_trains_and_infers(inputs):
    from torch._dynamo.utils import counters

    counters.clear()
    gm, examples = mlp_module(*inputs)
    compiled = call_backend(gm, examples, "inductor")
    assert torch.allclose(compiled(*inputs)[0], mlp(*inputs))
    assert torch.allclose(gradients(compiled, *inputs), gradients(lambda x, w: (mlp(x, w),), *inputs))
    with torch.no_grad():
        gm, examples = mlp_module(*inputs)
        compiled = call_backend(gm, examples, "inductor", options={"epilogue_fusion": True})
        assert torch.allclose(compiled(*inputs)[0], mlp(*inputs))
    aot = counters["aot_autograd"]
    assert aot["autograd_cache_bypass"] == 0 and aot["autograd_cache_hit"] + aot["autograd_cache_miss"] == 2


def test_inductor_refuses_unknown_options(inputs):
    with pytest.raises(RuntimeError, match="no_such_option"):
        backends.resolve_backend("inductor", options={"no_such_option": 1})
    with pytest.raises(RuntimeError, match="no-such-mode"):
        backends.resolve_backend("inductor", mode="no-such-mode")
    assert (
        backends.resolve_backend("inductor", mode="max-autotune-no-cudagraphs").function.config["max_autotune"] is True
    )
