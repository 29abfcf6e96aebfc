"""Where values come from, in the words of the program: what guards call `L['self']._modules['lin']` is `self.lin` to its author.

Behind a graph break a region gets what is alive in the open frames. Most of that has no name in the program: it is what an
expression gave, or an iterator that a loop goes over, and the line of the expression says so.
"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import re
import types
from collections.abc import Sequence

from pellucid import _core

Begin = tuple[types.CodeType, int]
"""An open frame: its code, and the byte offset where it goes on."""

_NAMESPACE = re.compile(r"vars\(([\w.]+)\)\['(\w+)'\]")
_CHILD = re.compile(r"\._(?:modules|parameters|buffers)\['(\w+)'\]")
_UNNAMED = re.compile(r"<([\w.]+) at (0x\w+)>")
_ROOT = re.compile(r"\b(AHEAD|VALUE_AHEAD|PART)\(|\bL\['([\w<>.]+)'\]")
_PATH = re.compile(r"(?:\.\w+(?:\(\d+\))?|\[(?:'[^']*'|\"[^\"]*\"|\d+)\])*")
_OF_FRAME = re.compile(r"f(\d+)_(.+)")
_ON_STACK = re.compile(r"stack_(\d+)")
_ARGUMENT = re.compile(r"\bargs\[(\d+)\]")
_KEYWORD = re.compile(r"\bkwargs\['(\w+)'\]")
_LONGEST = 60  # of an expression that stands for its value


def beginning(function: types.FunctionType, begins_at: Sequence[Begin]) -> tuple[types.CodeType, int]:
    """The innermost function that is open where a compiled part begins, and the line there.

    Example:
        >>> beginning(f, ()) == (f.__code__, f.__code__.co_firstlineno)
        True
    """
    if not begins_at:
        return function.__code__, function.__code__.co_firstlineno
    code, offset = begins_at[-1]
    return code, line_at(code, offset)


class Words:
    """The names and words of the values that one region gets.

    Args:
        begins_at: the frames that are open where it begins, outermost first; none: it begins with its function.
        parameters: of a module's call, what `forward` calls its arguments, without self.
        keywords: the name of the function's parameter `**kwargs`, if it has one.

    Example:
        >>> Words().of("L['self']._modules['lin']._parameters['weight']")
        'self.lin.weight'
    """

    def __init__(
        self, begins_at: Sequence[Begin] = (), parameters: Sequence[str] | None = None, keywords: str = ""
    ) -> None:
        self.begins_at = tuple(begins_at)
        self.parameters = parameters
        self.keywords = keywords

    @property
    def goes_on(self) -> bool:
        """Whether the region is the part behind a graph break."""
        return bool(self.begins_at)

    def of(self, text: str) -> str:
        """A text in which all sources that guards name are called as in the program; what is no source stays.

        Example:
            >>> Words().of("L['n'] % 4 == 1")
            'n % 4 == 1'
        """
        return self._told(text, with_function=True)

    def as_python(self, text: str) -> str:
        """The same without saying of which frame a name is: Python, where the program has a name for it."""
        return self._told(text, with_function=False)

    def typed(self, source: str) -> str | None:
        """What a user can type to get the value before the call; None: there is no such expression.

        Example:
            >>> Words(parameters=["x"]).typed("L['args'][0]")
            'x'
        """
        if self.goes_on:
            return None  # it may be what the first part has made
        text = self.of(source)
        by_name = re.fullmatch(r"(\w+)\['(\w+)'\](.*)", text)
        if by_name is not None and by_name[1] == self.keywords:  # as the caller names it
            text = by_name[2] + by_name[3]
        return text if source.startswith(("L[", "G[")) and is_expression(text) else None

    # ----

    def _told(self, text: str, with_function: bool) -> str:
        if text == "G":
            return "globals()"
        text = self._locals(text, with_function)
        text = re.sub(r"F\['(\w+)'\](?:\.cell_contents)?", r"\1", text)
        text = re.sub(r"\bG\['(\w+)'\]", r"\1", text)
        text = re.sub(r"\bC\[(.*?)\](?=$|\.|\[| )", lambda match: named_object(match[1]), text)
        text = re.sub(r"vars\((?:builtins|__main__)\)\['(\w+)'\]", r"\1", text)
        text = _NAMESPACE.sub(r"\1.\2", text)
        text = _CHILD.sub(lambda match: f"[{match[1]}]" if match[1].isdigit() else f".{match[1]}", text)
        return text if self.parameters is None else self._with_parameters(text, self.parameters)

    def _with_parameters(self, text: str, names: Sequence[str]) -> str:
        text = _ARGUMENT.sub(lambda match: names[int(match[1])] if int(match[1]) < len(names) else match[0], text)
        text = _KEYWORD.sub(r"\1", text)
        return {"args": "positional arguments", "kwargs": "arguments by name"}.get(text, text)

    def _locals(self, text: str, with_function: bool) -> str:
        parts, at = [], 0
        while (root := _ROOT.search(text, at)) is not None:
            parts.append(text[at : root.start()])
            end = _closing(text, root.end()) + 1 if root[1] else root.end()
            path = _PATH.match(text, end)[0]  # type: ignore[index]
            if root[1]:
                base, _, index = text[root.end() : end - 1].rpartition(", ")
                parts.append(attribute_of(_step(root[1], self._locals(base, with_function), index), path))
            else:
                parts.append(self._local(root[2], path, with_function))
            at = end + len(path)
        return "".join((*parts, text[at:]))

    def _local(self, name: str, path: str, with_function: bool) -> str:
        """A local variable, or what is on a stack, of an open frame; and what `path` leads to from there."""
        if not self.goes_on:
            return _variable(name) + path
        of_frame = _OF_FRAME.fullmatch(name)
        number = 0
        if (
            of_frame is not None
            and int(of_frame[1]) < len(self.begins_at)
            and name not in _variables(self.begins_at[0])
        ):
            number, name = int(of_frame[1]), of_frame[2]
        begin = self.begins_at[number]
        words = None if name in _variables(begin) and name != ".0" else _unnamed(name, begin)
        if words is not None:
            return attribute_of(words, path)
        variable = _variable(name) + path
        return f"`{variable}` of {begin[0].co_qualname}" if number and with_function else variable


def _variable(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")


@functools.lru_cache(maxsize=64)
def _variables_of(code: types.CodeType) -> frozenset[str]:
    return frozenset((*code.co_varnames, *code.co_cellvars, *code.co_freevars))


def _variables(begin: Begin) -> frozenset[str]:
    return _variables_of(begin[0])


def _closing(text: str, at: int) -> int:
    """Where the parenthesis is closed that was opened before `at`."""
    depth, quote = 1, ""
    while depth and at < len(text):
        if quote:
            if text[at] == "\\":
                at += 1
            elif text[at] == quote:
                quote = ""
        elif text[at] in "'\"":
            quote = text[at]
        else:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at - 1


def _step(name: str, base: str, index: str) -> str:
    base = f"`{base}`" if is_expression(base) else base
    if name == "PART":
        return f"part {index} of {base}"
    element = "the next element" if index == "0" else f"the element {index} behind the next one"
    return f"{element} of {base}" if name == "AHEAD" else f"the value that belongs to {element} of {base}"


def attribute_of(value: str, path: str) -> str:
    """ "x.size(0)", "size(0) of the next element of `xs`".

    Example:
        >>> attribute_of("x", ".size(0)")
        'x.size(0)'
    """
    if not path or is_expression(value):
        return value + path
    return f"{path.removeprefix('.')} of {value}"


def is_expression(text: str) -> bool:
    """Whether a text is one Python expression.

    Example:
        >>> is_expression("self.lin.weight"), is_expression("the next element")
        (True, False)
    """
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def named_object(text: str) -> str:
    """The name of a class, function or module; of an object without one its type and address, as one word.

    Example:
        >>> named_object("__main__.f.<locals>.g")
        'f.g'
    """
    text = text.replace(".<locals>", "").removeprefix("__main__.").removeprefix("builtins.")
    unnamed = _UNNAMED.fullmatch(text)
    return f"{unnamed[1].rpartition('.')[2]}_at_{unnamed[2]}" if unnamed else text


# ---- what has no name


def _unnamed(name: str, begin: Begin) -> str | None:
    code, offset = begin
    on_stack = _ON_STACK.fullmatch(name)
    if on_stack is not None:
        return _on_stack(int(on_stack[1]), code, offset)
    if name.startswith("then_"):
        return f"a value of the call in line {line_at(code, offset - 2)}"
    return {
        "<function>": f"the function `{code.co_qualname}`",
        "<generator>": f"the generator `{code.co_qualname}`",
        "<handled>": "the exception that is being handled",
        "<frame>": f"the frame of `{code.co_qualname}`",
        ".0": f"the iterator of the comprehension in line {code.co_firstlineno}",
    }.get(name)


def _on_stack(slot: int, code: types.CodeType, offset: int) -> str:
    makers = _core.stack_makers(code, offset)
    maker = makers[slot] if slot < len(makers) else -1
    if maker < 0:
        return f"a value that line {line_at(code, offset)} needs"
    line, operation = line_at(code, maker), dis.opname[code.co_code[maker]]
    if operation == "BEFORE_WITH":
        return f"the with block of line {line}"
    written = _expression_at(code, _iterated(code, maker) if operation in ("GET_ITER", "FOR_ITER") else maker)
    if operation == "GET_ITER":
        return f"the iterator over {written} (line {line})" if written else f"the iterator of line {line}"
    if operation == "FOR_ITER":
        return f"the element of {written} (line {line})" if written else f"the element of line {line}"
    return f"the value of {written} (line {line})" if written else f"a value that line {line} computes"


def _iterated(code: types.CodeType, offset: int) -> int:
    """The offset of what made the value that a loop goes over: the place of the loop's own instructions is the whole loop."""
    while offset >= 0 and dis.opname[code.co_code[offset]] in ("GET_ITER", "FOR_ITER"):
        makers = _core.stack_makers(code, offset)
        offset = makers[-1] if makers else -1
    return offset


@functools.lru_cache(maxsize=64)
def _positions(code: types.CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


def line_at(code: types.CodeType, offset: int) -> int:
    """The line of the instruction at an offset; the function's first one where it has none.

    Example:
        >>> line_at(f.__code__, 0) == f.__code__.co_firstlineno
        True
    """
    positions = _positions(code)
    at = offset // 2
    return (positions[at][0] if 0 <= at < len(positions) else None) or code.co_firstlineno


def _expression_at(code: types.CodeType, offset: int) -> str:
    """What the user wrote for an instruction, in quotes; empty where the source is not there, or goes over lines."""
    line, last, column, end = _positions(code)[max(offset, 0) // 2]
    if offset < 0 or line is None or line != last or column is None or end is None:
        return ""
    text = linecache.getline(code.co_filename, line).encode()[column:end].decode(errors="replace").strip()
    return f"`{text}`" if text and len(text) <= _LONGEST else ""
