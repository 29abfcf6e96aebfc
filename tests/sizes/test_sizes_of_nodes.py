"""A size that the program reads of a tensor of the graph is read of it in graphs for compilers as well, where torch's symbols
could prove little of the same number in other words."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import pellucid
from support import CountingOf

torch.manual_seed(0)
CONV = torch.nn.Conv2d(3, 8, 7, 4, 3)


def back_to_image(x):
    y = CONV(x)
    b, _, h, w = y.shape
    rows = y.flatten(2).transpose(1, 2)
    return rows.permute(0, 2, 1).reshape(b, -1, h, w).sin()


def by_method(x):
    y = CONV(x)
    return y.flatten(2).unflatten(2, (y.size(2), y.size(-1))) * y.size(2)


def computed_of(x):
    y = CONV(x)
    return torch.zeros(y.shape[2] * y.shape[3] + 1) + y.sum()


def turned_in_place(x):
    y = CONV(x)[0, 0] * 1
    h = y.shape[0]
    y.t_()
    return y.reshape(-1, h) * h


def squeezed_in_place(x):
    y = CONV(x)[:1]
    h = y.shape[2]
    y = y * 1
    z = y.unsqueeze(0)
    width = z.shape[4]
    z.squeeze_(0)
    return z.reshape(8, h, width)


def in_a_checkpoint(x):
    y = CONV(x)
    h = y.shape[2]
    return checkpoint(lambda z: z.flatten(2).reshape(z.shape[0], 8, h, -1).sin(), y, use_reentrant=False)


def below_vmap(x):
    return torch.vmap(lambda row: CONV(row).flatten(1).reshape(8, CONV(row).shape[1], -1))(x)


def behind_a_break(x):
    y = CONV(x)
    h = y.shape[2]
    print(end="")
    return y.flatten(2).reshape(y.shape[0], 8, h, -1)


def returned(x):
    y = CONV(x)
    return y.sin(), y.shape[2], y.shape[2] * 2, y.numel()


PROGRAMS = [
    back_to_image,
    by_method,
    computed_of,
    turned_in_place,
    squeezed_in_place,
    in_a_checkpoint,
    below_vmap,
    behind_a_break,
    returned,
]
SIZES = [(2, 64, 64), (1, 64, 96), (3, 96, 64), (2, 50, 70), (4, 33, 41)]


def outcome(f, size):
    torch.manual_seed(size[1])
    x = torch.randn(size[0], 3, *size[1:], requires_grad=True)
    result = f(x)
    first = result[0] if isinstance(result, tuple) else result
    first.sum().backward()
    rest = result[1:] if isinstance(result, tuple) else ()
    return first.detach(), first.stride(), x.grad, rest


def assert_same(got, want):
    assert torch.equal(got[0], want[0]) and got[1] == want[1] and got[3] == want[3]
    torch.testing.assert_close(got[2], want[2])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("f", PROGRAMS)
def test_values_are_eagers(f, backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for size in SIZES:
        assert_same(outcome(compiled, size), outcome(f, size))
    assert 0 < len(counting.graphs) < 2 * len(SIZES)


def graph_of(f):
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    compiled = pellucid.compile(f, backend=backend, dynamic=True)
    assert_same(outcome(compiled, SIZES[1]), outcome(f, SIZES[1]))
    (graph,) = graphs
    return [str(node.target) for node in graph.graph.nodes if node.op.startswith("call")]


@pytest.mark.parametrize("f", [back_to_image, by_method])
def test_a_compiler_gets_the_size_of_the_tensor(f):
    targets = graph_of(f)
    assert targets.count("size") == 2
    assert not any("floordiv" in target for target in targets)


def test_a_tensor_with_another_shape_is_not_asked():
    assert "size" not in graph_of(turned_in_place)


def drawn(x, generator):
    y = CONV(x)
    return y + torch.randn(y.shape, generator=generator, dtype=y.dtype)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_generator_none_is_no_generator(backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(drawn, backend=counting)
    for size in SIZES[1:] + SIZES[3:]:
        x = torch.randn(size[0], 3, *size[1:])
        torch.manual_seed(1)
        want = drawn(x, None)
        torch.manual_seed(1)
        assert torch.equal(compiled(x, None), want)
    assert len(counting.graphs) <= 3
