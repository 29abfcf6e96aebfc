"""Programs that call a function several times, and one run of one: all that can be seen after each call, as pictures.

A program is a generator function. It makes the function to be compiled and all state anew, and yields the calls as
`f, *arguments` (or `Keywords` as the last of these). It is sent what the call gave, so that a result can be the next
argument, and may change its state between two calls. Its local variables are its state: they are looked at after every
call, closures and globals too.
"""

from __future__ import annotations

import contextlib
import io
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass

import torch

from support.programs import picture


@dataclass(frozen=True)
class Program:
    """One program, and how many graphs (calls of the backend) its calls make."""

    make: Callable[[], Iterator]
    target: int
    """What a capture that is general in numbers and sizes needs: mostly the first, and one for all other values."""
    now: int
    """What it may need today. Never raised: later work lowers it."""
    why: str
    """Why the target is above 2."""

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def theme(self) -> str:
        return self.make.__module__.rsplit(".", 1)[-1]


class Keywords(dict):
    """Keyword arguments of a call."""


def ramp(*shape: int) -> torch.Tensor:
    """Small numbers that all differ, of both signs."""
    count = int(torch.Size(shape).numel())
    return (torch.arange(float(count)) / 4 - 1).reshape(shape)


def run(program: Program, compiler: Callable[[Callable], Callable]) -> list:
    """The pictures after each call, and which tensors share memory, with what `compiler` makes of the functions."""
    torch.manual_seed(0)
    calls, compiled, seen, result = program.make(), {}, [], None
    while True:
        try:
            f, *args = calls.send(result)
        except StopIteration as end:
            return [*seen, picture(end.value)]
        kwargs = args.pop() if args and isinstance(args[-1], Keywords) else {}
        if f not in compiled:
            compiled[f] = compiler(f)
        result, error, printed = call(compiled[f], args, kwargs)
        state = calls.gi_frame.f_locals  # type: ignore[attr-defined]
        looked_at = [result, error, printed, args, dict(kwargs), state, global_state(f)]
        seen.append((picture(looked_at), sharing([result, args, kwargs])))


def sharing(value, groups: dict | None = None) -> list:
    """Which of the tensors below a value lie in one storage, and at what place there."""
    groups = {} if groups is None else groups
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()._cdata
        return [(groups.setdefault(storage, len(groups)), value.storage_offset(), value._is_view())]
    if isinstance(value, Mapping):
        value = value.values()
    elif is_dataclass(value) and not isinstance(value, type):
        value = vars(value).values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [place for item in value for place in sharing(item, groups)]


def call(f, args, kwargs):
    """The result of a call, its error as type and text, and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*args, **kwargs), None, printed.getvalue()
        except Exception as error:
            text = str(error).split("\nException raised from")[0]  # torch may add the C++ stack
            return None, (type(error).__qualname__, text), printed.getvalue()


def global_state(f) -> dict:
    """The globals with names in capitals that a function uses."""
    code = f.__code__ if isinstance(f, types.FunctionType) else None
    return {
        name: f.__globals__[name]
        for name in (code.co_names if code else ())
        if name.isupper() and name in f.__globals__
    }
