"""What backward passes of the program do to gradients, said with functions that a graph holds, and operators whose factors are
tensors. Traced like the user's own code; pellucid.polyfills hands these on."""

from __future__ import annotations

import torch

# ---- backward passes (AccumulateGrad of torch: accumulate_grad.h)


def leaves_of(tensors):
    """The tensors to whose gradients a backward pass from these adds."""
    raise NotImplementedError("a rule of the core stands for this function")


def gradients_of(tensors, leaves, grad_tensors, retain_graph):
    """torch.autograd.grad, and for each gradient whether it is nobody else's and has the layout that `.grad` has to have."""
    raise NotImplementedError("a rule of the core stands for this function")


def refuse_backward():
    raise NotImplementedError("a rule of the core stands for this function")


def tensor_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    autograd_backward((self,), gradient, retain_graph, create_graph, None, inputs)


def autograd_backward(
    tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None
):
    if create_graph or grad_variables is not None or inputs is not None:
        refuse_backward()
    tensors = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
    leaves = leaves_of(tensors)
    gradients, are_own = gradients_of(tensors, leaves, grad_tensors, retain_graph)
    for leaf, gradient, is_own in zip(leaves, gradients, are_own):
        if gradient is None:
            continue
        before = leaf.grad
        if before is None:
            leaf.grad = gradient if is_own else _copy_for(leaf, gradient)
        elif before.requires_grad:
            with torch.no_grad():
                before.add_(gradient)
        else:
            before.add_(gradient)


def _copy_for(leaf, gradient):
    return torch.empty_like(leaf, requires_grad=False).copy_(gradient)
