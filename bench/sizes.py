"""Models over many sizes, pellucid beside torch._dynamo: how often each compiles, wall time, difference from eager.

PYTHONPATH=python python bench/sizes.py [--quick] [--only gpt2 ...] [--backend inductor] [--dynamic] [--training]

  gpt2 llama t5 bert cnn   64 sequence lengths (heights of images) x 8 batch sizes, in an order that mixes them
  generate-...             40 tokens with a cache that grows (gpt2, llama, t5, whisper); the model's forward is compiled
  diffusion                a loop over int time steps and float noise levels, for several sizes of images

Transformers models are tiny and have random weights. `--training` adds the backward to the calls of the first row, and
compares the gradients of the parameters too. Each implementation has a process of its own; in it every call is made
eagerly as well, and the largest absolute difference of any output is told. The seconds are those of the compiled calls,
compiling included, and eager's beside them. Neither gives up for the number of its entries (--limit changes that).

`--quick` takes 6 lengths x 3 batches, 8 tokens and one image size.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

IMPLEMENTATIONS = ("pellucid", "torch._dynamo")
LENGTHS, BATCHES = range(17, 81), range(2, 10)
QUICK_LENGTHS, QUICK_BATCHES = (17, 24, 33, 40, 64, 79), (2, 3, 5)
TOKENS, QUICK_TOKENS = 40, 8
IMAGES, QUICK_IMAGES = ((2, 16, 16), (2, 24, 16), (3, 16, 32)), ((2, 16, 16),)
STEPS, QUICK_STEPS = 20, 6
VOCABULARY = 100


# ---- the models


SMALL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "vocab_size": VOCABULARY,
}
TRANSFORMERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 128, "vocab_size": VOCABULARY},
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**SMALL, "num_key_value_heads": 2}),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "d_model": 64,
            "d_kv": 16,
            "d_ff": 128,
            "num_layers": 2,
            "num_heads": 4,
            "vocab_size": VOCABULARY,
            "decoder_start_token_id": 0,
        },
    ),
    "bert": ("BertModel", "BertConfig", SMALL),
    "whisper": (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {
            "d_model": 64,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128,
            "vocab_size": VOCABULARY,
            "num_mel_bins": 8,
            "max_source_positions": 32,
            "max_target_positions": 64,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
    ),
}


def from_transformers(name: str, **options) -> nn.Module:
    """A tiny model with random weights."""
    import transformers

    model, config, chosen = TRANSFORMERS[name]
    return getattr(transformers, model)(getattr(transformers, config)(**chosen, **options)).eval()


class Block(nn.Module):
    """Two convolutions beside the input."""

    def __init__(self, channels: int, to: int, stride: int = 1):
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(channels, to, 3, stride, 1), nn.BatchNorm2d(to)
        self.second, self.second_norm = nn.Conv2d(to, to, 3, 1, 1), nn.BatchNorm2d(to)
        self.shortcut = nn.Conv2d(channels, to, 1, stride)

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.shortcut(x) + self.second_norm(self.second(y)))


def residual_network() -> nn.Module:
    """The layout of ResNet-18, narrow."""
    widths = ((8, 8, 1), (8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1))
    stem = [nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks = [Block(*width) for width in widths]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()


class Denoiser(nn.Module):
    """A U-shape of convolutions with an embedding of the time step."""

    def __init__(self, channels: int = 8):
        super().__init__()
        self.channels = channels
        self.enter, self.leave = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(channels, 3, 3, padding=1)
        self.down, self.up = nn.Conv2d(channels, channels, 3, 2, 1), nn.Conv2d(channels, channels, 3, padding=1)
        self.embed = nn.Linear(channels, channels)

    def forward(self, x, step: int, sigma: float):
        rates = torch.exp(-torch.arange(self.channels // 2) / self.channels)
        angles = step * rates
        time = self.embed(torch.cat([angles.sin(), angles.cos()])) * sigma
        y = F.silu(self.enter(x) + time[:, None, None])
        z = F.interpolate(F.silu(self.down(y)), size=y.shape[-2:])
        return x - sigma * self.leave(F.silu(self.up(z)) + y)


# ---- the workloads: one call after the other, as (name of what is compared, call of the compiled, call of eager)


class Implementation:
    """One of those compared: compiles with a backend, and says how many graphs it made."""

    def __init__(self, name: str, backend: str, limit: int, dynamic: bool | None):
        self.name, self.backend, self.dynamic = name, backend, dynamic
        if name == "pellucid":
            import pellucid

            pellucid.config.recompile_limit = limit
            self.module: Any = pellucid
        else:
            import torch._dynamo

            torch._dynamo.config.recompile_limit = limit
            torch._dynamo.config.accumulated_recompile_limit = limit
            self.module = torch

    def compile(self, f):
        return self.module.compile(f, backend=self.backend, dynamic=self.dynamic)

    def graphs(self) -> int:
        if self.name == "pellucid":
            return self.module.counters()["graphs"]
        return torch._dynamo.utils.counters["stats"]["unique_graphs"]


class Totals:
    """What one workload adds up."""

    def __init__(self) -> None:
        self.calls, self.seconds, self.eager_seconds, self.difference = 0, 0.0, 0.0, 0.0

    def add(self, compiled: Callable[[], list], eager: Callable[[], list]) -> None:
        """One call of both, timed and compared."""
        start = time.perf_counter()
        want = eager()
        between = time.perf_counter()
        got = compiled()
        self.seconds += time.perf_counter() - between
        self.eager_seconds += between - start
        self.calls += 1
        self.difference = max(self.difference, difference(want, got))


def difference(want: list[torch.Tensor], got: list[torch.Tensor]) -> float:
    """The largest of any element; infinite where the layout of the results differs."""
    if [(t.shape, t.dtype) for t in want] != [(t.shape, t.dtype) for t in got]:
        return float("inf")
    return max(((a.double() - b.double()).abs().max().item() for a, b in zip(want, got) if a.numel()), default=0.0)


def mixed_sizes(quick: bool) -> list[tuple[int, int]]:
    lengths, batches = (QUICK_LENGTHS, QUICK_BATCHES) if quick else (LENGTHS, BATCHES)
    pairs = [(batch, length) for length in lengths for batch in batches]
    random.Random(1).shuffle(pairs)
    return pairs


def arguments(name: str, batch: int, length: int) -> dict[str, torch.Tensor]:
    if name == "cnn":
        return {"input": torch.randn(batch, 3, length + 16, length + 19)}  # no layer comes down to a size of 1
    ids = {"input_ids": torch.randint(3, VOCABULARY, (batch, length))}
    if name == "bert":
        ids["attention_mask"] = (torch.arange(length) < length - torch.arange(batch)[:, None]).long()
    if name == "t5":
        ids["decoder_input_ids"] = torch.randint(3, VOCABULARY, (batch, length // 2))
    return ids


def sweep(name: str, implementation: Implementation, quick: bool, training: bool) -> Totals:
    """One model over all sizes."""
    model = residual_network() if name == "cnn" else from_transformers(name, **({} if name == "bert" else NO_CACHE))
    compiled, totals = implementation.compile(model), Totals()

    def results(f, inputs) -> list[torch.Tensor]:
        output = f(**inputs)
        values = output if isinstance(output, torch.Tensor) else output[0]
        if not training:
            return [values]
        model.zero_grad(set_to_none=True)
        values.float().square().mean().backward()
        parameters = list(model.parameters())  # AOTAutograd gives zeros to those that take no part
        return [values.detach(), *(torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)]

    with torch.set_grad_enabled(training):
        for batch, length in mixed_sizes(quick):
            inputs = arguments(name, batch, length)
            totals.add(lambda: results(compiled, inputs), lambda: results(model, inputs))
    return totals


NO_CACHE = {"use_cache": False}


def generate(name: str, implementation: Implementation, quick: bool) -> Totals:
    """Tokens one by one, each with the cache of those before it."""
    model, totals = from_transformers(name), Totals()
    model.generation_config.eos_token_id = None
    forward = model.forward
    compiled = implementation.compile(forward)
    if name == "whisper":
        prompt = {"input_features": torch.randn(2, 8, 64)}
    else:
        prompt = {"input_ids": torch.randint(3, VOCABULARY, (2, 5))}

    def tokens(f) -> list[torch.Tensor]:
        model.forward = f
        output = model.generate(
            **prompt,
            max_new_tokens=QUICK_TOKENS if quick else TOKENS,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
        )
        return [output.sequences, *output.logits]

    with torch.no_grad():
        totals.add(lambda: tokens(compiled), lambda: tokens(forward))
    return totals


def diffusion(implementation: Implementation, quick: bool) -> Totals:
    """Every step has another int and another float."""
    model, totals = Denoiser().eval(), Totals()
    compiled, steps = implementation.compile(model), QUICK_STEPS if quick else STEPS

    def denoised(f, noise) -> list[torch.Tensor]:
        x = noise
        for step in range(steps, 0, -1):
            x = f(x, 50 * step, 0.3 * (step / steps) ** 2)
        return [x]

    with torch.no_grad():
        for batch, height, width in QUICK_IMAGES if quick else IMAGES:
            noise = torch.randn(batch, 3, height, width)
            totals.add(lambda: denoised(compiled, noise), lambda: denoised(model, noise))
    return totals


SWEPT = ("gpt2", "llama", "t5", "bert", "cnn")
GENERATING = ("gpt2", "llama", "t5", "whisper")
WORKLOADS = (*SWEPT, *(f"generate-{name}" for name in GENERATING), "diffusion")


def run(workload: str, implementation: Implementation, quick: bool, training: bool) -> Totals:
    torch.manual_seed(0)
    if workload == "diffusion":
        return diffusion(implementation, quick)
    kind, _, name = workload.rpartition("-")
    return generate(name, implementation, quick) if kind else sweep(name, implementation, quick, training)


# ---- one process for each implementation


def rows(options: argparse.Namespace) -> Iterator[dict]:
    """What each workload gives, in this process."""
    implementation = Implementation(options.one, options.backend, options.limit, options.dynamic or None)
    for workload in options.only or WORKLOADS:
        before, row = implementation.graphs(), {"workload": workload}
        try:
            row.update(vars(run(workload, implementation, options.quick, options.training)))
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        yield {**row, "graphs": implementation.graphs() - before}
        implementation.module.compiler.reset() if implementation.module is torch else implementation.module.reset()


def rows_of(name: str) -> Iterator[dict]:
    """What another process gives that runs this program for one implementation."""
    command = [sys.executable, __file__, *sys.argv[1:], "--one", name]
    with tempfile.TemporaryDirectory() as cache:  # what Inductor kept of the other one's run would be a gift
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "TORCHINDUCTOR_CACHE_DIR": cache}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            for line in process.stdout or ():
                if line.startswith("{"):  # libraries print too
                    yield json.loads(line)
    if process.returncode:
        print(f"the process of {name} ended with {process.returncode}", file=sys.stderr)


def print_table(results: dict[str, dict[str, dict]]) -> None:
    names = list(results)
    print(f"{'':18}{'':>7}" + "".join(f"  {name:>28}" for name in names))
    print(
        f"{'workload':18}{'calls':>7}"
        + "".join(f"  {'graphs':>8}{'seconds':>10}{'differs':>10}" for _ in names)
        + "  eager s"
    )
    for workload in dict.fromkeys(key for rows in results.values() for key in rows):
        found = [results[name].get(workload, {"error": "no result"}) for name in names]
        fine = next((row for row in found if "error" not in row), {})
        cells = "".join(
            "  "
            + (
                f"{'error':>28}"
                if "error" in row
                else f"{row['graphs']:8}{row['seconds']:10.2f}{row['difference']:10.1e}"
            )
            for row in found
        )
        print(f"{workload:18}{fine.get('calls', 0):7}{cells}{fine.get('eager_seconds', 0.0):9.2f}")
    for name in names:
        for workload, row in results[name].items():
            if "error" in row:
                print(f"{name}, {workload}: {row['error']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="6 lengths x 3 batches")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--backend", default="eager", choices=("eager", "aot_eager", "inductor"))
    parser.add_argument("--dynamic", action="store_true", help="compile with dynamic=True: one graph is what to expect")
    parser.add_argument("--training", action="store_true", help="forward and backward, gradients compared")
    parser.add_argument("--implementations", nargs="+", choices=IMPLEMENTATIONS, default=IMPLEMENTATIONS)
    parser.add_argument("--limit", type=int, default=1000, help="entries of one function, for both")
    parser.add_argument("--out", type=Path, help="the numbers as JSON")
    parser.add_argument("--one", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        torch.set_num_threads(1)
        for row in rows(options):
            print(json.dumps(row), flush=True)
        return 0
    results: dict[str, dict[str, dict]] = {}
    for name in options.implementations:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results[name] = {row["workload"]: row for row in rows_of(name)}
    print_table(results)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"options": {**vars(options), "out": None}, "results": results}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
