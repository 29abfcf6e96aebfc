"""torch.cond, while_loop, scan, map, flex_attention and their like, called outside of compiled code.

Each of them hands its operator to torch.compile to have it captured, with a thread's flag set. An operator of this kind, run
eagerly, is its dense kernel: a Python function over real tensors, whose operations autograd records one by one. That is what is
called here.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey
from torch.overrides import TorchFunctionMode

from pellucid import errors


def is_asking() -> bool:
    """torch.compile was called by one of these operators for itself."""
    utils = sys.modules.get("torch._higher_order_ops.utils")
    return utils is not None and utils._in_hop_compile()


def run_eagerly(around_operator: Callable) -> Callable:
    """What torch.compile gives for the function that calls the operator."""

    @functools.wraps(around_operator)
    def run(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_exporting() or torch.fx.experimental.proxy_tensor.get_proxy_mode() is not None:
            raise errors.CaptureTakenOver(
                "torch.cond and its like, while torch.export or make_fx traces, are captured by torch._dynamo, in whose place"
                " pellucid is installed. Call pellucid.uninstall() around the tracing."
            )
        if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None:
            return around_operator(*args, **kwargs)  # a mode or transform has a rule of its own for the operator
        with _DenseKernels():
            return around_operator(*args, **kwargs)

    return run


class _DenseKernels(TorchFunctionMode):
    """The next operator with functions as arguments is its dense kernel; what it calls is outside of this mode again."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        dense = getattr(func, "py_kernels", {}).get(DispatchKey.CompositeExplicitAutograd)
        is_operator = isinstance(func, torch._ops.HigherOrderOperator)
        return (dense if is_operator and dense is not None else func)(*args, **(kwargs or {}))
