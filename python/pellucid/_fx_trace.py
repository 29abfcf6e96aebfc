"""Compiled functions that are called while `torch.fx.experimental.proxy_tensor.make_fx` traces."""

from __future__ import annotations

import contextlib
import sys

import torch


def asked_for() -> bool:
    """Called by `_core` in a mode of the user: make_fx is tracing, and `torch._dynamo.config.force_compile_during_fx_trace` wants
    compiled functions to be compiled all the same."""
    config = sys.modules.get("torch._dynamo.config")
    if config is None or not config.force_compile_during_fx_trace:
        return False
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode() is not None


def leave_modes() -> contextlib.ExitStack:
    """Called by `_core` while it compiles. `close()` of what it gives enters all modes again.

    Example:
        >>> with leave_modes():
        ...     assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    """
    from torch.utils._python_dispatch import _disable_current_modes

    held = contextlib.ExitStack()
    functions = [torch._C._pop_torch_function_stack() for _ in range(torch._C._len_torch_function_stack())]
    for mode in functions:  # popped innermost first, and callbacks run in the other order
        held.callback(torch._C._push_on_torch_function_stack, mode)
    held.enter_context(_disable_current_modes())
    return held
