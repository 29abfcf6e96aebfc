"""python -m pellucid replay FILE: captures again what a record contains."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from pellucid._commands import add_command

_DESCRIPTION = """\
Captures again what a record contains, in a process without the program that was recorded: prints how the capture ends, with
the lines of the program, and whether it ends as it did then.

Records are written when a capture fails with config.replay_record_enabled = True (PELLUCID_REPLAY_RECORD_ENABLED=1), or by
pellucid.record(function)(*arguments). They contain code, globals, attributes and the metadata of tensors, no values of
tensors. A record is data: loading it runs no code of it, and the capture interprets its code without running it."""

_EPILOG = """\
examples:
  python -m pellucid replay pellucid_repro/recordings/Model_forward_PEL0304_12.rec
  python -m pellucid replay f.rec --json
  python -m pellucid replay f.rec --missing      (what is not in the record, and why)

exit status: 0 the capture ends as recorded; 1 it ends otherwise, or reads what is not in the record; 2 the file is no record"""


def add_to(commands: Any) -> None:
    """The parser of this command."""
    parser = add_command(
        commands,
        "replay",
        run,
        help="a recorded capture once more, without its program",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("file", metavar="FILE", help="the record")
    parser.add_argument("--json", action="store_true", help="outcome, recorded outcome and status as JSON")
    parser.add_argument(
        "--trust", action="store_true", help="functions of the record may run where captures call them for real"
    )
    parser.add_argument("--missing", action="store_true", help="list what is not in the record; nothing is captured")


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Gives the exit status."""
    from pellucid._replay.errors import RecordError
    from pellucid._replay.interface import replay
    from pellucid._replay.replaying import missing_in

    try:
        if options.missing:
            print("\n".join(f"{where}: {why}" for where, why in missing_in(options.file)))
            return 0
        replayed = replay(options.file, trust=options.trust)
    except (RecordError, OSError) as error:
        print(f"python -m pellucid replay: {error}", file=sys.stderr)
        return 2
    if options.json:
        told = {"status": replayed.status, "outcome": asdict(replayed.outcome), "recorded": asdict(replayed.recorded)}
        print(json.dumps({**told, "read": replayed.read, "notes": replayed.notes}, indent=1))
    else:
        print(replayed)
    return 0 if replayed.status == "same" else 1
