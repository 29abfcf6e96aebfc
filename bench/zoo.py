"""Capture time over a list of models, pellucid and torch._dynamo by turns in one process: the geometric mean of the ratios.

PYTHONPATH=python python bench/zoo.py --zoo ../shared/zoo [--rounds 1] [--sample 40] [--out bench/out/zoo.json]

`--zoo` is a folder with zoo.py (build(spec), make_inputs(spec, seed)), specs_dev.jsonl and baseline_torch_dev.jsonl; the
models taken are those that the baseline captured in one graph. CPU seconds of the first call with backend "eager", less
the run of the graph itself. Models that only one of the two captures in one graph now are reported, not counted.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import logging
import math
import random
import sys
import time
import warnings
from pathlib import Path

import torch
import torch._dynamo

from pellucid._measure import Compiler, Samples, _capture, _turned, pellucid_compiler, torch_compiler


def measure_spec(zoo, spec: dict, compilers: list[Compiler], rounds: int) -> dict[str, Samples]:
    model = zoo.build(spec)
    samples = {compiler.name: Samples() for compiler in compilers}
    with torch.no_grad():
        args, kwargs = zoo.make_inputs(spec, 0)
        torch.manual_seed(0)
        model(*args, **kwargs)  # what models cache at their first call is nobody's capture time
        for round in range(rounds):
            for compiler in _turned(compilers, round):
                args, kwargs = zoo.make_inputs(spec, 0)
                torch.manual_seed(0)
                _capture(compiler, model, args, kwargs, samples[compiler.name])
    for compiler in compilers:
        compiler.reset()
    return samples


def one_graph_specs(folder: Path) -> list[dict]:
    def rows(name: str) -> list[dict]:
        return [json.loads(line) for line in (folder / name).read_text().splitlines()]

    wanted = {row["id"] for row in rows("baseline_torch_dev.jsonl") if row["status"] == "one"}
    return [spec for spec in rows("specs_dev.jsonl") if spec["id"] in wanted]


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoo", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sample", type=int, help="so many models, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="of the choice")
    parser.add_argument("--out", type=Path, default=Path("bench/out/zoo.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    sys.path.insert(0, str(options.zoo))
    zoo = importlib.import_module("zoo")
    specs = one_graph_specs(options.zoo)
    random.Random(options.seed).shuffle(specs)
    specs = specs[: options.sample]
    compilers = [pellucid_compiler(), torch_compiler()]
    ours, theirs = (compiler.name for compiler in compilers)
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    for compiler in compilers:  # lazy imports
        _capture(compiler, net, (torch.ones(1, 2),), {}, Samples())
    results: dict[str, dict] = {}
    for number, spec in enumerate(specs, 1):
        start = time.perf_counter()
        try:
            samples = measure_spec(zoo, spec, compilers, options.rounds)
        except Exception as error:
            results[spec["id"]] = {"error": f"{type(error).__name__}: {error}"[:300]}
            print(f"{number}/{len(specs)} {spec['id']}: {results[spec['id']]['error']}", flush=True)
            continue
        best = {name: min(sample.capture) for name, sample in samples.items()}
        graphs = {name: sample.graphs for name, sample in samples.items()}
        results[spec["id"]] = {"seconds": best, "graphs": graphs, "ratio": best[theirs] / best[ours]}
        print(
            f"{number}/{len(specs)} {spec['id']}: {1e3 * best[ours]:.1f} ms, {1e3 * best[theirs]:.0f} ms,"
            f" {best[theirs] / best[ours]:.1f}x  ({time.perf_counter() - start:.0f} s)",
            flush=True,
        )
        gc.collect()
    counted = [row for row in results.values() if set(row.get("graphs", {}).values()) == {1}]
    ratios = sorted(row["ratio"] for row in counted)
    summary = {
        "models": len(specs),
        "counted": len(counted),
        "geometric_mean": geometric_mean(ratios),
        "least": ratios[0],
        "median": ratios[len(ratios) // 2],
        "most": ratios[-1],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"summary": summary, "models": results}, indent=1))
    print(json.dumps(summary, indent=1))
    for name, row in results.items():
        if "error" in row or set(row["graphs"].values()) != {1}:
            print(f"not counted: {name}: {row.get('error', row.get('graphs'))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
