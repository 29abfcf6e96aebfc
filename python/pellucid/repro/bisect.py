"""Which node of a graph is the first that differs from the eager run: `first_difference`."""

from __future__ import annotations

from dataclasses import dataclass
from operator import getitem

from torch.fx import Graph, GraphModule, Node

from pellucid.repro.candidate import Recorded
from pellucid.repro.inputs import Inputs
from pellucid.repro.minifier import count
from pellucid.repro.printer import text_of
from pellucid.repro.trial import Failure
from pellucid.repro.tries import Tries


@dataclass(frozen=True)
class Difference:
    """What differs first."""

    node: str
    """The name of the node."""
    line: str
    """Its line of `forward`."""
    failure: Failure
    gm: GraphModule
    """The node alone, or the shortest beginning of the graph that ends with it where alone it does not differ."""
    inputs: Inputs
    """Of `gm`."""
    is_alone: bool
    """Whether `gm` is the node alone."""

    def __str__(self) -> str:
        where = "" if self.is_alone else f" (alone it does not: with the {count(self.gm) - 1} nodes before it)"
        return f"the first node that differs is `{self.line}`{where}\n{self.failure}"


def first_difference(gm: GraphModule, inputs: Inputs, tries: Tries) -> Difference | None:
    """Finds the first node of a graph whose value is not what it is eagerly, or at which compiling or running it fails.

    Beginnings of the graph are compiled with all of their values as results, half of the rest at a time. The node that is found
    is tried alone.

    Args:
        gm: the graph, without tensors as attributes.
        inputs: its inputs.
        tries: say how graphs fail.

    Returns:
        None: the graph does not fail.

    Example:
        >>> first_difference(gm, inputs, Tries(Setup("relu_accuracy_error_TESTING_ONLY", accuracy=True))).node
        'relu'
    """
    whole = tries.failure(gm, inputs)
    if whole is None:
        return None
    recorded = Recorded.of(gm, inputs)
    nodes = recorded.nodes
    low, high, failure = 1, len(nodes), whole
    while low < high:
        middle = (low + high) // 2
        found = tries.failure(_beginning(gm, nodes[:middle]), inputs)
        if found is not None:
            high, failure = middle, found
        else:
            low = middle + 1
    node = nodes[high - 1]
    alone, own, kept = recorded.candidate({node})
    if kept and (found := tries.failure(alone, own)) is not None:
        return Difference(node.name, _line(alone, node.name), found, alone, own, True)
    shortest, own, _ = recorded.candidate(set(nodes[:high]))
    return Difference(node.name, _line(shortest, node.name), failure, shortest, own, False)


def _beginning(gm: GraphModule, nodes: list[Node]) -> GraphModule:
    """These nodes, with the values of all of them as results; inputs stay as they are."""
    graph = Graph()
    made: dict[Node, Node] = {}
    keep = set(nodes)
    for node in gm.graph.nodes:
        if node.op == "placeholder" or node in keep:
            made[node] = graph.node_copy(node, lambda each: made[each])
    graph.output(tuple(made[node] for node in nodes if _is_result(node, keep)))
    return GraphModule(gm, graph)


def _is_result(node: Node, keep: set[Node]) -> bool:
    """Not what only other nodes take apart (tuples), nor what nodes give that set modes."""
    is_taken_apart = any(user.target is getitem for user in node.users)
    name = getattr(node.target, "__name__", "")
    return not is_taken_apart and name not in ("_set_grad_enabled", "_enter_autocast", "_exit_autocast")


def _line(gm: GraphModule, name: str) -> str:
    lines = text_of(gm).classes.splitlines()
    return next((line.strip() for line in lines if line.strip().startswith(f"{name} = ")), name)
