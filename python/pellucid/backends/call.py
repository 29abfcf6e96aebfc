"""Calling a backend: options, the state it finds, errors."""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import CompileId

from pellucid import _core, config
from pellucid._fx import user_stack_of
from pellucid.backends import verify
from pellucid.backends.builtin import takes_coo, takes_symbols, uses_aot
from pellucid.backends.eager import eager
from pellucid.backends.entered_modes import enters_with_gradients, with_gradients
from pellucid.backends.errors import BackendRefused, BackendSkips, GraphRefused, LoadedAOTAutograd
from pellucid.backends.registry import aot_is_loaded, lookup_backend
from pellucid.errors import BackendCompilerFailed, SkipFrame

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from pellucid._fx import GraphCompileReason
    from pellucid.backends.open_numbers import OpenNumbers

log = logging.getLogger("pellucid")


@dataclass
class Backend:
    """A backend with the options it was asked for; made once per compiled function."""

    name: str
    function: Callable
    options: dict = field(default_factory=dict)
    aot: bool = False  # runs AOTAutograd, so it needs torch's tracing context
    runs_as_captured: bool = False  # never looks at the graph: `_core` runs what it captured
    static: bool = False  # numbers that change between calls are compiled anew (dynamic=False)
    dynamic: bool = False  # numbers and sizes of arguments are open from the first capture on (dynamic=True)
    guard_filter_fn: Callable | None = None  # says which guards are checked
    takes_numbers: bool = False  # graphs may have inputs that are ints and floats, with other values at other calls
    takes_symbols: bool = False  # graphs may have inputs that are ints; while it compiles they are torch.SymInt
    takes_coo: bool = False  # graphs may have sparse inputs of layout COO
    has_no_limit: bool = False  # whoever fits no compiled version is compiled, however many there are

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
        return self.function(gm, example_inputs, **self.options)


def resolve_backend(
    backend: str | Callable = "inductor",
    *,
    mode: str | None = None,
    options: dict | None = None,
    dynamic: bool | None = None,
) -> Backend:
    """As torch.compile: `mode` and `options` are Inductor's, for others they are passed on when they were given."""
    if isinstance(backend, Backend):
        return backend
    if backend == "inductor":
        from pellucid.backends.aot import inductor_compiler

        return Backend("inductor", inductor_compiler(mode, options, dynamic), aot=True, takes_symbols=True)
    if isinstance(backend, torch._TorchCompileInductorWrapper):  # made by torch.compile
        return Backend(backend.compiler_name, backend, aot=True, takes_symbols=True)
    given: dict[str, Any] = {}
    if mode and mode != "default":
        given["mode"] = mode
    if options:
        given["options"] = options
    name = backend if isinstance(backend, str) else name_of(backend)
    function = lookup_backend(backend)
    return Backend(
        name,
        function,
        given,
        aot=uses_aot(backend) or getattr(function, "uses_aot", False) is True,
        takes_symbols=takes_symbols(backend) and getattr(function, "takes_symbols", True) is True,
        runs_as_captured=function is eager and not given,
        takes_numbers=getattr(function, "takes_numbers", False) is True,
        takes_coo=takes_coo(backend) or getattr(function, "takes_coo", False) is True,
        has_no_limit=getattr(function, "_has_no_limit", False) is True,
    )


def name_of(backend: Callable) -> str:
    return getattr(backend, "__name__", None) or type(backend).__name__


def load_compiler(backend: Backend, with_gradients: bool) -> bool:
    """Imports what a backend that runs AOTAutograd (`backend.aot`) will, with gradients what partitions its graph too. For any other
    it is what describes open numbers.

    Returns:
        Whether modules were loaded. They register classes with abstract ones, so what a capture before that has asked of
        such a class may be otherwise now.
    """
    names = ["pellucid.backends.tracing_context"]
    if backend.aot and (with_gradients or backend.name == "inductor"):
        names.append("torch._inductor.pattern_matcher")
    missing = [name for name in names if name not in sys.modules]
    if missing:
        with _undisturbed_state():
            for name in missing:
                importlib.import_module(name)
    return bool(missing)


def call_backend(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    backend: str | Callable,
    *,
    mode: str | None = None,
    options: dict | None = None,
    dynamic: bool | None = None,
    reason: GraphCompileReason | None = None,
    compile_id: tuple[int, int] | None = None,
    open_numbers: OpenNumbers | None = None,
) -> Callable:
    """The compiled form of `gm`: called with the graph's inputs, positionally, it gives a tuple.

    `example_inputs` are real tensors, one for each placeholder. `reason` is a GraphCompileReason, `compile_id` a pair of numbers
    (frame, compilation of it). `open_numbers`: sizes, and inputs that are ints, which may be others when it is called; what
    the compiled form needs to be true of them is in its `conditions` then.

    Raises:
        LoadedAOTAutograd: only the first graph of a process may; its backend has to be called with a new one.
    """
    backend = resolve_backend(backend, mode=mode, options=options, dynamic=dynamic)
    if reason is not None:
        gm.compile_subgraph_reason = reason  # type: ignore[assignment]
    if compile_id is not None:
        frame_id, frame_compile_id = compile_id
        gm.meta["dynamo_compile_id"] = CompileId(frame_id=frame_id, frame_compile_id=frame_compile_id)
    verifies = config.value_of("verify_correctness")
    watched = config.value_of("repro_after") is not None
    with _undisturbed_state():
        given = verify.graph_for_backend(gm) if verifies else gm
        compile_it = _watched if watched else _compiled
        compiled = compile_it(backend, given, gm.forward, example_inputs, open_numbers)
        if verifies and compiled is not gm.forward:
            _verify(backend, compiled, gm, example_inputs)
    return compiled


def _compiled(
    backend: Backend,
    gm: GraphModule,
    as_captured: Callable,
    example_inputs: Sequence[Any],
    open_numbers: OpenNumbers | None,
) -> Callable:
    prepares = _needs_context(example_inputs, backend, open_numbers)
    context: Any = None
    turns_on_gradients = enters_with_gradients(gm)
    with contextlib.ExitStack() as held:
        if turns_on_gradients:
            held.enter_context(torch.enable_grad())
        try:
            if prepares:
                context = held.enter_context(_tracing_context(gm, example_inputs, backend, open_numbers))
            examples = list(example_inputs) if context is None else context.examples
            compiled = _core._run_backend(backend, gm, examples)
            if compiled is None and config.value_of("verify_correctness"):
                return as_captured
            if not callable(compiled):
                raise TypeError(f"compiler_fn did not return callable, but {type(compiled).__name__}")
            if turns_on_gradients:
                compiled = with_gradients(compiled)
        except GraphRefused:
            raise
        except Exception as error:
            if _core._is_interruption(error):
                raise
            if _asks_to_skip(error):
                raise BackendSkips from error
            if not prepares and aot_is_loaded():
                raise LoadedAOTAutograd from None
            if context is not None and context.grows_an_input:
                return as_captured
            raise _failure(backend, gm, error).with_traceback(error.__traceback__) from None
        if not prepares and aot_is_loaded():
            raise LoadedAOTAutograd
        if context is not None and open_numbers is not None:
            open_numbers.conditions = context.conditions()
    floats = [i for i, example in enumerate(example_inputs) if type(example) is float and not backend.takes_numbers]
    if context is not None and context.used_aot():
        if context.writes_a_part or context.grows_an_input:
            return as_captured
        return _guarded(compiled, gm, as_captured, example_inputs, context, floats, open_numbers is not None)
    return _core._prepared_call(compiled, as_captured, [], [], [], [], [], floats, False) if floats else compiled


def _watched(
    backend: Backend,
    gm: GraphModule,
    as_captured: Callable,
    example_inputs: Sequence[Any],
    open_numbers: OpenNumbers | None,
) -> Callable:
    """As `_compiled`, with `config.repro_after`: a failure becomes a script, and the compiled graph is tried out."""
    from pellucid.repro import automatic, behind_aot

    setup = automatic.settings("dynamo")
    if setup is None:
        try:
            with behind_aot.watching(backend):
                return _compiled(backend, gm, as_captured, example_inputs, open_numbers)
        except BackendCompilerFailed as error:
            if not hasattr(error.inner_exception, "_pellucid_repro"):  # no compiler there has failed
                automatic.nothing_behind_aot(backend)
            raise
    watch = automatic.Watch(backend, gm, example_inputs, setup)
    stack = user_stack_of(gm)
    try:
        compiled = _compiled(backend, gm, as_captured, example_inputs, open_numbers)
        watch.try_out(compiled)
    except (GraphRefused, BackendRefused, BackendSkips, LoadedAOTAutograd):
        raise
    except Exception as error:
        if _core._is_interruption(error):
            raise
        raise automatic.as_failure(backend, error, watch.failed(error), stack) from None
    return compiled


def _asks_to_skip(error: Exception) -> bool:
    return isinstance(error, SkipFrame) or type(error).__name__ == "SkipFrame"  # torch._dynamo has one too


def _failure(backend: Backend, gm: GraphModule, error: Exception) -> Exception:
    """What becomes of an exception of a backend: BackendCompilerFailed, or BackendRefused for those that say that torch
    knows no shapes for an operator, or no gradient for one on jagged nested tensors: AOTAutograd asks for it, be it
    used or not. An operator that the user allowed in graphs is taken to be fit for them."""
    stack = user_stack_of(gm)
    if (_is_about_shapes(error) or _is_of_nested_tensors(error)) and not _has_allowed_function(gm):
        return BackendRefused(backend.name, error, stack)
    return BackendCompilerFailed(backend.name, error, stack, getattr(error, "_pellucid_repro", None))


def _is_about_shapes(error: Exception) -> bool:
    from torch._subclasses import fake_tensor

    return isinstance(
        error,
        (
            fake_tensor.DataDependentOutputException,
            fake_tensor.DynamicOutputShapeException,
            fake_tensor.UnsupportedOperatorException,
            fake_tensor.UnsupportedFakeTensorException,
            fake_tensor.UnsupportedMutationAliasingException,
        ),
    )


def _is_of_nested_tensors(error: Exception) -> bool:
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__", "").startswith("torch.nested._internal.") for frame in frames)


def _has_allowed_function(gm: GraphModule) -> bool:
    from pellucid.control import is_opaque

    return any(is_opaque(node.target) for node in gm.graph.nodes if node.op == "call_function")


def _verify(backend: Backend, compiled: Callable, gm: GraphModule, example_inputs: Sequence[Any]) -> None:
    try:
        verify.verify(backend.name, compiled, gm, example_inputs)
    except Exception as error:
        if _core._is_interruption(error):
            raise
        log.exception(
            "config.verify_correctness: what backend %r made of a graph is not what the graph is", backend.name
        )
        stack = user_stack_of(gm)
        raise BackendCompilerFailed(backend.name, error, stack).with_traceback(error.__traceback__) from None


def tensors_for_floats(example_inputs: Sequence[Any], backend: Backend) -> list[Any]:
    """The inputs as the backend gets them: a float that changes between calls is a tensor of no dimension for it."""
    if backend.takes_numbers:
        return list(example_inputs)
    return [torch.tensor(x, dtype=torch.float64) if type(x) is float else x for x in example_inputs]


def _guarded(
    compiled: Callable,
    gm: GraphModule,
    as_captured: Callable,
    example_inputs: Sequence[Any],
    context: Any,
    floats: list[int],
    sizes_change: bool,
) -> Callable:
    """AOTAutograd compiled for the memory that its inputs share, if the graph writes one: the graph's own tensors come first."""
    attributes = [*gm.parameters(), *gm.buffers()]
    count = len(attributes) + len(example_inputs)
    written = list(range(count))
    described = getattr(context.fw_metadata, "input_info", None)  # missing when the result came from a cache
    if described is not None and len(described) == count:
        written = [i for i, info in enumerate(described) if info.mutates_data or info.mutates_metadata]
    if not context.whole and not context.simple and not floats and (count < 2 or not written):
        return compiled
    return _core._prepared_call(
        compiled,
        as_captured,
        attributes,
        example_inputs,
        written,
        context.whole,
        context.simple,
        floats,
        sizes_change,
    )


def _gets_floats(example_inputs: Sequence[Any], backend: Backend) -> bool:
    return not backend.takes_numbers and any(type(example) is float for example in example_inputs)


def _needs_context(example_inputs: Sequence[Any], backend: Backend, open_numbers: OpenNumbers | None) -> bool:
    return backend.aot or open_numbers is not None or _gets_floats(example_inputs, backend) or aot_is_loaded()


def _tracing_context(
    gm: GraphModule, example_inputs: Sequence[Any], backend: Backend, open_numbers: OpenNumbers | None
) -> AbstractContextManager:
    from pellucid.backends.tracing_context import tracing_context

    # Sizes and numbers as `_core` knows them are no use to anybody else.
    replace_fakes = backend.aot or open_numbers is not None or _gets_floats(example_inputs, backend)
    examples = tensors_for_floats(example_inputs, backend)
    return tracing_context(gm, examples, replace_fakes=replace_fakes, open_numbers=open_numbers)


@contextlib.contextmanager
def _undisturbed_state() -> Iterator[None]:
    """Global torch state, and the random generators, are after the backend what they were before it."""
    # Python's generator and torch's. torch.get_rng_state holds its generator while it may give up the GIL: two threads
    # could wait for each other.
    generators = _core._Generators(torch.cuda.is_initialized())
    grad = torch.is_grad_enabled()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    default_dtype = torch.get_default_dtype()
    autocast = {
        device: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cpu", "cuda")
    }
    autocast_cache = torch.is_autocast_cache_enabled()
    try:
        yield
    finally:
        generators.restore()
        torch._C._set_grad_enabled(grad)
        torch._C._set_deterministic_algorithms(deterministic, warn_only=warn_only)  # the public one imports Inductor
        torch.set_default_dtype(default_dtype)
        for device, (enabled, dtype) in autocast.items():
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(autocast_cache)
