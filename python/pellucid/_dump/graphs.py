"""Graphs as text: a class with a `forward`, types and sizes of values, the lines of the program that they come from."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_CLASS = re.compile(r"<class '([\w.]+)'>")  # as torch.fx writes those that it has no name for
_NAME_OF_CLASS = re.compile(r"^(\s*class )[^\s(:]+(\()", re.M)


@dataclass(frozen=True)
class GraphText:
    """A graph module as text."""

    text: str
    first: int
    """The line of the `def`."""
    line_of: dict[int, int]
    """The line that stands for a node, by the number of the node in its graph."""
    globals: dict[str, Any]
    """What the text reads of the module around it."""


def text_of(module: torch.fx.GraphModule, head: str, name: str = "GraphModule") -> GraphText:
    """The text of a graph module.

    Args:
        module: the graph.
        head: comments that stand above it.
        name: of the class.
    """
    code = module.graph.python_code(root_module="self", verbose=True)
    numpy = "import numpy\n" if "numpy." in code.src else ""
    above = f"{head}{numpy}import torch\nfrom torch import device, inf, nan\n\n\nclass {name}(torch.nn.Module):\n"
    source = _CLASS.sub(r"\1", code.src.lstrip("\n"))
    text = above + textwrap.indent(source, "    ") + _bodies(module)
    start = above.count("\n") + 1 + _line_of_def(source)
    lines: dict[int, int] = {}
    for line, node in sorted((code._lineno_map or {}).items()):
        if node is not None:  # comments behind a node count as its lines too
            lines.setdefault(node, start + line)
    return GraphText(text, start, lines, dict(code.globals))


def _line_of_def(source: str) -> int:
    return next((at for at, line in enumerate(source.splitlines()) if line.lstrip().startswith("def forward")), 0)


def _bodies(module: torch.fx.GraphModule) -> str:
    """The graphs inside of the graph."""
    from torch.fx import GraphModule

    inner = ""
    for name, child in module.named_children():
        if isinstance(child, GraphModule):
            text = as_python(child.print_readable(print_output=False), name)
            inner += "\n" + textwrap.indent(text, "    ") + "\n"
    return inner


def as_python(text: str, name: str) -> str:
    """What torch printed of a graph, with a class whose name is one.

    Example:
        >>> as_python("class <lambda>(torch.nn.Module):", "joint")
        'class joint(torch.nn.Module):'
    """
    return _NAME_OF_CLASS.sub(rf"\g<1>{name}\2", text.lstrip("\n"), count=1)
