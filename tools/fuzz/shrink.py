"""Makes a program smaller as long as it shows the same kind of difference."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

KEPT = {"inputs", "reset", "change", "f"}  # functions that runner.py calls
SIMPLE = ("0", "1", "True", "''", "()", "[]", "torch.ones(2, 3)")


def shrink(source: str, fails: Callable[[str], bool], attempts: int = 600) -> str:
    """The smallest text found for which `fails` is true. It is true for `source`."""
    left = attempts
    best = ast.unparse(ast.parse(source))
    if not fails(best):
        return source
    while left > 0:
        for candidate in candidates(best):
            left -= 1
            if left <= 0:
                return best
            if fails(candidate):
                best = candidate
                break
        else:
            return best
    return best


def candidates(source: str) -> Iterator[str]:
    """Smaller programs, those with the most taken away first."""
    tree = ast.parse(source)
    yield from blocks(tree)
    yield from parts(tree)


def text(tree: ast.Module) -> str | None:
    try:
        return ast.unparse(ast.fix_missing_locations(tree))
    except Exception:
        return None


def bodies(tree: ast.AST) -> list[tuple[ast.AST, str]]:
    found = []
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(getattr(node, field, None), list):
                found.append((node, field))
    return found


def blocks(tree: ast.Module) -> Iterator[str]:
    """Without some statements, or with a compound statement replaced by what is in it."""
    places = [(number, len(getattr(node, field))) for number, (node, field) in enumerate(bodies(tree))]
    tries = []
    for number, length in places:
        size = length
        while size >= 1:
            tries += [(size, number, start) for start in range(0, length - size + 1, size)]
            size //= 2
    for size, number, start in sorted(tries, key=lambda one: -one[0]):
        smaller = copy.deepcopy(tree)
        node, field = bodies(smaller)[number]
        taken = getattr(node, field)[start : start + size]
        if any(isinstance(one, ast.FunctionDef) and one.name in KEPT for one in taken):
            continue
        getattr(node, field)[start : start + size] = []
        if field == "body" and not node.body and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]
            if size == 1 and isinstance(taken[0], ast.Pass):
                continue
        if (found := text(smaller)) is not None:
            yield found
    for number, length in places:
        for start in range(length):
            yield from unwrapped(tree, number, start)


def unwrapped(tree: ast.Module, number: int, start: int) -> Iterator[str]:
    node, field = bodies(tree)[number]
    inside = getattr(node, field)[start]
    if isinstance(inside, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler, ast.match_case)):
        return
    options = ["body", "orelse", "finalbody"] if not isinstance(inside, ast.Match) else []
    for option in options:
        if getattr(inside, option, None):
            smaller = copy.deepcopy(tree)
            node, field = bodies(smaller)[number]
            getattr(node, field)[start : start + 1] = getattr(getattr(node, field)[start], option)
            if (found := text(smaller)) is not None:
                yield found


def parts(tree: ast.Module) -> Iterator[str]:
    """With one expression replaced by a part of itself or by a constant; without a decorator, base, argument."""
    nodes = list(ast.walk(tree))
    for number, node in enumerate(nodes):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and isinstance(getattr(value, "ctx", ast.Load()), ast.Load):
                yield from replaced(tree, number, field, None, value)
            elif isinstance(value, list):
                for index, one in enumerate(value):
                    if isinstance(one, ast.expr) and isinstance(getattr(one, "ctx", ast.Load()), ast.Load):
                        yield from replaced(tree, number, field, index, one)
                    if isinstance(one, (ast.expr, ast.keyword, ast.withitem, ast.comprehension)) and field not in (
                        "targets",
                        "ops",
                    ):
                        yield from without(tree, number, field, index)


def edited(tree: ast.Module, number: int, change: Callable[[ast.AST], None]) -> Iterator[str]:
    smaller = copy.deepcopy(tree)
    change(list(ast.walk(smaller))[number])
    if (found := text(smaller)) is not None:
        yield found


def without(tree: ast.Module, number: int, field: str, index: int) -> Iterator[str]:
    yield from edited(tree, number, lambda node: getattr(node, field).pop(index))


def replaced(tree: ast.Module, number: int, field: str, index: int | None, old: ast.expr) -> Iterator[str]:
    if isinstance(old, (ast.Constant, ast.Slice)) or (isinstance(old, ast.Name) and field == "func"):
        return
    smaller = [
        ast.unparse(part)
        for part in ast.iter_child_nodes(old)
        if isinstance(part, ast.expr) and not isinstance(part, ast.Slice)
    ]
    constants = [] if ast.unparse(old) in SIMPLE or isinstance(old, (ast.Name, ast.JoinedStr)) else list(SIMPLE)
    for candidate in [*smaller, *constants]:
        if len(candidate) >= len(ast.unparse(old)):
            continue

        def change(node: ast.AST, candidate: str = candidate) -> None:
            value = ast.parse(candidate, mode="eval").body
            if index is None:
                setattr(node, field, value)
            else:
                getattr(node, field)[index] = value

        yield from edited(tree, number, change)
