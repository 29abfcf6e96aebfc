"""Backends that make something else of the captured graph with torch's older compilers. What they make is for the sizes of the
example inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter

from pellucid.backends.aot import over_aot
from pellucid.backends.copies import copies, unchanged
from pellucid.backends.eager import warn_of_options


def pre_dispatch_eager(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """Breaks the graph up into ATen operators, as they are before autograd and autocast see them, prints that graph and runs it.

    The graph runs once for that, on copies of its inputs: what it writes is written at its real runs only.
    """
    warn_of_options("pre_dispatch_eager", options)
    from torch.fx.experimental.proxy_tensor import make_fx

    with unchanged([*gm.parameters(), *gm.buffers()]):
        traced = make_fx(lambda *inputs: Interpreter(gm).run(*inputs), pre_dispatch=True)(*copies(example_inputs))
    traced.print_readable()
    return traced


def ts(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
    """Compiles the graph with TorchScript. Takes no options."""
    return torch.jit.script(plain(gm))


def aot_ts(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """AOTAutograd's forward and backward graph, each compiled with TorchScript."""
    warn_of_options("aot_ts", options)
    return over_aot(gm, example_inputs, forward=_script)


def _script(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
    from functorch.compile import ts_compile  # type: ignore[import-untyped]

    return ts_compile(plain(gm), example_inputs)


def plain(gm: GraphModule) -> GraphModule:
    """TorchScript needs the source of forward, which a module that makes its code late does not have."""
    return GraphModule(gm, gm.graph)
