"""Replays all records of a folder; of each prints what came of it."""

import json
import os
import sys
from pathlib import Path

import pellucid
from pellucid.errors import PellucidError

told = {}
for file in sorted(Path(sys.argv[1]).glob("*.rec")):
    try:
        told[file.stem] = pellucid.replay(file).status
    except (PellucidError, OSError) as error:
        told[file.stem] = str(error)
    if os.path.exists(os.environ["MARK"]):
        sys.exit(f"code of {file} ran")
print(json.dumps(told))
