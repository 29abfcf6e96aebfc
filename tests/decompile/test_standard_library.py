"""A sample of the standard library: how many texts compile to the same instructions."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Of SAMPLE functions; raise these when it becomes better, never lower them.
SAMPLE, SAME, WITH_TEXT = 300, 300, 300


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_decompile", HERE.parents[1] / "bench" / "decompile.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_sample(bench):
    codes = random.Random(1).sample(list(bench.standard_library()), SAMPLE)
    found, times = bench.measure(codes)
    assert found["equal"] + found["normalised"] >= SAME, found
    assert SAMPLE - found["none"] >= WITH_TEXT, found
    assert sum(times) / SAMPLE < 0.005  # seconds; 0.0003 on an idle machine


def test_our_own_functions(bench):
    """Every function of pellucid's own Python files."""
    import pellucid

    root = Path(pellucid.__file__).parent
    codes = []
    for path in sorted(root.rglob("*.py")):
        codes += bench.codes_in(compile(path.read_text(), str(path), "exec", dont_inherit=True))
    found, _ = bench.measure(codes)
    assert len(codes) > 300
    assert found["equal"] + found["normalised"] >= len(codes) - 2, found
    assert found["none"] == found["unverified"] == 0, found
