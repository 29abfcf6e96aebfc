"""Capture time over a list of models, pellucid and torch._dynamo by turns in one process: the geometric mean of the ratios.

PYTHONPATH=python python bench/zoo.py --zoo ../shared/zoo [--rounds 1] [--sample 40] [--out bench/out/zoo.json]
PYTHONPATH=python python bench/zoo.py --zoo ../shared/zoo --train [--ids "hf/bert/*"] [--sample 40] [--out bench/out/train.json]

`--zoo` is a folder with zoo.py (build(spec), make_inputs(spec, seed)), specs_dev.jsonl and baseline_torch_dev.jsonl; the
models taken are those that the baseline captured in one graph. CPU seconds of the first call with backend "eager", less
the run of the graph itself. Models that only one of the two captures in one graph now are reported, not counted.

With `--train` nothing is timed: each model of specs_dev.jsonl is put into training mode and called three times, with
other values and one backward pass each, and what it gives, its buffers and the gradients of all its parameters are
compared with eager (by run_zoo.py of that folder); graphs and the reasons of breaks stand beside those of torch.compile.
Each model and compiler has a process of its own and --seconds of time. Finished models are kept in --out, and a run with
the same --out goes on where the last one stopped.
"""

from __future__ import annotations

import argparse
import fnmatch
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
from in_child import ChildFailed, in_child

import pellucid
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


# ---- in training mode


def train_one(run_zoo, spec: dict, name: str) -> dict:
    """In a child: what run_zoo.py says of the model, and why captures stopped."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    row = run_zoo.run_spec(spec, run_zoo.Impl(name), "train")
    if name == "pellucid":
        records = [f"{record.code} {record.message} ({_line(record)})" for record in pellucid.break_reasons()]
    else:
        records = [str(reason).strip().split("\n")[0] for reason in torch._dynamo.utils.counters["graph_break"]]
    return {key: row.get(key) for key in ("status", "graphs", "graphs_total", "ops", "error")} | {
        "breaks": list(dict.fromkeys(records))
    }


def _line(record) -> str:
    place = record.user_stack[-1] if record.user_stack else None
    return f"{Path(place.filename).name}:{place.lineno}" if place else "no line"


def train(options: argparse.Namespace) -> int:
    run_zoo = importlib.import_module("run_zoo")
    specs = [json.loads(line) for line in (options.zoo / "specs_dev.jsonl").read_text().splitlines()]
    if options.ids:
        specs = [spec for spec in specs if any(fnmatch.fnmatch(spec["id"], pattern) for pattern in options.ids)]
    random.Random(options.seed).shuffle(specs)
    specs = specs[: options.sample]
    rows: dict[str, dict] = json.loads(options.out.read_text())["models"] if options.out.exists() else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for number, spec in enumerate(specs, 1):
        if spec["id"] in rows:
            continue
        row = rows[spec["id"]] = {}
        for name in ("pellucid", "torch"):
            if name == "torch" and row["pellucid"]["status"] == "skip":
                row["torch"] = row["pellucid"]
                break
            try:
                row[name] = in_child(train_one, run_zoo, spec, name, seconds=options.seconds)
            except ChildFailed as failure:
                row[name] = {"status": "failed", "error": str(failure), "breaks": []}
        ours, theirs = row["pellucid"], row["torch"]
        words = f"{ours['status']} {ours.get('graphs')}, torch.compile {theirs['status']} {theirs.get('graphs')}"
        print(f"{number}/{len(specs)} {spec['id']}: {words}  {(ours.get('error') or '')[:200]}", flush=True)
        options.out.write_text(json.dumps({"summary": train_summary(rows), "models": rows}, indent=1))
    print(json.dumps(train_summary(rows), indent=1))
    for name, row in rows.items():
        ours, theirs = row["pellucid"], row["torch"]
        if theirs["status"] == "one" and ours["status"] != "one":
            print(f"torch.compile has one graph: {name}: {ours['status']} {ours.get('graphs')} {ours['breaks'][:3]}")
        if ours["status"] in NOT_RIGHT:
            print(f"not right: {name}: {ours['status']}: {ours['error']}")
    return 1 if any(row["pellucid"]["status"] in NOT_RIGHT for row in rows.values()) else 0


NOT_RIGHT = ("wrong", "error", "failed")


def train_summary(rows: dict[str, dict]) -> dict:
    trained = [row for row in rows.values() if row["pellucid"]["status"] != "skip"]

    def count(name: str, *statuses: str) -> int:
        return sum(row[name]["status"] in statuses for row in trained)

    both = [row for row in trained if row["torch"]["status"] in ("one", "several")]
    return {
        "models": len(rows),
        "trainable": len(trained),
        "right": count("pellucid", "one", "several", "none"),
        "one graph, pellucid": count("pellucid", "one"),
        "one graph, torch.compile": count("torch", "one"),
        "not right, torch.compile": count("torch", *NOT_RIGHT),
        "more graphs than torch.compile": sum(
            (row["pellucid"].get("graphs") or 0) > row["torch"]["graphs"] for row in both
        ),
    }


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoo", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sample", type=int, help="so many models, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="of the choice")
    parser.add_argument("--train", action="store_true", help="compare gradients, and time nothing")
    parser.add_argument("--ids", nargs="*", help="with --train: models of these names; * stands for anything")
    parser.add_argument("--seconds", type=float, default=120, help="with --train: for one model and compiler")
    parser.add_argument("--out", type=Path, default=Path("bench/out/zoo.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    sys.path.insert(0, str(options.zoo))
    if options.train:
        return train(options)
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
