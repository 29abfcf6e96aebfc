"""Guards as Python that a user could type: names of the program, no `L[...]`, `vars(...)` or addresses.

What Python cannot say is the name of the value, and a comment with the words of the guard.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pellucid._in_words import Words, is_expression, named_object

MACHINERY = frozenset(
    {"TYPE_LOOKUP", "HAS_ATTR", "FUNCTION", "ID_MATCH", "TYPE_MATCH", "IS_NOT", "DISTINCT", "GLOBAL_STATE"}
    | {f"NO_FINALIZER{kind}" for kind in ("", "_OWNED", "_BUT_GENERATORS", "_ATTR", "_KEY", "_SLOT")}
)
"""Kinds that hold unless somebody changes classes, functions or modules, or passes other types."""

_UNCHANGED = re.compile(r"<[\w.]+ at 0x\w+>")
_DTYPES = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
_TENSOR = re.compile(r"(\w+)\[(.*)\] (\S+) requires_grad=(True|False)")
_LOOKUP = re.compile(r"'(\w+)' to be (.*)", re.S)
_KEYS = re.compile(r"keys (\[.*\]) \(\d+\)", re.S)


def python_of(kind: str, source: str, text: str, words: Words | None = None) -> str:
    """A guard as Python.

    Args:
        kind: "TENSOR_MATCH", …
        source: what is looked at, as guards name it.
        text: what it must be, in the guard's words.
        words: the names of the region that it is of.

    Example:
        >>> python_of("LENGTH", "L['layers']", "length 3")
        'len(layers) == 3'
    """
    words = words or Words()
    value = words.as_python(source)
    if kind == "CONDITION":
        text = words.as_python(text)
    if value and not is_expression(value):
        return f"...  # {value}: {' '.join(text.split())}"
    write = _WRITERS.get(kind)
    written = write(value, text) if write is not None else None
    if written is not None:
        return written
    return _with_comment(value, text)


def _with_comment(value: str, text: str) -> str:
    text = "unchanged" if _UNCHANGED.fullmatch(text) else " ".join(text.split())
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
    expected = named_object(text.removeprefix("the object ").removeprefix("anything but "))
    if expected in ("None", "True", "False"):
        return f"{value} is {'not ' if text.startswith('anything') else ''}{expected}"
    return _with_comment(value, f"is the same object: {expected}")


def _equal(value: str, text: str) -> str | None:
    if text in ("None", "True", "False"):
        return f"{value} is {text}"
    return f"{value} == {text}" if is_expression(text) else None


def _keys(value: str, text: str) -> str | None:
    match = _KEYS.fullmatch(text)
    return f"list({value}) == {match[1]}" if match and is_expression(match[1]) else None


def _contains(value: str, text: str) -> str | None:
    absent = text.startswith("no key ")
    key = text.removeprefix("no ").removeprefix("key ")
    return f"{key} {'not in' if absent else 'in'} {value}" if is_expression(key) else None


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
    "TYPE_MATCH": lambda value, text: f"type({value}) is {named_object(text.removeprefix('type '))}",
    "NUMBER_MATCH": lambda value, text: f"type({value}) is {'float' if 'float' in text else 'int'}",
    "LENGTH": lambda value, text: f"len({value}) == {text.removeprefix('length ')}",
    "DICT_KEYS": _keys,
    "DICT_CONTAINS": _contains,
    "HAS_ATTR": _attribute,
    "TYPE_LOOKUP": _lookup,
    "FUNCTION": lambda value, text: f"{value}.__code__  # unchanged",
    "CONDITION": lambda value, text: text if is_expression(text) else None,
    "FORESEEN": lambda value, text: text if is_expression(text) else None,
    "GLOBAL_STATE": lambda value, text: "...  # grad mode, autocast and the flags of torch are as in the capture",
}
