"""Sizes and strides that a region leaves open: what a tensor guard compares, what conditions and inputs read of them."""

import collections
import gc
import itertools
import math
import random

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from pellucid import _core
from support.guards import Box, Guards, Hostile, passes

A = _core._aten
MOST = 2**63 - 1
EXACT = {}
OPEN = {"size": (2, MOST)}


def spec_of(tensor, *dims):
    return A.TensorSpec.of(tensor, list(dims))


def open_dim(least=2, most=MOST, **more):
    return {"size": (least, most), **more}


# ---------------------------------------------------------------- TensorSpec


def test_an_open_size_has_bounds():
    spec = spec_of(torch.ones(4, 64), open_dim(2, 512), EXACT)
    for size in (2, 4, 511, 512):
        assert spec.matches(torch.ones(size, 64)) and spec.mismatch(torch.ones(size, 64)) == ""
    assert spec.mismatch(torch.ones(1, 64)) == "size mismatch at index 0, expected at least 2, actual 1"
    assert spec.mismatch(torch.ones(0, 64)) == "size mismatch at index 0, expected at least 2, actual 0"
    assert spec.mismatch(torch.ones(600, 64)) == "size mismatch at index 0, expected at most 512, actual 600"
    assert spec.mismatch(torch.ones(4, 65)) == "size mismatch at index 1, expected 64, actual 65"
    assert spec.text() == "f32[*, 64] cpu requires_grad=False"


def test_bounds_may_leave_nothing_out():
    spec = spec_of(torch.ones(4), open_dim(0))
    assert (
        spec.matches(torch.ones(0)) and spec.matches(torch.ones(1)) and spec.matches(torch.ones(1).expand(4)) is False
    )
    most = torch.empty_strided((2**31,), (2**31,), device="meta")
    assert spec_of(torch.ones(4, device="meta"), open_dim(0, stride="open")).matches(most)


def test_an_open_stride_is_two_or_more():
    spec = spec_of(torch.ones(4, 8)[:, ::2], {"size": (0, 9)}, {"size": (0, 9), "stride": "open"})
    for stride in range(5):
        found = torch.ones(64).as_strided((4, 4), (8, stride))
        assert spec.matches(found) == (stride >= 2)
        assert spec.mismatch(found) == (
            "" if stride >= 2 else f"stride mismatch at index 1, expected at least 2, actual {stride}"
        )


def test_what_is_not_open_is_compared():
    make = lambda: torch.ones(2, 3)  # noqa: E731
    spec = spec_of(make(), OPEN, {"size": (2, MOST), "stride": "open"})
    assert spec.text() == "f32[*, *] cpu requires_grad=False"
    others = {
        "type": torch.nn.Parameter(make(), requires_grad=False),
        "dtype": make().double(),
        "device": make().to("meta"),
        "requires_grad": make().requires_grad_(),
        "rank mismatch, expected 2, actual 3": torch.ones(2, 3, 1),
        "dispatch key": make().to_sparse(),
        "at index 0, expected 3, actual 4": torch.ones(2, 4),  # the stride
    }
    for word, tensor in others.items():
        assert not spec.matches(tensor) and word in spec.mismatch(tensor), word
    assert not spec.matches(3) and not spec.matches(None)
    assert spec.matches(torch.ones(99).as_strided((5, 4), (3, 7)))


def test_a_dense_stride_follows_the_sizes():
    spec = spec_of(torch.ones(2, 3, 4), open_dim(stride=1), open_dim(stride=2), EXACT)
    assert spec.matches(torch.ones(5, 7, 4))  # strides 28, 4, 1
    turned = torch.ones(7, 5, 4).transpose(0, 1)
    assert turned.shape == (5, 7, 4) and turned.stride() == (4, 20, 1)
    assert spec.mismatch(turned) == (
        "stride mismatch at index 0, expected 140 (size(1) * stride(1)), actual 4; "
        "stride mismatch at index 1, expected 4 (size(2) * stride(2)), actual 20"
    )
    assert not spec.matches(turned)
    wide = torch.ones(5, 7, 8)[..., :4]  # strides 56, 8, 1: dense in rows of 8
    assert spec.mismatch(wide) == "stride mismatch at index 1, expected 4 (size(2) * stride(2)), actual 8"
    padded = torch.ones(99).as_strided((2, 3), (3, 1)).as_strided((3, 8), (3, 3))
    assert (
        spec_of(torch.ones(4, 8), open_dim(stride=1), {"stride": "open"}).mismatch(padded)
        == "stride mismatch at index 0, expected 24 (size(1) * stride(1)), actual 3"
    )


def test_the_inner_dim_of_a_dense_stride_may_stand_anywhere():
    columns = spec_of(torch.ones(3, 4).t(), OPEN, open_dim(stride=0))
    assert columns.text() == "f32[*, *] cpu requires_grad=False"
    assert columns.matches(torch.ones(9, 5).t())
    assert columns.mismatch(torch.ones(5, 9)) == (
        "stride mismatch at index 0, expected 1, actual 9; "
        "stride mismatch at index 1, expected 45 (size(0) * stride(0)), actual 1"
    )


def test_a_closed_size_may_have_an_open_stride():
    spec = spec_of(torch.ones(3, 4), {"stride": "open"}, EXACT)
    assert spec.matches(torch.ones(3, 9)[:, :4]) and not spec.matches(torch.ones(4, 4))
    assert spec.text() == "f32[3, 4] cpu requires_grad=False"


def test_a_product_that_leaves_64_bits_is_no_match():
    at_hand = torch.empty_strided((0, 4), (0, 2**62))  # 4 * 2**62 would be 0
    spec = spec_of(at_hand, {"stride": 1}, EXACT)
    assert not spec.matches(at_hand)
    assert spec.mismatch(at_hand) == (
        "stride mismatch at index 0, expected more than 64 bits (size(1) * stride(1)), actual 0"
    )
    fits = torch.empty_strided((0, 4), (2**62, 2**60))
    assert spec_of(fits, {"stride": 1}, EXACT).matches(fits)


def test_an_open_layout_must_fit_the_tensor():
    for dims in ([], [OPEN], [OPEN] * 3):
        with pytest.raises(RuntimeError, match="another rank"):
            A.TensorSpec.of(torch.ones(2, 3), dims)
    for inner in (-1, 0, 2):
        with pytest.raises(RuntimeError, match="another dim"):
            spec_of(torch.ones(2, 3), {"stride": inner}, EXACT)


def test_all_small_tensors_against_the_definition():
    """Every tensor of rank 2 with small sizes and strides, against what the layout says in Python."""
    dims = [
        EXACT,
        OPEN,
        open_dim(1, 3),
        open_dim(0, MOST, stride="open"),
        {"stride": "other"},
        open_dim(stride="other"),
    ]
    found, memory = collections.Counter(), torch.ones(64)
    for pair in itertools.product(dims, dims):
        layout = [d | ({"stride": 1 - i} if d.get("stride") == "other" else {}) for i, d in enumerate(pair)]
        spec = spec_of(torch.ones(2, 3), *layout)
        for sizes, strides in itertools.product(
            itertools.product(range(5), range(5)), [(3, 1), (1, 2), (2, 1), (0, 0)]
        ):
            tensor = memory.as_strided(sizes, strides)
            expected = True
            for i, dim in enumerate(layout):
                least, most = dim.get("size", ((2, 3)[i],) * 2)
                wanted = dim.get("stride", "exact")
                stride = (3, 1)[i] if wanted == "exact" else strides[i]
                stride = sizes[1 - i] * strides[1 - i] if isinstance(wanted, int) else stride
                stride = max(stride, 2) if wanted == "open" else stride
                expected = expected and least <= sizes[i] <= most and strides[i] == stride
            assert spec.matches(tensor) == expected == (spec.mismatch(tensor) == ""), (layout, sizes, strides)
            found[expected] += 1
    assert found[True] > 100 and found[False] > 1000


def symbolic_tensor():
    return FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(5, 7))


def without_plain_layout():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (4, 4), dispatch_sizes_strides_policy="sizes")

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("a guard ran user code")

    return [
        torch.nested.nested_tensor([torch.ones(4, 2), torch.ones(3, 2)]),
        torch.nested.nested_tensor([torch.ones(4, 2), torch.ones(3, 2)], layout=torch.jagged),
        torch.eye(4).to_sparse(),
        torch.eye(4).to_sparse_csr(),
        symbolic_tensor(),
        Wrapper(),
    ]


def test_sizes_and_strides_of_anything():
    x = torch.ones(5, 6, 7).transpose(0, 2)
    assert [A.size_at(x, i) for i in range(4)] == [7, 6, 5, None]
    assert [A.stride_at(x, i) for i in range(4)] == [1, 7, 42, None]
    for dim in (-1, -3, 2**62, -(2**62)):
        assert A.size_at(x, dim) is None and A.stride_at(x, dim) is None
    assert A.size_at(torch.nn.Parameter(x), 0) == 7 and A.size_at(torch.ones(3, device="meta"), 0) == 3
    assert A.size_at(torch.tensor(1), 0) is None
    for other in [None, 3, [1], torch.Tensor, Hostile(), *without_plain_layout()]:
        assert A.size_at(other, 0) is None and A.stride_at(other, 0) is None
        # Never proved equal, with or without open sizes.
        if isinstance(other, torch.Tensor) and other.layout == torch.strided and other.is_nested:
            assert not A.TensorSpec.of(other, [OPEN, OPEN]).matches(other)


# ---------------------------------------------------------------- sources


def test_sizes_are_sources():
    t = Guards().table
    x = t.local(0, "x")
    assert t.size_of(x, 0) == t.size_of(x, 0) != t.size_of(x, 1)
    assert t.size_of(x, 0) != t.stride_of(x, 0) != t.item(x, 0)
    assert t.print(t.size_of(t.instance_attr(x, "weight"), 1)) == "L['x'].weight.size(1)"
    assert t.print(t.stride_of(t.item(x, 2), 0)) == "L['x'][2].stride(0)"
    tensor = torch.ones(300, 400)
    assert t.evaluate(t.size_of(x, 0), (tensor,)) == 300
    assert t.evaluate(t.stride_of(x, 0), (tensor,)) == 400
    assert type(t.evaluate(t.size_of(x, 0), (tensor,))) is int
    for value in (torch.tensor(1), [1], Hostile(), *without_plain_layout()):
        for source in (t.size_of(x, 0), t.stride_of(x, 0)):
            with pytest.raises(LookupError):
                t.evaluate(source, (value,))


# ---------------------------------------------------------------- conditions


class Sizes:
    """Expressions over sources: symbol i stands for the i-th source that was read."""

    def __init__(self):
        self.space, self.sources = _core._symbolic.Space(), []

    def of(self, source, hint):
        self.sources.append(source)
        return self.space.symbol(hint)

    def number(self, value):
        return self.space.constant(value)

    def condition(self, sign, a, b):
        return (self.space.compare(sign, a, b), self.sources)


def even(source, hint=4):
    sizes = Sizes()
    rest = sizes.space.binary("%", sizes.of(source, hint), sizes.number(2))
    return sizes.condition("==", rest, sizes.number(0))


def place(x):
    return x


def test_a_condition_reads_the_size_of_the_tensor():
    g = Guards()
    x = g.arg()
    g.add("TENSOR_MATCH", x, (torch.ones(4, 3), [OPEN, EXACT]))
    g.add("CONDITION", None, even(g.table.size_of(x, 0)), code=place.__code__, offset=0, operation="compares")
    p = g.program()
    for size in (2, 4, 1000):
        assert passes(p, torch.ones(size, 3))
    for size in (3, 999):
        assert not passes(p, torch.ones(size, 3))
    assert not passes(p, torch.ones(1, 3)) and not passes(p, torch.ones(4, 5))
    (row,) = [row for row in p.describe() if row[0] == "CONDITION"]
    assert row[:4] == ("CONDITION", "", "", "L['a'].size(0) % 2 == 0") and row[6] == "compares"
    (tensor,) = [row for row in p.describe() if row[0] == "TENSOR_MATCH"]
    assert tensor[3] == "f32[*, 3] cpu requires_grad=False"
    miss = p.first_miss((torch.ones(999, 3),))
    assert miss["kind"] == "CONDITION" and miss["expected"] == "L['a'].size(0) % 2 == 0"
    assert miss["found"] == "L['a'].size(0) = 999" and miss["suggestion"]
    assert p.explain((torch.ones(999, 3),)).startswith(
        "CONDITION: expected L['a'].size(0) % 2 == 0, found L['a'].size(0) = 999 ("
    )
    assert "expected at least 2, actual 1" in p.explain((torch.ones(1, 3),))


def test_conditions_read_anew_at_each_call():
    """The same tensor with another size: no pointer and no version moves."""
    g = Guards()
    p = g.add("CONDITION", None, even(g.table.size_of(g.arg(), 0))).program()
    x = torch.ones(4)
    for size in (4, 6, 5, 4, 3, 8):
        x.resize_(size)
        assert passes(p, x) == (size % 2 == 0)


@pytest.mark.parametrize("where", ["attribute", "item", "key", "member"])
def test_the_tensor_may_hang_anywhere(where):
    def holding(tensor):
        if where == "member":
            owner = torch.zeros(tensor.shape)
            owner.grad = tensor
            return owner
        return {"attribute": lambda: Box(t=tensor), "item": lambda: [tensor], "key": lambda: {"t": tensor}}[where]()

    g = Guards()
    a, t = g.arg(), g.table
    step = {
        "attribute": lambda: t.instance_attr(a, "t"),
        "item": lambda: t.item(a, 0),
        "key": lambda: t.dict_item(a, "t"),
        "member": lambda: t.member(a, "grad"),
    }[where]()
    size = t.size_of(step, 0)
    p = g.add("CONDITION", None, even(size)).program(inputs=[size])
    for tensor in (torch.ones(4), torch.ones(5), torch.ones(1000)):
        owner = holding(tensor)
        for length in (len(tensor), 7, 8):
            tensor.resize_(length)
            assert passes(p, owner) == (length % 2 == 0)
            if length % 2 == 0:
                assert p.check((owner,)) and p.gathered() == (length,)
    del owner, tensor
    for other in (Box(), [], {}, torch.ones(4)):
        assert not passes(p, other)


def test_whatever_is_no_plain_tensor_does_not_match():
    """No other guard looks at the value: the condition alone has to refuse."""
    g = Guards()
    p = g.add("CONDITION", None, even(g.table.size_of(g.arg(), 1))).program()
    strides = Guards()
    q = strides.add("CONDITION", None, even(strides.table.stride_of(strides.arg(), 1))).program()
    x = torch.ones(2, 3, 2).transpose(1, 2)
    for other in [None, 4, [4, 4], (4, 4), Hostile(), torch.ones(4), torch.tensor(4), *without_plain_layout()]:
        for program, good in ((p, x), (q, torch.ones(3, 3).expand(3, 3).as_strided((2, 2), (1, 2)))):
            assert passes(program, good) and not passes(program, other) and passes(program, good)
            miss = program.first_miss((other,))
            assert miss["kind"] == "CONDITION" and miss["found"] == "that it does not exist"


def test_conditions_over_several_tensors_and_numbers():
    g = Guards()
    t, a, b, n = g.table, g.arg(0), g.arg(1), g.arg(2)
    sizes = Sizes()
    s, d, k = sizes.of(t.size_of(a, 0), 4), sizes.of(t.stride_of(b, 0), 8), sizes.of(n, 2)
    p = g.add("CONDITION", None, sizes.condition("==", sizes.space.binary("*", s, k), d)).program()
    (text,) = p.code_parts()
    assert text.count("L['a'].size(0)") == text.count("L['b'].stride(0)") == text.count("L['c']") == 1
    for rows, width, count in itertools.product(range(6), range(1, 12), range(4)):
        values = torch.ones(rows, 2), torch.ones(3, width), count
        assert passes(p, *values) == (rows * count == width)
        assert eval(text, {"L": dict(zip("abc", values))}) == (rows * count == width)
    assert not passes(p, torch.ones(4), torch.ones(3, 8), 2.0)  # the type is another one
    found = p.first_miss((torch.ones(4, 2), torch.ones(3, 9), 2))["found"]
    assert sorted(found.split(", ")) == ["L['a'].size(0) = 4", "L['b'].stride(0) = 9", "L['c'] = 2"]


def test_what_leaves_64_bits_does_not_hold():
    g = Guards()
    sizes = Sizes()
    s = sizes.of(g.table.size_of(g.arg(), 0), 4)
    p = g.add("CONDITION", None, sizes.condition(">=", sizes.space.binary("*", s, s), sizes.number(0))).program()
    assert passes(p, torch.ones(1).expand(3 * 10**9)) and passes(p, torch.ones(1).expand(math.isqrt(MOST)))
    assert not passes(p, torch.ones(1).expand(math.isqrt(MOST) + 1)) and not passes(p, torch.ones(1).expand(2**40))


def test_only_conditions_look_at_a_size():
    for kind, operand in (("EQUALS_MATCH", 4), ("TYPE_MATCH", int), ("NUMBER_MATCH", int)):
        g = Guards()
        with pytest.raises(RuntimeError, match="a size is guarded by its tensor or by conditions"):
            g.add(kind, g.table.size_of(g.arg(), 0), operand).program()
    g = Guards()
    below = g.table.item(g.table.stride_of(g.arg(), 0), 0)
    with pytest.raises(RuntimeError, match="a size is guarded"):
        g.add("TYPE_MATCH", below, int).program()
    with pytest.raises(RuntimeError, match="a size is guarded"):
        g.program(inputs=[below])


def test_code_parts_say_what_check_says():
    g = Guards()
    x, y = g.arg(0), g.table.instance_attr(g.arg(1), "y")
    g.add("TENSOR_MATCH", x, (torch.ones(4, 6)[:, ::2], [open_dim(0), open_dim(0, stride="open")]))
    g.add("TENSOR_MATCH", y, (torch.ones(4), [open_dim(0)]))
    sizes = Sizes()
    a, b, c = (sizes.of(g.table.size_of(at, i), hint) for at, i, hint in ((x, 0, 4), (x, 1, 3), (y, 0, 4)))
    total = sizes.space.binary("+", sizes.space.binary("*", a, sizes.number(2)), b)
    g.add("CONDITION", None, sizes.condition("<=", total, sizes.number(11)), 1)
    g.add("CONDITION", None, sizes.condition("<=", c, sizes.space.binary("*", a, b)), 2)
    p, chance, counts = g.program(), random.Random(0), collections.Counter()
    parts = p.code_parts()
    assert len(parts) == 4 and "L['a'].size(0)" in parts[2] and "L['b'].y.size(0)" in parts[3]
    for _ in range(500):
        rows, columns, length = (chance.randrange(6) for _ in range(3))
        values = torch.ones(36).as_strided((rows, columns), (6, 2)), Box(y=torch.ones(length))
        expected = 2 * rows + columns <= 11 and length <= rows * columns
        scope = {"L": dict(zip("ab", values)), "C": p.constants(), "HOLDS": p.holds}
        assert passes(p, *values) == expected == all(eval(part, scope) for part in parts)
        counts[expected] += 1
    assert min(counts.values()) > 50


# ---------------------------------------------------------------- inputs


def inputs_program():
    g = Guards()
    t, a, b = g.table, g.arg(0), g.arg(1)
    g.add("TENSOR_MATCH", a, (torch.ones(4, 3), [OPEN, EXACT]))
    g.add("CONDITION", None, even(t.size_of(a, 0)))
    return g.program(inputs=[t.size_of(a, 0), a, t.stride_of(b, 0), b, t.size_of(b, 1)])


def test_inputs_that_are_sizes_are_gathered():
    p = inputs_program()
    for rows, columns in ((4, 5), (1000, 2000), (6, 300)):
        x, y = torch.ones(rows, 3), torch.ones(2, columns)
        assert p.check((x, y))
        size, first, stride, second, width = p.gathered()
        assert (size, stride, width) == (rows, columns, columns) and first is x and second is y
        assert all(type(number) is int for number in (size, stride, width))
    assert not p.check((torch.ones(5, 3), torch.ones(2, 2))) and p.gathered() is None
    x, y = torch.ones(4, 3), torch.ones(2, 5)
    for rows in (4, 8, 6):
        x.resize_(rows, 3)
        assert p.check((x, y)) and p.gathered()[0] == rows


def test_inputs_without_a_guard_of_their_own_may_be_anything():
    """The emitted code reads such an input itself, and says what is missing."""
    p, x, y = inputs_program(), torch.ones(4, 3), torch.ones(2, 2)
    for other in (None, 3, torch.ones(4), Hostile(), *without_plain_layout()):
        assert p.check((x, other)) and p.gathered() is None
        assert p.check((x, y)) and p.gathered()[4] == 2


def test_a_copy_reads_sizes_of_its_own():
    original = inputs_program()
    copy = original.copy()
    x, tall, y = torch.ones(4, 3), torch.ones(600, 3), torch.ones(2, 5)
    assert original.check((x, y)) and copy.check((tall, y))
    assert copy.gathered()[0] == 600 and original.gathered()[0] == 4
    del original
    assert copy.check((x, y)) and copy.gathered()[0] == 4
    assert not passes(copy, torch.ones(5, 3), y) and "L['a'].size(0) = 5" in copy.explain((torch.ones(5, 3), y))


def test_check_and_gathered_never_start_the_garbage_collector():
    p, arguments = inputs_program(), (torch.ones(1000, 3), torch.ones(2, 2000))
    started = []
    gc.callbacks.append(lambda phase, info: started.append(phase))
    old, held = gc.get_threshold(), []
    try:
        gc.set_threshold(1)
        for _ in range(100):
            before = len(started)
            passed, gathered = p.check(arguments), p.gathered()
            now = len(started)
            held.append([passed, gathered])  # more lists than CPython has ready
            assert now == before
    finally:
        gc.set_threshold(*old)
        gc.callbacks.pop()
    assert all(passed and gathered[0] == 1000 for passed, gathered in held) and started
