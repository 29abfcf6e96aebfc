"""AOTAutograd sees tensors as torch's kernels lay them out: operators behind them ask for the layout."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import pellucid
from pellucid.backends.decompositions import faithful_decompositions
from pellucid.backends.layouts import layouts_of_kernels

SHAPES = [(1, 4), (4, 1), (1, 2, 2), (2, 1, 2), (1, 1, 4), (2, 2, 1), (1, 1), (1,), (0, 1), (1, 4, 1, 1)]


def others(is_open):
    """Of how many views torch's fake tensors have other strides, and of how many in all."""
    count = wrong = 0
    for shape in SHAPES:
        for order in itertools.permutations(range(len(shape))):
            x = torch.empty(shape).permute(order)
            for wanted in SHAPES:
                try:
                    view = x.view(wanted)
                except RuntimeError:
                    continue
                with FakeTensorMode(shape_env=ShapeEnv()) as mode:
                    context = StatelessSymbolicContext([DimDynamic.DUCK] * x.dim()) if is_open else None
                    fake = mode.from_tensor(x, static_shapes=not is_open, symbolic_context=context).view(wanted)
                count += 1
                wrong += tuple(map(int, fake.stride())) != view.stride() or tuple(map(int, fake.shape)) != wanted
    return wrong, count


@pytest.mark.parametrize("is_open", [False, True])
def test_a_view_has_the_strides_of_the_kernel(is_open):
    if not others(is_open)[0]:
        pytest.fail("torch's fake tensors lay views out as its kernel does: our own kernel for views can go")
    with faithful_decompositions():
        wrong, count = others(is_open)
    assert wrong == 0 and count > 100


def attention_over_pixels(x, weight):
    tokens = (x.flatten(2).transpose(1, 2) * weight).softmax(1)
    return F.group_norm((tokens.transpose(1, 2).reshape(x.shape) + x) / 1.0, 4, weight)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("train", [False, True])
def test_a_norm_behind_a_view_of_one_picture(backend, train, caplog):
    """Diffusers' attention over pixels. The compiled graph itself has to run: the log says where another did."""
    torch.manual_seed(0)
    weight = torch.rand(8, requires_grad=train)
    compiled = pellucid.compile(attention_over_pixels, backend=backend, fullgraph=True)
    for batch, size in ((1, 4), (2, 4), (1, 6), (1, 4)):
        x = torch.rand(batch, 8, size, size, requires_grad=train)
        got = compiled(x, weight)
        want = attention_over_pixels(x, weight)
        if backend == "aot_eager":  # Inductor has a norm of its own
            assert got.stride() == want.stride()
        torch.testing.assert_close(got, want)
        if train:
            torch.testing.assert_close(
                torch.autograd.grad(got.square().sum(), (x, weight)),
                torch.autograd.grad(want.square().sum(), (x, weight)),
            )
    assert "a compiled graph raised" not in caplog.text and pellucid.counters()["graphs"] >= 2


ON_ELEMENTS = {
    "a number": lambda x: x / 2.0,
    "a comparison": lambda x: x > 0,
    "a choice": lambda x: torch.where(x > 0, x, 0.0),
    "alike": torch.empty_like,
    "one operand": torch.relu,
    "two": lambda x: x * x.contiguous(),
    "another dtype": lambda x: x.double(),
}


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("f", ON_ELEMENTS.values(), ids=ON_ELEMENTS)
def test_an_operator_on_elements_has_the_strides_of_the_kernel(f, is_open):
    count = 0
    for shape in [(1, 3, 4, 5), (1, 3, 1, 5)]:
        for order in [(0, 1, 2, 3), (0, 3, 1, 2), (0, 1, 3, 2), (1, 2, 0, 3), (3, 2, 0, 1)]:
            x = torch.empty(shape).permute(order)
            for dim in range(4):  # any stride will do there
                strides = [
                    7 if size == 1 and at == dim else step for at, (size, step) in enumerate(zip(x.shape, x.stride()))
                ]
                odd = x.as_strided(x.shape, strides)
                with layouts_of_kernels(), FakeTensorMode(shape_env=ShapeEnv()) as mode:
                    context = StatelessSymbolicContext([DimDynamic.DYNAMIC] * 4) if is_open else None
                    fake = f(mode.from_tensor(odd, static_shapes=not is_open, symbolic_context=context))
                count += 1
                assert tuple(map(int, fake.stride())) == f(odd).stride(), (odd.shape, odd.stride())
    assert count == 40
