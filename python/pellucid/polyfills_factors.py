"""Operators with a factor that is a number for torch and a tensor in graphs for backends that compile: torch asks such a
tensor for its number, which a graph does not know. Traced like the user's own code; pellucid.polyfills hands these on.

Torch computes in the dtype of the result, and in float32 where that is a shorter one, and rounds once."""

from __future__ import annotations

import torch


def scaled_full_like(self, fill_value, **options):
    return torch.empty_like(self, **options).fill_(fill_value)


def scaled_add(self, other, *, alpha):
    return summed(self, product(widened(other, self), rounded(alpha, self, other)), other)


def scaled_add_(self, other, *, alpha):
    return add_to(self, product(widened(other, self), rounded(alpha, self, other)))


def scaled_sub(self, other, *, alpha):
    return summed(self, -product(widened(other, self), rounded(alpha, self, other)), other)


def scaled_sub_(self, other, *, alpha):
    return add_to(self, -product(widened(other, self), rounded(alpha, self, other)))


def scaled_addcdiv(self, tensor1, tensor2, *, value):
    return summed(self, product(widened(tensor1, self) / widened(tensor2, self), value), tensor1, tensor2)


def scaled_addcdiv_(self, tensor1, tensor2, *, value):
    return add_to(self, product(widened(tensor1, self) / widened(tensor2, self), value))


def scaled_addcmul(self, tensor1, tensor2, *, value):
    return summed(self, product(widened(tensor1, self) * widened(tensor2, self), value), tensor1, tensor2)


def scaled_addcmul_(self, tensor1, tensor2, *, value):
    return add_to(self, product(widened(tensor1, self) * widened(tensor2, self), value))


# The operator of tensors takes a weight of the dtype of the others.


def scaled_lerp(self, end, weight):
    if is_short(self, end):
        return scaled_lerp(self.float(), end.float(), weight).to(self.dtype)
    return torch.lerp(self, end, number_of_dtype(weight, self.dtype, self.device))


def scaled_lerp_(self, end, weight):
    if is_short(self, end):
        return self.copy_(scaled_lerp(self.float(), end.float(), weight))
    return self.lerp_(end, number_of_dtype(weight, self.dtype, self.device))


def is_short(*tensors):
    kinds = {tensor.dtype for tensor in tensors}
    return len(kinds) == 1 and not kinds.isdisjoint((torch.bfloat16, torch.float16))


def number_of_dtype(number, dtype, device):
    """As a tensor without dimensions."""
    return (
        number.to(dtype) if isinstance(number, torch.Tensor) else torch.zeros((), dtype=dtype, device=device) + number
    )


def rounded(number, *tensors):
    """As torch rounds it beside tensors of one short dtype."""
    if not is_short(*tensors):
        return number
    return number_of_dtype(number, torch.float32, tensors[0].device).to(tensors[0].dtype).float()


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


# ---- one factor for all tensors of a list, or one for each


def scaled__foreach_add(self, other, *, alpha=None):
    if alpha is None:
        return [one + factor for one, factor in with_factors(self, other)]
    if not are_wide(self, other):
        return [scaled_add(one, term, alpha=alpha) for one, term in zip(self, other)]
    return torch._foreach_add(self, each_times(other, alpha))


def scaled__foreach_add_(self, other, *, alpha=None):
    if alpha is None:
        for one, factor in with_factors(self, other):
            one.copy_(one + factor)
    elif not are_wide(self, other):
        for one, term in zip(self, other):
            scaled_add_(one, term, alpha=alpha)
    else:
        torch._foreach_add_(self, each_times(other, alpha))


def scaled__foreach_sub(self, other):
    return [one - factor for one, factor in with_factors(self, other)]


def scaled__foreach_sub_(self, other):
    for one, factor in with_factors(self, other):
        one.copy_(one - factor)


def scaled__foreach_mul(self, other):
    return [one * factor for one, factor in with_factors(self, other)]


def scaled__foreach_mul_(self, other):
    """Torch rounds the number to a short dtype here, and not where the results are new tensors."""
    for one, factor in with_factors(self, other):
        one.copy_(one * rounded(factor, one))


def scaled__foreach_div(self, other):
    return [one / factor for one, factor in with_factors(self, other)]


def scaled__foreach_div_(self, other):
    for one, factor in with_factors(self, other):
        one.copy_(one / factor)


def scaled__foreach_pow(self, exponent):
    return [self**one for one in exponent]


def scaled__foreach_lerp(self, tensors1, weight):
    return [scaled_lerp(one, end, weight) for one, end in zip(self, tensors1)]


def scaled__foreach_lerp_(self, tensors1, weight):
    for one, end in zip(self, tensors1):
        scaled_lerp_(one, end, weight)


def scaled__foreach_addcdiv(self, tensor1, tensor2, value):
    if not are_wide(self, tensor1, tensor2):
        return each(scaled_addcdiv, self, tensor1, tensor2, value)
    return torch._foreach_add(self, times(torch._foreach_div(tensor1, tensor2), value))


def scaled__foreach_addcdiv_(self, tensor1, tensor2, value):
    if not are_wide(self, tensor1, tensor2):
        each(scaled_addcdiv_, self, tensor1, tensor2, value)
    else:
        torch._foreach_add_(self, times(torch._foreach_div(tensor1, tensor2), value))


def scaled__foreach_addcmul(self, tensor1, tensor2, value):
    if not are_wide(self, tensor1, tensor2):
        return each(scaled_addcmul, self, tensor1, tensor2, value)
    return torch._foreach_add(self, times(torch._foreach_mul(tensor1, tensor2), value))


def scaled__foreach_addcmul_(self, tensor1, tensor2, value):
    if not are_wide(self, tensor1, tensor2):
        each(scaled_addcmul_, self, tensor1, tensor2, value)
    else:
        torch._foreach_add_(self, times(torch._foreach_mul(tensor1, tensor2), value))


def each(function, self, tensor1, tensor2, value):
    every = zip(self, tensor1, tensor2, factors_for(self, value))
    return [function(one, first, second, value=factor) for one, first, second, factor in every]


# ---- what these are made of


def are_wide(*lists):
    """Whether the tensors that belong together are of one dtype, and that is no short one."""
    kinds = (torch.float32, torch.float64)
    return all(tensors[0].dtype in kinds and len({one.dtype for one in tensors}) == 1 for tensors in zip(*lists))


def product(tensor, factor):
    """In the tensor's dtype, as torch computes with the number of such a factor."""
    return tensor * (factor.to(tensor.dtype) if isinstance(factor, torch.Tensor) else factor)


def each_times(tensors, factor):
    return [product(tensor, factor) for tensor in tensors]


def times(tensors, factors):
    return [product(tensor, factor) for tensor, factor in zip(tensors, factors_for(tensors, factors))]


def factors_for(tensors, factors):
    """One for each, where one stands for all as well; those that are in one tensor, or in a list."""
    if isinstance(factors, (list, tuple)):
        return factors
    return factors.unbind() if isinstance(factors, torch.Tensor) else [factors] * len(tensors)


def with_factors(tensors, factors):
    return zip(tensors, factors_for(tensors, factors))
