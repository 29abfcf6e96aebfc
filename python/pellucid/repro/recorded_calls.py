"""What a program computes, as a graph, without capture: the calls of torch's functions that one eager run makes.

For faults of capture itself: the graph that capture made is what is wrong then.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.fx import Graph, GraphModule, Node
from torch.overrides import TorchFunctionMode

from pellucid.backends.copies import copies
from pellucid.repro.errors import ReproRefused
from pellucid.repro.script import write_repro

_LITERALS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout, slice)
_NO_CALLS = ("__get__", "__set__", "__repr__", "__format__", "__hash__", "__len__", "size", "dim", "stride", "item")


class Recording(TorchFunctionMode):
    """While it is entered, calls of torch's functions that give tensors become nodes of a graph.

    Example:
        >>> with Recording() as recording:
        ...     torch.relu(torch.ones(3))
        >>> gm, inputs = recording.graph()
    """

    def __init__(self) -> None:
        super().__init__()
        self._graph = Graph()
        self._nodes: dict[int, Node] = {}
        self._held: list[Any] = []  # so that no id is given twice
        self._inputs: list[Any] = []
        self._results: list[Node] = []
        self._last_input: Node | None = None

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _NO_CALLS and not _gives_tensor(func):
            return func(*args, **kwargs)
        given = torch.utils._pytree.tree_map(self._node_of, (args, kwargs))
        result = func(*args, **kwargs)
        self._note(func, given, result)
        return result

    def _node_of(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self._nodes:
            node = self._graph.create_node("placeholder", f"input_{len(self._inputs)}")
            if self._last_input is not None:
                self._last_input.append(node)
            else:
                first = next(iter(self._graph.nodes), None)
                if first is not None and first is not node:
                    first.prepend(node)
            self._last_input = node
            self._inputs.extend(copies([value]))
            self._nodes[id(value)] = node
            self._held.append(value)
        return self._nodes[id(value)]

    def _note(self, func: Any, given: tuple, result: Any) -> None:
        tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if not tensors:
            if func is torch._C._set_grad_enabled:
                self._graph.call_function(func, *given)
            return
        args, kwargs = given
        if getattr(func, "__name__", "") == "__get__":
            attribute = getattr(getattr(func, "__self__", None), "__name__", "")
            node = self._graph.call_function(getattr, (args[0], attribute))
        elif isinstance(func, types.MethodDescriptorType) and isinstance(args[0], Node):
            node = self._graph.call_method(func.__name__, args, kwargs)
        else:
            node = self._graph.call_function(func, args, kwargs)
        if isinstance(result, torch.Tensor):
            self._keep(result, node)
        elif isinstance(result, (tuple, list)):
            for i, part in enumerate(result):
                if isinstance(part, torch.Tensor):
                    self._keep(part, self._graph.call_function(operator.getitem, (node, i)))

    def _keep(self, tensor: torch.Tensor, node: Node) -> None:
        self._nodes[id(tensor)] = node
        self._held.append(tensor)
        self._results.append(node)

    def graph(self) -> tuple[GraphModule, list[Any]]:
        """The graph with the values that nothing reads as results, and its inputs as they were when they were read first."""
        self._graph.output(tuple(node for node in self._results if not node.users))
        return GraphModule({}, self._graph), self._inputs


def _gives_tensor(func: Any) -> bool:
    owner = getattr(func, "__self__", None)
    return getattr(owner, "__name__", "") in ("T", "mT", "H", "mH", "real", "imag", "data")


@contextmanager
def recording_calls(folder: Path, most: int) -> Iterator[None]:
    """In the block functions that are given to `pellucid.compile` and `torch.compile` run eagerly. The calls of torch's functions in
    each of their first calls are written as a script `call_<number>.py`.

    Args:
        folder: where the scripts are written.
        most: how many.

    Example:
        >>> with recording_calls(Path("calls"), 3):
        ...     runpy.run_path("train.py", run_name="__main__")
    """
    import pellucid

    count, is_within = 0, False

    def compile_nothing(model: Any = None, **options: Any) -> Any:
        if model is None:
            return functools.partial(compile_nothing, **options)
        if isinstance(model, torch.nn.Module):
            model.forward = recorded(model.forward)
            return model
        return recorded(model)

    def recorded(function: Callable) -> Callable:
        @functools.wraps(function, updated=())
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal count, is_within
            count += not is_within
            if count > most or is_within:
                return function(*args, **kwargs)
            is_within, number = True, count
            try:
                with Recording() as recording:
                    result = function(*args, **kwargs)
            finally:
                is_within = False
            _write(recording, folder / f"call_{number}.py")
            return result

        return run

    with mock.patch.object(pellucid, "compile", compile_nothing), mock.patch.object(torch, "compile", compile_nothing):
        yield


def _write(recording: Recording, file: Path) -> None:
    gm, inputs = recording.graph()
    title = "capture is at fault: what is captured does not compute what the program does"
    try:
        write_repro(gm, inputs, file, backend="eager", accuracy=True, title=title, command="minify")
    except ReproRefused as error:
        print(f"{file.name}: {error}", file=sys.stderr)
