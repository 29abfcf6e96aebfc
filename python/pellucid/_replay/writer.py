"""Objects of the program as the rows of a record.

A row is a list: its kind, then its parts. A part is plain JSON (None, a bool, a small int, a text), or a dict with one key: {"r": 3}
is the object of row 3, others are numbers and bytes that JSON does not have. So objects that are in several places, or hold each
other, stay so.
"""

from __future__ import annotations

import base64
import collections
import enum
import functools
import re
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from pellucid import _core
from pellucid._replay import library
from pellucid._replay.codes import Texts
from pellucid._replay.instances import dict_of, finalizer_of
from pellucid._replay.tensors import HOOKS, tensor_row

MOST_ROWS = 100_000
MOST_TEXT = 1 << 20
MOST_BYTES = 1 << 16

_NAMED = {type(Ellipsis): "Ellipsis", type(NotImplemented): "NotImplemented"}
# What a class makes by itself.
_OF_CLASS = {"__dict__", "__weakref__", "__module__", "__qualname__", "__slots__", "__doc__", "_abc_impl"} | {
    "__abstractmethods__"
}
_PARTS_OF_PROPERTY: list[Any] = [property.__dict__[name] for name in ("fget", "fset", "fdel")]
# Builtin classes whose instances, and those of their subclasses, are written by what they hold.
CONTENTS: dict[type, Callable[[Any], Any]] = {
    list: lambda o: list(list.__iter__(o)),
    tuple: lambda o: list(tuple.__iter__(o)),
    set: lambda o: list(set.__iter__(o)),
    frozenset: lambda o: list(frozenset.__iter__(o)),
    collections.deque: lambda o: list(collections.deque.__iter__(o)),
    dict: lambda o: [list(pair) for pair in dict.items(o)],
    collections.OrderedDict: lambda o: [list(pair) for pair in collections.OrderedDict.items(o)],
    collections.defaultdict: lambda o: [list(pair) for pair in dict.items(o)],
    property: lambda o: [part.__get__(o) for part in _PARTS_OF_PROPERTY],
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: bytes.__bytes__,
    BaseException: lambda o: list(BaseException.args.__get__(o)),  # type: ignore[attr-defined]
}


class Writer:
    """Makes rows of objects, those nearest to the call first.

    Args:
        executed: the code objects that capture ran through; what they name is recorded, and their text.
    """

    def __init__(self, executed: Iterable[types.CodeType]) -> None:
        self.rows: list[list[Any] | None] = []
        self.texts = Texts()
        self.missing: list[tuple[str, str]] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._came_from: list[tuple[int, str]] = []
        self._waiting: collections.deque[tuple[int, Any]] = collections.deque()
        self._executed = set(executed)
        self.names = names_of(self._executed)

    def write(self, value: Any, step: str) -> Any:
        """The part that means `value`, and the rows of all that hangs on it. `step`: what messages call it."""
        part = self._part(value, -1, step)
        while self._waiting:
            number, thing = self._waiting.popleft()
            self.rows[number] = self._row(thing, number)
        return part

    def write_layered(self, function: types.FunctionType, where: tuple[str, str], layers: list[str]) -> Any:
        """As `write`, of a function of a library that wraps others: by its name, and as what it consists of.

        A replay takes the one of this name where it wraps the same functions.
        """
        module, name = where
        number = self._new_row(-1, f"{module}.{name}")
        self._numbers[id(function)] = number
        self._kept.append(function)
        inner = self._new_row(-1, f"{module}.{name}")
        self.rows[inner] = self._function(function, inner)
        self.rows[number] = ["layered", module, name, layers, {"r": inner}]
        self.write(None, "")
        return {"r": number}

    # ---- parts

    def _part(self, value: Any, of: int, step: str) -> Any:
        kind = type(value)
        if value is None or kind is bool or (kind is int and -(2**53) < value < 2**53):
            return value
        if kind is str and len(value) <= MOST_TEXT:
            return value
        if kind is int:
            return {"int": hex(value)}
        if kind is float:
            return {"float": value.hex()}
        if kind is complex:
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if kind is bytes and len(value) <= MOST_BYTES:
            return {"bytes": base64.b64encode(value).decode()}
        if kind in _NAMED:
            return {"name": _NAMED[kind]}
        return {"r": self._number(value, of, step)}

    def _number(self, value: Any, of: int, step: str) -> int:
        known = self._numbers.get(id(value))
        if known is not None:
            return known
        number = self._new_row(of, step)
        self._numbers[id(value)] = number
        self._kept.append(value)
        self._waiting.append((number, value))
        return number

    def _new_row(self, of: int, step: str) -> int:
        self.rows.append(None)
        self._came_from.append((of, step))
        return len(self.rows) - 1

    def path_of(self, number: int) -> str:
        """How the object of a row is reached, as Python text."""
        steps: list[str] = []
        while number >= 0:
            number, step = self._came_from[number]
            steps.append(step)
        return "".join(reversed(steps))

    def _parts(self, values: Iterable[Any], of: int) -> list[Any]:
        return [self._part(value, of, f"[{i}]") for i, value in enumerate(values)]

    def _items(self, pairs: Iterable[Any], of: int) -> list[Any]:
        return [
            [self._part(key, of, ".keys()"), self._part(value, of, f"[{_short(key)}]")] for key, value in list(pairs)
        ]

    def _attributes(self, values: dict[str, Any], of: int) -> list[Any]:
        return [[name, self._part(value, of, f".{name}")] for name, value in list(values.items())]

    # ---- rows

    def _row(self, thing: Any, at: int) -> list[Any]:
        try:
            if type(thing).__module__.partition(".")[0] == "numpy" and not isinstance(thing, type):
                row = self._of_numpy(thing, at)
                if row is not None:
                    return row
            if len(self.rows) > MOST_ROWS:
                return self._opaque(thing, at, f"the record has {MOST_ROWS} objects already")
            named = library.name_of(thing)
            if named is not None:
                return ["library", *named]
            for kind, make in _MAKERS:
                if issubclass(type(thing), kind) if kind in _WITH_SUBCLASSES else type(thing) is kind:
                    return make(self, thing, at)
            return self._instance(thing, at)
        except Exception as error:  # an object of the program that is not what its class says
            return self._opaque(thing, at, f"it cannot be read: {type(error).__name__}: {error}")

    def _opaque(self, thing: Any, at: int, why: str) -> list[Any]:
        kind = type(thing)
        name = f"{kind.__module__}.{kind.__qualname__}"
        path = self.path_of(at)
        self.missing.append((path, f"{name}: {why}"))
        return ["missing", path, name, why]

    def _contents(self, thing: Any, at: int) -> list[Any]:
        kind = type(thing)
        held = CONTENTS[kind](thing)
        if _has_coded_key(kind, held):
            return self._opaque(thing, at, "a key has a __hash__ of the program")
        if kind in (dict, collections.OrderedDict, collections.defaultdict):
            first = (
                [self._part(thing.default_factory, at, ".default_factory")] if hasattr(thing, "default_factory") else []
            )
            return [kind.__name__, self._items(held, at), *first]
        if kind is collections.deque:
            return ["deque", self._parts(held, at), thing.maxlen]
        return [kind.__name__, self._parts(held, at)]

    def _function(self, function: types.FunctionType, at: int) -> list[Any]:
        steering = _core.steering_of(function)
        if steering:
            name = next(name for name, number in _core.steerings().items() if number == steering)
            return self._opaque(function, at, f"it is marked for captures ({name})")
        code = function.__code__
        form = self.texts.form_of(code) if self._is_wanted(code) else "the capture did not run it"
        attributes = {name: value for name, value in function.__dict__.items() if isinstance(name, str)}
        cells = function.__closure__ or ()
        return [
            "function",
            function.__name__,
            function.__qualname__,
            self._part(function.__module__, at, ".__module__"),
            form,
            self._namespace(function.__globals__, at) if not isinstance(form, str) else None,
            self._part(function.__defaults__, at, ".__defaults__"),
            self._part(function.__kwdefaults__, at, ".__kwdefaults__"),
            [
                self._part(cell, at, f".__closure__[{name!r}]")
                for name, cell in zip(code.co_freevars, cells, strict=True)
            ]
            if not isinstance(form, str)
            else [],
            self._attributes(attributes, at),
        ]

    def _is_wanted(self, code: types.CodeType) -> bool:
        return code in self._executed or code.co_filename in self._files

    @functools.cached_property
    def _files(self) -> set[str]:
        return {code.co_filename for code in self._executed if not code.co_filename.startswith("<")}

    def _namespace(self, values: dict[str, Any], of: int) -> dict[str, int]:
        """The row of the globals of a function or of a module: what the executed code may read, and the names of the rest."""
        known = self._numbers.get(id(values))
        if known is not None:
            return {"r": known}
        name = values.get("__name__")
        number = self._new_row(-1, f"G({name!r})")
        self._numbers[id(values)] = number
        self._kept.append(values)
        own = sys.modules.get(name) if library.is_library(name) and isinstance(name, str) else None
        is_of_library = own is not None and own.__dict__ is values
        self._waiting.append((number, _Globals(str(name)) if is_of_library else _Namespace(values)))
        return {"r": number}

    def _namespace_row(self, of: _Namespace, at: int) -> list[Any]:
        read, others = [], []
        for name, value in list(of.values.items()):
            if not isinstance(name, str) or name == "__builtins__":
                continue
            if name in self.names or name in ("__name__", "__package__", "__file__"):
                read.append([name, self._part(value, at, f"[{name!r}]")])
            else:
                others.append(name)
        return ["namespace", read, others]

    def _module(self, module: types.ModuleType, at: int) -> list[Any]:
        if type(module) is not types.ModuleType:
            return self._opaque(module, at, "a module with a class of its own")
        return ["module", self._namespace(module.__dict__, at)]

    def _class(self, cls: type, at: int) -> list[Any]:
        if issubclass(cls, enum.Enum):
            return self._enum(cls, at)
        if "__del__" in cls.__dict__:
            return self._opaque(cls, at, "a class whose instances have a finalizer")
        slots = cls.__dict__.get("__slots__")
        slots = [slots] if isinstance(slots, str) else None if slots is None else list(slots)
        own = {
            name: value
            for name, value in cls.__dict__.items()
            if name not in _OF_CLASS
            and not (isinstance(value, types.MemberDescriptorType) and slots)
            and not (name == "__annotations__" and name not in self.names)
        }
        doc = cls.__dict__.get("__doc__")
        if isinstance(doc, str):
            own["__doc__"] = doc
        return [
            "class",
            cls.__name__,
            cls.__qualname__,
            self._part(cls.__dict__.get("__module__"), at, ".__module__"),
            self._parts(cls.__bases__, at),
            self._part(type(cls), at, ".__class__"),
            slots,
            self._attributes(own, at),
            sorted(cls.__dict__.get("__abstractmethods__", ())),
        ]

    def _enum(self, cls: Any, at: int) -> list[Any]:
        members = {name: member._value_ for name, member in cls.__members__.items()}
        mixed = [base for base in cls.__bases__ if not issubclass(base, enum.Enum)]
        known = {"_member_names_", "_member_map_", "_value2member_map_", "_member_type_", "_value_repr_", "__new__"}
        known |= {"_use_args_", "_new_member_", "_generate_next_value_", "_unhashable_values_", "_hashable_values_"}
        own = {
            name: value
            for name, value in cls.__dict__.items()
            if name not in _OF_CLASS | known | set(members) and isinstance(value, (types.FunctionType, property))
        }
        base = next(base for base in cls.__mro__ if issubclass(base, enum.Enum) and base.__module__ == "enum")
        return [
            "enum",
            cls.__name__,
            cls.__qualname__,
            cls.__module__,
            self._part(base, at, ".__base__"),
            self._part(mixed[0] if mixed else None, at, ".__base__"),
            self._attributes(members, at),
            self._attributes(own, at),
        ]

    def _instance(self, thing: Any, at: int) -> list[Any]:
        cls = type(thing)
        base = next(each for each in _line(cls) if not each.__flags__ & _HEAP_TYPE)
        held: Any = None
        if base is not object:
            base = next((each for each in _line(base) if each in CONTENTS), object)
            if base is object or (issubclass(base, BaseException) and not _is_plain_error(cls)):
                return self._opaque(thing, at, "an object of C code, of which nothing is known")
            held = CONTENTS[base](thing)
            if _has_coded_key(base, held):
                return self._opaque(thing, at, "a key has a __hash__ of the program")
        if finalizer_of((cls,)) is not None:
            return self._opaque(thing, at, "it has a finalizer")
        if not _can_be_empty(cls, base):
            return self._opaque(thing, at, "an object of C code, of which nothing is known")
        if base in (int, float, str, bytes):
            held = self._part(held, at, "")
        elif base in (dict, collections.OrderedDict, collections.defaultdict):
            held = self._items(held, at)
        elif held is not None:
            held = self._parts(held, at)
        values = dict(dict_of(thing) or {})
        slots: dict[str, Any] = {}
        for each in cls.__mro__:
            for name, member in each.__dict__.items():
                if isinstance(member, types.MemberDescriptorType) and each.__flags__ & _HEAP_TYPE:
                    try:
                        slots.setdefault(name, member.__get__(thing, cls))
                    except AttributeError:
                        continue
        if any(not isinstance(name, str) for name in values):
            return self._opaque(thing, at, "an attribute has a name that is no text")
        return [
            "instance",
            self._part(cls, at, ".__class__"),
            base.__name__,
            held,
            self._attributes(values, at),
            self._attributes(slots, at),
        ]

    def _tensor(self, tensor: torch.Tensor, at: int) -> list[Any]:
        row = tensor_row(tensor)
        if isinstance(row, str):
            return self._opaque(tensor, at, row)
        base = tensor._base if tensor._is_view() else None
        if base is None:  # another tensor with the same storage, if there is one
            base = self._storages.setdefault(tensor.untyped_storage()._cdata, tensor)
            self._kept.append(base)
        cls = type(tensor)
        return [
            "tensor",
            self._part(cls, at, ".__class__"),
            row,
            self._part(None if base is tensor else base, at, "._base"),
            tensor._is_view(),
            self._part(tensor.grad if tensor.is_leaf else None, at, ".grad"),
            self._attributes(dict(dict_of(tensor) or {}), at),
            [self._part(getattr(tensor, hooks), at, f".{hooks}") for hooks in HOOKS],
        ]

    @functools.cached_property
    def _storages(self) -> dict[int, torch.Tensor]:
        return {}

    def _operator(self, operator: Any, at: int) -> list[Any]:
        overload = operator._overloadname if isinstance(operator, torch._ops.OpOverload) else None
        packet = operator if overload is None else operator._overloadpacket
        return ["operator", *packet._qualified_op_name.split("::", 1), overload]

    def _custom_operator(self, operator: Any, at: int) -> list[Any]:
        return self._opaque(operator, at, "an operator that the program registers")

    def _of_numpy(self, thing: Any, at: int) -> list[Any] | None:
        """An array, a scalar or a dtype; None: it is something else."""
        import numpy

        if type(thing) is numpy.ndarray:
            return self._array(thing, at)
        if isinstance(thing, numpy.dtype) and not thing.hasobject and not thing.names:
            return ["numpy.dtype", thing.str]
        if isinstance(thing, numpy.generic) and not thing.dtype.hasobject and not thing.dtype.names:
            return ["numpy.scalar", thing.dtype.str, base64.b64encode(thing.tobytes()).decode()]
        return None

    def _array(self, array: Any, at: int) -> list[Any]:
        if array.dtype.hasobject or array.dtype.names:
            return self._opaque(array, at, "an array of objects or of records")
        small = array.nbytes <= MOST_BYTES
        data = base64.b64encode(array.tobytes()).decode() if small else None
        return ["numpy.array", array.dtype.str, list(array.shape), data]

    def _wrapper(self, thing: Any, at: int) -> list[Any]:
        parts = _WRAPPED[type(thing)](thing)
        return [type(thing).__name__, *self._parts(parts, at)]

    def _partial(self, thing: Any, at: int) -> list[Any]:
        parts = self._part(thing.func, at, ".func"), self._parts(thing.args, at)
        return [type(thing).__name__, *parts, self._attributes(thing.keywords, at)]

    def _builtin_method(self, method: types.BuiltinMethodType, at: int) -> list[Any]:
        owner = method.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            return self._opaque(method, at, "a function of C code outside of Python, torch and numpy")
        if library.bound_method(owner, method.__name__) != method:
            return self._opaque(method, at, "a method of C code that its class does not show")
        return ["bound", self._part(owner, at, ".__self__"), method.__name__]

    def _compiled(self, compiled: Any, at: int) -> list[Any]:
        return ["compiled", self._part(compiled.__wrapped__, at, ".__wrapped__"), compiled._fullgraph]

    def _iterator(self, thing: Any, at: int) -> list[Any]:
        _, (container, *_), *position = thing.__reduce__()
        return ["iterator", self._part(container, at, ".container"), position[0] if position else 0]


class _Globals:
    """The globals of a module of a library, which a replay has."""

    def __init__(self, module: str) -> None:
        self.module = module


class _Namespace:
    """The dict of a module or of the globals of a function, of which not everything is written."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values


def names_of(codes: Iterable[types.CodeType]) -> set[str]:
    """What these code objects, and those within, may ask an object or a namespace for: names, and texts for `getattr`."""
    names: set[str] = set()
    waiting = list(codes)
    while waiting:
        code = waiting.pop()
        names.update(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                waiting.append(constant)
            elif isinstance(constant, str):
                names.add(constant)
            elif isinstance(constant, tuple):
                names.update(each for each in constant if isinstance(each, str))
    return {part for name in names for part in (name, *name.split("."))}


def _line(cls: type) -> list[type]:
    """A class and those whose memory layout it goes on with."""
    line: list[type] = []
    at: type | None = cls
    while at is not None:
        line.append(at)
        at = at.__base__
    return line


def _short(key: Any) -> str:
    return repr(key)[:40] if type(key) in (str, int, float, bool, type(None)) else f"<{type(key).__name__}>"


_HEAP_TYPE = 1 << 9
_WRAPPED: dict[type, Callable[[Any], list[Any]]] = {
    types.MethodType: lambda o: [o.__func__, o.__self__],
    property: lambda o: [o.fget, o.fset, o.fdel, o.__doc__],
    staticmethod: lambda o: [o.__func__],
    classmethod: lambda o: [o.__func__],
    functools.cached_property: lambda o: [o.func, o.attrname, o.__doc__],
    types.MappingProxyType: lambda o: [dict(o)],
    slice: lambda o: [o.start, o.stop, o.step],
    range: lambda o: [o.start, o.stop, o.step],
    weakref.ref: lambda o: [o()],
    torch.Size: lambda o: [tuple(o)],
    bytearray: lambda o: [bytes(o)],
}
_NOT_BY_CONTENTS = (int, float, str, bytes, BaseException, property)
_ITERATORS: tuple[type, ...] = (type(iter([])), type(iter(())), type(iter(range(0))))
_WRITTEN = Callable[[Writer, Any, int], list[Any]]
_WITH_SUBCLASSES = {type, torch.Tensor}
_MAKERS: list[tuple[type, _WRITTEN]] = [
    *((kind, Writer._contents) for kind in CONTENTS if kind not in _NOT_BY_CONTENTS),
    *((kind, Writer._wrapper) for kind in _WRAPPED),
    (functools.partial, Writer._partial),
    (functools.partialmethod, Writer._partial),
    (_Namespace, Writer._namespace_row),
    (torch._ops.OpOverload, Writer._operator),
    (torch._ops.OpOverloadPacket, Writer._operator),
    (torch._library.custom_ops.CustomOpDef, Writer._custom_operator),
    (_Globals, lambda writer, o, at: ["globals", o.module]),
    (types.FunctionType, Writer._function),
    (types.BuiltinMethodType, Writer._builtin_method),
    (types.ModuleType, Writer._module),
    (type, Writer._class),
    (torch.Tensor, Writer._tensor),
    (_core.CompiledFunction, Writer._compiled),
    (re.Pattern, lambda writer, o, at: ["pattern", writer._part(o.pattern, at, ".pattern"), o.flags]),
    (torch.dtype, lambda writer, o, at: ["dtype", str(o).removeprefix("torch.")]),
    (torch.device, lambda writer, o, at: ["device", str(o)]),
    (types.CellType, lambda writer, o, at: ["cell", *([writer._part(o.cell_contents, at, "")] if _is_full(o) else [])]),
    (collections._tuplegetter, lambda writer, o, at: ["tuplegetter", *o.__reduce__()[1]]),  # type: ignore[attr-defined]
    *((kind, Writer._iterator) for kind in _ITERATORS),
]


def _has_coded_key(kind: type, held: Any) -> bool:
    """Whether what looks for a key calls code of the program."""
    if issubclass(kind, (set, frozenset)):
        keys = held
    elif issubclass(kind, dict):
        keys = [key for key, _ in held]
    else:
        return False
    return not all(library.has_known_hash(key) for key in keys)


def _can_be_empty(cls: Any, base: Any) -> bool:
    """Whether an object of this class can be made without its class: not of one that is written in C."""
    try:
        base.__new__(cls)
    except TypeError:
        return False
    return True


def _is_plain_error(cls: type) -> bool:
    native = next(each for each in _line(cls) if not each.__flags__ & _HEAP_TYPE)
    return native.__basicsize__ == BaseException.__basicsize__


def _is_full(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
