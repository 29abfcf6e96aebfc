"""What backward passes of the program do to gradients, said with functions that a graph holds. Traced like the user's
own code; pellucid.polyfills hands these on."""

from __future__ import annotations

import torch

# ---- backward passes (AccumulateGrad of torch: accumulate_grad.h)


def leaves_of(tensors):
    """The tensors to whose gradients a backward pass from these adds."""
    raise NotImplementedError("a rule of the core stands for this function")


def gradients_of(tensors, leaves, grad_tensors, retain_graph, create_graph, hooked):
    """torch.autograd.grad; of each gradient, whether it is nobody else's and has the layout that `.grad` must have.
    `hooked`: some of the leaves have hooks, which are not called."""
    raise NotImplementedError("a rule of the core stands for this function")


def hooks_of(leaf):
    """The dict of the hooks that a leaf had before the region, or None."""
    raise NotImplementedError("a rule of the core stands for this function")


def order_of_pass():
    """Which of its leaves the pass of gradients_of() comes to, in order, as their numbers."""
    raise NotImplementedError("a rule of the core stands for this function")


def refuse_backward():
    raise NotImplementedError("a rule of the core stands for this function")


def tensor_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    autograd_backward((self,), gradient, retain_graph, create_graph, None, inputs)


def autograd_backward(
    tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None
):
    if grad_variables is not None:
        refuse_backward()
    tensors = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
    leaves = leaves_of(tensors)
    if inputs is not None:
        leaves = those_of(leaves, (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs))
        if not all(leaf.requires_grad for leaf in leaves):
            refuse_backward()
    hooks = tuple([hooks_of(leaf) for leaf in leaves])
    hooked = any(hooks)
    gradients, are_own = gradients_of(tensors, leaves, grad_tensors, retain_graph, create_graph, hooked)
    if hooked:
        if create_graph:
            refuse_backward()
        accumulate_through_hooks(leaves, gradients, hooks, order_of_pass())
        return
    if create_graph:
        accumulate_with_graph(leaves, gradients)
        return
    for leaf, gradient, is_own in zip(leaves, gradients, are_own):
        if gradient is None or not leaf.requires_grad:
            continue
        before = leaf.grad
        if before is None:
            leaf.grad = gradient.detach() if is_own else copy_for(leaf, gradient)
        elif before.requires_grad:
            with torch.no_grad():
                before.add_(gradient)
        else:
            before.add_(gradient)


def accumulate_through_hooks(leaves, gradients, hooks, order):
    """A hook may keep the gradient that it is given, or give one that something else keeps: what accumulates is a copy."""
    for number in order:
        leaf, gradient = leaves[number], gradients[number]
        if not leaf.requires_grad:
            continue
        with torch.no_grad():
            for hook in tuple(hooks[number].values()) if hooks[number] else ():
                other = hook(gradient)
                if other is not None:
                    if not isinstance(other, torch.Tensor) or not has_kind_of(other, gradient):
                        refuse_backward()
                    gradient = other
            if leaf.grad is None:
                leaf.grad = copy_for(leaf, gradient)
            else:
                leaf.grad.add_(gradient)


def has_kind_of(one, other):
    return one.shape == other.shape and one.dtype == other.dtype and one.device == other.device


def accumulate_with_graph(leaves, gradients):
    with torch.enable_grad():
        for leaf, gradient in zip(leaves, gradients):
            if gradient is not None and leaf.requires_grad:
                leaf.grad = copy_for(leaf, gradient) if leaf.grad is None else leaf.grad + gradient


def those_of(leaves, inputs):
    """The leaves among the inputs of a pass. What is no leaf of it, and what is there twice, torch itself has to see."""
    chosen = tuple([leaf for leaf in leaves if any(leaf is tensor for tensor in inputs)])
    if len(chosen) != len(inputs) or not chosen:
        refuse_backward()
    return chosen


def copy_for(leaf, gradient):
    return torch.empty_like(leaf, requires_grad=False).copy_(gradient)


def one_group_of_tensors(tensorlists, with_indices=False):
    first = tensorlists[0]
    groups = [list(tensors) for tensors in tensorlists]
    return {(first[0].device, first[0].dtype): (groups, list(range(len(first))) if with_indices else [])}
