"""Tensors whose autograd graph a backward pass inside of compiled code has freed."""

from __future__ import annotations

from typing import Any

import torch


class _Freed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
        # No view, as what a program computes is none: autograd refuses writes to views that a Function makes.
        return tensor.data

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        with torch.enable_grad():
            leaf = torch.zeros((), requires_grad=True)
            product = leaf * leaf
            product.backward()
            product.backward()  # torch says why this is impossible


def freed(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as one that requires gradients and says in a backward pass that its graph has been freed.

    Args:
        tensor: of any shape and of a floating dtype, without a graph of its own.

    Returns:
        A view of it.

    Example:
        >>> import torch
        >>> from pellucid._freed import freed
        >>> loss = freed(torch.ones(()))
        >>> loss.requires_grad, loss.is_leaf
        (True, False)
    """
    with torch.enable_grad():
        return _Freed.apply(tensor, torch.empty((), requires_grad=True))
