"""Compilers for the graphs that AOTAutograd makes: they run them as they are. Such a graph takes its inputs in one list and
drops each as soon as it has been used for the last time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch._functorch import config as functorch_config
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen

from pellucid import _graph_readers
from pellucid.errors import GraphFailed


def boxed_nop(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
    """Runs the graph. Inside `torch.utils._debug_mode.DebugMode(run_compile_with_interpreter=True)` it is run node by node, and
    the mode's log has a line for each."""
    if functorch_config.force_autograd_cache or functorch_config.bundled_autograd_cache:
        # AOTAutograd stores what it gets then, which takes a class that knows how.
        from torch._dynamo.backends.debugging import AOTEagerOutputCode

        _boxed(gm)
        return _marked(AOTEagerOutputCode(gm=gm))
    forward = _boxed(gm)

    def run(inputs: list[Any]) -> Any:
        from torch.utils._debug_mode import DebugInterpreter, get_active_debug_mode

        mode = get_active_debug_mode()
        if mode is not None and mode.run_compile_with_interpreter:
            return DebugInterpreter(gm, "aot_eager").run(*inputs)
        return forward(inputs)

    return _marked(run)


def boxed_nop_with_mode(gm: GraphModule, example_inputs: Sequence[Any], *, mode: AbstractContextManager) -> Callable:
    """Runs the graph inside `mode`, a torch dispatch or torch function mode."""
    forward = _boxed(gm)

    def run(inputs: list[Any]) -> Any:
        with mode:
            return forward(inputs)

    return _marked(run)


def fake_crossref_boxed_nop(
    gm: GraphModule, example_inputs: Sequence[Any], ignore_op_fn: Callable[[Any], bool] | None = None
) -> Callable:
    """Runs the graph and compares each operator's results with what its fake implementation says of them.

    Args:
        gm: the graph.
        example_inputs: its inputs.
        ignore_op_fn: operators for which it gives True are not compared.
    """
    from torch._subclasses import CrossRefFakeMode
    from torch._subclasses.fake_utils import MetadataMismatchError

    class MetadataMismatch(GraphFailed, MetadataMismatchError):
        """Known under torch's name too."""

    forward = _boxed(gm)

    def run(inputs: list[Any]) -> Any:
        try:
            with CrossRefFakeMode(ignore_op_fn):
                return forward(inputs)
        except MetadataMismatchError as error:
            raise MetadataMismatch(str(error)) from error

    return _marked(run)


def ignore_builtins(operator: Any) -> bool:
    """Whether the operator comes with torch: these are compared by torch's own tests."""
    return operator.namespace in ("aten", "prims", "prim")


def get_nop_func() -> Callable:
    """The compiler that `torch._functorch.config.fake_tensor_crossref` asks for: False, "all" or "custom_ops".

    Raises:
        AssertionError: it is something else.
    """
    asked: Any = functorch_config.fake_tensor_crossref
    if not asked:
        return boxed_nop
    if asked == "all":
        return fake_crossref_boxed_nop
    assert asked == "custom_ops", f'fake_tensor_crossref is {asked!r}; it can be False, "all" or "custom_ops"'
    return functools.partial(fake_crossref_boxed_nop, ignore_op_fn=ignore_builtins)


def _boxed(gm: GraphModule) -> Callable:
    gm.graph.set_codegen(_BoxedCodeGen())
    gm.recompile()
    for reader in tuple(_graph_readers.made):
        reader(gm)
    return gm.forward


def _marked(run: Callable) -> Callable:
    run._boxed_call = True  # type: ignore[attr-defined]
    return run
