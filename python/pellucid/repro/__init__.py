"""Failures of a compiler as scripts, and graphs made as small as they can be while they fail: docs/minifier.md.

pellucid.config.repro_after = "dynamo"     # or TORCHDYNAMO_REPRO_AFTER=dynamo
python pellucid_repro/minifier_launcher.py # writes pellucid_repro/repro.py
"""

from __future__ import annotations

from pellucid.repro.errors import AccuracyError, NothingFails, ReproRefused
from pellucid.repro.run import run_repro
from pellucid.repro.script import write_repro

__all__ = ["AccuracyError", "NothingFails", "ReproRefused", "run_repro", "write_repro"]
