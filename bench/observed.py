"""All that a call gives and leaves as flat rows, by which an eager run and a compiled one are compared.

A row is a path and a fact: of a tensor its class, dtype, sizes, strides, `requires_grad`, what it shares memory with,
its values and, of a leaf, its gradient; of other objects their type and what they hold.
"""

from __future__ import annotations

import dataclasses
import random
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

_ATOMS = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, range, slice)


@dataclass
class Row:
    path: str
    fact: tuple
    values: torch.Tensor | None = None


@dataclass
class Reader:
    """Reads objects into rows; an object that was met before is told by the path where."""

    met: dict[int, str] = field(default_factory=dict)
    memory: dict[int, str] = field(default_factory=dict)
    alive: list = field(default_factory=list)

    def rows(self, value: Any, path: str) -> Iterator[Row]:
        if isinstance(value, _ATOMS):
            # A float may be the `.item()` of a tensor, which backends may round otherwise.
            if type(value) is float:
                yield Row(path, ("float",), torch.tensor(value, dtype=torch.float64))
            else:
                yield Row(path, (type(value).__name__, repr(value)))
            return
        # Equal tuples of constants may be one object or several: Python's compiler decides that too.
        if id(value) in self.met and not _is_constant(value):
            yield Row(path, ("again", self.met[id(value)]))
            return
        self.met[id(value)] = path
        self.alive.append(value)
        yield from self._contents(value, path)

    def _contents(self, value: Any, path: str) -> Iterator[Row]:
        name = type(value).__qualname__
        if isinstance(value, torch.Tensor):
            yield from self._tensor(value, path)
        elif isinstance(value, numpy.ndarray | numpy.generic):
            yield Row(path, (name, str(value.dtype), value.shape, repr(value.tolist())))
        elif isinstance(value, BaseException):
            yield Row(path, (name, _one_line(value)))
            if value.__cause__ is not None:
                yield from self.rows(value.__cause__, f"{path}.__cause__")
        elif isinstance(value, Mapping):
            yield Row(path, (name, tuple(map(_key_name, value))))
            for number, (key, item) in enumerate(value.items()):
                yield from self.rows(item, f"{path}[{key!r}]" if isinstance(key, _ATOMS) else f"{path}[{number}]")
        elif isinstance(value, set | frozenset):
            yield Row(path, (name, tuple(sorted(map(_key_name, value)))))
        elif isinstance(value, list | tuple):
            yield Row(path, (name, len(value)))
            for number, item in enumerate(value):
                yield from self.rows(item, f"{path}[{number}]")
        elif isinstance(value, torch.nn.Module):
            yield Row(path, (name, value.training))
            for key, item in [*value.named_parameters(), *value.named_buffers()]:
                yield from self.rows(item, f"{path}.{key}")
        elif isinstance(value, torch.optim.Optimizer):
            state = value.state_dict()
            yield from self.rows({"state": state["state"], "groups": state["param_groups"]}, path)
        elif isinstance(value, torch.optim.lr_scheduler.LRScheduler):
            yield from self.rows(value.state_dict(), path)
        elif isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType | type):
            yield Row(path, (name, value.__qualname__))
        elif dataclasses.is_dataclass(value) or hasattr(value, "__dict__"):
            yield Row(path, (name,))
            for key, item in vars(value).items():
                yield from self.rows(item, f"{path}.{key}")
        else:
            yield Row(path, (name,))

    def _tensor(self, value: torch.Tensor, path: str) -> Iterator[Row]:
        name = type(value).__qualname__
        facts = (name, str(value.dtype), str(value.layout), value.requires_grad, value.is_leaf)
        if isinstance(value, torch.nested._internal.nested_tensor.NestedTensor):
            yield Row(path, facts)
            yield from self.rows([value.values(), value.offsets()], f"{path}.parts")
        elif hasattr(type(value), "__tensor_flatten__"):
            names, context = value.__tensor_flatten__()
            yield Row(path, (*facts, tuple(value.shape), repr(context)))
            for inner in names:
                yield from self.rows(getattr(value, inner), f"{path}.{inner}")
        else:
            with torch._C.DisableTorchFunctionSubclass():
                yield self._plain_tensor(value, facts, path)
                attributes = vars(value) if type(value) not in (torch.Tensor, torch.nn.Parameter) else {}
                for key, item in attributes.items():
                    yield from self.rows(item, f"{path}.{key}")
        if value.is_leaf and value.requires_grad:
            with torch._C.DisableTorchFunctionSubclass():
                grad = value.grad
            yield from self.rows(grad, f"{path}.grad")

    def _plain_tensor(self, value: torch.Tensor, facts: tuple, path: str) -> Row:
        if value.is_quantized:
            return Row(path, (*facts, tuple(value.shape), value.q_scale()), value.int_repr().clone())
        if value.layout is not torch.strided:
            return Row(path, (*facts, tuple(value.shape)), value.detach().to_dense())
        plain = value.detach().as_subclass(torch.Tensor)
        shares = None
        if value.numel():
            shares = self.memory.setdefault(value.untyped_storage().data_ptr(), path)
        return Row(path, (*facts, tuple(value.shape), value.stride(), shares), plain.clone())


def _is_constant(value: Any) -> bool:
    return isinstance(value, _ATOMS) or (isinstance(value, tuple) and all(map(_is_constant, value)))


def _key_name(key: Any) -> str:
    return repr(key) if isinstance(key, _ATOMS) else type(key).__name__


def _one_line(error: BaseException) -> str:
    return str(error).split("\n")[0]


def random_states() -> dict[str, int]:
    """The states of all random generators, as numbers."""
    kind, keys, position, *rest = numpy.random.get_state()
    return {
        "torch": hash(torch.get_rng_state().numpy().tobytes()),
        "random": hash(random.getstate()),
        "numpy": hash((kind, keys.tobytes(), position, *rest)),
    }


def seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number)


def difference(want: list[Row], got: list[Row], tolerance: float) -> str:
    """The first difference in words, or "". `tolerance` 0: the values are the same bits, and the strides of gradients count."""
    for one, other in zip(want, got):
        if one.path != other.path:
            return f"{one.path} is missing, {other.path} is there"
        a, b = one.fact, other.fact
        if tolerance and one.path.endswith(".grad") and len(a) == len(b) == 8:
            a, b = a[:6], b[:6]  # torch promises compilers no strides of gradients
        if a != b:
            return f"{one.path}: eager {one.fact}, compiled {other.fact}"
        if one.values is not None and not _equal(one.values, other.values, tolerance):
            return f"{one.path}: eager {_shown(one.values)}, compiled {_shown(other.values)}"
    if len(want) != len(got):
        longer = want if len(want) > len(got) else got
        which = "compiled has no" if longer is want else "eager has no"
        return f"{which} {longer[min(len(want), len(got))].path}"
    return ""


def _equal(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not tolerance or not (a.is_floating_point() or a.is_complex()):
        return bool(torch.equal(a, b)) or bool(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True))
    return bool(torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def _shown(values: torch.Tensor) -> str:
    flat = values.flatten()
    return str([round(float(x), 6) if not flat.is_complex() else complex(x) for x in flat[:6]])
