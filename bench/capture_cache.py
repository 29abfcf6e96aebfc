"""The first call with a warm capture cache, beside the first runs of the same model that need no capture.

PYTHONPATH=python python bench/capture_cache.py [--rounds 5] [--models gpt2 swin-tiny] [--out bench/out/capture_cache.json]

Each number is of a process of its own, and the kinds take turns: what else the machine does falls on all of them.
  eager    the model's own first call
  loaded   the first call of the compiled model, backend "eager", whose capture an earlier process has kept
  captured the same without the cache
Two readings of "at most 1.5 times the first run that needs no capture", both from medians:
  to eager   CPU time of `loaded` by CPU time of `eager`
  to region  time of `loaded` by what is left of it without the load: the first run of the region itself
Ends with an error when one of them is above --most for one of the models of real size.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS = ("gpt2", "swin-tiny", "gpt2-small", "swin-small")
LARGE = MODELS[:2]  # the sizes that people use
KINDS = ("eager", "captured", "loaded")


def make(name: str) -> tuple:
    """A model with random weights, and an argument."""
    import torch
    import transformers

    torch.manual_seed(0)
    if name.startswith("gpt2"):
        small = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000}
        config = transformers.GPT2Config(**(small if name == "gpt2-small" else {}))
        return transformers.GPT2Model(config).eval(), torch.randint(0, 1000, (1, 32))
    small = {"image_size": 64, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
    config = transformers.SwinConfig(**(small if name == "swin-small" else {}))
    size = config.image_size
    return transformers.SwinModel(config).eval(), torch.randn(1, 3, size, size)


def first_call(name: str, kind: str) -> dict:
    """In the process that is measured."""
    import torch

    import pellucid
    from pellucid import _core

    torch.set_num_threads(1)
    model, argument = make(name)
    call = model if kind == "eager" else pellucid.compile(model, backend="eager")
    with torch.no_grad():
        wall, cpu = time.perf_counter(), time.thread_time()
        call(argument)
        cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    outcomes = [record.outcome for record in pellucid.capture_cache_report()]
    load = sum(ms for phase, _, ms in _core.timings() if phase == "capture_cache")
    assert outcomes == {"loaded": ["loaded"], "kept": ["kept"]}.get(kind, []), outcomes
    return {"cpu": cpu * 1e3, "wall": wall * 1e3, "load": load}


def measured(name: str, kind: str, folder: str) -> dict:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PELLUCID_CAPTURE_CACHE_DIR", None)
    if kind in ("kept", "loaded"):
        environment["PELLUCID_CAPTURE_CACHE_DIR"] = folder
    command = [sys.executable, __file__, "--child", name, kind]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def row(name: str, rounds: int, folder: str) -> dict:
    measured(name, "kept", folder)
    found: dict[str, list[dict]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            found[kind].append(measured(name, kind, folder))
    cpu = {kind: statistics.median(each["cpu"] for each in found[kind]) for kind in KINDS}
    regions = [each["wall"] / (each["wall"] - each["load"]) for each in found["loaded"]]
    return {
        "model": name,
        "cpu": cpu,
        "load": statistics.median(each["load"] for each in found["loaded"]),
        "to eager": cpu["loaded"] / cpu["eager"],
        "to region": statistics.median(regions),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--most", type=float, default=1.5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(first_call(*options.child)))
        return 0
    print(f"{'ms':12}" + "".join(f"{head:>10}" for head in (*KINDS, "load", "to eager", "to region")))
    rows = []
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(row(name, options.rounds, os.path.join(folder, "captures")))
        at = rows[-1]
        times = [at["cpu"][kind] for kind in KINDS] + [at["load"]]
        print(f"{name:12}" + "".join(f"{ms:10.1f}" for ms in times), end="")
        print(f"{at['to eager']:10.2f}{at['to region']:10.2f}", flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1))
    slow = [at["model"] for at in rows if at["model"] in LARGE and max(at["to eager"], at["to region"]) > options.most]
    if slow:
        print(f"above {options.most}: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
