"""Rows D11 to D24 of docs/feature_rows.md: what a backend may raise, what it finds, and what a graph looks like when it gets it."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback

import pytest
import torch
from torch._subclasses import fake_tensor

import pellucid
from pellucid import backends
from pellucid.errors import BackendCompilerFailed, RecompileLimitExceeded, SkipFrame, Unsupported
from support import same
from support.graphs import Recording, compiled_for, placeholders

X = torch.arange(1.0, 4.0)


def f(x):
    y = x.sin()
    return y + 1


def raising(error):
    calls = []

    def backend(gm, example_inputs):
        calls.append(gm)
        raise error

    backend.calls = calls
    return backend


# ---- D11, D12, D13: exceptions that are no failures

ABOUT_SHAPES = [
    fake_tensor.DataDependentOutputException(torch.ops.aten._local_scalar_dense.default),
    fake_tensor.DynamicOutputShapeException(torch.ops.aten.nonzero.default),
    fake_tensor.UnsupportedOperatorException(torch.ops.aten.sin.default),
    fake_tensor.UnsupportedFakeTensorException("no shapes"),
    fake_tensor.UnsupportedMutationAliasingException("no aliases"),
]


@pytest.mark.parametrize("error", ABOUT_SHAPES, ids=lambda error: type(error).__name__)
def test_D11_errors_about_shapes_are_a_graph_break(error, caplog):
    backend = raising(error)
    g = pellucid.compile(f, backend=backend)
    with caplog.at_level(logging.WARNING, "pellucid"):
        assert same(g(X), f(X))
    (record,) = caplog.records
    text = record.getMessage()
    assert record.levelno == logging.WARNING and type(error).__name__ in text and "'backend'" in text
    assert f'"{__file__}", line {f.__code__.co_firstlineno + 2}, in f' in text
    assert [stop.code for stop in pellucid.break_reasons(g)] == ["PEL0903"]
    for _ in range(4):
        assert same(g(X), f(X))
    assert len(backend.calls) == 2  # the same stop again: from now on the function is left alone
    with pytest.raises(Unsupported, match="PEL0903"):
        pellucid.compile(f, backend=backend, fullgraph=True)(X)


def test_D11_the_classes_are_torchs():
    from torch._dynamo.exc import exceptions_allowed_to_be_fallback

    assert {type(error) for error in ABOUT_SHAPES} == set(exceptions_allowed_to_be_fallback)


def test_D11_with_sizes_that_change(caplog):
    """What fails for all sizes may go for those of the call: that comes first."""
    asked = []

    def backend(gm, example_inputs):
        asked.append([type(example) for example in example_inputs])
        if torch.SymInt in asked[-1]:
            raise fake_tensor.UnsupportedFakeTensorException("no shapes")
        return gm.forward

    g = pellucid.compile(lambda x: x * x.shape[0], backend=backend)
    with caplog.at_level(logging.WARNING, "pellucid"):
        for size in (3, 4, 5):
            assert same(g(torch.ones(size)), torch.ones(size) * size)
    assert "compiles for those of this call instead" in caplog.text and "cannot compile a graph" not in caplog.text
    assert pellucid.break_reasons(g) == []


def allowed(x):
    return x + 1


def test_D12_not_with_a_function_that_the_user_allowed():
    """By torch's mark; `control/test_control.py` has pellucid's."""
    torch._dynamo.allow_in_graph(allowed)
    try:
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        x._dynamo_source, x.meta["example_value"] = pellucid._fx.InputSource("L['x']"), X
        graph.output((graph.call_function(allowed, (x,)),))
        gm = torch.fx.GraphModule({}, graph)
        gm.compile_subgraph_reason = pellucid._fx.GraphCompileReason()
        with pytest.raises(BackendCompilerFailed) as caught:
            backends.call_backend(gm, [X], raising(ABOUT_SHAPES[3]))
        assert caught.value.inner_exception is ABOUT_SHAPES[3]
    finally:
        torch._dynamo.trace_rules._allowed_callable_ids.function_ids.discard(id(allowed))


@pytest.mark.parametrize("error", [SkipFrame("not this one"), torch._dynamo.exc.SkipFrame("torch's own")])
def test_D13_a_backend_skips_the_frame(error, caplog, capsys):
    backend = raising(error)

    def inner(x):
        return x * 2

    def outer(x):
        print("here")
        return inner(x) + 1

    g = pellucid.compile(outer, backend=backend)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            assert same(g(X), X * 2 + 1)
    assert capsys.readouterr().out == "here\n" * 4 and not caplog.records
    assert "PEL0904" in [stop.code for stop in pellucid.break_reasons(g)]
    alone = pellucid.compile(f, backend=backend)
    assert same(alone(X), f(X)) and pellucid.cache_entries(alone) == []
    with pytest.raises(Unsupported, match="leaves this function alone"):
        pellucid.compile(f, backend=backend, fullgraph=True)(X)


# ---- D10, D24: what an error says


def user_line(function, ahead):
    return f'File "{__file__}", line {function.__code__.co_firstlineno + ahead}, in {function.__name__}'


def test_D24_a_failing_backend():
    def inner(x):
        return f(x) * 2

    with pytest.raises(BackendCompilerFailed) as caught:
        pellucid.compile(inner, backend=raising(ValueError("planted")))(X)
    text = str(caught.value)
    assert text.startswith("backend='backend' raised:\nValueError: planted\n\nfrom user code:\n")
    assert user_line(inner, 1) in text and text.splitlines()[-1].startswith("Hint: ")
    assert "pellucid triage" in text and "suppress_errors" in text
    assert "raise error" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_D24_capture():
    def inner(x):
        y = x + 1
        return open(str(y))

    def outer(x):
        return inner(x)

    with pytest.raises(Unsupported) as caught:
        pellucid.compile(outer, backend="eager", fullgraph=True)(X)
    text = str(caught.value)
    assert user_line(outer, 1) in text and user_line(inner, 2) in text and "Hint: " in text.splitlines()[-1]


def test_D24_limits_and_marks():
    def by_number(x, n):
        return x[:n]

    with pellucid.config.patch(recompile_limit=1, dynamic_shapes=False):
        g = pellucid.compile(by_number, backend="eager", fullgraph=True)
        g(X, 1)
        with pytest.raises(RecompileLimitExceeded) as caught:
            g(X, 2)
    assert f"{__file__}:{by_number.__code__.co_firstlineno}" in str(caught.value) and "recompile_limit" in str(
        caught.value
    )

    def fixed(x):
        return x.view(4)

    x = torch.ones(4)
    pellucid.mark_dynamic(x, 0)
    with pytest.raises(pellucid.errors.ConstraintViolation) as marked:
        pellucid.compile(fixed, backend="eager")(x)
    assert f"{__file__}:{fixed.__code__.co_firstlineno + 1} in fixed" in str(marked.value)


# ---- D15, D16: what the backend finds


def test_D15_the_layout_that_an_input_has_at_the_start():
    """The graph turns its input round; AOTAutograd sees it as it was."""
    seen = []

    def backend(gm, example_inputs):
        from torch._guards import detect_fake_mode
        from torch._subclasses import FakeTensor

        node = placeholders(gm)[0]
        mode = torch._guards.TracingContext.get().fake_mode
        fake = mode.from_tensor(example_inputs[0])
        seen.append((tuple(fake.shape), isinstance(fake, FakeTensor), detect_fake_mode([fake]) is mode, node.name))
        return backends.lookup_backend("aot_eager")(gm, example_inputs)

    def turning(x):
        x.transpose_(0, 1)
        return x + torch.ones(3, 2)

    for name in (backend, "aot_eager"):
        ours, theirs = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3)
        assert same(pellucid.compile(turning, backend=name)(ours), turning(theirs))
        assert ours.shape == theirs.shape == (3, 2) and ours.stride() == theirs.stride()
    assert [shape for shape, *_ in seen] == [(2, 3)] and all(seen[0][1:3])


# ---- D17 to D22: the graph


def test_D17_sizes_that_nothing_uses():
    def used(x, y, z):
        return x * y.shape[0] + y.sum()

    recording = Recording()
    g = pellucid.compile(used, backend=recording, fullgraph=True)
    for size in (3, 4):
        args = torch.ones(2), torch.ones(size), torch.ones(size + 2)
        assert same(g(*args), used(*args))
    names = [node.name for node in placeholders(recording.graphs[-1])]
    assert sorted(names) == ["l_x_", "l_y_", "l_y_size_0_"]
    assert len(recording.seen[-1][1]) == 3


def scalars(function):
    recording = Recording()
    return recording, compiled_for(recording, function)


def targets(gm):
    return [str(node.target) for node in gm.graph.nodes if node.op.startswith("call")]


def test_D18_deferred_assertions_fire_with_their_expression():
    def g(x):
        return torch.empty((x + 0).item())

    recording, compiled = scalars(g)
    assert compiled(torch.tensor(3)).shape == (3,)
    assert any(
        node.args[1] == "Runtime assertion failed for expression u0 >= 0" for node in asserts(recording.graphs[0])
    )
    with pytest.raises(RuntimeError):
        recording.graphs[0](torch.tensor(-2))
    with pytest.raises(RuntimeError, match=r"negative dimension|u0 >= 0"):
        compiled(torch.tensor(-2))
    assert compiled(torch.tensor(5)).shape == (5,)


def asserts(gm):
    return [node for node in gm.graph.nodes if "_assert_scalar" in str(node.target)]


def test_D19_where_assertions_stand():
    def g(x):
        n = x.nonzero().shape[0]
        torch._check(n <= 2)
        return torch.ones(n)

    recording, compiled = scalars(g)
    assert compiled(torch.tensor([1, 0, 2])).shape == (2,)
    names = targets(recording.graphs[0])
    assert [node.op for node in recording.graphs[0].graph.nodes][:2] == ["placeholder", "call_method"]
    assert names[:2] == ["nonzero", "size"] and "ones" in names[-1]
    assert any("_assert_scalar" in name for name in names[2:-1])
    with pytest.raises(RuntimeError):
        compiled(torch.ones(3))
    # What holds for every size (0 <= n <= numel) is not asserted.
    recording, compiled = scalars(lambda x: torch.ones(x.nonzero().shape[0]))
    assert compiled(X).shape == (3,) and asserts(recording.graphs[0]) == []


def test_D20_bounds_before_the_use_and_of_two_numbers_behind_both():
    def bounded(x):
        n = x.sum().item()
        torch._check(n <= 5)
        return torch.ones(n)

    recording, compiled = scalars(bounded)
    assert compiled(torch.tensor([1, 2])).shape == (3,)
    names = targets(recording.graphs[0])
    assert max(i for i, name in enumerate(names) if "_assert_scalar" in name) < len(names) - 1
    with pytest.raises(RuntimeError):
        compiled(torch.tensor([4, 5]))

    def both(x):
        a, b = x.tolist()
        torch._check(a + b == 4)
        return x * a

    recording, compiled = scalars(both)
    assert same(compiled(torch.tensor([1, 3])), torch.tensor([1, 3]))
    nodes = list(recording.graphs[0].graph.nodes)
    (check,) = asserts(recording.graphs[0])
    items = [i for i, node in enumerate(nodes) if node.target == "item"]
    assert len(items) == 2 and nodes.index(check) > max(items)


def test_D21_an_input_that_only_an_assertion_needs():
    def g(x, y):
        torch._check(y.sum().item() == 4)
        return x + 1

    recording, compiled = scalars(g)
    assert same(compiled(X, torch.tensor([4])), X + 1)
    assert len(placeholders(recording.graphs[0])) == 2
    with pytest.raises(RuntimeError):
        compiled(X, torch.tensor([5]))


def test_D22_switches_that_cancel_out():
    def empty(x):
        with torch.no_grad():
            pass
        return x + 1

    def used(x):
        with torch.no_grad():
            y = x * 2
        return y + x

    counts = []
    for g in (empty, used):
        recording, compiled = scalars(g)
        assert same(compiled(X), g(X))
        counts.append(sum("set_grad_enabled" in name for name in targets(recording.graphs[0])))
    assert counts == [0, 2]


def test_D04_the_backend_is_told_the_name():
    recording, compiled = scalars(f)
    compiled(X)
    assert recording.graphs[0].meta["compiled_name"].startswith("__compiled_fn_")
    number = int(recording.graphs[0].meta["compiled_name"].rpartition("_")[2])
    assert backends.by_number.graph_number(recording.graphs[0]) == number
    assert f"__compiled_fn_{number}" in compiled_names(compiled)


def compiled_names(compiled):
    return [name for entry in pellucid.cache_entries(compiled) for name in entry["code"].co_names]


def test_D01_a_deep_copy_of_the_graph_runs():
    import copy

    given = []

    def backend(gm, example_inputs):
        given.append(copy.deepcopy(gm))
        return given[-1]

    net = torch.nn.Linear(3, 3)
    g = compiled_for(backend, lambda x: net(x).relu())
    assert same(g(X), net(X).relu()) and given[0].meta["compiled_name"].startswith("__compiled_fn_")
    assert same(given[0].compile_subgraph_reason.reason, "return_value")


def test_D10_the_error_can_be_pickled():
    import pickle

    error = BackendCompilerFailed("name", ValueError("text"), [traceback.FrameSummary("file.py", 3, "f", line="x")])
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.backend_name == "name" and type(again.inner_exception) is ValueError
    invalid = pellucid.errors.InvalidBackend("a", ["b"], "words")
    assert str(pickle.loads(pickle.dumps(invalid))) == "words"


def test_D24_nothing_of_torchs_compiler_is_loaded_for_eager():
    program = "import sys, torch, pellucid; pellucid.compile(lambda x: x + 1, backend='eager')(torch.ones(1))\n"
    program += "print([m for m in ('torch._dynamo', 'torch._inductor', 'sympy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
