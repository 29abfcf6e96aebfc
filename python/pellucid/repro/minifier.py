"""Makes a failing graph smaller: `minify`."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from pellucid.repro.candidate import Recorded
from pellucid.repro.errors import NothingFails, ReproRefused
from pellucid.repro.inputs import Inputs, TensorRecipe
from pellucid.repro.trial import Failure
from pellucid.repro.tries import Tries


@dataclass
class Minified:
    """What is left of a graph; `str()` of it says what was tried."""

    gm: GraphModule
    inputs: Inputs
    failure: Failure
    nodes_before: int
    report: str

    @property
    def nodes(self) -> int:
        """How many nodes compute something."""
        return count(self.gm)

    def __str__(self) -> str:
        return f"{self.nodes_before} nodes -> {self.nodes}, {len(self.inputs.recipes)} inputs: {self.failure}\n{self.report}"


def count(gm: GraphModule) -> int:
    """The nodes of a graph without inputs and output."""
    return sum(node.op not in ("placeholder", "output") for node in gm.graph.nodes)


def reduce(
    gm: GraphModule,
    inputs: Inputs,
    tries: Tries,
    *,
    on_success: Callable[[GraphModule, Inputs], None] = lambda gm, inputs: None,
    say: Callable[[str], None] = print,
    seconds: float | None = None,
) -> Minified:
    """The smallest graph that was found which fails in the same way.

    Args:
        gm: the graph, without tensors as attributes (`candidate.lifted`).
        inputs: its inputs.
        tries: says of each graph how it fails.
        on_success: gets each smaller graph that still fails.
        say: gets lines of progress.
        seconds: for all passes together; what was found until then is given back.

    Raises:
        NothingFails: the graph itself does not fail.

    Example:
        >>> print(reduce(gm, inputs, Tries(Setup("relu_compile_error_TESTING_ONLY"))))
    """
    failure = tries.failure(gm, inputs)
    if failure is None:
        raise NothingFails(f"the graph does not fail here: {tries.why_not(gm, inputs)}")
    say(f"{count(gm)} nodes, {len(inputs.recipes)} inputs: {failure}")
    reduction = _Reduction(gm, inputs, failure, tries, on_success, say, seconds)
    while not reduction.is_over and reduction.run_passes():
        pass
    if reduction.is_over:
        say(f"the time is over ({seconds:g} s): this is how far it came")
    return Minified(reduction.gm, reduction.inputs, failure, count(gm), tries.report(failure))


class _Reduction:
    """The graph as it is by now. Each pass says whether it made it smaller."""

    def __init__(
        self,
        gm: GraphModule,
        inputs: Inputs,
        failure: Failure,
        tries: Tries,
        on_success: Callable[[GraphModule, Inputs], None],
        say: Callable[[str], None],
        seconds: float | None,
    ) -> None:
        self.gm, self.inputs = gm, inputs
        self._failure = failure
        self._tries = tries
        self._on_success = on_success
        self._say = say
        self._end = None if seconds is None else time.monotonic() + seconds
        self.passes = (
            self._one_output,
            self._suffix,
            self._chunks,
            self._results,
            self._unused_inputs,
            self._input_facts,
            self._sizes,
            self._literals,
        )

    def run_passes(self) -> bool:
        """All of them once. Whether one of them made it smaller."""
        found = [step() for step in self.passes]
        return any(found)

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self._end is not None and time.monotonic() > self._end

    def _accept(self, gm: GraphModule, inputs: Inputs, what: str) -> bool:
        """Tries it, and keeps it if it fails in the same way."""
        if self.is_over:
            return False
        try:
            if not self._failure.is_like(self._tries.failure(gm, inputs)):
                return False
        except ReproRefused:
            return False
        before, self.gm, self.inputs = count(self.gm), gm, inputs
        self._say(f"{before:5} -> {count(gm)} nodes, {len(inputs.recipes)} inputs  ({what}; {self._tries.counted()})")
        self._on_success(gm, inputs)
        return True

    # ---- which nodes

    def _kept(self, recorded: Recorded, keep: set[Node], what: str) -> set[Node] | None:
        """The nodes of a candidate that still fails; None: it does not."""
        gm, inputs, kept = recorded.candidate(keep)
        if not kept or len(kept) >= len(recorded.nodes):
            return None
        return kept if self._accept(gm, inputs, what) else None

    def _one_output(self) -> bool:
        """Only what one output needs."""
        recorded = Recorded.of(self.gm, self.inputs)
        outputs = [node for node in self.gm.graph.output_node().all_input_nodes if node.op != "placeholder"]
        cones = sorted((recorded.cone(node) for node in outputs), key=len)
        return len(outputs) > 1 and any(self._kept(recorded, cone, "one output") for cone in cones)

    def _suffix(self) -> bool:
        """The shortest beginning, found by halving."""
        recorded = Recorded.of(self.gm, self.inputs)
        nodes = recorded.nodes
        low, high = 1, len(nodes)  # the first `high` nodes fail
        found = False
        while low < high:
            middle = (low + high) // 2
            if self._kept(recorded, set(nodes[:middle]), "end left out") is not None:
                high, found = middle, True
            else:
                low = middle + 1
        return found

    def _chunks(self) -> bool:
        """Delta debugging: chunks of nodes in their order are left out, smaller and smaller ones."""
        recorded = Recorded.of(self.gm, self.inputs)
        kept = recorded.nodes
        size, found = max(len(kept) // 2, 1), False
        while kept and not self.is_over:
            smaller = self._without_chunks(recorded, kept, size)
            if len(smaller) < len(kept):
                kept, found = smaller, True
            if size == 1 and len(smaller) == len(kept):
                return found
            size = max(min(size // 2, len(kept) // 2), 1)
            if size == 1 and not self._without_chunks_changes(recorded, kept):
                return found
        return found

    def _without_chunks_changes(self, recorded: Recorded, kept: list[Node]) -> bool:
        smaller = self._without_chunks(recorded, kept, 1)
        changed = len(smaller) < len(kept)
        kept[:] = smaller
        return changed

    def _without_chunks(self, recorded: Recorded, nodes: list[Node], size: int) -> list[Node]:
        kept, at = nodes, len(nodes)
        while at > 0:  # from the end: what the others need comes first
            at = max(min(at, len(kept)) - size, 0)
            rest = set(kept[:at] + kept[at + size :])
            found = self._kept(recorded, rest, "nodes left out") if rest else None
            if found is not None:
                kept = [node for node in kept if node in found]
        return kept

    # ---- results and inputs

    def _results(self) -> bool:
        """Only one result, where several are left."""
        results = self.gm.graph.output_node().all_input_nodes
        if len(results) < 2:
            return False
        return any(self._accept(_returning(self.gm, (node.name,)), self.inputs, "one result") for node in results)

    def _unused_inputs(self) -> bool:
        placeholders = list(self.gm.graph.find_nodes(op="placeholder"))
        used = [i for i, node in enumerate(placeholders) if node.users]
        if len(used) == len(placeholders):
            return False
        graph = _copied(self.gm)
        for node in list(graph.find_nodes(op="placeholder")):
            if not node.users:
                graph.erase_node(node)
        return self._accept(GraphModule(self.gm, graph), self.inputs.only(used), "inputs that nothing reads")

    def _input_facts(self) -> bool:
        """Random values, no gradients, leaves, plain strides and float32, for all inputs or one by one."""
        found = False
        for what, change in _SIMPLER:
            if self._change_inputs(change, what):
                found = True
        return found

    def _change_inputs(self, change: Callable[[TensorRecipe], TensorRecipe], what: str) -> bool:
        changed = self.inputs.changed(change)
        if changed.recipes == self.inputs.recipes:
            return False
        if self._accept(self.gm, changed, what):
            return True
        found = False
        for i, recipe in enumerate(self.inputs.recipes):
            if isinstance(recipe, TensorRecipe) and change(recipe) != recipe:
                recipes = [*self.inputs.recipes]
                recipes[i] = change(recipe)
                found |= self._accept(self.gm, Inputs(recipes, self.inputs.data).pruned(), f"{what}: {recipe.name}")
        return found

    def _sizes(self) -> bool:
        """A size that inputs have, in all of them at once: halved as long as the graph is valid and fails."""
        found = False
        sizes = {n for each in self.inputs.recipes if isinstance(each, TensorRecipe) for n in each.shape if n > 2}
        for size in sorted(sizes, reverse=True):
            for smaller in (2, size // 2):
                changed = self.inputs.changed(functools.partial(_resized, size=size, smaller=smaller))
                if (
                    smaller < size
                    and changed.recipes != self.inputs.recipes
                    and self._accept(self.gm, changed, f"size {size} -> {smaller}")
                ):
                    found = True
                    break
        return found

    # ---- arguments

    def _literals(self) -> bool:
        """Keywords left out, numbers made plain."""
        found = False
        for node in list(self.gm.graph.nodes):
            for what, args, kwargs in list(_simpler_arguments(node)):
                graph = _copied(self.gm)
                other = next(each for each in graph.nodes if each.name == node.name)
                current = next((each for each in self.gm.graph.nodes if each.name == node.name), None)
                if current is None or not _is_simpler(current, args, kwargs):
                    continue
                names = {each.name: each for each in graph.nodes}
                other.args = torch.fx.node.map_arg(args, lambda each: names[each.name])
                other.kwargs = torch.fx.node.map_arg(kwargs, lambda each: names[each.name])
                if self._accept(GraphModule(self.gm, graph), self.inputs, f"{node.name}: {what}"):
                    found = True
                    break
        return found


def _copied(gm: GraphModule) -> Graph:
    graph = Graph()
    made: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        made[node] = graph.node_copy(node, lambda each: made[each])
    return graph


def _returning(gm: GraphModule, names: Sequence[str]) -> GraphModule:
    graph = _copied(gm)
    by_name = {node.name: node for node in graph.nodes}
    graph.output_node().args = (tuple(by_name[name] for name in names),)
    return GraphModule(gm, graph)


def _random(recipe: TensorRecipe) -> TensorRecipe:
    """Of floats only: random numbers as indices would be other indices."""
    return replace(recipe, storage=None, offset=0) if recipe.dtype.is_floating_point else recipe


def _contiguous(recipe: TensorRecipe) -> TensorRecipe:
    plain = torch.empty(recipe.shape, device="meta").stride()
    return recipe if recipe.storage is not None else replace(recipe, stride=plain)


_SIMPLER: tuple[tuple[str, Callable[[TensorRecipe], TensorRecipe]], ...] = (
    ("random values", _random),
    ("no gradients", lambda recipe: replace(recipe, requires_grad=False, is_leaf=True)),
    ("leaves", lambda recipe: replace(recipe, is_leaf=True)),
    ("plain strides", _contiguous),
    ("float32", lambda r: replace(r, dtype=torch.float32) if r.storage is None and r.dtype.is_floating_point else r),
)


def _resized(recipe: TensorRecipe, size: int, smaller: int) -> TensorRecipe:
    """Strides in the order that they had. Of saved ints the first ones are taken; saved floats matter, and stay."""
    if size not in recipe.shape:
        return recipe
    shape = tuple(smaller if n == size else n for n in recipe.shape)
    order = sorted(range(len(shape)), key=lambda i: recipe.stride[i])
    stride, step = list(recipe.stride), 1
    for i in order:
        if recipe.stride[i]:
            stride[i] = step
            step *= max(shape[i], 1)
    if recipe.storage is not None and not recipe.dtype.is_floating_point:
        return replace(recipe, shape=shape)
    if recipe.storage is not None:
        return recipe  # values that matter: only what is random by now is resized
    return replace(recipe, shape=shape, stride=tuple(stride))


def _simpler_arguments(node: Node) -> Iterator[tuple[str, tuple, dict[str, Any]]]:
    is_operator = getattr(node.target, "__module__", None) == "_operator"  # which takes what it takes
    if node.op in ("placeholder", "output", "get_attr") or is_operator:
        return
    for name in node.kwargs:
        yield f"without {name}", node.args, {key: value for key, value in node.kwargs.items() if key != name}
    if node.args and not isinstance(node.args[-1], Node) and len(node.args) > 1:
        yield "without its last argument", node.args[:-1], dict(node.kwargs)
    for i, value in enumerate(node.args):
        if isinstance(value, float) and value not in (0.0, 1.0):
            yield f"argument {i} is 1.0", (*node.args[:i], 1.0, *node.args[i + 1 :]), dict(node.kwargs)


def _is_simpler(node: Node, args: tuple, kwargs: dict[str, Any]) -> bool:
    return len(args) < len(node.args) or len(kwargs) < len(node.kwargs) or args != node.args
