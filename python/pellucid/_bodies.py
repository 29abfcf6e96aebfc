"""Operators that take functions, as the program itself calls them. A graph that nobody sees but this process calls these in
the place of torch.ops.higher_order."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

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
    read = []
    for name in code.co_names:  # of attributes too: one that is a global as well counts
        if name in namespace:
            read.append(namespace[name])
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            read.extend(_globals_read(constant, namespace))
    return read


def _is_constant(value: Any, seen: set[types.CodeType]) -> bool:
    if isinstance(value, types.ModuleType):
        return value.__name__.split(".")[0] in _CONSTANT_MODULES
    if isinstance(value, type):
        return value.__module__.split(".")[0] in _CONSTANT_MODULES
    return _reads_constants(value, seen)


def describe_body(module: Any, plain: Any) -> None:
    """Called by `_core` for the module of a body."""
    context_fn = getattr(plain, "options", {}).get("context_fn", noop_context_fn)
    if context_fn is not noop_context_fn:
        module.meta["_checkpoint_context_fn"] = context_fn
