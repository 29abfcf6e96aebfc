"""What AOTAutograd and Inductor look for around a graph that comes from a capturing front end.

A ShapeEnv inside the fake mode inside a TracingContext (without one their caches are off), a symbolic context for each input (without
one a tensor becomes fully symbolic), and the compile id.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._guards import CompileContext, CompileId, Source, TracingContext, compile_context, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatefulSymbolicContext

from pellucid.backends import decompositions

_next_frame_id = itertools.count()


class _Context(TracingContext):
    """While AOTAutograd traces it patches classes and module globals of torch for the whole process: one thread at a time, torch.compile's
    too. It starts by asking for the fake mode, so that is where the lock is taken: backends that trace nothing run side by side.
    """

    def __init__(self, fake_mode: FakeTensorMode, held: contextlib.ExitStack, share_memory: bool) -> None:
        self._held: contextlib.ExitStack | None = None
        self._share_memory = share_memory
        super().__init__(fake_mode)
        self._runs_before = _aot_runs()
        self._held = held

    @property
    def fake_mode(self) -> FakeTensorMode:
        if self._held is not None:
            held, self._held = self._held, None
            held.enter_context(compile_lock)
            held.enter_context(decompositions.faithful_decompositions())
            if self._share_memory:
                # AOTAutograd puts a base in the place of inputs that share memory when one is written, and replays on
                # it the views that the program took of an input (torch 2.13: `x += 1; return y.expand(2, 3)` for the
                # inputs x and y = x[0]). Without the replay it takes strides and offset.
                held.enter_context(functorch_config.patch(view_replay_for_aliased_outputs=False))
        return self._fake_mode

    @fake_mode.setter
    def fake_mode(self, mode: FakeTensorMode) -> None:
        self._fake_mode = mode

    def over(self) -> None:
        """The backend is back: a backward that is compiled later asks without the lock, as under torch.compile. Weak references to the
        inputs go, of which torch.utils.swap_tensors allows none."""
        self._held = None
        self.tensor_to_context.clear()
        describer = self._fake_mode.fake_tensor_converter.meta_converter.describer
        describer.lookup_tensor.clear()
        describer.lookup_storage.clear()

    def used_aot(self) -> bool:
        """AOTAutograd ran: it made fakes of the inputs, or found a result in its cache."""
        return bool(self._fake_mode.fake_tensor_converter.tensor_memo) or _aot_runs() != self._runs_before


def _aot_runs() -> int:
    aot = counters["aot_autograd"]
    return aot["total"] + aot["autograd_cache_hit"]


def overlap_of(tensors: Sequence[Any]) -> tuple:
    """(index, index of the first one with this storage, offset in it) for each tensor that shares its storage with another."""
    groups: dict[int, list[int]] = {}
    for i, tensor in enumerate(tensors):
        if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
            groups.setdefault(tensor.untyped_storage()._cdata, []).append(i)
    return tuple(
        (i, group[0], tensors[i].storage_offset()) for group in groups.values() if len(group) > 1 for i in group
    )


@contextlib.contextmanager
def tracing_context(
    gm: GraphModule, example_inputs: Sequence[Any], *, replace_fakes: bool = True
) -> Iterator[_Context]:
    if "dynamo_compile_id" not in gm.meta:
        gm.meta["dynamo_compile_id"] = CompileId(frame_id=next(_next_frame_id), frame_compile_id=0)
    fake_mode = FakeTensorMode(shape_env=ShapeEnv())
    held = contextlib.ExitStack()
    overlap = overlap_of(example_inputs)
    attributes = [*gm.parameters(), *gm.buffers()]
    context = _Context(fake_mode, held, share_memory=bool(overlap_of([*attributes, *example_inputs])))
    for node, example in zip(gm.graph.find_nodes(op="placeholder"), example_inputs):
        if isinstance(example, torch.Tensor):
            context.tensor_to_context[example] = static_context(example, node._dynamo_source)
    gm._decompositions = decompositions.VERSION  # type: ignore[assignment]
    # AOTAutograd's cache would give a result for another overlap without this.
    gm._input_overlap = overlap  # type: ignore[assignment]
    if replace_fakes:
        _replace_example_values(gm, fake_mode)
    with held, compile_context(CompileContext(gm.meta["dynamo_compile_id"])), tracing(context):
        try:
            yield context
        finally:
            context.over()


def static_context(tensor: torch.Tensor, source: Source) -> StatefulSymbolicContext:
    """Every size and stride is a constant; a view says the same of its base."""
    base = tensor._base if tensor._is_view() else None
    return StatefulSymbolicContext(
        dynamic_sizes=[DimDynamic.STATIC] * tensor.dim(),
        dynamic_strides=[DimDynamic.INFER_STRIDE] * tensor.dim(),
        constraint_sizes=[None] * tensor.dim(),
        constraint_strides=[None] * tensor.dim(),
        view_base_context=None if base is None else static_context(base, source),
        tensor_source=source,
        shape_env_to_source_to_symbol_cache={},
    )


def _replace_example_values(gm: GraphModule, fake_mode: FakeTensorMode) -> None:
    """Our fakes mean nothing to torch's passes: theirs with the same sizes, strides, type and device."""
    with fake_mode:
        for node in gm.graph.nodes:
            if "example_value" in node.meta:
                node.meta["example_value"] = torch.utils._pytree.tree_map(_as_torch_fake, node.meta["example_value"])


def _as_torch_fake(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)
