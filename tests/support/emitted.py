"""A way to run the tests: `--check-emitted` compares what each region emits with its printed text, compiled.

The emitter has forms that no source is compiled to (an item is appended without asking the list for its method), so instructions are not
compared one by one. Both codes are carried out on symbols: what they call, read and write, in which order and with which values, has to
be the same, and so has what they give. What the check cannot carry out is told as such, and fails the run as a difference does.
"""

from __future__ import annotations

import collections
import dis
import types
from collections.abc import Callable
from typing import Any

import pytest

from pellucid import events
from pellucid._dump import texts

counts: collections.Counter[str] = collections.Counter()
faults: list[str] = []
now = "?"  # the test that runs

_LITERALS = (type(None), bool, int, float, complex, str, bytes, type(...))
_SKIPPED = {"RESUME", "NOP", "CACHE", "PRECALL", "MAKE_CELL", "COPY_FREE_VARS", "EXTENDED_ARG"}
_NULL = ("null",)


class CannotTell(Exception):
    """An instruction that is not carried out."""


class Fresh:
    """A display that is still built on the stack: many items come one by one. Whoever takes it from there gets what it became."""

    def __init__(self, kind: str, items: list[tuple]) -> None:
        self.kind, self.items = kind, items


class Symbols:
    """One code, carried out on symbols. `done` is what happened, in order; a value is a leaf, or the number of what gave it."""

    def __init__(self, code: types.CodeType, names: dict[str, Any]) -> None:
        self.done: list[tuple] = []
        self._code, self._names = code, names
        self._stack: list[Any] = []
        self._locals = {name: ("argument", at) for at, name in enumerate(code.co_varnames[: code.co_argcount])}
        self._keywords: tuple[str, ...] = ()
        for at in dis.get_instructions(code):
            if at.opname not in _SKIPPED:
                run = _RULES.get(at.opname)
                if run is None:
                    raise CannotTell(at.opname)
                run(self, at)

    def pop(self, count: int) -> list[tuple]:
        taken = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return [self.settled(one) for one in taken]

    def settled(self, value: Any) -> tuple:
        """A display that nobody has a name for is what it holds: when it is built is no matter."""
        if not isinstance(value, Fresh):
            return value
        is_constant = value.kind == "set" and all(len(item) == 2 and item[0] != "done" for item in value.items)
        return (value.kind, tuple(sorted(value.items) if is_constant else value.items))

    def named(self, value: Any) -> tuple:
        return self.happens(value.kind, tuple(value.items)) if isinstance(value, Fresh) else value

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def happens(self, *what: Any) -> tuple:
        self.done.append(what)
        return ("done", len(self.done) - 1)

    def leaf(self, value: Any) -> tuple:
        if type(value) is tuple:
            return ("tuple", *map(self.leaf, value))
        if type(value) is frozenset:
            return ("frozenset", *sorted(map(self.leaf, value)))
        return (type(value).__name__, repr(value)) if isinstance(value, _LITERALS) else ("object", id(value))

    def call(self, function: tuple, arguments: list[tuple], keywords: tuple[str, ...]) -> tuple:
        changes = {"append": "list.append", "add": "set.add", "extend": "list.extend", "update": "update"}
        if function[0] == "method" and function[2] in changes and len(arguments) == 1 and not keywords:
            self.add_to(changes[function[2]], function[1], arguments[0])
            return self.leaf(None)
        if function == ("object", id(slice)) and not keywords and len(arguments) > 1:
            return ("slice", *arguments)
        if function[0] == "method":
            function = self.happens("attribute", *function[1:])
        return self.happens("call", function, tuple(arguments), keywords)

    def add_to(self, how: str, target: Any, value: tuple) -> None:
        """An item, or many, are added to a container."""
        if isinstance(target, Fresh):
            one = how in ("list.append", "set.add")
            if how in ("merge", "update") and value[0] == "map":
                target.items += value[1]
            else:
                target.items += (
                    [value] if one else value[1:] if value[0] in ("tuple", "frozenset") else [("all of", value)]
                )
            return
        items = value[1:] if how != "list.append" and how != "set.add" and value[0] in ("tuple", "frozenset") else None
        if items is not None:
            for item in items:
                self.happens("list.append" if how == "list.extend" else "set.add", target, item)
        else:
            self.happens(how, target, value)


def _load_const(s: Symbols, at: dis.Instruction) -> None:
    s.push(s.leaf(at.argval))


def _load_global(s: Symbols, at: dis.Instruction) -> None:
    if (at.arg or 0) & 1:
        s.push(_NULL)
    builtins = vars(s._names["__builtins__"]) if isinstance(s._names.get("__builtins__"), types.ModuleType) else {}
    found = s._names.get(at.argval, builtins.get(at.argval, __builtins__.get(at.argval, s)))  # type: ignore[union-attr]
    s.push(("name", at.argval) if found is s else s.leaf(found))


def _load_fast(s: Symbols, at: dis.Instruction) -> None:
    s.push(s._locals[at.argval])


def _store_fast(s: Symbols, at: dis.Instruction) -> None:
    s._locals[at.argval] = s.named(s._stack.pop())


def _unpack(s: Symbols, at: dis.Instruction) -> None:
    if at.arg == 1:  # of a graph that gives one value the text says [0]
        s.push(s.happens("item", *s.pop(1), s.leaf(0)))
        return
    value = s.happens("unpack", s.pop(1)[0], at.arg)
    for item in reversed(range(at.arg or 0)):
        s.push(("item", value, item))


def _load_method(s: Symbols, at: dis.Instruction) -> None:
    (target,) = s.pop(1)
    s.push(_NULL)
    s.push(("method", target, at.argval))


def _call(s: Symbols, at: dis.Instruction) -> None:
    arguments = s.pop(at.arg or 0)
    below, function = s.pop(2)
    assert below == _NULL, below
    keywords, s._keywords = s._keywords, ()
    s.push(s.call(function, arguments, keywords))


def _call_ex(s: Symbols, at: dis.Instruction) -> None:
    """Also what a call of many arguments is compiled to."""
    named = s._stack.pop() if (at.arg or 0) & 1 else Fresh("map", [])
    _, function, arguments = s.pop(3)
    if isinstance(named, Fresh):
        plain = all(len(item) == 2 and item[0][0] == "str" for item in named.items)
        if plain and arguments[0] == "tuple" and not any(one[0] == "all of" for one in arguments[1:]):
            values = [*arguments[1:], *(value for _, value in named.items)]
            s.push(s.call(function, values, tuple(key[1][1:-1] for key, _ in named.items)))
            return
    s.push(s.happens("call with", function, arguments, s.settled(named)))


def _keyword_names(s: Symbols, at: dis.Instruction) -> None:
    s._keywords = s._code.co_consts[at.arg or 0]


def _build_map(s: Symbols, at: dis.Instruction) -> None:
    given = s.pop(2 * (at.arg or 0))
    s.push(Fresh("map", list(zip(given[::2], given[1::2], strict=True))))


def _build_const_key_map(s: Symbols, at: dis.Instruction) -> None:
    *values, keys = s.pop((at.arg or 0) + 1)
    s.push(Fresh("map", list(zip(keys[1:], values, strict=True))))


def _grow(how: str) -> Callable[[Symbols, dis.Instruction], None]:
    def run(s: Symbols, at: dis.Instruction) -> None:
        (value,) = s.pop(1)
        s.add_to(how, s._stack[-(at.arg or 1)], value)

    return run


def _map_add(s: Symbols, at: dis.Instruction) -> None:
    key, value = s.pop(2)
    target = s._stack[-(at.arg or 1)]
    if isinstance(target, Fresh):
        target.items.append((key, value))
    else:
        s.happens("store item", target, key, value)


def _built(kind: str) -> Callable[[Symbols, dis.Instruction], None]:
    return lambda s, at: s.push(Fresh(kind, s.pop(at.arg or 0)))


def _to_tuple(s: Symbols, at: dis.Instruction) -> None:
    """A tuple of many items is built as a list."""
    made = s._stack.pop()
    s.push(("tuple", *made.items) if isinstance(made, Fresh) else s.happens("LIST_TO_TUPLE", made))


def _operation(count: int, *, gives: bool = True, argument: bool = True) -> Callable[[Symbols, dis.Instruction], None]:
    def run(s: Symbols, at: dis.Instruction) -> None:
        detail = (at.argval,) if argument and at.arg is not None else ()
        done = s.happens(at.opname, *detail, *s.pop(count))
        if gives:
            s.push(done)

    return run


def _store_item(s: Symbols, at: dis.Instruction) -> None:
    value, target, key = s.pop(3)
    s.happens("store item", target, key, value)


def _item(s: Symbols, at: dis.Instruction) -> None:
    target, key = s.pop(2)
    is_known = target[0] == "tuple" and key[0] == "int" and int(key[1]) < len(target) - 1
    s.push(target[1 + int(key[1])] if is_known else s.happens("item", target, key))


def _slice(s: Symbols, at: dis.Instruction) -> None:
    parts = s.pop(at.arg or 2)
    s.push(("slice", *parts, *[s.leaf(None)] * (3 - len(parts))))


def _make_function(s: Symbols, at: dis.Instruction) -> None:
    *parts, code = s.pop(1 + (at.arg or 0).bit_count())
    closure = parts.pop() if (at.arg or 0) & 8 else ("tuple",)
    s.push(("function", code, closure, *parts))


def _attribute(s: Symbols, at: dis.Instruction) -> None:
    (target,) = s.pop(1)
    if target[0] == "function" and at.argval == "__closure__":  # how a text reaches a cell
        s.push(target[2])
    else:
        s.push(s.happens("attribute", target, at.argval))


def _return(s: Symbols, at: dis.Instruction) -> None:
    s.happens("return", *s.pop(1))


def _copy(s: Symbols, at: dis.Instruction) -> None:
    place = -(at.arg or 1)
    s._stack[place] = s.named(s._stack[place])
    s.push(s._stack[place])


def _swap(s: Symbols, at: dis.Instruction) -> None:
    i = -(at.arg or 1)
    s._stack[-1], s._stack[i] = s._stack[i], s._stack[-1]


def _format(s: Symbols, at: dis.Instruction) -> None:
    s.push(s.happens("format", at.arg, *s.pop(2 if (at.arg or 0) & 4 else 1)))


_RULES: dict[str, Callable[[Symbols, dis.Instruction], None]] = {
    "LOAD_CONST": _load_const,
    "LOAD_GLOBAL": _load_global,
    "LOAD_FAST": _load_fast,
    "STORE_FAST": _store_fast,
    "DELETE_FAST": lambda s, at: s._locals.pop(at.argval),
    "UNPACK_SEQUENCE": _unpack,
    "LOAD_METHOD": _load_method,
    "LOAD_ATTR": _attribute,
    "CALL": _call,
    "CALL_FUNCTION_EX": _call_ex,
    "KW_NAMES": _keyword_names,
    "PUSH_NULL": lambda s, at: s.push(_NULL),
    "POP_TOP": lambda s, at: s.pop(1) and None,
    "RETURN_VALUE": _return,
    "COPY": _copy,
    "SWAP": _swap,
    "BUILD_TUPLE": lambda s, at: s.push(("tuple", *s.pop(at.arg or 0))),
    "BUILD_LIST": _built("list"),
    "BUILD_SET": _built("set"),
    "BUILD_MAP": _build_map,
    "BUILD_CONST_KEY_MAP": _build_const_key_map,
    "BUILD_SLICE": _slice,
    "BUILD_STRING": lambda s, at: s.push(s.happens("text", *s.pop(at.arg or 0))),
    "FORMAT_VALUE": _format,
    "LIST_APPEND": _grow("list.append"),
    "SET_ADD": _grow("set.add"),
    "LIST_EXTEND": _grow("list.extend"),
    "SET_UPDATE": _grow("update"),
    "DICT_UPDATE": _grow("update"),
    "DICT_MERGE": _grow("merge"),
    "MAP_ADD": _map_add,
    "LIST_TO_TUPLE": _to_tuple,
    "BINARY_SUBSCR": _item,
    "MAKE_FUNCTION": _make_function,
    "STORE_SUBSCR": _store_item,
    "DELETE_SUBSCR": _operation(2, gives=False),
    "STORE_ATTR": _operation(2, gives=False),
    "DELETE_ATTR": _operation(1, gives=False),
    "STORE_GLOBAL": _operation(1, gives=False),
    "DELETE_GLOBAL": _operation(0, gives=False),
    "LOAD_DEREF": _operation(0),
    "LOAD_CLOSURE": lambda s, at: s.push(("cell", at.argval)),
    "STORE_DEREF": _operation(1, gives=False),
    "DELETE_DEREF": _operation(0, gives=False),
    "BINARY_OP": _operation(2),
    "COMPARE_OP": _operation(2),
    "IS_OP": _operation(2),
    "CONTAINS_OP": _operation(2),
    "UNARY_NEGATIVE": _operation(1),
    "UNARY_POSITIVE": _operation(1),
    "UNARY_INVERT": _operation(1),
    "UNARY_NOT": _operation(1),
    "IMPORT_NAME": _operation(2),
    "IMPORT_FROM": lambda s, at: s.push(s.happens("from", s._stack[-1], at.argval)),
}


def difference(emitted: types.FunctionType, read: Callable[[str], Any]) -> str:
    """Where a region does another thing than its text; empty where it does the same."""
    code = emitted.__code__
    _, lines, _, named = read("listing")
    body = texts.body_of(code, "\n".join(line for line in lines if line), named)
    text = texts.function_text("region", texts.parameters(code, named), body, code.co_freevars)
    outer = "".join(f"    {name} = None\n" for name in code.co_freevars)
    inside = "".join(f"    {line}\n" for line in text.splitlines())
    module = compile(f"def around():\n{outer}{inside}    return region\n", "<text of a region>", "exec")
    around = next(one for one in module.co_consts if isinstance(one, types.CodeType))
    written = next(one for one in around.co_consts if isinstance(one, types.CodeType) and one.co_name == "region")
    names = emitted.__globals__ | named
    one, other = Symbols(code, names).done, Symbols(written, names).done
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return f"step {at}: emitted {left}, text {right}\n{text}"
    return "" if len(one) == len(other) else f"{len(one)} steps are emitted, the text has {len(other)}\n{text}"


def _told(event: events.Event) -> None:
    if not isinstance(event, events.RegionFinished):
        return
    try:
        found = difference(event.emitted_function, event.read)
        kind = "equal" if not found else "different"
    except CannotTell as error:
        found, kind = f"cannot tell: {error}", "not compared"
    except SyntaxError as error:
        found, kind = f"its text is no Python: {error}\n{error.text}", "different"
    counts[kind] += 1
    if found:
        faults.append(f"{now}: {event.name}: {found}")


class Checker:
    """Of a run of pytest."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        global now
        now = item.nodeid
        with events.subscribe(_told):
            return (yield)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if faults or not counts["equal"]:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        terminalreporter.write_line(f"emitted regions and their texts: {told or 'none'}")
        for fault in faults[:100]:
            terminalreporter.write_line(fault)


def begin(config: pytest.Config) -> None:
    """Compares the regions of each test."""
    config.pluginmanager.register(Checker(), "emitted")
