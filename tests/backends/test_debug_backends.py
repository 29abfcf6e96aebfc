"""Rows E01 to E25 of docs/feature_rows.md: the debugging backends, beside the stock ones where their behaviour is the measure."""

from __future__ import annotations

import functools
import itertools
import logging
import subprocess
import sys
import textwrap
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import pellucid
from pellucid import backends
from pellucid.errors import BackendCompilerFailed, GraphFailed, InvalidBackend
from support import same

X = torch.tensor([-1.0, 0.5, 2.0])

# Names that stock torch has too, with a call that each can take by its name alone.
NAMES = [
    "eager",
    "eager_noexcept",
    "pre_dispatch_eager",
    "eager_debug",
    "ts",
    "invoke_subgraph",
    "aot_eager",
    "aot_eager_default_partitioner",
    "aot_eager_decomp_partition",
    "aot_eager_decomp_partition_crossref",
    "aot_ts",
]
OURS_ALONE = ["interpreter", "skip"]
TESTING_ONLY = [
    "relu_compile_error_TESTING_ONLY",
    "relu_runtime_error_TESTING_ONLY",
    "relu_accuracy_error_TESTING_ONLY",
    "non_leaf_compile_error_TESTING_ONLY",
]


def compiled(f, backend, **more):
    return pellucid.compile(f, backend=backend, fullgraph=True, **more)


def gradients(f, *args):
    leaves = [arg.detach().clone().requires_grad_() for arg in args]
    return torch.autograd.grad(f(*leaves).sum(), leaves)


@pytest.fixture
def stock():
    yield lambda f, backend, **more: torch.compile(f, backend=backend, **more)
    torch._dynamo.reset()


numbers = itertools.count()


def define(schema, kernel, fake, mutates=()):
    """An operator; its name is new at each call."""
    name, _, arguments = schema.partition("(")
    operator = torch.library.custom_op(
        f"pellucid_debug::{name}_{next(numbers)}", kernel, mutates_args=mutates, schema="(" + arguments
    )
    operator.register_fake(fake)
    return operator._opoverload.overloadpacket


# ---- E01, E02: names


def test_E01_a_backend_by_name_and_as_a_callable():
    seen = []

    def counting_backend(gm, example_inputs):
        seen.append(len(example_inputs))
        return gm.forward

    backends.register_backend(counting_backend)
    try:
        assert same(compiled(lambda x: x + 1, "counting_backend")(X), X + 1)
        assert same(compiled(lambda x: x + 2, counting_backend)(X), X + 2)
        assert seen == [1, 1]
        with pytest.raises(AssertionError, match="duplicate name: counting_backend"):
            backends.register_backend(counting_backend)
        with pytest.raises(AssertionError, match="duplicate name: eager"):
            backends.register_backend(counting_backend, name="eager")
    finally:
        backends.unregister_backend("counting_backend")


def test_E01_registered_by_decorator_with_a_name():
    @backends.register_debug_backend(name="a_debug_backend")
    def other(gm, example_inputs):
        return gm.forward

    try:
        assert backends.lookup_backend("a_debug_backend") is other
        assert "a_debug_backend" not in backends.list_backends()
        assert "a_debug_backend" in backends.list_backends(exclude_tags=("experimental",))
    finally:
        backends.unregister_backend("a_debug_backend")


def test_E01_entry_points_of_other_packages(tmp_path):
    (tmp_path / "their_package.py").write_text("def backend(gm, example_inputs):\n    print('theirs')\n    return gm\n")
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\ntheir_backend = their_package:backend\n")
    program = """
    import torch, pellucid
    assert "their_backend" in pellucid.list_backends()
    print(pellucid.compile(lambda x: x + 1, backend="their_backend")(torch.zeros(1)).item())
    """
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({str(tmp_path)!r})\n{textwrap.dedent(program)}"],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "theirs\n1.0\n", done.stderr


def test_E02_what_is_listed():
    from torch._dynamo.backends.registry import list_backends as stocks

    everything = {*NAMES, *OURS_ALONE, *TESTING_ONLY, "aot_eager_decomp_partition_with_mode"}
    assert everything.isdisjoint(pellucid.list_backends()) and "inductor" in pellucid.list_backends()
    assert everything | set(stocks(None)) <= set(pellucid.list_backends(None))
    assert everything - set(OURS_ALONE) <= set(stocks(None))  # the names are torch's
    assert set(pellucid.list_backends()) == set(stocks())


def test_E02_an_unknown_name():
    with pytest.raises(InvalidBackend, match=r"Invalid backend: 'no_such'.*inductor.*list_backends\(None\)") as caught:
        pellucid.compile(lambda x: x, backend="no_such")
    assert caught.value.name == "no_such"


def test_E02_all_of_ours_are_ours():
    from pellucid.backends import builtin

    for name in builtin.TABLE:
        assert backends.lookup_backend(name).__module__.startswith("pellucid.backends."), name


# ---- E03, E04, E05: eager


@pytest.mark.parametrize("name", [*NAMES, "interpreter"])
def test_E03_results_and_gradients_are_eagers(name):
    def f(x, y):
        return F.linear(x.sin() * y, torch.eye(3)) + x.relu()

    g = compiled(f, name)
    assert torch.allclose(g(X, X + 1), f(X, X + 1))
    for ours, theirs in zip(gradients(g, X, X + 1), gradients(f, X, X + 1), strict=True):
        assert torch.allclose(ours, theirs)
    assert torch.allclose(g(torch.ones(5, 3), X), f(torch.ones(5, 3), X))


def test_E03_eager_gives_the_graphs_forward():
    given = []

    def backend(gm, example_inputs):
        given.append((gm.forward, backends.lookup_backend("eager")(gm, example_inputs)))
        return given[-1][1]

    assert same(compiled(torch.sin, backend)(X), X.sin())
    ((forward, result),) = given
    assert result is forward


@pytest.mark.parametrize(
    "name",
    ["eager", "eager_noexcept", "pre_dispatch_eager", "eager_debug", "aot_eager_decomp_partition", "invoke_subgraph"],
)
def test_E04_unknown_options_are_told(name, caplog):
    with caplog.at_level(logging.WARNING):
        assert same(compiled(lambda x: x + 1, name, options={"an_option": 1})(X), X + 1)
    (record,) = [record for record in caplog.records if record.name.startswith("pellucid.backends")]
    assert record.levelno == logging.WARNING and name in record.getMessage() and "an_option" in record.getMessage()


def test_E05_a_callable_that_can_be_stored():
    from torch._dynamo.aot_compile_types import GraphModuleSerializableCallable
    from torch._functorch import config

    given = []

    def backend(gm, example_inputs):
        given.append(backends.lookup_backend("eager")(gm, example_inputs))
        return given[-1]

    with config.patch(force_autograd_cache=True):
        g = compiled(lambda x: (x + 1).relu(), backend)
        assert same(g(X), (X + 1).relu())
    assert type(given[0]) is GraphModuleSerializableCallable
    stored = GraphModuleSerializableCallable.serialize_compile_artifacts(given[0])
    again = GraphModuleSerializableCallable.deserialize_compile_artifacts(stored)
    assert same(again(X)[0], (X + 1).relu())


# ---- E06: in torch function modes


class Instead(TorchFunctionMode):
    """Calls another function instead of one, and notes the calls that it saw."""

    def __init__(self, function, other, seen=None):
        super().__init__()
        self.function, self.other, self.seen = function, other, [] if seen is None else seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append((self.other.__name__, func))
        if func is self.function:
            return self.other(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def test_E06_a_torch_function_mode():
    f = lambda x: torch.sin(x) + 1  # noqa: E731
    g = compiled(f, backends.make_eager_backend_with_torch_function_mode(Instead(torch.sin, torch.cos)))
    for _ in range(2):
        assert same(g(X), torch.cos(X) + 1)
    assert same(f(X), torch.sin(X) + 1)


def test_E06_several_modes_in_their_order(stock):
    from torch._dynamo.backends.debugging import make_eager_backend_with_torch_function_modes as stocks

    def run(make, compile):
        seen = []
        modes = [Instead(torch.cos, torch.exp, seen), Instead(torch.sin, torch.cos, seen)]
        g = compile(lambda x: torch.sin(x), make(iter(modes) if compile is compiled else modes))
        first = g(X)
        assert same(first, X.exp()) and same(g(X), X.exp())  # cos of the inner mode goes on to the outer one
        return [(name, func) for name, func in seen if func in (torch.sin, torch.cos)]

    assert run(backends.make_eager_backend_with_torch_function_modes, compiled) == run(stocks, stock)


# ---- E07 to E09


def test_E07_exceptions_of_a_graph():
    def kernel(x):
        raise ValueError("planted")

    op = define("fails(Tensor x) -> Tensor", kernel, torch.empty_like)

    def f(x):
        try:
            return op(x) + 1
        except ValueError:
            return x

    for name in ("eager", "interpreter", "aot_eager"):
        assert same(pellucid.compile(f, backend=name)(X), X)
    with pytest.raises(pellucid.errors.PellucidError, match="a captured graph raised") as caught:
        pellucid.compile(f, backend="eager_noexcept")(X)
    assert type(caught.value.__cause__) is ValueError and str(caught.value.__cause__) == "planted"


def test_E08_what_is_printed(capsys):
    f = lambda x: torch.relu(x) * 2  # noqa: E731
    g = compiled(f, "pre_dispatch_eager")
    assert same(g(X), f(X))
    printed = capsys.readouterr().out
    assert "aten.relu" in printed and "aten.mul" in printed
    assert same(g(X), f(X)) and capsys.readouterr().out == ""


def test_E08_inputs_are_written_once(stock):
    """Z06: the stock backend writes the example inputs while it looks at the graph."""

    def f(x):
        x.add_(1)
        return x * 2

    ours, theirs = torch.zeros(2), torch.zeros(2)
    assert same(compiled(f, "pre_dispatch_eager")(ours), torch.full((2,), 2.0))
    stock(f, "pre_dispatch_eager")(theirs)
    assert same(ours, torch.ones(2)) and same(theirs, torch.full((2,), 2.0))


def test_E08_draws_and_views_of_inputs():
    def f(x, y):
        x.mul_(2)
        return y + torch.rand(2)

    base, other = torch.ones(4), torch.ones(4)
    g = compiled(f, "pre_dispatch_eager")
    for _ in range(2):
        torch.manual_seed(1)
        want = f(other[:3], other[1:3])
        torch.manual_seed(1)
        assert same(g(base[:3], base[1:3]), want) and same(base, other)


def test_E09_operators_that_do_not_do_what_they_declare(stock):
    def writes(x):
        x.add_(1)
        return x * 2

    pure = define("says_it_is_pure(Tensor x) -> Tensor", writes, torch.empty_like)
    honest = define("honest(Tensor(a!) x) -> Tensor", writes, torch.empty_like, ("x",))
    alias = define("gives_its_argument(Tensor x) -> Tensor", lambda x: x, torch.empty_like)
    for compile in (compiled, stock):
        assert same(compile(lambda x: honest(x) + 1, "eager_debug")(torch.zeros(2)), torch.full((2,), 3.0))
        with pytest.raises(RuntimeError, match="mutated"):
            compile(lambda x: pure(x) + 1, "eager_debug")(torch.zeros(2))
        with pytest.raises(RuntimeError, match="alias"):
            compile(lambda x: alias(x) + 1, "eager_debug")(torch.zeros(2))


def test_E09_at_every_run():
    writes_now = []

    def kernel(x):
        return x.add_(1) * 2 if writes_now else x * 2

    op = define("sometimes(Tensor x) -> Tensor", kernel, torch.empty_like)
    g = compiled(lambda x: op(x) + 1, "eager_debug")
    assert same(g(X.clone()), X * 2 + 1)
    writes_now.append(True)
    with pytest.raises(GraphFailed, match="schema"):
        g(X.clone())


def test_E09_errors_of_the_program_are_its_own():
    def f(x, index):
        try:
            return x[index] + 1
        except IndexError:
            return x - 1

    g = pellucid.compile(f, backend="eager_debug")
    for index in (torch.tensor([1]), torch.tensor([9])):
        assert same(g(X, index), f(X, index))


# ---- E10, E21: TorchScript


class Recording:
    """A backend that hands on to another one and keeps what that gives."""

    def __init__(self, name):
        self.name, self.given = name, []

    def __call__(self, gm, example_inputs, **options):
        self.given.append(backends.lookup_backend(self.name)(gm, example_inputs, **options))
        return self.given[-1]


def test_E10_ts_gives_a_script_module(stock):
    f = lambda x: torch.relu(x) + 1  # noqa: E731
    recording = Recording("ts")
    assert same(compiled(f, recording)(X), f(X))
    assert isinstance(recording.given[0], torch.jit.ScriptModule)
    with pytest.raises(BackendCompilerFailed, match="options"):
        compiled(f, "ts", options={"an_option": 1})(X)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):  # Z07
        stock(f, "ts")(X)


@pytest.mark.parametrize("name", ["ts", "aot_ts"])
def test_E10_E21_lazy_graph_modules(name):
    """Z07: the stock ones cannot script the modules that torch makes where they are made lazily."""
    from torch.fx._lazy_graph_module import _use_lazy_graph_module

    f = lambda x: (x.sin() @ x).relu()  # noqa: E731
    with _use_lazy_graph_module(True):
        g = compiled(f, name)
        assert torch.allclose(g(X), f(X))
        assert torch.allclose(gradients(g, X)[0], gradients(f, X)[0])


def test_E21_aot_ts_trains(stock):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    other.load_state_dict(net.state_dict())
    for module in (compiled(net, "aot_ts"), other):
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        for step in range(3):
            optimizer.zero_grad()
            module(torch.full((2, 3), float(step))).sum().backward()
            optimizer.step()
    for ours, theirs in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.allclose(ours, theirs)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):  # Z07
        stock(other, "aot_ts")(X).sum().backward()


# ---- E11: invoke_subgraph


def test_E11_plainly_it_is_aot_eager():
    f = lambda x: x.sin().cos()  # noqa: E731
    g = compiled(f, "invoke_subgraph")
    assert torch.allclose(g(X), f(X)) and torch.allclose(gradients(g, X)[0], gradients(f, X)[0])


@pytest.mark.parametrize("called_before", [False, True])
def test_E11_a_compiled_function_is_one_call_for_make_fx(called_before):
    f = lambda x: x.sin().cos()  # noqa: E731
    g = pellucid.compile(f, backend="invoke_subgraph")
    if called_before:
        g(X)
    with torch._dynamo.config.patch(force_compile_during_fx_trace=True):
        traced = make_graph(lambda x: g(x) + 1, X)
    (call,) = [node for node in traced.graph.nodes if node.target is torch.ops.higher_order.invoke_subgraph]
    subgraph = getattr(traced, call.args[0].target)
    assert {"sin", "cos"} <= {
        str(node.target).split(".")[1] for node in subgraph.graph.nodes if node.op == "call_function"
    }
    assert torch.allclose(traced(X + 1), f(X + 1) + 1) and torch.allclose(g(X), f(X))


def test_E11_what_cannot_be_captured_is_traced_through():
    def f(x):
        y = x.sin()
        pellucid.graph_break()
        return y.cos()

    g = pellucid.compile(f, backend="invoke_subgraph")
    with torch._dynamo.config.patch(force_compile_during_fx_trace=True):
        traced = make_graph(g, X)
    assert torch.allclose(traced(X + 1), f(X + 1))


def test_E11_without_being_asked_for_it_is_traced_through(stock):
    """Where stock torch refuses: the operators one by one are what make_fx asks for."""
    f = lambda x: x.sin().cos()  # noqa: E731
    with pytest.raises(RuntimeError, match="FX to symbolically trace"):
        make_graph(stock(f, "invoke_subgraph"), X)
    inlined = make_graph(pellucid.compile(f, backend="invoke_subgraph"), X)
    assert [node.target for node in inlined.graph.nodes if node.op == "call_function"] == [
        torch.ops.aten.sin.default,
        torch.ops.aten.cos.default,
    ]


# ---- E12, E13, E14: compilers that run AOTAutograd's graphs


def make_graph(f, *args):
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(f)(*args)


def test_E12_boxed_and_inputs_go_early():
    from pellucid.backends.nop import boxed_nop

    died = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            died.append((func.__name__, ref() is None))
            return func(*args, **(kwargs or {}))

    run = boxed_nop(make_graph(lambda x: x.sin().cos(), X), [X])
    assert run._boxed_call is True
    given = [X.clone()]
    ref = weakref.ref(given[0])
    with Watch():
        (result,) = [run(given)]
    assert given == [] and same(result, X.sin().cos())
    assert died == [("sin.default", False), ("cos.default", True)]


def test_E12_node_by_node_in_a_debug_mode():
    from torch.utils._debug_mode import DebugMode

    from pellucid.backends.nop import boxed_nop

    run = boxed_nop(make_graph(lambda x: x.sin().cos(), X), [X])
    with DebugMode(run_compile_with_interpreter=True) as mode:
        assert same(run([X]), X.sin().cos())
    assert "aot_eager region (compile)" in mode.debug_string()
    with DebugMode() as mode:
        run([X])
    assert "region" not in mode.debug_string() and "sin" in mode.debug_string()


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_E13_inside_a_mode():
    from pellucid.backends.nop import boxed_nop_with_mode

    mode = Counting()
    run = boxed_nop_with_mode(make_graph(lambda x: x.sin().cos(), X), [X], mode=mode)
    assert run._boxed_call is True
    assert same(run([X]), X.sin().cos()) and same(run([X]), X.sin().cos())
    assert mode.calls == ["sin.default", "cos.default"] * 2


def test_E14_four_settings_four_outcomes():
    from torch._functorch import config
    from torch._subclasses.fake_utils import MetadataMismatchError

    from pellucid.backends import nop

    wrong = define("wrong_shape(Tensor x) -> Tensor", lambda x: x * 2, lambda x: x.new_empty(1))

    def outcome(setting):
        graph = torch.fx.symbolic_trace(lambda x: torch.ops.aten.sin.default(x))
        for node in graph.graph.nodes:
            if node.op == "call_function" and setting[1]:
                node.target = wrong.default
        graph.recompile()
        with config.patch(fake_tensor_crossref=setting[0]):
            run = nop.get_nop_func()(graph, [X])
        try:
            return run([X])
        except GraphFailed as error:
            return "mismatch" if isinstance(error, MetadataMismatchError) else error

    assert same(outcome((False, True)), X * 2)
    assert outcome(("all", True)) == outcome(("custom_ops", True)) == "mismatch"
    assert same(outcome(("custom_ops", False)), X.sin()) and same(outcome(("all", False)), X.sin())
    with config.patch(fake_tensor_crossref="something"), pytest.raises(AssertionError, match="something"):
        nop.get_nop_func()
    with config.patch(fake_tensor_crossref=False):
        assert nop.get_nop_func() is nop.boxed_nop
    with config.patch(fake_tensor_crossref="all"):
        assert nop.get_nop_func() is nop.fake_crossref_boxed_nop
    assert nop.ignore_builtins(torch.ops.aten.sin.default) and not nop.ignore_builtins(wrong.default)


# ---- E15 to E20: AOTAutograd


def test_E15_training_mutations_and_compilers():
    calls = []

    def recording(direction):
        def compiler(gm, example_inputs):
            from functorch.compile import make_boxed_func

            calls.append(direction)
            return make_boxed_func(gm.forward)

        return compiler

    backend = functools.partial(
        backends.lookup_backend("aot_eager"), fw_compiler=recording("forward"), bw_compiler=recording("backward")
    )

    def f(x, buffer):
        buffer.add_(1)
        return (x.sin() * x).sum() + buffer.detach().sum()

    for backend, expected in ((backend, ["forward", "backward"]), ("aot_eager", [])):
        calls.clear()
        g = compiled(f, backend)
        x, buffer, other = X.clone().requires_grad_(), torch.zeros(2), torch.zeros(2)
        g(x, buffer).backward()
        want = X.clone().requires_grad_()
        f(want, other).backward()
        assert torch.allclose(x.grad, want.grad) and same(buffer, other) and calls == expected
    with torch.no_grad():  # an inference graph writes its inputs itself
        g(X, buffer)
    assert same(buffer, torch.full((2,), 2.0))


def forward_outputs(name, f, x):
    """How many values the forward graph of a backend gives: its results and what it saves."""
    from unittest import mock

    from pellucid.backends import aot, nop

    seen = []

    def compiler(gm, example_inputs):
        seen.append(len(gm.graph.output_node().args[0]))
        return nop.boxed_nop(gm, example_inputs)

    with mock.patch.object(aot, "boxed_nop", compiler):
        g = compiled(f, name)
        g(x.clone().requires_grad_()).sum().backward()
    return seen[0]


def test_E16_the_default_partitioner_saves_more():
    f = lambda x: x.sin().cos().sin().cos().sin()  # noqa: E731
    few, many = (forward_outputs(name, f, X) for name in ("aot_eager", "aot_eager_default_partitioner"))
    assert few < many
    grads = [gradients(compiled(f, name), X)[0] for name in ("aot_eager", "aot_eager_default_partitioner")]
    assert torch.allclose(*grads) and torch.allclose(grads[0], gradients(f, X)[0])


def test_E17_inductors_decompositions():
    calls = []

    class Noting(Counting):
        pass

    for name, decomposed in (("aot_eager", False), ("aot_eager_decomp_partition_with_mode", True)):
        mode = Noting()
        if decomposed:
            backend = functools.partial(backends.lookup_backend(name), mode=mode)
        else:
            from pellucid.backends.nop import boxed_nop_with_mode

            backend = functools.partial(
                backends.lookup_backend(name), fw_compiler=functools.partial(boxed_nop_with_mode, mode=mode)
            )
        assert torch.allclose(compiled(lambda x: F.gelu(x), backend)(X), F.gelu(X))
        calls.append(mode.calls)
    assert "gelu.default" in calls[0]
    assert "gelu.default" not in calls[1] and {"mul.Tensor", "erf.default"} <= set(calls[1])


def test_E17_it_writes_no_code(tmp_path):
    program = """
    import torch, pellucid
    import torch.nn.functional as F
    x = torch.ones(3)
    print(torch.allclose(pellucid.compile(F.gelu, backend="aot_eager_decomp_partition")(x), F.gelu(x)))
    """
    environment = {
        "PATH": "/nowhere",
        "CXX": "/nowhere/g++",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "True\n", done.stderr


def test_E17_the_bisectors_setting_holds(monkeypatch):
    from torch._functorch import config
    from torch._inductor.compiler_bisector import CompilerBisector

    seen = []
    monkeypatch.setattr(CompilerBisector, "get_config_change", classmethod(lambda cls, name: {"cse": False}))
    from pellucid.backends import aot

    def note(*args, **more):
        seen.append((config.cse, config.unlift_effect_tokens))
        return args[0].forward

    monkeypatch.setattr(aot, "over_aot", note)
    assert same(compiled(torch.sin, "aot_eager_decomp_partition")(X), X.sin())
    assert seen == [(False, True)] and config.cse is True


def test_E18_inductor_is_loaded_when_it_is_used():
    program = """
    import sys, torch, pellucid
    from pellucid.backends import lookup_backend
    x = torch.ones(3)
    lookup_backend("aot_eager_decomp_partition")
    pellucid.compile(lambda x: x + 1, backend="aot_eager")(x)
    print("torch._inductor.compile_fx" in sys.modules)
    pellucid.compile(lambda x: x + 1, backend="aot_eager_decomp_partition")(x)
    print("torch._inductor.compile_fx" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.stdout == "False\nTrue\n", done.stderr


def test_E19_in_a_mode():
    mode = Counting()
    backend = functools.partial(backends.lookup_backend("aot_eager_decomp_partition_with_mode"), mode=mode)
    x = X.clone().requires_grad_()
    compiled(lambda x: x.sin().sum(), backend)(x).backward()
    assert same(x.grad, X.cos())
    assert {"sin.default", "cos.default"} <= set(mode.calls)  # of the backward graph too
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(torch.sin, "aot_eager_decomp_partition_with_mode")(X)
    assert type(caught.value.inner_exception) is TypeError and "mode" in str(caught.value)


def test_E20_a_wrong_fake_implementation(stock):
    from torch._functorch import config
    from torch._subclasses.fake_utils import MetadataMismatchError

    op = define("crossed(Tensor x) -> Tensor", lambda x: x * 2, lambda x: x.new_empty(1, 3))
    f = lambda x: op(x)  # noqa: E731
    with pytest.raises(MetadataMismatchError) as ours:
        compiled(f, "aot_eager_decomp_partition_crossref")(X)
    assert isinstance(ours.value, GraphFailed)
    with pytest.raises(MetadataMismatchError):
        stock(f, "aot_eager_decomp_partition_crossref")(X)
    compiled(f, "aot_eager_decomp_partition")(X)  # does not notice
    with config.patch(fake_tensor_crossref="all"), pytest.raises(MetadataMismatchError):
        compiled(f, "aot_eager_decomp_partition_crossref")(X)
    assert config.fake_tensor_crossref is False


# ---- E22 to E25: wrong on purpose


def uses_of_relu():
    module = torch.nn.ReLU()
    return [lambda x: F.relu(x), lambda x: x.relu(), lambda x: module(x)]


def test_E22_compile_error():
    from pellucid.backends.planted import ReluCompileError

    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(lambda x: torch.relu(x), "relu_compile_error_TESTING_ONLY")(X)
    assert type(caught.value.inner_exception) is ReluCompileError
    for f in uses_of_relu():  # Z32
        assert same(compiled(f, "relu_compile_error_TESTING_ONLY")(X), X.relu())


@pytest.mark.parametrize("calls", [1, 5])
def test_E23_runtime_error(calls):
    g = compiled(lambda x: torch.relu(x) + 1, "relu_runtime_error_TESTING_ONLY")
    for _ in range(calls):
        with pytest.raises(AssertionError, match=r"^ReluRuntimeError$"):
            g(X)
    for f in uses_of_relu():
        assert same(compiled(f, "relu_runtime_error_TESTING_ONLY")(X), X.relu())


def test_E24_accuracy_error(stock):
    x = torch.tensor([-1.0, 1.0])
    g = compiled(lambda x: torch.relu(x), "relu_accuracy_error_TESTING_ONLY")
    assert same(g(x), torch.tensor([0.0, 2.0]))
    assert same(g(x), stock(lambda x: torch.relu(x), "relu_accuracy_error_TESTING_ONLY")(x))
    for f in uses_of_relu():
        assert same(compiled(f, "relu_accuracy_error_TESTING_ONLY")(x), x.relu())


def test_E25_inputs_that_are_no_leaves():
    from pellucid.backends.planted import TestingOnlyCompileError

    f = lambda x: torch.sin(x) + 1  # noqa: E731
    leaf = X.clone().requires_grad_()
    assert same(compiled(f, "non_leaf_compile_error_TESTING_ONLY")(leaf), f(leaf))
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(f, "non_leaf_compile_error_TESTING_ONLY")(leaf.sin())
    assert type(caught.value.inner_exception) is TestingOnlyCompileError
    assert same(compiled(lambda x: (x,), "non_leaf_compile_error_TESTING_ONLY")(leaf.sin())[0], X.sin())
