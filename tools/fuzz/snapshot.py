"""Describes everything that a program can see after a call, as lines of text: two worlds are equal when their lines are.

Objects are numbered in the order in which the walk meets them, so the lines tell which of them are one object.
"""

from __future__ import annotations

import collections
import functools
import re
import types
from collections.abc import Iterable

import numpy
import torch

PLAIN = {int, float, complex, str, bytes, bool, type(None), type(...), range, torch.dtype, torch.device, torch.Size}
PLAIN |= {types.GenericAlias, types.UnionType}  # README: equal ones may be one object
ADDRESS = re.compile(r"0x[0-9a-f]+")
NODE = re.compile(r"grad_fn=<\w+>")  # in the text of a tensor
HIDDEN = {
    "VALUES",
    "__warningregistry__",
    "__builtins__",
    "__name__",
    "__doc__",
    "__package__",
    "__loader__",
    "__spec__",
    "__file__",
    "__cached__",
}
CLASS_HIDDEN = {"__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl"}


def constant(value: object) -> bool:
    return type(value) in PLAIN or (type(value) is tuple and all(map(constant, value)))


def hashed_by_value(value: object) -> bool:
    """Its hash is no address, so that sets of such have one order."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(hashed_by_value, value))
    return type(value) in (int, bool, str, bytes) or (type(value) is float and value == value)


class Snapshot:
    """One walk over inputs, result and state. `lines` is what it saw, `tensors` those that it met.

    `nodes_named`: the nodes of autograd behind tensors are told by name, not only whether there is one."""

    def __init__(self, filename: str, nodes_named: bool = True) -> None:
        self.filename, self.nodes_named = filename, nodes_named
        self.lines: list[str] = []
        self.tensors: list[torch.Tensor] = []
        self.numbers: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.alive: list[object] = []
        self.unordered: list[tuple[str, object]] = []  # sets whose elements are told when all else has been met

    def add(self, path: str, value: object) -> None:
        if type(value) in PLAIN:
            self.lines.append(f"{path}: {type(value).__name__} {value!r}")
            return
        if constant(value):  # CPython's own compiler makes one object of equal constants
            self.lines.append(f"{path}: tuple {value!r}")
            return
        if type(value) in (tuple, frozenset, slice) or isinstance(value, numpy.generic):
            # Which of several equal ones it is README leaves open; what it holds, not.
            self.describe(path, "some", value)
            return
        if isinstance(value, types.ModuleType):
            self.lines.append(f"{path}: module {value.__name__}")
            return
        if id(value) in self.numbers:
            self.lines.append(f"{path}: is #{self.numbers[id(value)]}")
            return
        number = self.numbers[id(value)] = len(self.numbers)
        self.alive.append(value)
        self.describe(path, f"#{number}", value)

    def describe(self, path: str, number: str, value: object) -> None:
        head = f"{path}: {number} {type(value).__qualname__}"
        if isinstance(value, torch.Tensor):
            self.tensor(path, head, value)
        elif isinstance(value, type):
            self.klass(path, head, value)
        elif isinstance(value, types.FunctionType):
            self.function(path, head, value)
        elif isinstance(value, types.MethodType):
            self.lines.append(head)
            self.add(f"{path}.__func__", value.__func__)
            self.add(f"{path}.__self__", value.__self__)
        elif isinstance(value, functools.partial):
            self.lines.append(head)
            for part in ("func", "args", "keywords"):
                self.add(f"{path}.{part}", getattr(value, part))
        elif isinstance(value, BaseException):
            self.exception(path, head, value)
        elif isinstance(value, types.BuiltinFunctionType):
            self.lines.append(f"{head} {value.__qualname__}")
        else:
            self.container(path, head, value)
            self.attributes(path, value)

    def container(self, path: str, head: str, value: object) -> None:
        if isinstance(value, (list, tuple, collections.deque)):
            self.lines.append(f"{head} of {len(value)}")
            if isinstance(value, collections.deque):
                self.lines.append(f"{path}.maxlen: {value.maxlen}")
            for index, item in enumerate(list.__iter__(value) if isinstance(value, list) else iter(value)):
                self.add(f"{path}[{index}]", item)
        elif isinstance(value, dict):
            self.lines.append(f"{head} of {dict.__len__(value)}")
            if isinstance(value, collections.defaultdict):
                self.add(f"{path}.default_factory", value.default_factory)
            for index, (key, item) in enumerate(list(dict.items(value))):
                simple = type(key) in (int, str)
                if not simple:
                    self.add(f"{path}.keys()[{index}]", key)
                self.add(f"{path}[{key!r}]" if simple else f"{path}.values()[{index}]", item)
        elif isinstance(value, (set, frozenset)):
            self.lines.append(f"{head} of {len(value)}")
            if all(map(hashed_by_value, value)):
                self.elements(path, value)
            else:
                self.unordered.append((path, value))
        elif type(value).__module__ == "fuzzed":  # its repr is the program's code
            self.lines.append(head)
        elif isinstance(value, slice):
            self.lines.append(head)
            for part in ("start", "stop", "step"):
                self.add(f"{path}.{part}", getattr(value, part))
        else:
            self.lines.append(f"{head} {ADDRESS.sub('0x', repr(value))}")

    def elements(self, path: str, items: Iterable[object]) -> None:
        for index, item in enumerate(items):
            self.add(f"{path}{{{index}}}", item)

    def alone(self, value: object) -> tuple[list[str], int]:
        """An element as it is by itself, then by when it was met: for an order of elements that have none, since it is that
        of their addresses."""
        view = Snapshot(self.filename, self.nodes_named)
        view.add("", value)
        view.tell_unordered()
        return view.lines, self.numbers.get(id(value), len(self.numbers))

    def tell_unordered(self) -> None:
        while self.unordered:
            path, value = self.unordered.pop(0)
            self.elements(path, sorted(value, key=self.alone))

    def attributes(self, path: str, value: object) -> None:
        if isinstance(getattr(type(value), "__dict__", {}).get("_value2member_map_"), dict):
            self.lines.append(f"{path}: member {value!r}")
            return
        for name, item in list(getattr(value, "__dict__", {}).items()):
            self.add(f"{path}.{name}", item)
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and base.__module__ in ("fuzzed", "value_matrix_values"):
                    try:
                        item = base.__dict__[name].__get__(value)
                    except AttributeError:
                        self.lines.append(f"{path}.{name}: not set")
                    else:
                        self.add(f"{path}.{name}", item)

    def tensor(self, path: str, head: str, value: torch.Tensor) -> None:
        storage = self.storages.setdefault(value.untyped_storage()._cdata, len(self.storages))
        self.alive.append(value.untyped_storage())
        self.tensors.append(value)
        made_by = value.grad_fn and (value.grad_fn.name() if self.nodes_named else "there")
        self.lines.append(
            f"{head} {value.dtype} {tuple(value.shape)} strides {value.stride()} offset {value.storage_offset()} storage {storage}"
            f" requires_grad {value.requires_grad} grad_fn {made_by} {value.detach().tolist()!r}"
        )
        if value.is_leaf and value.grad is not None:
            self.add(f"{path}.grad", value.grad)
        self.attributes(path, value)

    def klass(self, path: str, head: str, value: type) -> None:
        self.lines.append(f"{head} {value.__qualname__} of {value.__module__}")
        if value.__module__ != "fuzzed":
            return
        for name, item in list(value.__dict__.items()):
            if isinstance(item, (types.FunctionType, classmethod, staticmethod, property)):
                self.lines.append(f"{path}.{name}: {type(item).__name__}")
            elif name not in CLASS_HIDDEN and not isinstance(
                item, (types.MemberDescriptorType, types.GetSetDescriptorType)
            ):
                self.add(f"{path}.{name}", item)

    def function(self, path: str, head: str, value: types.FunctionType) -> None:
        self.lines.append(f"{head} {value.__qualname__} of {value.__module__}")
        if value.__module__ != "fuzzed":
            return
        self.add(f"{path}.__defaults__", value.__defaults__)
        self.add(f"{path}.__kwdefaults__", value.__kwdefaults__)
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            try:
                self.add(f"{path}.<{name}>", cell.cell_contents)
            except ValueError:
                self.lines.append(f"{path}.<{name}>: empty")
        for name, item in value.__dict__.items():
            self.add(f"{path}.{name}", item)

    def exception(self, path: str, head: str, value: BaseException) -> None:
        self.lines.append(f"{head} {str(value)!r}")
        self.add(f"{path}.args", value.args)
        self.lines.append(f"{path}.traceback: {self.frames(value)}")
        self.lines.append(f"{path}.__suppress_context__: {value.__suppress_context__}")
        self.add(f"{path}.__cause__", value.__cause__)
        self.add(f"{path}.__context__", value.__context__)
        for name, item in value.__dict__.items():
            self.add(f"{path}.{name}", item)
        if isinstance(value, BaseExceptionGroup):
            for index, item in enumerate(value.exceptions):
                self.add(f"{path}.exceptions[{index}]", item)

    def frames(self, error: BaseException) -> list[str]:
        """Function, line and columns of the program's own frames. No columns for an unbound local: CPython gives those of the
        instruction before, once the code is quickened."""
        found, traceback = [], error.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if code.co_filename == self.filename:
                _, _, start, end = list(code.co_positions())[traceback.tb_lasti // 2]
                columns = "" if isinstance(error, NameError) else f":{start}-{end}"
                found.append(f"{code.co_qualname}:{traceback.tb_lineno}{columns}")
            traceback = traceback.tb_next
        return found

    def seen(self) -> list[str]:
        self.tell_unordered()
        return self.lines if self.nodes_named else [NODE.sub("grad_fn=<there>", line) for line in self.lines]

    def namespace(self, names: dict[str, object]) -> None:
        for name, value in list(names.items()):
            if name not in HIDDEN:
                self.add(name, value)
