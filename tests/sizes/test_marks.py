"""dynamic=, mark_dynamic and its like: which sizes are open, where they stand in the graph, and what must not be fixed."""

from __future__ import annotations

import pytest
import torch

import pellucid
from support import Counting
from support.calls import ramp


def graphs(function, *calls, **settings):
    """How many graphs the calls make, each compared with eager, and the compiled function."""
    counting = Counting()
    compiled = pellucid.compile(function, backend=counting, **settings)
    for arguments in calls:
        want = function(*arguments)
        got = compiled(*arguments)
        assert torch.equal(got, want)
        assert got.stride() == want.stride()
    return counting


def doubled(x):
    return x * 2


def of_lengths(*lengths, mark=None):
    tensors = [ramp(n, 3) for n in lengths]
    for tensor in tensors:
        if mark is not None:
            mark(tensor)
    return [(tensor,) for tensor in tensors]


def test_dynamic_none_opens_what_has_changed():
    assert graphs(doubled, *of_lengths(4, 5, 6, 7)).count == 2


def test_dynamic_true_opens_at_once_and_has_0_and_1_apart():
    assert graphs(doubled, *of_lengths(4, 5, 6), (ramp(7, 8),), dynamic=True).count == 1
    assert graphs(doubled, *of_lengths(4, 1, 0, 5, 1, 0), dynamic=True).count == 3


def test_dynamic_true_leaves_sizes_of_parameters_and_attributes():
    class Scale(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = torch.nn.Parameter(ramp(n))
            self.bias = ramp(n)

        def forward(self, x):
            return x * self.weight + self.bias

    module = Scale(3)
    counting = Counting()
    compiled = pellucid.compile(module, backend=counting, dynamic=True)
    for n in (2, 5):
        assert torch.equal(compiled(ramp(n, 3)), module(ramp(n, 3)))
    assert counting.count == 1
    names = [node.name for node in counting.graphs[0].graph.find_nodes(op="placeholder")]
    assert len(names) == 3  # no size is asked for


def test_dynamic_false_opens_nothing():
    assert graphs(doubled, *of_lengths(4, 5, 6), dynamic=False).count == 3


@pytest.mark.parametrize(
    "mark",
    [pellucid.mark_dynamic, pellucid.maybe_mark_dynamic, torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic],
)
def test_a_marked_size_is_open_at_once(mark):
    assert graphs(doubled, *of_lengths(4, 5, 6, mark=lambda t: mark(t, 0))).count == 1


def test_a_marked_size_has_a_range():
    calls = of_lengths(4, 6, 8, 3, mark=lambda t: pellucid.mark_dynamic(t, 0, min=4, max=6))
    assert graphs(doubled, *calls).count == 3  # 4 to 6; 8; 3


@pytest.mark.parametrize("mark", [pellucid.mark_unbacked, torch._dynamo.decorators.mark_unbacked])
def test_an_unbacked_size_may_be_none_or_one(mark):
    def with_branch(x):
        return x + 1 if x.shape[0] > 1 else x - 1

    calls = of_lengths(4, 1, 7, 0, 2, mark=lambda t: mark(t, 0))
    for f in (doubled, lambda x: x * 2 + x.shape[0], lambda x: x.relu() @ torch.ones(3, 2)):
        assert graphs(f, *calls).count == 1
    assert graphs(with_branch, *calls).count > 1
    assert graphs(lambda x: x.unsqueeze(1) + x, *calls).count > 1  # broadcasts one row otherwise


@pytest.mark.parametrize("mark", [pellucid.mark_unbacked, torch._dynamo.decorators.mark_unbacked])
def test_an_unbacked_size_has_a_range(mark):
    assert graphs(doubled, *of_lengths(4, 1, 6, 7, mark=lambda t: mark(t, 0, min=1, max=6))).count == 2
    (call,) = of_lengths(4, mark=lambda t: mark(t, 0, strict=True))
    with pytest.raises(pellucid.errors.ConstraintViolation):
        graphs(branch, call)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_unbacked_sizes_for_backends_that_compile(backend):
    compiled = pellucid.compile(doubled, backend=backend)
    for (x,) in of_lengths(4, 1, 7, 0, 2, mark=lambda t: pellucid.mark_unbacked(t, 0)):
        assert torch.equal(compiled(x), x * 2)
    assert len(pellucid.cache_entries(compiled)) <= 3


@pytest.mark.parametrize("mark", [pellucid.mark_static, torch._dynamo.mark_static])
def test_a_size_marked_as_static_stays_a_constant(mark):
    assert graphs(doubled, *of_lengths(4, 5, 6, mark=lambda t: mark(t, 0))).count == 3


def branch(x):
    return x * 2 if x.shape[0] == 4 else x + 1


def product(x):
    return x.t() @ ramp(4, 2)


@pytest.mark.parametrize("function", [branch, product])
def test_a_marked_size_that_is_fixed_is_an_error(function):
    (call,) = of_lengths(4, mark=lambda t: pellucid.mark_dynamic(t, 0))
    with pytest.raises(pellucid.errors.ConstraintViolation) as raised:
        pellucid.compile(function, backend="eager")(*call)
    assert raised.value.source == "L['x'].size(0)"
    assert raised.value.condition == "L['x'].size(0) == 4"
    assert f"in {function.__name__}" in str(raised.value)
    assert "test_marks.py" in str(raised.value)
    (call,) = of_lengths(4, mark=lambda t: pellucid.maybe_mark_dynamic(t, 0))
    assert torch.equal(pellucid.compile(function, backend="eager")(*call), function(*call))


def test_wrong_marks():
    with pytest.raises(IndexError, match="dimension 2 of a tensor with 2"):
        pellucid.mark_dynamic(ramp(2, 3), 2)
    with pytest.raises(TypeError, match="expected a tensor"):
        pellucid.mark_static(3)
    with pytest.raises(ValueError, match="min=4 is larger"):
        pellucid.mark_dynamic(ramp(2, 3), 0, min=4, max=3)
    with pytest.raises(ValueError, match="min=4 is larger than max=3"):
        pellucid.mark_unbacked(ramp(2, 3), 0, min=4, max=3)


def test_A10_a_size_stands_before_its_tensor():
    def rows(y, x):
        return x.view(x.shape[1], x.shape[0]) + y.sum()

    counting = graphs(rows, (ramp(4), ramp(3, 5)), dynamic=True)
    names = [node.name for node in counting.graphs[0].graph.find_nodes(op="placeholder")]
    assert len(names) == 4
    assert [names.index(name) for name in names if "size" in name] == [0, 1]
    assert "y" in names[3]


def test_A12_a_size_is_guarded_though_its_tensor_is_no_input():
    def other(x, y):
        return y + 1 if x.shape[0] > 4 else y - 1

    calls = [(ramp(n, 3), ramp(2)) for n in (3, 4, 5, 9)]
    counting = graphs(other, *calls, dynamic=True)
    assert counting.count == 2
    assert all(len(gm.graph.find_nodes(op="placeholder")) == 1 for gm in counting.graphs)


def test_J08_equal_sizes_are_one_condition():
    def both(x, y):
        return x + y

    calls = [(ramp(n, 3), ramp(n, 3)) for n in (3, 4, 5)]
    assert graphs(both, *calls, (ramp(1, 3), ramp(4, 3)), dynamic=True).count == 2
    compiled = pellucid.compile(both, backend="eager", dynamic=True)
    compiled(ramp(3, 3), ramp(3, 3))
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        compiled(ramp(3, 3), ramp(4, 3))


def test_D17_a_size_that_nothing_uses_is_no_input():
    counting = graphs(doubled, *of_lengths(4, 5), dynamic=True)
    assert [len(gm.graph.find_nodes(op="placeholder")) for gm in counting.graphs] == [1]


@pytest.mark.parametrize(
    "options, marked, graphs",
    [
        ({}, False, 2),
        ({"dynamic_shapes": False}, False, 4),
        ({"dynamic_shapes": False}, True, 4),
        ({"automatic_dynamic_shapes": False}, False, 4),
        ({"automatic_dynamic_shapes": False}, True, 1),
        ({"assume_static_by_default": False}, False, 1),
        ({"assume_static_by_default": False, "automatic_dynamic_shapes": False}, False, 1),
    ],
)
def test_names_of_torch_for_what_is_open(options, marked, graphs):
    """They have the names, defaults and meanings of torch._dynamo.config."""

    def f(x):
        return x * x.shape[0]

    with pellucid.config.patch(options):
        counting = Counting()
        compiled = pellucid.compile(f, backend=counting)
        for length in range(2, 6):
            x = torch.ones(length)
            if marked:
                pellucid.maybe_mark_dynamic(x, 0)
            assert torch.equal(compiled(x), f(x))
    assert counting.count == graphs
