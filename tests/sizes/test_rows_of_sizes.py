"""Rows J01 to J09, D17 and what A07, A18 and D02 say of sizes: what a user sees of dynamic shapes."""

from __future__ import annotations

import pytest
import torch

import pellucid
from support import Counting, same
from support.calls import ramp


class Recording:
    """A backend as torch.compile's: it gets the sizes that stay open as inputs, and runs the graph."""

    def __init__(self) -> None:
        self.graphs: list = []
        self.examples: list = []

    def __call__(self, gm, example_inputs):
        gm.graph.lint()
        self.graphs.append(gm)
        self.examples.append(list(example_inputs))
        return gm.forward

    @property
    def values(self) -> list:
        """The example values of the last graph's inputs, in their order."""
        return [node.meta["example_value"] for node in self.graphs[-1].graph.find_nodes(op="placeholder")]


def recorded(function, *calls, **settings):
    """The backend, after calls that each gave what eager gives."""
    backend = Recording()
    compiled = pellucid.compile(function, backend=backend, **settings)
    for arguments in calls:
        assert same(compiled(*arguments), function(*arguments))
    return backend


def symbols_of(tensor) -> list[str]:
    """The bare symbols in the sizes, strides and offset of a fake tensor."""
    numbers = [*tensor.shape, *tensor.stride(), tensor.storage_offset()]
    exprs = [number.node.expr for number in numbers if isinstance(number, torch.SymInt)]
    return [str(expr) for expr in exprs if expr.is_symbol]


def bound(values) -> list[str]:
    return [str(value.node.expr) for value in values if isinstance(value, torch.SymInt)]


def plus_sum(x, y):
    return x + y.sum()


def test_J01_every_symbol_is_an_input():
    base = ramp(6, 20)
    backend = recorded(plus_sum, (base[1:, ::2].T, ramp(7, 3)), (base[2:, ::4].T, ramp(2, 8)), dynamic=True)
    tensors = [value for value in backend.values if isinstance(value, torch.Tensor)]
    wanted = {symbol for tensor in tensors for symbol in symbols_of(tensor)}
    assert len(backend.graphs) == 1 and len(tensors) == 2
    assert len(wanted) == 5, "four sizes and the stride of the first tensor"
    assert sorted(bound(backend.values)) == sorted(wanted)


def test_J01_a_symbol_of_two_tensors_is_one_input():
    backend = recorded(lambda x, y: x + y, (ramp(4, 3), ramp(4, 3)), (ramp(7, 5), ramp(7, 5)), dynamic=True)
    kinds = [type(value).__name__ for value in backend.values]
    assert kinds == ["SymInt", "SymInt", "FakeTensor", "FakeTensor"]
    assert len(set(bound(backend.values))) == 2
    assert len(backend.graphs) == 1


def test_J01_expressions_are_no_inputs():
    def f(x, y):
        return x.flatten() + y

    backend = recorded(f, (ramp(4, 3), ramp(12)), (ramp(5, 7), ramp(35)), dynamic=True)
    assert len(backend.graphs) == 1
    first, second = [value for value in backend.values if isinstance(value, torch.Tensor)]
    assert not second.shape[0].node.expr.is_symbol, "it is the product of the other two"
    assert set(symbols_of(first)) == set(bound(backend.values))


def test_D17_the_size_of_an_unused_tensor_stays_for_another():
    """The first tensor is no input of the graph; its size is that of the second one."""

    def f(x, y):
        if x.shape[0] == y.shape[0]:
            return y * 2
        return y

    backend = recorded(f, (ramp(4), ramp(4)), (ramp(7), ramp(7)), dynamic=True)
    kinds = [type(value).__name__ for value in backend.values]
    assert kinds == ["SymInt", "FakeTensor"] and len(backend.graphs) == 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_D17_compilers_take_graphs_with_one_input_for_equal_sizes(backend):
    def f(x, y, n):
        return x.reshape(-1, n) + y.view(x.shape[0] * x.shape[1] // n, n) * x.shape[0]

    compiled = pellucid.compile(f, backend=backend, dynamic=True, fullgraph=True)
    for rows, columns in ((4, 6), (8, 6), (10, 4)):
        x, y = ramp(rows, columns).requires_grad_(), ramp(rows, columns).requires_grad_()
        mine, eager = compiled(x, y, 2), f(x, y, 2)
        assert torch.equal(mine, eager)
        got, want = torch.autograd.grad(mine.sum(), (x, y)), torch.autograd.grad(eager.sum(), (x, y))
        assert all(map(torch.equal, got, want))
    assert len(pellucid.cache_entries(compiled)) == 1


def test_J02_sizes_of_wrapper_subclasses_stay_open():
    from torch.testing._internal.two_tensor import TwoTensor

    backend = Recording()
    compiled = pellucid.compile(lambda x: x * 2, backend=backend, fullgraph=True)
    for rows in (4, 5, 6):
        x = TwoTensor(ramp(rows, 3), ramp(rows, 3) + 1)
        mine = compiled(x)
        assert torch.equal(mine.a, x.a * 2) and torch.equal(mine.b, x.b * 2)
    assert len(backend.graphs) == 2


def test_J03_switches_decide():
    """Off: a break; on: one graph. fullgraph=True turns both on."""

    def f(x):
        return x * x.sum().item() + x[x > 0].sum()

    x = torch.tensor([1.0, 2.0, -4.0])
    switches = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    for options, settings, graphs in (({}, {}, None), (switches, {}, 1), ({}, {"fullgraph": True}, 1)):
        pellucid.reset()
        with pellucid.config.patch(options):
            backend = recorded(f, (x,), **settings)
        assert len(backend.graphs) == graphs if graphs else len(backend.graphs) > 1


def test_J04_the_second_size_opens():
    assert len(recorded(lambda x: x * 2, *[(ramp(n),) for n in (10, 8, 6, 5)]).graphs) == 2


def test_J05_each_rank_is_compiled():
    assert len(recorded(lambda x: x * 2, (ramp(4),), (ramp(4, 4),), (ramp(4),)).graphs) == 2


def test_J06_buckets():
    sizes = [(ramp(n),) for n in (8, 16, 32, 64)] * 3
    assert len(recorded(lambda x: x * 2, *sizes, dynamic=False).graphs) == 4


def test_J07_a_marked_size_that_becomes_a_constant_is_told():
    def f(x):
        return x + 1 if x.shape[0] == 3 else x - 1

    x = ramp(3, 2)
    pellucid.mark_dynamic(x, 0)
    with pytest.raises(pellucid.errors.ConstraintViolation, match=r"L\['x'\]\.size\(0\)"):
        pellucid.compile(f, backend=Counting())(x)


def test_J08_equal_sizes_are_checked():
    def f(x, y):
        return x + y

    backend = Recording()
    compiled = pellucid.compile(f, backend=backend, dynamic=True)
    for n in (3, 4, 5):
        assert same(compiled(ramp(n, 2), ramp(n, 2)), f(ramp(n, 2), ramp(n, 2)))
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        compiled(ramp(3, 2), ramp(4, 2))
    assert len(backend.graphs) == 1


def test_J09_sizes_that_data_decides_flow_on():
    def f(x):
        chosen = x[x > 0]
        return chosen.sum(), torch.zeros(chosen.shape[0] + 1, 2), x.nonzero().flatten()

    calls = [(torch.tensor(values),) for values in ([1.0, -2.0, 3.0], [-1.0, -2.0, 3.0], [0.0, 0.0, 5.0])]
    assert len(recorded(f, *calls, fullgraph=True).graphs) == 1


def test_A07_nodes_of_sizes_have_example_values():
    def f(x):
        n = x.shape[0] * 2 + 1
        return x.new_zeros(n).sum() + n

    backend = recorded(f, (ramp(3),), (ramp(5),), dynamic=True)
    nodes = [node for node in backend.graphs[-1].graph.nodes if node.op.startswith("call")]
    numbers = [node.meta["example_value"] for node in nodes if not isinstance(node.meta["example_value"], torch.Tensor)]
    assert numbers and all(isinstance(number, torch.SymInt) for number in numbers)
    assert all("example_value" in node.meta for node in nodes)


def test_A18_a_number_of_a_module_that_changes_is_an_input():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 1

        def forward(self, x):
            return x * self.steps

    module, backend = Scaled(), Recording()
    compiled = pellucid.compile(module, backend=backend)
    for steps in (3, 5, 8, 11):
        module.steps = steps
        assert same(compiled(ramp(2)), module(ramp(2)))
    assert len(backend.graphs) == 2
    assert sum(isinstance(value, torch.SymInt) for value in backend.values) == 1


def test_D02_open_sizes_are_given_as_symints():
    backend = recorded(lambda x: x * x.shape[0], (ramp(3, 2),), dynamic=True)
    (examples,) = backend.examples
    assert [type(example).__name__ for example in examples] == ["SymInt", "SymInt", "Tensor"]
    assert [int(example) for example in examples[:2]] == [3, 2]
