"""Batch norms whose momentum is a number that the graph computes or is given, as after `1.0 / float(num_batches_tracked)`.

Torch's operators take a constant there. The momentum does no more than weigh the running statistics: an operator of
ours updates these, by torch's own kernels.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import GraphModule, Node


@torch.library.custom_op("pellucid::update_statistics", mutates_args=("running_mean", "running_var"))
def _update_statistics(
    values: torch.Tensor, running_mean: torch.Tensor, running_var: torch.Tensor, momentum: torch.Tensor
) -> None:
    factor = momentum.item()
    if values.device.type == "cpu":  # what the batch norm does there first
        torch.batch_norm_update_stats(values, running_mean, running_var, factor)
    else:
        F.batch_norm(values, running_mean, running_var, training=True, momentum=factor)


def batch_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """torch.nn.functional.batch_norm with a `momentum` that is a number, a torch.SymFloat or a tensor of no dimension."""
    if not training or running_mean is None or running_var is None:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, 0.0, eps)
    given = F.batch_norm(input, None, None, weight, bias, True, 0.0, eps)
    if not isinstance(momentum, torch.Tensor):
        momentum = torch.full((), momentum, dtype=torch.float64)
    _update_statistics(input.detach(), running_mean, running_var, momentum)
    return given


def take_numbers(gm: GraphModule) -> None:
    """Each batch norm of the graph with such a momentum becomes one of these."""
    found = [node for node in gm.graph.find_nodes(op="call_function", target=F.batch_norm) if _has_number(node)]
    for node in found:
        node.target = batch_norm
    if found:
        gm.recompile()


def _has_number(node: Node) -> bool:
    place = 6
    return isinstance(node.args[place] if len(node.args) > place else node.kwargs.get("momentum"), Node)
