"""numpy in a region: what stands for its arrays during capture, and numpy itself as the oracle for what a call gives.

A region has no data. An array that it makes is a *stand-in*: an array of a class of our own over a single element, with
the dtype and shape of the real one. The core asks `answer` what a function of numpy gives; it runs that very function
over small arrays of the same dtypes and shapes, so types, dtypes and shapes are numpy's own by construction. The graph
calls the same function with the real arrays.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch

try:
    import numpy as np
except ModuleNotFoundError:  # torch works without it
    AVAILABLE = False
else:
    AVAILABLE = True

# What `answer` says of a call beside its value.
CONSTANT, WRITES, WRITES_OUTSIDE, MAY_RAISE = 1, 2, 4, 8


class NeedsData(Exception):
    """The result depends on the data of an array."""


class Unsupported(Exception):
    """An array of a kind that no region handles."""


# Functions by what is known of them. None gives a result whose shape or dtype depends on the data of an array.
# Their results are new arrays, and no data makes them raise:
_FRESH = """
all any max min amax amin sum prod mean std var ptp median nanmax nanmin nansum nanprod nanmean nanstd nanvar nanmedian
argmax argmin cumsum cumprod nancumsum nancumprod cumulative_sum cumulative_prod diff ediff1d count_nonzero
concatenate stack vstack hstack dstack column_stack block concat tile repeat roll where copy sort argsort partition
argpartition searchsorted clip round around fix nan_to_num isclose isin isneginf isposinf iscomplex isreal
dot vdot inner outer matmul tensordot kron cross trace einsum tril triu vander pad convolve correlate
zeros ones empty full zeros_like ones_like empty_like full_like eye identity arange linspace logspace geomspace meshgrid
tri diag diagflat indices hanning hamming bartlett blackman kaiser i0 sinc unwrap angle trapezoid gradient
interp select append corrcoef cov lexsort packbits unpackbits polyval polyadd polysub polymul polyder polyint
fft.fft fft.ifft fft.rfft fft.irfft fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn
fft.hfft fft.ihfft fft.fftfreq fft.rfftfreq fft.fftshift fft.ifftshift
linalg.norm linalg.matrix_norm linalg.vector_norm linalg.vecdot linalg.multi_dot linalg.outer linalg.trace
linalg.matmul linalg.tensordot linalg.cross linalg.det linalg.slogdet
"""
# New arrays, but some data makes them raise:
_RAISING = """
take take_along_axis choose digitize average percentile quantile nanpercentile nanquantile histogram
ravel_multi_index unravel_index insert delete polyfit
linalg.inv linalg.pinv linalg.solve linalg.cholesky linalg.eigh linalg.eigvalsh linalg.svd linalg.svdvals linalg.qr
linalg.matrix_power linalg.cond linalg.matrix_rank linalg.tensorinv linalg.tensorsolve
"""
# What they give may have the memory of an argument:
_VIEWS = """
reshape ravel transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis squeeze expand_dims atleast_1d
atleast_2d atleast_3d broadcast_to broadcast_arrays flip fliplr flipud rot90 split array_split hsplit vsplit dsplit
asarray asanyarray ascontiguousarray asfortranarray array diagonal real imag real_if_close unstack ix_
linalg.diagonal linalg.matrix_transpose
"""
# What they say of an array is known without its data:
_METADATA = (
    "ndim shape size result_type can_cast promote_types issubdtype broadcast_shapes isscalar iscomplexobj isrealobj"
)
# The array that they write to comes first:
_WRITING = "copyto fill_diagonal"

_FRESH_METHODS = """
all any argmax argmin argsort argpartition clip conj conjugate copy cumprod cumsum dot flatten max mean min prod ptp
repeat round searchsorted std sum trace var __abs__ __copy__ __neg__ __invert__ __pos__
"""
# What an array of unknown length may be an argument of, beside ufuncs and operators: of any such array each gives what
# it gives of the lengths that are tried, and none compares the length with a number.
_OF_ANY_LENGTH = """
all any max min amax amin sum prod mean std var ptp median nanmax nanmin nansum nanprod nanmean nanstd nanvar nanmedian
argmax argmin cumsum cumprod count_nonzero copy sort argsort clip round around nan_to_num where isclose
isneginf isposinf iscomplex isreal dot vdot linalg.norm
"""
_METHODS_OF_ANY_LENGTH = """
all any argmax argmin argsort astype clip conj conjugate copy cumprod cumsum dot max mean min prod ptp round std sum var
__abs__ __copy__ __neg__ __invert__ __pos__
"""
_RAISING_METHODS = "take choose"
_VIEW_METHODS = "astype diagonal ravel reshape squeeze swapaxes transpose view"
_WRITING_METHODS = "fill sort partition"
# What they give is said of arrays that are known alone (below):
_OF_DATA = """
allclose array_equal array_equiv unique unique_values nonzero flatnonzero argwhere bincount trim_zeros
union1d intersect1d setdiff1d setxor1d
"""
_METHODS_OF_DATA = "item tolist nonzero"
# They write to their first argument where they are asked to.
_OVERWRITING = "median nanmedian percentile nanpercentile quantile nanquantile"
# What they give is whatever is in memory.
_UNFILLED = "empty empty_like"

ATTRIBUTES = frozenset({"shape", "dtype", "ndim", "size", "itemsize", "nbytes"})
VIEW_ATTRIBUTES = frozenset({"T", "mT", "real", "imag"})

_SETS_ITEM = operator.setitem
_GETS_ITEM = operator.getitem


def _objects(names: str) -> Iterator[Any]:
    for name in names.split():
        found: Any = np
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            yield found


def _methods(names: str) -> Iterator[Any]:
    for name in names.split():
        found = np.ndarray.__dict__.get(name)
        if found is not None:
            yield found


FUNCTIONS: list[Any] = []  # every function with a row, but those of _WRITING
WRITING: list[Any] = []
METHODS: list[Any] = []
WRITING_METHODS: list[Any] = []
UFUNC_METHODS: list[Any] = []
SCALAR_TYPES: list[type] = []
_raising: set[Any] = set()
_views: set[Any] = set()
_metadata: set[Any] = set()
_of_any_length: set[Any] = set()
_unfilled: set[Any] = set()
_overwriting: set[Any] = set()
_of_data: set[Any] = {bool, int, float, complex, operator.contains}
# The lengths that an array of unknown length is tried with. Of the last two a call may raise, as the graph does then.
_LENGTHS = (7, 11, 1, 0)

if AVAILABLE:

    class ArrayStandIn(np.ndarray):
        """Stands for an array that the region makes.

        Attributes:
            outside: whether its memory may be that of an array or tensor from outside.
            unknown: an object that stands for the length, where only the graph knows that; else None.
            known: the array itself, where it is computed of constants alone, and how many writes there had been.
            views: whether a known array has the memory of another one.
        """

        outside = False
        unknown: Any = None
        known: Any = (None, 0)
        views = False
        __hash__ = object.__hash__  # type: ignore[assignment]

    class ScalarStandIn(ArrayStandIn):
        """Stands for a numpy scalar that the region computes."""

    DTYPE = np.dtype
    UFUNC = np.ufunc
    _raising.update(_objects(_RAISING))
    _views.update(_objects(_VIEWS))
    _metadata.update(_objects(_METADATA))
    _of_any_length.update(_objects(_OF_ANY_LENGTH), _METHODS_OF_ANY_LENGTH.split())
    FUNCTIONS.extend({id(f): f for f in _objects(f"{_FRESH} {_RAISING} {_VIEWS} {_METADATA} {_OF_DATA}")}.values())
    FUNCTIONS[:] = [f for f in FUNCTIONS if not isinstance(f, np.ufunc)]
    WRITING.extend(_objects(_WRITING))
    METHODS.extend(_methods(f"{_FRESH_METHODS} {_RAISING_METHODS} {_VIEW_METHODS} {_METHODS_OF_DATA}"))
    METHODS.extend(
        getattr(np.generic, method.__name__) for method in list(METHODS) if hasattr(np.generic, method.__name__)
    )
    WRITING_METHODS.extend(_methods(_WRITING_METHODS))
    UFUNC_METHODS.extend(np.ufunc.__dict__[name] for name in ("reduce", "accumulate", "outer", "reduceat"))
    SCALAR_TYPES.extend(
        {np.dtype(code).type: None for code in "?bhilqBHILQefdFD"},
    )
    _raising.update(_RAISING_METHODS.split())
    _views.update(_VIEW_METHODS.split())
    _unfilled.update(_objects(_UNFILLED))
    _overwriting.update(_objects(_OVERWRITING))
    _of_data.update(_objects(_OF_DATA), _METHODS_OF_DATA.split())


def _check(dtype: Any) -> None:
    if dtype.kind not in "biufc" or not dtype.isnative or dtype.itemsize > 16:
        raise Unsupported(f"an array of dtype {dtype}")


def _stand_in(dtype: Any, shape: tuple[int, ...], outside: bool, scalar: bool = False, unknown: Any = None) -> Any:
    _check(dtype)
    one = np.empty((), dtype)
    kind = ScalarStandIn if scalar else ArrayStandIn
    made = np.ndarray.__new__(kind, shape, dtype, one.data, 0, (0,) * len(shape))
    made.flags.writeable = False
    made.outside = outside
    if unknown is not None:
        made.unknown = unknown
    return made


def _length_of(array: Any) -> Any:
    """What stands for the length of an array that only the graph knows; None: it is known."""
    return None if type(array) is np.ndarray else array.unknown


def example(array: Any) -> Any:
    """A stand-in for an array from outside."""
    return _stand_in(array.dtype, array.shape, True)


def of_same_type(stand_in: Any) -> Any:
    """An object of the type that the program sees."""
    return stand_in.dtype.type(0) if isinstance(stand_in, ScalarStandIn) else np.empty(0)


def attribute(array: Any, name: str) -> Any:
    """What is known of an array without its data."""
    if type(array) is np.ndarray:
        _check(array.dtype)
    elif array.unknown is not None and name in ("shape", "size", "nbytes"):
        raise NeedsData(f"the {name} of an array whose length only the graph knows")
    return getattr(array, name)


# Of arrays with more elements no data is kept.
_MOST_KNOWN = 1024
# How many writes to arrays captures have seen. What was known before the last one may have been changed by it.
_writes = 0


def known_data(array: Any) -> Any:
    """The data of an array that a region computes of constants alone; None: only the graph knows it."""
    if type(array) is np.ndarray:
        return None
    data, writes = array.known
    return data if writes == _writes else None


def _mapped(value: Any, of_array: Callable[[Any], Any]) -> Any:
    """An argument with others in the place of its arrays."""
    kind = type(value)
    if kind is np.ndarray or issubclass(kind, ArrayStandIn):
        return of_array(value)
    if kind is tuple or kind is list:
        return kind([_mapped(item, of_array) for item in value])
    if kind is dict:
        return {key: _mapped(item, of_array) for key, item in value.items()}
    if kind is slice:
        return slice(*(_mapped(part, of_array) for part in (value.start, value.stop, value.step)))
    return value


class _Data:
    """The data in the place of arrays that are known."""

    def __init__(self) -> None:
        self.of: list[tuple[Any, Any]] = []  # (data, what stands for it)

    def __call__(self, value: Any) -> Any:
        return _mapped(value, self._array)

    def _array(self, array: Any) -> Any:
        data = known_data(array)
        if data is None:
            raise NeedsData("an array")
        self.of.append((data, array))
        return data


class _Dummies:
    """Small arrays in the place of arguments, whose elements are `value`."""

    def __init__(self, value: int, targets: tuple[Any, ...], regular: bool, length: int = _LENGTHS[0]) -> None:
        self.value = value
        self.length = length  # of arrays whose length is unknown
        self.unknown: set[Any] = set()  # what stands for these lengths
        self.regular = regular  # matrices have an inverse
        self.targets = targets
        self.of: list[tuple[Any, Any]] = []  # (dummy, what it stands for)
        self.outside = False
        self.has_index = False  # integers that could be a shape, or a mask

    def __call__(self, value: Any) -> Any:
        return _mapped(value, self._array)

    def _array(self, array: Any) -> Any:
        for known, original in self.of:
            if original is array:
                return known
        _check(array.dtype)
        kind = array.dtype.kind
        element = self.value if kind in "iu" else self.value == 0 if kind == "b" else 1 + self.value
        self.has_index |= kind in "iub"

        if isinstance(array, ScalarStandIn):
            return array.dtype.type(element)
        self.outside |= type(array) is np.ndarray or array.outside
        shape = array.shape
        if (unknown := _length_of(array)) is not None:
            self.unknown.add(unknown)
            shape = (self.length, *shape[1:])
        if any(array is target for target in self.targets):
            dummy = np.full(shape, element, array.dtype)
        elif self.regular and kind in "fc" and array.ndim > 1 and shape[-1] == shape[-2]:
            dummy = np.broadcast_to(np.eye(shape[-1], dtype=array.dtype) * element, shape)
        else:
            dummy = np.broadcast_to(np.full((), element, array.dtype), shape)
        self.of.append((dummy, array))
        return dummy


def _layout(value: Any) -> Any:
    """What two runs must agree in."""
    if isinstance(value, (tuple, list)):
        return type(value), [_layout(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value), value.dtype, value.shape
    return type(value)


def _run(function: Any, args: Any, kwargs: Any, on_warning: Literal["ignore", "error"] = "ignore") -> Any:
    with warnings.catch_warnings(), np.errstate(all="raise" if on_warning == "error" else "ignore"):
        warnings.simplefilter(on_warning)
        if isinstance(function, str):
            return getattr(args[0], function)(*args[1:], **kwargs)
        return function(*args, **kwargs)


def _runs_python(function: Any) -> bool:
    """Whether it is what numpy.frompyfunc makes, or a method of that."""
    ufunc = getattr(function, "__self__", function)
    return isinstance(ufunc, np.ufunc) and all(set(types) <= set("O->") for types in ufunc.types)


def _is_constant(value: Any) -> bool:
    kind = type(value)
    if kind is tuple or kind is list:
        return all(map(_is_constant, value))
    return kind in SCALAR_TYPES or kind in (bool, int, float, complex)


def _of_constants(function: Any, args: Any, kwargs: Any) -> tuple[Any, int] | None:
    """What a call gives of numbers and known arrays alone, as `answer` says it. None: only the graph knows that.

    Where numpy raises or warns the graph does so, at each call.
    """
    if function in _unfilled or function in _metadata:
        return None
    data = _Data()
    try:
        value = _run(function, data(args), data(kwargs), "error")
        if _is_constant(value):
            return value, CONSTANT
        return _with_stand_ins(value, data, False), 0
    except Exception:
        return None


def _is_known(function: Any) -> bool:
    """Whether the shape of what it gives is that of its operands, whatever they hold."""
    return isinstance(function, np.ufunc) or getattr(function, "__module__", None) == "_operator"


def _is_integer(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        return bool(value.dtype.kind in "iub")
    return isinstance(value, int)


def _may_raise(function: Any, args: Any) -> bool:
    if function is _GETS_ITEM or function is _SETS_ITEM:
        return _has_array(args[1])
    if function in (np.power, np.float_power, operator.pow, operator.ipow):
        return all(_is_integer(a) for a in args)
    return function in _raising or (
        isinstance(owner := getattr(function, "__self__", None), np.ufunc) and function == owner.reduceat
    )


def _has_array(key: Any) -> bool:
    if isinstance(key, (tuple, list)):
        return isinstance(key, list) or any(_has_array(part) for part in key)
    return isinstance(key, (np.ndarray, np.generic)) and key.dtype.kind != "b"


def _holds_array(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_holds_array, value))
    return isinstance(value, (np.ndarray, np.generic))


def _is_mask(key: Any) -> bool:
    if isinstance(key, (tuple, list)):
        return any(_is_mask(part) for part in key)
    return isinstance(key, (np.ndarray, np.generic)) and key.dtype.kind == "b"


def _targets(function: Any, args: Any, kwargs: Any, writes_first: bool) -> tuple[Any, ...]:
    found = [args[0]] if writes_first else []
    out = kwargs.get("out")
    found += [a for a in (out if isinstance(out, tuple) else (out,)) if a is not None]
    if isinstance(function, np.ufunc):
        found += [a for a in args[function.nin :] if a is not None]
    return tuple(found)


def _takes_any_length(function: Any, args: Any) -> bool:
    """Whether what a call gives of an array of unknown length follows from what it gives of some lengths."""
    if function is _GETS_ITEM:
        key = args[1]
        first = key[0] if isinstance(key, tuple) and key else key
        is_whole = isinstance(first, slice) and first == slice(None)
        return is_whole or isinstance(first, (int, np.integer, np.ndarray))
    return _is_known(function) or function in _of_any_length


def _has_length(values: list[Any]) -> bool:
    """Whether the results of runs with several lengths have these, in their first dimension.

    Raises:
        NeedsData: they differ in another way.
    """
    lengths = [length for length, value in zip(_LENGTHS, values, strict=True) if value is not None]
    ran = [value for value in values if value is not None]
    if any(not isinstance(value, (np.ndarray, np.generic)) for value in ran):
        raise NeedsData("a container of arrays whose length only the graph knows")
    if len({(type(value), value.dtype, value.shape[1:], value.ndim) for value in ran}) == 1:
        sizes = [value.shape[0] if value.ndim else 0 for value in ran]
        if len(set(sizes)) == 1:
            return False
        if sizes == lengths:
            return True
    raise NeedsData("the length of an array, which only the graph knows,")


def _of_lengths(function: Any, args: Any, kwargs: Any, value: Any, plain: _Dummies) -> tuple[Any, int]:
    """What a call gives of arrays of unknown length: what stands for the length of the result, or None; and flags."""
    if len(plain.unknown) > 1:
        raise NeedsData("arrays of several lengths that only the graph knows")
    values, flags = [value], 0
    for length in _LENGTHS[1:]:
        dummies = _Dummies(plain.value, plain.targets, plain.regular, length)
        try:
            values.append(_run(function, dummies(args), dummies(kwargs)))
        except Exception:
            if length > 1:
                raise
            values.append(None)
            flags = MAY_RAISE
    return (next(iter(plain.unknown)) if _has_length(values) else None), flags


def answer(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    writes_first: bool,
    takes_unknown: bool,
    has_open: bool,
) -> tuple[Any, int]:
    """What a call of numpy gives.

    Args:
        function: of numpy or `operator`; the name of a method of the first argument.
        args: arrays, stand-ins, constants, and containers of these.
        kwargs: the same.
        writes_first: whether it changes its first argument.
        takes_unknown: whether the graph may have arrays whose length nobody knows before it has run.
        has_open: whether a number among the arguments is another one in other calls.

    Returns:
        The value with stand-ins for its arrays, and what the flags at the head of this module say of the call.

    Raises:
        NeedsData: the data of an array decides on the type or shape of the result.
        Exception: whatever numpy raises.
    """
    targets = _targets(function, args, kwargs, writes_first)
    if any(not isinstance(target, np.ndarray) or isinstance(target, ScalarStandIn) for target in targets):
        raise Unsupported("a write to what is no array")
    if _runs_python(function):
        raise Unsupported("it calls a function of Python")
    if function in _overwriting and _argument(function, args, kwargs, "overwrite_input"):
        raise Unsupported("it overwrites its argument")
    if not targets and not has_open and (constant := _of_constants(function, args, kwargs)) is not None:
        return constant
    if function in _of_data:
        raise NeedsData("what it gives")
    regular = function in _raising
    dummies = _Dummies(0, targets, regular)
    plain_args, plain_kwargs = dummies(args), dummies(kwargs)
    finds = function is _GETS_ITEM and _is_mask(plain_args[1])  # as many elements as the mask has
    if finds and not (takes_unknown and isinstance(plain_args[1], np.ndarray) and plain_args[1].ndim):
        raise NeedsData("an index of a boolean array")
    if dummies.unknown and not _takes_any_length(function, plain_args):
        raise NeedsData("the length of an array, which only the graph knows,")
    if function is np.where and len(args) + len(kwargs) == 1:
        raise NeedsData("where() of a condition alone")
    if function is np.delete and _holds_array(_argument(function, plain_args, plain_kwargs, "obj")):
        raise NeedsData("how many elements there are to delete")
    if function is np.histogram and any(isinstance(value, str) for value in (*args[1:], kwargs.get("bins"))):
        raise NeedsData("how many bins there are")
    if function is _SETS_ITEM and _is_mask(plain_args[1]) and np.ndim(plain_args[2]):
        raise NeedsData("an assignment of an array by a boolean array")
    flags = MAY_RAISE if _may_raise(function, plain_args) else 0
    value = _run(function, plain_args, plain_kwargs)
    unknown = None
    if finds:
        if dummies.unknown and not _fits_any_length(args, dummies):
            raise NeedsData("whether a boolean array has the length of another")
        return _stand_in(value.dtype, (_LENGTHS[0], *value.shape[1:]), False, unknown=object()), flags
    if dummies.unknown:
        unknown, may_raise = _of_lengths(function, args, kwargs, value, dummies)
        flags |= may_raise
    if dummies.has_index and not _is_known(function):
        others = _Dummies(2, targets, regular)
        again = _run(function, others(args), others(kwargs))
        if _layout(again) != _layout(value):
            raise NeedsData("the shape of what it gives")
    if function in _metadata:
        return value, CONSTANT
    for target in targets:
        note_write()
        flags |= WRITES
        if type(target) is np.ndarray or target.outside:
            flags |= WRITES_OUTSIDE
    may_view = function in _views or function is _GETS_ITEM or function is getattr or kwargs.get("copy") is False
    return _with_stand_ins(value, dummies, dummies.outside and may_view, unknown), flags


def note_write() -> None:
    """An array is written to, or something else than numpy has its memory now."""
    global _writes
    _writes += 1


def _argument(function: Any, args: Any, kwargs: Any, name: str) -> Any:
    """None: it is not given, or numpy raises for the others."""
    try:
        return inspect.signature(function).bind(*args, **kwargs).arguments.get(name)
    except TypeError:
        return None


def _fits_any_length(args: tuple[Any, ...], dummies: _Dummies) -> bool:
    """Whether an array and a mask of it have the same unknown length."""
    array, mask = (_length_of(arg) for arg in args)
    return array is mask and len(dummies.unknown) == 1


def _with_stand_ins(value: Any, at_hand: _Dummies | _Data, outside: bool, unknown: Any = None) -> Any:
    for array, original in at_hand.of:
        if value is array:
            return original
    kind = type(value)
    if kind is np.ndarray:
        made = _stand_in(value.dtype, value.shape, outside, unknown=unknown)
        if isinstance(at_hand, _Data) and value.size <= _MOST_KNOWN:
            value.flags.writeable = False
            made.known = (value, _writes)
            made.views = any(np.may_share_memory(value, array) for array, _ in at_hand.of)
        return made
    if isinstance(value, np.generic):
        return _stand_in(value.dtype, (), False, True)
    if isinstance(value, (tuple, list)) and value:
        items = [_with_stand_ins(item, at_hand, outside) for item in value]
        if any(not isinstance(item, np.ndarray) for item in items):
            raise NeedsData("a container in what it gives")
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    if value is None:
        return None
    raise NeedsData(f"a {kind.__name__} that it gives")


def fold(function: Callable[..., Any], *operands: Any) -> Any:
    """The operator of numbers that are known, some of them numpy's."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        return function(*operands)


def check_errors() -> None:
    """Stands before the first write of a graph to an array from outside, which nothing takes back.

    Raises:
        RuntimeError: what follows may raise where numpy or Python has been told to make errors of warnings.
    """
    told = any(how in ("raise", "call") for how in np.geterr().values())
    if told or any(action == "error" for action, *_ in warnings.filters):
        raise RuntimeError("warnings of numpy are errors")


def tensor_of(array: Any) -> torch.Tensor:
    """torch.from_numpy of an array that is contiguous, which its fake is.

    Raises:
        RuntimeError: it is not.
    """
    if not array.flags.c_contiguous:
        raise RuntimeError("the array is not contiguous")
    return torch.from_numpy(array)


def tensor_over(array: Any, _index: int = 0) -> torch.Tensor:
    """A tensor over the memory of an array, which graphs read."""
    return torch.from_numpy(array)


def torch_dtype(array: Any) -> torch.dtype:
    """The dtype of the tensor that torch makes of an array."""
    if type(array) is np.ndarray and not array.flags.c_contiguous:
        raise Unsupported("an array that is not contiguous, as a tensor")
    if _length_of(array) is not None:
        raise NeedsData("the shape of an array whose length only the graph knows")
    _check(array.dtype)
    return torch.from_numpy(np.empty(0, array.dtype)).dtype


def of_tensor(dtype: torch.dtype, shape: tuple[int, ...]) -> Any:
    """A stand-in for tensor.numpy()."""
    return _stand_in(torch.empty(0, dtype=dtype).numpy().dtype, tuple(shape), True)
