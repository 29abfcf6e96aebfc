"""Collectives that write to tensors of the program, as nodes of a graph that runs as it is: called by names, which stay readable in
a graph. `on_fakes` of each does to tensors without data what the collective does to those with data: it writes to them."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist

REDUCTIONS: dict[str, Any] = {}
if dist.is_available():
    REDUCTIONS = {
        "sum": dist.ReduceOp.SUM,
        "avg": dist.ReduceOp.AVG,
        "product": dist.ReduceOp.PRODUCT,
        "min": dist.ReduceOp.MIN,
        "max": dist.ReduceOp.MAX,
        "band": dist.ReduceOp.BAND,
        "bor": dist.ReduceOp.BOR,
        "bxor": dist.ReduceOp.BXOR,
    }


@functools.cache
def load_functional() -> None:
    """The shapes of functional collectives are known to torch once this module is loaded."""
    importlib.import_module("torch.distributed._functional_collectives")


class _State(threading.local):
    has_open_sizes = False


_state = _State()


def traced(call: Callable, *args: Any, **kwargs: Any) -> Any:
    """Calls torch with tensors of which sizes are open: distributed tensors shall not look up by them what they know."""
    before, _state.has_open_sizes = _state.has_open_sizes, True
    try:
        return call(*args, **kwargs)
    finally:
        _state.has_open_sizes = before


@functools.cache
def leave_shapes_to_torch() -> None:
    """Distributed tensors find the shape of a whole result by fakes of torch's own, also while an operator runs on those of a
    capture: these have no part in it. Where sizes are open it is found by these, and nothing is looked up by a size."""
    tensor: Any = importlib.import_module("torch.distributed.tensor")
    functional: Any = importlib.import_module("torch.distributed._functional_collectives")
    propagator = tensor.DTensor._op_dispatcher.sharding_propagator
    asks, traces = propagator._propagate_tensor_meta_non_cached, functional._are_we_tracing
    knows: Any = importlib.import_module("torch.fx.experimental.symbolic_shapes").statically_known_true
    core: Any = torch._C

    @functools.wraps(asks)
    def asks_torch(schema: Any) -> Any:
        if _state.has_open_sizes:
            return _metadata_of(schema)
        key = torch._C._dispatch_key_parse("Fake")
        if torch._C._dispatch_tls_is_dispatch_key_excluded(key):
            return asks(schema)
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, True)
        try:
            return asks(schema)
        finally:
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)

    @functools.wraps(traces)
    def traces_or_has_open_sizes() -> bool:
        return _state.has_open_sizes or traces()

    @functools.wraps(knows)
    def knows_or_decides(condition: Any) -> bool:
        is_of_capture = isinstance(condition, torch.SymBool) and isinstance(condition.node, core._SymNode)
        return bool(condition) if is_of_capture else knows(condition)

    propagator._propagate_tensor_meta_non_cached = asks_torch
    instead = {
        "_are_we_tracing": (traces, traces_or_has_open_sizes),
        "statically_known_true": (knows, knows_or_decides),
    }
    for name, module in list(sys.modules.items()):
        for function, (torchs, ours) in instead.items() if name.startswith("torch.distributed.") else ():
            if getattr(module, function, None) is torchs:
                setattr(module, function, ours)


def _metadata_of(schema: Any) -> Any:
    """What the operator of a schema gives, on fakes of the capture."""
    if schema.op is torch.ops.aten.equal.default:
        return None
    given = schema.op(*schema.gen_fake_args(), **schema.gen_fake_kwargs())
    if isinstance(given, torch.Tensor):
        return _metadata(given)
    if isinstance(given, (tuple, list)):
        made = [_metadata(item) if isinstance(item, torch.Tensor) else None for item in given]
        return tuple(made) if isinstance(given, tuple) else made
    return None


def _metadata(tensor: torch.Tensor) -> Any:
    kind: Any = importlib.import_module("torch.distributed.tensor._dtensor_spec").TensorMeta
    return kind(shape=tensor.shape, stride=tensor.stride(), dtype=tensor.dtype)


class Bound:
    """A function of torch with all arguments but the first, which is a tensor, under a name that torch.fx can write."""

    def __init__(self, function: Callable, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.function, self.arguments, self.keywords = function, arguments, keywords
        self.__name__ = self.__qualname__ = function.__name__
        self.__module__ = "pellucid.functions"

    def __call__(self, tensor: torch.Tensor) -> Any:
        return self.function(tensor, *self.arguments, **self.keywords)


def _group(name: Any) -> Any:
    return dist.distributed_c10d._resolve_process_group(name)


def _write(tensors: Iterable[torch.Tensor], seen: bool) -> None:
    """Writes to them, and keeps the values. `seen`: the collective moves their version counters; some do not."""
    for tensor in tensors:
        (tensor.detach() if seen else tensor.data).mul_(True)


def _first(seen: bool) -> Callable:
    def on_fakes(first: Any, *_: Any) -> None:
        _write(first if isinstance(first, (list, tuple)) else [first], seen)

    def of(collective: Callable) -> Callable:
        collective.on_fakes = on_fakes  # type: ignore[attr-defined]
        return collective

    return of


@_first(seen=False)
def all_reduce(tensor: torch.Tensor, op: str, group: str) -> None:
    dist.all_reduce(tensor, REDUCTIONS[op], _group(group))


@_first(seen=False)
def broadcast(tensor: torch.Tensor, src: int, group: str) -> None:
    dist.broadcast(tensor, src, _group(group))


@_first(seen=True)
def all_gather(tensors: list[torch.Tensor], tensor: torch.Tensor, group: str) -> None:
    dist.all_gather(tensors, tensor, _group(group))


@_first(seen=True)
def all_gather_single(output: torch.Tensor, tensor: torch.Tensor, group: str) -> None:
    dist.all_gather_single(output, tensor, _group(group))


@_first(seen=True)
def reduce_scatter_single(output: torch.Tensor, tensor: torch.Tensor, op: str, group: str) -> None:
    dist.reduce_scatter_single(output, tensor, REDUCTIONS[op], _group(group))


@_first(seen=False)
def all_to_all_single(
    output: torch.Tensor,
    tensor: torch.Tensor,
    output_sizes: list[int] | None,
    input_sizes: list[int] | None,
    group: str,
) -> None:
    dist.all_to_all_single(output, tensor, output_sizes, input_sizes, _group(group))
