"""C++ as the gates read it: text without comments and strings, classes, declarations told from uses.

This is no parser. It reads code in the form that clang-format gives it here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_NOISE = re.compile(
    r'//[^\n]*|#[ ]*(?:if|ifdef|ifndef|elif|else|endif)\b[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'',
    re.S,
)
_CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?(\w+)(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{")
# "Result name(", "Result Class::name(": a type, or its last "*", stands before the name. A call has a sign or one of
# these there.
_NO_TYPES = "return|throw|else|case|new|delete|co_return|co_yield|not|and|or|goto|using|namespace|define|undef"
_DECLARED = re.compile(
    rf"(?:^|[^\w:])(?!(?:{_NO_TYPES})\b)(?:\w+|>|\])[*&]*[ \n]+(?:[*&]*)((?:\w+(?:<[^<>]*>)?::)*)(~?\w+)\("
)
_VARIABLE = re.compile(r" +const (?:\w+::)*\w+(?:<[^<>]*>)? \Z")  # "  const Guard guard("
_OVERRIDE = re.compile(r"[^;{]*\boverride\b")


class Class(NamedTuple):
    name: str
    path: Path
    members: list[str]
    """The declarations directly in it, without the bodies of methods and of inner classes."""


class Declared(NamedTuple):
    name: str
    owner: str
    """"Tracer" of "Tracer::name"; empty when the name stands alone."""
    start: int
    """Where the name stands in the text."""


def cpp_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "src").rglob("*") if path.suffix in {".h", ".cpp", ".def", ".inc"})


def room_of(path: Path, root: Path) -> str:
    return path.relative_to(root / "src").parts[0]


def bare(path: Path) -> str:
    """The file with comments and conditions of the preprocessor blanked and strings emptied; lines keep their numbers."""
    return _NOISE.sub(_blank, path.read_text())


def _blank(noise: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", noise[0]) if noise[0].startswith(("/", "#")) else '""'


def classes(path: Path) -> Iterator[Class]:
    text = bare(path)
    for head in _CLASS.finditer(text):
        yield Class(head[1], path, _members(text, head.end()))


def _members(text: str, at: int) -> list[str]:
    """The declarations from `at` to the brace that closes this block."""
    members, current, depth = [], "", 0
    while at < len(text) and depth >= 0:
        sign = text[at]
        if depth == 0 and sign in ";{":
            members.append(current)
            current = ""
        elif depth == 0 and sign != "}":
            current += sign
        depth += (sign == "{") - (sign == "}")
        at += 1
    return [" ".join(member.split()) for member in members if member.strip()]


def declarations(text: str) -> Iterator[Declared]:
    """Functions that are declared or defined in a text of `bare`; not what a base class asks for."""
    for match in _DECLARED.finditer(text):
        if _VARIABLE.match(text[text.rfind("\n", 0, match.start(2)) + 1 : match.start(2)]) or _OVERRIDE.match(
            text, match.end()
        ):
            continue
        yield Declared(match[2], match[1].rstrip(":").rpartition("::")[2].partition("<")[0], match.start(2))
