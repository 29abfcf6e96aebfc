"""numpy in graphs for backends that compile: of each function of numpy, what torch computes in its place.

A row is there where torch gives what numpy gives: the same integers, truths and dtypes, floats but for their last bits.
What numpy gives is asked of numpy itself (pellucid._numpy), and what a row makes has to agree with that in dtype, shape
and strides; where it does not, or where there is no row, the call is a graph break. No rows: where the sign, the order
of NaNs or of equal elements, or what does not fit the result differs (integer division, remainders, sorting, casts of
floats to integers), and whatever writes to an array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from pellucid import _numpy
from pellucid._numpy import Unsupported

_np: Any = _numpy.np if _numpy.AVAILABLE else None

_DTYPES = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float32": torch.float32,
    "float64": torch.float64,
    "complex64": torch.complex64,
    "complex128": torch.complex128,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class Call:
    """One call of torch; among the arguments there may be others."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Any, *args: Any, **kwargs: Any) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs


def _dtype(array_dtype: Any) -> torch.dtype:
    found = _DTYPES.get(array_dtype.name)
    if found is None:
        raise Unsupported(f"an array of dtype {array_dtype}")
    return found


def _of_numpy(tensor: torch.Tensor) -> Any:
    return _np.dtype(_NAMES[tensor.dtype])


def _is_array(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _cast(value: Any, dtype: Any) -> Any:
    """A tensor with this dtype of numpy; a number as numpy takes it beside arrays of it."""
    wanted = _dtype(dtype)
    if _is_array(value):
        return value if value.dtype == wanted else Call(torch.Tensor.to, value, wanted)
    if type(value) is torch.SymInt:
        if dtype.name not in ("int64", "float32", "float64"):
            raise Unsupported(f"a number that changes beside {dtype}")
        return value
    return dtype.type(value).item()


def _whole(value: Any) -> int:
    if isinstance(value, torch.Tensor):  # torch would ask for its element
        raise Unsupported("an argument is an array")
    return operator.index(value)


def _index(value: Any) -> Any:
    """An int; one that changes as torch has it."""
    return value if type(value) is torch.SymInt else _whole(value)


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    if isinstance(value, _np.generic):
        return value.item()
    raise Unsupported(f"an argument is a {type(value).__name__}")


def _no_more(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value is not None and value is not _np._NoValue:
            raise Unsupported(f"the argument {name}")


# ---- functions of each element

# What torch computes, and the kinds of dtypes in which numpy computes that agree with it.
_UFUNCS: dict[str, tuple[Any, str]] = {
    "add": (torch.add, "biuf"),
    "subtract": (torch.sub, "iuf"),
    "multiply": (torch.mul, "biuf"),
    "divide": (torch.div, "f"),
    "negative": (torch.neg, "if"),
    "positive": (torch.positive, "iuf"),
    "absolute": (torch.abs, "iuf"),
    "fabs": (torch.abs, "f"),
    "sqrt": (torch.sqrt, "f"),
    "square": (torch.square, "iuf"),
    "reciprocal": (torch.reciprocal, "f"),
    "exp": (torch.exp, "f"),
    "exp2": (torch.exp2, "f"),
    "expm1": (torch.expm1, "f"),
    "log": (torch.log, "f"),
    "log2": (torch.log2, "f"),
    "log10": (torch.log10, "f"),
    "log1p": (torch.log1p, "f"),
    "sin": (torch.sin, "f"),
    "cos": (torch.cos, "f"),
    "tan": (torch.tan, "f"),
    "arcsin": (torch.asin, "f"),
    "arccos": (torch.acos, "f"),
    "arctan": (torch.atan, "f"),
    "sinh": (torch.sinh, "f"),
    "cosh": (torch.cosh, "f"),
    "tanh": (torch.tanh, "f"),
    "arcsinh": (torch.asinh, "f"),
    "arccosh": (torch.acosh, "f"),
    "arctanh": (torch.atanh, "f"),
    "arctan2": (torch.atan2, "f"),
    "hypot": (torch.hypot, "f"),
    "copysign": (torch.copysign, "f"),
    "deg2rad": (torch.deg2rad, "f"),
    "rad2deg": (torch.rad2deg, "f"),
    "radians": (torch.deg2rad, "f"),
    "degrees": (torch.rad2deg, "f"),
    "power": (torch.pow, "f"),
    "float_power": (torch.pow, "f"),
    "floor": (torch.floor, "f"),
    "ceil": (torch.ceil, "f"),
    "trunc": (torch.trunc, "f"),
    "rint": (torch.round, "f"),
    "maximum": (torch.maximum, "biuf"),
    "minimum": (torch.minimum, "biuf"),
    "fmax": (torch.fmax, "f"),
    "fmin": (torch.fmin, "f"),
    "equal": (torch.eq, "biuf"),
    "not_equal": (torch.ne, "biuf"),
    "less": (torch.lt, "biuf"),
    "less_equal": (torch.le, "biuf"),
    "greater": (torch.gt, "biuf"),
    "greater_equal": (torch.ge, "biuf"),
    "logical_and": (torch.logical_and, "biuf"),
    "logical_or": (torch.logical_or, "biuf"),
    "logical_xor": (torch.logical_xor, "biuf"),
    "logical_not": (torch.logical_not, "biuf"),
    "bitwise_and": (torch.bitwise_and, "biu"),
    "bitwise_or": (torch.bitwise_or, "biu"),
    "bitwise_xor": (torch.bitwise_xor, "biu"),
    "invert": (torch.bitwise_not, "biu"),
    "isnan": (torch.isnan, "f"),
    "isinf": (torch.isinf, "f"),
    "isfinite": (torch.isfinite, "f"),
    "signbit": (torch.signbit, "f"),
}
# Those of which torch has no form with a number in the place of a tensor.
_OF_TENSORS = frozenset(
    {torch.maximum, torch.minimum, torch.fmax, torch.fmin, torch.atan2, torch.hypot, torch.logical_and}
    | {torch.logical_or, torch.logical_xor, torch.copysign}
)
_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "pow": "power",
    "neg": "negative",
    "pos": "positive",
    "abs": "absolute",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
    "invert": "invert",
}
_METHOD_OPERATORS = {"__abs__": "absolute", "__neg__": "negative", "__invert__": "invert", "__pos__": "positive"}


def _of_ufunc(function: Any, operands: tuple[Any, ...]) -> Call:
    row = _UFUNCS.get(function.__name__)
    if row is None or function.nout != 1 or len(operands) != function.nin:
        raise Unsupported("torch has nothing of the kind")
    kinds: list[Any] = [
        _of_numpy(value) if _is_array(value) else value.dtype if isinstance(value, _np.generic) else type(value)
        for value in operands
    ]
    # bool is no weak type in numpy's eyes
    kinds = [_np.dtype(bool) if kind is bool else int if kind is torch.SymInt else kind for kind in kinds]
    loop = function.resolve_dtypes((*kinds, None))[:-1]
    if any(dtype.kind not in row[1] for dtype in loop):
        raise Unsupported(f"torch computes otherwise with {', '.join(map(str, loop))}")
    values = [_cast(value, dtype) for value, dtype in zip(operands, loop, strict=True)]
    if row[0] in _OF_TENSORS:
        values = [
            value
            if _is_array(value) or isinstance(value, Call)
            else Call(torch.full, (), value, dtype=_dtype(dtype), device="cpu")
            for value, dtype in zip(values, loop, strict=True)
        ]
    elif not (_is_array(values[0]) or isinstance(values[0], Call)):
        values[0] = Call(torch.full, (), values[0], dtype=_dtype(loop[0]), device="cpu")
    return Call(row[0], *values)


# ---- reductions


def _axes(array: torch.Tensor, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(array.ndim))
    return tuple(_whole(one) for one in axis) if isinstance(axis, tuple) else (_whole(axis),)


def _of_array(array: Any) -> torch.Tensor:
    if not _is_array(array):
        raise Unsupported("it is about no array")
    return array


def _reduction(function: Callable[..., Call]) -> Callable[..., Call]:
    def row(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **more: Any) -> Call:
        _no_more({"dtype": dtype, "out": out, **more})
        return function(_of_array(a), _axes(a, axis), keepdims is True)

    return row


def _reduction_without_dtype(function: Callable[..., Call]) -> Callable[..., Call]:
    def row(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **more: Any) -> Call:
        _no_more({"out": out, **more})
        return function(_of_array(a), _axes(a, axis), keepdims is True)

    return row


def _sum(a: torch.Tensor, axes: tuple[int, ...], keepdims: bool) -> Call:
    return Call(torch.sum, a, axes, keepdims)


def _as_float(a: torch.Tensor) -> Any:
    return a if a.dtype.is_floating_point else Call(torch.Tensor.to, a, torch.float64)


def _mean(a: torch.Tensor, axes: tuple[int, ...], keepdims: bool) -> Call:
    return Call(torch.mean, _as_float(a), axes, keepdims)


def _amax(a: torch.Tensor, axes: tuple[int, ...], keepdims: bool) -> Call:
    return Call(torch.amax, a, axes, keepdims)


def _amin(a: torch.Tensor, axes: tuple[int, ...], keepdims: bool) -> Call:
    return Call(torch.amin, a, axes, keepdims)


def _ptp(a: torch.Tensor, axes: tuple[int, ...], keepdims: bool) -> Call:
    return Call(torch.sub, _amax(a, axes, keepdims), _amin(a, axes, keepdims))


def _any(a: torch.Tensor, axes: tuple[int, ...], keepdims: bool) -> Call:
    return Call(torch.any, Call(torch.ne, a, 0), axes, keepdims) if axes else Call(torch.ne, a, 0)


def _all(a: torch.Tensor, axes: tuple[int, ...], keepdims: bool) -> Call:
    return Call(torch.all, Call(torch.ne, a, 0), axes, keepdims) if axes else Call(torch.ne, a, 0)


def _count(a: Any, axis: Any = None, *, keepdims: Any = False) -> Call:
    return Call(torch.sum, Call(torch.ne, _of_array(a), 0), _axes(a, axis), keepdims is True)


def _spread(function: Any) -> Callable[..., Call]:
    def row(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
        **more: Any,
    ) -> Call:
        _no_more({"dtype": dtype, "out": out, **more})
        return Call(function, _as_float(_of_array(a)), _axes(a, axis), correction=ddof, keepdim=keepdims is True)

    return row


def _prod(a: torch.Tensor, axes: tuple[int, ...], keepdims: bool) -> Call:
    if len(axes) == 1:
        return Call(torch.prod, a, axes[0], keepdims)
    if len(axes) != a.ndim or keepdims:
        raise Unsupported("several axes")
    return Call(torch.prod, a)


def _cumulative(function: Any) -> Callable[..., Call]:
    def row(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Call:
        _no_more({"dtype": dtype, "out": out})
        if axis is None:
            return Call(function, Call(torch.reshape, _of_array(a), (-1,)), 0)
        return Call(function, _of_array(a), _whole(axis))

    return row


# ---- shapes


def _sizes(shape: Any) -> tuple[int, ...]:
    return tuple(map(_index, shape)) if isinstance(shape, (tuple, list)) else (_index(shape),)


def _reshape(a: Any, shape: Any, order: str = "C", *, copy: Any = None) -> Call:
    if order != "C" or copy is not None:
        raise Unsupported("the order of memory")
    return Call(torch.reshape, _of_array(a), _sizes(shape))


def _reshape_method(a: Any, *shape: Any, order: str = "C", copy: Any = None) -> Call:
    return _reshape(a, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def _ravel(a: Any, order: str = "C") -> Call:
    return _reshape(a, -1, order)


def _flatten(a: Any, order: str = "C") -> Call:
    return Call(torch.clone, _reshape(a, -1, order))


def _transpose(a: Any, axes: Any = None) -> Call:
    order = tuple(reversed(range(_of_array(a).ndim))) if axes is None else _sizes(axes)
    return Call(torch.permute, a, order)


def _transpose_method(a: Any, *axes: Any) -> Call:
    return _transpose(a, None if not axes or axes == (None,) else axes[0] if len(axes) == 1 else axes)


def _swapaxes(a: Any, axis1: Any, axis2: Any) -> Call:
    return Call(torch.transpose, _of_array(a), _whole(axis1), _whole(axis2))


def _moveaxis(a: Any, source: Any, destination: Any) -> Call:
    return Call(torch.movedim, _of_array(a), _sizes(source), _sizes(destination))


def _squeeze(a: Any, axis: Any = None) -> Call:
    return Call(torch.squeeze, _of_array(a)) if axis is None else Call(torch.squeeze, _of_array(a), _axes(a, axis))


def _expand_dims(a: Any, axis: Any) -> Call:
    return Call(torch.unsqueeze, _of_array(a), _whole(axis))


def _copy(a: Any, order: str = "C") -> Call:
    if order not in ("C", "K"):
        raise Unsupported("the order of memory")
    how = torch.contiguous_format if order == "C" else torch.preserve_format
    return Call(torch.clone, _of_array(a), memory_format=how)


def _copy_function(a: Any, order: str = "K", subok: bool = False) -> Call:
    return _copy(a, order)


def _astype(
    a: Any, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Call:
    wanted = _np.dtype(dtype)
    if order != "K" or not copy:
        raise Unsupported("the order of memory")
    if _of_array(a).dtype.is_floating_point and wanted.kind in "iu":
        raise Unsupported("a float may be too large for an integer")
    return Call(torch.Tensor.to, a, _dtype(wanted), copy=True)


def _joined(arrays: Any) -> list[Any]:
    if not isinstance(arrays, (tuple, list)) or not all(map(_is_array, arrays)):
        raise Unsupported("an argument is no array")
    common = _np.result_type(*map(_of_numpy, arrays))
    return [_cast(array, common) for array in arrays]


def _concatenate(arrays: Any, /, axis: Any = 0, out: Any = None, **more: Any) -> Call:
    _no_more({"out": out, **{name: value for name, value in more.items() if name != "casting"}})
    if axis is None:
        return Call(torch.cat, [Call(torch.reshape, array, (-1,)) for array in _joined(arrays)])
    return Call(torch.cat, _joined(arrays), _whole(axis))


def _stack(arrays: Any, axis: Any = 0, out: Any = None, **more: Any) -> Call:
    _no_more({"out": out, **{name: value for name, value in more.items() if name != "casting"}})
    return Call(torch.stack, _joined(arrays), _whole(axis))


def _of_joined(function: Any) -> Callable[..., Call]:
    def row(arrays: Any) -> Call:
        return Call(function, _joined(arrays))

    return row


# ---- several views


def _split_along(axis: int) -> Callable[..., Call]:
    def row(ary: Any, indices_or_sections: Any) -> Call:
        return _array_split(ary, indices_or_sections, axis if _of_array(ary).ndim > 1 else 0)

    return row


def _array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Call:
    sections = indices_or_sections
    where = [_index(at) for at in sections] if isinstance(sections, (tuple, list)) else _index(sections)
    return Call(torch.tensor_split, _of_array(ary), where, _whole(axis))


def _at_least(function: Any) -> Callable[..., Call]:
    def row(*arrays: Any) -> Call:
        return Call(function, *map(_of_array, arrays))

    return row


def _unstack(x: Any, /, *, axis: Any = 0) -> Call:
    return Call(torch.unbind, _of_array(x), _whole(axis))


# ---- others


def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **more: Any) -> Call:
    low, high = more.pop("min", a_min), more.pop("max", a_max)
    _no_more({"out": out, **more})
    low, high = (None if bound is _np._NoValue else _plain(bound) for bound in (low, high))
    dtype = _of_numpy(_of_array(a))
    if dtype.kind == "f" and not any(bound is not None and bound != bound for bound in (low, high)):
        low, high = (None if bound is None else dtype.type(bound).item() for bound in (low, high))
        return Call(torch.clamp, a, low, high)
    if dtype.kind in "iu" and all(bound is None or type(bound) is int for bound in (low, high)):
        return Call(torch.clamp, a, low, high)
    raise Unsupported("the type of a bound")


def _where(condition: Any, x: Any, y: Any) -> Call:
    kinds = [_of_numpy(value) if _is_array(value) else value for value in (x, y)]
    common = _np.result_type(*kinds)
    first, second = (_cast(value, common) for value in (x, y))
    truth = condition if _of_array(condition).dtype == torch.bool else Call(torch.ne, condition, 0)
    full = [
        value
        if _is_array(value) or isinstance(value, Call)
        else Call(torch.full, (), value, dtype=_dtype(common), device="cpu")
        for value in (first, second)
    ]
    return Call(torch.where, truth, *full)


def _matmul(a: Any, b: Any) -> Call:
    first, second = _joined([a, b])
    if 0 in (_of_array(a).ndim, _of_array(b).ndim) or a.dtype == torch.bool or b.dtype == torch.bool:
        raise Unsupported("operands of this kind")
    return Call(torch.matmul, first, second)


def _dot(a: Any, b: Any, out: Any = None) -> Call:
    _no_more({"out": out})
    if not _is_array(a) or not _is_array(b) or not (1 <= a.ndim <= 2 and 1 <= b.ndim <= 2):
        raise Unsupported("operands of this kind")
    return _matmul(a, b)


def _outer(a: Any, b: Any, out: Any = None) -> Call:
    _no_more({"out": out})
    first, second = _joined([a, b])
    flat = [Call(torch.reshape, value, (-1,)) for value in (first, second)]
    return Call(torch.outer, *flat)


def _part(name: str) -> Callable[..., Call]:
    function = getattr(torch, name)

    def row(m: Any, k: Any = 0) -> Call:
        return Call(function, _of_array(m), _whole(k))

    return row


def _made(function: Any) -> Callable[..., Call]:
    def row(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None) -> Call:
        _no_more({"device": device, "like": like})
        if order != "C":
            raise Unsupported("the order of memory")
        return Call(function, _sizes(shape), dtype=_dtype(_np.dtype(dtype)), device="cpu")

    return row


def _full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Call:
    _no_more({"device": device, "like": like})
    value = _plain(fill_value)
    kind = _np.dtype(dtype) if dtype is not None else _np.asarray(fill_value).dtype
    if order != "C":
        raise Unsupported("the order of memory")
    return Call(torch.full, _sizes(shape), kind.type(value).item(), dtype=_dtype(kind), device="cpu")


def _made_like(function: Any) -> Callable[..., Call]:
    def row(
        a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
    ) -> Call:
        _no_more({"shape": shape, "device": device})
        if order != "K":
            raise Unsupported("the order of memory")
        kind = _of_array(a).dtype if dtype is None else _dtype(_np.dtype(dtype))
        return Call(function, a, dtype=kind)

    return row


def _arange(*bounds: Any, dtype: Any = None, device: Any = None, like: Any = None) -> Call:
    _no_more({"device": device, "like": like})
    if not 1 <= len(bounds) <= 3 or not all(type(bound) in (int, torch.SymInt) for bound in bounds):
        raise Unsupported("bounds that are no integers")
    kind = _np.dtype(dtype) if dtype is not None else _np.dtype(_np.int64)
    return Call(torch.arange, *bounds, dtype=_dtype(kind), device="cpu")


def _eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: str = "C", **more: Any) -> Call:
    _no_more(more)
    if k != 0 or order != "C":
        raise Unsupported("a diagonal beside the first")
    columns = N if M is None else M
    return Call(torch.eye, _index(N), _index(columns), dtype=_dtype(_np.dtype(dtype)), device="cpu")


def _round(a: Any, decimals: Any = 0, out: Any = None) -> Call:
    _no_more({"out": out})
    if decimals != 0 or not _of_array(a).dtype.is_floating_point:
        raise Unsupported("rounding to decimals")
    return Call(torch.round, a)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Call:
    if ord is not None or not _of_array(x).dtype.is_floating_point:
        raise Unsupported("a norm of this kind")
    axes = _axes(x, axis)
    return Call(torch.sqrt, Call(torch.sum, Call(torch.mul, x, x), axes, keepdims))


def _attribute(a: Any, name: str) -> Call:
    if name == "T":
        return _transpose(a)
    if name == "mT":
        return Call(torch.transpose, _of_array(a), -1, -2)
    if name == "real" and not _of_array(a).dtype.is_complex:
        return Call(torch.Tensor.view, a, tuple(a.shape))
    if name in ("real", "imag") and _of_array(a).dtype.is_complex:
        return Call(torch.real if name == "real" else torch.imag, a)
    raise Unsupported(f"the attribute {name}")


def _item(a: Any, key: Any) -> Call:
    if _is_array(key) and key.dtype == torch.bool and key.ndim:
        return Call(operator.getitem, _of_array(a), key)
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, slice):
            if part.step is not None and _whole(part.step) < 1:
                raise Unsupported("a slice that goes backwards")
        elif part is not None and part is not Ellipsis and type(part) not in (int, torch.SymInt):
            raise Unsupported("an index that is no integer")
    return Call(operator.getitem, _of_array(a), key)


def _rows() -> dict[Any, Callable[..., Call]]:
    by_name: dict[str, Callable[..., Call]] = {
        "sum": _reduction(_sum),
        "prod": _reduction(_prod),
        "mean": _reduction(_mean),
        "max": _reduction_without_dtype(_amax),
        "amax": _reduction_without_dtype(_amax),
        "min": _reduction_without_dtype(_amin),
        "amin": _reduction_without_dtype(_amin),
        "ptp": _reduction_without_dtype(_ptp),
        "any": _reduction_without_dtype(_any),
        "all": _reduction_without_dtype(_all),
        "count_nonzero": _count,
        "std": _spread(torch.std),
        "var": _spread(torch.var),
        "cumsum": _cumulative(torch.cumsum),
        "cumprod": _cumulative(torch.cumprod),
        "reshape": _reshape,
        "ravel": _ravel,
        "transpose": _transpose,
        "permute_dims": _transpose,
        "swapaxes": _swapaxes,
        "moveaxis": _moveaxis,
        "squeeze": _squeeze,
        "expand_dims": _expand_dims,
        "copy": _copy_function,
        "concatenate": _concatenate,
        "stack": _stack,
        "vstack": _of_joined(torch.vstack),
        "hstack": _of_joined(torch.hstack),
        "dstack": _of_joined(torch.dstack),
        "column_stack": _of_joined(torch.column_stack),
        "split": _array_split,  # into parts of one size, as numpy has made sure
        "array_split": _array_split,
        "hsplit": _split_along(1),
        "vsplit": _split_along(0),
        "dsplit": _split_along(2),
        "atleast_1d": _at_least(torch.atleast_1d),
        "atleast_2d": _at_least(torch.atleast_2d),
        "atleast_3d": _at_least(torch.atleast_3d),
        "unstack": _unstack,
        "clip": _clip,
        "where": _where,
        "dot": _dot,
        "outer": _outer,
        "tril": _part("tril"),
        "triu": _part("triu"),
        "zeros": _made(torch.zeros),
        "ones": _made(torch.ones),
        "full": _full,
        "zeros_like": _made_like(torch.zeros_like),
        "ones_like": _made_like(torch.ones_like),
        "arange": _arange,
        "eye": _eye,
        "round": _round,
        "around": _round,
        "linalg.norm": _norm,
    }
    rows: dict[Any, Callable[..., Call]] = {}
    for name, row in by_name.items():
        for found in _numpy._objects(name):
            rows[found] = row
    methods = [
        "sum",
        "prod",
        "mean",
        "max",
        "min",
        "ptp",
        "any",
        "all",
        "std",
        "var",
        "cumsum",
        "cumprod",
        "ravel",
        "swapaxes",
        "squeeze",
        "clip",
        "dot",
        "round",
    ]
    rows.update({name: by_name[name] for name in methods})
    rows.update(
        {
            "copy": _copy,
            "__copy__": _copy,
            "flatten": _flatten,
            "reshape": _reshape_method,
            "transpose": _transpose_method,
            "astype": _astype,
            _np.matmul: _matmul,
            operator.matmul: _matmul,
            operator.getitem: _item,
            getattr: _attribute,
        }
    )
    return rows


_ROWS: dict[Any, Callable[..., Call]] = _rows() if _numpy.AVAILABLE else {}
_AS_UFUNCS: dict[Any, Any] = {}
# Those that compute nothing, so that they are of complex numbers too.
_OF_COMPLEX: set[Any] = {operator.getitem, getattr}
if _numpy.AVAILABLE:
    names = "reshape ravel transpose permute_dims swapaxes moveaxis squeeze expand_dims copy split array_split hsplit"
    _OF_COMPLEX.update(_numpy._objects(f"{names} vsplit dsplit atleast_1d atleast_2d atleast_3d unstack"))
    _OF_COMPLEX.update(["copy", "__copy__", "flatten", "reshape", "ravel", "transpose", "swapaxes", "squeeze"])
    _AS_UFUNCS.update({getattr(operator, name): getattr(_np, ufunc) for name, ufunc in _OPERATORS.items()})
    _AS_UFUNCS[abs] = _np.absolute
    _AS_UFUNCS.update({name: getattr(_np, ufunc) for name, ufunc in _METHOD_OPERATORS.items()})


def translated(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], stand_in: Any) -> Call | list[Call]:
    """The calls of torch that stand for a call of numpy.

    Args:
        function: of numpy or `operator`; the name of a method of the first argument.
        args: fake tensors in the place of arrays, constants, and containers of these.
        kwargs: the same.
        stand_in: for what numpy gives; a tuple or list of these.

    Returns:
        A call that gives a tensor; a call that gives a tuple or list of tensors, or one call for each of these.

    Raises:
        Unsupported: there is no such call.
    """
    try:
        return _call_for(function, args, kwargs)
    except Unsupported:
        if isinstance(stand_in, (tuple, list)):
            if not all(map(_is_known, stand_in)):
                raise
            return [_constant(one) for one in stand_in]
        if not _is_known(stand_in):
            raise
        return _constant(stand_in)


def _is_known(stand_in: Any) -> bool:
    """Whether the elements can stand in the graph, where there is no text for each bit of a NaN."""
    data = _numpy.known_data(stand_in)
    return data is not None and not stand_in.views and bool(_np.isfinite(data).all())


def _constant(stand_in: Any) -> Call:
    data = _numpy.known_data(stand_in)
    return Call(torch.tensor, data.tolist(), dtype=_dtype(data.dtype))


def _has_complex(values: tuple[Any, ...] | list[Any]) -> bool:
    return any(
        _has_complex(value) if isinstance(value, (tuple, list)) else _is_array(value) and value.dtype.is_complex
        for value in values
    )


def _call_for(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    ufunc = _AS_UFUNCS.get(function, function)
    if function not in _OF_COMPLEX and _has_complex((*args, *kwargs.values())):
        raise Unsupported("torch computes otherwise with complex numbers")
    try:
        row = _ROWS.get(function)
        if row is not None:
            return row(*args, **kwargs)
        if isinstance(ufunc, _np.ufunc) and not kwargs:
            return _of_ufunc(ufunc, args)
    except (TypeError, ValueError, OverflowError, KeyError) as error:
        raise Unsupported(f"torch has no such form of it ({error})") from error
    raise Unsupported("torch has nothing of the kind")


def _strides(shape: Any, strides: Any) -> tuple[int, ...]:
    return tuple(stride for size, stride in zip(shape, strides, strict=True) if size != 1)


def _laid_out(value: Any) -> Any:
    """An array with the strides of a fake tensor, and such arrays in the place of all fakes of a container."""
    if _is_array(value):
        dtype = _of_numpy(value)
        extent = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
        memory = _np.ones(max(extent, 1), dtype)
        strides = [stride * dtype.itemsize for stride in value.stride()]
        array = _np.ndarray(tuple(value.shape), dtype, memory, 0, strides)
        if array.ndim > 1 and array.shape[-1] == array.shape[-2] and 0 not in value.stride():
            array[...] = _np.eye(array.shape[-1])  # which has an inverse
        return array
    if isinstance(value, (tuple, list)):
        return type(value)(map(_laid_out, value)) if type(value) in (tuple, list) else tuple(map(_laid_out, value))
    if isinstance(value, dict):
        return {key: _laid_out(item) for key, item in value.items()}
    return value


def agrees(stand_in: Any, found: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Asks numpy whether what torch gives is laid out as what numpy gives.

    Args:
        stand_in: for what numpy gives; a tuple or list of these.
        found: the fake tensor that torch gives, or a tuple or list of these.
        function: as `translated` gets it, with the same arguments.
        args: see there.
        kwargs: see there.

    Raises:
        Unsupported: it is not.
    """
    if not isinstance(stand_in, (tuple, list)):
        stand_in, found = [stand_in], [found]
    has_strides = [_has_strides(*pair) for pair in zip(stand_in, found, strict=True)]
    if not any(has_strides):
        return
    result = _numpy._run(function, _laid_out(args), _laid_out(kwargs))
    for array, tensor, has in zip(
        result if isinstance(result, (tuple, list)) else [result], found, has_strides, strict=True
    ):
        wanted = tuple(stride // array.itemsize for stride in array.strides)
        if has and _strides(tensor.shape, wanted) != _strides(tensor.shape, tensor.stride()):
            raise Unsupported("torch lays out the result in another way")


def _has_strides(stand_in: Any, tensor: Any) -> bool:
    """Whether the strides of what has this dtype and shape are of interest."""
    if not isinstance(tensor, torch.Tensor):
        raise Unsupported("torch gives no tensor")
    shape = stand_in.shape
    if _numpy._length_of(stand_in) is not None:  # only the graph knows it, and torch has another number for it
        shape = (*tensor.shape[:1], *shape[1:])
    if _DTYPES.get(stand_in.dtype.name) != tensor.dtype or tuple(tensor.shape) != shape:
        raise Unsupported(f"torch gives a {tensor.dtype} tensor of shape {tuple(tensor.shape)}")
    return 0 not in shape and not isinstance(stand_in, _numpy.ScalarStandIn)


def array_of(tensor: torch.Tensor) -> Any:
    """The array that leaves the region."""
    return tensor.numpy()


def scalar_of(tensor: torch.Tensor) -> Any:
    """The scalar of numpy that leaves the region."""
    return tensor.numpy()[()]
