"""The inputs of a graph as AOTAutograd takes them: what torch shall know of their sizes, and fakes with open sizes."""

from __future__ import annotations

import dataclasses
from typing import Any

import sympy
import torch
from torch._dynamo.source import AttrSource, TensorProperty, TensorPropertySource
from torch._guards import Source
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, StatefulSymbolicContext, SubclassSymbolicContext
from torch.nested._internal import nested_tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from pellucid.backends.open_numbers import Symbols


def input_context(tensor: torch.Tensor, source: Source) -> StatefulSymbolicContext:
    """The same of a tensor around tensors: of each of its parts, too. Torch takes the context of a tensor for its
    gradient, which may be one around tensors where the tensor itself is none."""
    context = static_context(tensor, source)
    gradient = tensor.grad if tensor.is_leaf else None
    if not is_traceable_wrapper_subclass(tensor):
        if gradient is None or not is_traceable_wrapper_subclass(gradient):
            return context
        tensor = gradient
    facts = {field.name: getattr(context, field.name) for field in dataclasses.fields(context)}
    parts = {name: getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]}
    return SubclassSymbolicContext(
        **facts,
        inner_contexts={
            name: input_context(part, AttrSource(source, name))
            for name, part in parts.items()
            if isinstance(part, torch.Tensor)  # a mesh of processes is none
        },
    )


def static_context(tensor: torch.Tensor, source: Source) -> StatefulSymbolicContext:
    """Every size and stride is a constant; a view says the same of its base."""
    base = tensor._base if tensor._is_view() else None
    return StatefulSymbolicContext(
        dynamic_sizes=[DimDynamic.STATIC if type(size) is int else DimDynamic.DYNAMIC for size in tensor.shape],
        dynamic_strides=[DimDynamic.INFER_STRIDE] * tensor.dim(),
        constraint_sizes=[None] * tensor.dim(),
        constraint_strides=[None] * tensor.dim(),
        view_base_context=None if base is None else static_context(base, source),
        tensor_source=source,
        shape_env_to_source_to_symbol_cache={},
    )


class OpenInputs:
    """Fakes of the inputs of one graph, with the layouts that the graph's fakes have. Torch finds them by the inputs."""

    def __init__(self, mode: FakeTensorMode, symbols: Symbols) -> None:
        self._mode = mode
        self._symbols = symbols
        self._ragged: dict[int, Any] = {}  # a symbol for each nested int, however many inputs have it: that is guarded
        self.any_jagged = False

    def fake_of(self, tensor: torch.Tensor, fake: torch.Tensor, source: Source) -> torch.Tensor | None:
        """None: it is static, and left to torch."""
        if isinstance(tensor, nested_tensor.NestedTensor):
            self.any_jagged = True
            return self._jagged(tensor, fake, source)
        if is_traceable_wrapper_subclass(tensor):
            return self._around_parts(tensor, fake, source)
        made: Any = open_input(self._mode, self._symbols, tensor, fake, source)
        number = nested_tensor._tensor_symint_registry.get(tensor)  # it may be the offsets of nested tensors
        if made is not None and number is not None:
            made.nested_int_memo = self._ragged_size(number)
        return made

    def _ragged_size(self, nested_int: torch.SymInt) -> Any:
        number = nested_int.node.nested_int()
        if number not in self._ragged:
            self._ragged[number] = self._mode.create_symbolic_nested_int(nt_tensor_id=number)
        return self._ragged[number]

    def _jagged(self, tensor: Any, fake: Any, source: Source) -> torch.Tensor:
        """The parts are no inputs: one that is an input beside has a fake of its own there."""
        names, facts = tensor.__tensor_flatten__()
        parts = {
            name: self._part(getattr(tensor, name).detach(), getattr(fake, name), AttrSource(source, name))
            for name in names
        }
        size = list(tensor._size)
        size[tensor._ragged_idx] = self._ragged_size(size[tensor._ragged_idx])
        return self._joined(tensor, parts, facts, size, None)

    def _around_parts(self, tensor: Any, fake: Any, source: Source) -> torch.Tensor | None:
        size, stride = [[self._symbols.value(length) for length in layout] for layout in (fake.size(), fake.stride())]
        names, facts = tensor.__tensor_flatten__()
        parts = {name: getattr(tensor, name) for name in names}
        open_parts = {
            name: made
            for name, part in parts.items()
            if isinstance(part, torch.Tensor)  # a mesh of processes is none
            and (made := self.fake_of(part, getattr(fake, name), AttrSource(source, name))) is not None
        }
        if not open_parts and all(isinstance(length, int) for length in (*size, *stride)):
            return None
        for name, part in parts.items():
            if isinstance(part, torch.Tensor):
                parts[name] = open_parts[name] if name in open_parts else self._closed(part, AttrSource(source, name))
        return self._joined(tensor, parts, facts, torch.Size(size), tuple(stride))

    def _joined(self, tensor: Any, parts: dict[str, Any], facts: Any, size: Any, stride: Any) -> torch.Tensor:
        """As `tensor` is made of its parts, of these fakes."""
        converter = self._mode.fake_tensor_converter
        with self._mode, torch.enable_grad():
            made = type(tensor).__tensor_unflatten__(parts, facts, size, stride)
            if tensor.requires_grad:
                made.requires_grad_()
                if not tensor.is_leaf:
                    made = converter.meta_converter._backward_error(made)
        converter.set_tensor_memo(tensor, made)
        return made

    def _part(self, part: torch.Tensor, fake: torch.Tensor, source: Source) -> torch.Tensor:
        made = open_input(self._mode, self._symbols, part, fake, source)
        return self._closed(part, source) if made is None else made

    def _closed(self, part: torch.Tensor, source: Source) -> torch.Tensor:
        return self._mode.from_tensor(part, symbolic_context=input_context(part, source))


def open_input(
    mode: FakeTensorMode, symbols: Symbols, tensor: torch.Tensor, fake: torch.Tensor, source: Source
) -> FakeTensor | None:
    """The fake that torch has of an input gets the layout of the graph's fake. None: it is static, and left to torch."""
    sizes, strides = [[symbols.value(length) for length in layout] for layout in (fake.size(), fake.stride())]
    if all(isinstance(length, int) for length in (*sizes, *strides)):
        return None
    cache: dict[str, Any] = {
        TensorPropertySource(source, TensorProperty.STORAGE_OFFSET).name: sympy.Integer(tensor.storage_offset())
    }
    for kind, layout in ((TensorProperty.SIZE, sizes), (TensorProperty.STRIDE, strides)):
        for i, length in enumerate(layout):
            cache[TensorPropertySource(source, kind, i).name] = symbols.expression(length)
    context = StatefulSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC] * tensor.dim(),
        dynamic_strides=[DimDynamic.DYNAMIC] * tensor.dim(),
        constraint_sizes=[None] * tensor.dim(),
        constraint_strides=[None] * tensor.dim(),
        view_base_context=None,
        tensor_source=source,
        shape_env_to_source_to_symbol_cache={id(symbols.env): cache},
    )
    # What a view is a view of has sizes of its own, at the next call others, and nothing is compiled by them.
    alone = tensor.detach()
    made: Any = mode.from_tensor(alone, symbolic_context=context, source=source)
    if tensor.requires_grad:
        made.requires_grad_()
        if not tensor.is_leaf:
            with mode, torch.enable_grad():
                made = torch.ops.aten.alias.default(made)  # view_as() of no elements has strides of its own
    for now, wanted in zip((*made.size(), *made.stride()), (*sizes, *strides), strict=True):
        if not bool(now == wanted):
            raise AssertionError(f"pellucid: torch gives {source.name} another layout")
    mode.fake_tensor_converter.set_tensor_memo(tensor, made)
    return made
