"""Tensors in records: everything but their values."""

from __future__ import annotations

from typing import Any

import torch

from pellucid import _core
from pellucid._replay.errors import RecordError

HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # of autograd, on a tensor
_MOST = 1 << 46
_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "meta")


def tensor_row(tensor: torch.Tensor) -> dict[str, Any] | str:
    """Layout and flags of a tensor; a text: why it has no form in a record."""
    if tensor.layout is not torch.strided:
        return f"a tensor of layout {tensor.layout}"
    if tensor.is_nested or tensor.is_quantized or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "a nested or quantized tensor, or one of a transform"
    if tensor.device.type not in _DEVICES:
        return f"a tensor on {tensor.device}"
    if not all(type(size) is int for size in (*tensor.size(), *tensor.stride())):
        return "a tensor with symbolic sizes"
    if (
        hasattr(type(tensor), "__torch_dispatch__")
        and type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    ):
        return "a tensor of a class with a __torch_dispatch__"
    return {
        "sizes": list(tensor.size()),
        "strides": list(tensor.stride()),
        "offset": tensor.storage_offset(),
        "bytes": tensor.untyped_storage().nbytes(),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": str(tensor.device),
        "requires_grad": tensor.requires_grad,
        "leaf": tensor.is_leaf,
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
        "inference": tensor.is_inference(),
    }


def made_tensor(row: dict[str, Any], cls: type, shares: torch.Tensor | None, is_view: bool) -> torch.Tensor:
    """A tensor of this layout without data.

    Raises:
        RecordError: no tensor can be so.
    """
    sizes, strides = tuple(row["sizes"]), tuple(row["strides"])
    dtype = dtype_named(row["dtype"])
    device = device_named(row["device"])
    numbers = (*sizes, *strides, row["offset"], row["bytes"])
    if (
        len(sizes) != len(strides)
        or len(sizes) > 64
        or any(type(each) is not int or not 0 <= each < _MOST for each in numbers)
    ):
        raise RecordError("a tensor of the record has a layout that no tensor has")
    count = 1
    for size in sizes:
        count *= size
    last = row["offset"] + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if count > _MOST or (count and (last + 1) * dtype.itemsize > row["bytes"]):
        raise RecordError("a tensor of the record reaches beyond its storage")

    def make(base: torch.Tensor | None, as_view: bool) -> torch.Tensor:
        return _core._tensor_without_data(sizes, strides, row["offset"], row["bytes"], dtype, device, base, as_view)

    with torch.inference_mode(bool(row["inference"])), torch.enable_grad():
        try:
            if is_view and shares is not None:
                tensor = make(shares, True)
            elif row["requires_grad"] and not row["leaf"]:
                tensor = _Computed.apply(torch.empty(0, requires_grad=True), lambda: make(shares, False))
            else:
                tensor = make(shares, False)
            for flag, switch in (("conj", torch._C._set_conj), ("neg", torch._C._set_neg)):
                if row[flag]:
                    switch(tensor, True)
            if cls is not torch.Tensor:
                tensor = torch.Tensor._make_subclass(cls, tensor)
            if row["requires_grad"] and tensor.is_leaf:
                tensor.requires_grad_()
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise RecordError(f"a tensor of the record cannot be made here: {error}") from error
    return tensor


class _Computed(torch.autograd.Function):
    """Gives a tensor that was computed, as far as autograd knows."""

    @staticmethod
    def forward(ctx: Any, seed: torch.Tensor, make: Any) -> torch.Tensor:
        return make()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError("a tensor of a record has no gradient")


def dtype_named(name: str) -> torch.dtype:
    """A dtype by its name; RecordError: there is none."""
    found = torch.__dict__.get(name)
    if not isinstance(found, torch.dtype):
        raise RecordError(f"the record asks for the dtype {name!r}")
    return found


def device_named(name: str) -> torch.device:
    """A device by its text, whether this machine has it or not; RecordError: there is no such kind."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise RecordError(f"the record asks for the device {name!r}") from error
    if device.type not in _DEVICES:
        raise RecordError(f"the record asks for the device {name!r}")
    return device
