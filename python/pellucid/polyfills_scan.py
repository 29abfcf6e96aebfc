"""scan of torch._higher_order_ops. Traced like the user's own code; pellucid.polyfills hands this on."""

from __future__ import annotations

from torch import contiguous_format as _contiguous_format
from torch import flip as _flip
from torch import movedim as _movedim
from torch._C._functorch import _unwrap_batched
from torch._functorch.predispatch import _add_batch_dim
from torch.utils._pytree import tree_unflatten as _tree_unflatten

from pellucid.polyfills_bodies import begin_body, begin_function
from pellucid.polyfills_higher_order import (
    _FIRST,
    _USED_LIST,
    body_input,
    call_operator,
    check_alike,
    discard_body,
    end_body,
    length_of,
    refuse_operator,
    tensors_of,
)


def innermost_level(operator):
    """(number, size, randomness) of the torch.vmap that is open; None where none is. Refused below any other transform."""
    raise NotImplementedError("a rule of the core stands for this function")


def leave_level():
    """Out of the innermost torch.vmap, until enter_level()."""
    raise NotImplementedError("a rule of the core stands for this function")


def enter_level(size, randomness):
    raise NotImplementedError("a rule of the core stands for this function")


def mapped_operands(but):
    """The tensors from outside, besides these, that the open body uses and that a torch.vmap maps over."""
    raise NotImplementedError("a rule of the core stands for this function")


def strides_at_bottom(tensor):
    """The strides below all levels, where each has its rows in the last dimension."""
    raise NotImplementedError("a rule of the core stands for this function")


def stand_for(tensor, other):
    """In the open body, `other` is what is used where the program uses `tensor`, which is from outside."""
    raise NotImplementedError("a rule of the core stands for this function")


_KIND = "scan_combine_fn"
_OTHER_CARRY = "its function gives a carry of another structure, shape or layout"


class Combine:
    """The program's function, as one of lists of tensors. `used`: those that torch.vmap() maps over and that it uses
    besides what it is given."""

    def __init__(self, function, init, xs, init_spec, xs_spec):
        self.function = function
        self.roots = (function, init, xs)
        self.init_spec = init_spec
        self.xs_spec = xs_spec
        self.out_spec = None
        self.used = ()
        self.strides = None  # below torch.vmap: those of what is carried, by torch's own rule

    def __call__(self, carried, slices, used):
        for i in range(len(used)):
            stand_for(self.used[i], used[i])
        result = self.function(_tree_unflatten(carried, self.init_spec), _tree_unflatten(slices, self.xs_spec))
        if not isinstance(result, tuple) or len(result) != 2:
            refuse_operator("scan", "its function gives no pair")
        carry, carry_spec = tensors_of("scan", result[0], "its function gives more than tensors")
        outs, self.out_spec = tensors_of("scan", result[1], "its function gives more than tensors")
        if carry_spec != self.init_spec:
            refuse_operator("scan", _OTHER_CARRY)
        return carry, outs


def scan_rows(combine_fn, init, xs, *, dim=0, reverse=False):
    carried, init_spec = tensors_of("scan", init, "it carries more than tensors")
    rows, xs_spec = tensors_of("scan", xs, "it runs over more than tensors")
    if not rows:
        return init, []
    if not carried or type(dim) is not int or not isinstance(reverse, bool) or not callable(combine_fn):
        refuse_operator("scan", "with these arguments")
    if dim < 0:
        dim += rows[0].dim()
    if length_of(rows, dim) is None:
        refuse_operator("scan", "over tensors of these shapes")
    if dim != 0:
        rows = [_movedim(row, dim, 0) for row in rows]
    if reverse:
        rows = [_flip(row, [0]) for row in rows]
    combine = Combine(combine_fn, init, xs, init_spec, xs_spec)
    if innermost_level("scan") is not None:
        follow_at_level(combine, carried, rows)
    carry, outs = scan_at_level(combine, carried, rows, combine.used, combine)
    if reverse:
        outs = [out.flip([0]) for out in outs]
    if dim != 0:
        outs = [_movedim(out, 0, dim) if dim < out.ndim else out for out in outs]
    return _tree_unflatten(carry, init_spec), _tree_unflatten(outs, combine.out_spec)


def scan_at_bottom(function, carried, rows, used, combine):
    needs = [value.requires_grad for value in carried]
    while True:
        begin_body(_KIND, (), combine.roots)
        inside = [body_input(carried[i], None, needs[i]) for i in range(len(carried))]
        slices = [body_input(row, "row", row.requires_grad) for row in rows]
        try:
            carry, outs = function(inside, slices, used)
        except BaseException:
            refuse_operator("scan", "its function raises")
        wanted = [needs[i] or carry[i].requires_grad for i in range(len(needs))]
        if wanted == needs:
            break
        discard_body("scan")
        needs = wanted
    check_alike("scan", carry, inside, _OTHER_CARRY)
    body = end_body("scan", (*carry, *outs), False)
    count = len(carried)
    how = (*[None for _ in carried], *[rows[0].shape[0] for _ in outs])
    likes = (*carry, *outs)
    given = [*call_operator("scan", (body,), (_FIRST, carried, rows, _USED_LIST), likes, how, (*carried, *rows))]
    carry = given[:count]
    if combine.strides is not None:
        carry = [lay_out(carry[i], combine.strides[i]) for i in range(count)]
    return carry, given[count:]


# ---- below torch.vmap


def follow_at_level(combine, carried, rows):
    """Finds the tensors that need a place among the operands, and how torch lays out what is carried: it takes rows to be
    contiguous, and refuses a carry that gets other strides."""
    begin_function(combine.roots)
    given = [value.clone() for value in carried]
    slices = [row.select(0, 0).clone(memory_format=_contiguous_format) for row in rows]
    begin_function(combine.roots)
    try:
        carry, _ = combine(given, slices, ())
    except BaseException:
        refuse_operator("scan", "its function raises")
    check_alike("scan", carry, given, _OTHER_CARRY)
    combine.strides = [strides_at_bottom(value) for value in carry]
    combine.used = mapped_operands((*given, *slices))
    discard_body("scan")
    discard_body("scan")


def as_contiguous(tensor):
    """With the strides of a new tensor, in dimensions of size 1 too; its gradient has them as well."""
    return tensor.reshape(-1).view(tensor.shape)


def lay_out(tensor, strides):
    """As torch's operator gives what it carried: where gradients are needed, it is part of a contiguous tensor. The scan of
    the backward pass asks for contiguous gradients."""
    if tensor.requires_grad:
        return as_contiguous(tensor)
    if tensor.stride() == strides:
        return tensor
    return tensor.new_empty_strided(tensor.shape, strides).copy_(tensor)


def scan_at_level(function, carried, rows, used, combine):
    """The levels of torch.vmap are left around the operator and entered in its body. What is mapped over is the last
    dimension there, as in torch's own rule; but all that the operator gets is contiguous, for it asks for carries of the
    same strides each time."""
    level = innermost_level("scan")
    if level is None:
        return scan_at_bottom(function, carried, rows, used, combine)
    lowered = Lowered(function, *level)
    carried, lowered.maps_carried = lowered.take_out(carried)
    rows, lowered.maps_slices = lowered.take_out(rows)
    used, lowered.used_dims = lowered.unwrap(used)
    leave_level()
    carry, outs = scan_at_level(lowered, carried, rows, used, combine)
    lowered.enter()
    return lowered.put_in(carry, lowered.maps_carried), lowered.put_in(outs, lowered.maps_outs)


class Lowered:
    """A function that works at a level of torch.vmap, as one that is called below it."""

    def __init__(self, function, number, size, randomness):
        self.function = function
        self.number = number
        self.size = size
        self.randomness = randomness
        self.maps_carried = self.maps_slices = self.maps_outs = self.used_dims = ()

    def __call__(self, carried, slices, used):
        self.enter()
        wrapped = [
            used[i] if self.used_dims[i] is None else _add_batch_dim(used[i], self.used_dims[i], self.number)
            for i in range(len(used))
        ]
        carry, outs = self.function(
            self.put_in(carried, self.maps_carried), self.put_in(slices, self.maps_slices), wrapped
        )
        carry, maps_carry = self.take_out(carry)
        if maps_carry != self.maps_carried:
            refuse_operator("scan", "torch.vmap() maps over what it carries at some times only")
        outs, self.maps_outs = self.take_out(outs)
        leave_level()
        return carry, outs

    def enter(self):
        enter_level(self.size, self.randomness)

    def unwrap(self, tensors):
        pairs = [_unwrap_batched(tensor, self.number) for tensor in tensors]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def take_out(self, tensors):
        tensors, dims = self.unwrap(tensors)
        moved = [tensors[i] if dims[i] is None else _movedim(tensors[i], dims[i], -1) for i in range(len(tensors))]
        return [as_contiguous(tensor) for tensor in moved], [dim is not None for dim in dims]

    def put_in(self, tensors, maps):
        return [_add_batch_dim(tensors[i], -1, self.number) if maps[i] else tensors[i] for i in range(len(tensors))]
