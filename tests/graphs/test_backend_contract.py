"""The contract with backends: what they get, what they may give, what happens when they fail (docs/feature_rows.md, section D)."""

import traceback

import pytest
import torch

import pellucid
from pellucid.errors import BackendCompilerFailed
from support import same
from support.graphs import placeholders

X = torch.arange(1.0, 4.0)


# ---- D01, D02, D03: the contract with the backend


def two(x, y):
    return x + y, x * y


class Wrapper:
    def __init__(self, gm):
        self.gm = gm

    def __call__(self, *args):
        return self.gm.forward(*args)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda gm: gm,
        lambda gm: gm.forward,
        Wrapper,
        lambda gm: lambda *args: list(gm.forward(*args)),
        lambda gm: torch.fx.Interpreter(gm).run,
    ],
    ids=["module", "forward", "object", "gives_a_list", "interpreter"],
)
def test_D01_what_a_backend_may_give(wrap):
    given = []

    def backend(gm, example_inputs):
        given.append((gm, example_inputs))
        return wrap(gm)

    compiled = pellucid.compile(two, backend=backend, fullgraph=True)
    for x in (X + 1, X + 2):
        assert same(compiled(x, X), two(x, X))
    ((gm, inputs),) = given
    assert isinstance(gm, torch.fx.GraphModule) and type(inputs) is list


def test_D01_the_graph_is_called_positionally():
    calls = []

    def backend(gm, example_inputs):
        def run(*args, **kwargs):
            calls.append((args, kwargs))
            return gm.forward(*args)

        return run

    compiled = pellucid.compile(two, backend=backend, fullgraph=True)
    a, b = torch.ones(3), torch.zeros(3)
    compiled(a, b), compiled(x=b, y=a)
    assert [kwargs for _, kwargs in calls] == [{}, {}]
    assert [[t is s for t, s in zip(args, want)] for (args, _), want in zip(calls, [(a, b), (b, a)])] == [
        [True] * 2
    ] * 2


@pytest.mark.parametrize("result", [None, 3, "text"])
def test_D01_what_cannot_be_called(result):
    compiled = pellucid.compile(two, backend=lambda gm, example_inputs: result)
    with pytest.raises(BackendCompilerFailed, match="did not return callable"):
        compiled(X, X)


def test_D02_example_inputs_are_the_real_tensors_in_order():
    given = []

    def backend(gm, example_inputs):
        given.append((gm, list(example_inputs)))
        return gm.forward

    net = torch.nn.Linear(3, 3)

    def f(unused, x, box):
        return net(box["b"]) + x

    unused, x, box = torch.ones(9), torch.ones(3), {"a": torch.ones(2), "b": torch.zeros(3)}
    assert same(pellucid.compile(f, backend=backend, fullgraph=True)(unused, x, box), f(unused, x, box))
    ((gm, examples),) = given
    scope = {"L": {"unused": unused, "x": x, "box": box, "net": net}}
    sources = [node._dynamo_source.name for node in placeholders(gm)]
    assert len(examples) == len(sources) == 4
    for example, source in zip(examples, sources, strict=True):
        assert example is eval(source, scope)


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (lambda x: x + 1, 1),
        (lambda x: [x + 1], 1),
        (lambda x: {"a": x + 1, "b": (x * 2, x)}, 2),
        (lambda x: ((x + 1).shape, x.sin().dtype), 0),
    ],
    ids=["one", "list", "dict", "none"],
)
def test_D03_the_output_is_one_tuple_of_the_live_values(counting, f, count):
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    assert same(compiled(X), f(X))
    (gm,) = counting.graphs
    (values,) = gm.graph.output_node().args
    assert type(values) is tuple and len(values) == count
    assert type(gm.forward(X)) is tuple and len(gm(X)) == count


# ---- D05: what the graph module says of itself


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))

    def forward(self, x):
        return self.layers(x).relu()


def test_D05_reason_names_and_sources(counting):
    model = Model()

    def f(x):
        y = model(x)
        return y + 1

    x = torch.randn(2, 3)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    compiled(x), compiled(torch.randn(4, 3))
    gm, later = counting.graphs
    reason = gm.compile_subgraph_reason
    assert (reason.reason, reason.graph_break) == ("return_value", False)
    (frame,) = reason.user_stack
    assert (frame.filename, frame.name, frame.lineno) == (__file__, "f", f.__code__.co_firstlineno + 2)
    assert frame.line == "return y + 1"
    assert repr(gm) == "GraphModule()"
    assert gm.graph.owning_module is gm  # the rest is filled in when somebody looks
    scope = {"L": {"model": model, "x": x}}
    names = gm._param_name_to_source
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    assert set(names) == {f"model.{name}" for name in tensors}
    assert all(eval(names[f"model.{name}"].name, scope) is tensor for name, tensor in tensors.items())
    flat = gm.meta["dynamo_flat_name_to_original_fqn"]
    assert flat == {"L__model___" + name.replace(".", "_"): name for name in tensors}
    assert gm._source_to_user_stacks == {}  # of symbols: static shapes have none
    first, second = gm.meta["dynamo_compile_id"], later.meta["dynamo_compile_id"]
    assert first.frame_id == second.frame_id and (first.frame_compile_id, second.frame_compile_id) == (0, 1)
    assert str(second) == f"{second.frame_id}/1"


# ---- D10, D14, D16


def test_D10_a_failing_backend():
    def breaks_down(gm, example_inputs):
        raise KeyError("inner text")

    compiled = pellucid.compile(two, backend=breaks_down)
    for _ in range(2):
        with pytest.raises(BackendCompilerFailed) as caught:
            compiled(X, X)
        error = caught.value
        assert type(error.inner_exception) is KeyError and error.backend_name == "breaks_down"
        assert "backend='breaks_down' raised:\nKeyError: 'inner text'" in str(error)
        assert 'raise KeyError("inner text")' in "".join(traceback.format_tb(error.__traceback__))
    assert pellucid.cache_entries(compiled) == []


def test_D14_torch_state_while_the_backend_runs():
    seen = []

    def backend(gm, example_inputs):
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype()))
        torch.set_grad_enabled(True)
        torch.set_autocast_enabled("cpu", True)
        return gm.forward

    def f(x):
        y = x * 2
        torch._C._set_grad_enabled(False)
        return y, x * 3

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    w = torch.ones(3, requires_grad=True)
    for _ in range(2):
        try:
            y, z = compiled(w)
            assert not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
        finally:
            torch.set_grad_enabled(True)
        assert y.requires_grad and not z.requires_grad
    assert seen == [(True, False, torch.float32)]


@pytest.mark.parametrize(
    ("f", "inputs", "calls"),
    [
        (lambda x, y, z: (x, y, z)[0] + [y, z][0], ["l_x_", "l_y_"], ["add"]),
        (lambda x, y, z: x + [y, z][-2] if z is not y else x, ["l_x_", "l_y_"], ["add"]),
        # a dead call stays: it may fail when it runs
        (lambda x, y, z: (x + y, z.sin())[0], ["l_x_", "l_y_", "l_z_"], ["add", "sin"]),
        (lambda x, y, z: (x + y, z.sum(0)[None])[0], ["l_x_", "l_y_", "l_z_"], ["add", "sum_1"]),
    ],
)
def test_D16_unused_inputs_and_dead_reads_go(counting, f, inputs, calls):
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    y, z = X + 1, X + 2
    assert same(compiled(X, y, z), f(X, y, z))
    (gm,) = counting.graphs
    assert [node.name for node in placeholders(gm)] == inputs
    assert [node.name for node in gm.graph.nodes if node.op.startswith("call")] == calls
