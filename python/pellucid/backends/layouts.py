"""Fake tensors of torch that are laid out otherwise than the kernels lay their results out, mended while AOTAutograd traces.

A tensor with a dimension of size 1 may have any stride there. Torch's fake tensors follow other rules than its kernels then,
and kernels further on ask whether they are given what is contiguous, or channels last: the compiled graph raises.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch._prims_common import (
    extract_shape_from_varargs,
    infer_size,
    make_channels_last_strides_for,
    make_contiguous_strides_for,
)
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._mode_utils import no_dispatch

_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
_torchs_views = {operator: fake_impls.op_implementations_dict[operator] for operator in _VIEWS}
_torchs_dispatch = FakeTensorMode._dispatch_impl
_KNOWN_RESULTS: dict[Any, Any] = {}  # torch's own may hold what is not mended


@contextlib.contextmanager
def layouts_of_kernels() -> Iterator[None]:
    """Patches torch for the whole process: to be entered with its compile lock held.

    Raises:
        AttributeError: this torch has other names for what is patched.
    """
    with (
        mock.patch.dict(fake_impls.op_implementations_dict, dict.fromkeys(_VIEWS, _view)),
        mock.patch.object(FakeTensorMode, "_dispatch_impl", _dispatch),
        mock.patch.object(FakeTensorMode, "cache", _KNOWN_RESULTS),
    ):
        yield


def _view(mode: FakeTensorMode, func: torch._ops.OpOverload, tensor: torch.Tensor, *shape: Any, **kwargs: Any) -> Any:
    sizes = infer_size(extract_shape_from_varargs(shape, validate=False), tensor.numel())
    if any(isinstance(size, int) and size == 1 for size in (*tensor.shape, *sizes)):
        strides = fake_impls._compute_stride(tensor.shape, tensor.stride(), sizes)
        if strides is not None:
            return tensor.as_strided(sizes, strides)
    return _torchs_views[func](mode, func, tensor, *shape, **kwargs)


@functools.wraps(_torchs_dispatch)
def _dispatch(
    self: FakeTensorMode, func: torch._ops.OpOverload, types: Sequence[type], args: Sequence[Any], kwargs: Any
) -> Any:
    result = _torchs_dispatch(self, func, types, args, kwargs)
    if not isinstance(result, FakeTensor) or not _lays_out_by_operands(func):
        return result
    if not any(_is_laid_out_by_chance(value) for value in args) or any(value is result for value in args):
        return result
    strides = _strides_by_kernel(result, func, args, kwargs)
    if strides is None or strides == result.stride():
        return result
    with self:
        return result.new_empty_strided(result.shape, strides)


@functools.cache
def _lays_out_by_operands(func: Any) -> bool:
    """Operators on elements, and those that make a tensor like another. The kernel of one that draws numbers may not run."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten" or func._schema.is_mutable:
        return False
    if torch.Tag.nondeterministic_seeded in func.tags:
        return False
    return torch.Tag.pointwise in func.tags or func._schema.name.endswith("_like")


def _is_laid_out_by_chance(value: Any) -> bool:
    if not isinstance(value, FakeTensor) or value.layout is not torch.strided:
        return False
    sizes, strides = _hints(value.shape), _hints(value.stride())
    if sizes is None or strides is None or 1 not in sizes or strides == make_contiguous_strides_for(sizes):
        return False
    return len(sizes) not in (4, 5) or strides != make_channels_last_strides_for(sizes)


def _strides_by_kernel(result: torch.Tensor, func: Callable, args: Sequence[Any], kwargs: Any) -> Any:
    """The kernel is asked at the sizes of now; strides of sizes that are open are these sizes, in that order. None: unknown."""
    real = [_with_data(value) if isinstance(value, torch.Tensor) else value for value in args]
    options = {name: torch.device("cpu") if name == "device" else value for name, value in kwargs.items()}
    if any(isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) for value in (*real, *options.values())):
        return None
    try:
        with no_dispatch(), fake_impls.no_python_dispatcher(), torch.no_grad():
            wanted = func(*real, **options).stride()
    except Exception:
        return None  # what there is for another device alone
    sizes = _hints(result.shape)
    if sizes is None or len(sizes) != len(wanted):
        return None
    for value in args:
        if isinstance(value, torch.Tensor) and _hints(value.shape) == sizes and _hints(value.stride()) == wanted:
            return value.stride()
    strides: list[Any] = [1] * len(wanted)
    within: Any = 1
    for dim in sorted(range(len(wanted)), key=lambda dim: (wanted[dim], sizes[dim])):
        strides[dim] = within
        within = within * result.shape[dim]
    return tuple(strides) if _hints(strides) == wanted else None


def _with_data(tensor: torch.Tensor) -> Any:
    sizes, strides = _hints(tensor.shape), _hints(tensor.stride())
    with no_dispatch(), fake_impls.no_python_dispatcher():
        return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device="cpu").fill_(1)  # type: ignore[arg-type]


def _hints(numbers: Sequence[Any]) -> tuple[int, ...] | None:
    hints = [number.node.hint if isinstance(number, torch.SymInt) else number for number in numbers]
    return None if None in hints else tuple(hints)
