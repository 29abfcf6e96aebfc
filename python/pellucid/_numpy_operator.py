"""What torch has nothing for, in graphs for backends that compile: an operator that calls numpy itself.

`torch.ops.pellucid.numpy` gets arrays as tensors over their memory, and the call as text over the names a0, a1 …, such
as "numpy.argsort(a0, axis=1)": graphs can be read, kept in caches of compilers and run in another process. Compilers
know the dtype and the sizes of its result, and that it is laid out one row after the other; what is in it they do not
ask. Only calls are in it that give a new array and write to none. `torch.ops.pellucid.numpy_several` is for those that
give several (np.linalg.svd).
"""

from __future__ import annotations

import builtins
import cmath
import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from pellucid import _numpy
from pellucid._numpy import Unsupported
from pellucid._numpy_torch import Call, _dtype

_np: Any = _numpy.np if _numpy.AVAILABLE else None


def called(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], stand_in: Any, sizes: Any) -> Call:
    """A call of the operator that stands for a call of numpy.

    Args:
        function: of numpy or `operator`; the name of a method of the first argument.
        args: fake tensors in the place of arrays, constants, and containers of these.
        kwargs: the same.
        stand_in: for what numpy gives; a tuple or list of these.
        sizes: a fake tensor of its sizes, or one for each, where these are others in other calls; else None.

    Raises:
        Unsupported: it may give memory of an argument, or there is no text for an argument.
    """
    _check_new(function, args, kwargs)
    tensors: list[torch.Tensor] = []
    texts = [_text(arg, tensors) for arg in args] + [f"{name}={_text(arg, tensors)}" for name, arg in kwargs.items()]
    if isinstance(function, str):
        text = f"{texts[0]}.{function}({', '.join(texts[1:])})"
    else:
        text = f"{_name_of(function)}({', '.join(texts)})"
    if not tensors:
        raise Unsupported("it is of no array")
    if isinstance(stand_in, (tuple, list)):
        shapes = [list(one.shape) for one in (stand_in if sizes is None else sizes)]
        dtypes = [_dtype(one.dtype) for one in stand_in]
        ranks = [len(shape) for shape in shapes]
        return Call(operator_of_several(), tensors, text, dtypes, [size for shape in shapes for size in shape], ranks)
    shape = list(stand_in.shape if sizes is None else sizes.shape)
    return Call(numpy_operator(), tensors, text, _dtype(stand_in.dtype), shape)


def _check_new(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if function == "astype":
        is_new = len(args) < 6 and "copy" not in kwargs
    elif function is operator.getitem:
        is_new = _indexes(args[1])
    else:
        is_new = function is not getattr and function not in _numpy._views and "copy" not in kwargs
    if not is_new or function in _numpy._unfilled:
        raise Unsupported("torch has nothing of the kind")


def _indexes(key: Any) -> bool:
    """Whether an index has arrays or lists of integers in it, so that numpy copies the elements."""
    parts = key if isinstance(key, tuple) else (key,)
    return any(isinstance(part, list) or (isinstance(part, torch.Tensor) and part.ndim > 0) for part in parts)


def _text(value: Any, tensors: list[torch.Tensor]) -> str:
    if isinstance(value, torch.Tensor):
        for at, known in enumerate(tensors):
            if known is value:
                return f"a{at}"
        tensors.append(value)
        return f"a{len(tensors) - 1}"
    kind = type(value)
    if value is None or value is Ellipsis or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return repr(value)
    if kind is complex and cmath.isfinite(value):
        return f"complex({value.real!r}, {value.imag!r})"
    if kind is tuple:
        return "(" + "".join(_text(item, tensors) + ", " for item in value) + ")"
    if kind is list:
        return "[" + ", ".join(_text(item, tensors) for item in value) + "]"
    if kind is slice:
        return f"slice({', '.join(_text(part, tensors) for part in (value.start, value.stop, value.step))})"
    if isinstance(value, _np.dtype) and value.isnative and value.kind in "biuf":
        return f"numpy.dtype({value.name!r})"
    if kind in _numpy.SCALAR_TYPES and value.dtype.kind in "biuf" and _np.isfinite(value):
        return f"numpy.{value.dtype.name}({value.item()!r})"
    if value is bool or value is int or value is float:
        return str(value.__name__)
    if isinstance(value, type) and value in _numpy.SCALAR_TYPES:
        return f"numpy.dtype({_np.dtype(value).name!r}).type"
    raise Unsupported(f"an argument is a {kind.__name__}")


@functools.cache
def _names() -> dict[int, str]:
    names = {id(getattr(operator, name)): f"operator.{name}" for name in operator.__all__}
    for prefix, module in (("numpy.linalg.", _np.linalg), ("numpy.fft.", _np.fft), ("numpy.", _np)):
        names.update({id(found): prefix + name for name, found in vars(module).items() if callable(found)})
    return names


def _name_of(function: Any) -> str:
    owner, own_name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, _np.ufunc):
        return f"{_name_of(owner)}.{own_name}"
    if getattr(builtins, own_name, None) is function:
        return str(own_name)
    name = _names().get(id(function))
    if name is None:
        raise Unsupported("torch has nothing of the kind")
    return name


@functools.lru_cache(maxsize=4096)
def _compiled(text: str, count: int) -> Callable[..., Any]:
    names = ", ".join(f"a{at}" for at in range(count))
    return eval(f"lambda {names}: {text}", {"numpy": _np, "operator": operator})


def _called(arrays: list[torch.Tensor], text: str) -> tuple[Any, list[Any]]:
    """What the call gives, and the arrays that it got."""
    given = [array.detach().numpy() for array in arrays]
    for array in given:
        array.flags.writeable = False
    return _compiled(text, len(arrays))(*given), given


def _tensor(found: Any, given: list[Any], text: str, dtype: torch.dtype, sizes: list[int]) -> torch.Tensor:
    """A tensor of its own over what numpy has made, as the node says it."""
    made = _np.ascontiguousarray(found).reshape(sizes)
    if not made.flags.writeable or any(_np.may_share_memory(made, array) for array in given):
        made = made.copy()
    tensor = torch.from_numpy(made)
    if tensor.dtype != dtype:
        raise RuntimeError(f"{text} gives a {tensor.dtype} array; {dtype} was said of it")
    return tensor


def _run(arrays: list[torch.Tensor], text: str, dtype: torch.dtype, sizes: list[int]) -> torch.Tensor:
    found, given = _called(arrays, text)
    return _tensor(found, given, text, dtype, sizes)


def _run_several(
    arrays: list[torch.Tensor], text: str, dtypes: list[torch.dtype], sizes: list[int], ranks: list[int]
) -> list[torch.Tensor]:
    found, given = _called(arrays, text)
    tensors: list[torch.Tensor] = []
    for one, dtype, shape in zip(found, dtypes, _shapes(sizes, ranks), strict=True):
        tensors.append(_tensor(one, given, text, dtype, shape))
        given.append(tensors[-1].numpy())  # no two results have the same memory
    return tensors


def _shapes(sizes: list[Any], ranks: list[int]) -> list[list[Any]]:
    rest = iter(sizes)
    return [list(itertools.islice(rest, rank)) for rank in ranks]


@functools.cache
def numpy_operator() -> Any:
    """torch.ops.pellucid.numpy.default, made when it is asked for: torch takes its time."""
    _define("numpy", "ScalarType dtype, SymInt[] sizes) -> Tensor", _run, _fake)
    return torch.ops.pellucid.numpy.default


@functools.cache
def operator_of_several() -> Any:
    """torch.ops.pellucid.numpy_several.default. `sizes` are those of all results, `ranks` how many each has."""
    results = "ScalarType[] dtypes, SymInt[] sizes, int[] ranks) -> Tensor[]"
    _define("numpy_several", results, _run_several, _fake_several)
    return torch.ops.pellucid.numpy_several.default


def _define(name: str, results: str, run: Callable[..., Any], fake: Callable[..., Any]) -> None:
    library = torch.library.Library("pellucid", "FRAGMENT")
    _LIBRARIES.append(library)
    tags = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
    library.define(f"{name}(Tensor[] arrays, str call, {results}", tags=tags)
    library.impl(name, run, "CPU")
    torch.library.register_fake(f"pellucid::{name}", fake, lib=library)


def _fake(arrays: list[torch.Tensor], call: str, dtype: torch.dtype, sizes: list[Any]) -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype)


def _fake_several(
    arrays: list[torch.Tensor], call: str, dtypes: list[torch.dtype], sizes: list[Any], ranks: list[int]
) -> list[torch.Tensor]:
    return [torch.empty(shape, dtype=dtype) for dtype, shape in zip(dtypes, _shapes(sizes, ranks), strict=True)]


_LIBRARIES: list[torch.library.Library] = []  # an operator goes with its library
