"""What AOTAutograd and Inductor look for around a graph that comes from a capturing front end.

A ShapeEnv inside the fake mode inside a TracingContext (without one their caches are off), a symbolic context for each input (without
one a tensor becomes fully symbolic), and the compile id.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._guards import CompileContext, CompileId, TracingContext, compile_context, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.node import map_arg
from torch.nested._internal import nested_tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from pellucid.backends import batch_norms, decompositions
from pellucid.backends.open_inputs import OpenInputs, input_context
from pellucid.backends.open_numbers import OpenNumbers, Symbols

_next_frame_id = itertools.count()


class _Context(TracingContext):
    """While AOTAutograd traces it patches classes and module globals of torch for the whole process: one thread at a time, torch.compile's
    too. It starts by asking for the fake mode, so that is where the lock is taken: backends that trace nothing run side by side.
    """

    def __init__(
        self, fake_mode: FakeTensorMode, held: contextlib.ExitStack, share_memory: bool, examples: list[Any]
    ) -> None:
        self._held: contextlib.ExitStack | None = None
        self._share_memory = share_memory
        self.examples = examples  # what the backend gets as example inputs
        self._symbols: Symbols | None = None
        self._number_inputs: dict[Node, Any] = {}
        self._open_inputs: list[Any] = []  # torch's memo does not keep them
        self._made_before = 0
        # Inputs that have to be laid out as copies of them are, and begin where their storage does.
        self.whole: list[int] = []
        self.writes_a_part = False  # one is laid out otherwise
        self.simple: list[int] = []  # inputs of which no two elements may lie at one place
        self.grows_an_input = False
        super().__init__(fake_mode)
        self._runs_before = _aot_runs()
        self._held = held

    @property
    def fake_mode(self) -> FakeTensorMode:
        if self._held is not None:
            held, self._held = self._held, None
            held.enter_context(compile_lock)
            held.enter_context(decompositions.faithful_decompositions())
            if self._share_memory:
                # AOTAutograd puts a base in the place of inputs that share memory when one is written, and replays on
                # it the views that the program took of an input (torch 2.13: `x += 1; return y.expand(2, 3)` for the
                # inputs x and y = x[0]). Without the replay it takes strides and offset.
                held.enter_context(functorch_config.patch(view_replay_for_aliased_outputs=False))
        return self._fake_mode

    @fake_mode.setter
    def fake_mode(self, mode: FakeTensorMode) -> None:
        self._fake_mode = mode

    def open(self, gm: GraphModule, numbers: OpenNumbers) -> bool:
        """The sizes that stay open become symbols, in the example inputs and in what is known of each node. Whether there
        are nested tensors among the inputs."""
        mode = self._fake_mode  # without the lock: only AOTAutograd patches torch
        self._symbols = symbols = Symbols(mode.shape_env, numbers)
        inputs = OpenInputs(mode, symbols)
        for node, example in zip(gm.graph.find_nodes(op="placeholder"), self.examples):
            known = node.meta["example_value"]
            if isinstance(known, torch.Tensor):
                self._open_inputs.append(inputs.fake_of(example, known, node._dynamo_source))
        self.examples = numbers.examples(symbols, self.examples)
        return inputs.any_jagged

    def make_scalars(self) -> None:
        """Torch gives an input of no dimension a symbol for its item(), and refuses graphs that do not use those of floats. No
        graph of ours asks for an item."""
        for example in self.examples:
            if isinstance(example, torch.Tensor) and example.dim() == 0 and example in self.tensor_to_context:
                context = self.tensor_to_context[example]
                self._open_inputs.append(self._fake_mode.from_tensor(example, symbolic_context=context))
        self._made_before = len(self._fake_mode.fake_tensor_converter.tensor_memo)

    def note_writes(self, gm: GraphModule, is_open: bool) -> None:
        """AOTAutograd lays an input that the graph writes and reshapes, and with open sizes a view of one that it writes, by
        size, stride and offset in a copy of that input. It writes each element of an input once, and has no way to give an
        input more memory (`torch.add(x, 1, out=y)`)."""
        written = list(_written_inputs(gm, self.examples))
        self.whole = [i for i, reshaped, returned in written if reshaped or (returned and is_open)]
        self.writes_a_part = any(not _is_dense(self.examples[i]) for i in self.whole)
        self.simple = [i for i, _, _ in written if not _is_dense(self.examples[i])]
        fakes = [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]
        self.grows_an_input = any(
            fakes[i].untyped_storage().nbytes() > self.examples[i].untyped_storage().nbytes() for i, _, _ in written
        )

    def value(self, length: Any) -> Any:
        """Of a size or stride of the graph's fakes."""
        return length if self._symbols is None else self._symbols.value(length)

    def number_of(self, node: Node) -> Any:
        """What a node that is a number in Python is for the backend; its inputs know theirs."""
        if node.op == "placeholder":
            return self._number_inputs[node]
        args = map_arg(node.args, lambda arg: arg.meta["example_value"])
        if node.op == "call_method":  # what the graph reads of a tensor
            return getattr(args[0], str(node.target))(*args[1:])
        return node.target(*args)  # type: ignore[operator]

    def note_numbers(self, gm: GraphModule) -> None:
        """Placeholders that are numbers in Python: a torch.SymInt, or a tensor for a float."""
        for node, example in zip(gm.graph.find_nodes(op="placeholder"), self.examples, strict=True):
            if type(node.meta.get("example_value")) in (int, float):
                self._number_inputs[node] = example

    def conditions(self) -> list[Any] | None:
        """What the backend relies on: `OpenNumbers.conditions`. From now on it cannot ask for more."""
        assert self._symbols is not None
        conditions = self._symbols.conditions()
        self._symbols.env.freeze()
        return conditions

    def over(self) -> None:
        """The backend is back: a backward that is compiled later asks without the lock, as under torch.compile. Weak references to the
        inputs go, of which torch.utils.swap_tensors allows none."""
        self._held = None
        self._open_inputs.clear()
        self.tensor_to_context.clear()
        describer = self._fake_mode.fake_tensor_converter.meta_converter.describer
        describer.lookup_tensor.clear()
        describer.lookup_storage.clear()

    def used_aot(self) -> bool:
        """AOTAutograd ran: it made fakes of the inputs, or found a result in its cache."""
        made = len(self._fake_mode.fake_tensor_converter.tensor_memo)
        return made > self._made_before or _aot_runs() != self._runs_before


def _aot_runs() -> int:
    aot = counters["aot_autograd"]
    return aot["total"] + aot["autograd_cache_hit"]


def overlap_of(tensors: Sequence[Any]) -> tuple:
    """(index, index of the first one with this storage, offset in it) for each tensor that shares its storage with another."""
    groups: dict[int, list[int]] = {}
    for i, tensor in enumerate(tensors):
        if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
            groups.setdefault(tensor.untyped_storage()._cdata, []).append(i)
    return tuple(
        (i, group[0], tensors[i].storage_offset()) for group in groups.values() if len(group) > 1 for i in group
    )


@contextlib.contextmanager
def tracing_context(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    replace_fakes: bool = True,
    open_numbers: OpenNumbers | None = None,
) -> Iterator[_Context]:
    if "dynamo_compile_id" not in gm.meta:
        gm.meta["dynamo_compile_id"] = CompileId(frame_id=next(_next_frame_id), frame_compile_id=0)
    fake_mode = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False))
    held = contextlib.ExitStack()
    overlap = overlap_of(example_inputs)
    attributes = [*gm.parameters(), *gm.buffers()]
    share_memory = bool(overlap_of([*attributes, *example_inputs]))
    context = _Context(fake_mode, held, share_memory, list(example_inputs))
    for node, example in zip(gm.graph.find_nodes(op="placeholder"), example_inputs):
        if isinstance(example, torch.Tensor):
            context.tensor_to_context[example] = input_context(example, node._dynamo_source)
    gm._decompositions = decompositions.VERSION  # type: ignore[assignment]
    # AOTAutograd's cache would give a result for another overlap without this.
    gm._input_overlap = overlap  # type: ignore[assignment]
    with held, compile_context(CompileContext(gm.meta["dynamo_compile_id"])), tracing(context):
        try:
            context.note_writes(gm, open_numbers is not None)
            if open_numbers is not None:
                if open_numbers.reach_the_graph():
                    # A backward that is compiled later could ask for conditions that nobody guards any more. One that
                    # is compiled now cannot run with retain_graph=True: AOTAutograd asks for that at its first run.
                    held.enter_context(functorch_config.patch(force_non_lazy_backward_lowering=True))
                if context.open(gm, open_numbers):
                    # Inductor's cache fails at graphs of which an input is a sum of sizes, as the number of parts is:
                    # what it compares then has names that it does not know (torch 2.13).
                    inductor = importlib.import_module("torch._inductor.config")
                    held.enter_context(inductor.patch(fx_graph_cache=False))
            if replace_fakes:
                batch_norms.take_numbers(gm)
                context.note_numbers(gm)
                _replace_example_values(gm, fake_mode, context)
            context.make_scalars()
            yield context
        finally:
            context.over()


def _written_inputs(gm: GraphModule, examples: Sequence[Any]) -> Iterator[tuple[int, bool, bool]]:
    """Of each input that the graph writes: its index, whether it gets another layout, whether it or a view is returned. Nobody
    counts the writes to inference tensors: the graph may write each of them."""

    def storage_of(node: Node) -> Any:
        fake = node.meta.get("example_value")
        if not isinstance(fake, torch.Tensor) or fake.layout is not torch.strided:
            return None
        if is_traceable_wrapper_subclass(fake):  # AOTAutograd writes to its parts
            return None
        return fake.untyped_storage()._cdata

    returned = {storage_of(node) for node in gm.graph.output_node().all_input_nodes} - {None}
    for i, (node, example) in enumerate(zip(gm.graph.find_nodes(op="placeholder"), examples, strict=True)):
        fake = node.meta["example_value"]
        if storage_of(node) is None or (not fake.is_inference() and fake._version == 0):
            continue
        now = (*fake.size(), *fake.stride())
        # An open size that is reshaped is a constant of the capture.
        reshaped = any(
            type(length) is int and length != was for length, was in zip(now, (*example.size(), *example.stride()))
        )
        yield i, reshaped or fake.dim() != example.dim(), storage_of(node) in returned


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements lie side by side, in whatever order."""
    plain = torch.empty_strided(tensor.size(), tensor.stride(), device="meta")  # torch has none that is quantised there
    return torch.empty_like(plain).stride() == tensor.stride()


def _replaced(example: Any, context: _Context) -> Any:
    """One of these, where the fakes of torch are made."""
    if not isinstance(example, torch.Tensor) or example.layout is not torch.strided:
        return example
    if is_traceable_wrapper_subclass(example):
        names, facts = example.__tensor_flatten__()
        parts = {name: _replaced(getattr(example, name), context) for name in names}
        jagged = isinstance(example, nested_tensor.NestedTensor)  # its nested ints are the program's own
        layouts = [example.size(), example.stride()]
        sizes, strides = layouts if jagged else [[context.value(length) for length in layout] for layout in layouts]
        return type(example).__tensor_unflatten__(parts, facts, torch.Size(sizes), tuple(strides))
    sizes, strides = [[context.value(length) for length in layout] for layout in (example.size(), example.stride())]
    # Torch has no fakes of quantised tensors: it takes what quantize_per_tensor gives for its argument.
    dtype = torch.float32 if example.is_quantized else example.dtype
    return torch.empty_strided(sizes, strides, dtype=dtype, device=example.device, requires_grad=example.requires_grad)


def _replace_example_values(gm: GraphModule, fake_mode: FakeTensorMode, context: _Context) -> None:
    """Our fakes mean nothing to torch's passes: theirs with the same sizes, strides, type and device."""

    with fake_mode:
        for node in gm.graph.nodes:
            if "example_value" not in node.meta:
                continue
            example = node.meta["example_value"]
            if type(example) in (int, float):
                example = context.number_of(node)
            node.meta["example_value"] = torch.utils._pytree.tree_map(
                functools.partial(_replaced, context=context), example
            )
    # The graph is traced once more, and gives its numbers then.
    if fake_mode.shape_env is not None:
        fake_mode.shape_env.pending_fresh_unbacked_symbols.clear()
