"""All that a call gives: its value, or the exception with everything that can be told of it; and what it prints."""

from __future__ import annotations

import io
import traceback
from contextlib import redirect_stdout
from typing import NamedTuple

import torch

import pellucid
from support import Counting, same


class Told(NamedTuple):
    """An exception, and those behind it."""

    type: type
    text: str
    args: tuple | str
    attributes: dict
    name: str | None
    suppresses_context: bool
    frames: list
    group: list
    cause: Told | None
    context: Told | None


def told(error, seen=()):
    if error is None or id(error) in seen:
        return None
    seen = {*seen, id(error)}
    frames = [
        (frame.f_code.co_filename, frame.f_code.co_qualname, line, *position)
        for (frame, line), position in zip(
            traceback.walk_tb(error.__traceback__), positions(error.__traceback__), strict=True
        )
    ]
    group = [told(inner, seen) for inner in getattr(error, "exceptions", ())]
    return Told(
        type(error),
        str(error),
        repr(error.args) if group else error.args,
        {k: v for k, v in vars(error).items() if not isinstance(v, torch.Tensor)},
        getattr(error, "name", None),
        error.__suppress_context__,
        frames,
        group,
        told(error.__cause__, seen),
        told(error.__context__, seen),
    )


def positions(tb):
    while tb is not None:
        yield list(tb.tb_frame.f_code.co_positions())[tb.tb_lasti // 2]
        tb = tb.tb_next


def whole_outcome(f, *args):
    """The value or the exception as `told`, and what is printed."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        try:
            value = f(*args)
        except Exception as error:  # compared as a whole
            value = told(error)
    return value, printed.getvalue()


def assert_as_eager_each_time(f, make_args, calls=3, backend=None):
    """Calls f eagerly and compiled, each with arguments of its own; the compiled function and the number of graphs."""
    backend = backend or Counting()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(calls):
        want, got = whole_outcome(f, *make_args()), whole_outcome(compiled, *make_args())
        assert same(got, want), (got, want)
    return compiled, backend.count
