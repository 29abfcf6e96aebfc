"""Backends that are wrong on purpose, to try tools that look for faults of backends. What they look for is a call of the very
function `torch.relu`; `F.relu`, the method and the module are left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from pellucid.errors import GraphFailed


class ReluCompileError(Exception):
    """What `relu_compile_error_TESTING_ONLY` raises."""


class ReluRuntimeError(GraphFailed, AssertionError):
    """What graphs of `relu_runtime_error_TESTING_ONLY` raise."""


class TestingOnlyCompileError(Exception):
    """What `non_leaf_compile_error_TESTING_ONLY` raises."""

    __test__ = False  # no test class, as pytest would think by its name


def relu_compile_error_TESTING_ONLY(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
    """Raises ReluCompileError for a graph that calls torch.relu."""
    for _ in _relus(gm):
        raise ReluCompileError
    return gm


def relu_runtime_error_TESTING_ONLY(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
    """Compiles; a run that comes to torch.relu raises ReluRuntimeError."""
    return _with_relu_as(gm, _raise_runtime_error)


def relu_accuracy_error_TESTING_ONLY(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
    """Computes x + 1 instead of torch.relu(x), and says nothing."""
    return _with_relu_as(gm, torch.add, 1)


def non_leaf_compile_error_TESTING_ONLY(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
    """Raises TestingOnlyCompileError for a graph that calls something when one of its inputs has been computed with gradients."""
    calls = any(node.op == "call_function" for node in gm.graph.nodes)
    if calls and not all(example.is_leaf for example in example_inputs if isinstance(example, torch.Tensor)):
        raise TestingOnlyCompileError
    return gm


def _relus(gm: GraphModule) -> Iterator[Node]:
    return (node for node in gm.graph.nodes if node.op == "call_function" and node.target is torch.relu)


def _with_relu_as(gm: GraphModule, target: Callable, *more: Any) -> GraphModule:
    for node in _relus(gm):
        node.target = target
        node.args = (node.all_input_nodes[0], *more)
        node.kwargs = {}
    gm.recompile()
    return gm


def _raise_runtime_error(x: torch.Tensor) -> torch.Tensor:
    raise ReluRuntimeError("ReluRuntimeError")
