"""Regions that go by the elements of small tensors of integers and truths, which are guarded."""

from __future__ import annotations

import copy
import operator
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pellucid
from support import Counting, CountingOf

T = torch.tensor


def described(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.requires_grad, value.tolist()
    if isinstance(value, (tuple, list)):
        return type(value), [described(item) for item in value]
    return type(value), repr(value)


def graphs_of(f, calls):
    """The graphs that each call makes; what the calls give and leave is eager's."""
    backend, made = Counting(), []
    compiled = pellucid.compile(f, backend=backend)
    for args in calls:
        before = backend.count
        mine, its = copy.deepcopy(args), copy.deepcopy(args)
        assert described(compiled(*its)) == described(f(*mine))
        assert described(its) == described(mine)
        made.append(backend.count - before)
    return made


def images(x, grid):
    out = []
    for t, h, w in grid.tolist():
        ids = torch.arange(h)[:, None].expand(h, w).reshape(h // 2, 2, w).flatten()
        out.append(x[: t * h * w] * ids.repeat(t))
    return torch.cat(out)


def lengths(x, grid):
    counts = torch.repeat_interleave(grid[:, 1] * grid[:, 2], grid[:, 0])
    ends = F.pad(counts.cumsum(0, dtype=torch.int32), (1, 0))
    return [part + 1 for part in torch.split(x, (ends[1:] - ends[:-1]).tolist())]


def masked(x, mask):
    kept = x[mask]
    return kept * 2, kept.shape[0], torch.masked_select(x, mask), mask.nonzero()


def branches(x, ids):
    if (ids == 3).any():
        return x + 1
    return x - 1 if ids.max() > 5 else x


def loops(x, ids):
    for one in ids.unique():
        where = torch.where(ids == one)[0]
        x = x.index_add(0, where, torch.ones(where.shape[0]))
    return x, torch.bincount(ids), torch.unique_consecutive(ids, return_counts=True)


def writes_first(x, ids):
    own = ids.clone()
    own[0] = 7
    part = own[1:]
    part.mul_(2)
    return x + own.sum().item(), x[: own[1]], f"{own[0]} of {own.sum():d}"


GRIDS = [T([[1, 2, 4]]), T([[1, 2, 4], [1, 2, 2]])]


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (images, (torch.arange(12.0), GRIDS[1])),
        (lengths, (torch.arange(12.0), GRIDS[1])),
        (masked, (torch.arange(4.0), T([True, False, True, True]))),
        (masked, (torch.arange(4.0), T([False] * 4))),
        (branches, (torch.ones(2), T([1, 3]))),
        (branches, (torch.ones(2), T([1, 9]))),
        (loops, (torch.ones(4), T([2, 0, 2, 1]))),
        (writes_first, (torch.ones(9), T([1, 2, 1]))),
    ],
)
def test_one_graph_while_the_elements_stay(f, args):
    assert graphs_of(f, [args] * 3) == [1, 0, 0]


@pytest.mark.parametrize(
    ("f", "calls"),
    [
        (images, [(torch.arange(8.0), T([grid])) for grid in ([1, 2, 4], [1, 4, 2], [2, 2, 2], [1, 2, 4])]),
        (masked, [(torch.arange(3.0), T(mask)) for mask in ([True] * 3, [False] * 3, [True, False, True])]),
        (branches, [(torch.ones(2), T(ids)) for ids in ([1, 3], [1, 9], [1, 1], [1, 3])]),
        (loops, [(torch.ones(4), T(ids)) for ids in ([2, 0, 2, 1], [0, 0, 0, 0], [3, 2, 1, 0], [1, 1, 3, 3])]),
        (writes_first, [(torch.ones(9), T(ids)) for ids in ([1, 2, 1], [0, 0, 0], [0, 3, 0])]),
    ],
)
def test_other_elements_give_what_eager_gives(f, calls):
    assert graphs_of(f, calls * 2)[0] == 1


def test_elements_that_change_in_place_are_seen():
    ids, x, backend = T([1, 3]), torch.ones(2), Counting()
    compiled = pellucid.compile(branches, backend=backend)
    for value, expected in ((3, 2.0), (9, 0.0), (3, 2.0), (1, 1.0)):
        ids[1] = value
        assert compiled(x, ids).tolist() == [expected] * 2
    assert backend.count > 1


class Padded(nn.Module):
    """Its numbers are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", T(5), persistent=False)
        self.register_buffer("stride", T(2), persistent=False)

    def forward(self, x):
        frames = torch.ceil((x.shape[-1] - self.kernel) / self.stride + 1).to(torch.int64) - 1
        extra = frames * self.stride + self.kernel - x.shape[-1]
        return F.pad(x, (int(self.kernel - self.stride), int(extra)))


def test_buffers():
    module = Padded()
    assert graphs_of(module.forward, [(torch.randn(1, 8),), (torch.randn(1, 8),)]) == [1, 0]
    module.stride.fill_(3)
    assert graphs_of(module.forward, [(torch.randn(1, 8),)]) == [1]


def test_what_the_program_gives_itself_needs_no_guard():
    def f(x):
        return x.view(int(torch.div(x.shape[0], 2, rounding_mode="trunc")), -1)

    assert graphs_of(f, [(torch.ones(6),), (torch.zeros(6),)]) == [1, 0]
    compiled = pellucid.compile(f, backend="eager")
    compiled(torch.ones(6))
    assert "TENSOR_ELEMENTS" not in str(pellucid.explain(f)(torch.ones(6)))


def writes_outside(x, ids):
    ids[0] = 9
    return x[ids > 3]


def outside_twice(x, a, b):
    b[0] = 5
    return x + a[0].item() if a[0] > 2 else x


def test_memory_that_the_region_writes():
    assert graphs_of(writes_outside, [(torch.arange(2.0), T([1, 4])), (torch.arange(2.0), T([1, 2]))])[0] >= 1
    base = T([1, 2, 3])
    for first, second in ((base, base), (base[:2], base), (base, base[1:]), (base, T([1, 2, 3]))):
        backend = Counting()
        compiled = pellucid.compile(outside_twice, backend=backend)
        for _ in range(2):
            saved = base.clone()
            expected = outside_twice(torch.ones(1), first, second).tolist()
            after = base.clone()
            base.copy_(saved)
            assert compiled(torch.ones(1), first, second).tolist() == expected
            assert torch.equal(base, after)
            base.copy_(T([1, 2, 3]))
        assert backend.count >= 1


def scaled(x, other):
    return x + 1 if other.sum() > 3 else x - 1


@pytest.mark.parametrize(
    "other",
    [
        torch.ones(3),  # floats are computed anew at each call
        torch.ones(5000, dtype=torch.int64),  # too many to compare
        torch.arange(8)[::2],
        torch.ones(3, 3, dtype=torch.int64).t()[:2],
    ],
)
def test_elements_that_are_not_looked_at(other):
    assert graphs_of(lambda x, other: scaled(x * 2, other), [(torch.ones(2), other)] * 2)[0] != 1


def test_random_numbers_are_no_elements():
    def f(x):
        return x + 1 if torch.randint(0, 10, (1,)) > 100 else x - 1

    torch.manual_seed(0)
    assert graphs_of(f, [(torch.ones(2),)] * 2)[0] != 1


def test_numbers_that_serve_as_symbols_stay_symbols():
    def f(x, ids):
        return x * ids.sum().item(), ids.sum().item() + 1

    assert graphs_of(f, [(torch.ones(2), T([1, n])) for n in range(4)]) == [1, 0, 0, 0]


def test_a_number_in_a_text():
    def f(x, ids):
        n = (ids == 3).sum()
        return x + n, f"{n} of {ids.shape[0]}, {n:>3}"

    assert graphs_of(f, [(torch.ones(2), T([3, n])) for n in (1, 3, 2)]) == [1, 0, 0]


def test_below_a_mode_and_autocast():
    def f(x, ids):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            return y + 1 if (ids.float()[None] @ ids.float()[:, None]).sum() > 3 else y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = graphs_of(f, [(torch.ones(2, 2), T([1, 3])), (torch.ones(2, 2), T([1, 1]))])
    assert made[0] >= 1


def set_column(x, i):
    x = x.clone()
    x[:, i] = 2
    return x


def doubled_where(x, mask):
    x = x.clone()
    x[mask] = x[mask] * 2
    return x


MASKS = [T([True, False, True, True])] * 2 + [T([True, False, False, False])]
INDICES = [T(1), T(1), T(2)]
COUNTS = [T([1, 2, 0, 1])] * 2 + [T([1, 1, 1, 3])]
# What torch reads of a tensor while it calls an operator, and what becomes of what the operator gives.
READING = {
    "item": (lambda x, i: x[i] + 1, INDICES),
    "item of a column": (lambda x, i: x[:, i] + 1, INDICES),
    "items beside others": (lambda x, i: (x[i, 1:], x[..., i], x[None, i], x[i, i], x[1, i]), INDICES),
    "slices": (lambda x, i: (x[:i] + 1, x[i:], x[1:3, :i], x[::i]), INDICES),
    "set": (set_column, INDICES),
    "of constants": (lambda x, i: x[T(1)] + x[:, T(-1)].sum() + i, INDICES),
    "narrow": (lambda x, i: x.narrow(0, i, 1) + 1, INDICES),
    "arange": (lambda x, i: torch.arange(i) + x.sum(), INDICES),
    "full": (lambda x, i: torch.full((2,), i) + x.sum(), INDICES),
    "roll": (lambda x, i: x.roll(i) + 1, INDICES),
    "alpha": (lambda x, i: torch.add(x, x, alpha=i) + 1, INDICES),
    "list": (lambda x, i: [x, x + 1, x + 2][i] + 1, INDICES),
    "reshape": (lambda x, i: x.reshape(int(i), -1) + 1, INDICES),
    "one_hot": (lambda x, n: F.one_hot(n) + x[:, :1], COUNTS),
    "repeat_interleave": (lambda x, n: x.repeat_interleave(n, 0) + 1, COUNTS),
    "split": (lambda x, n: [part + 1 for part in x.split(n.tolist())], COUNTS[:2]),
    "bincount": (lambda x, n: torch.bincount(n) + 1, COUNTS),
    "mask": (lambda x, m: x[m] + 1, MASKS),
    "mask in place": (doubled_where, MASKS),
    "mask reshaped": (lambda x, m: x[m].view(-1, 3).reshape(3, -1).unsqueeze(0).expand(2, -1, -1) + 1, MASKS),
    "mask beside sizes": (lambda x, m: x[m] * x[: int(m.sum())] + torch.cat([x[m], x]).sum(), MASKS),
    "mask in layers": (lambda x, m: F.layer_norm(x[m], (3,)).softmax(0) @ x.t(), MASKS),
    "mask in parts": (lambda x, m: [part + 1 for part in x[m].chunk(2)] + list(x[m].unbind(0)), MASKS),
    "mask stacked": (lambda x, m: torch.stack([x[m], x[m] + 1]).flatten(0, 1).sum(1), MASKS),
    "nonzero": (lambda x, m: x[m.nonzero().squeeze(1)] + m.nonzero(as_tuple=True)[0][:, None], MASKS),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", READING)
def test_operators_that_read_elements(name, backend):
    f, given = READING[name]
    backend = CountingOf(backend)
    compiled = pellucid.compile(f, backend=backend)
    for index in given:
        x = torch.arange(12.0).reshape(4, 3)
        assert described(compiled(x, index)) == described(f(x, index))
    assert backend.count > 0


@pytest.mark.parametrize("name", ["item", "item of a column", "items beside others", "slices", "set", "of constants"])
def test_indices_are_numbers_of_the_graph_for_backends_that_compile(name):
    f, (index, *_) = READING[name]
    backend, x = CountingOf("aot_eager"), torch.arange(12.0).reshape(4, 3)
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        assert described(compiled(x, index)) == described(f(x, index))
    assert backend.count == 1 and not pellucid.break_reasons(compiled)


# ---- tensors of one element where a number is wanted


def sides(x):
    return T([(x.shape[0], x.shape[1])])


def arange_to(x):
    height = sides(x)[0, 0]
    return x + torch.arange(0, height, dtype=x.dtype)[:, None] / height


def sizes_of_tensors(x):
    shape = sides(x)
    return torch.zeros(shape[0, 1]), torch.ones((shape[0, 0], 2)), torch.linspace(0, 1, shape[0, 1])


def filled(x):
    return torch.full((2, 2), sides(x)[0, 0]), torch.full((3,), sides(x)[0, 0] > 2), torch.full((2,), T(0.5))


def viewed(x):
    shape = sides(x)
    return x.view(shape[0, 1], shape[0, 0]), x.reshape((shape[0, 1], 1, shape[0, 0]))


def sliced(x):
    shape = sides(x)
    return x[: shape[0, 0] - 1], x[:, T([1]) : shape[0, 1]], x[..., T(1)], x[T(0), : T(2)]


def as_alpha(x):
    return torch.add(x, x, alpha=T(2)), x.narrow(1, T(1), 2), x.repeat(T(1), T(2))


def of_attention(x):
    mask = torch.arange(sides(x)[0, 0], dtype=x.dtype)
    return F.scaled_dot_product_attention(x[None, None, :2], x[None, None], x[None, None], attn_mask=mask[None])


def counted(x):
    for i in range(1, sides(x)[0, 1], T(2)):
        x = x + i
    return x, range(T(3)), [7, 8, 9][T(1)], (7, 8, 9)[T([True])], operator.index(T(4))


TAKEN = [arange_to, sizes_of_tensors, filled, viewed, sliced, as_alpha, of_attention, counted]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "counting"])
@pytest.mark.parametrize("f", TAKEN, ids=lambda f: f.__name__)
def test_tensors_that_are_taken_as_numbers(f, backend, fullgraph):
    counting = CountingOf("eager" if backend == "counting" else backend)
    given = backend if backend == "eager" else counting
    compiled = pellucid.compile(f, backend=given, fullgraph=fullgraph)
    for x in (torch.arange(20.0).view(4, 5), torch.ones(4, 5)):
        assert described(compiled(x)) == described(f(x))
    assert pellucid.counters()["captures"] == 1 and pellucid.break_reasons(compiled) == []
    assert backend == "eager" or counting.count == 1


@pytest.mark.parametrize("f", [lambda x, t: torch.add(t, x, alpha=t), lambda x, t: torch.sub(x, t, alpha=t)])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_tensor_that_is_a_number_and_an_operand(f, backend):
    """As an operand it has a dtype that a number does not have."""
    compiled = pellucid.compile(lambda x: f(x, T(3)), backend=backend)
    for x in (T(2, dtype=torch.int32), T([2], dtype=torch.int32), T(2.0, dtype=torch.float16)):
        assert described(compiled(x)) == described(f(x, T(3)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_tensors_of_the_arguments_that_are_taken_as_numbers(backend):
    def f(x, n):
        return x + torch.arange(n), [1.5, 2.5, 3.5, 4.5][n - 1], x.repeat(n)

    compiled = pellucid.compile(f, backend=backend)
    for n in (3, 3, 1, 4, 3, 2):
        assert described(compiled(torch.ones(1), T(n))) == described(f(torch.ones(1), T(n)))


@pytest.mark.parametrize(
    ("f", "taken"),
    [
        (lambda x, n: [1, 2][n], T(1.5)),
        (lambda x, n: range(n), T([1, 2])),
        (lambda x, n: operator.index(n), T([])),
        (lambda x, n: [1, 2][n], T(7)),
        (lambda x, n: x.view(n, 2), T(7)),
        (lambda x, n: torch.zeros(n), T(1.5)),
        (lambda x, n: torch.arange(n), T([2, 3])),
        (lambda x, n: x[:n], T([2, 3])),
        (lambda x, n: torch.add(x, x, alpha=n), T([2])),
    ],
)
def test_tensors_that_are_no_number(f, taken):
    compiled = pellucid.compile(f, backend=Counting())
    for function in (compiled, f):
        with pytest.raises(Exception) as raised:  # noqa: PT011
            function(torch.arange(4.0), taken)
        if function is compiled:
            first = raised.value
    assert type(first) is type(raised.value) and str(first) == str(raised.value)


def test_sizes_that_can_fit_do_not_go_by_elements():
    """One graph for other counts: a hint that fits what the program adds is looked for first."""

    def f(x, target):
        degree = torch.bincount(target, minlength=len(x)).clamp(min=1)
        return torch.zeros_like(x).index_add(0, target, x[target]) / degree[:, None]

    compiled = pellucid.compile(f, backend="eager")
    for target in (T([0, 1, 4, 4]), T([0, 0, 2, 2]), T([3, 1, 4, 1])):
        args = torch.arange(10.0).view(5, 2), target
        assert described(compiled(*args)) == described(f(*args))
    assert pellucid.counters()["captures"] == 1
