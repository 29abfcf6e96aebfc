"""Places in source files: whose code a file is, and which function a line is in."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass


@functools.cache
def _library_folders() -> tuple[str, ...]:
    import torch

    import pellucid

    paths = sysconfig.get_paths()
    folders = {os.path.dirname(module.__file__ or "") for module in (torch, pellucid)}
    folders |= {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(folder + os.sep for folder in sorted(folders) if folder)


def is_library(file: str) -> bool:
    """Whether a file is an installed library's, the standard library's or torch's, and not the user's.

    Example:
        >>> is_library(torch.nn.modules.linear.__file__)
        True
    """
    if not file or file.startswith("<"):
        return not linecache.getline(file, 1)  # what was made from a text; notebooks and doctests keep theirs
    return os.path.abspath(file).startswith(_library_folders())


@dataclass(frozen=True)
class Definition:
    """A function in a source file."""

    name: str
    """Qualified: "Model.forward"."""
    first: int
    """With its decorators."""
    last: int
    arguments: tuple[str, ...]


@functools.lru_cache(maxsize=256)
def definitions(file: str) -> tuple[Definition, ...]:
    """The functions of a file, outer ones before those that they hold; none where there is no source.

    Example:
        >>> [one.name for one in definitions("model.py")]
        ['Model.__init__', 'Model.forward']
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(_below(tree, ""))


def _below(node: ast.AST, outer: str) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            given = child.args
            arguments = [one.arg for one in (*given.posonlyargs, *given.args)]
            yield Definition(outer + child.name, first, child.end_lineno or child.lineno, tuple(arguments))
            yield from _below(child, f"{outer}{child.name}.")
        else:
            yield from _below(child, f"{outer}{child.name}." if isinstance(child, ast.ClassDef) else outer)


def definition_at(file: str, line: int) -> Definition | None:
    """The innermost function of a file that this line is in."""
    found = [one for one in definitions(file) if one.first <= line <= one.last]
    return found[-1] if found else None


def short(file: str) -> str:
    """A file's name without the folders that all know: relative to the working directory or to the library's folder.

    Example:
        >>> short("/home/me/project/model.py")
        'model.py'
    """
    if not file or file.startswith("<"):
        return file
    for folder in (*sorted(_library_folders(), key=len, reverse=True), os.getcwd() + os.sep):
        if file.startswith(folder):
            rest = file[len(folder) :]
            return f"torch/{rest}" if folder.endswith(f"{os.sep}torch{os.sep}") else rest
    return os.path.basename(file)
