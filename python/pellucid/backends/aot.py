"""Backends on top of AOTAutograd. Imported only when one of them is used: this pulls in torch._dynamo and sympy."""

from __future__ import annotations

import torch


def aot_eager(
    gm, example_inputs, *, fw_compiler=None, bw_compiler=None, keep_inference_input_mutations=True, **options
):
    """Forward and backward graphs by AOTAutograd, min-cut partitioned, both run as they are."""
    from functorch.compile import min_cut_rematerialization_partition
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


def inductor(gm, example_inputs, *, mode=None, options=None, dynamic=None):
    return inductor_compiler(mode, options, dynamic)(gm, example_inputs)


def inductor_compiler(mode=None, options=None, dynamic=None):
    """torch.compile's own wrapper, so that modes and options mean (and are refused) the same."""
    return torch._TorchCompileInductorWrapper(mode, options, dynamic)
