"""Guards as Python that a user could type: names of the program, no `L[...]`, `vars(...)` or addresses.

What Python cannot say is the name of the value, and a comment with the words of the guard.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MACHINERY = frozenset(
    {"TYPE_LOOKUP", "HAS_ATTR", "FUNCTION", "ID_MATCH", "TYPE_MATCH", "IS_NOT", "DISTINCT", "GLOBAL_STATE"}
    | {f"NO_FINALIZER{kind}" for kind in ("", "_OWNED", "_BUT_GENERATORS", "_ATTR", "_KEY", "_SLOT")}
)
"""Kinds that hold unless somebody changes classes, functions or modules, or passes other types."""

_DTYPES = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
_NAMESPACE = re.compile(r"vars\(([\w.]+)\)\['(\w+)'\]")
_CHILD = re.compile(r"\._(?:modules|parameters|buffers)\['(\w+)'\]")
_UNNAMED = re.compile(r"<([\w.]+) at (0x\w+)>")
_TENSOR = re.compile(r"(\w+)\[(.*)\] (\S+) requires_grad=(True|False)")
_LOOKUP = re.compile(r"'(\w+)' to be (.*)", re.S)
_KEYS = re.compile(r"keys (\[.*\]) \(\d+\)", re.S)


def named(source: str, goes_on: bool = False) -> str:
    """A source as the program names it: `x`, `self.layers[0].weight`, `torch.relu`, `SCALE`.

    Args:
        goes_on: it is of a region behind a graph break, whose names say which of the open frames they are of.

    Example:
        >>> named("L['self']._modules['lin']._parameters['weight']")
        'self.lin.weight'
    """
    text = re.sub(r"L\['([\w<>.]+)'\]", lambda match: _local(match[1], goes_on), source)
    text = re.sub(r"F\['(\w+)'\](?:\.cell_contents)?", r"\1", text)
    text = re.sub(r"\bG\['(\w+)'\]", r"\1", text)
    text = "globals()" if source == "G" else text
    text = re.sub(r"\bC\[(.*?)\](?=$|\.|\[| )", lambda match: _typed(match[1]), text)
    text = re.sub(r"vars\((?:builtins|__main__)\)\['(\w+)'\]", r"\1", text)
    text = _NAMESPACE.sub(r"\1.\2", text)
    return _CHILD.sub(lambda match: f"[{match[1]}]" if match[1].isdigit() else f".{match[1]}", text)


def _local(name: str, goes_on: bool) -> str:
    name = re.sub(r"^f\d+_", "", name) if goes_on else name
    return re.sub(r"\W+", "_", name).strip("_")


def _typed(text: str) -> str:
    """The name of a class, function or module; of an object without one its type and address, as one word."""
    text = text.replace(".<locals>", "").removeprefix("__main__.").removeprefix("builtins.")
    unnamed = _UNNAMED.fullmatch(text)
    return f"{unnamed[1].rpartition('.')[2]}_at_{unnamed[2]}" if unnamed else text


def python_of(kind: str, source: str, text: str, goes_on: bool = False) -> str:
    """A guard as Python.

    Args:
        kind: "TENSOR_MATCH", …
        source: what is looked at, as guards name it.
        text: what it must be, in the guard's words.
        goes_on: as for `named`.

    Example:
        >>> python_of("LENGTH", "L['layers']", "length 3")
        'len(layers) == 3'
    """
    value = named(source, goes_on)
    write = _WRITERS.get(kind)
    written = write(value, text) if write is not None else None
    if written is not None:
        return written
    return _with_comment(value, text)


def _with_comment(value: str, text: str) -> str:
    text = "unchanged" if _UNNAMED.fullmatch(text) else " ".join(text.split())
    return f"{value or '...'}  # {text}"


def _tensor(value: str, text: str) -> str | None:
    match = _TENSOR.fullmatch(text)
    if match is None:
        return None
    dtype, sizes, device, grad = match.groups()
    dims = [size.strip() for size in sizes.split(",")] if sizes else []
    parts = [f"{value}.dtype == torch.{_dtype(dtype)}"]
    if "*" in dims:
        parts.append(f"{value}.ndim == {len(dims)}")
        parts += [f"{value}.shape[{at}] == {size}" for at, size in enumerate(dims) if size != "*"]
    else:
        parts.append(f"{value}.shape == ({', '.join(dims)}{',' if len(dims) == 1 else ''})")
    if device != "cpu":
        parts.append(f"str({value}.device) == '{device}'")
    parts.append(f"{value}.requires_grad" if grad == "True" else f"not {value}.requires_grad")
    return " and ".join(parts)


def _dtype(short: str) -> str:
    match = re.fullmatch(r"([fiuc])(\d+)", short)
    if match:
        return _DTYPES[match[1]] + match[2]
    return {"bf16": "bfloat16", "b8": "bool", "pred": "bool"}.get(short, short)


def _identity(value: str, text: str) -> str | None:
    expected = _typed(text.removeprefix("the object ").removeprefix("anything but "))
    if expected in ("None", "True", "False"):
        return f"{value} is {'not ' if text.startswith('anything') else ''}{expected}"
    return _with_comment(value, f"is the same object: {expected}")


def _equal(value: str, text: str) -> str | None:
    if text in ("None", "True", "False"):
        return f"{value} is {text}"
    return f"{value} == {text}" if _is_expression(text) else None


def _is_expression(text: str) -> bool:
    try:
        compile(text, "", "eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _keys(value: str, text: str) -> str | None:
    match = _KEYS.fullmatch(text)
    return f"list({value}) == {match[1]}" if match and _is_expression(match[1]) else None


def _contains(value: str, text: str) -> str | None:
    absent = text.startswith("no key ")
    key = text.removeprefix("no ").removeprefix("key ")
    return f"{key} {'not in' if absent else 'in'} {value}" if _is_expression(key) else None


def _attribute(value: str, text: str) -> str:
    absent, name = text.startswith("no "), text.rpartition(" ")[2]
    return f"{name} {'not in' if absent else 'in'} vars({value})"


def _lookup(value: str, text: str) -> str | None:
    match = _LOOKUP.fullmatch(text)
    if match is None:
        return None
    name, found = match.groups()
    return f"not hasattr({value}, {name!r})" if found == "nothing" else f"{value}.{name}  # unchanged"


_WRITERS: dict[str, Callable[[str, str], str | None]] = {
    "TENSOR_MATCH": _tensor,
    "ID_MATCH": _identity,
    "NOT_ID": _identity,
    "EQUALS_MATCH": _equal,
    "TYPE_MATCH": lambda value, text: f"type({value}) is {_typed(text.removeprefix('type '))}",
    "NUMBER_MATCH": lambda value, text: f"type({value}) is {'float' if 'float' in text else 'int'}",
    "LENGTH": lambda value, text: f"len({value}) == {text.removeprefix('length ')}",
    "DICT_KEYS": _keys,
    "DICT_CONTAINS": _contains,
    "HAS_ATTR": _attribute,
    "TYPE_LOOKUP": _lookup,
    "FUNCTION": lambda value, text: f"{value}.__code__  # unchanged",
    "CONDITION": lambda value, text: named(text) if _is_expression(named(text)) else None,
    "GLOBAL_STATE": lambda value, text: "...  # grad mode, autocast and the flags of torch are as in the capture",
}
