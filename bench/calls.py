"""Cached calls of pellucid and of torch._dynamo, by turns in one process: what a call costs beside the graph.

PYTHONPATH=python python bench/calls.py [--models gpt2 bert t5] [--rounds 30] [--most 10] [--least-ratio 10]

Both get the same backend, whose graphs are stubs: a callable that gives tensors computed before. A round times a few
calls of each; a figure is the least over the rounds, a ratio the median of the ratios within one round, which a loaded
machine moves little. Ends with an error when a call takes more than --most microseconds, or torch._dynamo takes less
than --least-ratio times as long.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
import torch._dynamo
from run import MODELS as RUN_MODELS

import pellucid


def _t5() -> tuple[torch.nn.Module, tuple]:
    import transformers

    config = transformers.T5Config(
        vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_heads=4, num_layers=6, use_cache=False
    )
    config.decoder_start_token_id = 0
    ids = torch.randint(0, 100, (1, 16))
    return transformers.T5ForConditionalGeneration(config), (ids, None, ids)


MODELS: dict[str, Callable] = {name: RUN_MODELS[name] for name in ("x+y", "gpt2", "bert", "resnet50")} | {"t5": _t5}


class StubBackend:
    """Runs each graph once, and then gives what it gave."""

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Any) -> Callable:
        results: list[Any] = []

        def stub(*inputs):
            if not results:
                results.append(gm.forward(*inputs))
            return results[0]

        return stub


@dataclass
class Compiled:
    name: str
    call: Callable
    seconds: list[float] = field(default_factory=list)

    def time(self, args: tuple, calls: int) -> None:
        call = self.call
        start = time.perf_counter()
        for _ in range(calls):
            call(*args)
        self.seconds.append((time.perf_counter() - start) / calls)


def compiled_by_both(name: str) -> tuple[list[Compiled], tuple]:
    torch.manual_seed(0)
    pellucid.reset()
    torch._dynamo.reset()
    model, args = MODELS[name]()
    if isinstance(model, torch.nn.Module):
        model.eval()
    both = [
        Compiled("pellucid", pellucid.compile(model, backend=StubBackend(), fullgraph=True)),
        Compiled("torch._dynamo", torch.compile(model, backend=StubBackend(), fullgraph=True)),
    ]
    return both, args


def measure(name: str, rounds: int, calls: int) -> tuple[float, float, float]:
    """(microseconds of pellucid, of torch._dynamo, how many times as long the latter takes)"""
    both, args = compiled_by_both(name)
    with torch.no_grad():
        for compiled in both:
            for _ in range(20):
                compiled.call(*args)
        gc.collect()
        gc.disable()
        try:
            for _ in range(rounds):
                for compiled in both:
                    compiled.time(args, calls)
        finally:
            gc.enable()
    ours, theirs = (compiled.seconds for compiled in both)
    return 1e6 * min(ours), 1e6 * min(theirs), median(b / a for a, b in zip(ours, theirs, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=100, help="of each compiler in a round")
    parser.add_argument("--most", type=float, help="microseconds")
    parser.add_argument("--least-ratio", type=float)
    options = parser.parse_args()
    torch.set_num_threads(1)
    bad = []
    print(f"{'cached call, us':<16}{'pellucid':>10}{'torch._dynamo':>15}{'ratio':>8}")
    for name in options.models:
        ours, theirs, ratio = measure(name, options.rounds, options.calls)
        print(f"{name:<16}{ours:>10.2f}{theirs:>15.2f}{ratio:>7.1f}x", flush=True)
        if (options.most and ours > options.most) or (options.least_ratio and ratio < options.least_ratio):
            bad.append(name)
    if bad:
        print("too slow:", ", ".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
