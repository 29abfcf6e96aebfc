"""The directory of a dump: what an earlier dump left there goes, and every file is told of in the index."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

INDEX = "index.json"


class Directory:
    """Writes files, and knows which.

    Args:
        path: made when it is not there. The files that an earlier dump's index names are removed; others stay.

    Raises:
        OSError: it cannot be made, or written to.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        self.path.mkdir(parents=True, exist_ok=True)
        self.names: list[str] = []
        self._remove_earlier()

    def write(self, name: str, text: str) -> Path:
        """Gives the file. A second time it is written anew."""
        if name not in self.names:
            self.names.append(name)
        file = self.path / name
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
        return file

    def write_index(self, facts: dict[str, Any]) -> None:
        """The index, with the names of all files."""
        listed = [*(name for name in self.names if name != INDEX), INDEX]
        self.write(INDEX, json.dumps({**facts, "files": listed}, indent=1) + "\n")

    def _remove_earlier(self) -> None:
        try:
            earlier = json.loads((self.path / INDEX).read_text(encoding="utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        for name in earlier:
            if isinstance(name, str) and Path(name).name == name:
                with contextlib.suppress(OSError):
                    (self.path / name).unlink()
