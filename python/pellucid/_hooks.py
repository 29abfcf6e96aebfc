"""Hooks of autograd that a region registers: called by compiled code behind the graph, with the tensors of the call. Handles
were made by the region, without what only the registration tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import register_multi_grad_hook as _register_multi_grad_hook
from torch.utils.hooks import BackwardHook, RemovableHandle


def register_hook(tensors: tuple[torch.Tensor], hook: Callable, handle: RemovableHandle) -> None:
    vars(handle).update(vars(tensors[0].register_hook(hook)))


def register_post_accumulate_grad_hook(tensors: tuple[torch.Tensor], hook: Callable, handle: RemovableHandle) -> None:
    vars(handle).update(vars(tensors[0].register_post_accumulate_grad_hook(hook)))


def register_multi_grad_hook(
    tensors: tuple[torch.Tensor, ...], hook: Callable, mode: Any, handle: RemovableHandle
) -> None:
    vars(handle).update(vars(_register_multi_grad_hook(tensors, hook, mode=mode)))


def retain_grad(tensors: tuple[torch.Tensor]) -> None:
    tensors[0].retain_grad()


def hook_inputs(tensors: tuple[torch.Tensor], hook: BackwardHook) -> None:
    """A module's hook hears of the gradients of the module's inputs, of which these is the first that has one."""
    hook._set_user_hook(tensors[0].grad_fn)


def hook_outputs(tensors: tuple[torch.Tensor], hook: BackwardHook) -> None:
    """The same of its outputs. What hears of them is a function within torch's own, which has found the tensors already."""
    count, index = hook.n_outputs, hook.output_tensors_index

    def apply_on_tensors(hear: Callable, outputs: tuple) -> tuple:
        hear(tensors[0].grad_fn)
        return outputs, index

    vars(hook)["_apply_on_tensors"] = apply_on_tensors
    try:
        hook.setup_output_hook((None,) * count)
    finally:
        del vars(hook)["_apply_on_tensors"]
