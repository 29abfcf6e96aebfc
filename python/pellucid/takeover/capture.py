"""torch._dynamo's way to a frame, closed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pellucid import errors
from pellucid.takeover.switch import is_installed


def set_eval_frame(original: Callable) -> Callable:
    """Stands in for the function that hands the frames of this thread to a callback: no callback is set."""

    @functools.wraps(original)
    def set_no_callback(callback: Any) -> Any:
        return original(None if is_installed() and callable(callback) else callback)

    original(None)  # there may be one now, of a compiled function around install()
    return set_no_callback


def count_of_frames(original: Callable) -> Callable:
    """Stands in for set_fullgraph_compiled_frame_count: a wrapper that torch.compile made earlier finds no count to check."""

    @functools.wraps(original)
    def keep_no_count(count: int) -> int:
        return 0 if is_installed() else original(count)

    return keep_no_count


def compile_frame(original: Callable) -> Callable:
    """Stands in for the function through which all captures of torch._dynamo go, those of torch.export included."""

    @functools.wraps(original)
    def refuse(code: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_installed():
            return original(code, *args, **kwargs)
        raise errors.CaptureTakenOver(
            f"torch._dynamo was asked to capture {code.co_qualname} ({code.co_filename}:{code.co_firstlineno}), and pellucid is"
            " installed in its place. torch.export.export with strict=False does not ask; or call pellucid.uninstall() around"
            " the call."
        )

    return refuse
