"""`torch.inference_mode` entered inside a region, as a block and as a decorator."""

import pytest
import torch

import pellucid
from support import same

W = torch.randn(3, 3, requires_grad=True, generator=torch.Generator().manual_seed(0))
X = torch.arange(6.0).reshape(2, 3)


def block(x):
    with torch.inference_mode():
        y = x @ W
        z = y.sin() + 1
    return z, torch.is_inference_mode_enabled()


@torch.inference_mode()
def decorated(x):
    y = x @ W
    y.add_(1)
    return y[0], torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def switched_off(x):
    with torch.inference_mode(False):
        y = x * 2
    with torch.inference_mode():
        with torch.inference_mode(False):
            w = x @ W
        v = w * 1
    return y, w, v, v.is_inference(), w.is_inference()


def left_by_an_exception(x):
    try:
        with torch.inference_mode():
            y = x + 1
            raise ValueError("x")
    except ValueError:
        return x * 2, y, torch.is_inference_mode_enabled()


def only_inside(x):
    with torch.inference_mode():
        size = (x @ W).shape[0]
    return x * size


def facts(value):
    if isinstance(value, torch.Tensor):
        return value.is_inference(), value.requires_grad, value.grad_fn is None
    return value


@pytest.mark.parametrize("backend", ["eager", "aot_eager", lambda gm, inputs: gm.forward])
@pytest.mark.parametrize("f", [block, decorated, switched_off, left_by_an_exception, only_inside])
def test_as_in_eager(f, backend):
    compiled = pellucid.compile(f, backend=backend)
    want = f(X)
    for _ in range(3):
        got = compiled(X)
        assert same(got, want)
        for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, want)), strict=True):
            assert facts(a) == facts(b)
        assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


@pytest.mark.parametrize("f", [block, decorated, switched_off, left_by_an_exception, only_inside])
def test_one_graph(f, counting):
    pellucid.compile(f, backend=counting, fullgraph=True)(X)
    assert counting.count == 1


def test_what_aot_backends_cannot_give_is_a_break():
    with pytest.raises(pellucid.errors.Unsupported, match="inference mode"):
        pellucid.compile(block, backend="aot_eager", fullgraph=True)(X)
    assert same(pellucid.compile(only_inside, backend="aot_eager", fullgraph=True)(X), only_inside(X))
