"""How the sizes of what numpy gives hang on those of its arguments, where some of these may be others at the next call.

numpy itself says what a call gives for the sizes at hand (pellucid._numpy). For all others a row names calls of torch
that give something of the same sizes, whatever its dtype and elements: torch's operators have size rules, which also
say what has to hold of the sizes for it. Without a row the sizes of the arguments become constants of the region.

In the place of arrays rows get tensors of bool, int64 or float64; `_numpy_torch` has the rows where torch computes the
same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from pellucid import _numpy, _numpy_torch
from pellucid._numpy import Unsupported
from pellucid._numpy_torch import Call, _index, _sizes, _whole

_np: Any = _numpy.np if _numpy.AVAILABLE else None

_Row = Callable[..., Any]


def _is_array(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _array(value: Any) -> torch.Tensor:
    if not _is_array(value):
        raise Unsupported("it is about no array")
    return value


def _without(options: dict[str, Any], *names: str) -> None:
    for name in names:
        value = options.get(name)
        if value is not None and value is not _np._NoValue:
            raise Unsupported(f"the argument {name}")


def _broadcast(values: tuple[Any, ...]) -> Any:
    made: Any = None
    for value in values:
        if isinstance(value, (tuple, list, Call)):
            raise Unsupported("an operand that is no array")
        if _is_array(value):
            made = value if made is None else Call(torch.add, made, value)
    if made is None:
        raise Unsupported("it is about no array")
    return made


def _each_element(*operands: Any, **options: Any) -> Any:
    _without(options, "where", "axes", "axis", "signature", "subok")
    out = options.get("out")
    made = _broadcast(operands)
    return made if out is None else Call(torch.Tensor.expand_as, made, _array(out))


def _in_place(array: Any, value: Any) -> Any:
    return Call(torch.Tensor.expand_as, value, _array(array)) if _is_array(value) else _array(array)


def _same(a: Any, *args: Any, **options: Any) -> Any:
    _without(options, "out", "shape")
    if any(_is_array(value) or isinstance(value, (tuple, list)) for value in (*args, *options.values())):
        raise Unsupported("several arrays")
    return _array(a)


def _needs(condition: Any) -> None:
    """Of sizes: this is a guard, else numpy raises."""
    if not condition:
        raise Unsupported("sizes for which numpy raises")


def _transformed(a: Any, n: Any = None, axis: Any = -1, **options: Any) -> Any:
    if n is not None:
        raise Unsupported("another length")
    _needs(_array(a).shape[_whole(axis)] > 0)
    return _same(a, **options)


def _sorted(a: Any, axis: Any = -1, *args: Any, **options: Any) -> Any:
    _whole(axis)
    return _same(a, *args, **options)


def _clip(a: Any, *bounds: Any, **options: Any) -> Any:
    _without(options, "out", "where")
    return _broadcast((_array(a), *bounds, *options.values()))


def _reduction(function: Any) -> _Row:
    def row(a: Any, axis: Any = None, *args: Any, keepdims: Any = False, **options: Any) -> Any:
        _without(options, "out", "where", "initial", "mean")
        if any(value is not None and not isinstance(value, (type, _np.dtype)) for value in args):
            raise Unsupported("arguments by position")
        return Call(function, _array(a), _numpy_torch._axes(a, axis), keepdims is True)

    return row


_sum = _reduction(torch.sum)
_largest = _reduction(torch.amax)  # of no elements there is none


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    if axis is None and ord is not None:
        raise Unsupported("a norm of this kind")
    return (_sum if ord is None else _largest)(x, axis, keepdims=keepdims)


def _ufunc_reduce(a: Any, axis: Any = 0, *args: Any, **options: Any) -> Any:
    return _sum(a, axis, *args, **options)


def _ufunc_accumulate(a: Any, axis: Any = 0, *args: Any, **options: Any) -> Any:
    return _sorted(a, axis, **options) if not args else _sum(a, axis, *args)


def _cumulative(a: Any, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
    _without(options, "out", "initial")
    if axis is None:
        return Call(torch.reshape, _array(a), (-1,))
    return Call(torch.cumsum, _array(a), _whole(axis))


def _where(condition: Any, x: Any, y: Any) -> Any:
    return _broadcast((condition, x, y))


def _made(shape: Any, *args: Any, **options: Any) -> Any:
    _without(options, "like")
    return Call(torch.empty, _sizes(shape), dtype=torch.float64, device="cpu")


def _eye(N: Any, M: Any = None, *args: Any, **options: Any) -> Any:
    return _made((N, N if M is None else M), **options)


def _arange(*bounds: Any, **options: Any) -> Any:
    _without(options, "like")
    if not 1 <= len(bounds) <= 3 or not all(type(bound) in (int, torch.SymInt) for bound in bounds):
        raise Unsupported("bounds that are no integers")
    return Call(torch.arange, *bounds, device="cpu")


def _linspace(start: Any, stop: Any, num: Any = 50, *args: Any, **options: Any) -> Any:
    if any(not isinstance(bound, (int, float, torch.SymInt)) for bound in (start, stop)):
        raise Unsupported("bounds that are no numbers")
    _without(options, "retstep")
    return _made(num)


def _broadcast_to(array: Any, shape: Any, subok: Any = False) -> Any:
    return Call(torch.broadcast_to, _array(array), _sizes(shape))


def _tile(A: Any, reps: Any) -> Any:
    return Call(torch.tile, _array(A), _sizes(reps))


def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    return Call(torch.repeat_interleave, _array(a), _index(repeats), axis)


def _diff(a: Any, n: Any = 1, axis: Any = -1) -> Any:
    return Call(torch.diff, _array(a), _whole(n), _whole(axis))


def _diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    return Call(torch.diagonal, _array(a), *map(_whole, (offset, axis1, axis2)))


def _einsum(subscripts: Any, *operands: Any, optimize: Any = False) -> Any:
    if not isinstance(subscripts, str) or not all(map(_is_array, operands)):
        raise Unsupported("operands of this kind")
    return Call(torch.einsum, subscripts, *operands)


def _inner(a: Any, b: Any) -> Any:
    if not (_is_array(a) and _is_array(b) and a.ndim == b.ndim == 1):
        raise Unsupported("operands of this kind")
    return Call(torch.matmul, a, b)


def _meshgrid(*arrays: Any, indexing: str = "xy") -> Any:
    if not all(_is_array(array) and array.ndim == 1 for array in arrays):
        raise Unsupported("operands of this kind")
    return Call(torch.meshgrid, *arrays, indexing=indexing)


def _as_array(a: Any, *args: Any, **options: Any) -> Any:
    if isinstance(a, (tuple, list)) and a and all(map(_is_array, a)):
        return Call(torch.stack, list(a))
    return _same(a, *args, **options)


def _holds_array(value: Any) -> bool:
    return any(map(_holds_array, value)) if isinstance(value, (tuple, list)) else _is_array(value)


def _at_least(ndim: int) -> _Row:
    def row(array: Any) -> Any:
        if _array(array).ndim < ndim:
            raise Unsupported("an array of few dimensions")
        return array

    return row


def _key(key: Any) -> Any:
    """An index that torch takes, for the same sizes."""
    if isinstance(key, tuple):
        return tuple(map(_key, key))
    if isinstance(key, slice):
        if key.step is None or _whole(key.step) > 0:
            return key
        if key.start is None and key.stop is None:
            return slice(None, None, -key.step)
        raise Unsupported("a slice that goes backwards")
    if key is None or key is Ellipsis:
        return key
    if _is_array(key) and key.dtype != torch.bool:
        return key if key.ndim else 0  # of one element numpy asks which it is
    if isinstance(key, list) and key and all(type(part) is int for part in key):
        return Call(torch.tensor, key, device="cpu")
    if isinstance(key, (bool, _np.bool_)):
        raise Unsupported("an index that is no integer")
    return _index(key)


def _masked(array: Any, key: Any) -> Any:
    """The array, where the mask has the sizes of its first dimensions."""
    if not 0 < key.ndim <= _array(array).ndim:
        raise Unsupported("a mask of other dimensions")
    for _ in range(array.ndim - key.ndim):
        key = Call(torch.unsqueeze, key, -1)
    return Call(torch.Tensor.expand_as, key, array)


def _item(array: Any, key: Any) -> Any:
    if _is_array(key) and key.dtype == torch.bool:
        return _masked(array, key)
    return Call(operator.getitem, _array(array), _key(key))


def _set_item(array: Any, key: Any, value: Any) -> Any:
    if _is_array(key) and key.dtype == torch.bool and _is_array(value) and value.ndim:
        raise Unsupported("an assignment of an array by a boolean array")
    item = _item(array, key)
    if isinstance(value, (tuple, list)):
        raise Unsupported("a container of numbers")
    return Call(torch.Tensor.expand_as, value, item) if _is_array(value) else item


def _take(a: Any, indices: Any, axis: Any = None, **options: Any) -> Any:
    _without(options, "out", "mode")
    if axis is None:
        a, axis = Call(torch.reshape, _array(a), (-1,)), 0
    axis = _whole(axis)
    if axis < 0:
        axis += a.ndim
    return Call(operator.getitem, a, (*(slice(None),) * axis, _key(indices)))


def _pad(array: Any, pad_width: Any, *args: Any, **options: Any) -> Any:
    ends = [pad_width] * 2 * _array(array).ndim if isinstance(pad_width, int) else None
    if ends is None:
        pairs = tuple(tuple(map(_whole, pair)) for pair in pad_width)
        if len(pairs) != array.ndim or any(len(pair) != 2 for pair in pairs):
            raise Unsupported("a width of this kind")
        ends = [end for pair in reversed(pairs) for end in pair]
    return Call(torch.nn.functional.pad, array, ends)


def _split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    if isinstance(indices_or_sections, (tuple, list)):
        return _numpy_torch._array_split(ary, indices_or_sections, axis)
    _needs(_array(ary).shape[_whole(axis)] % _whole(indices_or_sections) == 0)
    return _numpy_torch._array_split(ary, indices_or_sections, axis)


def _quantile(a: Any, q: Any, axis: Any = None, *, keepdims: Any = False, **options: Any) -> Any:
    if not isinstance(q, (int, float)):
        raise Unsupported("several quantiles")
    return _largest(a, axis, keepdims=keepdims, **options)


def _searchsorted(a: Any, v: Any, *args: Any, **options: Any) -> Any:
    return _same(v, **options) if not args else _same(v, *args)


def _interp(x: Any, xp: Any, fp: Any, *args: Any, **options: Any) -> Any:
    if _is_array(xp) or _is_array(fp):
        _needs(_array(xp).shape == _array(fp).shape and xp.shape[0] > 0)
    return _array(x)


def _gradient(f: Any, *distances: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    axes = tuple(range(_array(f).ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    _needs(all(f.shape[_whole(one)] > edge_order for one in axes))
    return f if len(axes) == 1 else (f,) * len(axes)


def _histogram(a: Any, bins: Any = 10, *args: Any, **options: Any) -> Any:
    counts = Call(torch.empty, (_whole(bins),), device="cpu")
    return counts, Call(torch.empty, (_whole(bins) + 1,), device="cpu")


def _decomposed(function: Callable[..., Any]) -> Any:
    def row(a: Any, *args: Any, **options: Any) -> Any:
        return Call(function, _array(a), *args, **options)

    return row


def _attribute(a: Any, name: str) -> Any:
    return _array(a) if name in ("real", "imag") else _numpy_torch._attribute(a, name)


def _shape(a: Any) -> Any:
    return tuple(_array(a).shape)


def _size(a: Any, axis: Any = None) -> Any:
    return _array(a).numel() if axis is None else a.shape[_whole(axis)]


# Of the rows of _numpy_torch what goes by no dtype; functions and methods of these names.
_AS_TORCH = """
reshape ravel flatten transpose permute_dims swapaxes moveaxis squeeze expand_dims concatenate stack vstack hstack
dstack column_stack dot outer tril triu
"""
_OF_SAME_SIZES = """
copy nan_to_num round around fix zeros_like ones_like empty_like full_like roll flip fliplr flipud isneginf isposinf iscomplex isreal real imag conj conjugate astype
__abs__ __copy__ __neg__ __invert__ __pos__ fft.fftshift fft.ifftshift sinc i0 angle
"""
_OF_ROWS = "sort argsort"
_SUMS = """
sum prod mean std var any all median nansum nanprod nanmean nanstd nanvar nanmedian count_nonzero
"""
_EXTREMES = "max min amax amin ptp argmax argmin nanmax nanmin"
_DECOMPOSITIONS = "svd svdvals eigh eigvalsh qr slogdet det inv cholesky solve"
_ALWAYS = "ndim result_type can_cast promote_types issubdtype isscalar iscomplexobj isrealobj"
_BINARY = "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift eq ne lt le gt ge"
_IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift"


def _rows() -> dict[Any, _Row]:
    rows: dict[Any, _Row] = {}

    def add(names: str, row: _Row) -> None:
        for name in names.split():
            for found in _numpy._objects(name):
                rows[found] = row
            if hasattr(_np.ndarray, name):
                rows[name] = row

    for name in _AS_TORCH.split():
        for key in (name, *_numpy._objects(name)):
            if key in _numpy_torch._ROWS:
                rows[key] = _numpy_torch._ROWS[key]
    add(_OF_SAME_SIZES, _same)
    add(_OF_ROWS, _sorted)
    add(_SUMS, _sum)
    add(_EXTREMES, _largest)
    add("cumsum cumprod nancumsum nancumprod", _cumulative)
    add("clip", _clip)
    add("where", _where)
    add("broadcast_to", _broadcast_to)
    add("tile", _tile)
    add("repeat", _repeat)
    add("array asarray asanyarray ascontiguousarray", _as_array)
    add("diff", _diff)
    add("diagonal", _diagonal)
    add("einsum", _einsum)
    add("inner vdot", _inner)
    add("meshgrid", _meshgrid)
    add("linalg.norm", _norm)
    add("zeros ones empty full", _made)
    add("eye identity", _eye)
    add("arange", _arange)
    add("linspace", _linspace)
    add("fill", _in_place)
    add("take", _take)
    add("pad", _pad)
    add("split", _split)
    add("array_split", _numpy_torch._array_split)
    add("fft.fft fft.ifft", _transformed)
    add("percentile quantile nanpercentile nanquantile", _quantile)
    add("searchsorted", _searchsorted)
    add("interp", _interp)
    add("gradient", _gradient)
    add("histogram", _histogram)
    for name in _DECOMPOSITIONS.split():
        add(f"linalg.{name}", _decomposed(getattr(torch.linalg, name)))
    add("isclose", lambda a, b, *args, **options: _each_element(a, b, **options))
    for ndim in (1, 2, 3):
        add(f"atleast_{ndim}d", _at_least(ndim))
    for name in _BINARY.split():
        rows[getattr(operator, name)] = _each_element
    for name in _IN_PLACE.split():
        rows[getattr(operator, name)] = _in_place
    for name in ("neg", "pos", "abs", "invert"):
        rows[getattr(operator, name)] = _each_element
    for name in ("shape", "size"):
        rows.pop(name, None)
    return rows | {
        _np.matmul: _numpy_torch._matmul,
        operator.matmul: _numpy_torch._matmul,
        operator.getitem: _item,
        operator.setitem: _set_item,
        getattr: _attribute,
        abs: _each_element,
        divmod: lambda a, b: (_broadcast((a, b)), _broadcast((a, b))),
        _np.shape: _shape,
        _np.size: _size,
    }


_ROWS: dict[Any, _Row] = _rows() if _numpy.AVAILABLE else {}
_OF_ANY_SIZES = set(_numpy._objects(_ALWAYS)) if _numpy.AVAILABLE else set()
# What makes arrays of the sizes that it is given.
MAKING = set(_numpy._objects("zeros ones empty full eye identity arange linspace")) if _numpy.AVAILABLE else set()


def sizes_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> Any:
    """Calls of torch for tensors with the sizes of what a call of numpy gives.

    Args:
        function: of numpy or `operator`; the name of a method of the first argument.
        args: fake tensors in the place of arrays, constants, and containers of these.
        kwargs: the same.
        value: what numpy gives for the sizes at hand.

    Returns:
        A tensor or call; a tuple of these where numpy gives a tuple. Of what is said of an array that itself.

    Raises:
        Unsupported: there is no row.
    """
    if function in _OF_ANY_SIZES:
        return value
    row = _ROWS.get(function)
    if row is _as_array and not _holds_array(args[0]):
        return Call(torch.empty, value.shape, device="cpu")  # the containers say it
    try:
        if row is not None:
            return row(*args, **kwargs)
        if isinstance(function, _np.ufunc) and function.signature is None and len(args) == function.nin:
            made = _each_element(*args, **kwargs)
            return made if function.nout == 1 else (made,) * function.nout
        if isinstance(getattr(function, "__self__", None), _np.ufunc):
            method = {"reduce": _ufunc_reduce, "accumulate": _ufunc_accumulate}.get(function.__name__)
            if method is not None and function.__self__.nin == 2:
                return method(*args, **kwargs)
    except (TypeError, ValueError, OverflowError, KeyError, IndexError) as error:
        raise Unsupported(f"no row for these arguments ({error})") from error
    raise Unsupported("no row for it")
