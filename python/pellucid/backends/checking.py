"""The captured graph as it is, with something looked at; and no graph at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule, Interpreter
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.backends.eager import warn_of_options
from pellucid.errors import GraphFailed, SkipFrame


def eager_noexcept(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """Runs the captured graph, which must not raise: whatever it raises becomes a GraphFailed, also where the program handles it."""
    warn_of_options("eager_noexcept", options)
    forward = gm.forward

    def run(*inputs: Any) -> Any:
        try:
            return forward(*inputs)
        except Exception as error:
            raise GraphFailed(
                "a captured graph raised an exception, which none may with backend 'eager_noexcept'"
            ) from error

    return run


def interpreter(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """Runs the nodes of the captured torch.fx graph one by one, none of pellucid's own code for it."""
    warn_of_options("interpreter", options)
    return Interpreter(gm).run


def skip(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """Leaves every call alone: it runs as if it were not compiled."""
    warn_of_options("skip", options)
    raise SkipFrame


def eager_debug(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """Runs the captured graph node by node, at every run under torch's schema checker: an operator that writes or shares memory
    otherwise than it declares is a GraphFailed."""
    warn_of_options("eager_debug", options)
    from torch._subclasses.schema_check_mode import SchemaCheckMode

    def run(*inputs: Any) -> Any:
        operators = _Errors()
        try:
            with operators, SchemaCheckMode():
                return Interpreter(gm, garbage_collect_values=False).run(*inputs)
        except Exception as error:
            if error is operators.last:  # the program's own
                raise
            raise GraphFailed(f"an operator does not do what its schema says: {error}") from error

    return run


class _Errors(TorchDispatchMode):
    """Remembers what operators raise, which whoever checks them raises too."""

    last: Exception | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            self.last = error
            raise


# They run graphs as they were captured, with inputs that are numbers.
for _backend in (eager_noexcept, interpreter, skip, eager_debug):
    _backend.takes_numbers = True  # type: ignore[attr-defined]
