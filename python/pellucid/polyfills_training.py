"""What backward passes of the program do to gradients, said with functions that a graph holds, and operators whose
factors are tensors. Traced like the user's own code; pellucid.polyfills hands these on."""

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


# ---- factors that are tensors, for backends that compile: torch asks such a tensor for its number, which a graph does
# not know


# Torch computes these in the dtype of the result, and in float32 where that is a shorter one, and rounds once.


def scaled_add(self, other, *, alpha):
    return summed(self, product(widened(other, self), alpha), other)


def scaled_add_(self, other, *, alpha):
    return add_to(self, product(widened(other, self), alpha))


def scaled_sub(self, other, *, alpha):
    return summed(self, -product(widened(other, self), alpha), other)


def scaled_sub_(self, other, *, alpha):
    return add_to(self, -product(widened(other, self), alpha))


def scaled_addcdiv(self, tensor1, tensor2, *, value):
    return summed(self, product(widened(tensor1, self) / widened(tensor2, self), value), tensor1, tensor2)


def scaled_addcdiv_(self, tensor1, tensor2, *, value):
    return add_to(self, product(widened(tensor1, self) / widened(tensor2, self), value))


def scaled_addcmul(self, tensor1, tensor2, *, value):
    return summed(self, product(widened(tensor1, self) * widened(tensor2, self), value), tensor1, tensor2)


def scaled_addcmul_(self, tensor1, tensor2, *, value):
    return add_to(self, product(widened(tensor1, self) * widened(tensor2, self), value))


def widened(tensor, beside):
    """In the dtype that torch computes in."""
    dtype = torch.result_type(tensor, beside)
    if dtype in (torch.bfloat16, torch.float16):
        dtype = torch.float32
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def summed(self, term, *others):
    result, dtype = self + term, self.dtype
    for other in others:
        dtype = torch.promote_types(dtype, torch.result_type(self, other))
    return result if result.dtype == dtype else result.to(dtype)


def add_to(self, term):
    return self.add_(term) if term.dtype == self.dtype else self.copy_(self + term)


def are_wide(*lists):
    """Whether the tensors that belong together are of one dtype, and that is no short one."""
    kinds = (torch.float32, torch.float64)
    return all(tensors[0].dtype in kinds and len({one.dtype for one in tensors}) == 1 for tensors in zip(*lists))


def scaled_full_like(self, fill_value, **options):
    return torch.empty_like(self, **options).fill_(fill_value)


def scaled__foreach_add(self, other, *, alpha):
    if not are_wide(self, other):
        return [scaled_add(one, term, alpha=alpha) for one, term in zip(self, other)]
    return torch._foreach_add(self, each_times(other, alpha))


def scaled__foreach_add_(self, other, *, alpha):
    if not are_wide(self, other):
        for one, term in zip(self, other):
            scaled_add_(one, term, alpha=alpha)
        return
    torch._foreach_add_(self, each_times(other, alpha))


def scaled__foreach_addcdiv(self, tensor1, tensor2, scalars):
    if not are_wide(self, tensor1, tensor2):
        every = zip(self, tensor1, tensor2, scalars)
        return [scaled_addcdiv(one, first, second, value=value) for one, first, second, value in every]
    return torch._foreach_add(self, times(torch._foreach_div(tensor1, tensor2), scalars))


def scaled__foreach_addcdiv_(self, tensor1, tensor2, scalars):
    if not are_wide(self, tensor1, tensor2):
        for one, first, second, value in zip(self, tensor1, tensor2, scalars):
            scaled_addcdiv_(one, first, second, value=value)
        return
    torch._foreach_add_(self, times(torch._foreach_div(tensor1, tensor2), scalars))


def scaled__foreach_addcmul(self, tensor1, tensor2, scalars):
    if not are_wide(self, tensor1, tensor2):
        every = zip(self, tensor1, tensor2, scalars)
        return [scaled_addcmul(one, first, second, value=value) for one, first, second, value in every]
    return torch._foreach_add(self, times(torch._foreach_mul(tensor1, tensor2), scalars))


def scaled__foreach_addcmul_(self, tensor1, tensor2, scalars):
    if not are_wide(self, tensor1, tensor2):
        for one, first, second, value in zip(self, tensor1, tensor2, scalars):
            scaled_addcmul_(one, first, second, value=value)
        return
    torch._foreach_add_(self, times(torch._foreach_mul(tensor1, tensor2), scalars))


def product(tensor, factor):
    """In the tensor's dtype, as torch computes with the number of such a factor."""
    return tensor * (factor.to(tensor.dtype) if isinstance(factor, torch.Tensor) else factor)


def each_times(tensors, factor):
    return [product(tensor, factor) for tensor in tensors]


def times(tensors, factors):
    factors = factors.unbind() if isinstance(factors, torch.Tensor) else factors
    return [product(tensor, factor) for tensor, factor in zip(tensors, factors)]
