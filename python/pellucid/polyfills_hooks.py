"""Hooks of autograd that the program registers (torch.utils.hooks, torch.Tensor): they are registered behind the graph, on the
tensors of the call. Traced like the user's own code; pellucid.polyfills hands these on."""

from __future__ import annotations

from torch import is_grad_enabled as _is_grad_enabled
from torch import is_tensor as _is_tensor
from torch.autograd.graph import _MultiHandle
from torch.nn.modules._functions import BackwardHookFunction as _BackwardHookFunction
from torch.utils.hooks import RemovableHandle as _RemovableHandle

from pellucid import _hooks, _inner_hooks

_REFUSED = "cannot register a hook on a tensor that doesn't require gradient"


def hook_later(function, tensors, *arguments):
    """The call waits for the graph: a rule of the core stands for this function. Where the program goes on for real at a
    break, it happens at once."""
    function(tensors, *arguments)


def hook_inside(tensor, hook):
    """What a hook is hung on that an operator of the graph calls. None: it waits for the graph."""
    return


def pass_inside(tensors):
    """The tensors of a module behind an operator of the graph that calls its hooks. None: the graph has torch's own node."""
    return


def with_the_others(tensors, passed):
    """Those that have no gradients are other tensors in the same memory."""
    found = []
    count = 0
    for tensor in tensors:
        if tensor.requires_grad:
            found.append(passed[count])
            count += 1
        else:
            found.append(tensor.detach())
    return found


def pass_key(tensor):
    """Of the first of those: what the hooks are hung on. None: torch's own node."""
    return


def register_hook(self, hook):
    if not self.requires_grad:
        raise RuntimeError(_REFUSED)
    handle = _RemovableHandle.__new__(_RemovableHandle)
    inside = hook_inside(self, hook)
    if inside is None:
        hook_later(_hooks.register_hook, (self,), hook, handle)
    else:
        hook_later(_inner_hooks.register_hook, inside, hook, handle)
    return handle


def register_post_accumulate_grad_hook(self, hook):
    if not self.requires_grad:
        raise RuntimeError(_REFUSED)
    if not self.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    handle = _RemovableHandle.__new__(_RemovableHandle)
    hook_later(_hooks.register_post_accumulate_grad_hook, (self,), hook, handle)
    return handle


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    if mode != "all" and mode != "any":
        raise ValueError(f"Expects mode to be one of {('all', 'any')} but got {mode}")
    tensors = tuple(tensors)
    handle = _MultiHandle.__new__(_MultiHandle)
    hook_later(_hooks.register_multi_grad_hook, tensors, fn, mode, handle)
    return handle


def retain_grad(self):
    if not self.is_leaf:
        hook_later(_hooks.retain_grad, (self,))


def setup_input_hook(self, args):
    res, index, hooked = hooked_tensors(args)
    self.n_inputs = len(args)
    self.input_tensors_index = index
    if hooked is not None:
        inside = pass_key(hooked)
        if inside is None:
            hook_later(_hooks.hook_inputs, (hooked,), self)
        else:
            hook_later(_inner_hooks.hook_inputs, inside, self)
    return res


def setup_output_hook(self, args):
    is_tuple = True
    if not isinstance(args, tuple):
        args = (args,)
        is_tuple = False
    res, index, hooked = hooked_tensors(args)
    self.n_outputs = len(args)
    self.output_tensors_index = index
    if hooked is not None:
        inside = pass_key(hooked)
        if inside is None:
            hook_later(_hooks.hook_outputs, (hooked,), self)
        else:
            hook_later(_inner_hooks.hook_outputs, inside, self)
    return res if is_tuple else res[0]


def hooked_tensors(args):
    """The arguments behind a node of autograd, the places of the tensors, and one that the node computes."""
    places = []
    tensors = []
    requires_grad = False
    for place, arg in enumerate(args):
        if _is_tensor(arg):
            places.append(place)
            tensors.append(arg)
            requires_grad |= arg.requires_grad
    if not (requires_grad and _is_grad_enabled()):
        return args, None, None
    computed = pass_inside(tuple(tensors))
    computed = _BackwardHookFunction.apply(*tensors) if computed is None else with_the_others(tensors, computed)
    result = list(args)
    hooked = None
    for place, value in zip(places, computed):
        result[place] = value
        if hooked is None and value.requires_grad:
            hooked = value
    return (tuple(result) if type(args) is tuple else type(args)(*result)), places, hooked
