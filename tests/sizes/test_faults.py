"""What trials have found: sizes of reshaped inputs, bases met behind their views, strides of single dimensions, heads."""

from __future__ import annotations

import pytest
import torch

import pellucid
from support import Counting
from support.calls import ramp


def read_before_reshaping(x):
    n = x.shape[0]
    x.unsqueeze_(0)
    return n


def read_behind_transposing(x):
    x.t_()
    return x.shape, x.stride()


def size_in_another_tensor(x):
    z = x.view(-1)
    x.t_()
    n = x.shape[0]
    z.add_(n)
    return z.shape, z


def through_an_alias(x):
    same = x.contiguous()
    same.t_()
    return x.shape[0], same.shape[1]


def kept_in_an_object(x):
    kept = {"n": x.shape[0]}
    x.transpose_(0, 1)
    return kept


def rank_shrinks(x):
    x.unsqueeze_(0).squeeze_(0).add_(1)
    return x * x.shape[0], x.shape


RESHAPING = [
    read_before_reshaping,
    read_behind_transposing,
    size_in_another_tensor,
    through_an_alias,
    kept_in_an_object,
    rank_shrinks,
]


def picture(value):
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.tolist()
    if isinstance(value, (tuple, list)):
        return [picture(part) for part in value]
    return value


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", RESHAPING)
def test_inputs_that_get_another_shape(function, dynamic):
    counting = Counting()
    compiled = pellucid.compile(function, backend=counting, dynamic=dynamic)
    for size in ((2, 4), (5, 3), (7, 2), (3, 3), (9, 2)):
        mine, its = ramp(*size), ramp(*size)
        assert picture(compiled(mine)) == picture(function(its))
        assert picture(mine) == picture(its)
    assert counting.count > 0


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_base_that_is_met_behind_its_view(dynamic):
    def looked_at(view, base):
        return view.sum() + base.shape[0], base * 2

    counting = Counting()
    compiled = pellucid.compile(looked_at, backend=counting, dynamic=dynamic)
    for rows in (3, 5, 7, 9):
        base = ramp(rows, 4)
        assert picture(compiled(base[:1], base)) == picture(looked_at(base[:1], base))
    assert counting.count > 0


def test_a_buffer_and_a_view_of_it():
    class Grows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.grow(2)

        def grow(self, n):
            self.whole = ramp(n, 3)
            self.first = self.whole[:1]

        def forward(self, x):
            return x + self.first.sum() + self.whole.shape[0]

    module = Grows()
    counting = Counting()
    compiled = pellucid.compile(module, backend=counting)
    for n in (2, 3, 5, 9):
        module.grow(n)
        assert torch.equal(compiled(ramp(2)), module(ramp(2)))
    assert counting.count > 0


def test_operands_that_differ_in_the_stride_of_a_dimension_of_size_1():
    def heads(q):
        return q.transpose(1, 2) + q.view(q.shape[0], 1, q.shape[1], 8)

    counting = Counting()
    compiled = pellucid.compile(heads, backend=counting)
    for batch in (2, 3, 4):
        for length in (5, 7, 9):
            q = ramp(batch, length, 1, 8)
            assert picture(compiled(q)) == picture(heads(q))
    assert counting.count <= 3


def test_a_view_of_the_same_sizes_gives_dimensions_of_size_1_another_stride():
    def same_sizes(x):
        return x.reshape(x.shape[0], -1, 1, 16)

    counting = Counting()
    compiled = pellucid.compile(same_sizes, backend=counting)
    for batch in (2, 3, 4, 5):
        x = ramp(batch, 1, 4, 16).transpose(1, 2)
        assert picture(compiled(x)) == picture(same_sizes(x))
    assert counting.count == 2


def test_attention_of_grouped_queries():
    def attention(q, k):
        return torch.nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)

    counting = Counting()
    compiled = pellucid.compile(attention, backend=counting, fullgraph=True)
    for length in (3, 5, 6, 8):
        q, k = ramp(2, 4, length, 8), ramp(2, 2, length, 8)
        assert torch.equal(compiled(q, k), attention(q, k))
    assert counting.count == 2


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_that_gives_no_weights(need_weights):
    attention = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()

    def attend(x):
        out, weights = attention(x, x, x, need_weights=need_weights)
        return out, weights is None, None if weights is None else weights.shape

    counting = Counting()
    compiled = pellucid.compile(attend, backend=counting)
    with torch.no_grad():
        for length in (3, 5, 4, 7):
            x = ramp(2, length, 16)
            mine, its = compiled(x), attend(x)
            assert torch.allclose(mine[0], its[0], atol=1e-5) and mine[1:] == its[1:]
    assert counting.count == 2


def test_the_parts_of_a_complex_tensor_of_transposed_ones():
    def parts(x):
        made = torch.complex(x, x)
        return torch.view_as_real(made).stride(), made.real.stride(), torch.polar(x, x).stride()

    counting = Counting()
    compiled = pellucid.compile(parts, backend=counting)
    for rows in (3, 5, 4):
        assert compiled(ramp(2, rows).t()) == parts(ramp(2, rows).t())


FAR = [
    lambda x, n: torch.arange(0, 5, n),
    lambda x, n: torch.arange(-n, n, n),
    lambda x, n: x.repeat(n, 4),
    lambda x, n: torch.nn.functional.conv1d(x[None], torch.ones(1, 2, 2), padding=n),
]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("make", FAR)
def test_what_a_size_rule_computes_is_beyond_64_bits(make, dynamic):
    def outcome(function, n):
        try:
            return tuple(function(ramp(2, 3), n).shape)
        except (RuntimeError, MemoryError) as error:
            return type(error)

    for far in (2**63 - 1, 2**62, -(2**62)):
        compiled = pellucid.compile(make, backend="eager", dynamic=dynamic)
        pellucid.reset()
        for n in (2, 3, far, 2):
            assert outcome(compiled, n) == outcome(make, n), (n, far)
