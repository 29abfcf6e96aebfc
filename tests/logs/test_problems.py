"""The programs of examples/problems: what TORCH_LOGS says of each, and that its fix has no breaks and recompiles.

`python tests/logs/test_problems.py` writes what the logs say today; read the difference.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "problems"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.endswith("_fixed"))


def run(name):
    """What a program prints, and what the logs say of it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TORCH", "PELLUCID"))}
    environment["TORCH_LOGS"] = "graph_breaks,recompiles"
    done = subprocess.run(
        [sys.executable, f"{name}.py"], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, masked(done.stderr)


def masked(log):
    """Without what differs from run to run: the time, the process, who logs, folders, addresses, milliseconds, hashes."""
    lines = [re.sub(r"^V\d{4} \S+ \d+ \S+\] ", "", line).rstrip() for line in log.splitlines()]
    text = "\n".join(lines).replace(f"{FOLDER}{os.sep}", "") + "\n" * bool(lines)
    text = re.sub(r"0x[0-9a-f]+", "0x…", text)
    return re.sub(r"\d+\.\d ms", "… ms", text)


@pytest.mark.parametrize("name", NAMES)
def test_the_log_tells_the_cause(name):
    printed, log = run(name)
    assert log == (FOLDER / f"{name}.log").read_text()
    fixed, silent = run(f"{name}_fixed")
    assert silent == "" and fixed == printed


def test_each_has_what_the_index_says():
    assert len(NAMES) == 10
    index = (FOLDER / "README.md").read_text()
    for name in NAMES:
        assert f"[{name}]({name}.py)" in index and f"]({name}.log)" in index and f"]({name}_fixed.py)" in index


if __name__ == "__main__":
    for name in NAMES:
        (FOLDER / f"{name}.log").write_text(run(name)[1])
