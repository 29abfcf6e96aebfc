"""Numbers and sizes that only the values of tensors tell: in the graph, and asserted there."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import pellucid
from support import Counting, CountingOf

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from programs.research import suppressed

T = torch.tensor


def outcome(f, args):
    """The result or exception, and the arguments afterwards."""
    args = copy.deepcopy(args)
    try:
        result = f(*args)
    except Exception as error:
        return type(error), str(error), args
    return result, args


def described(value):
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, tuple(value.shape), value.stride(), value.requires_grad, str(value.tolist()))
    if isinstance(value, (tuple, list)):
        return type(value), [described(item) for item in value]
    return type(value), repr(value)


def zeros_of_item(x):
    return torch.zeros(x.sum().item())


def times_item(x):
    return x * x.sum().item(), x.sum().item() + 1


def formatted(x):
    return f"loss {x.sum().item():.3f}", x + 1


def kinds(x):
    return int(x[0]), float(x[0]), x.bool().any().item(), x * int(x[0])


def checked(x):
    n = x.sum().item()
    torch._check(n <= 5)
    torch._check(n >= 0, lambda: f"{n} is less than 0")
    return torch.ones(n)


def checked_list(x):
    a, b = x.tolist()
    torch._check(a + b == 4)
    return x * a, b


def rows(x):
    found = x.nonzero()
    return found, found.shape[0], torch.ones(found.shape[0])


def masked(x):
    chosen = x[x > 0]
    return chosen * 2, chosen.shape[0] * 2


def both_parts(x):
    return torch.cat([x[x > 0], x[x <= 0]])


def unique(x):
    return torch.unique(x, return_inverse=True, return_counts=True)


def experts(x):
    which = x.argmax(-1)
    out = torch.zeros_like(x)
    for expert in range(2):
        mine = (which == expert).nonzero().squeeze(-1)
        out.index_add_(0, mine, F.layer_norm(x[mine], (2,)) @ torch.ones(2, 2) * (expert + 1))
    return out


def repeated(x):
    return torch.repeat_interleave(x, x) + 1


def ragged_mask(lengths):
    return torch.arange(lengths.max().item()) < lengths[:, None]


def prefix(x):
    return x.narrow(0, 0, x[0].item()).sum(), x[: int(x[1])]


def pairs(x):
    return x[x > 0].reshape(-1, 2)


def size_of_a_float(x):
    n = int(x.max())
    return torch.zeros(n) + n


def bins(x):
    return torch.bincount(x), torch.bincount(x, torch.ones(3), minlength=2) / 2


def found_in_one(x):
    (where,) = torch.where(x > 0)
    return x.nonzero(), x[x > 0] * 2, where.shape[0], torch.unique(x), torch.masked_select(x, x > 0).sum()


def kept_if_any(x):
    any_positive = bool((x > 0).any().item())
    return x * any_positive, torch.where(x < 0, any_positive, True)


def writes_first(x):
    x.add_(1)
    return torch.zeros(x.sum().item())


def unique_slices(x):
    rows, inverse, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    return rows + 1, inverse, counts, torch.unique(x.t(), dim=-1), torch.unique_consecutive(x, dim=1)


def unique_of_three(x):
    x = x.view(3, 2, 2).permute(2, 0, 1)
    return [torch.unique(x, dim=dim) * 2 for dim in range(3)]


def zeros_of_less(x):
    return torch.zeros(x.sum().item() - 5) + x.sum().item() // 7


def many(x):
    n = x.sum().item()
    torch._check(n > 100)
    torch._check(n % 4 == 0)
    return torch.ones(n).view(-1, 4).sum(0)


def two_of_a_size(x):
    n, m = x.tolist()
    torch._check(n == 2 * m)
    torch._check(m >= 1)
    return torch.ones(n, 3).view(m, 6) + torch.zeros(m, 1)


def repeated_to_six(x):
    return torch.repeat_interleave(torch.arange(3.0), x, output_size=6) + 1


PROGRAMS = [
    (zeros_of_item, [T([1, 2]), T([0, 0]), T([1, 0]), T([-3, 0]), T([10, 0])]),
    (times_item, [T([1, 2]), T([3, 4])]),
    (times_item, [T([1.0, 2]), T([3.0, 4]), T([float("nan"), 1]), T([float("inf"), 1])]),
    (formatted, [T([1.0, 2]), T([3.0, 4]), T([float("nan"), 1])]),
    (kinds, [T([1, 2]), T([0, 0])]),
    (kinds, [T([1.5, 2]), T([-0.5, 0]), T([float("nan"), 0])]),
    (checked, [T([1, 2]), T([0, 0]), T([4, 5]), T([-1, 0])]),
    (checked_list, [T([1, 3]), T([2, 2]), T([2, 3])]),
    (rows, [T([[1, 0], [2, 3]]), T([[0, 0], [0, 0]]), T([[1, 0], [0, 0]]), T([[1, 1], [1, 1]])]),
    (masked, [T([1.0, -1, 2, 3]), T([-1.0] * 4), T([-1.0, 1, -1, -1]), T([1.0] * 4)]),
    (both_parts, [T([1.0, -1, 2, 3]), T([-1.0] * 4), T([1.0] * 4)]),
    (unique, [T([[1, 2], [2, 3]]), T([[1, 1], [1, 1]]), T([[4, 3], [2, 1]])]),
    (experts, [torch.eye(2).repeat(3, 1), T([[1.0, 0]] * 6), T([[0.0, 1]] * 6)]),
    (repeated, [T([1, 2, 3]), T([0, 0, 3]), T([0, 0, 0]), T([0, -1, 3])]),
    (ragged_mask, [T([3, 5]), T([1, 9]), T([0, 0])]),
    (prefix, [T([1, 3, 4]), T([2, 2, 5]), T([0, 0, 0]), T([7, 1, 1]), T([1, -1, 3])]),
    (pairs, [T([1.0, 2, -3, 4, 5, 0, 0]), T([1.0, 2, -3, 4, -5, 0, 0]), T([-1.0] * 7)]),
    (size_of_a_float, [T([1.0, 3.7]), T([0.0, 0.0]), T([2.2, 1.0]), T([-4.0, -1.0]), T([float("inf"), 0.0])]),
    (bins, [T([1, 3, 0]), T([0, 0, 0]), T([1, 1, 7]), T([2, -1, 0])]),
    (found_in_one, [T([1.0]), T([0.0]), T([-2.0])]),
    (kept_if_any, [T([1.0, -1]), T([-1.0, 0]), T([0.0, 2])]),
    (unique_slices, [T([[1, 2], [1, 2], [3, 4]]), T([[1, 1], [1, 1], [1, 1]]), T([[3, 1], [2, 1], [1, 1]])]),
    (
        unique_of_three,
        [torch.arange(12), torch.zeros_like(torch.arange(12)), torch.arange(12) % 2, torch.arange(12) // 4],
    ),
    (zeros_of_less, [T([3, 4]), T([9, 5]), T([2, 3]), T([1, 2])]),
    (many, [T([100, 4]), T([60, 60]), T([100, 3]), T([4, 4])]),
    (two_of_a_size, [T([4, 2]), T([10, 5]), T([4, 3]), T([2, 1])]),
    (repeated_to_six, [T([1, 2, 3]), T([2, 2, 2]), T([0, 0, 6]), T([1, 1, 1]), T([-1, 4, 3])]),
    (writes_first, [T([2, 3]), T([4, 4]), T([-5, 0])]),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("f, inputs", PROGRAMS, ids=lambda value: getattr(value, "__name__", None))
def test_one_graph_for_all_values(f, inputs, backend):
    """fullgraph=True takes them in, as under torch.compile: one entry, and eager's results, layouts and exceptions."""
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for x in inputs:
        assert described(outcome(compiled, [x])) == described(outcome(f, [x])), x
    assert len(pellucid.cache_entries(compiled)) == 1


def graph_of(f, *args):
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    pellucid.compile(f, backend=backend, fullgraph=True)(*args)
    (graph,) = graphs
    return graph.graph


@pytest.mark.parametrize(("backend", "without"), [("eager", 0), ("aot_eager", 1)])
def test_switches_decide_what_is_captured(backend, without):
    """Row J03. Backend "eager" needs no switch: what numbers and sizes are in its graph, they are in the program. Others
    get sizes that depend on values unless they are told not to, and numbers where they are told to."""

    def made():
        def f(x):
            return x * x.sum().item(), x[x > 0]

        return f

    x = T([1.0, 2.0, -4.0])
    for switches, breaks in [
        ({}, without),
        ({"capture_scalar_outputs": True}, 0),
        ({"capture_dynamic_output_shape_ops": False}, 2 * without),
        ({"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": False}, without),
    ]:
        with pellucid.config.patch(switches):
            pellucid.reset()
            compiled = pellucid.compile(made(), backend=backend)
            assert described(compiled(x)) == described(made()(x))
            assert len(pellucid.break_reasons(compiled)) == breaks, switches


def test_assertions_stand_before_what_needs_them():
    """Rows D19 and D20: behind the last value that one needs, in front of the operator."""

    def f(x):
        return torch.ones(x.sum().item())

    names = [str(node.target) for node in graph_of(f, T([1, 2])).nodes if node.op.startswith("call")]
    assert names[0] == "sum" and names[1] == "item"
    assert "aten._assert_scalar.default" in names and names[-1] != "aten._assert_scalar.default"
    (check,) = [node for node in graph_of(f, T([1, 2])).nodes if "_assert_scalar" in str(node.target)]
    assert check.args[1] == "Runtime assertion failed for expression u0 >= 0"


def test_an_assertion_of_two_numbers_waits_for_both():
    graph = graph_of(checked_list, T([1, 3]))
    nodes = list(graph.nodes)
    items = [i for i, node in enumerate(nodes) if node.target == "item"]
    checks = [i for i, node in enumerate(nodes) if "_assert_scalar" in str(node.target)]
    assert len(items) == 2 and len(checks) == 1 and checks[0] > max(items)


def test_input_that_only_an_assertion_needs():
    """Row D21."""

    def f(x, y):
        torch._check(y.sum().item() == 4)
        return x + 1

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(1), T([4])), T([2.0]))
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        compiled(torch.ones(1), T([5]))
    assert len(graph_of(f, torch.ones(1), T([4])).find_nodes(op="placeholder")) == 2


def test_sizes_that_nobody_uses_are_not_read():
    assert not graph_of(lambda x: x[x > 0] * 2, T([1.0, -1, 2])).find_nodes(op="call_method", target="size")


def test_branch_on_such_a_number_ends_the_region():
    def f(x):
        n = x.sum().item()
        if n > 3:
            return x + n
        return x - n

    with pellucid.config.patch(capture_scalar_outputs=True):
        compiled = pellucid.compile(f, backend="eager")
        for x in (T([1, 3]), T([1, 1]), T([1, 3])):
            assert torch.equal(compiled(x), f(x))
    (reason,) = pellucid.break_reasons(compiled)
    assert reason.name == "DataDependent" and "x.sum().item() >= 4" in reason.message
    assert reason.user_stack[-1].line == "if n > 3:"
    with pytest.raises(pellucid.errors.Unsupported, match=r"a branch on x\.sum\(\)\.item\(\) >= 4"):
        pellucid.compile(f, backend="eager", fullgraph=True)(T([1, 3]))


def test_beside_sizes_that_change():
    def f(x, n):
        k = x[x > 0]
        m = k.shape[0] + n
        return torch.cat([torch.zeros(m) + n, k]), m, f"{m} {n}"

    for backend in ("eager", "aot_eager"):
        compiled = pellucid.compile(f, backend=backend, fullgraph=True)
        for n in range(8):
            x = torch.arange(-2.0, n + 2)
            assert described(compiled(x, n)) == described(f(x, n))
        assert len(pellucid.cache_entries(compiled)) <= 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend):
    def f(x):
        return (x[x > 0] * 3).pow(2).sum() * x.detach().sum().item()

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(10)
        grads = []
        for g in (f, compiled):
            leaf = x.clone().requires_grad_()
            g(leaf).backward()
            grads.append(leaf.grad)
        assert torch.equal(*grads)
    assert len(pellucid.cache_entries(compiled)) == 1


def test_effects_and_breaks():
    """A value of the graph is stored, appended, and alive behind a graph break."""

    def program(losses, stats):
        def step(x):
            loss = x.pow(2).sum()
            losses.append(loss.item())
            stats["rows"] = x.nonzero().shape[0]
            pellucid.graph_break()
            return stats["rows"] + x, losses[-1] * 2

        return step

    with pellucid.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        seen = []
        for wrap in (lambda f: f, lambda f: pellucid.compile(f, backend="eager")):
            losses, stats = [], {}
            step = wrap(program(losses, stats))
            results = [described(step(x)) for x in (T([1.0, 2, 0]), T([0.0, 0, 0]), T([3.0, 1, 1]))]
            seen.append((results, losses, stats))
        assert seen[0] == seen[1]


def thrice_of_some(x):
    return x[x > 0][None].expand(3, -1).reshape(-1)


def test_assertions_that_fail_at_call_after_call(caplog):
    """They cost a run in vain each time; from the third on such operators are not captured. Others begin anew."""
    with pellucid.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = pellucid.compile(thrice_of_some, backend="eager")
        some, none = T([1.0, -1, 2]), T([-1.0, -1, -2])
        compiled(some)
        for x in (none, none, some, none, none):
            assert torch.equal(compiled(x), thrice_of_some(x))
        assert not pellucid.break_reasons(compiled)
        assert torch.equal(compiled(none), thrice_of_some(none))
        assert "in vain 3 calls in a row" in caplog.text and "thrice_of_some" in caplog.text
        for x in (none, some):
            assert torch.equal(compiled(x), thrice_of_some(x))
        assert {reason.name for reason in pellucid.break_reasons(compiled)} == {"DataDependent"}
        pellucid.reset()
        compiled(some)
        assert not pellucid.break_reasons(compiled)


def test_fullgraph_keeps_what_it_asks_for():
    compiled = pellucid.compile(thrice_of_some, backend="eager", fullgraph=True)
    for x in (T([1.0, -1, 2]), *[T([-1.0, -1, -2])] * 5):
        assert torch.equal(compiled(x), thrice_of_some(x))
    assert len(pellucid.cache_entries(compiled)) == 1


def test_a_backend_that_cannot_take_them():
    calls = []

    def backend(gm, example_inputs):
        calls.append(gm)
        if gm.graph.find_nodes(op="call_method", target="item"):
            raise ValueError("no numbers")
        return gm.forward

    def f(x):
        return x * x.sum().item()

    with pellucid.config.patch(capture_scalar_outputs=True):
        compiled = pellucid.compile(f, backend=backend)
        assert torch.equal(compiled(T([1.0, 2.0])), T([3.0, 6.0]))
        assert len(calls) == 3  # with the number; up to item(), and behind it


USES_THAT_NEED_THE_VALUE = {
    "range": lambda n: range(n),
    "loop": lambda n: [i for i in range(n)],
    "repeated": lambda n: [0] * n,
    "index": lambda n: list(range(9))[n],
    "key": lambda n: {1: "one", 3: "three"}.get(n),
    "text": lambda n: ("a" * n, chr(65 + n), f"{n}"),
    "computed": lambda n: list(range(n * 2 + 1)),
    "text of computed": lambda n: len(f"{n * 50}"),
    "bytes": lambda n: bytes(n),
    "order": lambda n: sorted([n, 2]),
    "conversion": lambda n: range(int(n)),
}


@pytest.mark.parametrize("use", USES_THAT_NEED_THE_VALUE.values(), ids=USES_THAT_NEED_THE_VALUE.keys())
def test_what_a_region_ends_on_has_its_own_value_behind_it(use):
    """Whoever asks for the plain value is refused, and asks for it again behind the break."""

    def program(x):
        y = x + 1
        n = x.item()
        return y, use(n), n

    with pellucid.config.patch(capture_scalar_outputs=True):
        compiled = pellucid.compile(program, backend=(counting := Counting()))
        for value in (2, 4, 1, 3, 5):
            want, got = program(torch.tensor(value)), compiled(torch.tensor(value))
            assert got[1:] == want[1:] and torch.equal(got[0], want[0])
    assert any(node.target == "item" for gm in counting.graphs for node in gm.graph.nodes)


class Run:
    def __init__(self):
        self.average, self.best, self.top, self.losses = None, float("inf"), float("-inf"), []

    def step(self, x):
        loss = (x * x).sum().item()
        self.average = loss if self.average is None else 0.9 * self.average + 0.1 * loss
        self.best, self.top = min(self.best, loss), max(loss, self.top)
        self.losses.append(loss)
        return x * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_averages_and_extrema_that_are_no_numbers(backend):
    compiled = pellucid.compile(Run.step, backend=backend, fullgraph=True)
    pellucid.counters.clear()
    mine, eager = Run(), Run()
    for value in (1.0, 2.0, 0.5, float("nan"), 3.0, float("inf"), 4.0):
        x = torch.full((3,), value)
        assert torch.equal(compiled(mine, x), Run.step(eager, x)) or value != value
        assert repr(vars(mine)) == repr(vars(eager))
    assert 0 < pellucid.counters()["graphs"] <= 7


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_bins_of_a_size_that_changes(backend):
    def bins(x, n):
        return torch.bincount(x, minlength=n) + 1

    compiled = pellucid.compile(bins, backend=backend, fullgraph=True)
    pellucid.counters.clear()
    for values, n in (([1, 2], 5), ([1, 2], 7), ([1, 9], 3), ([0, 0], 0), ([3, 1], 4), ([3, -1], 4), ([3, 1], -4)):
        x = T(values)
        assert described(outcome(compiled, [x, n])) == described(outcome(bins, [x, n])), (values, n)
    assert 1 < pellucid.counters()["graphs"] <= 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_number_that_is_a_size_that_changes(backend):
    """The hint of the one becomes that of the other: they are the same from there on.

    torch's symbols would take the size for the number, also in what asserts that they are equal: for those backends it is a
    constant.
    """

    def f(x, y):
        n = x.item()
        torch._check(n == y.shape[0])
        return y + torch.ones(n)

    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    pellucid.counters.clear()
    for n, size in ((3, 3), (4, 4), (7, 7), (5, 4), (12, 12)):
        args = T(n), torch.arange(float(size))
        assert described(outcome(compiled, args)) == described(outcome(f, args)), (n, size)
    assert pellucid.counters()["graphs"] == (2 if backend == "eager" else 4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_numbers_that_have_to_fit_sizes(backend, dynamic):
    """Nobody says so, but the operators need it; where it is not so, they raise."""

    def added(n, y):
        return y + torch.ones(n.item())

    def viewed(n, y):
        return torch.ones(n.item()).view(y.shape[0]) * 2 + y

    def masked(n, y):
        return y[y > 0] + torch.ones(n.item())

    for f in (added, viewed, masked):
        compiled = pellucid.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)
        for n, size in ((3, 3), (4, 4), (5, 4), (4, 5), (6, 6), (3, 3), (3, 4)):
            args = T(n), torch.arange(float(size)) + (f is not masked)
            assert described(outcome(compiled, args)) == described(outcome(f, args)), (f.__name__, n, size)


def item_by_tensor(x, at):
    return x[at[0]], x[at[1], :2] * 2, x[..., at[0]], x[at[0], None]


def item_by_tensor_set(x, at):
    y = x.clone()
    y[at[0]] = 7
    y[at[1], 1:] += x[at[0], 1:]
    view = y[at[1]]
    view.mul_(2)
    return y, view


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("f", [item_by_tensor, item_by_tensor_set])
def test_an_index_that_is_a_tensor_without_dimensions(f, dtype):
    """torch reads its value; the graph does so at each call, and one graph serves all of them."""
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    x = torch.arange(9.0).view(3, 3)
    for at in ([0, 1], [2, 0], [1, 1], [-1, 2], [0, 0], [2, 3]):
        got, expected = outcome(compiled, (x, T(at, dtype=dtype))), outcome(f, (x, T(at, dtype=dtype)))
        assert described(got) == described(expected)
    assert backend.count == 1


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("f", [item_by_tensor, item_by_tensor_set])
def test_an_index_whose_value_the_region_goes_by_is_a_number_for_a_backend_that_compiles(f, dynamic):
    """Such a backend has no elements of the tensor, and fails where it needs one for a layout."""

    def of_tensors(x, *at):
        return f(x, at)

    compiled = pellucid.compile(of_tensors, backend="aot_eager", dynamic=dynamic)
    pellucid.counters.clear()
    for rows, *at in (3, 0, 1), (3, 0, 1), (4, 0, 1), (4, 3, 1), (4, -1, 2), (5, 0, 0), (3, 2, 3), (3, 1, 0):
        args = torch.arange(3.0 * rows).view(rows, 3).requires_grad_(), *map(T, at)
        got, expected = outcome(compiled, args), outcome(of_tensors, args)
        assert described(got) == described(expected)
        if isinstance(expected[0], tuple):
            for results in got[0], expected[0]:
                results[0].sum().backward()
    assert pellucid.counters()["ops"]


def test_masks_without_dimensions_are_no_indices():
    def f(x, mask):
        return x[mask] + 1, x[mask, None].shape[1]

    compiled, x = pellucid.compile(f, backend="eager"), torch.arange(4.0)
    for mask in (T(True), T(False), T(1, dtype=torch.uint8)):
        assert described(outcome(compiled, (x, mask))) == described(outcome(f, (x, mask)))


def test_a_loop_that_ends_by_data_has_one_graph_for_its_turns():
    generator = torch.Generator().manual_seed(0)
    backend = Counting()
    compiled = pellucid.compile(suppressed, backend=backend)
    counts = set()
    for boxes in (6, 6, 9, 12, 12, 1, 3, 16):
        low = torch.rand(boxes, 2, generator=generator)
        corners = torch.cat([low, low + torch.rand(boxes, 2, generator=generator)], 1)
        scores = torch.rand(boxes, generator=generator)
        expected = suppressed(corners, scores)
        assert described(compiled(corners, scores)) == described(expected)
        counts.add(len(expected))
    assert len(counts) > 3
    # Before the loop, its turns; and an end for each number of boxes that stay.
    assert backend.count <= 4 + len(counts), (backend.count, counts)


def test_a_loop_that_ends_by_data_is_right_for_a_backend_that_compiles():
    generator = torch.Generator().manual_seed(0)
    backend = CountingOf("aot_eager")
    compiled = pellucid.compile(suppressed, backend=backend)
    for boxes in (6, 9, 6, 12, 1, 3):
        low = torch.rand(boxes, 2, generator=generator)
        corners = torch.cat([low, low + torch.rand(boxes, 2, generator=generator)], 1)
        scores = torch.rand(boxes, generator=generator)
        assert described(compiled(corners, scores)) == described(suppressed(corners, scores))
    assert backend.count > 4


@pytest.mark.parametrize("kept", [0, 1, 2, 5])
def test_masks_of_any_number_of_elements(kept):
    def f(x, mask):
        y = x[mask]
        return y.mean(0), y.sum(), F.relu(y - 1), torch.cat([y, x]).amax(0), mask.nonzero().squeeze(1) + 1

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    x = torch.arange(12.0).view(6, 2)
    for first in (3, kept, kept, 4):
        mask = torch.arange(6) < first
        assert described(outcome(compiled, (x, mask))) == described(outcome(f, (x, mask)))
    assert backend.count == 1


# ---- tensors without dimensions in keys, in graphs for compilers: nobody else sees the number


def of_scores(x, scores):
    return x[scores.argmax()] * 2


def of_scores_and_columns(x, scores):
    best = scores.argsort(descending=True)[0]
    return x[best, :2] - x[:, 1:3].prod(1)[best]


def written(x, scores):
    y = x.clone()
    y[scores.argmax()] = 5.0
    y[scores.argmin(), :2] = y[scores.argmax(), 1:3] * 2
    return y


def from_the_end(x, scores):
    return x[scores.argmax() - 6] + x[-1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function", [of_scores, of_scores_and_columns, written, from_the_end])
def test_keys_that_only_the_graph_knows(function, backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(function, backend=counting)
    for seed in range(5):
        torch.manual_seed(seed)
        x, scores = torch.randn(6, 4), torch.rand(6)
        torch.testing.assert_close(compiled(x, scores), function(x, scores))
    # Graphs assert that a number is no negative one: where it is, there are breaks after a few calls.
    assert counting.count == (3 if function is from_the_end else 1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [of_scores, of_scores_and_columns, written])
def test_keys_that_only_the_graph_knows_and_sizes_that_change(function, backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(function, backend=counting)
    for rows in (5, 4, 7, 3, 9):
        x, w = torch.randn(rows, 4), torch.ones(rows, 4)
        got, want = x.clone().requires_grad_(), x.clone().requires_grad_()
        scores = torch.rand(rows)
        results = compiled(got, scores), function(want, scores)
        torch.testing.assert_close(*results)
        for result in results:
            (result * (w if result.dim() == 2 else w[0, : result.shape[0]] if result.dim() else 1)).sum().backward()
        torch.testing.assert_close(got.grad, want.grad)
    assert counting.count <= 2


KEYS = {
    "behind": lambda x, i: x[i, None],
    "before": lambda x, i: x[None, i],
    "twice": lambda x, i: x[None, i, None, 1:],
    "between": lambda x, i: x[i, None, i],
    "at the end": lambda x, i: x[..., i, None],
    "beside indices": lambda x, i: x[i, None, [0, 2]],
    "a slice before": lambda x, i: x[1:, None, i],
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", KEYS)
def test_new_dimensions_beside_keys_have_their_strides(name, backend):
    def f(x, scores):
        return KEYS[name](x, scores.argmax())

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for at in (0, 2, 3, 1):
        x, scores = torch.arange(20.0).reshape(5, 4), torch.zeros(4)
        scores[at] = 1
        assert described(compiled(x, scores)) == described(f(x, scores))
    assert counting.count == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_keys_out_of_range_raise_as_in_eager(backend):
    def f(x, scores):
        return x[scores.argmax() + 3] * 2

    compiled = pellucid.compile(f, backend=backend)
    x = torch.randn(6, 4)
    for at in (0, 2, 4, 1):
        scores = torch.zeros(6)
        scores[at] = 1
        assert described(outcome(compiled, (x, scores))[:1]) == described(outcome(f, (x, scores))[:1])


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_lengths_in_tensors_are_no_part_of_a_graph_for_compilers(backend, caplog):
    def f(log_probs, targets, inputs, lengths):
        return F.ctc_loss(log_probs * 1, targets, inputs, lengths) * 2

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for length in (10, 11, 12, 13):
        args = torch.randn(length, 2, 4).log_softmax(-1), torch.randint(1, 4, (2, 3)), T([length] * 2), T([3, 3])
        torch.testing.assert_close(compiled(*args), f(*args))
    assert counting.count <= 4
    assert "raised" not in caplog.text
