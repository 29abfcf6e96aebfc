"""The node of a program that is at fault, behind what triage says of stage and graph: `locate`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid._triage import STAGES

if TYPE_CHECKING:
    from pellucid._triage import Triage
    from pellucid._triage.script import ScriptRunner

_ENDS = re.compile("the process ended with|is not done after")  # how `_triage.script` tells of crashes and hangs
_MOST_CALLS = 8  # of compiled functions, when capture is at fault


def locate(found: Triage, runner: ScriptRunner, folder: Path) -> str:
    """Names the first node at fault, and writes it as `repro.py`.

    The graph that triage found is written as a script while the program runs once more, with the values that it has there. Of
    capture the graph itself may be wrong: the calls that an eager run makes of torch's functions are written then, and captured.

    Args:
        found: what triage says of the program; a stage has to be at fault.
        runner: runs the program.
        folder: where scripts are written.

    Returns:
        What was found, as sentences.

    Example:
        >>> print(locate(triage, ScriptRunner("train.py"), Path("pellucid_repro")))
        the first node that differs is `relu = torch.relu(x)`
    """
    folder.mkdir(parents=True, exist_ok=True)
    said = ""
    isolate = _ENDS.search(found.problem or "") is not None
    for script in _scripts(found, runner, folder):
        done = subprocess.run(
            [sys.executable, str(script), "analyze", *(["--isolate"] if isolate else [])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        said = done.stdout.strip() if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]
        if done.returncode == 0:
            return f"{said}\nthe whole graph: {script}"
    why = f": {said}" if said else ""
    return f"no node could be found that is at fault alone{why}"


def _scripts(found: Triage, runner: ScriptRunner, folder: Path) -> Iterator[Path]:
    if found.stage == STAGES[0].name:
        for old in folder.glob("call_*.py"):
            old.unlink()
        runner.run(None, {"record": [str(folder.absolute()), _MOST_CALLS]})
        yield from sorted(folder.glob("call_*.py"))
    elif found.graph is not None:
        names = [stage.name for stage in STAGES]
        at = names.index(str(found.stage))
        backend, before = STAGES[at].backend, STAGES[at - 1].backend
        file = folder.absolute() / f"graph_{found.graph.number}.py"
        file.unlink(missing_ok=True)
        choice = f"<={found.graph.number}:{backend};else:{before}"
        runner.run(choice, {"write": [found.graph.number, str(file), backend]})
        if file.exists():
            yield file
