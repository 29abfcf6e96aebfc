"""Smaller graphs: any set of nodes of a graph is a graph, with recorded values in the place of what is left out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.node import map_arg

from pellucid.backends.copies import copies, same_random_numbers
from pellucid.repro.inputs import Inputs

_LITERALS = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.Size, torch.layout)


def lifted(gm: GraphModule, inputs: Sequence[Any]) -> tuple[GraphModule, list[Any]]:
    """The same graph, in which tensors that it reads as attributes are inputs, behind its own.

    Example:
        >>> plain, values = lifted(gm, [torch.ones(3)])
    """
    graph = Graph()
    made: dict[Node, Node] = {}
    values = list(inputs)
    attributes: dict[str, Node] = {}
    placeholders = list(gm.graph.find_nodes(op="placeholder"))
    for node in placeholders:
        made[node] = _plain_input(graph, node.name)
    for node in gm.graph.nodes:
        if node.op == "get_attr" and isinstance(value := _attribute(gm, str(node.target)), torch.Tensor):
            name = str(node.target)
            if name not in attributes:
                attributes[name] = _plain_input(graph, node.name)
                values.append(value)
            made[node] = attributes[name]
    for node in gm.graph.nodes:
        if node not in made:
            made[node] = graph.node_copy(node, lambda each: made[each])
            made[node].meta = {"where": where} if (where := place_of(node)) else {}
    return GraphModule(gm, graph), values


def place_of(node: Node) -> str | None:
    """The line of the program that a node comes from: "train.py:6 in loss"; None: it is not known.

    Example:
        >>> place_of(node)
        'train.py:6 in loss'
    """
    if "where" in node.meta:
        return node.meta["where"]
    frames = re.findall(r'File "([^"\n]+)", line (\d+), in ([^\n]+)', node.meta.get("stack_trace") or "")
    if not frames:
        return None
    file, line, function = frames[-1]
    return f"{os.path.basename(file)}:{line} in {function}"


def _plain_input(graph: Graph, name: str) -> Node:
    return graph.create_node("placeholder", name, name=name)


def _attribute(gm: GraphModule, path: str) -> Any:
    value: Any = gm
    for name in path.split("."):
        value = getattr(value, name)
    return value


@dataclass
class Recorded:
    """A graph with the value that each of its nodes had in one eager run."""

    gm: GraphModule
    inputs: Inputs
    values: dict[Node, Any] = field(default_factory=dict)
    reads: dict[Node, set[Node]] = field(default_factory=dict)
    """For each node those that wrote, in place, what it reads."""

    @classmethod
    def of(cls, gm: GraphModule, inputs: Inputs) -> Recorded:
        """Runs the graph once.

        Raises:
            Exception: whatever the run raises.

        Example:
            >>> Recorded.of(gm, Inputs.of(["x"], [torch.ones(3)])).values
        """
        recorded = cls(gm, inputs)
        with same_random_numbers():
            torch.manual_seed(0)
            _Recording(recorded).run(*inputs.make())
        return recorded

    @property
    def nodes(self) -> list[Node]:
        """Those that can be left out, in their order."""
        return [node for node in self.gm.graph.nodes if node.op not in ("placeholder", "output")]

    def cone(self, node: Node) -> set[Node]:
        """What a node needs: nodes that it reads, those that wrote what it reads, and those that have an effect on modes."""
        effects = [each for each in self.nodes if not each.users and not _has_tensors(self.values.get(each))]
        found: set[Node] = set()
        waiting = [node, *effects]
        while waiting:
            at = waiting.pop()
            if at not in found and at.op != "placeholder":
                found.add(at)
                waiting += [*at.all_input_nodes, *self.reads.get(at, ())]
        return found

    def candidate(self, kept: Iterable[Node]) -> tuple[GraphModule, Inputs, set[Node]]:
        """The graph of these nodes: its inputs, and which of the nodes it has. What has no value that could be an input goes with
        what it was made of."""
        keep = self._closed(set(kept))
        graph = Graph()
        made: dict[Node, Any] = {}
        names: list[str] = []
        values: list[Any] = []
        own = self.inputs.make()
        placeholders = list(self.gm.graph.find_nodes(op="placeholder"))
        wanted = {each for node in keep for each in node.all_input_nodes} - keep
        for node, value in zip(placeholders, own, strict=True):
            if node in wanted:
                made[node] = _plain_input(graph, node.name)
                names.append(node.name)
                values.append(value)
        for node in self.nodes:
            if node in wanted and node not in keep:
                value = self.values[node]
                if isinstance(value, torch.Tensor):
                    made[node] = _plain_input(graph, node.name)
                    names.append(node.name)
                    values.append(value)
                else:
                    made[node] = value
        for node in self.nodes:
            if node in keep:
                args, kwargs = map_arg(node.args, made.get), map_arg(node.kwargs, made.get)
                made[node] = graph.create_node(node.op, node.target, args, kwargs, node.name)
                made[node].meta = {"where": where} if (where := place_of(node)) else {}
        graph.output(tuple(made[node] for node in self._outputs(keep)))
        return GraphModule(self.gm, graph), Inputs.of(names, values), keep

    def _closed(self, keep: set[Node]) -> set[Node]:
        for node in self.nodes:
            if node in keep and any(
                each.op != "placeholder" and each not in keep and not _can_be_given(self.values.get(each))
                for each in node.all_input_nodes
            ):
                keep.discard(node)
        return keep

    def _outputs(self, keep: set[Node]) -> list[Node]:
        returned = set(self.gm.graph.output_node().all_input_nodes)
        return [
            node
            for node in self.nodes
            if node in keep
            and isinstance(self.values.get(node), (torch.Tensor, int, float, bool))
            and (node in returned or not any(user in keep for user in node.users))
        ]


def _can_be_given(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, *_LITERALS))


def _has_tensors(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in torch.utils._pytree.tree_leaves(value))


class _Recording(Interpreter):
    def __init__(self, recorded: Recorded) -> None:
        super().__init__(recorded.gm, garbage_collect_values=False)
        self._recorded = recorded
        self._writers: dict[int, list[Node]] = {}

    def run_node(self, n: Node) -> Any:
        before = [(tensor, tensor._version) for tensor in self._tensors(n)]
        written = [writer for tensor, _ in before for writer in self._writers.get(_memory(tensor), ())]
        value = super().run_node(n)
        if n.op in ("placeholder", "output"):
            return value
        if written:
            self._recorded.reads[n] = set(written)
        for tensor, version in before:
            if tensor._version != version:
                self._writers.setdefault(_memory(tensor), []).append(n)
        self._recorded.values[n] = _kept_value(value)
        return value

    def _tensors(self, n: Node) -> list[torch.Tensor]:
        values = [self.env.get(each) for each in n.all_input_nodes]
        return [
            leaf
            for leaf in torch.utils._pytree.tree_leaves(values)
            if isinstance(leaf, torch.Tensor) and not leaf.is_inference()
        ]


class _Inside:
    """A tensor of a level of torch.func, which no other graph can have as input."""


def _kept_value(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return _Inside() if torch._C._functorch.maybe_get_level(value) not in (None, -1) else copies([value])[0]


def _memory(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # of a layout or level without one
        return id(tensor)
