"""Runs the C++ unit tests (tests/unit), each as a test of its own."""

import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def unit_module():
    """The newest build, or the one that PELLUCID_UNIT names."""
    built = sorted(ROOT.glob("build/*/tests/pellucid_unit.so"), key=lambda path: path.stat().st_mtime)
    path = os.environ.get("PELLUCID_UNIT") or (built[-1] if built else None)
    if path is None:
        return None
    spec = importlib.util.spec_from_file_location("pellucid_unit", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


UNIT = unit_module()


def test_they_are_built():
    assert UNIT is not None and len(UNIT.names()) >= 20, "build the target pellucid_unit first: make build"


@pytest.mark.parametrize("name", UNIT.names() if UNIT else [])
def test_cpp(name, capfd):
    failed = UNIT.run(name)
    assert failed == 0, capfd.readouterr().out
