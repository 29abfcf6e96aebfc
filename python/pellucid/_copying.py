"""A copy of a tensor with all of its memory, where a graph that nobody else sees makes it."""

from __future__ import annotations

import torch


def copy_with_memory(tensor: torch.Tensor) -> torch.Tensor:
    """What `copy.deepcopy(tensor)` gives: the same part of a copy of all that the tensor's memory holds."""
    return torch.Tensor.__deepcopy__(tensor, {})


def copy_on_fakes(tensor: torch.Tensor) -> torch.Tensor:
    """The same of tensors without data. Where the copy begins in its memory nobody asks: no guard compares it."""
    with torch.no_grad():
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
