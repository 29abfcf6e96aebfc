"""The C++ unit tests (tests/unit) as a module."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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
