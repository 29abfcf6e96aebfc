"""Gradients of leaves that have hooks. The program's own code calls the hooks, behind the node that computes the gradients."""

from __future__ import annotations

from typing import Any

import torch

ORDER: list[int] = []
"""Where the last pass during a capture came to, as numbers of its leaves."""


def gradients_past_hooks(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """torch.autograd.grad, by which no hook of the leaves `inputs` is called."""
    hooked = [(leaf, leaf._backward_hooks) for leaf in inputs if leaf._backward_hooks is not None]
    try:
        for leaf, _ in hooked:
            leaf._backward_hooks = None
        return torch.autograd.grad(outputs, inputs, *args, **kwargs)
    finally:
        for leaf, hooks in hooked:
            leaf._backward_hooks = hooks


def gradients_in_order(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """The same on the tensors of a capture, which have no hooks. Says in which order the pass comes to the leaves."""
    ORDER.clear()
    handles = [leaf.register_hook(lambda _, number=number: ORDER.append(number)) for number, leaf in enumerate(inputs)]
    try:
        return torch.autograd.grad(outputs, inputs, *args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
