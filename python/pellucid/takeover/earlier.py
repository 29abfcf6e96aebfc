"""Functions that torch.compile made before `install`: they call what pellucid makes of theirs."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from pellucid import api
from pellucid.takeover.compiling import settings_of


def take() -> Callable[[], None]:
    """Takes over all that there are. Returns what undoes it.

    Such a function is a closure named `compile_wrapper`, whose cell `fn` holds the program's own function.
    """
    taken = [done for wrapper in _wrappers() if (done := _take_one(wrapper)) is not None]

    def undo() -> None:
        for wrapper, original in taken:
            found = wrapper()
            if found is not None:
                _cells(found)["fn"].cell_contents = original

    return undo


def _wrappers() -> list[types.FunctionType]:
    context = sys.modules["torch._dynamo.eval_frame"]._TorchDynamoContext
    codes = [code for code in context.__call__.__code__.co_consts if isinstance(code, types.CodeType)]
    (code,) = [code for code in codes if code.co_name == "compile_wrapper"]
    return [found for found in gc.get_referrers(code) if isinstance(found, types.FunctionType)]


def _cells(wrapper: types.FunctionType) -> dict[str, types.CellType]:
    return dict(zip(wrapper.__code__.co_freevars, wrapper.__closure__ or ()))


def _take_one(wrapper: types.FunctionType) -> tuple[weakref.ref, Any] | None:
    cells = _cells(wrapper)
    context, function = cells["self"].cell_contents, cells["fn"].cell_contents
    if not callable(context.callback) or context.export:  # torch._dynamo.run, disable, export
        return None
    filter_fn = getattr(context._hooks, "guard_filter_fn", None)
    settings = settings_of(context.callback, context.fullgraph, context._dynamic, filter_fn)
    cells["fn"].cell_contents = api._compile_with(function, settings=settings, disabled=False)
    return weakref.ref(wrapper), function
