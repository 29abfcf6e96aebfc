"""Replays all records of a folder, in a process that has not their program, and prints what came of it as JSON."""

import json
import sys
from pathlib import Path

import pellucid

told = {}
for file in sorted(Path(sys.argv[1]).glob("*.rec")):
    made, again = pellucid.replay(file), pellucid.replay(file)
    assert (made.status, made.outcome.key()) == (again.status, again.outcome.key()), file
    told[file.stem] = {
        "status": made.status,
        "text": str(made),
        "read": made.read,
        "summary": made.outcome.summary(),
        "graphs": made.outcome.graphs,
    }
assert not [name for name in sys.modules if name.startswith("recorded_")]
print(json.dumps(told))
