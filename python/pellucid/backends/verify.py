"""`config.verify_correctness`: what a backend made of a graph is compared with the graph before it is used."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from pellucid._fx import name_of_graph
from pellucid.backends.copies import copies, same_random_numbers, unchanged
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from torch.fx import GraphModule


class IncorrectResults(PellucidError):
    """A backend's graph computes something else than the graph that it got."""


def graph_for_backend(gm: GraphModule) -> GraphModule:
    """A copy that the backend may change, with the same tensors: what the copy writes, the program sees."""
    tensors = {id(tensor): tensor for tensor in (*gm.parameters(), *gm.buffers())}
    copied = copy.deepcopy(gm, dict(tensors))
    for name in ("_param_name_to_source", "_source_to_user_stacks"):
        copied.__dict__[name] = gm.__dict__[name]
    for ours, theirs in zip(
        gm.graph.find_nodes(op="placeholder"), copied.graph.find_nodes(op="placeholder"), strict=True
    ):
        theirs._dynamo_source = ours._dynamo_source
    return copied


def verify(backend: str, compiled: Callable, gm: GraphModule, inputs: Sequence[Any]) -> None:
    """Runs both on copies of the inputs, from the same state of the random generators, and compares results and written inputs.

    Inputs, the tensors that the graph holds and the generators are behind it as they were. A graph that raises for these inputs
    has to raise when compiled, too.

    Raises:
        IncorrectResults: they differ.
        Exception: what the compiled graph raises and the other one does not.
    """
    wanted = _outcome(gm.forward, gm, inputs)
    got = _outcome(compiled, gm, inputs)
    if isinstance(got, Exception) and not isinstance(wanted, Exception):
        raise got
    problem = _outcome_difference(wanted, got)
    if problem is not None:
        raise IncorrectResults(
            f"incorrect results of backend {backend!r} for {name_of_graph(gm) or 'a graph'}: {problem}"
        )


def _outcome(run: Callable, gm: GraphModule, inputs: Sequence[Any]) -> Any:
    """(results, inputs behind the run), or what it raised."""
    given = copies(inputs)
    with unchanged([*gm.parameters(), *gm.buffers()]), same_random_numbers(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the real run gives them
        try:
            results = list(run(*given))
        except Exception as error:
            return error
    return results, given


def _outcome_difference(wanted: Any, got: Any) -> str | None:
    if isinstance(wanted, Exception) or isinstance(got, Exception):
        return difference(wanted, got)
    return difference(wanted[0], got[0]) or difference(wanted[1], got[1], "inputs behind the run: input")


def difference(wanted: Any, got: Any, place: str = "") -> str | None:
    """In what `got` is not `wanted`, in words; None: in nothing. Tensors are compared up to the rounding errors of their type.

    Example:
        >>> difference([torch.ones(2)], [torch.ones(3)])
        'result 0 has the shape (3,) instead of (2,)'
    """
    if isinstance(wanted, Exception) or isinstance(got, Exception):
        return _exception_difference(wanted, got)
    if isinstance(wanted, torch.Tensor) and isinstance(got, torch.Tensor):
        return _tensor_difference(wanted, got, place or "the result")
    if isinstance(wanted, (list, tuple)) and isinstance(got, (list, tuple)):
        return _sequence_difference(wanted, got, place)
    return None if type(wanted) is type(got) and wanted == got else f"{place} is {got!r} instead of {wanted!r}"


def _exception_difference(wanted: Any, got: Any) -> str | None:
    if isinstance(wanted, Exception) and isinstance(got, Exception):
        return None
    raised, which = (got, "compiled") if isinstance(got, Exception) else (wanted, "original")
    return f"only the {which} one raises ({type(raised).__name__}: {raised})"


def _sequence_difference(wanted: Sequence[Any], got: Sequence[Any], place: str) -> str | None:
    if len(wanted) != len(got):
        return f"{place or 'the result'} has {len(got)} elements instead of {len(wanted)}"
    pairs = zip(wanted, got, strict=True)
    found = (difference(a, b, f"{place}[{i}]" if place else f"result {i}") for i, (a, b) in enumerate(pairs))
    return next((each for each in found if each is not None), None)


def _tensor_difference(wanted: torch.Tensor, got: torch.Tensor, place: str) -> str | None:
    for what, a, b in (
        ("shape", tuple(wanted.shape), tuple(got.shape)),
        ("dtype", wanted.dtype, got.dtype),
        ("device", wanted.device, got.device),
        ("requires_grad", wanted.requires_grad, got.requires_grad),
    ):
        if a != b:
            return f"{place} has the {what} {b} instead of {a}"
    try:
        torch.testing.assert_close(got.detach(), wanted.detach(), equal_nan=True, check_stride=False)
    except AssertionError as error:
        return f"{place}: " + "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return None
