"""A copy of a tensor with all of its memory, where a graph that nobody else sees makes it; tensors after the type of others."""

from __future__ import annotations

from typing import Any

import torch


def copy_with_memory(tensor: torch.Tensor) -> torch.Tensor:
    """What `copy.deepcopy(tensor)` gives: the same part of a copy of all that the tensor's memory holds."""
    return torch.Tensor.__deepcopy__(tensor, {})


def copy_on_fakes(tensor: torch.Tensor) -> torch.Tensor:
    """The same of tensors without data. Where the copy begins in its memory nobody asks: no guard compares it."""
    with torch.no_grad():
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def new_tensor_on_fakes(
    tensor: torch.Tensor, data: Any, *, dtype: torch.dtype | None = None, device: Any = None
) -> torch.Tensor:
    """What `tensor.new_tensor(data)` gives, of the numbers in `data`."""
    return torch.tensor(
        data, dtype=tensor.dtype if dtype is None else dtype, device=tensor.device if device is None else device
    )
