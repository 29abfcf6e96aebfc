"""Programs and scripts in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
_PACKAGE = _TESTS.parent / "python"


def run_python(*arguments, cwd, expect=0, without_pellucid=False, **environment):
    """Runs Python with the tests of tests/repro on its path; gives what it printed. `expect`: the exit status; None: any."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHDYNAMO_REPRO", "PELLUCID_"))}
    paths = [str(_TESTS / "repro"), str(_PACKAGE)]
    if without_pellucid:
        hiding = Path(cwd) / "hiding"
        hiding.mkdir(exist_ok=True)
        (hiding / "pellucid.py").write_text("raise ImportError('hidden')\n")
        paths = [str(hiding)]
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**own, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
    )
    assert expect is None or done.returncode == expect, f"status {done.returncode}\n{done.stdout}"
    return done.stdout
