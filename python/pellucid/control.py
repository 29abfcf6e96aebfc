"""What users say of single functions: how captures treat a call of them.

`_core` keeps the one table of it (`src/protocols/steering.h`). The marks of torch's functions of these names count as well.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch

from pellucid import _core, api

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "disallow_in_graph",
    "forbid_in_graph",
    "is_dynamo_compiling",
    "nonstrict_trace",
    "skip_frame",
    "substitute_in_graph",
]


_Steering = types.SimpleNamespace(**_core.steerings())  # the numbers of src/protocols/steering.h


def _check_callable(fn: Any, caller: str) -> None:
    if not callable(fn):
        raise TypeError(f"pellucid.{caller} needs a callable, not {type(fn).__name__}")


def _for_each(switch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A switch that takes a list or tuple of callables too, and gives a list then."""

    @functools.wraps(switch)
    def for_each(fn: Any) -> Any:
        return [for_each(one) for one in fn] if isinstance(fn, (list, tuple)) else switch(fn)

    return for_each


def _steer(fn: Any, how: int, caller: str, substitute: Callable | None = None) -> None:
    _check_callable(fn, caller)
    if how != _core.steering_of(fn) or substitute is not None:
        _core.steer(fn, how, substitute)
        # What was compiled before may go by what held then.
        api.reset()


def is_opaque(fn: Any) -> bool:
    """Whether a call of `fn` is one node for `allow_in_graph`'s sake, pellucid's or torch's.

    Example:
        >>> is_opaque(scaled)
        True
    """
    return _core.steering_of(fn) == _Steering.OPAQUE


@_for_each
def allow_in_graph(fn: Any) -> Any:
    """Makes a call of `fn` one node of the graph, whose target is `fn`: capture does not look inside.

    At capture `fn` runs once on fake tensors, for the metadata of its result. The backend "eager" calls it at each run; AOT
    backends trace through it when they compile. What it does besides operators of torch (prints, changes of Python objects,
    values that it reads of globals or closures) is neither guarded nor repeated. Undoes `disallow_in_graph`. It holds for the
    process; when it changes something, all compiled code is dropped.

    Args:
        fn: a callable, or a list or tuple of them, of which a list is returned.

    Raises:
        TypeError: `fn` cannot be called.

    Example:
        >>> @pellucid.allow_in_graph
        ... def scaled(x):
        ...     print("not seen by the capture")
        ...     return x * 2
    """
    is_node_anyway = callable(fn) and _core.is_leaf(fn)
    _steer(fn, _Steering.NONE if is_node_anyway else _Steering.OPAQUE, "allow_in_graph")
    return fn


def nonstrict_trace(traceable_fn: Callable) -> Callable:
    """`allow_in_graph` for one function, under torch's name for functions of which AOT backends trace what is inside.

    Raises:
        TypeError: `traceable_fn` cannot be called.

    Example:
        >>> @pellucid.nonstrict_trace
        ... def scaled(x):
        ...     return x * 2
    """
    _steer(traceable_fn, _Steering.OPAQUE, "nonstrict_trace")
    return traceable_fn


@_for_each
def disallow_in_graph(fn: Any) -> Any:
    """Keeps an operator out of all graphs: a call of `fn` ends the graph, runs eagerly, and capture goes on behind it.

    For functions that would be a node of a graph: torch's operators, custom ones (`torch.ops.<namespace>.<name>`), and what
    `allow_in_graph` made one. Other spellings of the same operator (`x - y`, `x.sub(y)` for `torch.sub`) are other callables.
    It holds for the process, until `allow_in_graph` undoes it; when it changes something, all compiled code is dropped.

    Args:
        fn: a callable, or a list or tuple of them, of which a list is returned.

    Raises:
        TypeError: `fn` cannot be called.
        RuntimeError: `fn` is a function that captures look inside: `disable` is for those.

    Example:
        >>> pellucid.disallow_in_graph(torch.sub)
    """
    if callable(fn) and not _core.is_leaf(fn) and _core.steering_of(fn) not in (_Steering.OPAQUE, _Steering.DISALLOWED):
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        raise RuntimeError(
            f"disallow_in_graph is for callables that are one node of a graph, like torch's operators; captures look inside"
            f" {name}. To run it, and what it calls, uncompiled, use pellucid.disable"
        )
    _steer(fn, _Steering.DISALLOWED, "disallow_in_graph")
    return fn


@_for_each
def forbid_in_graph(fn: Any) -> Any:
    """Makes it an error that a capture meets a call of `fn`: `errors.Unsupported`, also without `fullgraph=True`.

    Args:
        fn: a callable, or a list or tuple of them, of which a list is returned.

    Raises:
        TypeError: `fn` cannot be called.

    Example:
        >>> @pellucid.forbid_in_graph
        ... def only_eager(x):
        ...     return x
    """
    _steer(fn, _Steering.FORBIDDEN, "forbid_in_graph")
    return fn


def assume_constant_result(fn: Callable) -> Callable:
    """Takes what a call of `fn` gives at capture for a constant: compiled code does not call it again.

    Nothing that it reads is guarded, but for its arguments. Those must be plain values (numbers, texts, containers of these):
    a call with a tensor or another object ends the graph.

    Raises:
        TypeError: `fn` cannot be called.

    Example:
        >>> @pellucid.assume_constant_result
        ... def number_of_layers():
        ...     return read_settings()["layers"]
    """
    _steer(fn, _Steering.CONSTANT, "assume_constant_result")
    return fn


def substitute_in_graph(
    original_fn: Callable,
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
    is_embedded_type: bool = False,
) -> Callable[[Callable], Callable]:
    """A decorator: captures follow the decorated function where the program calls `original_fn`.

    Plain Python goes on to call `original_fn`. Both must do the same. What was given to torch.compiler.substitute_in_graph
    counts as well, except for torch's own.

    Args:
        original_fn: usually a C function.
        can_constant_fold_through: torch's keyword; captures follow the function in any case.
        skip_signature_check: the functions may have other parameters than the original, which must then fit its calls. Those
            of a function of `*args, **kwargs` always may.
        is_embedded_type: torch's keyword for classes, which need no word here.

    Raises:
        TypeError: one of them cannot be called, or their parameters differ.
        ValueError: there is a substitute for `original_fn` already.

    Example:
        >>> @pellucid.substitute_in_graph(operator.indexOf)
        ... def index_of(a, b, /):
        ...     return list(a).index(b)
    """
    _check_callable(original_fn, "substitute_in_graph")

    def substituted(traceable_fn: Callable) -> Callable:
        if not inspect.isfunction(traceable_fn):
            raise TypeError(f"a substitute must be a Python function, not {type(traceable_fn).__name__}")
        if _core.steering_of(original_fn) == _Steering.SUBSTITUTED:
            raise ValueError(f"{original_fn!r} has a substitute already")
        if not skip_signature_check:
            _check_signatures(original_fn, traceable_fn)
        _steer(original_fn, _Steering.SUBSTITUTED, "substitute_in_graph", traceable_fn)
        return traceable_fn

    return substituted


_Parameters = tuple[list[tuple[str, bool]], set[tuple[str, bool]]]


def _check_signatures(original: Callable, substitute: Callable) -> None:
    try:
        wanted = inspect.signature(original)
    except ValueError:  # a C function that does not tell
        return
    given = inspect.signature(substitute)
    parameters = [_parameters(signature) for signature in (wanted, given)]
    if parameters[0] != parameters[1] and not any(_takes_all(signature) for signature in (wanted, given)):
        raise TypeError(f"the parameters of the substitute, {given}, are not those of {original!r}, {wanted}")


def _parameters(signature: inspect.Signature) -> _Parameters:
    """Those in order, and those by keyword alone: their names, and whether they have a default."""
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [p for p in signature.parameters.values() if p.kind not in rest]
    in_order = [(p.name, p.default is p.empty) for p in named if p.kind is not p.KEYWORD_ONLY]
    return in_order, {(p.name, p.default is p.empty) for p in named if p.kind is p.KEYWORD_ONLY}


def _takes_all(signature: inspect.Signature) -> bool:
    return [p.kind for p in signature.parameters.values()] == [
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    ]


def skip_frame(msg: str = "") -> None:
    """Ends the graph here, as `graph_break` does; under torch's name, where the rest of the function then runs uncompiled.

    Args:
        msg: is part of the reason.

    Example:
        >>> pellucid.skip_frame("too small to compile")
    """


def is_dynamo_compiling() -> bool:
    """True in code that is captured from its bytecode; else False, in torch's non-strict export too.

    Example:
        >>> y = x if pellucid.is_dynamo_compiling() else check(x)
    """
    return torch.compiler.is_dynamo_compiling()
