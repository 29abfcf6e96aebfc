"""Backends with one fault each, for scripts that run in processes of their own. They are registered when this is imported."""

import os
import signal
import time

import torch

from pellucid.backends.registry import lookup_backend, register_backend


def _has(gm, *targets):
    names = {getattr(node.target, "__name__", node.target) for node in gm.graph.nodes}
    return any(target in names for target in targets)


class TanhError(Exception):
    pass


class SigmoidError(Exception):
    pass


@register_backend
def refuses_tanh(gm, example_inputs):
    """A fault of a backend that shows while it compiles."""
    if _has(gm, "tanh"):
        raise TanhError("tanh has no kernel for these sizes")
    return gm


@register_backend
def raises_at_tanh(gm, example_inputs):
    """A fault that shows when the graph runs."""

    def run(*inputs):
        if _has(gm, "tanh"):
            raise ValueError("tanh came to a bad end")
        return gm(*inputs)

    return run


@register_backend
def ends_the_process(gm, example_inputs):
    """A crash while it compiles."""
    if _has(gm, "tanh"):
        os.kill(os.getpid(), signal.SIGSEGV)
    return gm


@register_backend
def never_ends(gm, example_inputs):
    """A hang while it compiles."""
    if _has(gm, "tanh"):
        time.sleep(1000)
    return gm


@register_backend
def two_faults(gm, example_inputs):
    """The first one that it finds in the graph: sigmoid before tanh."""
    if _has(gm, "sigmoid"):
        raise SigmoidError("sigmoid is not known")
    if _has(gm, "tanh"):
        raise TanhError("tanh is not known")
    return gm


@register_backend
def fails_by_one_word(gm, example_inputs):
    """Two faults of one type with other texts."""
    if _has(gm, "sigmoid"):
        raise RuntimeError("the register allocator ran out of registers")
    if _has(gm, "tanh"):
        raise RuntimeError("no such file: kernel.cpp")
    return gm


@register_backend
def computes_cos_for_sin(gm, example_inputs):
    """A wrong result of the forward pass."""
    for node in gm.graph.nodes:
        if node.target is torch.sin:
            node.target = torch.cos
    gm.recompile()
    return gm


class _WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return -grad * x.cos()


def wrong_sin(x):
    return _WrongBackward.apply(x)


@register_backend
def wrong_only_backward(gm, example_inputs):
    """The gradient of sin has the wrong sign; the forward pass is right."""
    for node in gm.graph.nodes:
        if node.target is torch.sin:
            node.target = wrong_sin
    gm.recompile()
    return gm


@register_backend
def wrong_for_transposed(gm, example_inputs):
    """A fault that depends on strides."""

    def run(*inputs):
        results = gm(*inputs)
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        if all(each.is_contiguous() for each in tensors):
            return results
        raise ValueError("strides that are not those of a contiguous tensor")

    return run


@register_backend
def wrong_for_thirteen(gm, example_inputs):
    """A fault that depends on a value."""

    def run(*inputs):
        if any(bool((each == 13).any()) for each in inputs if isinstance(each, torch.Tensor)):
            raise ValueError("thirteen")
        return gm(*inputs)

    return run


@register_backend
def wrong_under_autocast(gm, example_inputs):
    """A fault that only autocast shows."""
    if torch.is_autocast_enabled("cpu") and _has(gm, "mm", "matmul"):
        raise TanhError("autocast and a product")
    return gm


@register_backend
def fails_in_aot(gm, example_inputs):
    """A pass over AOTAutograd's graphs that does not know tanh."""
    from functorch.compile import make_boxed_func

    from pellucid.backends.aot import over_aot

    return over_aot(gm, example_inputs, forward=lambda graph, _: make_boxed_func(aten_pass(graph)))


fails_in_aot.uses_aot = True


def aten_pass(graph, *_):
    """The pass itself: a compiler of AOTAutograd's graphs."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.tanh.default:
            raise TanhError("aten.tanh")
    return graph


@register_backend
def fails_only_backward(gm, example_inputs):
    """A pass over backward graphs that does not know how tanh goes back."""
    from functorch.compile import make_boxed_func

    from pellucid.backends.aot import over_aot

    def backward(graph, _):
        ops = torch.ops.aten
        if any(node.target is ops.sub.Tensor and 1 in node.args for node in graph.graph.nodes) or any(
            node.target is ops.tanh_backward.default for node in graph.graph.nodes
        ):
            raise TanhError("aten.tanh_backward")
        return make_boxed_func(graph)

    return over_aot(gm, example_inputs, forward=lambda graph, _: make_boxed_func(graph), backward=backward)


fails_only_backward.uses_aot = True


@register_backend
def aot_with_a_named_pass(gm, example_inputs):
    """As `fails_in_aot`; the compiler is a function that can be imported."""
    from pellucid.backends.aot import over_aot

    return over_aot(gm, example_inputs, forward=boxed_aten_pass)


aot_with_a_named_pass.uses_aot = True


def boxed_aten_pass(graph, example_inputs):
    from functorch.compile import make_boxed_func

    return make_boxed_func(aten_pass(graph))


@register_backend
def good(gm, example_inputs):
    """Nothing is wrong with it."""
    return lookup_backend("eager")(gm, example_inputs)
