"""Addresses in texts, which differ from run to run."""

from __future__ import annotations

import re

ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class Addresses:
    """Numbers in the place of addresses: the same one for the same address."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def without(self, text: str) -> str:
        """The text with numbers.

        Example:
            >>> Addresses().without("<object at 0x7f3210aa>")
            '<object at 0x1>'
        """
        return ADDRESS.sub(lambda match: self._numbers.setdefault(match[0], f"0x{len(self._numbers) + 1:x}"), text)
