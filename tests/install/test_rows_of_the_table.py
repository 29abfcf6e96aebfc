"""What programs call of torch.compile, torch.compiler and torch._dynamo, and what they get while pellucid is installed."""

import copy
import pickle
import warnings

import pytest
import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend, EagerAndRecordGraphs

import pellucid
from pellucid.takeover import once
from support import same

X = torch.arange(6.0).reshape(2, 3)
bound_early = torch.compile, torch._dynamo.optimize, torch._dynamo.eval_frame.optimize_assert


@pytest.fixture(autouse=True)
def installed():
    once._told.clear()
    with pellucid.installed():
        yield


def is_ours(compiled):
    return isinstance(compiled, (pellucid._core.CompiledFunction, pellucid._module.OptimizedModule))


def f(x):
    return (x.sin() + 1) * 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()


# ---- compiling


@pytest.mark.parametrize(
    "form",
    [
        lambda b: torch.compile(f, backend=b),
        lambda b: torch.compile(backend=b)(f),
        lambda b: torch.compiler.compile(f, backend=b),
        lambda b: torch._dynamo.optimize(b)(f),
        lambda b: torch._dynamo.optimize(b, nopython=True)(f),
        lambda b: torch._dynamo.optimize_assert(b)(f),
        lambda b: bound_early[0](f, backend=b),
        lambda b: bound_early[1](b)(f),
        lambda b: bound_early[2](b)(f),
        lambda b: torch.compile(torch.compile(f, backend="eager"), backend=b),
        lambda b: torch.compile(torch.compiler.disable(f), backend=b),
        lambda b: torch.compile(f, backend=b, isolate_recompiles=True),
        lambda b: torch.compile(f, backend=b, dynamic=True),
        lambda b: torch.compile(f, backend=b, name="f"),
    ],
)
def test_M01_functions_are_compiled_by_pellucid(form, counting):
    compiled = form(counting)
    assert is_ours(compiled) and compiled._is_torch_compile
    assert same(compiled(X), f(X)) and same(compiled(X), f(X))
    assert counting.count == 1 and len(pellucid.cache_entries(compiled)) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", None])
@pytest.mark.parametrize("compiler", [torch.compile, bound_early[0]], ids=["while", "before"])
def test_backends_by_name(backend, compiler):
    compiled = compiler(f, **({"backend": backend} if backend else {}))
    assert is_ours(compiled) and torch.allclose(compiled(X), f(X))
    assert len(pellucid.cache_entries(compiled)) == 1


def test_modes_and_options_reach_the_backend():
    seen = []

    def backend(gm, inputs, **options):
        seen.append(options)
        return gm.forward

    for compiler in (torch.compile, bound_early[0]):
        compiler(f, backend=backend, mode="max-autotune")(X)
        compiler(f, backend=backend, options={"a": 1})(X)
        compiler(f, backend=backend, options={"guard_filter_fn": lambda guards: [True] * len(guards)})(X)
    assert seen == [{"mode": "max-autotune"}, {"options": {"a": 1}}, {}] * 2
    with pytest.raises(RuntimeError, match="mode"):
        torch.compile(f, mode="default", options={})


def test_the_default_backend(counting):
    torch.compiler.set_default_backend(counting)
    try:
        assert same(torch.compile(f)(X), f(X)) and counting.count == 1
    finally:
        torch.compiler.set_default_backend(None)


@pytest.mark.parametrize("name", ["TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"])
def test_the_environment_may_disable(name, monkeypatch):
    monkeypatch.setenv(name, "1")
    assert torch.compile(f) is f and torch._dynamo.optimize("eager")(f) is f


def test_torchs_option_may_disable():
    with torch._dynamo.config.patch(disable=True):
        assert torch.compile(f) is f
    assert torch.compile(f, disable=True) is f


def test_modules(counting):
    net = Net()
    for compiler in (torch.compile, bound_early[0]):
        compiled = compiler(net, backend=counting)
        assert is_ours(compiled) and same(compiled(X), net(X))
        assert isinstance(compiled, torch._dynamo.OptimizedModule)
        assert isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule)
        assert compiled._orig_mod is net
        for other in (copy.deepcopy(compiled), copy.copy(compiled)):
            assert is_ours(other) and isinstance(other, torch._dynamo.OptimizedModule) and same(other(X), net(X))
        assert same(compiled.dynamo_ctx(f)(X), f(X)) and is_ours(compiled.dynamo_ctx(net))
    eager = pickle.loads(pickle.dumps(torch.compile(net, backend="eager")))
    assert is_ours(eager) and same(eager(X), net(X))


def test_module_compile(counting):
    net = Net()
    want = net(X)
    net.compile(backend=counting, fullgraph=True)
    assert same(net(X), want) and counting.count == 1
    assert is_ours(net._compiled_call_impl.__func__)


def test_methods_and_classes(counting):
    net = Net()
    assert same(torch.compile(net.forward, backend=counting)(X), net(X)) and counting.count == 1

    @torch.compile(backend=counting)
    class Callable:
        def __call__(self, x):
            return x + 1

    assert same(Callable()(X), X + 1) and counting.count == 2


def test_compiled_by_torch_and_again():
    pellucid.uninstall()
    try:
        function, module = torch.compile(f, backend="eager"), torch.compile(Net(), backend="eager")
    finally:
        pellucid.install()
    assert is_ours(torch.compile(function, backend="eager"))
    again = torch.compile(module, backend="eager")
    assert is_ours(again) and again._orig_mod is module._orig_mod and same(again(X), module._orig_mod(X))


def test_shapes_spec_and_guard_fail_fn_say_that_they_are_not_known():
    with pytest.warns(once.NoMeaningWarning, match="shapes_spec"):
        assert same(torch.compile(f, backend="eager", shapes_spec=object())(X), f(X))
    with pytest.warns(once.NoMeaningWarning, match="guard_fail_fn"):
        torch._dynamo.optimize("eager", guard_fail_fn=print)(f)


def test_isolated_functions_have_entries_of_their_own():
    first, second = (torch.compile(f, backend="eager", isolate_recompiles=True) for _ in range(2))
    first(X)
    assert len(pellucid.cache_entries(first)) == 1 and not pellucid.cache_entries(second)


def test_run_compiles_nothing(counting):
    compiled = torch.compile(f, backend=counting)
    for target in (compiled, f):
        assert same(torch._dynamo.run(target)(X), f(X)) and counting.count == 0
    compiled(X)
    run = torch._dynamo.run(compiled)
    assert same(run(X), f(X)) and same(run(X.double()), f(X.double())) and counting.count == 1
    net = torch.compile(Net(), backend=counting)
    assert same(torch._dynamo.run(net)(X), net._orig_mod(X)) and counting.count == 1
    assert same(torch._dynamo.run()(compiled)(X), f(X))


def test_optimize_is_no_context_manager():
    with pytest.raises(RuntimeError), torch._dynamo.optimize("eager"):
        pass


def test_error_on_graph_break_of_optimize():
    def breaks(x):
        torch._dynamo.graph_break()
        return x + 1

    strict = torch._dynamo.optimize("eager", error_on_graph_break=True)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        strict(breaks)(X)

    class Breaks(torch.nn.Module):
        def forward(self, x):
            return breaks(x)

    with pytest.raises(torch._dynamo.exc.Unsupported):
        strict(Breaks())(X)
    assert same(torch._dynamo.optimize("eager", error_on_graph_break=False)(breaks)(X), X + 1)


# ---- errors are torch's too


def test_unsupported_is_torchs():
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(lambda x: print(x), backend="eager", fullgraph=True)(X)
    assert isinstance(caught.value, pellucid.errors.Unsupported)
    assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)


def test_failing_backends_are_torchs():
    def fails(gm, inputs):
        raise KeyError("here")

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(f, backend=fails)(X)
    assert isinstance(caught.value.inner_exception, KeyError) and "'fails'" in str(caught.value)
    assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)


def test_unknown_backends_are_torchs():
    for compiler in (torch.compile, bound_early[0]):
        with pytest.raises(torch._dynamo.exc.InvalidBackend):
            compiler(f, backend="no_such_backend")


def test_limits_are_torchs():
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        compiled = torch.compile(f, backend="eager", dynamic=False)
        compiled(X)
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            compiled(X[:1])
    with torch._dynamo.config.patch(error_on_recompile=True):
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        compiled(X)
        with pytest.raises(torch._dynamo.exc.RecompileError):
            compiled(X.double())


# ---- state and reports


def test_M14_is_compiling():
    seen = []

    def backend(gm, inputs):
        seen.append(torch.compiler.is_compiling())
        return gm.forward

    def asks(x):
        return x + 1 if torch.compiler.is_compiling() else x + 2

    assert not torch.compiler.is_compiling()
    assert same(torch.compile(asks, backend=backend, fullgraph=True)(X), X + 1) and seen == [True]
    pellucid.uninstall()
    try:  # the function that others have bound: it is the original one
        before = torch.compiler.is_compiling
    finally:
        pellucid.install()
    assert same(torch.compile(lambda x: x + 1 if before() else x + 2, backend="eager", fullgraph=True)(X), X + 1)


def test_M15_is_dynamo_compiling():
    class Probe(torch.nn.Module):
        def forward(self, x):
            x = x + 1 if torch.compiler.is_dynamo_compiling() else x
            x = x + 10 if torch.compiler.is_compiling() else x
            return x + 100 if torch.compiler.is_exporting() else x

    zero = torch.zeros(1)
    assert Probe()(zero).item() == 0
    assert torch.compile(Probe(), backend="eager")(zero).item() == 11
    assert torch.export.export(Probe(), (zero,)).module()(zero).item() == 110


@pytest.mark.parametrize("reset", [torch._dynamo.reset, torch.compiler.reset, torch._dynamo.reset_code_caches])
def test_reset_drops_the_entries(reset):
    place = {"reset": torch._dynamo.reset, "reset_code_caches": torch._dynamo.reset_code_caches}
    compiled = torch.compile(f, backend="eager")
    compiled(X)
    assert pellucid.cache_entries(compiled)
    (torch.compiler.reset if reset.__module__ == "torch.compiler" else place[reset.__name__])()
    assert not pellucid.cache_entries(compiled)


def test_explain():
    def toy(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y + 1

    output = torch._dynamo.explain(toy)(X)
    assert (output.graph_count, output.graph_break_count) == (2, 1) and isinstance(output, pellucid.ExplainOutput)
    with pytest.warns(FutureWarning):
        assert torch._dynamo.eval_frame.explain(toy, X).graph_count == 2


def test_counters():
    torch._dynamo.utils.counters.clear()
    torch.compile(f, backend="aot_eager")(X.requires_grad_(False))
    counters = torch._dynamo.utils.counters
    assert counters["stats"]["unique_graphs"] == 1 and counters["frames"]["ok"] == 1
    assert counters["aot_autograd"]["total"] >= 1  # counted by AOTAutograd itself
    assert {"stats", "frames", "aot_autograd"} <= set(counters) and len(counters) == len(list(counters))
    counters["mine"] = counters["stats"]
    del counters["mine"]
    counters.clear()
    assert counters["stats"]["unique_graphs"] == 0 and counters["aot_autograd"]["total"] == 0


def test_compile_times():
    pellucid.compile_times.clear()
    torch.compile(f, backend="eager")(X)
    assert "capture" in torch._dynamo.utils.compile_times()
    assert torch._dynamo.utils.compile_times("csv", aggregate=True)[0]


# ---- backends


def test_backends_of_torch_and_of_pellucid():
    names = torch._dynamo.list_backends(None)
    assert names == torch.compiler.list_backends(None) == pellucid.list_backends(None)
    assert {"eager", "aot_eager", "inductor"} <= set(names)

    @torch._dynamo.register_backend
    def registered_for_this_test(gm, inputs):
        seen.append(gm)
        return gm.forward

    seen = []
    assert torch._dynamo.lookup_backend("registered_for_this_test") is registered_for_this_test
    for compiler in (torch.compile, bound_early[0]):
        assert same(compiler(lambda x: x + 1, backend="registered_for_this_test")(X), X + 1)
    assert len(seen) == 2
    for table in (torch._dynamo.backends.registry._BACKENDS, torch._dynamo.backends.registry._COMPILER_FNS):
        del table["registered_for_this_test"]


def test_counting_and_recording_backends_of_torch():
    counter, recorder, deep = CompileCounter(), EagerAndRecordGraphs(), CompileCounterWithBackend("aot_eager")
    for backend in (counter, recorder, deep):
        assert same(torch.compile(f, backend=backend)(X), f(X))
    assert (counter.frame_count, counter.op_count) == (1, 3)
    assert deep.frame_count == 1 and len(recorder.graphs) == 1


# ---- control


def test_M13_graph_break(counting):
    def breaks(x):
        y = x.sin()
        torch._dynamo.graph_break(msg="here")
        return y + 1

    compiled = torch.compile(breaks, backend=counting)
    assert same(compiled(X), breaks(X)) and counting.count == 2
    assert "here" in pellucid.break_reasons(compiled)[0].message


@pytest.mark.parametrize("ask", [torch._dynamo.skip_frame, torch._dynamo.decorators.step_unsupported])
def test_skip_frame_and_step_unsupported_are_breaks(ask, counting):
    def skips(x):
        y = x.sin()
        ask()
        return y + 1

    assert same(torch.compile(skips, backend=counting)(X), skips(X)) and counting.count == 2


def test_error_on_graph_break():
    def strict(x):
        with torch._dynamo.error_on_graph_break(True):
            torch._dynamo.graph_break()
            return x + 1

    with pytest.raises(pellucid.errors.Unsupported):
        torch.compile(strict, backend="eager")(X)


@pytest.mark.parametrize("disable", [torch.compiler.disable, torch._dynamo.disable])
def test_disabled_functions(disable, counting):
    seen = []

    @disable
    def plain(x):
        seen.append(torch.compiler.is_compiling())
        return x + 1

    def calls(x):
        return plain(x.sin()) * 2

    assert same(torch.compile(calls, backend=counting)(X), (X.sin() + 1) * 2) and seen == [False]
    assert counting.count == 2
    with pytest.raises(torch._dynamo.exc.Unsupported, match="plain"):
        torch.compile(calls, backend="eager", fullgraph=True)(X)
    net = disable(Net())
    assert isinstance(net, torch._dynamo.OptimizedModule) and same(net(X), net._orig_mod(X))


def test_stances(counting):
    compiled = torch.compile(f, backend=counting)
    with torch.compiler.set_stance("force_eager"):
        assert same(compiled(X), f(X)) and counting.count == 0
    compiled(X)
    assert counting.count == 1


def test_marks(counting):
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0)
    compiled = torch.compile(f, backend=counting)
    compiled(x), compiled(torch.ones(5, 3)), compiled(torch.ones(7, 3))
    assert counting.count == 1


def test_cudagraph_mark_step_begin():
    torch.compiler.cudagraph_mark_step_begin()


@pytest.mark.parametrize("name", ["allow_in_graph", "assume_constant_result", "nonstrict_trace"])
def test_marks_of_functions_are_pellucids(name, counting):
    marked = getattr(torch._dynamo, name)(lambda: 3) if name == "assume_constant_result" else None
    if marked is None:
        marked = getattr(torch._dynamo, name)(lambda x: x + 1)
        compiled = torch.compile(lambda x: marked(x) * 2, backend=counting, fullgraph=True)
        assert same(compiled(X), (X + 1) * 2)
        assert marked in [node.target for node in counting.graphs[0].graph.nodes]
    else:
        assert same(torch.compile(lambda x: x * marked(), backend=counting, fullgraph=True)(X), X * 3)


def test_what_is_disallowed_breaks(counting):
    torch._dynamo.disallow_in_graph(torch.sub)
    try:
        assert same(torch.compile(lambda x: torch.sub(x + 1, 2) + 3, backend=counting)(X), X + 2)
        assert counting.count == 2
    finally:
        torch._dynamo.allow_in_graph(torch.sub)


@pytest.mark.parametrize(
    ("mark", "arguments", "named"),
    [
        ("mark_dynamic", {"hint_override": 5}, "hint_override"),
        ("mark_dynamic", {"specialize_on": [lambda n: n == 4]}, "specialize_on"),
        ("mark_unbacked", {"hint_override": 5}, "hint_override"),
        ("mark_unbacked", {"specialize_on": [lambda n: n == 4]}, "specialize_on"),
        ("mark_unbacked", {"shape_id": "batch"}, "shape_id"),
    ],
)
def test_arguments_of_marks_that_change_nothing(mark, arguments, named, counting):
    compiled = torch.compile(f, backend=counting)

    def call(n):
        x = torch.arange(3.0 * n).reshape(n, 3)
        getattr(torch._dynamo.decorators, mark)(x, 0, **arguments)
        assert same(compiled(x), f(x))

    with pytest.warns(once.NoMeaningWarning, match=rf"{named} of torch's {mark}\(\)"):
        call(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", once.NoMeaningWarning)  # each is said once
        call(5)
        call(6)
    assert counting.count == 1


def test_marks_say_nothing_without_these(recwarn):
    for x in torch.ones(3, 3), torch.ones(4, 3):
        torch._dynamo.mark_dynamic(x, 0, min=2)
        torch._dynamo.decorators.mark_unbacked(x, 1, min=2)
    with pytest.raises(TypeError):
        torch._dynamo.mark_dynamic()
    assert not [w for w in recwarn if isinstance(w.message, once.NoMeaningWarning)]
