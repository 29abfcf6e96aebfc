"""The rows of a record as objects, without running any code of it.

Objects are made empty first and filled then, classes last of all: as long as a class is empty, no method of it (`__hash__`,
`__setattr__`, `__init_subclass__`, …) can be called by what fills others. What is wrong in a row is a RecordError.
"""

from __future__ import annotations

import abc
import base64
import builtins
import collections
import enum
import functools
import re
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from pellucid._replay import changes, library
from pellucid._replay.codes import rebuilt
from pellucid._replay.errors import RecordError
from pellucid._replay.instances import dict_of, finalizer_of
from pellucid._replay.tensors import HOOKS, device_named, dtype_named, made_tensor

_NAMED = {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}
# Attributes of functions by which captures would run them.
_MARKS = {"_dynamo_marked_constant", "__torch_dynamo_polyfill__"}
# Attributes of classes that change what a class is, or run when its objects go.
_OF_CLASS = {"__bases__", "__class__", "__name__", "__qualname__", "__module__", "__del__", "__abstractmethods__"}
# What looks at the hash of what it holds, and what gives its objects a hash: filled behind all others, in this order.
_HASHED = {"dict", "set", "OrderedDict", "defaultdict"}
_CLASSES = {"class", "enum"}
_BASES: dict[str, Any] = {
    each.__name__: each
    for each in (list, tuple, set, frozenset, dict, int, float, str, bytes, property, BaseException, object)
} | {each.__name__: each for each in (collections.deque, collections.OrderedDict, collections.defaultdict)}


class NotRecorded:
    """Stands for an object that is not in the record. A replay that reads one says so."""


class Reader:
    """Makes objects of rows. `missing`: what stands for an object that is not there, by its address, with its path and why."""

    def __init__(self, rows: list[list[Any]], texts: list[str]) -> None:
        self.missing: dict[int, tuple[str, str, str]] = {}
        self.codes: set[types.CodeType] = set()
        self.modules: dict[str, types.ModuleType] = {}
        self._rows = rows
        self._texts = texts
        self._roots: dict[tuple, types.CodeType] = {}
        self._made: dict[int, Any] = {}
        self._making: set[int] = set()
        self._kept: list[Any] = []
        self._namespaces: dict[int, types.ModuleType] = {}

    def read(self) -> None:
        """All rows."""
        try:
            for number in range(len(self._rows)):
                self.row(number)
            for kinds in (None, _HASHED, _CLASSES):  # None: all others
                for number, row in enumerate(self._rows):
                    kind = row[2] if row[0] == "instance" else row[0]
                    if kind in kinds if kinds is not None else kind not in _HASHED | _CLASSES:
                        self._fill(number, row)
        except RecordError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise RecordError(f"the record is damaged: {type(error).__name__}: {error}") from error

    def part(self, part: Any) -> Any:
        """What a part means."""
        if not isinstance(part, dict):
            if part is None or isinstance(part, (bool, int, str)):
                return part
            raise RecordError(f"the record is damaged: a part of it is a {type(part).__name__}")
        ((kind, value),) = part.items()
        if kind == "r":
            return self.row(value)
        if kind == "int":
            return int(value, 16)
        if kind == "float":
            return float.fromhex(value)
        if kind == "complex":
            return complex(*map(float.fromhex, value))
        if kind == "bytes":
            return base64.b64decode(value)
        if kind == "name":
            return _NAMED[value]
        raise RecordError(f"the record is damaged: it has a part of the kind {kind!r}")

    def row(self, number: int) -> Any:
        """The object of a row, perhaps still empty."""
        if number in self._made:
            return self._made[number]
        if type(number) is not int or not 0 <= number < len(self._rows):
            raise RecordError(f"the record is damaged: there is no row {number!r}")
        if number in self._making:
            raise RecordError("the record is damaged: an object is made of itself")
        self._making.add(number)
        row = self._rows[number]
        make = _MADE.get(row[0])
        if make is None:
            raise RecordError(f"the record is damaged: it has a row of the kind {row[0]!r}")
        made = self._made[number] = make(self, row, number)
        self._making.discard(number)
        return made

    def parts(self, parts: list[Any]) -> list[Any]:
        """What several mean."""
        return [self.part(each) for each in parts]

    def _items(self, pairs: list[Any]) -> list[tuple[Any, Any]]:
        return [(_key(self.part(key)), self.part(value)) for key, value in pairs]

    # ---- making

    def _library(self, row: list[Any], number: int) -> Any:
        _, module, name = row
        if library.runs_code(module):
            return self.not_recorded(number, f"{module}.{name}", "captures run code of the program for it")
        return library.found(module, name)

    def _missing(self, row: list[Any], number: int) -> Any:
        _, path, kind, why = row
        return self.not_recorded(path, kind, why)

    def not_recorded(self, path: Any, kind: str, why: str) -> NotRecorded:
        """What stands for an object that is not there."""
        made = NotRecorded()
        self._kept.append(made)
        self.missing[id(made)] = (str(path), str(kind), str(why))
        return made

    def _namespace(self, row: list[Any], number: int) -> dict[str, Any]:
        name = next((value for name, value in row[1] if name == "__name__"), None)
        module = self._namespaces[number] = types.ModuleType(name if isinstance(name, str) else "?")
        if isinstance(name, str):
            self.modules.setdefault(name, module)
        module.__dict__.clear()
        module.__dict__["__builtins__"] = builtins
        return module.__dict__

    def _module(self, row: list[Any], number: int) -> types.ModuleType:
        self.part(row[1])
        return self._namespaces[row[1]["r"]]

    def _function(self, row: list[Any], number: int) -> Any:
        _, name, qualname, _, form, scope, _, _, cells, _ = row
        if isinstance(form, str):
            return self.not_recorded(qualname, "function", form)
        code = rebuilt(form, self._texts, self._roots)
        self.codes.add(code)
        closure = tuple(self.parts(cells))
        if len(closure) != len(code.co_freevars) or not all(isinstance(each, types.CellType) for each in closure):
            raise RecordError(f"the record is damaged: the function {qualname} has other free variables")
        made = types.FunctionType(code, self.part(scope), name, None, closure or None)
        made.__qualname__ = qualname
        return made

    def _class(self, row: list[Any], number: int) -> Any:
        _, name, qualname, module, bases, meta, slots, _, _ = row
        own_bases = tuple(self.parts(bases))
        metaclass = self.part(meta)
        if any(isinstance(each, NotRecorded) for each in (*own_bases, metaclass)):
            return self.not_recorded(qualname, "class", "one of its base classes is not in the record")
        if not all(isinstance(each, type) for each in own_bases) or not issubclass(metaclass, type):
            raise RecordError(f"the record is damaged: the class {qualname} has bases that are no classes")
        if finalizer_of(own_bases) is not None:
            raise RecordError(f"the class {qualname} of the record has a finalizer")
        namespace: dict[str, Any] = {"__module__": self.part(module), "__qualname__": qualname}
        if slots is not None:
            if not all(isinstance(each, str) for each in slots):
                raise RecordError(f"the record is damaged: __slots__ of {qualname}")
            namespace["__slots__"] = tuple(slots)
        try:
            made = type.__new__(metaclass, name, own_bases, namespace)
        except Exception as error:  # a base class of a library that refuses it
            return self.not_recorded(qualname, "class", f"it cannot be made here: {error}")
        if issubclass(metaclass, abc.ABCMeta):
            abc._abc_init(made)  # type: ignore[attr-defined]
            type.__setattr__(made, "__abstractmethods__", frozenset())  # while it is empty
        return made

    def _enum(self, row: list[Any], number: int) -> Any:
        _, name, qualname, module, base, mixed, members, _ = row
        values = [(key, self.part(value)) for key, value in members]
        kind = self.part(base)
        if not isinstance(kind, type) or not issubclass(kind, enum.Enum) or kind.__module__ != "enum":
            raise RecordError(f"the record is damaged: the enum {qualname}")
        if not all(isinstance(value, (int, str, float, tuple, bytes, type(None))) for _, value in values):
            return self.not_recorded(qualname, "enum", "its values are no numbers or texts")
        mixin = self.part(mixed)
        more = {"type": mixin} if mixin in (int, str, float) else {}
        make: Any = kind
        return make(name, values, module=module, qualname=qualname, **more)

    def _instance(self, row: list[Any], number: int) -> Any:
        _, of, base_name, held, _, _ = row
        cls = self.part(of)
        if isinstance(cls, NotRecorded):
            return self.not_recorded(number, "instance", "its class is not in the record")
        base = _BASES[base_name]
        if not isinstance(cls, type) or finalizer_of((cls,)) is not None:
            raise RecordError(f"the record has an object of a class with a finalizer: {cls}")
        if issubclass(cls, enum.Enum):
            return _member(cls, row, self)
        try:
            if base in (int, float, str, bytes):
                return base.__new__(cls, self.part(held))
            if base in (tuple, frozenset):
                values = self.parts(held)
                return base.__new__(cls, map(_key, values) if base is frozenset else values)
            if base is property:
                return _made_property(cls, self.parts(held))
            if base is BaseException:
                return _made_error(base.__new__, cls, self.parts(held))
            return base.__new__(cls)
        except TypeError as error:
            return self.not_recorded(number, f"{cls.__module__}.{cls.__qualname__}", f"it cannot be made here: {error}")

    def _tensor(self, row: list[Any], number: int) -> Any:
        _, of, layout, shares, is_view, *_ = row
        cls = self.part(of)
        if isinstance(cls, NotRecorded):
            return self.not_recorded(number, "tensor", "its class is not in the record")
        base = self.part(shares)
        if not isinstance(cls, type) or not issubclass(cls, torch.Tensor):
            raise RecordError("the record is damaged: a tensor of a class that is none of tensors")
        if base is not None and not isinstance(base, torch.Tensor):
            return self.not_recorded(number, "tensor", "the tensor that it is a view of is not in the record")
        return made_tensor(layout, cls, base, bool(is_view))

    def _layered(self, row: list[Any], number: int) -> Any:
        _, module, name, layers, content = row
        try:
            here = library.found(module, name)
        except RecordError:
            return self.part(content)
        return here if changes.layers_of(here) == layers else self.part(content)

    def _globals(self, row: list[Any], number: int) -> dict[str, Any]:
        return library.module_named(row[1]).__dict__

    def _operator(self, row: list[Any], number: int) -> Any:
        _, namespace, name, overload = row
        if not all(isinstance(each, str) and each.isidentifier() for each in (namespace, name, overload or "default")):
            raise RecordError("the record is damaged: an operator without a name")
        try:
            packet = getattr(getattr(torch.ops, namespace), name)
            return packet if overload is None else getattr(packet, overload)
        except (AttributeError, RuntimeError):
            return self.not_recorded(f"torch.ops.{namespace}.{name}", "operator", "no library here has registered it")

    def _array(self, row: list[Any], number: int) -> Any:
        import numpy

        _, kind, shape, data = row
        dtype = _dtype_of_numpy(kind)
        count = 1
        for size in shape:
            count *= size
        if any(size < 0 for size in shape) or count * dtype.itemsize > 1 << 30:
            raise RecordError("the record has an array that is too large")
        if data is None:
            return numpy.zeros(shape, dtype)
        return numpy.frombuffer(bytearray(base64.b64decode(data)), dtype).reshape(shape)

    def _scalar(self, row: list[Any], number: int) -> Any:
        import numpy

        return numpy.frombuffer(base64.b64decode(row[2]), _dtype_of_numpy(row[1]), 1)[0]

    def _bound(self, row: list[Any], number: int) -> Any:
        owner, name = self.part(row[1]), row[2]
        if isinstance(owner, NotRecorded):
            return self.not_recorded(number, "method", "its object is not in the record")
        method = library.bound_method(owner, name)
        if method is not None:
            return method
        raise RecordError(f"the record asks for the method {name!r} of a {type(owner).__name__}")

    def _compiled(self, row: list[Any], number: int) -> Any:
        from pellucid import api

        function = self.part(row[1])
        if not isinstance(function, types.FunctionType):
            return self.not_recorded(number, "compiled function", "its function is not in the record")
        return api.Settings(fullgraph=bool(row[2]), backend="eager")(function)

    def _iterator(self, row: list[Any], number: int) -> Any:
        container = self.part(row[1])
        if type(container) not in (list, tuple, range, str):
            raise RecordError("the record is damaged: an iterator over something else")
        made = iter(container)
        made.__setstate__(row[2])
        return made

    # ---- filling

    def _fill(self, number: int, row: list[Any]) -> None:
        made, kind = self._made[number], row[0]
        if isinstance(made, NotRecorded):
            return
        if kind in ("list", "deque"):
            made.extend(self.parts(row[1]))
        elif kind == "set":
            made.update(map(_key, self.parts(row[1])))
        elif kind in ("dict", "OrderedDict", "defaultdict"):
            made.update(self._items(row[1]))
        elif kind == "namespace":
            made.update((name, self.part(value)) for name, value in row[1] if name != "__builtins__")
            for name in row[2]:
                if name not in made:
                    path = f"{made.get('__name__')}.{name}"
                    made[name] = self.not_recorded(path, "global", "no code that was captured names it")
        elif kind == "cell" and len(row) == 2:
            made.cell_contents = self.part(row[1])
        elif kind == "function":
            self._fill_function(made, row)
        elif kind in ("class", "enum"):
            for name, value in row[7]:
                if name not in _OF_CLASS:
                    type.__setattr__(made, name, self.part(value))
            if kind == "class" and row[8]:
                type.__setattr__(made, "__abstractmethods__", frozenset(map(str, row[8])))
        elif kind == "instance":
            self._fill_instance(made, row)
        elif kind == "tensor":
            made.__dict__.update((name, self.part(value)) for name, value in row[6])
            gradient = self.part(row[5])
            if isinstance(gradient, torch.Tensor):
                made.grad = gradient
            for name, hooks in zip(HOOKS, self.parts(row[7]), strict=True):
                if isinstance(hooks, dict):
                    setattr(made, name, hooks)

    def _fill_function(self, made: types.FunctionType, row: list[Any]) -> None:
        _, _, _, module, _, _, defaults, keyword_defaults, _, attributes = row
        made.__defaults__ = self.part(defaults)
        made.__kwdefaults__ = self.part(keyword_defaults)
        made.__module__ = self.part(module)
        made.__dict__.update((name, self.part(value)) for name, value in attributes if name not in _MARKS)

    def _fill_instance(self, made: Any, row: list[Any]) -> None:
        _, _, base_name, held, attributes, slots = row
        base = _BASES[base_name]
        if isinstance(made, enum.Enum):
            return
        if base is list or base is collections.deque:
            base.extend(made, self.parts(held))
        elif base is set:
            set.update(made, map(_key, self.parts(held)))
        elif base in (dict, collections.OrderedDict, collections.defaultdict):
            for key, value in self._items(held):
                base.__setitem__(made, key, value)
        if attributes:
            own = dict_of(made)
            if own is None:
                raise RecordError(f"the record is damaged: objects of {type(made).__name__} have no attributes")
            own.update((name, self.part(value)) for name, value in attributes)
        for name, value in slots:
            member = next((each.__dict__[name] for each in type(made).__mro__ if name in each.__dict__), None)
            if not isinstance(member, types.MemberDescriptorType):
                raise RecordError(f"the record is damaged: {type(made).__name__} has no slot {name!r}")
            member.__set__(made, self.part(value))


def _pattern(text: Any, flags: int) -> Any:
    try:
        return re.compile(text, flags)
    except re.error as error:
        raise RecordError(f"the record has a pattern that is none: {error}") from error


def _dtype_of_numpy(name: Any) -> Any:
    import numpy

    dtype = numpy.dtype(name) if isinstance(name, str) else None
    if dtype is None or dtype.hasobject or dtype.names or dtype.itemsize > 1 << 16:
        raise RecordError(f"the record asks for the dtype {name!r} of numpy")
    return dtype


def _member(cls: Any, row: list[Any], reader: Reader) -> Any:
    name = next((reader.part(value) for name, value in row[4] if name == "_name_"), None)
    if name in cls._member_map_:
        return cls._member_map_[name]
    value = next((reader.part(value) for each, value in row[4] if each == "_value_"), None)
    if issubclass(cls, enum.Flag) and type(value) is int:
        return cls(value)
    raise RecordError(f"the record asks for the member {name!r} of {cls.__name__}")


def _made_property(cls: Any, functions: list[Any]) -> Any:
    made = property.__new__(cls)
    property.__init__(made, *(None if isinstance(each, NotRecorded) else each for each in functions))
    return made


def _made_error(make: Any, cls: type, args: list[Any]) -> Any:
    return make(cls, *args)


def _key(value: Any) -> Any:
    """As the key of a dict, whose hash no Python code computes."""
    if type(value) in (tuple, frozenset):
        for each in value:
            _key(each)
    elif not library.has_known_hash(value):
        raise RecordError(f"the record has a key whose hash is code: {type(value).__name__}")
    return value


def _made_of(make: Callable[..., Any]) -> Callable[[Reader, list[Any], int], Any]:
    def made(reader: Reader, row: list[Any], number: int) -> Any:
        parts = reader.parts(row[1:])
        if any(isinstance(each, NotRecorded) for each in parts):
            return reader.not_recorded(number, row[0], "a part of it is not in the record")
        return make(*parts)

    return made


def _weak(target: Any) -> Any:
    return weakref.ref(target if target is not None else types.SimpleNamespace())


def _partial(make: Any) -> Callable[[Reader, list[Any], int], Any]:
    def made(reader: Reader, row: list[Any], number: int) -> Any:
        keywords = {str(name): reader.part(value) for name, value in row[3]}
        function = reader.part(row[1])
        if isinstance(function, NotRecorded):
            return reader.not_recorded(number, row[0], "its function is not in the record")
        return make(function, *reader.parts(row[2]), **keywords)

    return made


def _method(function: Any, of: Any) -> Any:
    return types.MethodType(function, of)


def _cached_property(function: Any, name: Any, doc: Any) -> Any:
    made = functools.cached_property.__new__(functools.cached_property)
    made.__dict__.update(func=function, attrname=name, __doc__=doc, lock=None)
    return made


_MADE: dict[str, Callable[[Reader, list[Any], int], Any]] = {
    "library": Reader._library,
    "missing": Reader._missing,
    "list": lambda reader, row, number: [],
    "tuple": lambda reader, row, number: tuple(reader.parts(row[1])),
    "set": lambda reader, row, number: set(),
    "frozenset": lambda reader, row, number: frozenset(map(_key, reader.parts(row[1]))),
    "deque": lambda reader, row, number: collections.deque(maxlen=row[2]),
    "dict": lambda reader, row, number: {},
    "OrderedDict": lambda reader, row, number: collections.OrderedDict(),
    "defaultdict": lambda reader, row, number: collections.defaultdict(reader.part(row[2])),
    "namespace": Reader._namespace,
    "module": Reader._module,
    "function": Reader._function,
    "class": Reader._class,
    "enum": Reader._enum,
    "instance": Reader._instance,
    "tensor": Reader._tensor,
    "layered": Reader._layered,
    "globals": Reader._globals,
    "operator": Reader._operator,
    "numpy.array": Reader._array,
    "numpy.dtype": lambda reader, row, number: _dtype_of_numpy(row[1]),
    "numpy.scalar": Reader._scalar,
    "bound": Reader._bound,
    "compiled": Reader._compiled,
    "iterator": Reader._iterator,
    "pattern": lambda reader, row, number: _pattern(reader.part(row[1]), row[2]),
    "dtype": lambda reader, row, number: dtype_named(row[1]),
    "device": lambda reader, row, number: device_named(row[1]),
    "cell": lambda reader, row, number: types.CellType(),
    "tuplegetter": lambda reader, row, number: collections._tuplegetter(int(row[1]), str(row[2])),  # type: ignore[attr-defined]
    "method": _made_of(_method),
    "property": _made_of(property),
    "staticmethod": _made_of(staticmethod),
    "classmethod": _made_of(classmethod),
    "partial": _partial(functools.partial),
    "partialmethod": _partial(functools.partialmethod),
    "cached_property": _made_of(_cached_property),
    "mappingproxy": _made_of(types.MappingProxyType),
    "slice": _made_of(slice),
    "range": _made_of(range),
    "ReferenceType": _made_of(_weak),
    "Size": lambda reader, row, number: torch.Size(reader.part(row[1])),
    "bytearray": _made_of(bytearray),
}
