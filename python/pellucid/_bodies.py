"""Operators that take functions, as the program itself calls them. A graph that nobody sees but this process calls these in
the place of torch.ops.higher_order."""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._functorch.pyfunctorch import VmapInterpreter, retrieve_current_functorch_interpreter
from torch.amp.autocast_mode import _cast
from torch.utils.checkpoint import checkpoint, noop_context_fn


class Checkpoint:
    """torch.utils.checkpoint.checkpoint of a body that takes `given` arguments of the program, and then what the program's
    function reaches by itself."""

    def __init__(self, given: int, options: dict[str, Any]) -> None:
        self.given = given
        self.options = options

    def __call__(self, body: Callable[..., Any], *operands: Any) -> Any:
        reached = operands[self.given :]
        return checkpoint(lambda *given: body(*given, *reached), *operands[: self.given], **self.options)


class FunctionCall:
    """`cls.apply` under a name that torch.fx can write."""

    def __init__(self, cls: type) -> None:
        self.cls: Any = cls
        self.__name__ = self.__qualname__ = cls.__name__
        self.__module__ = "pellucid.functions"

    def __call__(self, *args: Any) -> Any:
        return self.cls.apply(*args)


def has_constant_backward(cls: Any) -> bool:
    """Whether what `cls.backward` reads besides its arguments are functions, classes, and modules of torch and Python."""
    return _reads_constants(inspect.unwrap(cls.backward), set())


def has_constant_forward(cls: Any) -> bool:
    """The same of `cls.forward` and `cls.setup_context`: each number that they meet is an argument, or computed of these."""
    return all(_reads_constants(inspect.unwrap(rule), set()) for rule in (cls.forward, cls.setup_context))


def _reads_constants(function: Any, seen: set[types.CodeType]) -> bool:
    if not isinstance(function, types.FunctionType):
        return isinstance(function, (types.BuiltinFunctionType, type))
    if function.__module__.split(".")[0] in _CONSTANT_MODULES or function.__code__ in seen:
        return True
    seen.add(function.__code__)
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__:
        return False
    return all(_is_constant(value, seen) for value in _globals_read(function.__code__, function.__globals__))


_CONSTANT_MODULES = frozenset({"torch", "math", "operator", "builtins"})


def _globals_read(code: types.CodeType, namespace: dict[str, Any]) -> list[Any]:
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    read = [namespace[name] for name in sorted(names) if name in namespace]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            read.extend(_globals_read(constant, namespace))
    return read


def _is_constant(value: Any, seen: set[types.CodeType]) -> bool:
    if isinstance(value, types.ModuleType):
        return value.__name__.split(".")[0] in _CONSTANT_MODULES
    if isinstance(value, type):
        return value.__module__.split(".")[0] in _CONSTANT_MODULES or _has_constant_rules(value, seen)
    return _reads_constants(value, seen)


def _has_constant_rules(cls: type, seen: set[types.CodeType]) -> bool:
    """Of an autograd.Function that another one calls, or that calls itself: it has nothing but functions, which read no more."""
    if not issubclass(cls, torch.autograd.Function):
        return False
    for base in cls.__mro__[: cls.__mro__.index(torch.autograd.Function)]:
        for name, value in vars(base).items():
            if name.startswith("__") or isinstance(
                value, (bool, int, type)
            ):  # names of Python's, torch's backward class
                continue
            if not isinstance(value, staticmethod) or not _reads_constants(inspect.unwrap(value.__func__), seen):
                return False
    return True


def describe_body(module: Any, plain: Any) -> None:
    """Called by `_core` for the module of a body."""
    context_fn = getattr(plain, "options", {}).get("context_fn", noop_context_fn)
    if context_fn is not noop_context_fn:
        module.meta["_checkpoint_context_fn"] = context_fn


# ---- operators of torch.ops.higher_order. Like the operators themselves they give a gradient of zeros to each tensor
# that the function did not use.


class _WithGradients(torch.autograd.Function):
    """The first `count` tensors, which all need gradients. What comes behind them gets zeros."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> Any:
        ctx.save_for_backward(*tensors[count:])
        return tuple([tensor.detach() for tensor in tensors[:count]])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        zeros = [torch.zeros_like(tensor) if tensor.requires_grad else None for tensor in ctx.saved_tensors]
        return (None, *grads, *zeros)


def _with_gradients(results: Any, operands: Any) -> Any:
    tensors = [value for value in operands if isinstance(value, torch.Tensor)]
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        return results
    return _WithGradients.apply(len(results), *results, *tensors)


def cond(pred: Any, true: Callable[..., Any], false: Callable[..., Any], operands: Any) -> Any:
    return _with_gradients((true if pred else false)(*operands), operands)


def call_region(body: Callable[..., Any], identifier: str, *operands: Any) -> Any:
    return body(*operands)


def innermost_level() -> tuple[int, int | None, str | None]:
    """The number of the innermost level of torch.func, and what torch.vmap has besides: size and randomness."""
    level: Any = retrieve_current_functorch_interpreter()
    if not isinstance(level, VmapInterpreter):
        return level.level(), None, None
    return level.level(), level.batch_size(), level.randomness()


def strides_at_bottom(tensor: torch.Tensor) -> tuple[int, ...]:
    """Of a fake: its strides where each level of torch.vmap has its rows in the last dimension."""
    functorch = torch._C._functorch
    while functorch.is_batchedtensor(tensor):
        dim = functorch.maybe_get_bdim(tensor)
        tensor = functorch.get_unwrapped(tensor).movedim(dim, -1)
    return tensor.stride()


def chooses_by_row(pred: torch.Tensor) -> bool:
    """Asked during capture: whether a predicate has another value for each row of the innermost level, a torch.vmap that lets
    nothing be random. torch's own rule for torch.cond runs both branches there, and calls no random operator either. It
    fails where a level is one of gradients."""
    stack = torch._C._functorch.get_interpreter_stack()
    if not stack or any(level.key() != torch._C._functorch.TransformType.Vmap for level in stack):
        return False
    randomness = torch._C._functorch.CVmapInterpreterPtr(stack[-1]).randomness()
    return randomness == torch._C._functorch.RandomnessType.Error and pred.dim() == 0 and has_rows(pred)


def has_rows(tensor: torch.Tensor) -> bool:
    """Whether the innermost level maps over it."""
    functorch = torch._C._functorch
    return functorch.is_batchedtensor(tensor) and functorch.maybe_get_level(tensor) == functorch.maybe_current_level()


def while_loop(cond: Callable[..., Any], body: Callable[..., Any], carried: Any, additional: Any) -> Any:
    values = carried
    while cond(*values, *additional):
        values = body(*values, *additional)
    if values is carried:
        values = tuple([value.clone() for value in carried])
    return _with_gradients(values, (*carried, *additional))


def scan(combine: Callable[..., Any], init: Any, xs: Any, additional: Any) -> Any:
    carry, count = init, len(init)
    rows = []
    for i in range(xs[0].size(0)):
        results = combine(*carry, *[x.select(0, i) for x in xs], *additional)
        carry = results[:count]
        rows.append(results[count:])
    stacked = [torch.stack(column) for column in zip(*rows, strict=True)]
    return _with_gradients((*carry, *stacked), (*init, *xs, *additional))


def map_each(function: Callable[..., Any], xs: Any, additional: Any) -> Any:
    rows = [function(*[x.select(0, i) for x in xs], *additional) for i in range(xs[0].size(0))]
    return _with_gradients(tuple([torch.stack(column) for column in zip(*rows, strict=True)]), (*xs, *additional))


def _cast_as_autocast_does(tensors: Any) -> Any:
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    return [_cast(tensor, device, torch.get_autocast_dtype(device)) for tensor in tensors]


def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable[..., Any],
    block_mask: Any,
    scale: float,
    options: Any,
    score_used: Any,
    mask_used: Any,
) -> Any:
    """The operator's kernel, whose operations autograd sees one by one."""
    from torch._higher_order_ops.flex_attention import sdpa_dense

    dense: Any = sdpa_dense
    given = _cast_as_autocast_does([query, key, value])
    out, logsumexp, maxima = dense(*given, score_mod, block_mask, scale, options, score_used, mask_used)
    return out, logsumexp, maxima.detach()


# ---- for fakes, while a region is captured


class _Fresh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Any, count: int, *likes: torch.Tensor) -> Any:
        ctx.save_for_backward(*likes)
        if how == "attention":
            return _attention_like(*likes[:count])
        return tuple([_like(like, one) for like, one in zip(likes[:count], how, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, *[torch.empty_like(like) if like.requires_grad else None for like in ctx.saved_tensors])


def _like(like: torch.Tensor, how: Any) -> torch.Tensor:
    """`how`: None, "row" (of its first dimension), "number", "index", or how many of these are stacked."""
    if how == "number":
        return like.new_empty(())
    if how == "index":
        return like.new_empty((), dtype=torch.int32)
    if how is not None and how != "row":
        return like.new_empty((how, *like.size()))
    if how == "row":
        like = like.select(0, 0)
    return like.new_empty_strided(like.size(), like.stride())


def _attention_like(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Any:
    query, key, value = _cast_as_autocast_does([query, key, value])
    sizes = (*query.shape[:-1], value.shape[-1])
    strides, step = [0, 0, 0, 0], 1
    in_order = sorted(range(4), key=query.stride().__getitem__)
    if in_order[0] != 3 and sizes[in_order[0]] != 1:
        in_order.remove(3)
        in_order.insert(0, 3)
    for dim in in_order:
        strides[dim] = step
        step *= sizes[dim]
    working = torch.float64 if query.dtype == torch.float64 else torch.float32
    facts = query.new_empty(query.shape[:-1], dtype=working)
    return query.new_empty_strided(sizes, strides), facts, torch.empty_like(facts)


def look_up(tensor: torch.Tensor, key: Any) -> torch.Tensor:
    """`tensor[key]` as torch's flex_attention has it."""
    parts = key if isinstance(key, tuple) else (key,)
    if not all(isinstance(part, (torch.Tensor, int)) for part in parts):
        return tensor[key]
    indices = [torch.full((), part, device=tensor.device) if isinstance(part, int) else part for part in parts]
    result: torch.Tensor = torch.ops.aten.index(tensor, indices)
    return result


def fresh(how: Any, count: int, *likes: torch.Tensor) -> Any:
    """New tensors like the first `count`, which need gradients as soon as one of `likes` does."""
    return _Fresh.apply(how, count, *likes)


def input_like(like: torch.Tensor, how: Any, requires_grad: bool) -> torch.Tensor:
    """One that is no leaf."""
    made = _like(like, how)
    if not requires_grad:
        return made
    with torch.enable_grad():
        one: torch.Tensor = fresh((None,), 1, made.requires_grad_())[0]
        return one
