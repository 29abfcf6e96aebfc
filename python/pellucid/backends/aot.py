"""Backends on top of AOTAutograd. Imported only when one of them is used: this pulls in torch._dynamo and sympy."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch import config as functorch_config

from pellucid.backends.eager import warn_of_options
from pellucid.backends.nop import boxed_nop, boxed_nop_with_mode, get_nop_func

if TYPE_CHECKING:
    from torch.fx import GraphModule


def aot_eager(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    fw_compiler: Callable | None = None,
    bw_compiler: Callable | None = None,
    **options: Any,
) -> Callable:
    """Forward and backward graphs by AOTAutograd, min-cut partitioned, both run as they are.

    Args:
        gm: the captured graph.
        example_inputs: its inputs.
        fw_compiler: gets AOTAutograd's forward graph and its inputs instead.
        bw_compiler: gets the backward graph instead.
        options: are told in a warning, and change nothing.
    """
    warn_of_options("aot_eager", options)
    return over_aot(
        gm,
        example_inputs,
        forward=fw_compiler or boxed_nop,
        backward=bw_compiler or boxed_nop,
        partition=_min_cut(),
        keeps_mutations=True,
    )


def aot_eager_default_partitioner(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """As aot_eager, but the forward graph saves all that the backward graph reads, and nothing is computed twice."""
    warn_of_options("aot_eager_default_partitioner", options)
    return over_aot(gm, example_inputs, forward=boxed_nop, keeps_mutations=True)


def aot_eager_decomp_partition(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """As aot_eager with Inductor's decompositions and its way to partition: all of Inductor but the code that it writes."""
    warn_of_options("aot_eager_decomp_partition", options)
    from torch._inductor.compiler_bisector import CompilerBisector

    changes: dict[str, Any] = {"unlift_effect_tokens": True}
    changes.update(CompilerBisector.get_config_change("aot_eager_decomp_partition") or {})
    with functorch_config.patch(changes):
        return _decomposed(gm, example_inputs, get_nop_func())


def aot_eager_decomp_partition_with_mode(
    gm: GraphModule, example_inputs: Sequence[Any], mode: Any, **options: Any
) -> Callable:
    """As aot_eager_decomp_partition, both graphs run inside `mode`: `functools.partial(…, mode=CountingMode())` is a backend."""
    warn_of_options("aot_eager_decomp_partition_with_mode", options)
    return _decomposed(gm, example_inputs, functools.partial(boxed_nop_with_mode, mode=mode))


def aot_eager_decomp_partition_crossref(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """As aot_eager_decomp_partition, and at each run the results of operators are compared with what their fake implementations
    say: of those that do not come with torch, unless `torch._functorch.config.fake_tensor_crossref` asks for others."""
    with functorch_config.patch(fake_tensor_crossref=functorch_config.fake_tensor_crossref or "custom_ops"):
        return aot_eager_decomp_partition(gm, example_inputs, **options)


def invoke_subgraph(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """As aot_eager; when a compiled function is called while make_fx traces, its graph is one call in what is traced."""
    warn_of_options("invoke_subgraph", options)
    return over_aot(gm, example_inputs, forward=_one_call, partition=_min_cut(), keeps_mutations=True)


def inductor(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
) -> Callable:
    """torch's own compiler: code in C++ or Triton. Modes and options are those of torch.compile."""
    return inductor_compiler(mode, options, dynamic)(gm, example_inputs)


def inductor_compiler(
    mode: str | None = None, options: dict[str, Any] | None = None, dynamic: bool | None = None
) -> Callable:
    """torch.compile's own wrapper, so that modes and options mean (and are refused) the same."""
    return torch._TorchCompileInductorWrapper(mode, options, dynamic)


def over_aot(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    forward: Callable,
    backward: Callable | None = None,
    partition: Callable | None = None,
    decompositions: dict[Any, Callable] | None = None,
    keeps_mutations: bool = False,
) -> Callable:
    """What AOTAutograd makes of the graph.

    Args:
        gm: the captured graph.
        example_inputs: its inputs.
        forward: compiles the forward graph, and the only one where no gradients are needed.
        backward: compiles the backward graph; as `forward` when it is not given.
        partition: tells what the forward graph saves.
        decompositions: operators by what computes them.
        keeps_mutations: a graph without gradients writes its inputs itself.
    """
    from torch._dynamo.utils import counters
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.partitioners import default_partition

    counters["aot_autograd"]["total"] += 1
    with _aot_logging():
        compiled = aot_module_simplified(
            gm,
            list(example_inputs),
            fw_compiler=forward,
            bw_compiler=_out_of_sight(backward or forward),
            inference_compiler=forward,
            partition_fn=partition or default_partition,
            decompositions=decompositions,
            keep_inference_input_mutations=keeps_mutations,
        )
    counters["aot_autograd"]["ok"] += 1
    return torch.compiler.disable(compiled, reason="made by AOTAutograd")


def _decomposed(gm: GraphModule, example_inputs: Sequence[Any], compiler: Callable) -> Callable:
    from torch._inductor.compile_fx import select_decomp_table  # Inductor is loaded when it is needed

    return over_aot(
        gm,
        example_inputs,
        forward=compiler,
        partition=functools.partial(_min_cut(), compiler="inductor"),
        decompositions=select_decomp_table(),
    )


def _min_cut() -> Callable:
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    return min_cut_rematerialization_partition


def _one_call(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
    from torch._higher_order_ops.invoke_subgraph import invoke_subgraph_infer

    def run(inputs: list[Any]) -> Any:
        operands = tuple(inputs)
        inputs.clear()
        return invoke_subgraph_infer(gm, *operands)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _out_of_sight(compiler: Callable) -> Callable:
    """The autograd engine calls the backward graph, maybe below a function that torch.compile has compiled, and compiles it late."""

    def compile_backward(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable:
        untraced = torch.compiler.disable(compiler, reason="compiles a backward graph")
        return torch.compiler.disable(untraced(gm, example_inputs), reason="a backward graph")

    return compile_backward


def _aot_logging() -> contextlib.AbstractContextManager:
    if os.environ.get("TORCH_COMPILE_DEBUG", "0") != "1":
        return contextlib.nullcontext()
    from torch._inductor.debug import enable_aot_logging

    return enable_aot_logging()
