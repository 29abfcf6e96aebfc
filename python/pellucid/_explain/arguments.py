"""A module is compiled from torch's code for its call, whose arguments are `args` and `kwargs`: the user's names of them."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from pellucid._explain.places import definition_at
from pellucid._explain.record import RecordedCompile

_CODE_OF = re.compile(r"the code of \S+ \((.+):(\d+)\) with its defaults")
_ARGUMENT = re.compile(r"\bargs\[(\d+)\]")
_KEYWORD = re.compile(r"\bkwargs\['(\w+)'\]")


def renaming(compiled: RecordedCompile) -> Callable[[str], str]:
    """A function of a text: the same with the names that `forward` gives to the arguments.

    Example:
        >>> renaming(compiled)("args[0].shape == (2,)")
        'x.shape == (2,)'
    """
    if not _is_modules_call(compiled):
        return lambda text: text
    place = forward_of(compiled)
    definition = definition_at(*place) if place is not None else None
    names = definition.arguments[1:] if definition is not None else ()

    def rename(text: str) -> str:
        text = _ARGUMENT.sub(lambda match: names[int(match[1])] if int(match[1]) < len(names) else match[0], text)
        text = _KEYWORD.sub(r"\1", text)
        return {"args": "positional arguments", "kwargs": "arguments by name"}.get(text, text)

    return rename


def _is_modules_call(compiled: RecordedCompile) -> bool:
    return compiled.started.code is torch.nn.Module._wrapped_call_impl.__code__


def passes_arguments(compiled: RecordedCompile, source: str) -> str | None:
    """What to do where another number of arguments, or others by name, reach a module; None: it is not about that."""
    if _is_modules_call(compiled) and source in ("L['args']", "L['kwargs']"):
        return "pass the same arguments at each call, each always by position or always by name"
    return None


def forward_of(compiled: RecordedCompile) -> tuple[str, int] | None:
    """File and first line of the `forward` that a module's call runs."""
    if compiled.recompile is not None and not compiled.started.goes_on:
        return compiled.recompile.file, compiled.recompile.line
    for guard in compiled.region.guards if compiled.region is not None else ():
        code = _CODE_OF.fullmatch(guard["text"])
        if guard["kind"] == "FUNCTION" and guard["source"].endswith(".forward]") and code:
            return code[1], int(code[2])
    return None
