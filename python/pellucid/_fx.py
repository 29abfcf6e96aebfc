"""The captured graph as a torch.fx.GraphModule.

`_core` fills the nodes; what costs text or look-ups (stack traces, module stacks, sources) waits in `_pending_metadata` until
somebody looks at the graph. Until the graph is edited and recompiled, `forward` is the function that `_core` assembled.
"""

from __future__ import annotations

import functools
import logging
import re
import traceback
import types
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch._guards import GuardSource, Source
from torch.fx.graph_module import GraphModule, _assign_attr
from torch.fx.proxy import _COPY_META_FIELDS

from pellucid import _compile_hooks, _graph_readers
from pellucid.errors import frame_summary

__all__ = ["CapturedGraphModule", "GraphCompileReason", "GraphInput", "InputSource", "call_backend"]


@dataclass
class GraphCompileReason:
    """Why the graph ends where it ends; the fields are those of torch._dynamo's class of this name."""

    reason: str = "return_value"
    user_stack: list[traceback.FrameSummary] = field(default_factory=list)
    graph_break: bool = False


def user_stack_of(gm: Any) -> list[traceback.FrameSummary]:
    """The frames of the program where the graph ends, outermost first; none of a graph that was made otherwise."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    return [] if reason is None else list(reason.user_stack)


def name_of_graph(gm: Any) -> str:
    """The global that the region's function calls, "__compiled_fn_3"; empty of a graph that was made otherwise."""
    return gm.meta.get("compiled_name", "")


@dataclass(frozen=True)
class InputSource(Source):
    """Where a graph input comes from: `eval(name, {"L": locals, "G": globals})` gives it."""

    path: str

    @property
    def _name_template(self) -> str:
        return self.path

    @functools.cached_property
    def guard_source(self) -> GuardSource:
        return GuardSource.LOCAL if "L[" in self.path else GuardSource.GLOBAL

    def reconstruct(self, codegen) -> None:
        raise NotImplementedError("pellucid loads its graph inputs itself")


@dataclass
class GraphInput:
    """What a placeholder stands for (`node.meta["grapharg"]`). The tensor is held weakly, and only until the backend is back."""

    source: InputSource
    _example: object
    fake_tensor: object
    pass_arg_as_tensor: bool = False
    is_tensor: bool = True

    @property
    def example(self):
        return None if self._example is None else self._example()

    def erase(self) -> None:
        self._example = None


class _ForwardProperty:
    """`gm.forward`: the native function while the graph is as captured. recompile() puts a function into the instance's own
    class, which hides this one."""

    def __get__(self, module, owner=None):
        if module is None:
            return self
        forward = module.__dict__.get("_native_forward")
        if forward is None:  # a copy that was made without __init__
            module.recompile()
            return module.forward
        return forward


class CapturedGraphModule(GraphModule):
    forward = _ForwardProperty()

    @property
    def graph(self):
        _settle(self)
        return self._graph

    @graph.setter
    def graph(self, graph) -> None:
        self.__dict__.pop("_pending_metadata", None)
        GraphModule.graph.fset(self, graph)  # type: ignore[attr-defined]

    def recompile(self):
        self.__dict__.pop("_native_forward", None)
        return super().recompile()

    @property
    def code(self) -> str:
        return self._code

    def __getattr__(self, name: str):
        if name in ("_code", "_lineno_map", "_prologue_start") and "_native_forward" in self.__dict__:
            self.recompile()
            return self.__dict__[name]
        return super().__getattr__(name)

    def __deepcopy__(self, memo):
        _settle(self)
        native = self.__dict__.pop("_native_forward", None)  # the copy gets a forward of its own
        try:
            copied = super().__deepcopy__(memo)
            copied.__dict__["compile_subgraph_reason"] = self.__dict__["compile_subgraph_reason"]
            return copied
        finally:
            if native is not None:
                self.__dict__["_native_forward"] = native

    def __reduce__(self):
        _settle(self)
        self.recompile()
        return super().__reduce__()

    def __reduce_package__(self, exporter):
        _settle(self)
        self.recompile()
        return super().__reduce_package__(exporter)

    def __prepare_scriptable__(self):  # torch.jit.script needs source text
        if "_native_forward" in self.__dict__:
            self.recompile()
        return self


def make_graph_module(graph, forward, input_facts, call_facts, operators) -> CapturedGraphModule:
    """Called by `_core`. Facts: (node, source text, call site, weak reference or None) and (node, recorded name or None, call site).
    `operators`: pairs (name, operator) of those in whose bodies the graph lies, outermost first."""
    module = CapturedGraphModule.__new__(CapturedGraphModule)
    torch.nn.Module.__init__(module)
    type(module).__name__ = "GraphModule"
    if forward is not None:  # else what torch.fx makes of the graph
        module.__dict__["_native_forward"] = forward
    module.__dict__.update(
        _graph=graph,
        _pending_metadata=(input_facts, call_facts, operators),
        _tracer_cls=None,
        _tracer_extras={},
        meta={"dynamo_flat_name_to_original_fqn": {}},
        _replace_hooks=[],
        _create_node_hooks=[],
        _erase_node_hooks=[],
        _deepcopy_hooks=[],
        shape_env=None,
        compile_subgraph_reason=GraphCompileReason(),
        _param_name_to_source={},
        _source_to_user_stacks={},
    )
    graph.owning_module = module
    if forward is not None:
        forward.__globals__["__graph_module__"] = weakref.ref(module)  # for who captures it again
    return module


def add_attribute(module: GraphModule, target: str, value, source: str) -> None:
    """Called by `_core` for every get_attr node. `source` is empty for what does not come from the program."""
    _assign_attr(value, module, target)
    if isinstance(value, torch.Tensor):  # AOTAutograd makes it an input and asks for its source
        sources: Any = module._param_name_to_source
        sources[target] = InputSource(as_dynamo_path(source) or f"C[{target!r}]")


def module_key_name(source: str) -> str:
    """The key under which the graph module keeps what `source` gives. torch._dynamo's rules: only a source that is one pair
    of brackets loses its scope."""
    name = re.sub(r"\._(?:modules|parameters|buffers)\[(['\"])([^'\"\]]+)\1\]", r".\2", source)
    name = re.sub(r"^[GL]\['?(.*?)'?\]$", r"\1", name)
    name = re.sub(r"\[(\d+)\]", r"_\1", name)
    name = re.sub(r"[^a-zA-Z0-9]", "_", name)
    if not name[:1].isalpha():
        name = "sub" + name
    return f"{name}_0" if name in _TAKEN else name


_TAKEN = frozenset(dir(GraphModule)) | {
    "graph",
    "meta",
    "shape_env",
    "training",
    "compile_subgraph_reason",
}


def _settle(module: CapturedGraphModule) -> None:
    pending = module.__dict__.pop("_pending_metadata", None)
    if pending is None:
        return
    input_facts, call_facts, operators = pending
    texts = _FrameTexts()
    for node, source, site, example in input_facts:
        _describe_input(module, node, source, example)
        _describe_site(node, site, texts)
    for node, recorded_name, site in call_facts:
        _describe_site(node, site, texts)
        if node.op in ("call_function", "call_method"):
            of_node = node.meta.get("source_fn_stack") or [(recorded_name or node.name, _source_fn(node))]
            node.meta["source_fn_stack"] = [*operators, *of_node]
        elif node.op == "get_attr":
            node.meta["tensor_dict"] = _tensor_dict(getattr(module, node.target))


def _declared_type(tensor) -> type:
    """What torch's placeholders say of an input. isinstance(…, Parameter) is a function of torch's that also asks for marks."""
    if type(tensor) is torch.Tensor and not tensor.__dict__:
        return torch.Tensor
    return torch.nn.Parameter if isinstance(tensor, torch.nn.Parameter) else torch.Tensor


class _Forgotten(NamedTuple):
    """What the metadata says of an input whose tensor is no longer referred to."""

    kind: type
    marks: dict

    @classmethod
    def of(cls, example) -> _Forgotten | None:
        """Of a weak reference, or None."""
        tensor = None if example is None else example()
        if tensor is None:
            return None
        return cls(_declared_type(tensor), _tensor_dict(tensor))


def _forget_examples(module: CapturedGraphModule) -> None:
    """torch.utils.swap_tensors, and so Module.to under torch.__future__, refuses what is referred to weakly. A graph that
    nobody has read keeps its metadata unmade."""
    pending = module.__dict__.get("_pending_metadata")
    if pending is not None:
        input_facts, *others = pending
        forgotten = [(node, source, site, _Forgotten.of(example)) for node, source, site, example in input_facts]
        module.__dict__["_pending_metadata"] = (forgotten, *others)
        return
    for node in module.graph.find_nodes(op="placeholder"):
        if "grapharg" in node.meta:
            node.meta["grapharg"].erase()


def _source_fn(node):
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return node.target
    module_type = next(reversed(stack.values()))[1]
    owner = module_type.__module__
    is_torch_leaf = owner.startswith(("torch.nn.modules", "torch.ao.")) and not owner.startswith(
        "torch.nn.modules.container"
    )
    return module_type if is_torch_leaf else node.target


def _tensor_dict(tensor) -> dict:
    """The marks on an input that backends ask for."""
    own = getattr(tensor, "__dict__", {})
    return {name: own[name] for name in ("_dynamo_static_input_type", "tag") if name in own}


def _describe_input(module, node, source_text: str, example) -> None:
    source = InputSource(as_dynamo_path(source_text))
    facts = example if isinstance(example, _Forgotten) else _Forgotten.of(example)
    if facts is example:
        example = None
    node._dynamo_source = source
    node.meta["grapharg"] = GraphInput(source, example, node.meta.get("example_value"), is_tensor=facts is not None)
    node.meta["tensor_dict"] = facts.marks if facts is not None else {}
    if facts is not None:
        node.type = facts.kind
    member = _MODULE_MEMBER.fullmatch(source.path)
    if member is not None:
        node.meta["tensor_dict"]["_dynamo_static_input_type"] = "unguarded"
        _note_parameter(module, member, source)


_MODULE_MEMBER = re.compile(r"(.+?)((?:\._modules\['[^']*'\])*)\._(?:parameters|buffers)\['([^']*)'\]")
_LOCAL = re.compile(r"L\['(\w+)'\]")
_SUBMODULE = re.compile(r"\._modules\['([^']*)'\]")
_FREE_VARIABLE = re.compile(r"F(\['\w+'\])\.cell_contents")


def as_dynamo_path(text: str) -> str:
    return _FREE_VARIABLE.sub(r"L\1", text, count=1)


def _note_parameter(module, member: re.Match, source: InputSource) -> None:
    root, path, leaf = member.groups()
    name = ".".join([*_SUBMODULE.findall(path), leaf])
    module._param_name_to_source[f"{module_key_name(root)}.{name}"] = source
    if local := _LOCAL.fullmatch(root):
        module.meta["dynamo_flat_name_to_original_fqn"][f"L__{local[1]}___{re.sub('[^0-9a-zA-Z]+', '_', name)}"] = name


# Call sites are nested tuples (code, offset, caller, module key, module path, module type, graph module), shared by the
# nodes below one frame.


def _describe_site(node, site, texts: _FrameTexts) -> None:
    if site is None:
        return
    frames: list[tuple[types.CodeType, int]] = []
    modules = {}
    while site is not None:
        code, offset, site, module_key, module_path, module_type, graph_module = site
        original = graph_module and texts.original_node(graph_module(), code, offset)
        if original is not None and "stack_trace" in original.meta:
            _keep_metadata(node, original, [texts.text(*frame) for frame in reversed(frames)])
            return
        frames.append((code, offset))
        if module_key is not None:
            modules[module_key] = (texts.module_path(module_path), module_type)
    node.meta["stack_trace"] = "".join(texts.text(code, offset) for code, offset in reversed(frames))
    if modules:
        node.meta["nn_module_stack"] = dict(reversed(modules.items()))


def _keep_metadata(node, original, texts_inside: list[str]) -> None:
    """Of a graph that is captured again: its node stands for what `original` stood for, in the program and not in torch.fx's code."""
    if node.op != "placeholder":  # where an input is read first, another node may stand
        node.meta.update({name: original.meta[name] for name in _COPY_META_FIELDS if name in original.meta})
    node.meta["stack_trace"] = original.meta["stack_trace"] + "".join(texts_inside)


_NOT_USER_CODE = re.compile(r".*torch/nn/modules/|.*pellucid/polyfills/|<")


class _FrameTexts:
    """Entries of a traceback and names of modules, each made once: the nodes below a frame share them. Lives as long as one
    graph is described: it keeps code objects alive."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int], tuple[str, types.CodeType]] = {}
        self._module_paths: dict[str, str] = {}
        self._positions: dict[types.CodeType, list[tuple]] = {}
        self._nodes: dict[types.CodeType, list] = {}

    def text(self, code: types.CodeType, offset: int) -> str:
        """Empty for the insides of torch.nn and for code without a file."""
        key = (id(code), offset)  # the hash of a code object is that of all its constants
        known = self._texts.get(key)
        if known is None:
            text = "" if _NOT_USER_CODE.match(code.co_filename) else self._format(code, offset)
            known = self._texts[key] = (text, code)
        return known[0]

    def module_path(self, path: str) -> str:
        """As torch._dynamo writes it: the name of a module in another one is an attribute."""
        found = self._module_paths.get(path)
        if found is None:
            found = self._module_paths[path] = _SUBMODULE.sub(r".\1", as_dynamo_path(path))
        return found

    def original_node(self, module, code: types.CodeType, offset: int):
        """The node of `module` that torch.fx wrote as this line of its code. None: the module is gone or was written anew."""
        line = self._position(code, offset)[0]
        if not isinstance(module, GraphModule) or line is None:
            return None
        native = module.__dict__.get("_native_forward")
        forward = getattr(type(module), "forward", None) if native is None else native
        if getattr(forward, "__code__", None) is not code:
            return None
        if code not in self._nodes:
            self._nodes[code] = list(module.graph.nodes)
        number = line - 2 if native is not None else (module._lineno_map or {}).get(line - code.co_firstlineno)
        return None if number is None or number < 0 else self._nodes[code][number]

    def _format(self, code: types.CodeType, offset: int) -> str:
        line, end_line, column, end_column = self._position(code, offset)
        frame = traceback.FrameSummary(
            code.co_filename,
            line,
            code.co_name,
            lookup_line=False,
            end_lineno=end_line,
            colno=column,
            end_colno=end_column,
        )
        return traceback.StackSummary().format_frame_summary(frame)

    def _position(self, code: types.CodeType, offset: int) -> tuple:
        if code not in self._positions:
            self._positions[code] = list(code.co_positions())
        positions = self._positions[code]
        if not 0 <= offset // 2 < len(positions):
            return (code.co_firstlineno, None, None, None)
        return positions[offset // 2]


def call_backend(gm, example_inputs, backend, compile_id, ending, open_numbers, name):
    """Called by `_core`. `ending`: why the region ends where it does, the frames open there, whether that is a graph break.
    `name`: the global that the region's function calls, "__compiled_fn_3".
    `open_numbers`: what OpenNumbers.of takes; None: there are none. Gives the compiled form and the conditions that it is for.
    None: the backend is to be called once more, with a new `gm`."""
    from pellucid.backends import call_backend as call
    from pellucid.backends.errors import LoadedAOTAutograd
    from pellucid.backends.open_numbers import OpenNumbers

    numbers = None if open_numbers is None else OpenNumbers.of(open_numbers)
    why, stack, graph_break = ending
    gm.meta["compiled_name"] = name
    for reader in tuple(_graph_readers.captured):
        reader(gm)
    reason = GraphCompileReason(why, [frame_summary(code, offset) for code, offset in stack], graph_break)
    try:
        wrapped = _compile_hooks.before_backend(gm) if _compile_hooks.is_used() else None
        called = _called_code(gm, stack[0][0]) if _telemetry_listens() else None
        compiled = call(gm, example_inputs, backend, reason=reason, compile_id=compile_id, open_numbers=numbers)
        if wrapped is not None:
            compiled = wrapped(compiled)
        if called is not None:
            _tell_telemetry(gm, called)
        return compiled, None if numbers is None else numbers.conditions
    except LoadedAOTAutograd:
        return None
    finally:
        _forget_examples(gm)


def _called_code(gm, code: types.CodeType) -> types.CodeType:
    """What the user wrote: of a module's call `forward`, not torch.nn.Module's code around it."""
    _, call_facts, _ = gm.__dict__.get("_pending_metadata", ((), (), ()))
    site = next((site for *_, site in call_facts if site is not None), None)
    codes = [code]
    while site is not None:
        codes.insert(1, site[0])
        site = site[2]
    return next((one for one in codes if not _NOT_USER_CODE.match(one.co_filename)), code)


def _telemetry_listens() -> bool:
    """Whether torch's hook does more than to log what nobody reads: on small graphs telling costs a twentieth of a capture."""
    hook = torch._utils_internal.signpost_event
    is_torchs_own = getattr(hook, "__module__", None) == torch._utils_internal.__name__
    return not is_torchs_own or torch._utils_internal.log.isEnabledFor(logging.INFO)


def _tell_telemetry(gm, code: types.CodeType) -> None:
    """torch's hook, which whoever runs torch replaces, is told of each graph that a backend has compiled."""
    nodes = gm._graph.nodes  # not gm.graph, which makes what costs text
    torch._utils_internal.signpost_event(
        "dynamo",
        "OutputGraph.call_user_compiler",
        {
            "co_name": code.co_name,
            "co_filename": code.co_filename,
            "co_firstlineno": code.co_firstlineno,
            "op_count": sum(node.op.startswith("call_") for node in nodes),
            "node_count": len(nodes),
            "input_count": sum(node.op == "placeholder" for node in nodes),
        },
    )
