"""A torch dispatch mode of the user around, inside of and between calls of a compiled function sees what eager shows it."""

from __future__ import annotations

import collections

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import pellucid
from pellucid.backends import lookup_backend

X = torch.randn(2, 3, 8, 8)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        unused = x @ x  # eager computes it all the same
        del unused
        return nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))


MODELS = {
    "conv": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)),
    "matmul": lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)),
    "attention": Attention,
}


class Counted:
    def __init__(self, name):
        self.function, self.calls = lookup_backend(name), 0

    def __call__(self, gm, example_inputs):
        self.calls += 1
        return self.function(gm, example_inputs)


class Seen(TorchDispatchMode):
    """The operators, by name."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Doubling(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.ops.aten.sin.default else result


def flops(run, x=X):
    with FlopCounterMode(display=False) as counter:
        run(x).sum().backward()
    return dict(counter.get_flop_counts()["Global"])


def seen_by(run, *args):
    with Seen() as mode:
        run(*args)
    return mode.names


def check_counts(model, backend):
    model.eval()
    want = flops(model)
    assert len(want) >= 2  # forward and backward
    counted = Counted(backend)
    compiled = pellucid.compile(model, backend=counted)
    assert flops(compiled) == want  # the first call of all
    assert counted.calls == 0
    torch.testing.assert_close(compiled(X), model(X))
    calls = counted.calls
    assert calls > 0
    for _ in range(3):
        assert flops(compiled) == flops(compiled) == want
        torch.testing.assert_close(compiled(X), model(X))
    assert counted.calls == calls


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("model", MODELS)
def test_flop_counter(model, backend):
    check_counts(MODELS[model](), backend)


@pytest.mark.slow
def test_flop_counter_with_inductor():
    check_counts(MODELS["matmul"](), "inductor")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("model", MODELS)
def test_operators_one_by_one(model, backend):
    model = MODELS[model]()
    compiled = pellucid.compile(model, backend=backend)
    want = seen_by(model, X)
    assert len(want) > 3
    for _ in range(2):
        assert seen_by(compiled, X) == want
        compiled(X)


def test_nested_modes():
    compiled = pellucid.compile(MODELS["conv"](), backend="aot_eager")
    compiled(X)
    want = seen_by(MODELS["conv"](), X)
    with Seen() as outer, FlopCounterMode(display=False) as counter, Seen() as inner:
        compiled(X)
    assert inner.names == want
    assert outer.names.count("aten.convolution.default") == 1
    assert counter.get_total_flops() > 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_mode_that_changes_results(backend):
    compiled = pellucid.compile(lambda x: x.sin() + 1, backend=backend)
    for _ in range(2):
        assert torch.equal(compiled(X), X.sin() + 1)
        with Doubling():
            got = compiled(X)
        assert torch.equal(got, X.sin() * 2 + 1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inside_of_the_compiled_function(backend):
    def block(x):
        return x.cos().sum()

    def f(x):
        y = x + 1
        with Seen() as mode, Doubling():
            z = (y * 2).sin() + block(x)
        return z - 1, mode.names, block(z)

    counted = Counted(backend)
    compiled = pellucid.compile(f, backend=counted)
    calls = []
    for _ in range(4):
        want, got = f(X), compiled(X)
        assert got[1] == want[1] and "aten.sin.default" in got[1]
        assert torch.equal(got[0], want[0]) and torch.equal(got[2], want[2])
        calls.append(counted.calls)
    assert calls[0] > 0  # what comes before the mode
    assert calls[1] == calls[-1]


def test_inside_of_a_function_that_runs_eagerly():
    """The mode's own code is no code of the program: nothing in it is compiled, whichever hook looks."""
    counted = Counted("eager")

    def helper(func, args, kwargs):
        return func(*args, **(kwargs or {}))

    class Mine(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return helper(func, args, kwargs)

    def inner(x):
        with Mine():
            return x.sin() + x.cos()

    def f(x):
        yield inner(x)

    for run in (inner, lambda x: next(f(x))):
        with pellucid.config.patch(continue_after_break=False):
            compiled = pellucid.compile(run, backend=counted)
            for _ in range(3):
                assert torch.equal(compiled(X), X.sin() + X.cos())
    assert counted.calls == 0


def test_a_compiled_function_that_a_mode_calls():
    counted = Counted("eager")
    scaled = pellucid.compile(lambda x: x * 3, backend=counted)

    class Scaling(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return scaled(func(*args, **(kwargs or {})))

    for _ in range(2):
        with Scaling():
            got = torch.sin(X)
        assert torch.equal(got, X.sin() * 3)
    assert counted.calls == 1


def test_fullgraph_says_so():
    compiled = pellucid.compile(torch.nn.Linear(8, 2), backend="eager", fullgraph=True)
    compiled(X)
    with Seen(), pytest.raises(pellucid.errors.Unsupported, match="TorchDispatchMode"):
        compiled(X)
    compiled(X)


def test_the_reason_is_told_once(caplog):
    compiled = pellucid.compile(lambda x: x + 1, backend="eager")
    with Seen():
        for _ in range(20):
            compiled(X)
    assert [record.name for record in pellucid.break_reasons()] == ["TorchDispatchMode"]
    assert not [record for record in caplog.records if record.name == "pellucid"]


def test_a_mode_of_one_thread_is_no_others():
    import threading

    compiled = pellucid.compile(lambda x: x.sin() + 1, backend="eager")
    compiled(X)
    names = []

    def other():
        names.extend(seen_by(compiled, X))

    thread = threading.Thread(target=other)
    with Doubling():
        thread.start()
        thread.join()
        got = compiled(X)
    assert torch.equal(got, X.sin() * 2 + 1)
    assert names == ["aten.sin.default", "aten.add.Tensor"]


def test_function_mode_sees_what_eager_shows():
    class Functions(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    model = MODELS["attention"]()
    counted = Counted("aot_eager")
    compiled = pellucid.compile(model, backend=counted)
    with Functions() as want:
        model(X)
    for _ in range(3):
        with Functions() as got:
            compiled(X)
        assert got.names == want.names
        compiled(X)
    assert counted.calls == 2  # one with the mode, which sees what it saw in eager, one without


def test_profiler_sees_no_fakes():
    """With backend "eager" the first call under a profiler shows the operators of the program alone."""
    model = MODELS["conv"]()

    def profiled(run):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            run(X)
        return collections.Counter(event.name for event in profile.events() if event.name.startswith("aten::"))

    profiled(model)
    want = profiled(model)
    compiled = pellucid.compile(model, backend="eager")
    first, second = profiled(compiled), profiled(compiled)
    assert first == second == want


# ---- what traces a function into a graph of its own


def scaled(x):
    return x.sin() * 2


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return scaled(self.inner(x))


TRACERS = {
    "fx": lambda model, x: torch.fx.symbolic_trace(model)(x),
    "fx_of_a_function": lambda model, x: torch.fx.symbolic_trace(scaled)(x),
    "make_fx": lambda model, x: make_fx(scaled)(x)(x),
    "jit": lambda model, x: torch.jit.trace(scaled, (x,))(x),
    "jit_of_a_module": lambda model, x: torch.jit.trace(model, (x,))(x),
    "export": lambda model, x: torch.export.export(model, (x,)).module()(x),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", TRACERS)
def test_a_tracer_within_the_compiled_function_runs_as_it_is(name, backend):
    """Of what it calls nothing is captured, which it would see instead of the operators; what it gives may be."""
    model, counted, behind = Scaled(), Counted(backend), 0

    def f(x):
        y = x.cos() + 1
        return TRACERS[name](model, y) - y

    compiled = pellucid.compile(f, backend=counted)
    for number in range(2):
        x = X + number
        assert torch.equal(compiled(x), f(x))
        behind = behind or counted.calls - 1
    assert 1 <= counted.calls <= 4 and behind <= 2, "before the tracer, and behind it for each graph that it gives"
    assert "RunsAsItIs" in {record.name for record in pellucid.break_reasons(compiled)}


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_function_that_torch_jit_traces(backend, is_known):
    compiled, x = pellucid.compile(scaled, backend=backend), torch.randn(3)
    if is_known:
        compiled(x)
    traced = torch.jit.trace(compiled, (x,))
    assert torch.equal(traced(x + 1), scaled(x + 1))
    assert [node.kind() for node in traced.graph.nodes()] == ["aten::sin", "prim::Constant", "aten::mul"]
    assert torch.equal(compiled(x + 2), scaled(x + 2)) and not torch.jit.is_tracing()
