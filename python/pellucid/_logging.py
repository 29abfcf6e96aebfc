"""What pellucid tells through `logging`: one logger, named "pellucid"."""

from __future__ import annotations

import inspect
import logging
import types
from collections.abc import Callable
from typing import Any

log = logging.getLogger("pellucid")


def _report_graph_failure(function: types.FunctionType, error: BaseException, limit: int) -> None:
    """Called by `_core`, once for each graph: what the backend made of it raised, the graph as it was captured did not."""
    code = function.__code__
    log.warning(
        "a compiled graph raised %s: %s\n   function: %r (%s:%s)\nThe graph ran as it was captured instead%s.",
        type(error).__name__,
        error,
        function.__qualname__,
        code.co_filename,
        code.co_firstlineno,
        f", and always will after {limit} such calls in a row (pellucid.config.graph_failure_limit)" if limit else "",
    )


def _called_here(function, args, kwargs): function(*args, **kwargs)  # fmt: skip


def _calls(inner):
    def called(function, args, kwargs): inner(function, args, kwargs)  # fmt: skip

    return called


def _call_site(stack: list[tuple[types.CodeType, int, dict]]) -> types.FunctionType:
    """Called by `_core`. Calls a function from frames with these names, files, lines and globals, innermost first.

    So logging and warnings tell the place in the program of a call that compiled code makes.
    """
    site: Any = None
    for code, line, namespace in stack:
        called = _called_here if site is None else _calls(site)
        looks_like = called.__code__.replace(
            co_filename=code.co_filename, co_name=code.co_name, co_qualname=code.co_qualname, co_firstlineno=line
        )
        site = types.FunctionType(looks_like, namespace, code.co_name, None, called.__closure__)
    return site


def _call_with_texts(site, function, args: tuple, kwargs: dict, texts: dict) -> None:
    """Called by compiled code. `texts`: f-strings with tensors in them, by position or keyword: texts and (tensor, conversion, format)."""
    values: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    for place, parts in texts.items():
        text = "".join(
            part if isinstance(part, str) else format(_CONVERSIONS[part[1]](part[0]), part[2]) for part in parts
        )
        values[place] = text
    args = tuple(values[index] for index in range(len(args)))
    kwargs = {name: values[name] for name in kwargs}
    if site is None:
        function(*args, **kwargs)
    else:
        site(function, args, kwargs)


_CONVERSIONS: dict[int, Callable[[Any], Any]] = {
    0: lambda value: value,
    1: str,
    2: repr,
    3: ascii,
}  # as FORMAT_VALUE numbers them


def _report_suppressed_error(function: types.FunctionType, error: BaseException) -> str:
    """Called by `_core`: config.suppress_errors is set and a compile failed. Gives the words for the reason."""
    from pellucid.errors import BackendCompilerFailed

    inner = error.inner_exception if isinstance(error, BackendCompilerFailed) else error
    text = f"{type(inner).__name__}: {inner}"
    if isinstance(error, BackendCompilerFailed):
        text = f"backend {error.backend_name!r} raised {text}"
    log.warning(
        "%s\n   function: %s\nIt runs eagerly (pellucid.config.suppress_errors).",
        text,
        _place(function, None),
        exc_info=error,
    )
    return text


def _report_constants_instead(function: types.FunctionType, error: Any) -> None:
    """Called by `_core`: the backend could not compile for all values of the numbers that change."""
    inner = error.inner_exception
    log.warning(
        "backend %r raised %s: %s\n   function: %s\nIt was asked to compile for all values of the numbers and sizes that "
        "change between calls. It compiles for those of this call instead, and again for others.",
        error.backend_name,
        type(inner).__name__,
        str(inner),  # a handler that keeps the record would keep the exception's frames, and the inputs in them
        _place(function, None),
    )


def _report_refusal(function: types.FunctionType, error: Any) -> None:
    """Called by `_core`: the backend knows no shapes for an operator of the graph."""
    from pellucid.errors import user_stack_text

    log.warning(
        "backend %r cannot compile a graph: %s\n   function: %s\nThe call runs eagerly.\n%s",
        error.backend_name,
        str(error),
        _place(function, None),
        user_stack_text(error.user_stack),
    )


def _report_traced_miss(function: types.FunctionType) -> None:
    """Called by `_core` inside of pellucid.debug: a call that is traced fits nothing that is compiled."""
    log.warning(
        "no compiled version fits this call, which runs as it was written: nothing is compiled while it is traced\n"
        "   function: %s",
        _place(function, None),
    )


def _report_failing_assertions(function: types.FunctionType, limit: int) -> None:
    """Called by `_core`: what a graph asserts of numbers that only it knows was false at call after call."""
    log.warning(
        "a graph was run in vain %d calls in a row: what it asserts of the values of its tensors was not true of them.\n"
        "   function: %s\nFrom now on operators that give such numbers or sizes are graph breaks there.",
        limit,
        _place(function, None),
    )


def _called_function(function: types.FunctionType, first: object) -> types.FunctionType:
    """The function that the user wrote: of a module's call `forward`, not torch.nn.Module's code around it."""
    import torch

    if isinstance(first, torch.nn.Module) and function.__code__ is torch.nn.Module._wrapped_call_impl.__code__:
        forward = inspect.unwrap(type(first).forward)
        return forward if isinstance(forward, types.FunctionType) else function
    return function


def _place(function: types.FunctionType, first: object) -> str:
    function = _called_function(function, first)
    code = function.__code__
    return f"{function.__qualname__!r} ({code.co_filename}:{code.co_firstlineno})"


def _what_comes(limit: str) -> str:
    from pellucid import config

    patience = config.recompile_patience  # type: ignore[attr-defined]
    text = "From now on calls that fit none of the compiled versions run eagerly."
    if limit != "recompile_limit" or patience == 0:
        return text
    return (
        f"{text[:-1]}; after {patience} of them the version that was used longest ago gives way to a new one"
        " (pellucid.config.recompile_patience)."
    )


def _report_recompile_limit(
    function: types.FunctionType, first: object, limit: str, reason: str, fullgraph: bool
) -> None:
    """Called by `_core`, once for each function that reaches this limit; at each call where that is an error.

    Args:
        first: the first argument of the call; None when it has none.
        limit: the option.
    """
    from pellucid import config, events
    from pellucid.errors import RecompileLimitExceeded

    text = (
        f"pellucid hit config.{limit} ({getattr(config, limit)})\n"
        f"   function: {_place(function, first)}\n"
        f"   last reason: {reason or 'no guard failed'}\n"
    )
    if events.wanted():
        events.emit(events.LimitHit, limit=limit, text=text)
    if fullgraph:
        raise RecompileLimitExceeded(text + "With fullgraph=True that is an error.")
    if config.fail_on_recompile_limit_hit:  # type: ignore[attr-defined]
        raise RecompileLimitExceeded(text + "config.fail_on_recompile_limit_hit makes it an error.")
    log.warning("%s%s", text, _what_comes(limit))


def _raise_recompile_error(function: types.FunctionType, first: object, reason: str, rule: str) -> None:
    """Called by `_core` where `rule` forbids to compile a function."""
    from pellucid.errors import RecompileError

    raise RecompileError(
        f"{_place(function, first)} would be compiled, which {rule} makes an error\n"
        f"   reason: {reason or 'no compiled version of it is there'}"
    )
