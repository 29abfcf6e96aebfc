"""Switches for single functions, rows M01 to M16 of docs/feature_rows.md; figures beside torch.compile's where it has some."""

from __future__ import annotations

import operator

import pytest
import torch

import pellucid
from pellucid import errors
from support import Counting, same

OURS, TORCH = pellucid.compile, torch.compile


@pytest.fixture(autouse=True)
def fresh():
    pellucid.reset()
    torch._dynamo.reset()
    yield
    pellucid.reset()
    torch._dynamo.reset()


def figures(compile, f, *args):
    """Graphs and operations, with the result compared with plain Python's."""
    want = f(*args)
    backend = Counting()
    assert same(compile(f, backend=backend)(*args), want)
    nodes = [node for gm in backend.graphs for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
    return len(backend.graphs), len(nodes)


# The tree of calls: 6 operations, 3 of them below `a`.
def aa(x):
    return x * 2


def ab(x):
    return x.sin()


def a(x):
    return aa(x) + ab(x)


def b(x):
    return x.cos() - 3


def tree_with(a):
    def tree(x):
        return b(a(x + 1))

    return tree


X = torch.arange(4.0)


def test_M01_the_names_of_torch_are_there_and_compile_is_torchs():
    assert pellucid.compile(a, backend="eager", fullgraph=True)(X).equal(a(X))
    for name in ("disable", "allow_in_graph", "is_compiling", "is_dynamo_compiling", "substitute_in_graph"):
        assert callable(getattr(torch.compiler, name)) and callable(getattr(pellucid, name))
    for name in (
        "disallow_in_graph",
        "forbid_in_graph",
        "graph_break",
        "skip_frame",
        "error_on_graph_break",
        "explain",
    ):
        assert callable(getattr(torch._dynamo, name)) and callable(getattr(pellucid, name))


@pytest.mark.parametrize("disable", [pellucid.disable, torch.compiler.disable, torch._dynamo.disable])
def test_M02_disable_is_for_a_function_and_all_that_it_calls(disable):
    # torch.compile breaks at pellucid's wrapper, but captures what it calls.
    for compile in (OURS, TORCH) if disable is not pellucid.disable else (OURS,):
        assert figures(compile, tree_with(a), X) == (1, 6)
        assert figures(compile, tree_with(disable(a)), X) == (2, 3)


def test_M03_a_plain_call_of_disable_leaves_the_original():
    wrapper = pellucid.disable(a)
    assert figures(OURS, tree_with(a), X) == (1, 6)
    assert figures(OURS, tree_with(wrapper), X) == (2, 3)

    @pellucid.disable
    def decorated(x):
        return aa(x) + ab(x)

    assert figures(OURS, tree_with(decorated), X) == (2, 3)


def test_M04_disable_without_recursion_is_for_one_frame():
    for compile, disable in ((OURS, pellucid.disable), (OURS, torch.compiler.disable), (TORCH, torch.compiler.disable)):
        assert figures(compile, tree_with(disable(a, recursive=False)), X) == (4, 5)


def test_M05_a_disabled_function_is_an_error_with_fullgraph():
    @pellucid.disable(reason="reads a sensor")
    def sensor(x):
        return x

    with pytest.raises(errors.Unsupported, match=r"sensor\(\) \(reads a sensor\)"):
        OURS(tree_with(sensor), backend="eager", fullgraph=True)(X)


@pytest.fixture
def switched():
    """Callables that are allowed again at the end of the test."""
    used = []
    yield used
    for fn in used:
        pellucid.allow_in_graph(fn)
        torch._dynamo.allow_in_graph(fn)


def around_sub(x):
    return torch.add(torch.sub(torch.add(x, 1), 1), 1)


def test_M06_what_is_disallowed_runs_between_two_graphs(switched):
    switched.append(torch.sub)
    assert figures(OURS, around_sub, X) == (1, 3)
    assert pellucid.disallow_in_graph(torch.sub) is torch.sub
    assert figures(OURS, around_sub, X) == (2, 2)
    with pytest.raises(errors.Unsupported, match="sub"):
        OURS(around_sub, backend="eager", fullgraph=True)(X)


def test_M06_torchs_own_mark_counts(switched):
    switched.append(torch.sub)
    torch._dynamo.disallow_in_graph(torch.sub)
    assert figures(OURS, around_sub, X) == figures(TORCH, around_sub, X) == (2, 2)


@torch.library.custom_op("pellucid_control::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


def test_M06_custom_operators_too(switched):
    op = torch.ops.pellucid_control.twice
    switched.append(op)

    def f(x):
        return op(x + 1) + 1

    assert figures(OURS, f, X) == (1, 3)
    pellucid.disallow_in_graph(op)
    assert figures(OURS, f, X) == (2, 2)


def test_M07_a_plain_function_cannot_be_disallowed():
    for disallow in (pellucid.disallow_in_graph, torch._dynamo.disallow_in_graph):
        with pytest.raises(RuntimeError, match="disallow_in_graph"):
            disallow(lambda x: x + 1)
    with pytest.raises(RuntimeError, match=r"pellucid\.disable"):
        pellucid.disallow_in_graph(a)


def test_M08_the_switch_lasts_until_it_is_undone(switched):
    switched.append(torch.sub)
    backend = Counting()
    compiled = OURS(around_sub, backend=backend)
    compiled(X)
    assert backend.count == 1
    assert pellucid.disallow_in_graph([torch.sub]) == [torch.sub]
    compiled(X)  # what was compiled before is not in use any more
    assert backend.count == 3
    assert figures(OURS, around_sub, X) == (2, 2)
    pellucid.allow_in_graph(torch.sub)
    compiled(X)
    assert backend.count == 4
    assert figures(OURS, around_sub, X) == (1, 3)


def test_M08_what_changes_nothing_drops_nothing(switched):
    switched.append(torch.sub)
    pellucid.disallow_in_graph(torch.sub)
    backend = Counting()
    compiled = OURS(around_sub, backend=backend)
    compiled(X)
    pellucid.disallow_in_graph(torch.sub)
    compiled(X)
    assert backend.count == 2


def test_M09_an_aten_operator_is_another_callable(switched):
    add = torch.ops.aten.add
    switched.append(add)
    pellucid.disallow_in_graph(add)
    assert figures(OURS, lambda x: torch.add(x + 1, 1), X) == (1, 2)
    assert figures(OURS, lambda x: add(x * 2, 1) * 2, X) == (2, 2)


def test_M09_other_spellings_are_other_callables(switched):
    switched.append(torch.sub)
    pellucid.disallow_in_graph(torch.sub)
    assert figures(OURS, lambda x: (x - 1).sub(1), X) == (1, 2)


def opaque_function():
    seen = []

    def opaque(x, scale=2.0):
        seen.append(x)
        print("inside")
        pellucid.graph_break()
        torch._dynamo.graph_break()
        return x.sin() * scale

    return opaque, seen


@pytest.mark.parametrize("allow", [pellucid.allow_in_graph, torch.compiler.allow_in_graph, pellucid.nonstrict_trace])
def test_M10_an_allowed_function_is_one_node(allow):
    opaque, _ = opaque_function()
    assert allow(opaque) is opaque

    def f(x):
        return opaque(x + 1, scale=3.0) + 1

    backend = Counting()
    assert same(OURS(f, backend=backend, fullgraph=True)(X), f(X))
    [gm] = backend.graphs
    assert [n.target for n in gm.graph.nodes if n.op == "call_function"][1] is opaque
    assert len([n for n in gm.graph.nodes if n.op == "call_function"]) == 3


@pytest.mark.parametrize("compile", [OURS, TORCH])
def test_M11_eager_calls_it_and_aot_traces_through_it(compile):
    opaque, seen = opaque_function()
    (pellucid if compile is OURS else torch.compiler).allow_in_graph(opaque)

    def f(x):
        return opaque(x + 1) + 1

    want = f(X)
    compiled = compile(f, backend="eager", fullgraph=True)
    compiled(X)
    seen.clear()
    assert same(compiled(X), want)
    assert [type(x) for x in seen] == [torch.Tensor] and not torch._is_functional_tensor(seen[0])

    compiled = compile(f, backend="aot_eager", fullgraph=True)
    seen.clear()
    assert same(compiled(X), want)
    assert seen  # by AOT's tracing
    seen.clear()
    assert same(compiled(X), want)
    assert not seen


def test_M11_gradients_go_through_it():
    opaque, _ = opaque_function()
    pellucid.allow_in_graph(opaque)
    for backend in ("eager", "aot_eager"):
        x = torch.ones(3, requires_grad=True)
        y = torch.ones(3, requires_grad=True)
        OURS(lambda x: opaque(x).sum(), backend=backend)(x).backward()
        opaque(y).sum().backward()
        assert same(x.grad, y.grad)


def test_M12_lists_are_accepted():
    first, second = opaque_function()[0], opaque_function()[0]
    assert pellucid.allow_in_graph([first, second]) == [first, second]
    assert pellucid.allow_in_graph((first, second)) == [first, second]
    assert figures(OURS, lambda x: second(first(x)), X) == (1, 2)
    with pytest.raises(TypeError, match="allow_in_graph"):
        pellucid.allow_in_graph(3)


def test_M12_D12_errors_of_a_backend_on_such_a_graph_are_shown():
    opaque, _ = opaque_function()
    pellucid.allow_in_graph(opaque)

    def backend(gm, example_inputs):
        raise torch._subclasses.fake_tensor.UnsupportedFakeTensorException("no fake for this")

    with pytest.raises(errors.BackendCompilerFailed, match="no fake for this"):
        OURS(lambda x: opaque(x), backend=backend)(X)


@pytest.mark.parametrize("graph_break", [pellucid.graph_break, torch._dynamo.graph_break, pellucid.skip_frame])
def test_M13_graph_break(graph_break):
    def f(x):
        y = x + 1
        graph_break("a word of the user")
        return y * 2

    assert same(f(X), (X + 1) * 2)
    assert figures(OURS, f, X) == (2, 2)
    with pytest.raises(
        errors.Unsupported, match="a word of the user" if graph_break.__module__[0] == "p" else "graph_break"
    ):
        OURS(f, backend="eager", fullgraph=True)(X)


def test_M14_is_compiling():
    for is_compiling in (pellucid.is_compiling, torch.compiler.is_compiling):

        def f(x):
            return x + 1 if is_compiling() else x

        assert same(f(X), X)
        seen = []

        def backend(gm, example_inputs):
            seen.append(is_compiling())
            return gm.forward

        if is_compiling is torch.compiler.is_compiling:
            backend = Counting()
        compiled = OURS(f, backend=backend, fullgraph=True)
        assert same(compiled(X), X + 1)
        assert seen in ([True], [])

    @pellucid.disable
    def disabled(x):
        return x + 100 if pellucid.is_compiling() else x

    assert same(OURS(lambda x: disabled(x + 1) + 1, backend="eager")(X), X + 2)


def test_M15_is_dynamo_compiling():
    def probes(is_dynamo_compiling, is_compiling):
        class Probe(torch.nn.Module):
            def forward(self, x):
                if is_dynamo_compiling():
                    x = x + 10
                if is_compiling():
                    x = x + 1
                return x

        return Probe()

    def added(f):
        return int((f(X) - X)[0])

    for module in (pellucid, torch.compiler):
        probe = probes(module.is_dynamo_compiling, module.is_compiling)
        assert added(probe) == 0
        assert added(OURS(probe, backend="eager", fullgraph=True)) == 11
        assert added(torch.export.export(probe, (X,), strict=False).module()) == 1


def test_M16_fullgraph_makes_the_first_break_an_error():
    def f(x):
        y = x + 1
        print("a word")
        return y * 2

    with pytest.raises(errors.Unsupported, match=r"(?s)print.*test_control\.py"):
        OURS(f, backend="eager", fullgraph=True)(X)
    assert figures(lambda g, backend: OURS(g, backend=backend, fullgraph=True), a, X) == (1, 3)


@pytest.mark.parametrize("forbid", [pellucid.forbid_in_graph, torch._dynamo.forbid_in_graph])
def test_forbidden_functions_are_errors_without_fullgraph(forbid):
    @forbid
    def only_eager(x):
        return x + 1

    def f(x):
        return only_eager(x * 2)

    assert same(f(X), X * 2 + 1)
    with pytest.raises(errors.Unsupported, match="only_eager"):
        OURS(f, backend="eager")(X)
    # The next capture has its own say.
    assert figures(OURS, lambda x: print("") or x + 1, X)[1] == 1


@pytest.mark.parametrize("assume", [pellucid.assume_constant_result, torch.compiler.assume_constant_result])
@pytest.mark.parametrize("value", [3, 2.5, "word", (1, 2), [1, 2], {"k": 1}, None])
def test_assumed_constants_are_read_once(assume, value):
    calls = []

    @assume
    def constant(n):
        calls.append(n)
        return value

    def f(x):
        return x + 1, constant(7)

    compiled = OURS(f, backend="eager", fullgraph=True)
    want = f(X)
    calls.clear()
    assert same(compiled(X), want) and same(compiled(X), want)
    assert calls == [7]


def test_a_constant_that_is_no_plain_value():
    held = torch.ones(4)

    @pellucid.assume_constant_result
    def tensor():
        return held

    def f(x):
        return x + tensor()

    compiled = OURS(f, backend="eager")
    assert same(compiled(X), f(X)) and same(compiled(X), f(X))

    @pellucid.assume_constant_result
    def of_tensor(x):
        return float(x.sum())

    def g(x):
        return x + of_tensor(x)

    compiled = OURS(g, backend="eager")
    assert same(compiled(X), g(X)) and same(compiled(X + 1), g(X + 1))


def test_substitutes_are_captured_in_the_place_of_the_original():
    called = []

    def original(x):
        called.append(x)
        print("never captured")
        return x + 1

    @pellucid.substitute_in_graph(original)
    def substitute(x):
        return x + 1

    def f(x):
        return original(x) * 2

    compiled = OURS(f, backend="eager", fullgraph=True)
    assert same(compiled(X), (X + 1) * 2) and not called
    original(X)
    assert called
    with pytest.raises(ValueError, match="already"):
        pellucid.substitute_in_graph(original)(substitute)
    with pytest.raises(TypeError, match="parameters"):
        pellucid.substitute_in_graph(a)(lambda x, y: x)
    with pytest.raises(TypeError, match="callable"):
        pellucid.substitute_in_graph(3)
    with pytest.raises(TypeError, match="Python function"):
        pellucid.substitute_in_graph(a)(operator.add)


def test_a_switch_without_torchs_own_front_end():
    import subprocess
    import sys

    program = """
import sys, torch, pellucid
pellucid.disallow_in_graph(torch.sub)
pellucid.compile(lambda x: torch.sub(x + 1, 1) + 1, backend="eager")(torch.ones(3))
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
