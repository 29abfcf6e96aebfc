"""A short run of tools/conformance (`make conformance` is the long one): CPython's own tests with their methods compiled."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/conformance"

needs_cpython_tests = pytest.mark.skipif(
    importlib.util.find_spec("test.test_list") is None, reason="CPython's tests are a package of their own here"
)


def conformance(*arguments, **keywords) -> subprocess.CompletedProcess:
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **keywords)


def rows(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@needs_cpython_tests
@pytest.mark.parametrize("mode", [(), ("--torch-ops",)], ids=["bodies", "torch_ops"])
def test_what_passes_plainly_passes_compiled(tmp_path, mode):
    run = conformance("raise", "augassign", *mode, "--out", tmp_path / "out.jsonl")
    print(run.stdout[-3000:], run.stderr[-2000:])
    assert run.returncode == 0
    tests = rows(tmp_path / "out.jsonl")
    assert len(tests) > 40 and all(test["compiled"] == test["plain"] for test in tests)
    captured = sum(test["captured"] for test in tests)
    assert captured > len(tests) // 4
    count = sum(test["one_graph"] for test in tests)
    assert count > (10 if mode == ("--torch-ops",) else -1), "tests whose count of graphs is one"


@needs_cpython_tests
def test_doctests_are_compiled_too(tmp_path):
    run = conformance("setcomps", "--out", tmp_path / "out.jsonl")
    assert run.returncode == 0, run.stdout + run.stderr
    assert [test["kind"] for test in rows(tmp_path / "out.jsonl")] == ["doctest"]


@needs_cpython_tests
def test_the_other_compiler(tmp_path):
    run = conformance("augassign", "--impl", "dynamo", "--torch-ops", "--limit", 1, "--out", tmp_path / "out.jsonl")
    assert [test["compiled"] for test in rows(tmp_path / "out.jsonl")] == ["pass"], run.stdout + run.stderr


def fake_tests(folder: Path, text: str) -> dict:
    """A package `test` with one module of our own in place of CPython's."""
    for name, content in (("__init__", ""), ("support", ""), ("test_list", ""), ("test_fake", text)):
        file = folder / "test" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
    paths = [str(folder), *sys.path[1:], str(ROOT / "python")]
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(path for path in paths if path)}


FAKE = """
import os, sys, unittest

def compiled():
    import pellucid
    return pellucid.counters()["captures"] > 0

class Fake(unittest.TestCase):
    def test_a_passes(self):
        self.assertEqual(1, 1)
    def test_b_differs(self):
        self.tearDown = lambda: self.assertFalse(compiled())
    def test_c_dies(self):
        self.tearDown = lambda: os._exit(3) if compiled() else None
    def test_d_fails_anyway(self):
        self.fail()
    def test_e_runs_after_the_crash(self):
        pass
"""


def test_differences_and_crashes_are_found(tmp_path):
    """The comparison itself, on tests that look for the compiler."""
    run = conformance("fake", "--out", tmp_path / "out.jsonl", env=fake_tests(tmp_path, FAKE))
    assert run.returncode == 1, run.stdout + run.stderr
    outcomes = {
        test["test"].removeprefix("Fake.test_"): (test["plain"], test["compiled"])
        for test in rows(tmp_path / "out.jsonl")
    }
    assert outcomes == {
        "a_passes": ("pass", "pass"),
        "b_differs": ("pass", "fail"),
        "c_dies": ("pass", "crash"),
        "d_fails_anyway": ("fail", "fail"),
        "e_runs_after_the_crash": ("pass", "pass"),
    }
    assert "=== Fake.test_b_differs: pass plain, fail compiled" in run.stdout


def test_missing_package_is_told(tmp_path):
    env = fake_tests(tmp_path, "")
    (tmp_path / "test/test_list.py").unlink()
    run = conformance("list", env=env)
    assert run.returncode == 2 and "libpython3.11-testsuite" in run.stderr


def test_help():
    assert "--torch-ops" in conformance("--help").stdout
