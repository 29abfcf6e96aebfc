"""What a call of numpy comes to, for graphs that run as they are.

Much of numpy is Python around functions of C: `a.std()` calls a function of Python, which makes seven calls of C. A region
knows the sizes and dtypes of its arrays and the other arguments, and so which of them will be called. These calls are
the *steps* of a node, and run in its place. They are the very calls that numpy would make, so values, dtypes, layouts
and warnings are numpy's.

There are four kinds of rows, and a call is what the first of them says that fits:

* `_WITH_NUMBERS`: operators and ufuncs of an array and a number, which numpy makes an array at each call. Here it is
  one of no dimension, made once.
* `_STEPS`: the calls of C that a function comes to, as numpy 2.4 makes them.
* `_METHODS_IN_PYTHON`: the function that a method of arrays passes its arguments to.
* Every function that asks its arguments for `__array_function__`: the function itself. Arrays of a region have none of
  their own.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from pellucid import _numpy

np: Any = _numpy.np if _numpy.AVAILABLE else None

Step = tuple[Any, tuple[Any, ...], tuple[str, ...]]
# The calls, and which of them gives the value of the node.
Steps = tuple[tuple[Step, ...], int]
# The id of an array -> each dimension with a size that may be another in other calls, and the least that it may be.
OpenDims = Mapping[int, Mapping[int, int]]
_NONE_OPEN: OpenDims = {}


class Argument(int):
    """In the arguments of a step: what stands at this place among those of the node, keywords behind the others."""


class Result(int):
    """In the arguments of a step: what the step of this number gave."""


class _NotHere(Exception):
    """No row says what this call comes to."""


class _Calls:
    """Steps under construction."""

    def __init__(self, given: dict[int, Argument], open_dims: OpenDims) -> None:
        self.steps: list[Step] = []
        self.open_dims = open_dims
        self.given = given  # id of an array -> where it stands

    def add(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Result:
        """One more call; its arguments are arrays of the node, results of other steps and constants."""
        values = (*args, *kwargs.values())
        named = tuple(self.given.get(id(value), value) for value in values)
        self.steps.append((function, named, tuple(kwargs)))
        return Result(len(self.steps) - 1)


def _only(holds: bool) -> None:
    if not holds:
        raise _NotHere


def _reduced(calls: _Calls, ufunc: Any, array: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Result:
    """ufunc.reduce, of which defaults at the end need not be said."""
    _only(type(keepdims) is bool)
    args = [axis, dtype, None, keepdims]
    defaults = (None, None, None, False)
    while len(args) > 1 and args[-1] is defaults[len(args) - 1]:
        args.pop()
    return calls.add(_REDUCTIONS[ufunc], array, *args)


def _total(ufunc: str) -> Callable[..., int]:
    def row(calls: _Calls, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> int:
        _only(out is None)
        return _reduced(calls, getattr(np, ufunc), a, axis, dtype, keepdims)

    return row


def _extreme(ufunc: str) -> Callable[..., int]:
    def row(calls: _Calls, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> int:
        _only(out is None)
        return _reduced(calls, getattr(np, ufunc), a, axis, None, keepdims)

    return row


def _truth(ufunc: str) -> Callable[..., int]:
    def row(calls: _Calls, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> int:
        _only(out is None)
        return _reduced(calls, getattr(np, ufunc), a, axis, np.dtype(bool), keepdims)

    return row


def _reduced_dims(a: Any, axis: Any, keepdims: Any) -> tuple[tuple[int, ...], bool]:
    """Which dimensions are reduced, and whether the result is an array and no scalar."""
    _only(a.ndim > 0 and (type(a) is np.ndarray or a.unknown is None) and type(keepdims) is bool)
    axes = tuple(range(a.ndim)) if axis is None else axis if type(axis) is tuple else (axis,)
    _only(all(type(axis) is int for axis in axes))
    return axes, keepdims or len(axes) < a.ndim


def _count(calls: _Calls, a: Any, axes: tuple[int, ...], less: int = 0) -> Any:
    """How many elements become one, but for this many; where there are none numpy warns."""
    changing = calls.open_dims.get(id(a), {})
    _only(math.prod(changing.get(axis % a.ndim, a.shape[axis]) for axis in axes) > less)
    if not any(axis % a.ndim in changing for axis in axes):
        return np.intp(math.prod(a.shape[axis] for axis in axes) - less)
    if len(axes) == a.ndim:
        items = calls.add(_SIZE, a)
    else:
        _only(len(axes) == 1)
        items = calls.add(operator.getitem, calls.add(_SHAPE, a), axes[0])
    return calls.add(np.intp, calls.add(operator.sub, items, less) if less else items)


def _divided(calls: _Calls, sums: Result, items: Any, is_array: bool, dtype: Any) -> Result:
    """Sums of this dtype, divided as by the functions for means and deviations."""
    if is_array:
        return calls.add(np.true_divide, sums, items, out=sums, casting="unsafe", subok=False)
    quotient = calls.add(operator.truediv, sums, items)
    return quotient if dtype.char in "dD" else calls.add(dtype.type, quotient)


def _mean(calls: _Calls, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> int:
    _only(out is None and dtype is None and a.dtype.char != "e")
    axes, is_array = _reduced_dims(a, axis, keepdims)
    items = _count(calls, a, axes)
    counts = a.dtype.kind in "iub"
    sums = _reduced(calls, np.add, a, axis, np.dtype("f8") if counts else None, keepdims)
    return _divided(calls, sums, items, is_array, np.dtype("f8") if counts else a.dtype)


def _var(
    calls: _Calls, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False
) -> Result:
    _only(out is None and dtype is None and a.dtype.kind in "fiu" and type(ddof) is int)
    axes, is_array = _reduced_dims(a, axis, keepdims)
    items = _count(calls, a, axes)
    freedom = _count(calls, a, axes, ddof) if ddof else items
    dtype = np.dtype("f8") if a.dtype.kind in "iu" else None
    means = _reduced(calls, np.add, a, axis, dtype, True)
    means = calls.add(np.true_divide, means, items, out=means, casting="unsafe", subok=False)
    squares = calls.add(np.subtract, a, means, out=...)
    squares = calls.add(np.square, squares, out=squares)
    sums = _reduced(calls, np.add, squares, axis, dtype, keepdims)
    return _divided(calls, sums, freedom, is_array, dtype or a.dtype)


def _std(
    calls: _Calls, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False
) -> int:
    variance = _var(calls, a, axis, dtype, out, ddof, keepdims)
    _, is_array = _reduced_dims(a, axis, keepdims)
    return calls.add(np.sqrt, variance, out=variance) if is_array else calls.add(np.sqrt, variance)


def _clip(calls: _Calls, a: Any, low: Any, high: Any) -> int:
    if a.dtype.kind in "iu":  # an int that its dtype does not hold bounds nothing
        low = None if type(low) is int and low <= np.iinfo(a.dtype).min else low
        high = None if type(high) is int and high >= np.iinfo(a.dtype).max else high
    if low is None and high is None:
        return calls.add(np.positive, a)
    if low is None:
        return calls.add(np.minimum, a, high)
    if high is None:
        return calls.add(np.maximum, a, low)
    return calls.add(_CLIP, a, low, high)


def _clip_function(calls: _Calls, a: Any, a_min: Any, a_max: Any) -> int:
    return _clip(calls, a, a_min, a_max)


def _clip_method(calls: _Calls, a: Any, min: Any = None, max: Any = None) -> int:
    return _clip(calls, a, min, max)


def _filled(number: int) -> Callable[..., int]:
    def row(calls: _Calls, a: Any, dtype: Any = None) -> int:
        made = calls.add(_EMPTY_LIKE, a) if dtype is None else calls.add(_EMPTY_LIKE, a, dtype)
        calls.add(np.ndarray.fill, made, number)
        return made

    return row


def _as_method(name: str, most: int, keywords: str) -> Callable[..., int]:
    """A function that hands its arguments to the method of its name, where they are no more than `most` and these."""
    method = getattr(np.ndarray, name)
    known = set(keywords.split())

    def row(calls: _Calls, a: Any, *args: Any, **kwargs: Any) -> int:
        _only(len(args) <= most and kwargs.keys() <= known)
        return calls.add(method, a, *args, **kwargs)

    return row


# Functions that do no more than call the method: how many arguments that takes behind the array, and its keywords.
_AS_METHODS = (
    ("argmax", 2, "axis out"),
    ("argmin", 2, "axis out"),
    ("argsort", 2, "axis kind"),
    ("cumsum", 3, "axis dtype out"),
    ("cumprod", 3, "axis dtype out"),
    ("ravel", 1, "order"),
    ("repeat", 2, "repeats axis"),
    ("reshape", 1, "order"),
    ("round", 2, "decimals out"),
    ("squeeze", 1, "axis"),
    ("swapaxes", 2, ""),
    ("transpose", 1, ""),
)
# Functions with a method of the same name and the same arguments.
_REDUCING: dict[str, Callable[..., int]] = {
    "sum": _total("add"),
    "prod": _total("multiply"),
    "max": _extreme("maximum"),
    "min": _extreme("minimum"),
    "any": _truth("logical_or"),
    "all": _truth("logical_and"),
    "mean": _mean,
    "var": _var,
    "std": _std,
}
# Methods of arrays that hand their arguments to a function of Python in numpy._core._methods.
_IN_PYTHON = {
    "sum": "_sum",
    "prod": "_prod",
    "max": "_amax",
    "min": "_amin",
    "any": "_any",
    "all": "_all",
    "mean": "_mean",
    "var": "_var",
    "std": "_std",
    "clip": "_clip",
}


# Operators and ufuncs of two operands whose loops take both in one dtype. Not powers: numpy asks them for the number.
_WITH_NUMBERS = """
add sub mul truediv floordiv mod iadd isub imul lt le gt ge eq ne
np.add np.subtract np.multiply np.divide np.floor_divide np.remainder np.maximum np.minimum np.fmax np.fmin
np.less np.less_equal np.greater np.greater_equal np.equal np.not_equal
"""


def _with_numbers() -> set[Any]:
    found = set()
    for name in _WITH_NUMBERS.split():
        found.add(getattr(np, name[3:]) if name.startswith("np.") else getattr(operator, name))
    return found


def _as_array(number: Any, dtype: Any) -> Any:
    """What numpy makes of a number beside an array of this dtype. None: it may warn or raise, or go by the number."""
    if type(number) is float and dtype.char in "fd":
        with np.errstate(all="ignore"):
            made = np.array(number, dtype)
        # Neither too large nor too small for the dtype.
        fits = number == 0 or np.finfo(dtype).smallest_normal <= abs(made) < np.inf
    elif type(number) is int and dtype.char in "fd":
        made = np.array(number, dtype) if abs(number) <= 2**24 else None  # exact in both
        fits = made is not None
    elif type(number) is int and dtype.kind in "iu":
        fits = np.iinfo(dtype).min <= number <= np.iinfo(dtype).max
        made = np.array(number, dtype) if fits else None
    else:
        return None
    if not fits:
        return None
    made.flags.writeable = False
    return made


def _beside_number(function: Any, args: tuple[Any, ...]) -> Steps | None:
    """An operator or ufunc of an array and a number."""
    for place, number in enumerate(args):
        array = args[1 - place]
        if not _is_array(array) or array.ndim == 0:
            continue
        made = _as_array(number, array.dtype)
        if made is not None:
            operands = (Argument(0), made) if place == 1 else (made, Argument(1))
            return ((function, operands, ()),), 0
    return None


def _steps() -> dict[Any, Callable[..., int]]:
    """A function of numpy or the name of a method of arrays -> the calls that it comes to.

    An argument that a row has no name for is one that it knows nothing of.
    """
    rows: dict[Any, Callable[..., int]] = {}
    for name, row in _REDUCING.items():
        rows[name] = rows[getattr(np, name)] = row
    rows |= {np.clip: _clip_function, "clip": _clip_method, np.zeros_like: _filled(0), np.ones_like: _filled(1)}
    return rows | {getattr(np, method[0]): _as_method(*method) for method in _AS_METHODS}


_STEPS: dict[Any, Callable[..., int]] = {}
_METHODS_IN_PYTHON: dict[Any, Any] = {}
_TAKES_NUMBER: set[Any] = set()
if _numpy.AVAILABLE and np.__version__.startswith("2.4."):  # the version of which the rows are said
    _CLIP = np._core.umath.clip
    _SHAPE, _SIZE = np.ndarray.shape.__get__, np.ndarray.size.__get__
    _EMPTY_LIKE = np.empty_like._implementation
    # Bound methods, each of them one object.
    _REDUCTIONS = {
        ufunc: ufunc.reduce for ufunc in (np.add, np.multiply, np.maximum, np.minimum, np.logical_or, np.logical_and)
    }
    _STEPS = _steps()
    _TAKES_NUMBER = _with_numbers()
    _METHODS_IN_PYTHON = {name: getattr(np._core._methods, function) for name, function in _IN_PYTHON.items()}


def steps_of(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], changes: bool, open_dims: OpenDims = _NONE_OPEN
) -> Steps | None:
    """What a call comes to.

    Args:
        function: of numpy; the name of a method of the first argument.
        args: those of the call, with stand-ins for what the region computes.
        kwargs: the same.
        changes: whether a number among them is another one in other calls.
        open_dims: of the arrays among them.

    Returns:
        Its steps. None: the call itself.
    """
    if function in _TAKES_NUMBER and not changes and len(args) == 2 and not kwargs:
        return _beside_number(function, args)
    row = _STEPS.get(function)
    if row is not None and not changes and _is_array(args[0] if args else None):
        try:
            return _by_row(row, args, kwargs, open_dims)
        except (_NotHere, TypeError):  # arguments that the row has no name for
            pass
    plain = _METHODS_IN_PYTHON.get(function) if isinstance(function, str) else None
    if plain is None or not _is_array(args[0]):
        plain = getattr(function, "_implementation", None)
    if plain is None:
        return None
    places = tuple(Argument(place) for place in range(len(args) + len(kwargs)))
    return ((plain, places, tuple(kwargs)),), 0


def _is_array(value: Any) -> bool:
    return type(value) is np.ndarray or (
        isinstance(value, _numpy.ArrayStandIn) and not isinstance(value, _numpy.ScalarStandIn)
    )


def _by_row(row: Callable[..., int], args: tuple[Any, ...], kwargs: dict[str, Any], open_dims: OpenDims) -> Steps:
    values = (*args, *kwargs.values())
    given = {id(value): Argument(place) for place, value in enumerate(values) if isinstance(value, np.ndarray)}
    _only(all(id(value) in given or not _holds_arrays(value) for value in values))
    calls = _Calls(given, open_dims)
    gives = row(calls, *args, **kwargs)
    return tuple(calls.steps), int(gives)


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_holds_arrays, value))
    return isinstance(value, np.ndarray)
