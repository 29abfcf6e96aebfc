"""The captured graph as it is. Imports nothing of torch's compiler."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import GraphModule

log = logging.getLogger(__name__)


def eager(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """Runs the captured graph. Gives its own forward, or under functorch's `force_autograd_cache` one that can be stored."""
    warn_of_options("eager", options)
    functorch_config = sys.modules.get("torch._functorch.config")  # nobody has set what nobody has loaded
    if functorch_config is not None and functorch_config.force_autograd_cache:
        return _storable(gm)
    return gm.forward


def _storable(gm: GraphModule) -> Callable:
    """AOTAutograd stores what it gets then. What the nodes are known to give are fakes of our own, which cannot be stored."""
    from torch._dynamo.aot_compile_types import GraphModuleSerializableCallable
    from torch.fx import GraphModule as PlainGraphModule

    graph = copy.deepcopy(gm.graph)
    for node in graph.nodes:
        node.meta = {"stack_trace": node.meta["stack_trace"]} if "stack_trace" in node.meta else {}
    return GraphModuleSerializableCallable(PlainGraphModule(gm, graph))


def warn_of_options(backend: str, options: dict[str, Any]) -> None:
    """Options that a backend does not know are told, and change nothing."""
    if options:
        log.warning("backend %r knows none of these options, which change nothing: %s", backend, options)


def make_eager_backend_with_torch_function_mode(mode: AbstractContextManager) -> Callable:
    """A backend that runs the captured graph inside a torch function mode.

    Args:
        mode: a `torch.overrides.TorchFunctionMode`; it is entered at each run of a graph and left behind it.

    Example:
        >>> backend = make_eager_backend_with_torch_function_mode(CountingMode())
        >>> pellucid.compile(f, backend=backend)(x)
    """
    return make_eager_backend_with_torch_function_modes([mode])


def make_eager_backend_with_torch_function_modes(modes: Iterable[AbstractContextManager]) -> Callable:
    """As `make_eager_backend_with_torch_function_mode`, with several modes, entered in their order: the last one sees a call first.

    Example:
        >>> backend = make_eager_backend_with_torch_function_modes([Outer(), Inner()])
    """
    entered = tuple(modes)

    def eager_in_modes(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
        warn_of_options("eager", options)
        forward = gm.forward

        def run(*inputs: Any) -> Any:
            with ExitStack() as stack:
                for mode in entered:
                    stack.enter_context(mode)
                return forward(*inputs)

        return run

    return eager_in_modes


eager.takes_numbers = True  # type: ignore[attr-defined]  # inputs that are ints and floats stay so
