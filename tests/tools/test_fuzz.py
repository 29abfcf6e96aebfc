"""A short run of the fuzzer (`make fuzz` is the long one), and every program that once differed from eager."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REGRESSIONS = sorted((ROOT / "tests/fuzz_regressions").glob("*.py"))


def fuzz(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "tools/fuzz"), "--quiet", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)


def test_random_programs():
    run = fuzz("--seed", 0, "--count", 200, "--shrink", 0)
    print(run.stdout[-3000:], run.stderr[-2000:])
    assert run.returncode == 0
    programs, captured = map(int, re.search(r"(\d+) programs .* (\d+) % captured", run.stdout).groups())
    assert programs > 150 and captured > 30


@pytest.mark.skipif(not REGRESSIONS, reason="no program has differed yet")
def test_regressions():
    run = fuzz("--check", *REGRESSIONS)
    print(run.stdout[-3000:], run.stderr[-2000:])
    assert run.returncode == 0 and f"{len(REGRESSIONS)} programs (0 dropped" in run.stdout


def test_a_program_that_does_not_end_eagerly_is_none(tmp_path):
    """Nor do its `finally` blocks, when it is stopped."""
    file = tmp_path / "endless.py"
    file.write_text(
        "def inputs(variant): return [torch.ones(2)], {}\n"
        "def reset(): pass\n"
        "def change(): pass\n"
        "def f(x):\n    try:\n        while True: pass\n    finally:\n        while True: pass\n"
    )
    run = fuzz("--check", file)
    assert run.returncode == 0 and run.stdout.startswith("0 programs (1 dropped, 0 raise), 0 differences"), run.stdout


def test_a_difference_is_found(tmp_path):
    """The comparison itself: a program that asks who runs it."""
    program = (
        "def inputs(variant): return [torch.ones(2)], {}\n"
        "def reset(): pass\n"
        "def change(): pass\n"
        "def f(x):\n    return x + 1, torch.compiler.is_compiling() or pellucid.is_compiling()\n"
    )
    file = tmp_path / "asks.py"
    file.write_text("import pellucid, torch\n" + program)
    run = fuzz("--check", file)
    assert run.returncode == 1 and "result[1]" in run.stdout, run.stdout + run.stderr


def test_the_order_of_addresses_is_no_difference():
    """A snapshot of a set of objects that are told apart only by what is met later."""
    program = (
        "from snapshot import Snapshot\n"
        "class Point: pass\n"
        "def seen(a, b):\n"
        "    view = Snapshot('')\n"
        "    view.add('result', ({a, b}, 1))\n"
        "    view.add('args', [a, b])\n"
        "    return tuple(view.seen())\n"
        "points = [Point() for _ in range(40)]\n"
        "assert len({seen(a, b) for a in points for b in points if a is not b}) == 1\n"
    )
    path = os.pathsep.join([str(ROOT / "tools/fuzz"), os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"PYTHONPATH": path})
