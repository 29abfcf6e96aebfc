"""Code that runs while a capture stands where it is called: `pellucid.comptime`.

`_core` calls `run` and `run_method` with a function that answers questions about the capture as long as they run.
torch._dynamo's object of this name comes here too, so the classes have its methods.
"""

from __future__ import annotations

import builtins
import dis
import enum
import time
import traceback
import types
from collections.abc import Callable
from typing import Any, TextIO

import torch

from pellucid.errors import PellucidError, frame_summary

__all__ = ["Comptime", "ComptimeContext", "ComptimeValue", "comptime"]

_DEPTH = 4  # of containers in containers that are printed
_MOST = 32  # items of one container

Ask = Callable[..., Any]


class GraphBreakAsked(PellucidError):
    """`ctx.graph_break()`: the core makes a graph break of it."""


class ComptimeValue:
    """One value of the program, as the capture knows it: of a tensor everything but its contents.

    Looking at it guards nothing and fixes nothing; only `force_static` does.
    """

    def __init__(self, ask: Ask, value: object) -> None:
        self.__ask, self.__value = ask, value

    def __facts(self) -> tuple:
        return self.__ask("facts", self.__value)

    def __repr__(self) -> str:
        return _text(self.__ask, self.__value, _DEPTH)

    def python_type(self) -> type:
        """What `type(value)` gives in the program.

        Raises:
            TypeError: it is a variable of a closure that has no value yet.

        Example:
            >>> ctx.get_local("x").python_type()
            <class 'torch.Tensor'>
        """
        kind, *facts = self.__facts()
        if kind == "empty":
            raise TypeError("the variable has no value")
        if kind == "number":
            return type(facts[0])
        if kind == "tensor":
            return facts[-1]
        return facts[0] if kind in ("items", "entries") else type(facts[0])

    def is_proxy(self) -> bool:
        """Whether the graph computes it: a tensor, or a number that is open.

        Example:
            >>> ctx.get_local("x").is_proxy()
            True
        """
        return self.__facts()[0] == "tensor" or self.is_dynamic()

    def is_dynamic(self) -> bool:
        """Whether it is a number that the compiled code will take other values of.

        Example:
            >>> ctx.get_local("n").is_dynamic()
            False
        """
        facts = self.__facts()
        return facts[0] == "number" and facts[2] != ""

    def dynamic_dims(self) -> list[int]:
        """The dims of a tensor whose sizes the compiled code will take others of; none of what is no tensor.

        Example:
            >>> ctx.get_local("x").dynamic_dims()
            [0]
        """
        kind, *facts = self.__facts()
        if kind != "tensor":
            return []
        return [dim for dim, (text, size) in enumerate(zip(facts[1], facts[2], strict=True)) if text != str(size)]

    def as_fake(self) -> Any:
        """A tensor on the meta device that is like this one in this call, sizes included; of a number its value now.

        Raises:
            TypeError: it is neither.

        Example:
            >>> ctx.get_local("x").as_fake().shape
            torch.Size([3])
        """
        kind, *facts = self.__facts()
        if kind == "number":
            return facts[0]
        if kind != "tensor":
            raise TypeError(f"{self!r} is no tensor and no number")
        _, _, sizes, strides, dtype, _, requires_grad, _ = facts
        return torch.empty_strided(sizes, strides, dtype=dtype, device="meta", requires_grad=requires_grad)

    def size(self, dim: int | None = None) -> Any:
        """The sizes of a tensor in this call, or the size of one dim.

        Raises:
            TypeError: it is no tensor.

        Example:
            >>> ctx.get_local("x").size(0)
            3
        """
        if self.__facts()[0] != "tensor":
            raise TypeError(f"{self!r} is no tensor")
        return self.as_fake().size() if dim is None else self.as_fake().size(dim)

    def is_python_constant(self) -> bool:
        """Whether the capture knows all of it: a number, text, function, class or module, or a container of these.

        Example:
            >>> ctx.get_local("flag").is_python_constant()
            True
        """
        return _is_constant(self.__ask, self.__value, frozenset())

    def as_python_constant(self) -> Any:
        """The value itself; of a list, tuple, set or dict a copy of what it holds now.

        Raises:
            TypeError: the capture does not know all of it.

        Example:
            >>> ctx.get_local("flag").as_python_constant()
            True
        """
        if not self.is_python_constant():
            raise TypeError(f"{self!r} is not known when it is compiled")
        return _constant(self.__ask, self.__value)

    def force_static(self) -> None:
        """Makes an open number a constant of the compiled code, which is guarded.

        Raises:
            TypeError: the capture does not know all of it, and it is no number.

        Example:
            >>> ctx.get_local("n").force_static()
        """
        if self.__facts()[0] == "number":
            self.__ask("fix", self.__value)
        elif not self.is_python_constant():
            raise TypeError(f"cannot force {self!r} static: it is no number and no constant")


def words_of(ask: Ask, value: object) -> str:
    """What the capture knows of a value, in words: "%y: Tensor(float32[3], cpu)".

    Example:
        >>> words_of(event.ask, event.ask("locals", 0)[0][1])
        '%l_x_: Tensor(float32[3], cpu)'
    """
    return _text(ask, value, _DEPTH)


def _text(ask: Ask, value: object, depth: int) -> str:
    kind, *facts = ask("facts", value)
    if kind == "number":
        return f"{facts[1]} (an open {type(facts[0]).__name__}, now {facts[0]!r})" if facts[1] else repr(facts[0])
    if kind == "tensor":
        node, sizes, _, _, dtype, device, _, cls = facts
        name = f"%{node}: " if node else ""
        return f"{name}{cls.__name__}({str(dtype).removeprefix('torch.')}[{', '.join(sizes)}], {device})"
    if kind == "empty":
        return "(a variable without a value)"
    if kind == "object":
        return _text_of_object(facts[0])
    cls, items = facts
    if depth == 0:
        return f"<{cls.__name__} of {len(items)}>"
    shown = [
        ": ".join(_text(ask, part, depth - 1) for part in item) if kind == "entries" else _text(ask, item, depth - 1)
        for item in items[:_MOST]
    ]
    inside = ", ".join(shown + ["…"] * (len(items) > _MOST))
    if cls is dict or (issubclass(cls, set) and items and cls is set):
        return f"{{{inside}}}"
    if cls is list:
        return f"[{inside}]"
    if cls is tuple:
        return f"({inside},)" if len(items) == 1 else f"({inside})"
    return f"{cls.__name__}({inside})"


# Of these nothing of the program runs when they are asked. Other objects are neither printed nor constants.
_PRINTED = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, range, type(...))
_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


def _text_of_object(value: Any) -> str:
    if type(value) in _PRINTED:
        return repr(value)
    kind = type(value).__name__
    if issubclass(type(value), type):
        return f"<class {type.__repr__(value).split(chr(39))[1]}>"
    if type(value) in _NAMED:
        return f"<{kind} {value.__qualname__}>"
    return f"<module {value.__name__}>" if type(value) is types.ModuleType else f"<{kind} object>"


def _is_constant_object(value: object) -> bool:
    return type(value) in (*_PRINTED, *_NAMED, types.ModuleType) or issubclass(type(value), (type, enum.Enum))


def _is_constant(ask: Ask, value: object, around: frozenset[int]) -> bool:
    kind, *facts = ask("facts", value)
    if kind == "number":
        return not facts[1]
    if kind in ("tensor", "empty") or id(value) in around:
        return False
    if kind == "object":
        return _is_constant_object(facts[0])
    parts = [part for item in facts[1] for part in (item if kind == "entries" else (item,))]
    return all(_is_constant(ask, part, around | {id(value)}) for part in parts)


def _constant(ask: Ask, value: object) -> Any:
    kind, *facts = ask("facts", value)
    if kind in ("number", "object"):
        return facts[0]
    cls, items = facts
    if kind == "entries":
        return {_constant(ask, key): _constant(ask, item) for key, item in items}
    made = [_constant(ask, item) for item in items]
    if cls is list or not issubclass(cls, (list, tuple, set, frozenset)):
        return made
    base = next(base for base in (list, tuple, set, frozenset) if issubclass(cls, base))
    return tuple.__new__(cls, made) if base is tuple else base(made)


class ComptimeContext:
    """What the code of `pellucid.comptime` gets: the capture under way, seen from the frame that called it.

    `stacklevel` counts frames of the program outwards. It can be asked until the code is over.
    """

    def __init__(self, ask: Ask, level: int = 0) -> None:
        self.__ask, self.__level = ask, level

    def get_local(self, name: str, *, stacklevel: int = 0) -> ComptimeValue:
        """What the capture knows of a variable.

        Raises:
            KeyError: it has no value, or there is no such variable.

        Example:
            >>> ctx.get_local("x").size(0)
            3
        """
        return ComptimeValue(self.__ask, dict(self.__locals(stacklevel))[name])

    def parent(self) -> ComptimeContext:
        """The same, seen from the frame that called this one.

        Example:
            >>> ctx.parent().print_locals()
        """
        return ComptimeContext(self.__ask, self.__level + 1)

    def graph_break(self, msg: str = "asked for when it was compiled") -> None:
        """Ends the graph at the call of `comptime`; with `fullgraph=True` that is an error.

        Example:
            >>> ctx.graph_break("too many layers")
        """
        raise GraphBreakAsked(msg)

    def graph(self) -> torch.fx.Graph:
        """A copy of the graph as far as it has come: without an output.

        Example:
            >>> len(ctx.graph().nodes)
            4
        """
        return self.__ask("graph")

    def assert_static(self, val: ComptimeValue) -> None:
        """Raises when it is an open number.

        Raises:
            AssertionError: it is.

        Example:
            >>> ctx.assert_static(ctx.get_local("n"))
        """
        if val.is_dynamic():
            raise AssertionError(f"expected static but got dynamic: {val!r}")

    def force_static(self, val: ComptimeValue) -> None:
        """`val.force_static()`.

        Example:
            >>> ctx.force_static(ctx.get_local("n"))
        """
        val.force_static()

    def print(self, val: Any, *, file: TextIO | None = None) -> None:
        """Prints what the capture knows of a value.

        Example:
            >>> ctx.print(ctx.get_local("x"))
            %l_x_: Tensor(float32[3], cpu)
        """
        print(repr(val), file=file)

    def print_graph(self, *, verbose: bool = True, file: TextIO | None = None) -> None:
        """Prints the graph as far as it has come, as Python.

        Example:
            >>> ctx.print_graph()
        """
        print(self.graph().python_code("self", verbose=verbose).src, file=file)

    def print_guards(self, *, file: TextIO | None = None) -> None:
        """Prints what the capture has relied on so far. Conditions on open sizes are added at its end.

        Example:
            >>> ctx.print_guards()
        """
        for row in self.__ask("guards"):
            words = " ".join(part for part in (row["kind"], row["source"], row["text"]) if part)
            place = f"  # {row['file']}:{row['line']}, {row['operation']}" if row["file"] else ""
            print(words + place, file=file)

    def print_bt(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Prints the frames of the program, from the compiled function (or what goes on behind a graph break) on.

        Example:
            >>> ctx.print_bt()
        """
        places = self.__ask("frames")[self.__level + stacklevel :]
        stack = [frame_summary(code, offset) for code, offset, _ in reversed(places)]
        print("".join(traceback.StackSummary.from_list(stack).format()), file=file)

    def print_disas(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Prints the bytecode of the frame, with a mark where it stands.

        Example:
            >>> ctx.print_disas()
        """
        code, offset, _ = self.__place(stacklevel)
        print(dis.Bytecode(code, current_offset=offset).dis(), file=file)

    def print_value_stack(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Prints what is on the evaluation stack of the frame, the top last.

        Example:
            >>> ctx.print_value_stack()
        """
        for place in self.__ask("stack", self.__level + stacklevel):
            print(f"- {_text(self.__ask, place[0], _DEPTH) if place else 'NULL'}", file=file)

    def print_locals(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Prints what the capture knows of each variable of the frame.

        Example:
            >>> ctx.print_locals()
            x = %l_x_: Tensor(float32[3], cpu)
        """
        for name, value in self.__locals(stacklevel):
            print(f"{name} = {_text(self.__ask, value, _DEPTH)}", file=file)

    def sleep(self, sec: float) -> None:
        """Waits, so that a debugger can be attached.

        Example:
            >>> ctx.sleep(30)
        """
        time.sleep(sec)

    def __locals(self, stacklevel: int) -> list[tuple[str, object]]:
        return self.__ask("locals", self.__level + stacklevel)

    def __place(self, stacklevel: int) -> tuple:
        places = self.__ask("frames")
        level = self.__level + stacklevel
        if level >= len(places):
            raise IndexError(f"there are {len(places)} frames in this capture")
        return places[level]


class Comptime:
    """Runs code when a function is compiled, at the place where the program calls it: to look into a capture.

    A call of compiled code runs nothing of it; in plain Python `fallback_fn` runs instead.
    `comptime.print_graph()` and its like are short for `comptime(lambda ctx: ctx.print_graph())`.

    The code runs once for each capture that comes by: a capture that is begun anew (because a backend refuses open
    sizes, or the region has to end earlier) runs it again. What it changes in the program's objects, the program may see or not.

    Args:
        fn: a function of a `ComptimeContext`. One that is written in the compiled function must not close over its
            variables; `ctx.get_local(name)` gives them. What it raises ends the compile and reaches whoever called the
            compiled function.
        fallback_fn: runs in plain Python, without arguments.

    Raises:
        TypeError: at the capture: the function closes over variables of compiled code.

    Example:
        >>> @pellucid.compile
        ... def f(x):
        ...     y = x + 1
        ...     pellucid.comptime(lambda ctx: ctx.print_locals())
        ...     return y * 2
    """

    @staticmethod
    def __call__(fn: Callable[[ComptimeContext], Any], fallback_fn: Callable[[], Any] = lambda: None) -> None:
        fallback_fn()

    @staticmethod
    def graph_break(msg: str = "asked for when it was compiled") -> None:
        """Ends the graph here.

        Example:
            >>> pellucid.comptime.graph_break()
        """

    @staticmethod
    def print(e: Any) -> None:
        """Prints what the capture knows of a value; in plain Python the value.

        Example:
            >>> pellucid.comptime.print(x.size(0))
        """
        print(e)

    @staticmethod
    def print_graph(*, verbose: bool = True) -> None:
        """`ComptimeContext.print_graph`.

        Example:
            >>> pellucid.comptime.print_graph()
        """

    @staticmethod
    def print_disas(*, stacklevel: int = 0) -> None:
        """`ComptimeContext.print_disas`.

        Example:
            >>> pellucid.comptime.print_disas()
        """

    @staticmethod
    def print_value_stack(*, stacklevel: int = 0) -> None:
        """`ComptimeContext.print_value_stack`.

        Example:
            >>> pellucid.comptime.print_value_stack()
        """

    @staticmethod
    def print_value_stack_and_return(e: Any, *, stacklevel: int = 0) -> Any:
        """The same, for use in an expression: gives `e`.

        Example:
            >>> x + pellucid.comptime.print_value_stack_and_return(y + z)
        """
        return e

    @staticmethod
    def print_locals(*, stacklevel: int = 0) -> None:
        """`ComptimeContext.print_locals`.

        Example:
            >>> pellucid.comptime.print_locals()
        """

    @staticmethod
    def print_bt(*, stacklevel: int = 0) -> None:
        """`ComptimeContext.print_bt`.

        Example:
            >>> pellucid.comptime.print_bt()
        """

    @staticmethod
    def print_guards() -> None:
        """`ComptimeContext.print_guards`.

        Example:
            >>> pellucid.comptime.print_guards()
        """

    @staticmethod
    def assert_static(val: Any) -> None:
        """Raises AssertionError when it is a number that is open in this capture.

        Example:
            >>> pellucid.comptime.assert_static(x.size(0))
        """

    @staticmethod
    def force_static(val: Any) -> None:
        """Makes an open number a constant of the compiled code.

        Example:
            >>> pellucid.comptime.force_static(x.size(0))
        """

    @staticmethod
    def breakpoint() -> None:
        """Python's `breakpoint()`, when this line is compiled: `ctx` is the context.

        Example:
            >>> pellucid.comptime.breakpoint()
            (Pdb) ctx.print_locals()
        """

    @staticmethod
    def sleep(sec: float) -> None:
        """Waits when it is compiled.

        Example:
            >>> pellucid.comptime.sleep(30)
        """


comptime = Comptime()

_OF_VALUES = ("print", "assert_static", "force_static")


def run(ask: Ask, fn: Callable[[ComptimeContext], Any], *_: object) -> None:
    """Called by `_core`: the code of the program, now."""
    fn(ComptimeContext(ask))


def run_method(ask: Ask, name: str, args: tuple, kwargs: dict[str, Any]) -> None:
    """Called by `_core`: `comptime.name(*args, **kwargs)`."""
    ctx = ComptimeContext(ask)
    if name == "breakpoint":
        builtins.breakpoint()
        return
    if name == "print_value_stack_and_return":
        name, args = "print_value_stack", ()
    value = ComptimeValue if name in _OF_VALUES else _plain
    given = {key: value(ask, item) for key, item in kwargs.items()}
    if name in _OF_VALUES and given:
        args, given = (*args, *kwargs.values()), {}  # the one parameter, by its name
    getattr(ctx, name)(*(value(ask, item) for item in args), **given)


def _plain(ask: Ask, value: object) -> Any:
    return ComptimeValue(ask, value).as_python_constant()
