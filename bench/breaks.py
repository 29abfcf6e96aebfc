"""What one graph break costs, beside torch._dynamo, by turns in one process: when it is met first, and at each later call.

PYTHONPATH=python python bench/breaks.py [--breaks 8] [--depths 1 3 6] [--rounds 5] [--out bench/out/breaks.json]

A function of additions with a call that is not captured between them, at the end of so many nested calls (depth 1: in the
function itself), against the same function without those calls. The graphs are stubs, so what is left is the compiler's work:
(time with breaks - time without) / breaks, medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from pellucid._measure import Samples, measure, median, pellucid_compiler, torch_compiler

NAMES = ("pellucid", "torch.compile")


@torch.compiler.disable
def uncaptured() -> None:
    """The break."""


def function_of(breaks: int, depth: int, *, captured: bool) -> Callable:
    """`breaks` additions, each with a step `depth` calls deep: `uncaptured()`, or nothing."""
    lines = [
        f"def level_{depth}(x):",
        "    y = x + 1",
        "    " + ("pass" if captured else "uncaptured()"),
        "    return y",
    ]
    for level in range(depth - 1, 0, -1):
        lines += [f"def level_{level}(x):", f"    return level_{level + 1}(x)"]
    lines += ["def f(x):", *["    x = level_1(x)"] * breaks, "    return x * 2"]
    names = {"uncaptured": uncaptured}
    exec(compile("\n".join(lines), f"<depth {depth}>", "exec"), names)
    return names["f"]


def cost(with_breaks: Samples, without: Samples, breaks: int) -> dict[str, float]:
    """Seconds per break."""
    return {
        "first": (median(with_breaks.capture) - median(without.capture)) / breaks,
        "later": (median(with_breaks.call) - median(without.call)) / breaks,
        "graphs": with_breaks.graphs,
    }


def run(depth: int, breaks: int, rounds: int) -> dict[str, dict[str, float]]:
    compilers = [pellucid_compiler(), torch_compiler()]
    both = [
        measure(compilers, function_of(breaks, depth, captured=captured), (torch.ones(4),), {}, rounds=rounds)
        for captured in (False, True)
    ]
    return {name: cost(both[0][name], both[1][name], breaks) for name in NAMES}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--breaks", type=int, default=8)
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 3, 6])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench/out/breaks.json"))
    options = parser.parse_args(argv)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.cache_size_limit = 1000
    results = {}
    print(f"{'depth':>5}  {'':<14}{'first (ms)':>11}{'later (us)':>12}{'graphs':>8}")
    for depth in options.depths:
        print(f"depth {depth} …", end="\r", file=sys.stderr, flush=True)
        results[depth] = costs = run(depth, options.breaks, options.rounds)
        for name in NAMES:
            one = costs[name]
            print(f"{depth:>5}  {name:<14}{one['first'] * 1e3:>11.3f}{one['later'] * 1e6:>12.2f}{one['graphs']:>8}")
        ours, theirs = (costs[name] for name in NAMES)
        ratios = {key: theirs[key] / ours[key] for key in ("first", "later")}
        costs["ratio"] = ratios
        print(f"{depth:>5}  {'ratio':<14}{ratios['first']:>10.1f}x{ratios['later']:>11.1f}x")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"breaks": options.breaks, "depths": results}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
