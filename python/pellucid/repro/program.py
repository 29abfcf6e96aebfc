"""Programs, run in a process of their own until one of their graphs fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_MARK = "run_repro(mod, load_args, "


class NoFailure(Exception):
    """No graph of the program fails, or none could be made a script."""


def is_script(file: Path) -> bool:
    """Whether a file is a script that pellucid wrote.

    Raises:
        OSError: it cannot be read.

    Example:
        >>> is_script(Path("pellucid_repro/repro.py"))
        True
    """
    return _MARK in file.read_text(errors="replace")


def failing_graph(file: Path, arguments: Sequence[str], folder: Path, timeout: float) -> Path:
    """Runs a program with `config.repro_after` set, and once more if it crashes or hangs.

    Args:
        file: the program.
        arguments: of the program.
        folder: where scripts are written.
        timeout: seconds for one run.

    Returns:
        The script of the first graph that fails; of a crash that of the graph that was compiled last.

    Raises:
        NoFailure: there is none.

    Example:
        >>> failing_graph(Path("train.py"), [], Path("pellucid_repro"), 300)
        PosixPath('pellucid_repro/minifier_launcher.py')
    """
    before = _launchers(folder)
    how, printed = _run(file, arguments, folder, 4, timeout)
    written = [launcher for launcher in _launchers(folder) if launcher not in before]
    if not written and how is not None:
        print(f"{file} {how}: it runs once more, with a script for each graph before it is compiled")
        how, printed = _run(file, arguments, folder, 3, timeout)
        written = [launcher for launcher in _launchers(folder) if launcher not in before][-1:]
    if written:
        return written[0]
    last = "".join(f"\n    {line}" for line in printed.strip().splitlines()[-8:])
    raise NoFailure(
        f"no graph of {file} failed: `python -m pellucid triage {file}` looks at capture too."
        + (f" The program said last:{last}" if last else "")
    )


def _launchers(folder: Path) -> list[Path]:
    """In the order in which they were written."""
    numbered = [child for child in folder.glob("*/minifier_launcher.py") if child.parent.name.isdigit()]
    return [*folder.glob("minifier_launcher.py"), *sorted(numbered, key=lambda path: int(path.parent.name))]


def _run(file: Path, arguments: Sequence[str], folder: Path, level: int, timeout: float) -> tuple[str | None, str]:
    """How the program ended, if by no end of its own, and what it printed."""
    environment = {
        **os.environ,
        "PELLUCID_REPRO_AFTER": "dynamo",
        "PELLUCID_REPRO_LEVEL": str(level),
        "PELLUCID_BASE_DIR": str(folder),
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "pellucid", "run", str(file), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        printed, _ = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        printed, _ = child.communicate()
        return f"was not done after {timeout:g} s", printed
    if child.returncode < 0:
        return f"ended with {signal.Signals(-child.returncode).name}", printed
    return None, printed


def run_script(script: Path, arguments: Sequence[str]) -> int:
    """Runs a script of pellucid, and gives its exit status.

    Example:
        >>> run_script(Path("pellucid_repro/minifier_launcher.py"), ["minify"])
        0
    """
    sys.stdout.flush()
    return subprocess.run([sys.executable, str(script), *arguments]).returncode
