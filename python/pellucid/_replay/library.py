"""What a record names instead of containing it: the objects of Python, torch, numpy and pellucid themselves.

They are looked up by module and name, in dicts alone: no `__getattr__` runs. A module that is not loaded is imported only if it
does nothing but define things.
"""

from __future__ import annotations

import enum
import functools
import importlib
import sys
import types
from typing import Any

import torch

from pellucid._replay.errors import RecordError

_TOPS = {*sys.stdlib_module_names, "torch", "numpy", "pellucid"} - {
    "antigravity",
    "this",
    "test",
    "idlelib",
    "turtledemo",
}
# Of the standard library, what a record may import; the rest only if it is loaded (torch loads most of it).
_IMPORTABLE = {
    *("bisect", "calendar", "cmath", "colorsys", "csv", "dataclasses", "decimal", "difflib", "fractions", "graphlib"),
    *("heapq", "hmac", "html", "json", "numbers", "queue", "random", "statistics", "string", "textwrap", "zoneinfo"),
}
_SCALARS = (int, float, complex, str, bytes, bool, type(None), tuple, frozenset, type(Ellipsis), type(NotImplemented))
OWN = {"torch", "numpy", "pellucid"}
# Their calls run functions of the program while it is captured, which is what a replay must not do.
_RUNS_CODE = ("pellucid._comptime", "torch._dynamo.comptime", "pellucid.control")


def is_library(module: object) -> bool:
    """Whether objects of this module are named, not recorded."""
    if not isinstance(module, str) or module == "__main__":
        return False
    return module.partition(".")[0] in _TOPS


@functools.lru_cache(maxsize=1024)
def module_of_file(filename: str) -> tuple[str, str]:
    """The name and the package of the loaded module that is this file; empty texts: there is none."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and module.__dict__.get("__file__") == filename:
            return name, module.__dict__.get("__package__") or ""
    return "", ""


def module_named(name: str) -> types.ModuleType:
    """The module of a library, imported if that does nothing else.

    Raises:
        RecordError: it is none, or cannot be imported here.
    """
    if not is_library(name):
        raise RecordError(
            f"the record asks for the module {name!r}, which is no part of Python, torch, numpy or pellucid"
        )
    loaded = sys.modules.get(name)
    if isinstance(loaded, types.ModuleType):
        return loaded
    if not is_importable(name):
        raise RecordError(f"the record asks for the module {name!r}, which is not loaded, and records do not import it")
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RecordError(f"the record asks for the module {name!r}, which cannot be imported here: {error}") from error


def is_importable(name: str) -> bool:
    """Whether the import of this module of a library does nothing but define things.

    Example:
        >>> is_importable("torch.nn.functional"), is_importable("antigravity")
        (True, False)
    """
    top, *below = name.split(".")
    return top in _IMPORTABLE or (top in OWN and not _DO_MORE.intersection(below))


_DO_MORE = {"__main__", "_internal", "demo", "bottleneck", "benchmark"}


def found(module: str, name: str) -> Any:
    """The object of this name in a module of a library; "Tensor.add" is what stands in the class.

    Raises:
        RecordError: there is none.
    """
    at: Any = module_named(module)
    for part in name.split(".") if name else ():
        at = _part(at, part, f"{module}.{name}")
    return at


def _part(of: Any, part: str, whole: str) -> Any:
    if isinstance(of, type):
        for base in type.mro(of) if of is not type else (type, object):
            if part in base.__dict__:
                inner = base.__dict__[part]
                return inner.__func__ if isinstance(inner, (staticmethod, classmethod)) else inner
    elif isinstance(of, types.ModuleType) and part in of.__dict__:
        return of.__dict__[part]
    raise RecordError(f"the record asks for {whole}, which is not there: another version of the library?")


def bound_method(owner: Any, name: str) -> Any:
    """The method of C code that is in the class of an object, or of a class in it or above it; None: there is none."""
    if isinstance(owner, type):
        for cls in type.mro(owner) if owner is not type else (type, object):
            found_in = cls.__dict__.get(name)
            if isinstance(found_in, types.ClassMethodDescriptorType):
                return found_in.__get__(None, owner)
            if isinstance(found_in, types.BuiltinFunctionType) and found_in.__self__ is owner:
                return found_in
    for cls in type(owner).__mro__:
        method = cls.__dict__.get(name)
        if isinstance(method, types.MethodDescriptorType):
            return method.__get__(owner, type(owner))
    return None


def has_known_hash(thing: Any) -> bool:
    """Whether the hash of an object is computed by C code, of its fields alone, or of its name."""
    kind = type(thing)
    own = kind.__hash__
    if not isinstance(own, types.FunctionType) or issubclass(kind, enum.Enum) or own is torch.Tensor.__hash__:
        return True
    is_generated = own.__code__.co_filename == "<string>" and "__dataclass_params__" in kind.__dict__
    return is_generated and name_of(kind) is not None


def runs_code(module: str) -> bool:
    """Whether capture runs code of the program for functions of this module."""
    return module.startswith(_RUNS_CODE)


def name_of(thing: Any) -> tuple[str, str] | None:
    """Module and name by which `found` gives this very object; None: there are none."""
    if isinstance(thing, types.ModuleType):
        name = thing.__dict__.get("__name__")
        if not isinstance(name, str) or not is_library(name):
            return None
        return (name, "") if sys.modules.get(name) is thing else None
    module, name = _own_name(thing)
    if is_library(module) and isinstance(name, str) and "<" not in name and _is_found(module, name, thing):
        return module, name
    if isinstance(thing, _SCALARS):
        return None
    where = _index().get(id(thing))
    return where if where is not None and _is_found(*where, thing) else None


def _own_name(thing: Any) -> tuple[Any, Any]:
    if isinstance(thing, type):
        return type.__getattribute__(thing, "__module__"), thing.__qualname__
    if isinstance(thing, (types.FunctionType, types.BuiltinFunctionType)):
        return thing.__module__, thing.__qualname__
    owner = getattr(thing, "__objclass__", None) if isinstance(thing, _DESCRIPTORS) else None
    if owner is not None:
        return owner.__module__, f"{owner.__qualname__}.{thing.__name__}"
    return None, None


_DESCRIPTORS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
)


def _is_found(module: str, name: str, thing: Any) -> bool:
    try:
        return sys.modules.get(module) is not None and found(module, name) is thing
    except RecordError:
        return False


@functools.lru_cache(maxsize=1)
def _index_of(count: int) -> dict[int, tuple[str, str]]:
    names: dict[int, tuple[str, str]] = {}
    loaded = [(name, module) for name, module in list(sys.modules.items()) if isinstance(module, types.ModuleType)]
    for module, of in sorted(loaded, key=lambda pair: (pair[0].count("."), len(pair[0]), pair[0])):
        if not is_library(module) or of.__dict__.get("__name__") != module:
            continue
        for name, value in list(of.__dict__.items()):
            is_named = isinstance(name, str) and not name.startswith("__")
            if is_named and not issubclass(type(value), _SCALARS):  # isinstance would ask some for their __class__
                names.setdefault(id(value), (module, name))
    return names


def _index() -> dict[int, tuple[str, str]]:
    """What stands in the modules of libraries under some name. Made anew when modules have been loaded."""
    return _index_of(len(sys.modules))
