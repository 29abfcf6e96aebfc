"""Strides that change: one that is open is at least 2, as what was captured takes for granted."""

from __future__ import annotations

import pytest
import torch

import pellucid
from support import Counting


def tensor(sizes, strides):
    return torch.arange(64.0).as_strided(sizes, strides)


LAYOUTS = [((1, 3), (4, stride)) for stride in (4, 2, 5, 1, 0, 3)]
LAYOUTS += [((2, 3), (stride, 1)) for stride in (3, 4, 6, 1, 0, 5)]
LAYOUTS += [((2, 1), (1, stride)) for stride in (7, 9, 2, 1, 0, 3)]


def contiguous(y):
    return y.is_contiguous(), y.stride(), y.contiguous().data_ptr() == y.data_ptr()


def kept(y):
    z = y * 2
    return z.stride(), y.clone().stride(), torch.empty_like(y).stride()


def viewed(y):
    try:
        return y.view(-1).stride()
    except RuntimeError:
        return "no view"


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("f", [contiguous, kept, viewed])
def test_a_stride_of_one_or_none_is_apart(f, dynamic):
    counting = Counting()
    compiled = pellucid.compile(f, backend=counting, dynamic=dynamic)
    with pellucid.config.patch(recompile_limit=64):
        for sizes, strides in LAYOUTS:
            assert compiled(tensor(sizes, strides)) == f(tensor(sizes, strides)), (sizes, strides)
        entries = len(pellucid.cache_entries(compiled))
        for sizes, strides in LAYOUTS:
            assert compiled(tensor(sizes, strides)) == f(tensor(sizes, strides)), (sizes, strides)
    assert len(pellucid.cache_entries(compiled)) == entries < len(LAYOUTS)


def test_a_view_behind_a_break():
    def f(x):
        y = x[::4]
        pellucid.graph_break()
        return y.is_contiguous(), y.stride()

    compiled = pellucid.compile(f, backend="eager")
    for size in (5, 7, 4, 2, 9, 6, 5, 1, 0, 3, 8):
        x = torch.arange(size * 3.0).view(3, size).t()
        assert compiled(x) == f(x), size
