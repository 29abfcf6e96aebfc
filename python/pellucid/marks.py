"""What a program can say about the sizes of its tensors before it calls compiled code.

The marks are attributes of the tensor, the same that torch._dynamo.mark_dynamic and its like leave: either work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = ["mark_dynamic", "mark_static", "mark_unbacked", "maybe_mark_dynamic"]


@dataclass(frozen=True)
class _Range:
    dim: int
    min: int | None
    max: int | None


def _dims(tensor: torch.Tensor, index: int | Sequence[int] | None) -> list[int]:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a tensor, got {type(tensor).__name__}")
    given = range(tensor.dim()) if index is None else [index] if isinstance(index, int) else list(index)
    for dim in given:
        if not -tensor.dim() <= dim < tensor.dim():
            raise IndexError(f"dimension {dim} of a tensor with {tensor.dim()} dimensions")
    return [dim % tensor.dim() for dim in given]


def _with_parts(mark: Callable) -> Callable:
    """Of a tensor around tensors it marks those with as many dimensions as well, as torch does."""

    @functools.wraps(mark)
    def marked(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        mark(tensor, *args, **kwargs)
        names: list[str] = tensor.__tensor_flatten__()[0] if is_traceable_wrapper_subclass(tensor) else []
        for part in (getattr(tensor, name) for name in names):
            if isinstance(part, torch.Tensor) and part.dim() == tensor.dim():
                marked(part, *args, **kwargs)

    return marked


def _mark(tensor: torch.Tensor, attribute: str, dims: list[int]) -> None:
    marks = vars(tensor)
    marks[attribute] = marks.get(attribute, set()) | set(dims)
    marks["_has_dynamo_dim_marking"] = True


def _check_range(least: int | None, most: int | None) -> None:
    if least is not None and most is not None and least > most:
        raise ValueError(f"min={least} is larger than max={most}")


@_with_parts
def mark_dynamic(
    tensor: torch.Tensor, index: int | Sequence[int], *, min: int | None = None, max: int | None = None
) -> None:
    """These sizes of the tensor change between calls: they are open in the first code that is captured.

    Sizes of 0 and 1, and those outside of the range, get code of their own.

    Args:
        tensor: an argument of compiled code, or something that it reads.
        index: a dimension or several, also counted from the end.
        min: the least size, in elements.
        max: the largest size, in elements.

    Raises:
        TypeError: `tensor` is none.
        IndexError: it has no such dimension.
        ValueError: `min` is larger than `max`.
        ConstraintViolation: at a call, when the code that is captured works for one size alone.

    Example:
        >>> pellucid.mark_dynamic(x, 0, min=2, max=512)
        >>> f(x)
    """
    _check_range(min, max)
    dims = _dims(tensor, index)
    _mark(tensor, "_dynamo_dynamic_indices", dims)
    kept = {known for known in vars(tensor).get("_dynamo_dynamic_range", set()) if known.dim not in dims}
    vars(tensor)["_dynamo_dynamic_range"] = kept | {_Range(dim, min, max) for dim in dims}


@_with_parts
def maybe_mark_dynamic(tensor: torch.Tensor, index: int | Sequence[int]) -> None:
    """As `mark_dynamic`, but a size that has to be a constant becomes one without an error.

    Raises:
        TypeError: `tensor` is none.
        IndexError: it has no such dimension.

    Example:
        >>> pellucid.maybe_mark_dynamic(x, 0)
    """
    _mark(tensor, "_dynamo_weak_dynamic_indices", _dims(tensor, index))


@_with_parts
def mark_unbacked(
    tensor: torch.Tensor,
    index: int | Sequence[int],
    *,
    strict: bool = False,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """As `maybe_mark_dynamic`, and the code that is captured is for sizes of 0 and 1 too.

    It needs a size of two or more at its first call. What the code decides by the size (a branch of the program, an
    operator that takes a size of 1 for a broadcast) it guards, so that a size that would decide otherwise gets code of its
    own. A backend that goes through AOTAutograd usually asks whether the size is 0 or 1, and these get code of their own.

    Args:
        tensor: an argument of compiled code, or something that it reads.
        index: a dimension or several, also counted from the end.
        strict: code that works for one size alone is an error, as with `mark_dynamic`.
        min: the least size, in elements.
        max: the largest size, in elements.

    Raises:
        TypeError: `tensor` is none.
        IndexError: it has no such dimension.
        ValueError: `min` is larger than `max`.
        ConstraintViolation: at a call, when `strict`, and the code that is captured works for one size alone.

    Example:
        >>> pellucid.mark_unbacked(x, 0)
        >>> f(x), f(x[:1]), f(x[:0])
    """
    _check_range(min, max)
    dims = _dims(tensor, index)
    _mark(tensor, "_dynamo_strict_unbacked_indices" if strict else "_dynamo_unbacked_indices", dims)
    if min is not None or max is not None:
        vars(tensor).setdefault("_dynamo_unbacked_bounds", {}).update(dict.fromkeys(dims, (min, max)))


@_with_parts
def mark_static(tensor: torch.Tensor, index: int | Sequence[int] | None = None) -> None:
    """These sizes of the tensor (None: all) are constants: another size gets code of its own.

    Raises:
        TypeError: `tensor` is none.
        IndexError: it has no such dimension.

    Example:
        >>> pellucid.mark_static(x, 1)
    """
    _mark(tensor, "_dynamo_static_indices", _dims(tensor, index))
