"""Programs over numpy's arrays: warm calls and captures, beside numpy itself and torch.compile(backend="eager").

python bench/arrays.py [--peer]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pellucid


def normalize(a: np.ndarray) -> np.ndarray:
    """Rows of mean 0 and deviation 1."""
    centered = a - a.mean(axis=1, keepdims=True)
    return centered / (centered.std(axis=1, keepdims=True) + 1e-6)


def pipeline(a: np.ndarray) -> tuple[np.ndarray, Any]:
    """A flip, a crop, a normalization and a summary."""
    b = normalize(a[:, ::-1][1:-1].astype(np.float32))
    b = np.clip(b, -2, 2)
    return np.concatenate([b, np.sqrt(np.abs(b))], axis=1), b.sum()


def returns(rewards: np.ndarray) -> np.ndarray:
    """Discounted returns of an episode of 20 steps."""
    out = np.zeros_like(rewards)
    running = np.float64(0)
    for i in range(19, -1, -1):
        running = rewards[i] + 0.99 * running
        out[i] = running
    return (out - out.mean()) / (out.std() + 1e-8)


PROGRAMS: list[tuple[Callable[..., Any], np.ndarray]] = [
    (pipeline, np.random.default_rng(0).normal(size=(8, 8))),
    (pipeline, np.random.default_rng(0).normal(size=(256, 256))),
    (returns, np.random.default_rng(0).normal(size=20)),
]


def microseconds(f: Callable[..., Any], array: np.ndarray) -> float:
    """The median of a warm call."""
    times = []
    calls = 20
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(calls):
            f(array)
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times) * 1e6


def first_call(compile_it: Callable[[], Callable[..., Any]], array: np.ndarray) -> float:
    """Milliseconds of compiling and calling once."""
    start = time.perf_counter()
    compile_it()(array)
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Prints one line for each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="torch.compile too")
    options = parser.parse_args()
    for f, array in PROGRAMS:
        compilers = {"pellucid": lambda f=f: pellucid.compile(f, backend="eager")}
        if options.peer:
            compilers["torch"] = lambda f=f: torch.compile(f, backend="eager")
        line = [f"{f.__name__} {array.shape}: numpy {microseconds(f, array):.1f} us"]
        for name, compile_it in compilers.items():
            capture = first_call(compile_it, array)
            compiled = compile_it()
            compiled(array)
            line.append(f"{name} {microseconds(compiled, array):.1f} us (first call {capture:.1f} ms)")
        print(", ".join(line))


if __name__ == "__main__":
    main()
