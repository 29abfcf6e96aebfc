"""What item() gives where the backend gets no such numbers: read behind the graph, which goes on."""

from __future__ import annotations

import copy
import math

import pytest
import torch

import pellucid
from support import CountingOf


def described(value):
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, tuple(value.shape), value.requires_grad, str(value.tolist()))
    if isinstance(value, (tuple, list)):
        return type(value), [described(item) for item in value]
    return type(value), repr(value)


def is_close(a, b):
    """Inductor's kernels round otherwise."""
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(is_close, a, b))
    if isinstance(a, float):
        return type(b) is float and math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-3)
    return torch.allclose(a, b) if isinstance(a, torch.Tensor) else described(a) == described(b)


def graphs_of(f, *calls, backend="aot_eager"):
    """How many graphs these calls make, which give what they give in eager."""
    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for args in calls:
        given = copy.deepcopy(args), copy.deepcopy(args)
        got, wanted = (compiled(*given[0]), given[0]), (f(*given[1]), given[1])
        assert is_close(got, wanted) if backend == "inductor" else described(got) == described(wanted)
    return counting.count


def calls_of(count=3):
    return [(torch.arange(4.0) + i,) for i in range(count)]


def returned(x):
    n = x.sum().item()
    y = x.sin()
    return y, n, float(y.mean()), int(y.argmax()), y.max().item(), (x > 1).any().item()


def computed(x):
    n, k = x.sum().item(), x.argmax().item()
    return n / 4, round(n, 3), -n, abs(n) + 1, n * 2 - k, k * 2 + 1, k % 3, float(k), n // 2, sum([n, 1.5]), x + 1


def printed(x):
    n, k = x.sum().item(), x.argmax().item()
    return f"{n:.3f} {k}", str(n), f"{[n, k]}", x + 1


def in_a_loop(x):
    losses, total = [], 0.0
    for _ in range(4):
        x = x.sin()
        losses.append(x.sum().item())
        total += x.mean().item()
    return losses, total, x


def of_lists(x):
    return (x * 2).tolist(), x + 1


def written_behind(x):
    first = x[0].item()
    x.add_(1)
    second = x[0].item()
    x.mul_(3)
    return first, second, x


def moved_behind(x):
    y = x * 2
    n = y.sum().item()
    y.data = y + 1
    return n, y


def of_gradients(x):
    weight = torch.ones(4, requires_grad=True)
    loss = (weight * x).sum()
    loss.backward()
    return loss.item(), weight.grad.norm().item(), weight.grad


@pytest.mark.parametrize(
    "f", [returned, computed, printed, in_a_loop, of_lists, written_behind, moved_behind, of_gradients]
)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_numbers_that_no_node_takes_end_no_graph(f, backend):
    assert graphs_of(f, *calls_of(), backend=backend) == 1


def test_infinities_and_nan_are_results():
    def f(x):
        nan = (x[0] / x[0]).item()
        return nan, nan * 0, nan + 1, -nan, (x / 0).max().item() / 2, f"{nan}"

    assert graphs_of(f, *calls_of(), (torch.full((4,), math.nan),), (torch.full((4,), math.inf),)) == 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_next_region_has_a_number_that_a_node_takes(backend):
    def f(x):
        n, k = x.sum().item(), x.max().item()
        y = x.sin()
        return y * n + k, k

    assert graphs_of(f, *calls_of(5), backend=backend) == 2


def test_a_size_is_an_input_of_the_next_region():
    def f(x):
        n = x.argmax().item()
        y = x * 2
        return y[:n].sum() + torch.zeros(n + 2).sum(), n

    assert graphs_of(f, *[(torch.arange(float(count)),) for count in (5, 5, 5)]) == 2


def test_a_keyword_argument_is_one():
    def f(x):
        n = x.sum().item()
        return torch.full((2,), fill_value=n) + 1, n

    assert graphs_of(f, *calls_of()) >= 2


def test_a_branch_ends_the_region():
    def f(x):
        n = x.sum().item()
        y = x.cos()
        if n > 8:
            return y + 1, n
        return y - 1, n

    assert graphs_of(f, *calls_of(4)) == 3


def test_the_reason_names_the_call():
    def f(x):
        total = x.sum().item()
        y = x.cos()
        return y * total

    compiled = pellucid.compile(f, backend="aot_eager")
    assert torch.equal(compiled(torch.ones(3)), f(torch.ones(3)))
    assert "x.sum().item()" in str(pellucid.break_reasons(compiled)[0])


@pytest.mark.parametrize(
    "compared", ["n != n", "n == n", "math.isnan(n)", "n < 1", "not n", "int(n)", "1 / n", "n ** 2"]
)
def test_what_looks_at_one_sees_the_number_itself(compared):
    code = f"def f(x):\n    n = (x * 2).sum().item()\n    y = x + 1\n    return {compared}, y"
    names = {"math": math}
    exec(code, names)
    count = graphs_of(names["f"], *calls_of(2))
    assert count >= 1
    compiled = pellucid.compile(names["f"], backend="aot_eager")
    for value in (math.nan, math.inf, 1e200, 0.0):
        outcomes = []
        for g in (names["f"], compiled):
            try:
                outcomes.append(described(g(torch.full((4,), value, dtype=torch.float64))))
            except (ValueError, OverflowError, ZeroDivisionError) as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1]


def test_several_elements_raise_as_in_eager():
    def f(x):
        y = x + 1
        try:
            return y.item()
        except RuntimeError as error:
            return str(error)

    assert graphs_of(f, *calls_of(2)) == 1


def test_what_is_kept_from_call_to_call():
    class Meter:
        def __init__(self):
            self.total = 0.0

    meters = Meter(), Meter()

    def f(x, meter):
        meter.total += x.sum().item()
        return x * 2

    counting = CountingOf("aot_eager")
    compiled = pellucid.compile(f, backend=counting)
    for (x,) in calls_of(4):
        compiled(x, meters[0])
        f(x, meters[1])
    assert meters[0].total == meters[1].total
    assert counting.count == 1


def test_with_numbers_in_graphs_it_is_a_node():
    def f(x):
        n = x.sum().item()
        return x * 2, n

    counting = CountingOf("aot_eager")
    with pellucid.config.patch(capture_scalar_outputs=True):
        pellucid.compile(f, backend=counting)(torch.ones(3))
    assert any(node.target == "item" for node in counting.graphs[0].graph.nodes)
