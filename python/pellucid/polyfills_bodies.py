"""Functions that take functions which become graphs inside of the graph. Traced like the user's own code; pellucid.polyfills
hands these on."""

from __future__ import annotations

from torch import empty_like as _empty_like
from torch import enable_grad as _enable_grad
from torch import is_grad_enabled as _is_grad_enabled
from torch import is_tensor as _is_tensor
from torch import no_grad as _no_grad
from torch import zeros_like as _zeros_like
from torch._C import _is_fwd_grad_enabled, _set_fwd_grad_enabled
from torch._C._functorch import _wrap_for_grad
from torch._C._functorch import maybe_get_level as _maybe_get_level
from torch._functorch.autograd_function import NO_OUT_DIMS as _NO_OUT_DIMS
from torch._functorch.autograd_function import custom_function_call as _custom_function_call
from torch._functorch.autograd_function import custom_function_call_vmap as _custom_function_call_vmap
from torch._functorch.predispatch import _add_batch_dim, _unpack_dual, _unwrap_for_grad
from torch._functorch.vmap import _broadcast_to_and_flatten
from torch._functorch.vmap import unwrap_batched as _unwrap_batched
from torch.autograd.function import Function as _Function
from torch.autograd.function import _SingleLevelFunction
from torch.utils._pytree import arg_tree_leaves as _arg_tree_leaves
from torch.utils._pytree import tree_flatten as _tree_flatten
from torch.utils._pytree import tree_map as _tree_map
from torch.utils._pytree import tree_unflatten as _tree_unflatten
from torch.utils.checkpoint import noop_context_fn as _noop_context_fn


def begin_body(kind, given, roots):
    """What follows goes into a graph of its own, which is given these tensors."""
    raise NotImplementedError("a rule of the core stands for this function")


def end_checkpoint(result, options, given):
    """The body is complete: checkpoint() with these options, on the first `given` of its inputs, is a node."""
    raise NotImplementedError("a rule of the core stands for this function")


def refuse_body(callee, what):
    raise NotImplementedError("a rule of the core stands for this function")


def begin_function(roots):
    """What follows is looked at, and nothing of it goes into the graph."""
    raise NotImplementedError("a rule of the core stands for this function")


def current_level():
    """(number, size, randomness) of the innermost level of torch.func."""
    raise NotImplementedError("a rule of the core stands for this function")


def take_off_level():
    """What follows is below the innermost level, until put_on_level()."""
    raise NotImplementedError("a rule of the core stands for this function")


def put_on_level():
    raise NotImplementedError("a rule of the core stands for this function")


def keeps_list(ctx, args):
    """Whether `ctx` has a list of `args`. One that existed before the region is refused."""
    raise NotImplementedError("a rule of the core stands for this function")


def lies_in_any(tensor, values):
    """Whether it shares memory with one of these that requires gradients."""
    raise NotImplementedError("a rule of the core stands for this function")


def end_function(cls, args):
    """Nothing of what was followed since begin_function() is left; `cls.apply(*args)` is a node."""
    raise NotImplementedError("a rule of the core stands for this function")


_SETUP_CONTEXT = _SingleLevelFunction.setup_context
_VMAP = _Function.vmap
# What torch raises.
_SAVED_AS_RETURNED = (
    "An input that has been returned as-is as output is being saved for backward. This is not supported if you override "
    "setup_context. You should return and save a view of the input instead, e.g. with x.view_as(x) or setup ctx inside "
    "the forward function itself."
)
_WRITTEN_BELOW_VMAP = (
    "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified "
    "inplace must all be outputs of the Function."
)
_NO_SETUP_CONTEXT = "torch.func asks for its setup_context"
_UNFIT = "its backward does not give a gradient for each argument"
_WITHOUT_GRADIENTS = "under torch.no_grad() it gives an input that requires gradients, or a part of one"
_CHECKPOINT = "torch.utils.checkpoint.checkpoint()"


def activation_checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=_noop_context_fn,
    determinism_check="default",
    debug=False,
    early_stop=True,
    preserve_rng_state=True,
    **kwargs,
):
    if use_reentrant is None:
        refuse_body(_CHECKPOINT, "without use_reentrant it warns")
    if debug or (use_reentrant and (kwargs or context_fn is not _noop_context_fn)):
        refuse_body(_CHECKPOINT, "with these options")
    given = distinct_tensors(args)
    if use_reentrant:
        if not _is_grad_enabled() or not any_requires_grad(given):
            refuse_body(_CHECKPOINT, "reentrant, without a gradient to compute")
    elif not _is_grad_enabled():
        return function(*args, **kwargs)
    options = {
        "use_reentrant": use_reentrant,
        "preserve_rng_state": preserve_rng_state,
        "determinism_check": determinism_check,
        "early_stop": early_stop,
        "context_fn": context_fn,
    }
    return run_checkpoint(function, args, kwargs, given, options)


def run_checkpoint(function, args, kwargs, given, options):
    begin_body("wrap_body", given, (function, args, kwargs))
    try:
        result = function(*args, **kwargs)
    except BaseException:
        refuse_body(_CHECKPOINT, "its function raises")
    end_checkpoint(result, options, len(given))
    return result


def distinct_tensors(values):
    found = []
    for value in values:
        if _is_tensor(value):
            for known in found:
                if known is value:
                    break
            else:
                found.append(value)
    return tuple(found)


def any_requires_grad(tensors):
    for tensor in tensors:  # noqa: SIM110
        if tensor.requires_grad:
            return True
    return False


# ---- autograd.Function


class ForwardContext:
    """The `ctx` of an autograd.Function that capture follows: it accepts everything and keeps what backward would read."""

    needs_input_grad = ()
    saved_tensors = ()
    saved_for_forward = ()
    dirty = ()
    materializes = True

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors):
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors):
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors):
        pass

    def set_materialize_grads(self, value):
        self.materializes = value


def autograd_function_forward(cls, *args):
    """`cls.apply(*args)` where no gradient is asked for."""
    return _forward(ForwardContext(), cls, args)


def autograd_function_under_no_grad(cls, *args):
    """`cls.apply(*args)` of what requires gradients, without grad mode: autograd treats what is in its memory in ways of its own."""
    output = _forward(ForwardContext(), cls, args)
    for value in output if isinstance(output, tuple) else (output,):
        if _is_tensor(value) and lies_in_any(value, args):
            refuse_body("an autograd.Function", _WITHOUT_GRADIENTS)
    return output


class _ContextBelowVmap(ForwardContext):
    written = False

    def mark_dirty(self, *tensors):
        self.written = True


class _Below:
    """Where the innermost level is taken off."""

    def __enter__(self):
        take_off_level()

    def __exit__(self, kind, error, trace):
        put_on_level()


class _ForwardMode:
    """Whether tangents are computed."""

    def __init__(self, is_on):
        self.is_on = is_on

    def __enter__(self):
        self.before = _is_fwd_grad_enabled()
        _set_fwd_grad_enabled(self.is_on)

    def __exit__(self, kind, error, trace):
        _set_fwd_grad_enabled(self.before)


class _Vmap:
    """The innermost level, a torch.vmap, as torch's own rules ask it."""

    def __init__(self):
        self.number, self.size, self.mode = current_level()

    def level(self):
        return self.number

    def batch_size(self):
        return self.size

    def randomness(self):
        return self.mode

    def lower(self):
        return _Below()


def wrap_outputs_by_identity(outputs, unwrapped_inputs, orig_inputs, wrap_fn, out_dims=_NO_OUT_DIMS):
    """What a rule gives, around which a level is put again. An input that comes out is the tensor that went in."""
    unwrapped = _arg_tree_leaves(*unwrapped_inputs)
    given = _arg_tree_leaves(*orig_inputs)
    flat, spec = _tree_flatten(outputs)
    has_dims = out_dims != _NO_OUT_DIMS
    dims = _broadcast_to_and_flatten(out_dims, spec) if has_dims else None
    if has_dims and dims is None:
        refuse_body("an autograd.Function", "its vmap gives out_dims that do not fit its outputs")
    results = []
    for i in range(len(flat)):
        result = flat[i]
        if _is_tensor(result):
            for k in range(len(unwrapped) - 1, -1, -1):
                if unwrapped[k] is result:
                    result = given[k]
                    break
            else:
                result = wrap_fn(result, dims[i]) if has_dims else wrap_fn(result)
        results.append(result)
    return _tree_unflatten(results, spec)


def autograd_function_below_vmap(cls, args, is_forward, has_tangents, has_gradients, one_forward):
    """`cls.apply(*args)` where the innermost level is a torch.vmap. is_forward: nothing is asked for but the forward.
    one_forward: of the levels around only one computes, and it computes tangents."""
    if cls.setup_context is _SETUP_CONTEXT:
        refuse_body("an autograd.Function", _NO_SETUP_CONTEXT)
    args = _with_defaults(cls.forward, args)
    if not cls.generate_vmap_rule or cls.vmap is not _VMAP:
        return _custom_function_call_vmap(_Vmap(), cls, *args)
    if not is_forward:
        if not has_tangents:
            return run_function_as_node(cls, args, True)
        if not one_forward:
            refuse_body("an autograd.Function", "torch.vmap() makes its rule, for more than one level")
        return _follow_to_node(cls, args, _forward, True, has_gradients)
    ctx = _ContextBelowVmap()
    with _ForwardMode(False):
        output = _forward(ctx, cls, args)
    if ctx.written:
        raise RuntimeError(_WRITTEN_BELOW_VMAP)
    return output


def autograd_function_below_gradients(cls, args, innermost, has_others):
    """`cls.apply(*args)` where the innermost level computes gradients ("grad") or tangents ("jvp", and "dual" where it is
    none of torch.func). has_others: there may be levels around of another kind."""
    if innermost != "dual":
        if cls.setup_context is _SETUP_CONTEXT:
            refuse_body("an autograd.Function", _NO_SETUP_CONTEXT)
        args = _with_defaults(cls.forward, args)
    # Of this level; what is below is asked there.
    needs_backward = _is_grad_enabled() and any_requires_grad(distinct_tensors(args))
    if needs_backward and not has_others:
        return run_function_as_node(cls, args, True)
    forward = _forward if innermost == "dual" else _forward_by_level
    return _follow_to_node(cls, args, forward, innermost != "grad", needs_backward)


def _follow_to_node(cls, args, forward, needs_jvp, needs_backward):
    """The node that calls the class, after what torch calls of it was followed."""
    begin_function((cls, args))
    fits = True
    try:
        ctx = ForwardContext()
        output = forward(ctx, cls, args)
        keeps_list(ctx, args)
        if needs_backward:
            fits = _follow_backward(ctx, cls, args, output)
        if needs_jvp:
            _follow_jvp(ctx, cls, args)
    except BaseException:
        refuse_body("an autograd.Function", "it raises")
    if not fits:
        refuse_body("an autograd.Function", _UNFIT)
    return end_function(cls, args)


def _forward_by_level(ctx, cls, args):
    """What torch computes at the innermost level: what the next one below makes of it."""
    level = current_level()[0]
    operands = _tree_map(
        lambda x: _wrap_for_grad(x, level) if _is_tensor(x) and _maybe_get_level(x) != level else x, args
    )
    given = _tree_map(lambda x: _unwrap_for_grad(x, level) if _is_tensor(x) else x, operands)
    with _enable_grad(), _ForwardMode(True), _Below():
        output = _custom_function_call(cls, *given)
    output = wrap_outputs_by_identity(output, given, operands, lambda x: _wrap_for_grad(x, level))
    with _no_grad(), _ForwardMode(False):
        _set_up(ctx, cls, operands, output)
    return output


def _follow_jvp(ctx, cls, args):
    tangents = _tangents_of(args)
    if not any_tensor(tangents):
        return
    if ctx.materializes:
        lacks = [_is_tensor(args[i]) and tangents[i] is None for i in range(len(args))]
        tangents = [_zeros_like(args[i]) if lacks[i] else tangents[i] for i in range(len(args))]
    ctx.saved_tensors = ctx.saved_for_forward
    with _ForwardMode(False):
        cls.jvp(ctx, *tangents)


def _tangents_of(args):
    """At the innermost level that is no torch.vmap."""
    level = current_level()
    if level is None or level[1] is None:
        return [_unpack_dual(value, level=0)[1] if _is_tensor(value) else None for value in args]
    given, dims = _unwrap_batched(args, level[0])
    with _Below():
        found = _tangents_of(given)
    return [
        found[i] if found[i] is None or dims[i] is None else _add_batch_dim(found[i], dims[i], level[0])
        for i in range(len(args))
    ]


def any_tensor(values):
    for value in values:  # noqa: SIM110
        if _is_tensor(value):
            return True
    return False


def run_function_as_node(cls, args, with_backward):
    """`cls.apply(*args)` where gradients are asked for."""
    begin_function((cls, args))
    fits = True
    try:
        ctx = ForwardContext()
        output = _forward(ctx, cls, args)
        if keeps_list(ctx, args) or with_backward:
            fits = _follow_backward(ctx, cls, args, output)
    except BaseException:
        refuse_body("an autograd.Function", "it raises")
    if not fits:
        # A compiler would say so when it traces the backward pass, not when that pass runs.
        refuse_body("an autograd.Function", _UNFIT)
    return end_function(cls, args)


def _follow_backward(ctx, cls, args, output):
    """Whether autograd accepts what it gives."""
    with _no_grad():
        outputs = output if isinstance(output, tuple) else (output,)
        given = [_empty_like(value) if _is_tensor(value) else None for value in outputs]
        return _fit_arguments(cls.backward(ctx, *given), _arguments(cls, args))


def _arguments(cls, args):
    return args if cls.setup_context is _SETUP_CONTEXT else _with_defaults(cls.forward, args)


def _fit_arguments(gradients, args):
    """Whether autograd accepts what a backward gives: None or a tensor for each argument, None behind them."""
    if not isinstance(gradients, tuple):
        gradients = (gradients,)
    if len(gradients) < len(args):
        return False
    for i in range(len(gradients)):
        if gradients[i] is None:
            continue
        if i >= len(args) or not _is_tensor(gradients[i]) or not _is_tensor(args[i]):
            return False
        if args[i].requires_grad and not _can_be_summed(gradients[i].shape, args[i].shape):
            return False
    return True


def _can_be_summed(shape, to):
    """Whether `to` expands to `shape`: autograd sums over what was expanded."""
    if len(to) > len(shape):
        return False
    offset = len(shape) - len(to)
    for i in range(len(to)):  # noqa: SIM110
        if to[i] != shape[offset + i] and to[i] != 1:
            return False
    return True


def _forward(ctx, cls, args):
    separate = cls.setup_context is not _SETUP_CONTEXT
    if separate:
        args = _with_defaults(cls.forward, args)
    ctx.needs_input_grad = tuple([_is_tensor(value) and value.requires_grad for value in args])
    ctx.dirty = ()
    with _no_grad():
        output = cls.forward(*args) if separate else cls.forward(ctx, *args)
        if separate:
            _set_up(ctx, cls, args, output)
        if isinstance(output, tuple):
            return tuple([_output(value, args, ctx.dirty) for value in output])
        return _output(output, args, ctx.dirty)


def _set_up(ctx, cls, args, output):
    cls.setup_context(ctx, args, output)
    if _saves_what_it_returns(ctx, args, output if isinstance(output, tuple) else (output,)):
        raise RuntimeError(_SAVED_AS_RETURNED)


def _saves_what_it_returns(ctx, args, outputs):
    for value in outputs:
        if not _is_tensor(value) or _is_among(value, ctx.dirty):
            continue
        if _is_among(value, ctx.saved_tensors) and _is_among(value, args):
            return True
    return False


def _is_among(value, others):
    for other in others:  # noqa: SIM110
        if other is value:
            return True
    return False


def _with_defaults(forward, args):
    defaults = forward.__defaults__ or ()
    missing = forward.__code__.co_argcount - len(args)
    return args + defaults[-missing:] if 0 < missing <= len(defaults) else args


def _output(value, args, dirty):
    """An input that comes out unchanged comes out as a view of itself."""
    if not _is_tensor(value):
        return value
    for argument in args:
        if argument is value:
            for written in dirty:
                if written is value:
                    return value
            return value.view_as(value)
    return value.detach() if value.requires_grad else value
