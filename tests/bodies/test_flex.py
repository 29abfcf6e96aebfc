"""torch's flex_attention in a region: one operator, with the functions of scores and masks as graphs inside."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import pellucid
from support import Counting, outcome

BACKENDS = ["eager", "aot_eager"]
OPERATOR = torch.ops.higher_order.flex_attention
SLOPE = 0.5
BIAS = torch.linspace(-1, 1, 2 * 32).reshape(2, 32)
OFFSETS = torch.linspace(0, 1, 32)


def causal(b, h, q, k):
    return q >= k


MASK = create_block_mask(causal, None, None, 32, 32, device="cpu", BLOCK_SIZE=16)


def reference(query, key, value, score_mod=None, mask_mod=None, scale=None):
    """Attention with the scores at hand; the functions get indices with dimensions."""
    scale = query.size(-1) ** -0.5 if scale is None else scale
    groups = query.size(1) // key.size(1)
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.transpose(-2, -1) * scale
    sizes = scores.shape
    indices = [torch.arange(n).reshape([-1 if i == d else 1 for i in range(4)]) for d, n in enumerate(sizes)]
    if score_mod is not None:
        scores = score_mod(scores, *indices)
    if mask_mod is not None:
        scores = torch.where(mask_mod(*indices), scores, -torch.inf)
    return torch.softmax(scores, -1) @ value


def tensors(heads=2, key_heads=2, length=32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, n, length, 8, generator=generator) for n in (heads, key_heads, key_heads)]


def without_functions(q, k, v):
    return flex_attention(q, k, v) + 1


def relative(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j) * SLOPE)


def with_captured_tensors(q, k, v):
    offsets = OFFSETS * 2

    def score_mod(score, b, h, i, j):
        return score + BIAS[h, i] - offsets[j]

    return flex_attention(q * 2, k, v, score_mod=score_mod)


def masked(q, k, v):
    return flex_attention(q, k, v, block_mask=MASK, scale=0.3)


def all_of_it(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: torch.tanh(score) + BIAS[h, j], block_mask=MASK)


def grouped(q, k, v):
    return flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True)


PLAIN = {
    without_functions: lambda q, k, v: reference(q, k, v) + 1,
    relative: lambda q, k, v: reference(q, k, v, lambda s, b, h, i, j: s + (i - j) * SLOPE),
    with_captured_tensors: lambda q, k, v: reference(
        q * 2, k, v, lambda s, b, h, i, j: s + BIAS[h, i] - (OFFSETS * 2)[j]
    ),
    masked: lambda q, k, v: reference(q, k, v, None, causal, 0.3),
    all_of_it: lambda q, k, v: reference(q, k, v, lambda s, b, h, i, j: torch.tanh(s) + BIAS[h, j], causal),
    grouped: lambda q, k, v: reference(q, k[:, :1], v[:, :1]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PLAIN, ids=lambda program: program.__name__)
def test_values(program, backend):
    counting = Counting() if backend == "eager" else backend
    compiled = pellucid.compile(program, backend=counting, fullgraph=True)
    given = tensors()
    for _ in range(2):
        got, want = compiled(*given), PLAIN[program](*given)
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()
    if backend == "eager":
        (gm,) = counting.graphs
        assert len(gm.graph.find_nodes(op="call_function", target=OPERATOR)) == 1


def makes_its_mask(q, k, v):
    mask = create_block_mask(lambda b, h, i, j: i >= j + q.size(1) - 2, None, None, 32, 32, device="cpu", BLOCK_SIZE=16)
    return flex_attention(q, k, v, block_mask=mask), mask.kv_num_blocks, mask.sparsity()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mask_that_the_region_makes(backend):
    counting = Counting() if backend == "eager" else backend
    compiled = pellucid.compile(makes_its_mask, backend=counting, fullgraph=backend == "eager")
    for heads in (2, 1):
        given = tensors(heads, heads)
        out, blocks, sparsity = compiled(*given)
        _, want_blocks, want_sparsity = makes_its_mask(*given)
        torch.testing.assert_close(out, reference(*given, None, lambda b, h, i, j: i >= j + heads - 2))
        assert blocks.tolist() == want_blocks.tolist() and sparsity == want_sparsity
    if backend == "eager":
        assert len(counting.graphs) == 2


@pytest.mark.slow
@pytest.mark.parametrize("program", [relative, all_of_it], ids=lambda program: program.__name__)
def test_inductor(program):
    given = tensors()
    got = pellucid.compile(program, backend="inductor", fullgraph=True)(*given)
    torch.testing.assert_close(got, PLAIN[program](*given))


def test_A28_A29_the_graph():
    counting = Counting()
    pellucid.compile(all_of_it, backend=counting, fullgraph=True)(*tensors())
    (gm,) = counting.graphs
    (call,) = gm.graph.find_nodes(op="call_function", target=OPERATOR)
    assert (call.args[3].target, call.args[4][-1].target) == ("score_mod_0", "mask_fn_0")
    assert call.args[4][:2] == (32, 32) and [len(used) for used in call.args[7:]] == [1, 0]
    assert len(gm.score_mod_0.graph.find_nodes(op="placeholder")) == 6
    assert len(gm.mask_fn_0.graph.find_nodes(op="placeholder")) == 4
    for body in (gm.score_mod_0, gm.mask_fn_0):
        (output,) = body.graph.find_nodes(op="output")
        assert isinstance(output.args[0], torch.fx.Node)


def test_A33_a_global_that_a_score_reads_is_guarded(monkeypatch, counting):
    compiled = pellucid.compile(relative, backend=counting, fullgraph=True)
    given = tensors()
    torch.testing.assert_close(compiled(*given), PLAIN[relative](*given))
    monkeypatch.setitem(globals(), "SLOPE", 2.0)
    torch.testing.assert_close(compiled(*given), PLAIN[relative](*given))
    assert counting.count == 2


def test_gradients_of_what_a_score_uses():
    bias = torch.linspace(-1, 1, 32).requires_grad_()

    def program(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + bias[j] * bias[i])

    given = tensors()
    pellucid.compile(program, backend="eager", fullgraph=True)(*given).square().sum().backward()
    got, bias.grad = bias.grad, None
    reference(*given, lambda s, b, h, i, j: s + bias[j] * bias[i]).square().sum().backward()
    torch.testing.assert_close(got, bias.grad)


def test_logsumexp():
    def program(q, k, v):
        return flex_attention(q, k, v, return_aux=AuxRequest(lse=True))

    given = tensors()
    out, aux = pellucid.compile(program, backend="eager", fullgraph=True)(*given)
    torch.testing.assert_close(out, reference(*given))
    scores = given[0] @ given[1].transpose(-2, -1) * 8**-0.5
    torch.testing.assert_close(aux.lse, scores.logsumexp(-1))


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_layouts_of_queries():
    def program(q, k, v):
        return flex_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))

    given = [tensor.transpose(1, 2).contiguous() for tensor in tensors()]
    got = pellucid.compile(program, backend="eager", fullgraph=True)(*given)
    assert got.stride() == program(*given).stride()
    torch.testing.assert_close(got, reference(*tensors()))


SEEN = []


def has_an_effect(q, k, v):
    def score_mod(score, b, h, i, j):
        SEEN.append(1)
        return score

    return flex_attention(q, k, v, score_mod=score_mod)


def gives_a_number(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: 1.0)


def wrong_heads(q, k, v):
    return flex_attention(q, k[:, :1], v[:, :1])


def wrong_length(q, k, v):
    return flex_attention(q[:, :, :16], k, v, block_mask=MASK)


@pytest.mark.parametrize(
    "program", [has_an_effect, gives_a_number, wrong_heads, wrong_length], ids=lambda p: p.__name__
)
def test_A32_what_is_refused_is_a_break(program):
    with pytest.raises(pellucid.errors.Unsupported, match="flex_attention") as error:
        pellucid.compile(program, backend="eager", fullgraph=True)(*tensors())
    assert program.__name__ in str(error.value) and not SEEN
    if program in (wrong_heads, wrong_length):
        want, got = outcome(program, *tensors()), outcome(pellucid.compile(program, backend="eager"), *tensors())
        assert want[:2] == ("raises", ValueError) and got == want
