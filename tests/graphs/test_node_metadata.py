"""Metadata of the nodes of a captured graph: example values, the stacks of calls, modules and functions (docs/feature_rows.md, A07, A36, A37)."""

from __future__ import annotations

import operator
import traceback

import pytest
import torch
from torch import nn

from pellucid import _core
from support.graphs import Block, compiled_for, nodes_of


# A07: example values
def many_kinds(x, y):
    pair = torch.max(x, dim=1)
    parts = y.to(torch.float64).chunk(2)
    n = x.size(0)
    x.add_(1)
    return pair.values + n, parts, x.t(), torch.zeros(2, 5, dtype=torch.int32), (x > 0).sum(-1)


class Real(torch.fx.Interpreter):
    """Compares the example value of each node with what the node gives."""

    compared = 0

    def run_node(self, node):
        value = super().run_node(node)
        if node.op != "output":
            self.compare(node.meta["example_value"], value)
        return value

    def compare(self, example, value):
        assert type(example) is type(value)
        if not isinstance(value, torch.Tensor):
            for a, b in zip(example, value, strict=True):
                self.compare(a, b)
            return
        self.compared += 1
        assert (example.shape, example.stride(), example.dtype) == (value.shape, value.stride(), value.dtype)
        assert (example.device, example.requires_grad) == (value.device, value.requires_grad)
        assert _core._aten.is_fake(example) and not _core._aten.is_fake(value)
        with pytest.raises(RuntimeError):  # there is no memory behind it
            example.data_ptr()


def test_A07_every_node_has_an_example_value(recording):
    inputs = torch.rand(3, 4), torch.rand(4, 2)
    compiled_for(recording, many_kinds)(*inputs)
    (gm,) = recording.graphs
    real = Real(gm)
    real.run(torch.rand(3, 4), torch.rand(4, 2))
    assert real.compared >= 12


# A36, A37: where nodes come from
def inner(x):
    y = x * 2
    return y.view(7, 7) if y.dim() == 5 else y.sin()


def outer(x):
    z = x + 1
    return inner(z)


def test_A36_stack_trace_is_the_chain_of_calls(recording):
    compiled_for(recording, outer)(torch.rand(2))
    nodes = nodes_of(recording.graphs[0])
    lines = [line.strip().partition(", line ")[2] for line in nodes["y"].meta["stack_trace"].splitlines()]
    first = outer.__code__.co_firstlineno, inner.__code__.co_firstlineno
    assert [line for line in lines if line] == [f"{first[0] + 2}, in outer", f"{first[1] + 1}, in inner"]
    assert "return inner(z)" in nodes["y"].stack_trace and "y = x * 2" in nodes["y"].stack_trace
    assert "inner" not in nodes["z"].stack_trace


def test_A36_reads_like_a_traceback(recording):
    compiled_for(recording, outer)(torch.rand(2))
    got = nodes_of(recording.graphs[0])["y"].meta["stack_trace"]
    try:
        outer("text")  # "text" + 1
    except TypeError as error:
        (expected,) = traceback.format_tb(error.__traceback__)[1:]
    assert nodes_of(recording.graphs[0])["z"].meta["stack_trace"] == expected
    assert got.startswith("  File ") and got.endswith("\n")
    assert torch.fx.graph._parse_stack_trace(got).name == "inner"


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(Block(), nn.ReLU())

    def forward(self, x):
        return self.block(x) * 2


def test_A37_module_and_source_stacks(recording):
    model = Outer()
    compiled_for(recording, lambda x: model(x))(torch.rand(3))
    linear, add, relu, mul = (n for n in recording.graphs[0].graph.nodes if n.op == "call_function")

    def stack(node):
        return [(path.rpartition("model']")[2], kind) for path, kind in node.meta["nn_module_stack"].values()]

    blocks = [("", Outer), (".block", nn.Sequential)]
    assert stack(linear) == [*blocks, (".block.0", Block), (".block.0.lin", nn.Linear)]
    assert stack(add) == [*blocks, (".block.0", Block)]
    assert stack(relu) == [*blocks, (".block.1", nn.ReLU)]
    assert stack(mul) == [("", Outer)]
    assert [n.meta["source_fn_stack"][-1][1] for n in (linear, add, relu, mul)] == [
        nn.Linear,
        operator.add,
        nn.ReLU,
        operator.mul,
    ]


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        return self.lin(x).relu() + x.sin()


def metadata(graph):
    fields = ("stack_trace", "nn_module_stack", "source_fn_stack")
    return [
        [n.meta.get(name) for name in fields] for n in graph.graph.nodes if n.op in ("call_function", "call_method")
    ]


def test_A38_a_graph_captured_again_keeps_where_it_came_from(recording):
    model = Twice()
    x = torch.rand(2, 3)
    compiled_for(recording, model)(x)
    first = recording.graphs[0]
    by_shape = {tuple(value.shape): value for value in (x, *model.parameters())}
    inputs = [n.meta["example_value"] for n in first.graph.nodes if n.op == "placeholder"]
    (again,) = compiled_for(recording, first)(*(by_shape[tuple(value.shape)] for value in inputs))
    assert torch.equal(again, model(x))
    second = recording.graphs[1]
    assert metadata(second) == metadata(first) and "test_node_metadata" in metadata(second)[0][0]


def test_A38_inside_of_another_function(recording):
    traced = torch.fx.symbolic_trace(Twice())  # its nodes know nothing
    compiled_for(recording, lambda x: traced(x) * 2)(torch.rand(2, 3))
    texts = [trace for trace, *_ in metadata(recording.graphs[0])]
    assert all("test_node_metadata" in text for text in texts)


def test_A38_what_is_called_inside_is_told_behind_it(recording):
    def helper(x):
        return x.cos() - 1

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    call = graph.call_function(helper, (x,))
    call.meta["stack_trace"] = '  File "program.py", line 7, in program\n    y = helper(x)\n'
    graph.output(call)
    compiled_for(recording, torch.fx.GraphModule({}, graph))(torch.rand(3))
    traces = [trace for trace, *_ in metadata(recording.graphs[0])]
    assert len(traces) == 2
    for trace in traces:
        assert (
            trace.startswith('  File "program.py", line 7') and "x.cos() - 1" in trace and "eval_with_key" not in trace
        )
