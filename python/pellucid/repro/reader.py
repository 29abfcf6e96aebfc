"""The graph of a script's module, read from the text of its `forward`."""

from __future__ import annotations

import ast
import inspect
import operator
import re
import textwrap
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from pellucid.repro.errors import ReproRefused

_PLACE = re.compile(r"  # (\S+:\d+ in .+)$")  # as printer.py writes it
_BINARY: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.MatMult: operator.matmul,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
}


def graph_of(module: torch.nn.Module) -> GraphModule:
    """The graph of a module whose `forward` is one assignment behind the other, as scripts have it. Nothing runs.

    Args:
        module: what the class `Repro` of a script made. Nested calls and operators in a line are nodes of their own.

    Raises:
        ReproRefused: a line of `forward` is no assignment, or has an expression that cannot be a node. It names the line.
        OSError: the source is not there.

    Example:
        >>> [node.name for node in graph_of(Repro()).graph.nodes]
        ['x', 'relu', 'output']
    """
    forward = type(module).forward
    source = textwrap.dedent(inspect.getsource(forward))
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.FunctionDef)
    reading = _Reading(module, forward.__globals__)
    for argument in tree.args.args[1:]:
        reading.values[argument.arg] = reading.graph.create_node("placeholder", argument.arg, name=argument.arg)
    lines = source.splitlines()
    for statement in tree.body:
        reading.made.clear()
        reading.read(statement)
        where = _PLACE.search(lines[(statement.end_lineno or 1) - 1])
        if where is not None:
            for node in reading.made:
                node.meta["where"] = where[1]
    return GraphModule(module, reading.graph)


class _Reading:
    def __init__(self, module: torch.nn.Module, scope: dict[str, Any]) -> None:
        self.graph = Graph()
        self.values: dict[str, Any] = {}
        self.made: list[Node] = []
        self._module = module
        self._scope = scope

    def read(self, statement: ast.stmt) -> None:
        if (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
        ):
            name = statement.targets[0].id
            self.values[name] = self._value(statement.value, name)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            self.graph.output(self._value(statement.value))
        elif isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant):
            self._value(statement.value)
        elif not isinstance(statement, (ast.Pass, ast.Expr)):
            raise self._refused(statement, "is no assignment")

    def _value(self, at: ast.expr, name: str | None = None) -> Any:
        """The node or constant that an expression is."""
        if isinstance(at, ast.Name) and at.id in self.values:
            return self.values[at.id]
        if not self._reads_nodes(at) and not isinstance(at, ast.Call):
            return self._constant(at)
        if isinstance(at, ast.Call):
            return self._call(at, name)
        if isinstance(at, ast.Subscript):
            return self._node(
                "call_function", operator.getitem, (self._value(at.value), self._value(at.slice)), {}, name
            )
        if isinstance(at, (ast.Tuple, ast.List)):
            parts = [self._value(each) for each in at.elts]
            return tuple(parts) if isinstance(at, ast.Tuple) else parts
        if isinstance(at, ast.Dict) and all(key is not None for key in at.keys):
            return {self._value(k): self._value(v) for k, v in zip(at.keys, at.values, strict=True) if k is not None}
        if isinstance(at, ast.Slice):
            return slice(*(None if each is None else self._value(each) for each in (at.lower, at.upper, at.step)))
        if isinstance(at, ast.Attribute):
            return self._attribute(at, name)
        operands = self._operands(at)
        if operands is not None:
            return self._node("call_function", operands[0], tuple(map(self._value, operands[1:])), {}, name)
        raise self._refused(at, "has an expression that cannot be a node of a graph")

    def _operands(self, at: ast.expr) -> tuple[Callable, *tuple[ast.expr, ...]] | None:
        if isinstance(at, ast.BinOp) and type(at.op) in _BINARY:
            return _BINARY[type(at.op)], at.left, at.right
        if isinstance(at, ast.UnaryOp) and type(at.op) in _BINARY:
            return _BINARY[type(at.op)], at.operand
        if isinstance(at, ast.Compare) and len(at.ops) == 1 and type(at.ops[0]) in _BINARY:
            return _BINARY[type(at.ops[0])], at.left, at.comparators[0]
        return None

    def _call(self, at: ast.Call, name: str | None) -> Any:
        args = tuple(self._value(each) for each in at.args)
        kwargs = {str(each.arg): self._value(each.value) for each in at.keywords}
        function = at.func
        if isinstance(function, ast.Attribute) and self._reads_nodes(function.value):
            path = _path(function)
            if path is not None and path[0] == "self":
                return self._node("call_module", ".".join(path[1:]), args, kwargs, name)
            return self._node("call_method", function.attr, (self._value(function.value), *args), kwargs, name)
        target: Any = self._constant(function)
        if target is slice or (target in _CONSTANT_CALLS and not self._reads_nodes(at)):
            return target(*args, **kwargs)
        return self._node("call_function", target, args, kwargs, name)

    def _attribute(self, at: ast.Attribute, name: str | None) -> Any:
        path = _path(at)
        if path is not None and path[0] == "self":
            return self._node("get_attr", ".".join(path[1:]), (), {}, name)
        return self._node("call_function", getattr, (self._value(at.value), at.attr), {}, name)

    def _node(self, op: str, target: Any, args: tuple, kwargs: dict, name: str | None) -> Node:
        self.made.append(self.graph.create_node(op, target, args, kwargs, name))
        return self.made[-1]

    def _reads_nodes(self, at: ast.AST) -> bool:
        names = {each.id for each in ast.walk(at) if isinstance(each, ast.Name)}
        return "self" in names or not names.isdisjoint(self.values)

    def _constant(self, at: ast.expr) -> Any:
        try:
            return eval(compile(ast.Expression(at), "<repro>", "eval"), self._scope)
        except Exception as error:
            raise self._refused(at, f"cannot be evaluated ({type(error).__name__}: {error})") from error

    def _refused(self, at: ast.AST, why: str) -> ReproRefused:
        return ReproRefused(f"forward of {type(self._module).__name__}: `{ast.unparse(at)}` {why}")


# Calls that are constants of the text, not nodes.
_CONSTANT_CALLS = (slice, float, complex, torch.device, torch.Size)


def _path(at: ast.expr) -> list[str] | None:
    """`self.a.b` as its names; None: it is something else."""
    names: list[str] = []
    while isinstance(at, ast.Attribute):
        names.insert(0, at.attr)
        at = at.value
    return [at.id, *names] if isinstance(at, ast.Name) else None
