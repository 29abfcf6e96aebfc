"""Backends on top of AOTAutograd. Imported only when one of them is used: this pulls in torch._dynamo and sympy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx import GraphModule


def aot_eager(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    fw_compiler: Callable | None = None,
    bw_compiler: Callable | None = None,
    keep_inference_input_mutations: bool = True,
    **options: Any,
) -> Callable:
    """Forward and backward graphs by AOTAutograd, min-cut partitioned, both run as they are."""
    from functorch.compile import min_cut_rematerialization_partition  # type: ignore[import-untyped]
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop

    forward = fw_compiler or boxed_nop
    compiler = aot_autograd(
        fw_compiler=forward,
        bw_compiler=bw_compiler or forward,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=keep_inference_input_mutations,
        **options,
    )
    return compiler(gm, example_inputs)


def inductor(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
) -> Callable:
    return inductor_compiler(mode, options, dynamic)(gm, example_inputs)


def inductor_compiler(
    mode: str | None = None, options: dict[str, Any] | None = None, dynamic: bool | None = None
) -> Callable:
    """torch.compile's own wrapper, so that modes and options mean (and are refused) the same."""
    return torch._TorchCompileInductorWrapper(mode, options, dynamic)
