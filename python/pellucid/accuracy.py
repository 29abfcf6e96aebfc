"""Whether two computations of the same thing agree, up to what their type can say: `pellucid.accuracy.same`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

__all__ = ["difference", "in_double", "rmse", "same"]

_TOLERANCE = 1e-3
_FEW = 1000  # elements: of fewer the mean error says less


def same(wanted: Any, got: Any, reference: Any = None, **options: Any) -> bool:
    """Whether `got` is `wanted` up to rounding. Arguments and errors are those of `difference`.

    Example:
        >>> same(torch.ones(2), torch.ones(2) + 1e-6)
        True
        >>> same(torch.ones(2), torch.ones(2, dtype=torch.float64))
        False
    """
    return difference(wanted, got, reference, **options) is None


def difference(
    wanted: Any,
    got: Any,
    reference: Any = None,
    *,
    tolerance: float = _TOLERANCE,
    equal_nan: bool = True,
    checks_dtype: bool = True,
    checks_stride: bool = False,
    ignores_integers: bool = False,
    place: str = "the result",
) -> str | None:
    """In what `got` is not `wanted`, in words; None: in nothing.

    Floats are the same if they are close (`torch.allclose` with `tolerance` for both of its bounds), or, with a reference of higher
    precision, if the error of `got` is at most twice that of `wanted` and a tenth of `tolerance` more (three times for
    half types and fewer than 1,000 elements). Ints and bools are equal or not.

    Args:
        wanted: tensors, numbers and others, in lists, tuples and dicts as they like.
        got: the same from elsewhere.
        reference: the same, computed in float64; None: there is none.
        tolerance: without unit; the relative and the absolute bound.
        equal_nan: NaN in both at the same place is no difference.
        checks_dtype: other dtypes are a difference.
        checks_stride: other strides are a difference.
        ignores_integers: tensors of ints and bools are not compared.
        place: what the difference is said of.

    Raises:
        ValueError: `tolerance` is negative.

    Example:
        >>> difference(torch.ones(2), torch.zeros(2))
        'the result: 2 of 2 elements differ, the largest by 1 (tolerance 0.001)'
    """
    if tolerance < 0:
        raise ValueError(f"tolerance must not be negative, got {tolerance}")
    comparing = _Comparing(tolerance, equal_nan, checks_dtype, checks_stride, ignores_integers)
    return comparing.difference(wanted, got, reference, place)


class _Comparing:
    def __init__(
        self, tolerance: float, equal_nan: bool, checks_dtype: bool, checks_stride: bool, ignores_integers: bool
    ) -> None:
        self._tolerance = tolerance
        self._equal_nan = equal_nan
        self._checks_dtype = checks_dtype
        self._checks_stride = checks_stride
        self._ignores_integers = ignores_integers

    def difference(self, wanted: Any, got: Any, reference: Any, place: str) -> str | None:
        if isinstance(wanted, torch.Tensor) and isinstance(got, torch.Tensor):
            with torch.no_grad():
                return self._of_tensors(wanted.detach(), got.detach(), reference, place)
        if isinstance(wanted, (list, tuple)) and isinstance(got, (list, tuple)):
            if len(wanted) != len(got):
                return f"{place} has {len(got)} elements instead of {len(wanted)}"
            return self._of_parts(wanted, got, reference, range(len(wanted)), place)
        if isinstance(wanted, dict) and isinstance(got, dict):
            if list(wanted) != list(got):
                return f"{place} has the keys {list(got)} instead of {list(wanted)}"
            return self._of_parts(wanted, got, reference, wanted, place)
        if type(wanted) is float and type(got) is float:
            wide = torch.tensor([wanted, got], dtype=torch.float64)
            return self.difference(wide[0], wide[1], None, place)
        return None if type(wanted) is type(got) and wanted == got else f"{place} is {got!r} instead of {wanted!r}"

    def _of_parts(self, wanted: Any, got: Any, reference: Any, keys: Any, place: str) -> str | None:
        for key in keys:
            part = None if reference is None else reference[key]
            found = self.difference(wanted[key], got[key], part, f"{place}[{key!r}]")
            if found is not None:
                return found
        return None

    def _of_tensors(self, wanted: torch.Tensor, got: torch.Tensor, reference: Any, place: str) -> str | None:
        facts: list[tuple[str, Any, Any]] = [("shape", tuple(wanted.shape), tuple(got.shape))]
        facts.append(("device", wanted.device, got.device))
        if self._checks_dtype:
            facts.append(("dtype", wanted.dtype, got.dtype))
        if self._checks_stride and wanted.layout is torch.strided:
            facts.append(("strides", wanted.stride(), got.stride()))
        for what, a, b in facts:
            if a != b:
                return f"{place} has the {what} {b} instead of {a}"
        wanted, got = _dense(wanted), _dense(got)
        if not (wanted.is_floating_point() or wanted.is_complex()):
            return self._of_integers(wanted, got, place)
        nan, other = wanted.isnan(), got.isnan()
        if not self._equal_nan and bool(nan.any()):
            return f"{place} has NaN, which is not equal to itself (equal_nan=False)"
        if not torch.equal(nan, other):
            return f"{place} has {int(other.sum())} NaN instead of {int(nan.sum())}, or at other places"
        wide = torch.complex128 if wanted.is_complex() else torch.float64
        wanted_wide, got_wide = wanted.to(wide), got.to(wide)
        if torch.allclose(wanted_wide, got_wide, rtol=self._tolerance, atol=self._tolerance, equal_nan=True):
            return None
        if (
            isinstance(reference, torch.Tensor)
            and reference.shape == wanted.shape
            and bool(wanted_wide[~nan].isfinite().all())
        ):
            return self._beside_reference(wanted, got, _dense(reference.detach()).to(wide), place)
        return self._in_numbers(wanted_wide, got_wide, place)

    def _of_integers(self, wanted: torch.Tensor, got: torch.Tensor, place: str) -> str | None:
        if self._ignores_integers or torch.equal(wanted, got.to(wanted.dtype)):
            return None
        return f"{place}: {int((wanted != got).sum())} of {wanted.numel()} elements ({wanted.dtype}) differ"

    def _beside_reference(
        self, wanted: torch.Tensor, got: torch.Tensor, reference: torch.Tensor, place: str
    ) -> str | None:
        factor = 3.0 if wanted.dtype in (torch.float16, torch.bfloat16) or wanted.numel() < _FEW else 2.0
        error, eager_error = rmse(reference, got), rmse(reference, wanted)
        if error <= factor * eager_error + self._tolerance / 10:
            return None
        return (
            f"{place}: the root mean square error beside float64 is {error:.3g}, that of the eager run {eager_error:.3g} "
            f"({factor:g} times as much and {self._tolerance / 10:g} more is allowed)"
        )

    def _in_numbers(self, wanted: torch.Tensor, got: torch.Tensor, place: str) -> str:
        differ = ~torch.isclose(wanted, got, rtol=self._tolerance, atol=self._tolerance, equal_nan=True)
        largest = float((wanted - got)[differ].abs().max())
        return (
            f"{place}: {int(differ.sum())} of {wanted.numel()} elements differ, the largest by {largest:.3g} "
            f"(tolerance {self._tolerance:g})"
        )


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_quantized:
        return tensor.dequantize()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def rmse(reference: torch.Tensor, value: torch.Tensor) -> float:
    """The root mean square of the difference, NaN at equal places left out; 0 of no elements.

    Args:
        reference: in float64 (or complex128).
        value: of the same shape.

    Example:
        >>> rmse(torch.zeros(4, dtype=torch.float64), torch.ones(4))
        1.0
    """
    error = (reference - value.to(reference.dtype)).abs()
    error = error[~error.isnan()]
    return math.sqrt(float((error * error).mean())) if error.numel() else 0.0


_DOUBLE = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64}
_CASTS = ("float", "half", "bfloat16")


def in_double(gm: GraphModule, inputs: list[Any]) -> tuple[GraphModule, list[Any]]:
    """A graph and its inputs in float64: floating inputs, dtype arguments and casts. Ints and bools stay.

    Args:
        gm: stays as it is.
        inputs: its inputs; what requires gradients does so in its copy, which is a leaf.

    Example:
        >>> reference = graph(*inputs) for graph, inputs in [in_double(gm, [torch.ones(3)])]
    """
    made = GraphModule(gm, type(gm.graph)())
    values: dict[Node, Node] = {}
    output = made.graph.graph_copy(gm.graph, values)
    if output is not None:
        made.graph.output(output)
    for node in made.graph.nodes:
        node.args = map_aggregate(node.args, _doubled)
        node.kwargs = map_aggregate(node.kwargs, _doubled)
        if node.op == "call_method" and node.target in _CASTS:
            node.target = "double"
    made.double()
    made.recompile()
    return made, [_double_input(value) for value in inputs]


def _doubled(value: Any) -> Any:
    return _DOUBLE.get(value, value) if isinstance(value, torch.dtype) else value


def _double_input(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype not in _DOUBLE:
        return value
    return value.detach().double().requires_grad_(value.requires_grad)
