"""Copies of tensors that can stand in for them in a graph, and tensors that are put back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch


def copies(values: Sequence[Any]) -> list[Any]:
    """Copies of the tensors among `values`, laid out as they are. Those that share memory have copies that do so alike.

    What requires gradients does so in its copy, which is a leaf where it is one; gradients end at the copy.

    Example:
        >>> a = torch.zeros(4)
        >>> b, c = copies([a, a[2:]])
        >>> c.add_(1)
        >>> b
        tensor([0., 0., 1., 1.])
    """
    storages: dict[int, Any] = {}
    made: dict[int, Any] = {}  # one object that is given twice is one copy
    return [made.setdefault(id(value), _copy(value, storages)) for value in values]


def _copy(value: Any, storages: dict[int, Any]) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    with torch.no_grad():
        if value.layout is not torch.strided or type(value) not in (torch.Tensor, torch.nn.Parameter):
            copy = value.detach().clone()
        else:
            storage = value.untyped_storage()
            if storage._cdata not in storages:
                storages[storage._cdata] = storage.clone()
            copy = torch.empty(0, dtype=value.dtype, device=value.device)
            copy.set_(storages[storage._cdata], value.storage_offset(), value.size(), value.stride())
            if value.is_conj():
                copy = torch._conj(copy)
            if value.is_neg():
                copy = torch._neg_view(copy)
    if not value.requires_grad:
        return copy
    copy.requires_grad_()
    if value.is_leaf:
        return copy
    with torch.enable_grad():
        return _Computed.apply(copy)


class _Computed(torch.autograd.Function):
    """Gives a tensor with the same memory that is no leaf: a graph may write it, which it may not do to a leaf."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
            tensor.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride()
        )

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


@contextlib.contextmanager
def unchanged(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Behind the block the tensors hold what they held before it; it may have written them.

    Example:
        >>> with unchanged(list(gm.buffers())):
        ...     gm(*inputs)
    """
    kept = [(tensor, tensor.detach().clone(), tensor._version) for tensor in tensors]
    try:
        yield
    finally:
        for tensor, before, version in kept:
            tensor.data.copy_(before)  # autograd sees no write through .data; statistics are written without one too
            if tensor._version != version:
                torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


@contextlib.contextmanager
def same_random_numbers() -> Iterator[None]:
    """Draws of torch's generators in the block do not count: behind it they give what they would have given at its start.

    Example:
        >>> with same_random_numbers():
        ...     first = torch.rand(1)
        >>> torch.rand(1) == first
        tensor([True])
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=devices):
        yield
