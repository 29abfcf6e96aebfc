"""Activations kept between forward and backward under checkpointing: eager, pellucid and torch.compile.

PYTHONPATH=python python bench/memory.py [--layers 24] [--backends eager aot_eager] [--out bench/out/memory.json]

A transformer in training mode, each of its layers checkpointed. What is measured is exact: the profiler reports every
allocation and every release of torch's CPU allocator, and their sum over the forward pass is what is kept at its end, less
the loss. The peak is the largest sum so far in forward and backward. A call is measured when it is warm, its gradients set
to None before. Each compiler runs in a process of its own. "no checkpoints" is eager without them.

Exits with 1 when pellucid keeps more than --limit times what eager's checkpointing keeps, or where gradients differ.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from in_child import ChildFailed, in_child
from torch import nn
from torch.utils.checkpoint import checkpoint

import pellucid


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).flatten(-2)))
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norms[1](x)))))


class Transformer(nn.Module):
    def __init__(self, layers: int, width: int, dropout: float, is_checkpointed: bool):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, 4, dropout) for _ in range(layers))
        self.is_checkpointed = is_checkpointed

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.is_checkpointed else layer(x)
        return x.square().mean()


def allocations(profile: torch.autograd.profiler.profile) -> list[int]:
    """Bytes of each allocation (positive) and release (negative), in order."""
    events = profile.kineto_results.events()
    changes = [event for event in events if event.name() == "[memory]" and event.device_type().name == "CPU"]
    return [event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns())]


def measured(options: argparse.Namespace, compile: Callable, is_checkpointed: bool = True) -> dict[str, Any]:
    """Kept bytes, peak, and the gradients, of the third step."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Transformer(options.layers, options.width, options.dropout, is_checkpointed)
    compiled = compile(model)
    x = torch.randn(options.batch, options.length, options.width)
    for number in range(3):
        model.zero_grad(set_to_none=True)
        torch.manual_seed(number)
        if number < 2:
            compiled(x).backward()
            continue
        with torch.autograd.profiler.profile(profile_memory=True, use_kineto=True) as forward:
            loss = compiled(x)
        with torch.autograd.profiler.profile(profile_memory=True, use_kineto=True) as backward:
            loss.backward()
    kept = sum(allocations(forward)) - loss.untyped_storage().nbytes()
    so_far, peak = 0, 0
    for change in allocations(forward) + allocations(backward):
        so_far += change
        peak = max(peak, so_far)
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    return {"kept": kept, "peak": peak, "loss": loss.item(), "gradients": gradients.numpy()}


def compilers(backends: list[str]) -> dict[str, tuple[Callable, bool]]:
    found: dict[str, tuple[Callable, bool]] = {
        "eager": (lambda model: model, True),
        "no checkpoints": (lambda model: model, False),
    }
    for backend in backends:
        found[f"pellucid {backend}"] = (lambda model, backend=backend: pellucid.compile(model, backend=backend), True)
        found[f"torch.compile {backend}"] = (lambda model, backend=backend: torch.compile(model, backend=backend), True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--backends", nargs="*", default=["eager", "aot_eager"], help='for example "inductor" too')
    parser.add_argument("--limit", type=float, default=1.1, help="what pellucid may keep, in what eager keeps")
    parser.add_argument("--seconds", type=float, default=300, help="for one compiler")
    parser.add_argument("--out", type=Path, help="also write the figures there, as JSON")
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    is_well = True
    print(f"{'':24}  {'kept KiB':>9}  {'to eager':>8}  {'peak KiB':>9}  {'to eager':>8}  gradients")
    for name, (compile, is_checkpointed) in compilers(options.backends).items():
        try:
            row = in_child(measured, options, compile, is_checkpointed, seconds=options.seconds)
        except ChildFailed as failure:
            print(f"{name:24}  failed: {str(failure)[:200]}", flush=True)
            rows[name] = {"failed": str(failure)}
            is_well = is_well and not name.startswith("pellucid")
            continue
        rows[name] = row
        base = rows.get("eager", row)
        gradients, wanted = torch.from_numpy(row["gradients"]), torch.from_numpy(base["gradients"])
        same = torch.allclose(gradients, wanted, rtol=1e-4, atol=1e-6)
        ratio = row["kept"] / base["kept"]
        if name.startswith("pellucid"):
            is_well = is_well and same and ratio <= options.limit
        words = "eager's" if torch.equal(gradients, wanted) else "eager's, rounded" if same else "DIFFER"
        print(
            f"{name:24}  {row['kept'] / 1024:9.0f}  {ratio:8.2f}  {row['peak'] / 1024:9.0f}"
            f"  {row['peak'] / base['peak']:8.2f}  {words}",
            flush=True,
        )
    if options.out:
        for row in rows.values():
            row.pop("gradients", None)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1))
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
