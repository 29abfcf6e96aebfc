"""The names that a compile's values have in the program. A module is compiled from torch's code for its call, whose arguments are
`args` and `kwargs`: the user's names of them are `forward`'s."""

from __future__ import annotations

import re

import torch

from pellucid._explain.places import definition_at
from pellucid._explain.record import RecordedCompile
from pellucid._in_words import Words

_CODE_OF = re.compile(r"the code of \S+ \((.+):(\d+)\) with its defaults")


def words_of(compiled: RecordedCompile) -> Words:
    """The names and words of what the regions of a compile get.

    Example:
        >>> words_of(compiled).of("L['args'][0].shape == (2,)")
        'x.shape == (2,)'
    """
    parameters = None
    if compiled.started.code is torch.nn.Module._wrapped_call_impl.__code__:
        place = forward_of(compiled)
        definition = definition_at(*place) if place is not None else None
        parameters = definition.arguments[1:] if definition is not None else ()
    return Words(compiled.started.begins_at, parameters)


def forward_of(compiled: RecordedCompile) -> tuple[str, int] | None:
    """File and first line of the `forward` that a module's call runs."""
    if compiled.recompile is not None and not compiled.started.goes_on:
        return compiled.recompile.file, compiled.recompile.line
    for guard in compiled.region.guards if compiled.region is not None else ():
        code = _CODE_OF.fullmatch(guard["text"])
        if guard["kind"] == "FUNCTION" and guard["source"].endswith(".forward]") and code:
            return code[1], int(code[2])
    return None
