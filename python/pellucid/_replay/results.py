"""What `pellucid.record` and `pellucid.replay` give."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pellucid.errors import BreakRecord, user_stack_text

if TYPE_CHECKING:
    from pellucid._replay.outcome import Outcome

Status = Literal["same", "differs", "not recorded"]


@dataclass
class Replayed:
    """What came of the capture of a record.

    Example:
        >>> replayed = pellucid.replay("pellucid_repro/recordings/f_PEL0304_12.rec")
        >>> replayed.status
        'same'
        >>> print(replayed)
    """

    file: Path
    status: Status
    """"same": the capture ended as the recorded one, with equal graphs. "differs": it did not. "not recorded": it did not, and it
    read something that is not in the record."""
    outcome: Outcome
    recorded: Outcome
    stop: BreakRecord | None
    """Why and where the capture stopped, as an `Unsupported` has it; None: it did not."""
    read: list[str] = field(default_factory=list)
    """What the capture read that is not in the record, and why it is not."""
    notes: list[str] = field(default_factory=list)
    """Other versions than those of the record."""

    def __str__(self) -> str:
        lines = [f"{self.file}: {_SAID[self.status]}"]
        if self.status == "not recorded":
            lines += ["", "It asks for", *(f"  {each}" for each in self.read)]
            lines += [user_stack_text(self.stop.user_stack).rstrip()] if self.stop is not None else []
        elif self.stop is not None:
            lines += ["", str(self.stop)]
        elif self.outcome.error is not None:
            lines += ["", self.outcome.error]
        if self.status != "same":
            lines += ["", f"recorded: {self.recorded.summary()}"]
        if self.status == "differs":
            lines += [f"now:      {self.outcome.summary()}"]
        for number, graph in enumerate(self.outcome.graphs):
            lines += ["", f"graph {number}:", graph]
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])


_SAID = {
    "same": "the capture ends as recorded",
    "differs": "the capture ends otherwise than recorded",
    "not recorded": "the capture needs what is not in the record",
}


@dataclass
class Recorded:
    """A record that `pellucid.record` wrote."""

    file: Path
    outcome: Outcome
    missing: list[tuple[str, str]]
    """What could not be recorded: how it is reached, and why. A replay says so if the capture reads it."""

    def __str__(self) -> str:
        lines = [f"{self.file}: {self.outcome.summary()}"]
        lines += [f"  not in it: {where}: {why}" for where, why in self.missing]
        return "\n".join(lines)
