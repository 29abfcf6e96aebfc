"""A captured graph for reading: a line for each node in the words of the program, what it makes, its size and its FLOPs."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid._explain.arguments import words_of
from pellucid._explain.places import is_library, short
from pellucid._explain.record import RecordedCompile, RecordedGraph
from pellucid._in_words import is_expression

if TYPE_CHECKING:
    import torch

_FRAME = re.compile(r'^\s*File "(.+)", line (\d+), in (.+)$', re.M)
_ARITHMETIC = {"__builtins__": {}, "min": min, "max": max, "int": int, "float": float, "abs": abs, "math": math}


@dataclass(frozen=True)
class GraphLine:
    """One node of a graph."""

    name: str
    """As in the program; of an input where it comes from."""
    kind: str
    """"input", "op" or "output"."""
    code: str
    """What makes it, as Python; empty for an input."""
    value: str
    """"float32[2, 8]"; empty of what is no tensor."""
    flops: int | None
    """None of what is no tensor operation, or where they cannot be counted."""
    file: str
    line: int
    """The line of the program; 0: none."""
    function: str
    comes_from: str = ""
    """Of an input that has no name in the program: what it is, in words."""


class GraphReport:
    """One graph. What costs more than a look (lines, FLOPs) is made when it is first read."""

    def __init__(self, recorded: RecordedGraph, compiled: RecordedCompile) -> None:
        self.module = recorded.module
        self._recorded = recorded
        self._compiled = compiled

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """What the open sizes and numbers were in this call: {"s0": 3}."""
        found = dict(self._recorded.hints)
        inputs = self.module.graph.find_nodes(op="placeholder")
        for node, shape in zip(inputs, self._recorded.shapes, strict=False):
            fake = node.meta.get("example_value")
            if shape is not None and hasattr(fake, "shape"):
                found |= {str(dim): size for dim, size in zip(fake.shape, shape, strict=False) if type(size) is int}
        return {name: value for name, value in found.items() if not name.lstrip("-").isdigit()}

    @functools.cached_property
    def lines(self) -> list[GraphLine]:
        shown, words = _shown_names(self.module, self._compiled)
        return [self._line(node, shown, words) for node in self.module.graph.nodes]

    @functools.cached_property
    def op_count(self) -> int:
        return sum(node.op.startswith("call_") for node in self.module.graph.nodes)

    @functools.cached_property
    def _flops(self) -> dict[str, int]:
        return count_flops(self.module, self.sizes)

    @property
    def flops(self) -> int:
        """Of the whole graph, as `torch.utils.flop_counter` counts: matrix products, convolutions and attention."""
        return sum(self._flops.values())

    @functools.cached_property
    def input_bytes(self) -> int:
        """Of all inputs, parameters too."""
        return sum(self._bytes(node) for node in self.module.graph.find_nodes(op="placeholder"))

    @functools.cached_property
    def output_bytes(self) -> int:
        (output,) = self.module.graph.find_nodes(op="output")
        return sum(self._bytes(node) for node in output.all_input_nodes)

    @functools.cached_property
    def made_bytes(self) -> int:
        """Of all values that its operations make, as if each had memory of its own."""
        return sum(self._bytes(node) for node in self.module.graph.nodes if node.op.startswith("call_"))

    @property
    def span(self) -> tuple[str, int, int, str] | None:
        """Where it comes from: file, first and last line, and the function of the outermost frame that its operations have in
        common, of the user's code if there is any."""
        nodes = [node for node in self.module.graph.nodes if node.op.startswith("call_")]
        nodes = nodes or self.module.graph.find_nodes(op="placeholder")
        outermost = [frame for frame in map(_outermost, nodes) if frame is not None]
        if not outermost:
            return None
        file, _, function = next((frame for frame in outermost if not is_library(frame[0])), outermost[0])
        numbers = [line for other, line, name in outermost if (other, name) == (file, function)]
        return file, min(numbers), max(numbers), function

    # ----

    def _line(self, node: torch.fx.Node, shown: dict[str, str], words: dict[str, str]) -> GraphLine:
        kind = {"placeholder": "input", "output": "output"}.get(node.op, "op")
        file, line, function = place_of(node)
        return GraphLine(
            shown.get(node.name, node.name),
            kind,
            _code(node, shown),
            value_text(_example(node)),
            self._flops.get(node.name),
            file,
            line,
            function,
            words.get(node.name, ""),
        )

    def _bytes(self, node: torch.fx.Node) -> int:
        return sum(_number_of_bytes(tensor, self.sizes) for tensor in _tensors(_example(node)))


def _example(node: torch.fx.Node) -> Any:
    return node.meta.get("example_value")


def _frames(node: torch.fx.Node) -> list[tuple[str, int, str]]:
    return [(file, int(line), name) for file, line, name in _FRAME.findall(node.meta.get("stack_trace") or "")]


def _outermost(node: torch.fx.Node) -> tuple[str, int, str] | None:
    """The user's if there is one, else one that is not torch's code for calls of modules."""
    frames = _frames(node)
    own = [frame for frame in frames if not is_library(frame[0])]
    models = [frame for frame in frames if not short(frame[0]).startswith("torch/")]
    return next(iter(own or models or frames), None)


def place_of(node: torch.fx.Node) -> tuple[str, int, str]:
    """File, line and function of the program's innermost frame that led to a node, a library's where there is no other."""
    frames = _frames(node)
    own = [frame for frame in frames if not is_library(frame[0])]
    return own[-1] if own else frames[-1] if frames else ("", 0, "")


def value_text(value: Any) -> str:
    """ "float32[2, 8]", "float32[s0, 8], int64[]"; of what is no tensor nothing.

    Example:
        >>> value_text(torch.ones(2, 8))
        'float32[2, 8]'
    """
    return ", ".join(
        f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]" for tensor in _tensors(value)
    )


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        yield value


class _Name:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _shown_names(module: torch.fx.GraphModule, compiled: RecordedCompile) -> tuple[dict[str, str], dict[str, str]]:
    """Inputs as the program names them: "self.layers[0].weight"; and the words of those that have no name there, which are "input_0"
    and so on. What an operation makes has another name than these."""
    program = words_of(compiled)
    found: dict[str, str] = {}
    words: dict[str, str] = {}
    for node in module.graph.find_nodes(op="placeholder"):
        source = getattr(node.meta.get("grapharg"), "source", None)
        if source is not None:
            name = program.as_python(source.path)
            if not is_expression(name):
                words[node.name], name = name, f"input_{len(words)}"
            found[node.name] = name
    taken = {*found.values(), *(node.name for node in module.graph.nodes)}
    for node in module.graph.nodes:
        if node.op != "placeholder" and node.name in found.values():
            number = next(at for at in itertools.count(1) if f"{node.name}_{at}" not in taken)
            found[node.name] = f"{node.name}_{number}"
            taken.add(found[node.name])
    return found, words


def _name(text: str) -> Any:
    return _Name(text)


def _code(node: torch.fx.Node, shown_names: dict[str, str]) -> str:
    from torch.fx.graph import inplace_methods, magic_methods
    from torch.fx.node import map_arg

    if node.op == "placeholder":
        return ""
    args, kwargs = map_arg((node.args, node.kwargs), lambda one: _name(shown_names.get(one.name, one.name)))
    shown = [repr(arg) for arg in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
    if node.op == "output":
        return ", ".join(repr(one) for one in args[0]) if isinstance(args[0], (tuple, list)) else shown[0]
    if node.op == "call_method":
        return f"{shown[0]}.{node.target}({', '.join(shown[1:])})"
    if node.op == "get_attr":
        return f"self.{node.target}"
    if node.op == "call_module":
        return f"self.{node.target}({', '.join(shown)})"
    target: Any = node.target
    name = getattr(target, "__name__", "")
    if getattr(target, "__module__", "") == "_operator":
        form = magic_methods.get(name) or inplace_methods.get(name)
        if form is not None and form.count("{}") == len(shown):
            return form.format(*shown)
    if target is getattr:
        return f"{shown[0]}.{args[1]}"
    return f"{_target_name(node)}({', '.join(shown)})"


def _target_name(node: torch.fx.Node) -> str:
    text = node._pretty_print_target(node.target)
    return re.sub(r"^(?:torch\._C\._nn|torch\._C\._special)\.", "torch.", text).removeprefix("builtins.")


# ---- what it costs


def _evaluated(size: Any, sizes: dict[str, int]) -> int | None:
    if type(size) is int:
        return size
    try:
        return int(eval(str(size), {**_ARITHMETIC, **sizes}))
    except Exception:  # of a number that only the graph knows
        return None


def _all_evaluated(numbers: Iterable[Any], sizes: dict[str, int]) -> list[int] | None:
    found = [_evaluated(number, sizes) for number in numbers]
    return None if None in found else [number for number in found if number is not None]


def _number_of_bytes(tensor: Any, sizes: dict[str, int]) -> int:
    shape = [_evaluated(size, sizes) for size in tensor.shape]
    return math.prod(size if size is not None else 1 for size in shape) * tensor.dtype.itemsize


def count_flops(module: torch.fx.GraphModule, sizes: dict[str, int]) -> dict[str, int]:
    """For each operation of torch in a graph its FLOPs by torch's formulas. Each runs alone, on tensors without memory.

    Functions of the program that are nodes of the graph do not run; what fails has none.

    Args:
        sizes: what the open sizes are.

    Example:
        >>> count_flops(graph_module, {})["linear"]
        128
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.node import map_arg
    from torch.utils.flop_counter import FlopCounterMode

    from pellucid.backends.call import _undisturbed_state

    found: dict[str, int] = {}
    with _undisturbed_state(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        stand_ins: dict[str, Any] = {}
        for node in module.graph.nodes:
            if node.op not in ("output", "get_attr"):
                stand_ins[node.name] = _stand_in(_example(node), sizes, mode)
        for node in module.graph.nodes:
            if not _is_torchs(node):
                continue
            try:
                args, kwargs = map_arg((node.args, node.kwargs), lambda one: stand_ins[one.name])
                with FlopCounterMode(display=False) as counter:
                    _call(node, args, kwargs)
                found[node.name] = counter.get_total_flops()
            except Exception:  # a value that no stand-in has: nothing is known of this one
                continue
    return found


def _is_torchs(node: torch.fx.Node) -> bool:
    """Whether it is an operation of torch that makes tensors, which may run once more on stand-ins."""
    if not any(True for _ in _tensors(_example(node))):
        return False
    if node.op == "call_method":
        return True
    module = getattr(node.target, "__module__", None) or ""
    of_torch = module.partition(".")[0] in ("torch", "_operator") or type(node.target).__module__ == "torch._ops"
    return node.op == "call_function" and (of_torch or (module == "" and "torch" in repr(node.target)) or _is_c(node))


def _is_c(node: torch.fx.Node) -> bool:
    return type(node.target).__name__ in ("builtin_function_or_method", "method_descriptor")


def _call(node: torch.fx.Node, args: tuple, kwargs: dict[str, Any]) -> None:
    target: Any = node.target
    if node.op == "call_method":
        getattr(args[0], target)(*args[1:], **kwargs)
    else:
        target(*args, **kwargs)


def _stand_in(value: Any, sizes: dict[str, int], mode: Any) -> Any:
    import torch

    if isinstance(value, (tuple, list)):
        return type(value)(_stand_in(one, sizes, mode) for one in value) if type(value) in (tuple, list) else value
    if not isinstance(value, torch.Tensor):
        known = _evaluated(value, sizes) if hasattr(value, "node") else None
        return value if known is None else known
    shape = _all_evaluated(value.shape, sizes)
    strides = _all_evaluated(value.stride(), sizes)
    if shape is None:
        return None
    if strides is None:
        return torch.empty(shape, dtype=value.dtype, device=value.device)
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)
