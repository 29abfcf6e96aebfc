"""Optimizer steps, whole training steps, per-sample gradients and flex_attention: a warm call and the capture, pellucid beside torch.compile and eager, by turns in one process.

PYTHONPATH=python python bench/training.py [--backend inductor] [--rounds 7] [--programs adamw] [--out bench/out/training.json]

Each has parameters of its own, of the same values. A warm call is the median over the rounds; the ratios are of medians
taken by turns, so that a loaded machine is loaded for all. "until warm" is the CPU time of the calls until the graphs are
made, with the backend "eager" (torch._dynamo's "eager" beside it). These calls run the graphs too: "capture" is that time
less what as many calls take afterwards. All of these are the lowest of three.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo
import torch.nn.attention.flex_attention

import pellucid


def adamw() -> Callable[[], object]:
    """AdamW.step over 200 parameters of 64 x 64, gradients given."""
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(64, 64)) for _ in range(200)]
    for parameter in parameters:
        parameter.grad = torch.randn(64, 64)
    return torch.optim.AdamW(parameters, lr=1e-3, foreach=True).step


def sgd() -> Callable[[], object]:
    """SGD with momentum over 200 parameters of 64 x 64, gradients given."""
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(64, 64)) for _ in range(200)]
    for parameter in parameters:
        parameter.grad = torch.randn(64, 64)
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, foreach=True).step


def train_step() -> Callable[[], object]:
    """zero_grad, forward, backward, clipping and AdamW of a net of four layers."""
    torch.manual_seed(0)
    sizes = [32, 64, 64, 64, 8]
    layers = [torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.ReLU()) for a, b in itertools.pairwise(sizes)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(16, 32), torch.randn(16, 8)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


def per_sample_gradients() -> Callable[[], object]:
    """The gradients of a net of three layers for each of 32 samples: vmap of grad of functional_call."""
    torch.manual_seed(0)
    sizes = [32, 64, 64, 8]
    layers = [torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.Tanh()) for a, b in itertools.pairwise(sizes)]
    model = torch.nn.Sequential(*layers)
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    x, y = torch.randn(32, 32), torch.randn(32, 8)

    def loss(parameters, sample, target):
        output = torch.func.functional_call(model, parameters, (sample.unsqueeze(0),))
        return torch.nn.functional.mse_loss(output, target.unsqueeze(0))

    return lambda: torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)


def flex_attention() -> Callable[[], object]:
    """flex_attention with a bias that is looked up, of 2 x 4 heads of 128 queries."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 4, 128, 32) for _ in range(3))
    bias = torch.randn(4, 128)

    def score(score, batch, head, q, kv):
        return score + bias[head, q] - (q - kv).abs() * 0.01

    return lambda: torch.nn.attention.flex_attention.flex_attention(query, key, value, score_mod=score)


PROGRAMS: dict[str, Callable[[], Callable[[], object]]] = {
    "adamw": adamw,
    "sgd": sgd,
    "train step": train_step,
    "per-sample gradients": per_sample_gradients,
    "flex_attention": flex_attention,
}
COMPILERS = {
    "eager": lambda step, backend: step,
    "pellucid": lambda step, backend: pellucid.compile(step, backend=backend),
    "torch.compile": lambda step, backend: torch.compile(step, backend=backend),
}
CALLS_UNTIL_WARM = 4  # the first step makes the optimizer's state, the second is compiled for that


def seconds(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def warm_calls(make: Callable[[], Callable[[], object]], backend: str, rounds: int) -> dict[str, float]:
    steps = {name: compiler(make(), backend) for name, compiler in COMPILERS.items()}
    for step in steps.values():
        seconds(step, CALLS_UNTIL_WARM)
    calls = max(3, int(0.1 / seconds(steps["eager"], 3)))
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(seconds(step, calls))
    return {name: statistics.median(values) for name, values in times.items()}


def cpu_seconds(call: Callable[[], object], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        call()
    return time.process_time() - start


def captures(make: Callable[[], Callable[[], object]]) -> tuple[dict[str, float], dict[str, float]]:
    """By compiler: seconds until it is warm, and what is left of them without the runs of the graphs."""
    cold, warm = ({name: float("inf") for name in ("pellucid", "torch.compile")} for _ in range(2))
    for _ in range(3):
        for name in cold:
            torch._dynamo.reset()
            pellucid.reset()
            step = COMPILERS[name](make(), "eager")
            gc.collect()
            cold[name] = min(cold[name], cpu_seconds(step, CALLS_UNTIL_WARM))
            warm[name] = min(warm[name], cpu_seconds(step, CALLS_UNTIL_WARM))
    return cold, {name: cold[name] - warm[name] for name in cold}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="inductor", help="of the warm calls (default: inductor)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--out", type=Path, help="also write the figures there, as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, dict[str, float]] = {}
    print(
        f"{'program':20}  {'eager us':>9}  {'pellucid us':>11}  {'torch.compile us':>16}  {'to eager':>8}  {'to torch':>8}  {'until warm':>10}  {'capture':>8}"
    )
    for name in options.programs:
        times = warm_calls(PROGRAMS[name], options.backend, options.rounds)
        until_warm, alone = (taken["torch.compile"] / taken["pellucid"] for taken in captures(PROGRAMS[name]))
        found[name] = {**times, "until_warm_times_faster": until_warm, "capture_times_faster": alone}
        eager, ours, theirs = (times[key] * 1e6 for key in ("eager", "pellucid", "torch.compile"))
        print(
            f"{name:20}  {eager:9.0f}  {ours:11.0f}  {theirs:16.0f}  {ours / eager:8.2f}  {ours / theirs:8.2f}  {until_warm:9.1f}x  {alone:7.1f}x"
        )
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
