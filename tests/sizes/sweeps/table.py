"""The table of sweeps: functions and modules that are called with many sizes, and the most graphs these calls may make.

    @sweep(2, each=lambda n: (n, 3))
    def name(x): ...

`calls` are the calls, each what `inputs` takes: the shape of one tensor by default, or with `inputs=tensors` one shape
for each argument. `each` says them for a size, and the sizes are SIZES then (or `sizes`). A function without parameters
makes what is compiled, anew for each run. `trains`: once more with inputs that require gradients, and a backward of
what the call gives. `brute` is for sweeps that are also tried with all sizes of 0..12: so many graphs more than
`EDGES` these may make.

How the graphs are counted: the first call is static. A call that finds other sizes makes one graph in which all
dimensions that changed are general from 2 on. So dimensions that change at another call cost one each; 0 and 1 have
graphs of their own; each outcome of a branch has one, also of the branches that an operator takes by itself because a
size that was computed is 0 or 1.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from support.calls import Program, ramp

SIZES = (5, 7, 4, 9, 6, 12, 2, 5, 8)
EDGES = 4
"""Graphs for one dimension at all sizes: the first size, the general one, 0 and 1."""

SWEEPS: list[Sweep] = []


@dataclass(frozen=True)
class Sweep(Program):
    """One sweep: a program, and how it calls its function with other sizes than its own."""

    with_sizes: Callable[[Sequence[int]], Program] | None = None
    """The same with one call for each of these sizes, where it is to be tried with all."""


def one(*shape: int) -> list:
    """One tensor."""
    return [ramp(*shape)]


def tensors(*shapes: tuple[int, ...]) -> list:
    """A tensor of each shape."""
    return [ramp(*shape) for shape in shapes]


def tokens(*shape: int) -> list:
    """Indices below 10."""
    return [torch.arange(torch.Size(shape).numel()).reshape(shape) % 10]


def sweep(graphs, *calls, each=None, sizes=SIZES, inputs=one, trains=False, brute=None, why=""):
    """Adds a function to the table; the words are explained above."""
    assert bool(calls) != bool(each)

    def add(function):
        programs = program_of(function, calls or [each(n) for n in sizes], inputs, trains=False)
        with_sizes = None
        if brute is not None:

            def with_sizes(sizes):
                again = program_of(function, [each(n) for n in sizes], inputs, trains=False)
                return Program(again, EDGES + brute, EDGES + brute, why)

        SWEEPS.append(Sweep(programs, graphs, graphs, why, with_sizes))
        if trains:
            trained = program_of(function, calls or [each(n) for n in sizes], inputs, trains=True)
            trained.__name__ += "_trained"
            SWEEPS.append(Sweep(trained, graphs, graphs, why))
        return function

    return add


def program_of(function, calls, inputs, trains):
    """The generator function of a program that calls the function with the inputs of each call."""

    def make():
        f = function() if not inspect.signature(function).parameters else function
        for call in calls:
            arguments = inputs(*call) if isinstance(call, tuple) else inputs(call)
            if trains:
                require_gradients(arguments)
            result = yield (f, *arguments)
            if trains:
                backward(result)
            earlier = arguments  # whose gradients are seen after the next call, or at the end
        return f, earlier

    make.__name__, make.__module__ = function.__name__, function.__module__
    return make


def require_gradients(arguments) -> None:
    for argument in arguments:
        if isinstance(argument, torch.Tensor) and argument.is_floating_point() and argument.is_leaf:
            argument.requires_grad_()


def backward(result) -> None:
    """Gradients of everything in a result that can have them."""
    results = result if isinstance(result, (tuple, list)) else [result]
    loss = [(r * r).sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    if loss:
        torch.stack(loss).sum().backward()
