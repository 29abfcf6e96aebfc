"""CPython's own tests, their functions replaced by what their decompiled text compiles to: the outcomes are the same."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = ("test_raise", "test_with", "test_patma", "test_except_star", "test_asyncgen", "test_super", "test_dictcomps")
# They look at line numbers or names of inner functions, which no text keeps.
ABOUT_LINES = ("TestTracing", "GeneratorTest.test_name")


def outcomes(*arguments):
    script = Path(__file__).with_name("from_text.py")
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = (line.split(" ", 1) for line in done.stdout.splitlines() if line.count(" ") == 1)
    return {test: outcome for outcome, test in rows if not any(name in test for name in ABOUT_LINES)}


def test_cpythons_own_tests():
    if importlib.util.find_spec("test.test_patma") is None:
        pytest.skip("this Python has no test package")
    plain, text = outcomes("--plain", *MODULES), outcomes(*MODULES)
    assert len(plain) > 500
    assert text == plain
