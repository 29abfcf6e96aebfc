"""Texts of a dump: names that are identifiers, functions with their bodies."""

from __future__ import annotations

import builtins
import inspect
import keyword
import linecache
import re
import textwrap
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pellucid._explain.guard_text import MACHINERY, python_of
from pellucid._explain.places import definition_at, short
from pellucid._in_words import Words

_CELL = re.compile(r"<cell (\w+)>")
_TYPE = re.compile(r"type\(.*\) is ([\w.]+)")


def identifiers(names: Iterable[str], others: Iterable[str] = ()) -> dict[str, str]:
    """Each name as one that Python knows, and no two of them the same: "<function>" is `function`. None of the new ones is one of
    `others`, which stand for other things in the same text.

    Example:
        >>> identifiers(["x", "<function>"])
        {'x': 'x', '<function>': 'function'}
    """
    found: dict[str, str] = {}
    names = list(names)
    taken = {name for name in names if name.isidentifier()}.union(others)
    for name in names:
        made = name
        if not name.isidentifier():
            made = re.sub(r"\W+", "_", name).strip("_") or "value"
            made = f"_{made}" if made[0].isdigit() or keyword.iskeyword(made) else made
            while made in taken:
                made += "_"
            taken.add(made)
        found[name] = made
    return found


def parameters(code: types.CodeType, named: Iterable[str] = ()) -> list[str]:
    """What an emitted function is called with, as identifiers; `named`: what else its text names."""
    names = identifiers(code.co_varnames, named)
    return [names[name] for name in code.co_varnames[: code.co_argcount]]


def signature(code: types.CodeType) -> tuple[list[str], str]:
    """What a function takes, as in its `def`, and the arguments of a call that hands it on.

    Example:
        >>> signature((lambda x, *args, k=1: None).__code__)
        (['x', '*args', 'k'], 'x, *args, k=k')
    """
    names = list(code.co_varnames)
    positional, keyword_only = names[: code.co_argcount], names[code.co_argcount :][: code.co_kwonlyargcount]
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    many = [f"*{rest.pop(0)}"] if code.co_flags & inspect.CO_VARARGS else []
    named = [f"**{rest.pop(0)}"] if code.co_flags & inspect.CO_VARKEYWORDS else []
    taken = [*positional, *(many or ["*"] * bool(keyword_only)), *keyword_only, *named]
    return taken, ", ".join([*positional, *many, *(f"{name}={name}" for name in keyword_only), *named])


def body_of(code: types.CodeType, emitted: str, named: Iterable[str] = ()) -> list[str]:
    """The lines of an emitted function's body as Python; `named`: what it names besides its variables."""
    for name, made in identifiers(code.co_varnames, named).items():
        if name != made:
            emitted = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", made, emitted)
    return _CELL.sub(r"(lambda: \1).__closure__[0]", emitted).splitlines()


def function_text(name: str, arguments: Sequence[str], body: Sequence[str], free: Sequence[str] = ()) -> str:
    """A function as text; what it reads of functions around it is said above.

    Example:
        >>> function_text("f", ["x"], ["return x"])
        'def f(x):\\n    return x\\n'
    """
    above = f"# {', '.join(free)}: of the function around it\n" if free else ""
    return f"{above}def {name}({', '.join(arguments)}):\n" + textwrap.indent("\n".join(body or ["pass"]), "    ") + "\n"


def guards_text(name: str, region: str, arguments: Sequence[str], guards: Sequence[Mapping[str, Any]]) -> str:
    """A function that says which guard does not hold for a call, None when all that Python can say do.

    Args:
        name: of the function.
        region: the part of the program that the guards belong to.
        arguments: what the part is called with.
        guards: as events tell them.
    """
    checks, rest = [], []
    for guard in guards:
        text = python_of(guard["kind"], guard["source"], guard["text"], Words())
        where = f"{guard['kind']}, {short(guard['file'])}:{guard['line']}" if guard["file"] else guard["kind"]
        if _is_check(guard["kind"], text):
            checks += [f"if not ({text}):  # {where}", f"    return {text!r}"]
        else:
            rest.append(f"# {' '.join(text.split())} ({where})")
    body = [f'"""The first guard of {region} that does not hold for a call; None: those hold that Python can say."""']
    body += [*checks, "return None"]
    if rest:
        body += ["# These are checked as well:", *rest]
    return function_text(name, arguments, body)


def _is_check(kind: str, text: str) -> bool:
    if "#" in text or text.startswith("...") or "globals()" in text or "vars(" in text:  # those of the program
        return False
    if kind == "TYPE_MATCH":  # a class of the program has no name here
        match = _TYPE.fullmatch(text)
        return match is not None and (match[1].startswith("torch.") or hasattr(builtins, match[1]))
    return kind not in MACHINERY and is_python(f"({text})", "eval")


def is_python(text: str, mode: str = "exec") -> bool:
    """Whether a text compiles by itself.

    Example:
        >>> is_python("nonlocal x")
        False
    """
    try:
        compile(text, "<text>", mode)
    except (SyntaxError, ValueError):
        return False
    return True


def definition_of(file: str, line: int, code: types.CodeType | None) -> tuple[str, list[str]]:
    """The qualified name of a function and its lines, without decorators; none where there is no source.

    Args:
        file: where it is defined.
        line: its first one.
        code: of the function; None: it is known to be one that a `def` makes.
    """
    definition = definition_at(file, line)
    if definition is not None and (code is None or definition.name.rpartition(".")[2] == code.co_name):
        lines = [linecache.getline(file, at).rstrip("\n") for at in range(definition.first, definition.last + 1)]
        start = next((at for at, text in enumerate(lines) if re.match(r"\s*(?:async\s+)?def\s", text)), 0)
        return definition.name, textwrap.dedent("\n".join(lines[start:])).splitlines()
    if code is None:
        return "function", []
    last = max((at for *_, at in code.co_lines() if at is not None), default=line)  # of a lambda
    found = [linecache.getline(file, at).rstrip("\n") for at in range(line, last + 1)]
    return code.co_qualname, textwrap.dedent("\n".join(found)).splitlines()


def comment(text: str) -> str:
    """The lines of a text as comments."""
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())


def source_line(file: str, line: int) -> str:
    """A line of a file, without its indentation; empty where there is no source."""
    return linecache.getline(file, line).strip()
