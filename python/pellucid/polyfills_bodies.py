"""Functions that take functions which become graphs inside of the graph. Traced like the user's own code; pellucid.polyfills
hands these on."""

from __future__ import annotations

from torch import empty_like as _empty_like
from torch import is_grad_enabled as _is_grad_enabled
from torch import is_tensor as _is_tensor
from torch import no_grad as _no_grad
from torch.autograd.function import Function as _Function
from torch.autograd.function import _SingleLevelFunction
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


def keeps_list(ctx, args):
    """Whether `ctx` has a list of `args`. One that existed before the region is refused."""
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

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors):
        pass

    def mark_dirty(self, *tensors):
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors):
        pass

    def set_materialize_grads(self, value):
        pass


def autograd_function_forward(cls, *args):
    """`cls.apply(*args)` where no gradient is asked for."""
    return _forward(ForwardContext(), cls, args)


class _ContextBelowVmap(ForwardContext):
    written = False

    def mark_dirty(self, *tensors):
        self.written = True


def autograd_function_below_vmap(cls, *args):
    """What vmap makes of a function that asks for a rule. Without a setup_context, or where it has a rule too, vmap raises."""
    if not cls.generate_vmap_rule or cls.vmap is not _VMAP or cls.setup_context is _SETUP_CONTEXT:
        refuse_body("an autograd.Function", "vmap does not make its rule")
    ctx = _ContextBelowVmap()
    output = _forward(ctx, cls, args)
    if ctx.written:
        raise RuntimeError(_WRITTEN_BELOW_VMAP)
    return output


def autograd_function_below_gradients(cls, args, is_mapped):
    """`cls.apply(*args)` below transforms of torch.func, one of which computes gradients. is_mapped: another one is vmap."""
    if cls.setup_context is _SETUP_CONTEXT:
        refuse_body("an autograd.Function", "torch.func asks for its setup_context")
    if is_mapped and (not cls.generate_vmap_rule or cls.vmap is not _VMAP):
        refuse_body("an autograd.Function", "vmap does not make its rule")
    return run_function_as_node(cls, args, True)


def run_function_as_node(cls, args, with_backward):
    """`cls.apply(*args)` where gradients are asked for."""
    begin_function((cls, args))
    fits = True
    try:
        ctx = ForwardContext()
        output = _forward(ctx, cls, args)
        if keeps_list(ctx, args) or with_backward:
            with _no_grad():
                outputs = output if isinstance(output, tuple) else (output,)
                given = [_empty_like(value) if _is_tensor(value) else None for value in outputs]
                fits = _fit_arguments(cls.backward(ctx, *given), _arguments(cls, args))
    except BaseException:
        refuse_body("an autograd.Function", "it raises")
    if not fits:
        # A compiler would say so when it traces the backward pass, not when that pass runs.
        refuse_body("an autograd.Function", "its backward does not give a gradient for each argument")
    return end_function(cls, args)


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
            cls.setup_context(ctx, args, output)
            if _saves_what_it_returns(ctx, args, output if isinstance(output, tuple) else (output,)):
                raise RuntimeError(_SAVED_AS_RETURNED)
        if isinstance(output, tuple):
            return tuple([_output(value, args, ctx.dirty) for value in output])
        return _output(output, args, ctx.dirty)


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
