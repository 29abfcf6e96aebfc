"""`pellucid.export`: one graph module that stands for a whole program.

The program is captured as `compile(fullgraph=True)` captures it; what `_core` hands over is rebuilt here. Inputs that come from arguments
become placeholders, others attributes. What the program returns is found by running the region's function with torch's fakes for
the arguments, and fakes for what the graph gives: its leaves are nodes of the graph, numbers over sizes, or constants.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import re
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node, Proxy, Tracer
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.fx.node import base_types
from torch.fx.proxy import GraphAppendingTracer
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from pellucid import _core
from pellucid._exporting import exporting
from pellucid._fx import _MODULE_MEMBER, _SUBMODULE, _TAKEN, InputSource, module_key_name, name_of_graph
from pellucid._module import OptimizedModule
from pellucid.backends.call import Backend
from pellucid.errors import ConstraintViolation, ExportError, GraphFailed, Unsupported

__all__ = ["Exported", "ExportedGraphModule", "Guards", "export"]


class Guards(tuple[str, ...]):
    """What an export relies on, as Python expressions over the arguments `L`, globals `G` and constants."""

    scope: Mapping[str, Any]
    _names: Callable[..., dict[str, Any]]

    def failing(self, *args: Any, **kwargs: Any) -> list[str]:
        """Those that do not hold for these arguments of the exported program.

        Example:
            >>> guards.failing(torch.ones(7))
            ["HOLDS(0, L['x'])"]
        """
        scope = {**self.scope, "L": self._names(args, kwargs)}
        return [guard for guard in self if not eval(guard, scope)]


class Exported(NamedTuple):
    """What `export` gives."""

    graph_module: GraphModule
    guards: Guards


class _Captured(GraphFailed):
    """Ends the call that is captured where its graph would run: errors of this class are not followed by a second run."""


@dataclass
class _Collector(Backend):
    """The backend of an export: it keeps the graph that it gets."""

    exports: bool = True  # asked by `_core`: effects beside the graph are an error
    drops_effects: bool = False  # … or are left out
    gm: Any = None
    examples: list[Any] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
        self.gm, self.examples = gm, list(example_inputs)
        _ = gm.graph  # metadata is made while the inputs are alive
        return _end

    def note_dropped(self, effects: list[str]) -> None:
        self.dropped = effects


def _end(*inputs: Any) -> Any:
    raise _Captured("captured")


class _Leaf(NamedTuple):
    """One leaf of the user's arguments."""

    path: str
    """How the captured function reaches it: "L['d'][0]"."""
    name: str
    """Of its placeholder: "d_0"."""
    value: Any


class _StandIn:
    """Stands for a leaf that is neither tensor nor number where the result is made: nothing can be done with it but to hand it on."""

    __hash__ = None  # type: ignore[assignment]


@dataclass
class _Program:
    """What is exported: a plain function, the arguments in front of those of the user, and the module whose state it has."""

    function: types.FunctionType
    front: tuple
    root: torch.nn.Module | None
    signature: inspect.Signature

    @classmethod
    def of(cls, target: Any) -> _Program:
        if isinstance(target, OptimizedModule):
            target = target._orig_mod
        if isinstance(target, torch.nn.Module):
            called: Any = type(target).__call__
            return cls(called, (target,), target, inspect.signature(target.forward))
        front: tuple = ()
        if isinstance(target, types.MethodType):
            target, front = target.__func__, (target.__self__,)
        if isinstance(target, _core.CompiledFunction):
            target = target._torchdynamo_orig_callable
        if not isinstance(target, types.FunctionType):
            raise TypeError(f"pellucid.export needs a function, method or module, not {type(target).__name__}")
        root = front[0] if front and isinstance(front[0], torch.nn.Module) else None
        signature = inspect.signature(target, follow_wrapped=False)
        if front:
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        return cls(target, front, root, signature)

    def values(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The function's own arguments by name, in the order of the variables of its code."""
        bound = inspect.signature(self.function, follow_wrapped=False).bind(*self.front, *args, **kwargs)
        bound.apply_defaults()
        return {name: bound.arguments[name] for name in self._variables()}

    def _variables(self) -> tuple[str, ...]:
        """Those of the function's code that hold its arguments."""
        code = self.function.__code__
        slots = code.co_argcount + code.co_kwonlyargcount
        slots += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        return code.co_varnames[:slots]

    def parameters(self) -> set[str]:
        """The variables in which the arguments of the user are."""
        return set(self._variables()[len(self.front) :])

    def names(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
        """One for each argument of the user, for the signature of the graph module."""
        names = []
        for parameter in self.signature.parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                names.append(parameter.name)
            elif parameter.kind is parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}_{i}" for i in range(len(args) - len(names))]
        return [*("self_" if name == "self" else name for name in names[: len(args)]), *kwargs]

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[_Leaf]:
        """Of the user's arguments, in their order."""
        code = self.function.__code__
        positional = code.co_varnames[: code.co_argcount]
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
        has_rest = bool(code.co_flags & inspect.CO_VARARGS)
        named = {
            *positional[code.co_posonlyargcount :],
            *code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount],
        }
        roots = []
        for i in range(len(self.front), len(self.front) + len(args)):
            roots.append(f"L[{positional[i]!r}]" if i < len(positional) else f"L[{rest[0]!r}][{i - len(positional)}]")
        for name in kwargs:
            roots.append(f"L[{name!r}]" if name in named else f"L[{rest[has_rest]!r}][{name!r}]")
        found = []
        for root, name, value in zip(roots, self.names(args, kwargs), [*args, *kwargs.values()], strict=True):
            for path, leaf in pytree.tree_flatten_with_path(value)[0]:
                steps = "".join(_step(key) for key in path)
                found.append(_Leaf(root + steps, "_".join([name, *re.findall(r"\w+", steps)]), leaf))
        return found


def _step(key: Any) -> str:
    if isinstance(key, pytree.SequenceKey):
        return f"[{key.idx}]"
    return f"[{key.key!r}]" if isinstance(key, pytree.MappingKey) else str(key)


def export(
    model: Any, args: Sequence[Any], keywords: dict[str, Any], dynamic: bool | None, strict: bool, outside_tensors: bool
) -> Exported:
    """`pellucid.export`, whose documentation is there."""
    program = _Program.of(model)
    collector = _Collector(
        "export",
        _end,
        aot=True,
        takes_symbols=True,
        static=dynamic is False,
        dynamic=dynamic is True,
        drops_effects=not strict,
    )
    compiled = _core.CompiledFunction(program.function, collector, fullgraph=True, instance=None, config={})
    entry = _with_all_violations(lambda: _capture(compiled, program, args, keywords), program.leaves(args, keywords))
    if collector.dropped:
        warnings.warn(f"pellucid.export leaves out {', '.join(collector.dropped)}", stacklevel=3)
    module = _Rebuilding(program, args, keywords, collector, entry["function"], outside_tensors).module()
    guards = Guards(entry["guards"])
    guards.scope = entry["scope"]
    guards._names = program.values
    return Exported(module, guards)


def _capture(compiled: Any, program: _Program, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    with exporting(), contextlib.suppress(_Captured):
        compiled(*program.front, *args, **kwargs)
    entries = _core.cache_entries(compiled)
    if not entries:
        stops = _core.break_reasons(compiled)
        if stops:
            raise Unsupported(stops[-1])
        raise ExportError("nothing was captured: code is not compiled here (a stance, a limit, or torch's tracing)")
    return {**entries[0]}


_SIZE = re.compile(r"(.+)\.(size|stride)\((\d+)\)")
_MARKS = "_dynamo_dynamic_indices"


def _with_all_violations(capture: Callable[[], dict[str, Any]], leaves: Sequence[_Leaf]) -> dict[str, Any]:
    """`capture()`, but an error about one marked size that has to be a constant becomes one about all of them: each is tried
    without the marks that are known to be wrong."""
    leaf_at = {leaf.path: leaf.value for leaf in leaves}
    violations: list[ConstraintViolation] = []
    marks: list[tuple[torch.Tensor, set[int]]] = []
    try:
        while True:
            try:
                entry = capture()
                break
            except ConstraintViolation as violation:
                violations.append(violation)
                size = _SIZE.fullmatch(violation.source)
                tensor = leaf_at.get(size[1]) if size else None
                known = getattr(tensor, _MARKS, None) or set()
                if size is None or tensor is None or int(size[3]) not in known:
                    raise _joined(violations) from None
                marks.append((tensor, known))
                setattr(tensor, _MARKS, known - {int(size[3])})
    finally:
        for tensor, known in reversed(marks):
            setattr(tensor, _MARKS, known)
    if violations:
        raise _joined(violations)
    return entry


def _joined(violations: Sequence[ConstraintViolation]) -> ConstraintViolation:
    if len(violations) == 1:
        return violations[0]
    text = f"{len(violations)} sizes that are marked as dynamic have to be constants:\n\n"
    return ConstraintViolation(
        text + "\n\n".join(str(violation) for violation in violations),
        ", ".join(violation.source for violation in violations),
        " and ".join(dict.fromkeys(violation.condition for violation in violations)),
    )


class _Tracer(Tracer):
    """Of torch.fx, which unpickles a graph module by tracing its code: a write to a buffer is not to happen then."""

    proxy_buffer_attributes = True


class ExportedGraphModule(GraphModule):
    """What `export` makes. It is pickled as torch.fx pickles graph modules, with the shape of its arguments and its result beside."""

    def __reduce__(self) -> tuple:
        info = self.graph._codegen.pytree_info  # type: ignore[attr-defined]
        graph = Graph(tracer_cls=_Tracer)
        graph.output(graph.graph_copy(self.graph, {}))
        flat = GraphModule(self, graph)
        return (_unpickled, (flat, info, list(_state_of(self)), self.training))


def _unpickled(
    flat: GraphModule, info: _PyTreeInfo, state: list[tuple[str, torch.Tensor, bool]], training: bool
) -> ExportedGraphModule:
    attributes = _Attributes()
    for name, tensor, kept in state:
        attributes.add(name, tensor, kept)
    flat.graph.set_codegen(_PyTreeCodeGen(info))
    return _made(attributes, flat.graph, training)


def _made(attributes: _Attributes, graph: Graph, training: bool) -> ExportedGraphModule:
    made = ExportedGraphModule(torch.nn.Module(), Graph())
    made.training = training
    attributes.put_on(made)
    made.graph = graph
    return made


def _state_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """Each parameter and buffer under each of its names, and whether a state_dict has it."""
    for name, parameter in module.named_parameters(remove_duplicate=False):
        yield name, parameter, True
    for path, owner in module.named_modules(remove_duplicate=False):
        for name, buffer in owner._buffers.items():
            if buffer is not None:
                yield f"{path}.{name}".lstrip("."), buffer, name not in owner._non_persistent_buffers_set


@dataclass
class _Attributes:
    """The tensors that the graph module will have, by name."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    kept: dict[str, bool] = field(default_factory=dict)
    """Whether a state_dict has it."""
    names: dict[int, str] = field(default_factory=dict)
    """By id of the tensor."""
    bodies: dict[str, GraphModule] = field(default_factory=dict)
    """Graphs that operators in the graph call."""

    def add(self, name: str, tensor: torch.Tensor, kept: bool = True) -> str:
        top, _, rest = name.partition(".")
        name = top + ("_0" if top in _TAKEN else "") + ("." + rest if rest else "")
        while name in self.tensors:
            name += "_"
        self.tensors[name] = tensor
        self.kept[name] = kept
        return self.names.setdefault(id(tensor), name)

    def put_on(self, module: torch.nn.Module) -> None:
        for name, tensor in self.tensors.items():
            *path, last = name.split(".")
            owner = module
            for part in path:
                if part not in owner._modules:
                    owner.add_module(part, torch.nn.Module())
                owner = owner._modules[part]  # type: ignore[assignment]
            if isinstance(tensor, torch.nn.Parameter):
                owner.register_parameter(last, tensor)
            else:
                owner.register_buffer(last, tensor, persistent=self.kept[name])
        for name, body in self.bodies.items():
            module.add_module(name, body)


class _Rebuilding:
    """Makes the graph module of what was captured."""

    def __init__(
        self,
        program: _Program,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        collector: _Collector,
        region: types.FunctionType,
        outside_tensors: bool,
    ) -> None:
        self._program = program
        self._region = region
        self._captured: GraphModule | None = collector.gm
        self._examples = collector.examples
        self._outside_tensors = outside_tensors
        self._refused: list[str] = []
        self._in_spec = pytree.tree_structure((tuple(args), kwargs))
        self._arguments = program.names(args, kwargs)
        self._leaves = program.leaves(args, kwargs)
        self._graph = Graph(tracer_cls=_Tracer)
        self._attributes = _Attributes()
        self._new: dict[Node, Node] = {}  # by the node that was captured
        self._placeholders: list[Node] = []
        self._reads: dict[str, Node] = {}  # get_attr nodes by name
        self._symbols: dict[Any, Node] = {}  # sympy's symbol -> the node that is this number
        self._lengths: dict[tuple[int, str, int], Any] = {}
        self._sources: dict[str, InputSource] = {}
        self._stacks: dict[InputSource, list[str]] = {}
        self._mode = self._fake_mode()

    def module(self) -> ExportedGraphModule:
        if self._program.root is not None:
            for name, tensor, kept in _state_of(self._program.root):
                self._attributes.add(name, tensor, kept)
        self._add_placeholders()
        self._copy_nodes()
        self._check_refused()
        outputs, out_spec = self._outputs()
        self._check_refused()
        self._graph.output(outputs)
        for node in reversed(self._graph.nodes):  # sizes that nobody asks for
            if node.target in (torch.ops.aten.sym_size.int, torch.ops.aten.sym_stride.int) and not node.users:
                self._graph.erase_node(node)
        self._graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(self._arguments, self._in_spec, out_spec)))
        training = self._program.root is None or self._program.root.training
        made = _made(self._attributes, self._graph, training)
        made.meta.update(self._meta())
        made._param_name_to_source = self._sources  # type: ignore[assignment]
        made._source_to_user_stacks = self._stacks  # type: ignore[assignment]
        return made

    def _check_refused(self) -> None:
        if self._refused:
            listed = "\n\n".join(self._refused)
            raise ExportError(f"the program reads tensors that are neither arguments nor its own:\n\n{listed}")

    def _meta(self) -> dict[str, Any]:
        kept = ("compliant_custom_ops", "non_compliant_ops")
        of_capture = {} if self._captured is None else self._captured.meta
        return {name: of_capture[name] for name in kept if name in of_capture}

    # ---- inputs

    def _captured_nodes(self) -> list[Node]:
        return [] if self._captured is None else list(self._captured.graph.nodes)

    def _captured_inputs(self) -> list[tuple[Node, Any]]:
        inputs = [node for node in self._captured_nodes() if node.op == "placeholder"]
        return list(zip(inputs, self._examples, strict=True))

    def _fake_mode(self) -> FakeTensorMode:
        for node in self._captured_nodes():
            for value in pytree.tree_leaves(node.meta.get("example_value")):
                if isinstance(value, FakeTensor):
                    return value.fake_mode
        return FakeTensorMode(shape_env=ShapeEnv())

    def _add_placeholders(self) -> None:
        captured = {id(example): node for node, example in self._captured_inputs() if isinstance(example, torch.Tensor)}
        open_at = {_source_of(node).name: value for node, value in self._captured_inputs() if _is_symbolic(value)}
        made: dict[int, Node] = {}
        self._fakes: list[Any] = []  # what stands for each leaf where the result is made
        for leaf in self._leaves:
            node = self._graph.placeholder(leaf.name)
            self._placeholders.append(node)
            if isinstance(leaf.value, torch.Tensor):
                first = made.setdefault(id(leaf.value), node)
                known = captured.get(id(leaf.value)) if first is node else None
                if known is not None:
                    node.meta.update({key: value for key, value in known.meta.items() if key != "grapharg"})
                    node.type = known.type
                    self._new[known] = node
                    fake = known.meta["example_value"]
                else:
                    fake = first.meta["val"] if first is not node else self._fake_of(leaf.value)
                node.meta["val"] = node.meta["example_value"] = fake
            else:
                is_open = leaf.path in open_at
                fake = open_at[leaf.path] if is_open else self._stand_in(leaf, node)
                node.meta["val"] = node.meta["example_value"] = fake if is_open else leaf.value
            self._fakes.append(fake)
        placed = {leaf.path: node for leaf, node in zip(self._leaves, self._placeholders, strict=True)}
        for node, value in self._captured_inputs():
            if node not in self._new:
                self._new[node] = self._other_input(node, value, placed)

    def _fake_of(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._mode.from_tensor(tensor, static_shapes=True)

    def _stand_in(self, leaf: _Leaf, node: Node) -> Any:
        """Numbers can be computed with where the result is made."""
        return self._number_of(node, leaf.value, leaf.path) if type(leaf.value) in (int, float) else _StandIn()

    def _number_of(self, node: Node, value: Any, path: str) -> Any:
        env: Any = self._mode.shape_env
        source = InputSource(path)
        symbol = env.create_unspecified_symbol(value, source, DimDynamic.DYNAMIC)
        self._symbols[symbol] = node
        make = env.create_symintnode if type(value) is int else env.create_symfloatnode
        return make(symbol, hint=value, source=source)

    def _other_input(self, node: Node, value: Any, placed: Mapping[str, Node]) -> Node:
        """What the captured graph has as an input, and this one has not: a size, an argument that is a number, a tensor from
        elsewhere."""
        source = _source_of(node)
        if isinstance(value, torch.Tensor):
            read = self._attribute(value, source, node.meta.get("stack_trace", ""))
            read.meta.update({key: value for key, value in node.meta.items() if key not in ("grapharg", "tensor_dict")})
            read.meta["val"] = node.meta["example_value"]
            return read
        made = placed.get(source.name) or self._size(node, source, placed)
        if _is_symbolic(value):
            self._symbols[value.node.expr] = made
        return made

    def _size(self, node: Node, source: InputSource, placed: Mapping[str, Node]) -> Node:
        size = _SIZE.fullmatch(source.name)
        owner = placed.get(size[1]) if size else None
        if size is None or owner is None:
            raise ExportError(
                f"{source.name} may change between calls, and is neither an argument nor a size of one; with"
                " dynamic=False it is a constant"
            )
        return self._length(owner, size[2], int(size[3]), node.meta["example_value"])

    def _length(self, owner: Node, kind: str, dim: int, value: Any) -> Node:
        read = torch.ops.aten.sym_size.int if kind == "size" else torch.ops.aten.sym_stride.int
        made = self._graph.call_function(read, (owner, dim))
        made.meta["val"] = made.meta["example_value"] = value
        return made

    def _length_of(self, tensor: torch.Tensor, kind: str, dim: int) -> Any:
        """A size or stride that the program's result is made of, and that may be another one at the next call."""
        owner = next((node for node, fake in zip(self._placeholders, self._fakes) if fake is tensor), None)
        if owner is None:
            raise ExportError(
                f"the result depends on a {kind} of a tensor that is no argument; with dynamic=False it is one"
            )
        value = getattr(tensor, kind)(dim)
        key = (id(tensor), kind, dim)
        if key not in self._lengths:
            node = self._length(owner, kind, dim, value)
            if _is_symbolic(value):
                self._symbols.setdefault(value.node.expr, node)
                self._lengths[key] = value
            else:
                self._lengths[key] = self._number_of(node, value, f"{owner.name}.{kind}({dim})")
        return self._lengths[key]

    def _attribute(self, tensor: torch.Tensor, source: InputSource | None, stack: str) -> Node:
        name = self._attributes.names.get(id(tensor))
        if name is None:
            path = None if source is None else source.name
            self._check_outside(path, stack)
            name = self._attributes.add(_attribute_name(path, self._attributes), tensor)
            if source is not None:
                self._stacks.setdefault(source, []).append(stack)
        if source is not None:
            self._sources.setdefault(name, source)
        if name not in self._reads:
            node = self._graph.get_attr(name)
            node.meta["val"] = self._mode.from_tensor(tensor, static_shapes=True)
            node.meta["example_value"] = node.meta["val"]
            self._reads[name] = node
        return self._reads[name]

    def _check_outside(self, path: str | None, stack: str) -> None:
        """Tensors that are no arguments are part of the graph module; those of an argument that no pytree knows cannot be."""
        root = re.match(r"L\['(\w+)'\]", path or "")
        is_of_argument = root is not None and root[1] in self._program.parameters()
        if is_of_argument or not self._outside_tensors:
            why = "of an argument that torch.utils._pytree takes to be one leaf" if is_of_argument else "from outside"
            self._refused.append(f"{path or 'a tensor'} ({why})\n{stack}".rstrip())

    # ---- nodes and outputs

    def _copy_nodes(self) -> None:
        for node in self._captured_nodes():
            if node.op in ("placeholder", "output"):
                continue
            if node.op == "get_attr":
                attribute = operator.attrgetter(str(node.target))(self._captured)
                if isinstance(attribute, GraphModule):
                    made = self._body(str(node.target), attribute)
                else:
                    source = self._captured._param_name_to_source.get(node.target)  # type: ignore
                    made = self._attribute(attribute, source, node.meta.get("stack_trace", ""))
            else:
                made = self._graph.node_copy(node, self._new.__getitem__)
            made.meta.update(node.meta)
            if self._program.root is not None:
                root = ("L['self']", type(self._program.root))
                made.meta["nn_module_stack"] = {"L__self__": root, **node.meta.get("nn_module_stack", {})}
            made.meta["val"] = made.meta.get("example_value")
            self._new[node] = made

    def _body(self, name: str, body: GraphModule) -> Node:
        for graph in (module.graph for module in body.modules() if isinstance(module, GraphModule)):
            for node in graph.nodes:
                if "example_value" in node.meta:
                    node.meta["val"] = node.meta["example_value"]
        self._attributes.bodies[name] = body
        return self._graph.get_attr(name)

    def _outputs(self) -> tuple[list[Any], pytree.TreeSpec]:
        given: list[Node] = []
        for node in self._captured_nodes():
            if node.op == "output":
                given = list(node.args[0])  # type: ignore[arg-type]
        values = [node.meta["example_value"] for node in given]
        env: Any = self._mode.shape_env
        decided = len(env.guards)
        leaves, spec = pytree.tree_flatten(self._run_region(values))
        node_of = {id(fake): node for fake, node in zip(reversed(self._fakes), reversed(self._placeholders))}
        node_of |= {id(value): self._new[node] for value, node in zip(values, given) if _is_made(value)}
        outputs = [self._output(leaf, node_of) for leaf in leaves]
        texts = [repr(spec), *(str(leaf) for leaf in leaves if isinstance(leaf, (str, bytes)))]
        names = [str(symbol) for symbol in self._symbols]
        if len(env.guards) != decided or any(name in text for name in names for text in texts):
            raise ExportError(
                "the result depends on sizes or other numbers that may change in a way that a graph cannot say"
            )
        return outputs, spec

    def _run_region(self, values: list[Any]) -> Any:
        """What the program returns, when its graph gives `values`, for fakes of its arguments."""
        fake_args, fake_kwargs = pytree.tree_unflatten(self._fakes, self._in_spec)
        names = dict(self._region.__globals__)
        if self._captured is not None:
            names[name_of_graph(self._captured)] = lambda *inputs: tuple(values)
        names["size_of"] = lambda tensor, dim: self._length_of(tensor, "size", dim)
        names["stride_of"] = lambda tensor, dim: self._length_of(tensor, "stride", dim)
        inputs = tuple(self._stands_for(value) for _, value in self._captured_inputs())
        for name in names:
            if name.startswith("__inputs_"):  # loads all inputs of the graph at once
                names[name] = lambda *roots: inputs
        region = types.FunctionType(self._region.__code__, names, closure=self._region.__closure__)
        try:
            return region(*self._program.values(fake_args, fake_kwargs).values())
        except Exception as error:
            raise ExportError(
                f"what the program returns depends on an argument in a way that no graph can say: {error}"
            ) from error

    def _stands_for(self, value: Any) -> Any:
        found = (fake for leaf, fake in zip(self._leaves, self._fakes) if leaf.value is value)
        return next(found, value) if isinstance(value, torch.Tensor) else value

    def _output(self, leaf: Any, node_of: Mapping[int, Node]) -> Any:
        if _is_made(leaf) and id(leaf) in node_of:
            return node_of[id(leaf)]
        if isinstance(leaf, torch.Tensor):
            return self._attribute(leaf, None, "")
        if _is_symbolic(leaf):
            return self._number(leaf)
        if isinstance(leaf, base_types) or leaf is None:
            return leaf
        raise ExportError(
            f"the program returns an object of {type(leaf).__module__}.{type(leaf).__qualname__}, which torch.utils._pytree"
            " takes to be one leaf (torch.utils._pytree.register_pytree_node says what it is made of)"
        )

    def _number(self, number: Any) -> Node:
        """Nodes for a number that sizes give."""
        tracer = GraphAppendingTracer(self._graph)
        symbols = {symbol: Proxy(node, tracer) for symbol, node in self._symbols.items()}
        before = len(self._graph.nodes)
        try:
            made = sympy_interp(PythonReferenceAnalysis, symbols, number.node.expr)
        except KeyError as error:
            raise ExportError(
                f"a number in the result ({number}) depends on {error}, which no argument gives"
            ) from None
        for node in list(self._graph.nodes)[before:]:
            value = node.target(*[arg.meta["val"] if isinstance(arg, Node) else arg for arg in node.args])
            node.meta["val"] = node.meta["example_value"] = value
        return made.node


def _source_of(node: Node) -> InputSource:
    return node._dynamo_source  # type: ignore[attr-defined]


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_made(value: Any) -> bool:
    """Whether it is told from others by its identity."""
    return isinstance(value, (FakeTensor, _StandIn)) or _is_symbolic(value)


def _attribute_name(path: str | None, attributes: _Attributes) -> str:
    if path is None:
        return f"constant_{len(attributes.tensors)}"
    member = _MODULE_MEMBER.fullmatch(path)
    if member is None:
        return module_key_name(path)
    root, modules, leaf = member.groups()
    return ".".join([module_key_name(root), *_SUBMODULE.findall(modules), leaf])
