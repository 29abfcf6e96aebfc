"""What a program's main file defines, as text: scripts cannot import it without running the program."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NAMES_OF_A_SCRIPT = {"Repro", "load_args", "mod", "BACKEND"}


@dataclass(frozen=True)
class Definition:
    """A value of the main file."""

    name: str
    statements: list[str]
    modules: list[str]
    """What the statements import."""


def definition_of(value: Any) -> Definition | None:
    """A function or another value of the main file, with the statements that make it.

    These are the statements at the top level of the file that bind the name, and those that bind what they read, in the order of the
    file: functions, classes, imports and assignments.

    Args:
        value: what a global variable of `__main__` holds.

    Returns:
        None: no global variable holds it, or what it is made of is not bound by such statements (but by a loop, say, or a `with`), or has
        a name that the script has itself.

    Example:
        >>> definition_of(my_backend)
        Definition(name='my_backend', statements=['def my_backend(gm, example_inputs):\\n    return gm.forward'], modules=[])
    """
    main = sys.modules["__main__"]
    name = next((name for name, held in vars(main).items() if held is value and not name.startswith("__")), None)
    file = getattr(main, "__file__", None)
    if name is None or file is None:
        return None
    try:
        text = Path(file).read_text()
        statements = ast.parse(text).body
    except (OSError, ValueError, SyntaxError):
        return None
    bound = [_names_bound(statement) for statement in statements]
    needed, waiting = set[int](), [name]
    seen = {name}
    while waiting:
        wanted = waiting.pop()
        makers = [i for i, names in enumerate(bound) if wanted in names]
        if not makers:
            if wanted == name or wanted in vars(main):
                return None
            continue  # a builtin, a local variable, or an attribute of one
        for i in makers:
            needed.add(i)
            for read in _names_read(statements[i]) - seen:
                seen.add(read)
                waiting.append(read)
    if any(bound[i] & _NAMES_OF_A_SCRIPT for i in needed):
        return None
    chosen = [statements[i] for i in sorted(needed)]
    modules = [module for statement in chosen for module in _modules_of(statement)]
    return Definition(name, [_text(text, statement) for statement in chosen], modules)


def _names_bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            return set()
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        targets = [statement.target]
    names = (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
    return set(names)


def _modules_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.ImportFrom):
        return [statement.module] if statement.module else []
    return [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []


def _names_read(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _text(text: str, statement: ast.stmt) -> str:
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno])
