"""Jagged nested tensors around tensors without data."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch


@functools.cache
def load() -> None:
    """What torch's class loads when it is first asked: the body of a module is not for the time of a capture."""
    importlib.import_module("torch.nested._internal.ops")
    importlib.import_module("torch._dynamo")
    dummy()


def dummy() -> torch.Tensor:
    """What torch's operators take to know that they give a nested tensor."""
    return _module()._nt_view_dummy()


def _module() -> Any:
    return importlib.import_module("torch.nested._internal.nested_tensor")


def is_nested_int(number: torch.SymInt) -> bool:
    return number.node.is_nested_int()


def is_for_compilers(tensor: torch.Tensor) -> bool:
    """They make no fake of a nested tensor with the strided layout, of which what attention gives on the CPU is a view."""
    base = tensor._base
    return not (base is not None and base.is_nested and base.layout is torch.strided)


def like(real: Any, parts: dict[str, torch.Tensor]) -> torch.Tensor:
    """The nested int is that of `real`: torch keeps it by the tensor of offsets, or of lengths where there are any."""
    nested = _module()
    offsets, lengths = parts["_offsets"], parts.get("_lengths")
    ragged = offsets if lengths is None else lengths
    nested._tensor_symint_registry[ragged] = real._size[real._ragged_idx]
    cache = {name: parts[f"_{name}_tensor"] for name in ("min_seqlen", "max_seqlen") if f"_{name}_tensor" in parts}
    return nested.NestedTensor(
        parts["_values"],
        offsets=offsets,
        lengths=lengths,
        requires_grad=real.requires_grad,
        _ragged_idx=real._ragged_idx,
        _metadata_cache=cache,
    )


def asked(as_captured: bool, function: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """The call as the program makes it: classes have a say by their `__torch_function__`. `as_captured`: the graph runs as it is,
    and no compiler asks for what the call gives."""
    enabled: Any = vars(torch._C)["_EnableTorchFunction"]()
    try:
        return (_ON_FAKES.get(function, function) if as_captured else function)(*args, **kwargs)
    finally:
        del enabled


def view_from_jagged(values: Any, offsets: Any, *facts: Any) -> Any:
    return torch._nested_view_from_jagged(values, offsets, dummy(), *facts)


def from_padded(padded: Any, offsets: Any, *facts: Any) -> Any:
    return torch._nested_from_padded_tensor(padded, offsets, dummy(), *facts)


MAKERS = frozenset([view_from_jagged, from_padded])


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: Any = 0.0,
    is_causal: Any = False,
    scale: Any = None,
    enable_gqa: Any = False,
) -> Any:
    """Without the lengths, by which torch splits its arguments where it attends part by part: the same sizes, offsets and way of
    gradients. The other ways need no values."""
    sdpa: Any = importlib.import_module("torch.nested._internal.sdpa")
    function, nested = torch._C._nn.scaled_dot_product_attention, _module()
    plain = attn_mask is None and not dropout_p and all(type(x) is nested.NestedTensor for x in (query, key, value))
    if (
        not plain
        or not query.dim() == key.dim() == value.dim() == 4
        or 1 in (x._ragged_idx for x in (query, key, value))
    ):
        return function(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    # torch's class is asked before autocast is.
    q, k, v, _ = sdpa._autocast(query, key, value, None)
    sdpa._validate_sdpa_input(q, k, v, None, dropout_p, is_causal, scale)
    asked = sdpa.SDPAParams(q, k, v, None, dropout_p, is_causal, enable_gqa)
    fused = sdpa.can_use_flash_attention(asked) and sdpa._can_use_flash_sdpa_jagged(asked)
    if fused or (sdpa.can_use_efficient_attention(asked) and sdpa._can_use_efficient_sdpa_jagged(asked)):
        return function(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if not sdpa.math_sdp_enabled() or not sdpa._can_use_math_sdpa_jagged(asked):
        raise RuntimeError("no way of attention that is known to take these")  # torch logs why, when the call runs
    rows, *others = (x.transpose(1, 2).values() for x in (q, k, v))
    made = rows.sum(-1, keepdim=True) + sum(other.sum() for other in others)
    made = made.expand(rows.shape[0], q._size[1], v._size[-1]).contiguous()
    return nested.nested_view_from_values_offsets_lengths(
        made, q.offsets(), lengths=q.lengths(), min_seqlen=q._maybe_min_seqlen, max_seqlen=q._maybe_max_seqlen
    ).transpose(1, 2)


_ON_FAKES = {torch._C._nn.scaled_dot_product_attention: _attention}
