"""Hooks of autograd on tensors inside of a compiled graph: an operator of its backward graph calls them.

A compiler's function gives gradients to its inputs alone, so no hook hears of the gradient of what it computes between.
`torch.ops.pellucid.hooked` is the identity there, whose backward is the operator `run_hooks`: opaque to the compiler, it calls
what has been registered for this very call. A tensor of one number, the key, says what that is. The graph makes it
(`new_hooks`), gives it to the code behind the graph, which registers the hooks, and saves it for the backward pass.
"""

from __future__ import annotations

import collections
import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle


class _Hooks(bytearray):
    """The memory of a key, which lives as long as the key does, in whatever tensor or saved variable."""

    by_name: collections.OrderedDict[int, Callable]
    upstream: list[Any]
    """Where gradients of the graph's inputs go that come through the hooked tensor: nodes of autograd."""


_HOOKS: weakref.WeakValueDictionary[int, _Hooks] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


def _new_hooks() -> torch.Tensor:
    number = next(_NUMBERS)
    hooks = _Hooks(number.to_bytes(8, "little"))
    hooks.by_name = collections.OrderedDict()
    hooks.upstream = []
    _HOOKS[number] = hooks
    return torch.frombuffer(hooks, dtype=torch.int64)


class _Hooked(torch.autograd.Function):
    """A copy, since a view would have the gradients of its base: a compiler makes results that are views of the base."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(key)
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> Any:
        if gradient is None:
            return None, None
        return torch.ops.pellucid.run_hooks(*ctx.saved_tensors, gradient), None


def _run_hooks(key: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """What the hooks give keeps its memory, and so does the graph: neither gets that of the other."""
    hooks = _HOOKS[int(key)]
    result = torch.empty_like(gradient)
    if not hooks.by_name or not _is_asked_for(hooks.upstream):
        return result.copy_(gradient)
    value = gradient.clone()
    for hook in list(hooks.by_name.values()):
        gave = hook(value)
        if gave is not None:
            _check(value, gave, hook)
            value = gave
    return result.copy_(value)


def _is_asked_for(nodes: list[Any]) -> bool:
    """Whether the pass that runs comes to one of these. Eager code calls no hook on its way to another input, where the
    function of a compiler computes all gradients."""
    for node in nodes:
        try:
            if torch._C._will_engine_execute_node(node):  # type: ignore[attr-defined]
                return True
        except RuntimeError:  # torch.autograd.grad() with respect to this very leaf
            return True
    return False


def _check(value: torch.Tensor, gave: Any, hook: Callable) -> None:
    """Raises what autograd raises of what a hook gives."""
    if isinstance(gave, torch.Tensor) and gave.size() == value.size() and gave.type() == value.type():
        return

    def again(_: torch.Tensor) -> Any:
        return gave

    again.__name__ = getattr(hook, "__name__", "<unknown>")
    with torch.enable_grad():
        leaf = torch.empty_like(value).requires_grad_()
        passed = leaf.view_as(leaf)
    passed.register_hook(again)
    torch.autograd.grad(passed, leaf, value)


def register_hook(tensors: tuple[torch.Tensor, ...], hook: Callable, handle: RemovableHandle) -> None:
    """Called by compiled code behind the graph.

    Args:
        tensors: the key of the hooked tensor, and the inputs of the graph that it was computed of.
        hook: as the program gave it to `torch.Tensor.register_hook`.
        handle: what the program got for it, made without what only the registration tells.
    """
    key, *inputs = tensors
    hooks = _HOOKS[int(key)]
    hooks.upstream = [torch.autograd.graph.get_gradient_edge(tensor).node for tensor in inputs]
    made = RemovableHandle(hooks.by_name)
    hooks.by_name[made.id] = hook
    vars(handle).update(vars(made))


@functools.cache
def operators() -> tuple[Any, Any]:
    """`new_hooks` and `hooked` of torch.ops.pellucid, which are made when the first one is asked for: torch takes its time."""
    library = torch.library.Library("pellucid", "FRAGMENT")
    _LIBRARIES.append(library)
    # "nondeterministic_seeded": no two calls are one, and none is made again in the backward pass.
    library.define("new_hooks() -> Tensor", tags=(torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag))
    library.define("hooked(Tensor tensor, Tensor key) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    library.define("run_hooks(Tensor key, Tensor gradient) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl("new_hooks", _new_hooks, "CompositeExplicitAutograd")
    library.impl("hooked", _Hooked.apply, "CompositeImplicitAutograd")
    library.impl("run_hooks", _run_hooks, "CompositeExplicitAutograd")
    torch.library.register_fake("pellucid::new_hooks", lambda: torch.empty(1, dtype=torch.int64), lib=library)
    torch.library.register_fake("pellucid::run_hooks", lambda key, gradient: torch.empty_like(gradient), lib=library)
    torch.fx.node.has_side_effect(torch.ops.pellucid.run_hooks.default)
    return torch.ops.pellucid.new_hooks.default, torch.ops.pellucid.hooked.default


_LIBRARIES: list[torch.library.Library] = []  # an operator goes with its library
