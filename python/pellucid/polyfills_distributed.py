"""Collectives of torch.distributed that write to tensors. Traced like the user's own code; pellucid.polyfills hands these on.

A graph that runs as it is calls the collective itself. Compilers know those that give new tensors, so for them each is that and
a copy. What is asynchronous, and what is no member of a group, runs for real."""

from __future__ import annotations

import torch.distributed as _dist
from torch import is_grad_enabled as _is_grad_enabled
from torch import ops as _ops

from pellucid import _distributed as _in_place

_SUM = None
if _dist.is_available():
    from torch.distributed.distributed_c10d import GroupMember as _GroupMember
    from torch.distributed.distributed_c10d import _get_default_group, _resolve_process_group, _world

    _SUM = _dist.ReduceOp.SUM
    _resolve = _resolve_process_group


def resolve_by_name(name):
    """A rule of the core calls this, and knows that it gives the same as long as the default group is the same."""
    return _resolve(name)


def resolve_process_group(group_name):
    _get_default_group()  # guarded: names begin anew with it
    return resolve_by_name(group_name)


def reduction(op):
    """The word for it, or None. A rule of the core calls this."""
    for word, known in _in_place.REDUCTIONS.items():
        if op == known:
            return word
    return None


def runs_as_captured():
    raise NotImplementedError("a rule of the core stands for this function")


def call_in_place(function, *arguments):
    """A node that calls it. Where the program goes on for real at a break, it happens at once."""
    function(*arguments)


def as_it_is(callee, function, *arguments, **keywords):
    """A rule of the core ends the region here, and the program goes on with the call."""
    return function(*arguments, **keywords)


def _is_plain_call(group, async_op, *tensors):
    """It is complete when it returns, and this process takes part."""
    if async_op or group is _GroupMember.NON_GROUP_MEMBER or _world.pg_coalesce_state:
        return False
    # A compiler would take what is written for a function of what was there before; for autograd it is none.
    return runs_as_captured() or not (_is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))


def _name(group):
    return (_get_default_group() if group is None else group).group_name


def _size(group):
    return (_get_default_group() if group is None else group).size()


def _waited(tensor):
    return _ops._c10d_functional.wait_tensor(tensor)


def all_reduce(tensor, op=_SUM, group=None, async_op=False):
    word = reduction(op)
    if word is None or not _is_plain_call(group, async_op, tensor):
        return as_it_is("all_reduce()", _dist.all_reduce, tensor, op, group, async_op)
    if runs_as_captured():
        call_in_place(_in_place.all_reduce, tensor, word, _name(group))
    else:
        tensor.copy_(_waited(_ops._c10d_functional.all_reduce(tensor, word, _name(group))))
    return None


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    plain = _is_plain_call(group, async_op, tensor) and src is not None and group_src is None
    if plain and runs_as_captured():
        call_in_place(_in_place.broadcast, tensor, src, _name(group))
    elif plain and (group is None or group is _get_default_group()):  # elsewhere a rank has another number
        tensor.copy_(_waited(_ops._c10d_functional.broadcast(tensor, src, _name(group))))
    else:
        return as_it_is("broadcast()", _dist.broadcast, tensor, src, group, async_op, group_src)
    return None


def _are_rows(tensors, tensor, size):
    fit = [other.shape == tensor.shape and other.dtype == tensor.dtype for other in tensors]
    return len(fit) == size and all(fit)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    plain = _is_plain_call(group, async_op, tensor, *tensor_list)
    if plain and runs_as_captured():
        call_in_place(_in_place.all_gather, tensor_list, tensor, _name(group))
        return None
    if not plain or not _are_rows(tensor_list, tensor, _size(group)):
        return as_it_is("all_gather()", _dist.all_gather, tensor_list, tensor, group, async_op)
    row = tensor.contiguous().view(-1)
    rows = _waited(_ops._c10d_functional.all_gather_into_tensor(row, _size(group), _name(group)))
    for i, output in enumerate(tensor_list):
        output.copy_(rows[i * row.numel() : (i + 1) * row.numel()].view(output.shape))
    return None


def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    plain = _is_plain_call(group, async_op, input_tensor, output_tensor)
    if plain and runs_as_captured():
        call_in_place(_in_place.all_gather_single, output_tensor, input_tensor, _name(group))
        return None
    fits = plain and output_tensor.dtype == input_tensor.dtype
    if not fits or output_tensor.numel() != input_tensor.numel() * _size(group):
        return as_it_is("all_gather_single()", _dist.all_gather_single, output_tensor, input_tensor, group, async_op)
    row = input_tensor.contiguous().view(-1)
    rows = _waited(_ops._c10d_functional.all_gather_into_tensor(row, _size(group), _name(group)))
    output_tensor.copy_(rows.view(output_tensor.shape))
    return None


def reduce_scatter_single(output, input, op=_SUM, group=None, async_op=False):
    word = reduction(op)
    plain = word is not None and _is_plain_call(group, async_op, output, input)
    if plain and runs_as_captured():
        call_in_place(_in_place.reduce_scatter_single, output, input, word, _name(group))
        return None
    if not plain or output.dtype != input.dtype or input.numel() != output.numel() * _size(group):
        return as_it_is("reduce_scatter_single()", _dist.reduce_scatter_single, output, input, op, group, async_op)
    rows = input.contiguous().view(-1)
    mine = _waited(_ops._c10d_functional.reduce_scatter_tensor(rows, word, _size(group), _name(group)))
    output.copy_(mine.view(output.shape))
    return None


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    plain = _is_plain_call(group, async_op, output, input)
    if plain and runs_as_captured():
        call_in_place(_in_place.all_to_all_single, output, input, output_split_sizes, input_split_sizes, _name(group))
        return None
    even = output_split_sizes is None and input_split_sizes is None and output.shape == input.shape
    if not plain or not even or output.dtype != input.dtype or output.size(0) % _size(group) != 0:
        sizes = (output_split_sizes, input_split_sizes)
        return as_it_is("all_to_all_single()", _dist.all_to_all_single, output, input, *sizes, group, async_op)
    sizes = [output.size(0) // _size(group)] * _size(group)
    output.copy_(_waited(_ops._c10d_functional.all_to_all_single(input.contiguous(), sizes, sizes, _name(group))))
    return None
