"""A torch.fx graph as the Python text of a module: one line for each node."""

from __future__ import annotations

import contextlib
import enum
import importlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import _get_qualified_name

from pellucid.repro.errors import ReproRefused
from pellucid.repro.modules import constructor

_INFIX = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.matmul: "@",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
}


@dataclass
class ModuleText:
    """The text of a module class, and what has to be imported for it."""

    classes: str
    """The definition of `Repro`; those of graphs that are inside of it stand before."""
    imports: list[str] = field(default_factory=list)
    """`import x` for each module beside torch that a name of the text begins with."""
    folders: list[str] = field(default_factory=list)
    """Folders of modules that are not installed: they belong on `sys.path`."""


def text_of(gm: GraphModule, name: str = "Repro") -> ModuleText:
    """The graph module as a class with this name.

    Args:
        gm: the graph module; its modules have to be those of torch.nn.
        name: of the class.

    Raises:
        ReproRefused: the graph holds a module, function or constant that no text can stand for. It says which.

    Example:
        >>> print(text_of(gm).classes)
        class Repro(torch.nn.Module):
            def forward(self, x):
                relu = torch.relu(x)
                return (relu,)
    """
    printer = _Printer()
    printer.print_class(gm, name)
    return ModuleText("\n\n\n".join(printer.classes), sorted(printer.imports), sorted(printer.folders))


class _Printer:
    def __init__(self) -> None:
        self.classes: list[str] = []
        self.imports: set[str] = set()
        self.folders: set[str] = set()

    def print_class(self, gm: GraphModule, name: str) -> None:
        members = list(self._members(gm, name))
        lines = [f"class {name}(torch.nn.Module):"]
        if members:
            lines += ["    def __init__(self):", "        super().__init__()", *members, ""]
        lines += self._forward(gm.graph)
        self.classes.append("\n".join(lines))

    def _members(self, gm: GraphModule, name: str) -> Iterable[str]:
        """What __init__ makes: modules of the graph. Tensors that it reads are inputs by now (`candidate.lifted`)."""
        called = {str(node.target) for node in gm.graph.nodes if node.op == "call_module"}
        read = {str(node.target) for node in gm.graph.nodes if node.op == "get_attr"}
        for target in sorted(called | read):
            member = gm.get_submodule(target) if _is_module(gm, target) else None
            if member is None:
                raise ReproRefused(f"the graph reads self.{target}, which is no module and no tensor")
            if "." in target:
                raise ReproRefused(f"the graph calls self.{target}, a module inside of another one")
            if isinstance(member, GraphModule):
                inner = f"{name}_{target}"
                self.print_class(member, inner)
                yield f"        self.{target} = torch.fx.symbolic_trace({inner}())"  # operators over graphs want those
            else:
                yield f"        self.{target} = {constructor(member, target)}"

    def _forward(self, graph: Graph) -> list[str]:
        inputs = [node.name for node in graph.nodes if node.op == "placeholder"]
        lines = [f"    def forward({', '.join(['self', *inputs])}):"]
        for node in graph.nodes:
            if node.op == "output":
                lines.append(f"        return {self.value(node.args[0])}")
            elif node.op != "placeholder":
                where = f"  # {node.meta['where']}" if "where" in node.meta else ""
                lines.append(f"        {node.name} = {self._expression(node)}{where}")
        return lines

    def _expression(self, node: Node) -> str:
        if node.op == "get_attr":
            return f"self.{node.target}"
        if node.op == "call_module":
            return f"self.{node.target}({self._arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            return f"{self.value(node.args[0])}.{node.target}({self._arguments(node.args[1:], node.kwargs)})"
        target: Any = node.target
        is_plain = not node.kwargs and len(node.args) == 2
        if is_plain and target is operator.getitem and isinstance(node.args[0], Node):
            return f"{node.args[0].name}[{self._index(node.args[1])}]"
        if is_plain and target in _INFIX and isinstance(node.args[0], Node):
            return f"{node.args[0].name} {_INFIX[target]} {self.value(node.args[1])}"
        return f"{self.name_of(target)}({self._arguments(node.args, node.kwargs)})"

    def _arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        return ", ".join([*(self.value(arg) for arg in args), *(f"{k}={self.value(v)}" for k, v in kwargs.items())])

    def _index(self, value: Any) -> str:
        if isinstance(value, tuple) and value:
            return ", ".join(self._index(each) for each in value) + ("," if len(value) == 1 else "")
        if isinstance(value, slice):
            parts = ["" if each is None else self.value(each) for each in (value.start, value.stop)]
            return ":".join(parts) + ("" if value.step is None else f":{self.value(value.step)}")
        return self.value(value)

    def value(self, value: Any) -> str:
        """An argument of a node as text."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, (tuple, list)):
            return self._sequence(value)
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.value(value.start)}, {self.value(value.stop)}, {self.value(value.step)})"
        if value is Ellipsis:
            return "..."
        if value is None or (isinstance(value, (bool, int, str, bytes)) and not isinstance(value, enum.Enum)):
            return repr(value) if type(value) in _LITERALS else self._refuse(value)
        if isinstance(value, (float, complex)):
            return _number(value)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, torch.device):
            return f"torch.device({str(value)!r})"
        if isinstance(value, enum.Enum):
            return f"{self.name_of(type(value))}.{value.name}"
        if callable(value):
            return self.name_of(value)
        return self._refuse(value)

    def _sequence(self, value: Any) -> str:
        inner = ", ".join(self.value(each) for each in value)
        if isinstance(value, torch.Size):
            return f"torch.Size([{inner}])"
        if isinstance(value, list):
            return f"[{inner}]"
        if hasattr(value, "_fields"):
            return f"{self.name_of(type(value))}({inner})"
        return f"({inner},)" if len(value) == 1 else f"({inner})"

    def _refuse(self, value: Any) -> str:
        raise ReproRefused(f"a node has an argument of type {type(value).__qualname__}, which has no form as text")

    def name_of(self, target: Callable) -> str:
        """The name by which a fresh process finds a function or class; its module is noted for the imports."""
        for name in _names(target):
            if _found(name) is target:
                self._note_import(name, target)
                return name
        module = getattr(target, "__module__", None)
        where = f", defined in {module}" if module else ""
        raise ReproRefused(
            f"the graph calls {getattr(target, '__qualname__', target)!s}{where}, which no other process can import "
            "by a name: move it into a module"
        )

    def _note_import(self, name: str, target: Callable) -> None:
        if name.startswith("torch.ops."):
            defined_in = _module_of_operator(target)
            if defined_in is not None:
                self._import(defined_in)
            return
        parts = name.split(".")
        modules = [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]
        module = next((each for each in modules if each in sys.modules), None)
        if module not in (None, "torch", "builtins"):
            self._import(str(module))

    def _import(self, module: str) -> None:
        self.imports.add(module)
        folder = folder_of(module)
        if folder is not None:
            self.folders.add(folder)


_LITERALS = (type(None), bool, int, str, bytes)


def _number(value: complex) -> str:
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    return repr(value) if value == value and abs(value) != float("inf") else f"float({str(value)!r})"


def _is_module(gm: GraphModule, target: str) -> bool:
    try:
        gm.get_submodule(target)
    except AttributeError:
        return False
    return True


def _names(target: Callable) -> Iterable[str]:
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        yield f"torch.ops.{target!s}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        yield f"torch.ops.{target.namespace}.{target.__name__}"
    with contextlib.suppress(Exception):  # torch knows no name
        yield _get_qualified_name(target)
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if module and name and module != "__main__":
        yield f"{module}.{name}"
    if (name and inspect.isbuiltin(target)) or inspect.isclass(target):
        yield str(name)  # of builtins
    if inspect.isbuiltin(target) or inspect.isroutine(target):
        yield from (f"{place}.{getattr(target, '__name__', '')}" for place in _PLACES)


_PLACES = (
    "torch",
    "torch.Tensor",
    "torch._C",
    "torch._C._nn",
    "torch._C._linalg",
    "torch._C._fft",
    "torch._C._special",
)


def _found(name: str) -> Any:
    """What the name leads to; None: nothing."""
    parts = name.split(".")
    if parts[0] == "__main__":
        return None
    for end in range(len(parts), 0, -1):
        module = ".".join(parts[:end])
        value = sys.modules.get(module)
        if value is None:
            continue
        try:
            return operator.attrgetter(".".join(parts[end:]))(value) if parts[end:] else value
        except AttributeError:
            continue
    return getattr(importlib.import_module("builtins"), name, None) if len(parts) == 1 else None


def _module_of_operator(target: Any) -> str | None:
    """The module that defines a custom operator in Python; those of torch and of libraries have none."""
    from torch._library.custom_ops import OPDEFS

    name = str(getattr(target, "_name", None) or getattr(target, "_qualified_op_name", ""))
    defined = OPDEFS.get(name.partition(".")[0])
    if defined is None:
        return None
    module = defined._init_fn.__module__
    if module == "__main__":
        raise ReproRefused(f"the operator {name} is defined in the program itself: move it into a module")
    return module


def folder_of(module: str) -> str | None:
    """The folder that has to be on sys.path for a module; None: it is installed, or built in.

    Example:
        >>> folder_of("torch") is None
        True
    """
    file = getattr(sys.modules.get(module.partition(".")[0]), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    folder = path.parent.parent if path.name == "__init__.py" else path.parent
    if {"site-packages", "dist-packages"} & set(folder.parts) or folder == Path(inspect.__file__).resolve().parent:
        return None
    return str(folder)
