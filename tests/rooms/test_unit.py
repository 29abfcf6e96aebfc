"""Runs the C++ unit tests (tests/unit), each as a test of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.unit import UNIT


def test_they_are_built():
    assert UNIT is not None and len(UNIT.names()) >= 20, "build the target pellucid_unit first: make build"


@pytest.mark.parametrize("name", UNIT.names() if UNIT else [])
def test_cpp(name, capfd):
    failed = UNIT.run(name)
    assert failed == 0, capfd.readouterr().out


def test_region_alone():
    """The room region with those below it. Torch's fake kernels are registered once in a process, so in one of its own."""
    path = Path(UNIT.__file__).with_name("pellucid_region_unit.so")
    code = (
        "import sys, torch, importlib.util as util\n"
        "spec = util.spec_from_file_location('pellucid_region_unit', sys.argv[1])\n"
        "module = util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "assert len(module.names()) >= 13\n"
        "raise SystemExit(module.run())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
