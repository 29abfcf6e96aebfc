"""Graphs that begin where no gradients are recorded, and turn recording on.

AOTAutograd writes back what a graph writes to its inputs when the graph has run, and in the grad mode that its compiled
form is called in. Where that is off and the graph has turned it on before it writes, autograd would not see the write.
So such a graph is entered with the mode on, and turns it off itself first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx import GraphModule


def enters_with_gradients(gm: GraphModule) -> bool:
    """Whether the graph is to be called with gradients recorded, although they are not now.

    Args:
        gm: a captured graph that begins in the grad mode of this call. Where the answer is True, its first step is made
            to turn the mode off.

    Example:
        >>> with torch.no_grad():
        ...     enters_with_gradients(gm)  # has no call of _set_grad_enabled
        False
    """
    if torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        return False
    switch = torch._C._set_grad_enabled
    # Not gm.graph, which makes what costs text.
    if not any(node.target is switch and node.args == (True,) for node in gm._graph.nodes):
        return False
    first = next(node for node in gm.graph.nodes if node.op != "placeholder")
    with gm.graph.inserting_before(first):
        gm.graph.call_function(switch, (False,))
    gm.recompile()
    return True


def with_gradients(compiled: Callable) -> Callable:
    """The compiled form of such a graph, for calls where gradients are not recorded.

    It leaves the grad mode as the graph does; where it raises, off as it was.
    """

    def call(*args: Any) -> Any:
        torch._C._set_grad_enabled(True)
        try:
            return compiled(*args)
        except BaseException:
            torch._C._set_grad_enabled(False)
            raise

    return call
