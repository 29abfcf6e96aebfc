"""Decompositions of torch that compute something else than the operators they stand for, and what its partitioner computes
twice, mended while AOTAutograd traces."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch._decomp import decompositions as torchs
from torch._functorch import partitioners
from torch._higher_order_ops.scan import ScanAutogradImpl
from torch.fx import GraphModule, Node
from torch.fx.experimental import proxy_tensor
from torch.utils.checkpoint import CheckpointPolicy

from pellucid.backends.errors import GraphRefused
from pellucid.backends.layouts import layouts_of_kernels

VERSION = (
    5  # part of the key of AOTAutograd's cache: what was compiled without these, or with others, is something else
)


@contextlib.contextmanager
def faithful_decompositions() -> Iterator[None]:
    """Patches torch for the whole process: to be entered with its compile lock held.

    Raises:
        AttributeError: this torch has other names for what is patched.
    """
    with (
        mock.patch.object(torchs, "_rnn_helper", _recurrent_layers),
        mock.patch.object(torchs, "select_one_layer_lstm_function", _lstm_layer),
        mock.patch.object(partitioners, "force_save_bw_mutation_src", _save_what_is_overwritten),
        _kernels(torch.ops.aten.dropout.default, _dropout),
        mock.patch.object(proxy_tensor, "maybe_handle_decomp", _handle_decomposition),
        mock.patch.object(ScanAutogradImpl, "call_backward", _backward_of_scan),
        layouts_of_kernels(),
    ):
        yield


@contextlib.contextmanager
def _kernels(operator: torch._ops.OpOverload, kernel: Callable) -> Iterator[None]:
    """Where torch has a kernel in Python for the operator, `kernel` is it."""
    with mock.patch.dict(operator.py_kernels, dict.fromkeys(operator.py_kernels, kernel)):
        operator._dispatch_cache.clear()
        try:
            yield
        finally:
            operator._dispatch_cache.clear()


_torchs_handling = proxy_tensor.maybe_handle_decomp


def _handle_decomposition(mode: Any, op: torch._ops.OpOverload, args: tuple, kwargs: dict) -> Any:
    """Inductor's lerp asks which of two formulas is for the weight. Of a weight that is a tensor it asks the elements
    when the graph runs: a number that the graph computes becomes one."""
    by_scalar, by_tensor = torch.ops.aten.lerp.Scalar, torch.ops.aten.lerp.Tensor
    if op is by_scalar and isinstance(args[2], torch.SymFloat) and {op, by_tensor} <= mode.decomposition_table.keys():
        start, end, weight = args
        dtype = torch.promote_types(start.dtype, torch.float32)
        with mode:
            weight = torch.full((), weight, dtype=dtype, device=start.device)
        op, args = by_tensor, (start, end, weight)
    return _torchs_handling(mode, op, args, kwargs)


_torchs_dropout = torchs.dropout


def _dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """What drops nothing gives its argument back, torch's own a copy: a write into one would not be seen in the other."""
    return _torchs_dropout(input, p, train) if train and p != 0 and input.numel() != 0 else input


_torchs_backward_of_scan = ScanAutogradImpl.call_backward


def _backward_of_scan(scan: ScanAutogradImpl, *gradients: torch.Tensor) -> Any:
    """Inductor reads what a loop carries with the strides that it begins with. The gradient of a sum begins as one element,
    expanded, and what the loop carries on is none such: both are contiguous here."""
    count, parts = len(scan.init), scan.hop_partitioned_graph
    step = parts.bw_gm

    def contiguous_step(*operands: Any) -> list:
        results = step(*operands)
        return [*_contiguous(results[:count]), *results[count:]]

    with mock.patch.object(parts, "bw_gm", contiguous_step):
        return _torchs_backward_of_scan(scan, *_contiguous(gradients[:count]), *gradients[count:])


def _contiguous(values: Sequence[Any]) -> list:
    return [value.contiguous() if isinstance(value, torch.Tensor) else value for value in values]


def _recurrent_layers(
    input: torch.Tensor,
    hidden: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    layer_fn: Callable,
) -> Any:
    """The layers of torch.lstm, gru, rnn_tanh and rnn_relu, one behind the other. Torch's own leaves the dropout between them out."""
    drops = train and dropout != 0 and num_layers > 1
    if drops and input.device.type == "cuda":
        raise GraphRefused("dropout between the layers of a recurrent network, for which cuDNN draws the numbers,")
    directions = 2 if bidirectional else 1
    value = input.transpose(0, 1) if batch_first else input
    last = []
    for layer in range(num_layers):
        if drops and layer > 0:
            value = torch.dropout(value, dropout, train=True)
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            output, state = layer_fn(value, hidden[at], params[at], has_biases, reverse=direction == 1)
            outputs.append(output)
            last.append(state)
        value = torch.cat(outputs, -1) if bidirectional else outputs[0]
    return (value.transpose(0, 1) if batch_first else value), last


_torchs_lstm_layer = torchs.select_one_layer_lstm_function


def _lstm_layer(input: torch.Tensor, hx: Any, params: Sequence[Any]) -> Any:
    """oneDNN's layer, which torch's choice takes when the input alone needs no gradient, keeps nothing for a backward."""
    tensors = [input, *hx, *(weight for weights in params for weight in weights)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return torchs.one_layer_lstm
    return _torchs_lstm_layer(input, hx, params)


_torchs_saving = partitioners.force_save_bw_mutation_src


def _save_what_is_overwritten(joint_module: GraphModule) -> None:
    """Partitioners compute what is cheap once more in the backward graph, torch's also from an input that the forward graph
    has written by then: what reads such an input is saved."""
    _torchs_saving(joint_module)
    copies = [node for node in joint_module.graph.nodes if node.target is torch.ops.aten.copy_.default]
    waiting: list[Node] = [node.args[0] for node in copies if node.args[0].op == "placeholder"]
    while waiting:
        for user in waiting.pop().users:
            if getattr(user.target, "is_view", False):
                waiting.append(user)
            elif user not in copies and user.meta.get("partitioner_tag") != "is_backward":
                user.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)
