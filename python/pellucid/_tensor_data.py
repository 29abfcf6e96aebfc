"""`tensor.data = value` in graphs that are compiled."""

from __future__ import annotations

import torch


def move_to(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """`tensor.data = value`, of a value with the layout and dtype of the tensor, in operators that AOTAutograd traces.

    As there, no version counter changes and nothing is recorded for a backward pass. Where nothing traces it is just
    that: `set_` would take a leaf out of the graphs of autograd that it has been used in.
    """
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) and not torch._C._len_torch_dispatch_stack():
        tensor.data = value
        return
    with torch.no_grad():
        torch.ops.aten.set_.source_Tensor(tensor, value)
    torch._C._autograd._unsafe_set_version_counter((tensor,), (tensor._version - 1,))
