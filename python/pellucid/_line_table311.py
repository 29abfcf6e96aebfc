"""The location table of code objects of CPython 3.11 (Objects/locations.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def line_table(positions: Iterable[Sequence[Any]], first: int, units: int) -> bytes:
    """The table of these positions.

    Args:
        positions: each (how many units, line, last line, column, last column); None for what is not known.
        first: the line of the `def`.
        units: of the whole code; those behind the last position have no line.
    """
    made = bytearray()
    line = first
    left = units
    for count, begin, end, column, last in positions:
        count = min(count, left)
        left -= count
        while count > 0:
            length = min(count, 8)
            count -= length
            if begin is None:
                made.append(0x80 | (15 << 3) | (length - 1))
                continue
            has_columns = column is not None and last is not None and end is not None and end >= begin
            made.append(0x80 | ((14 if has_columns else 13) << 3) | (length - 1))
            delta = begin - line
            made += _varint((-delta << 1) | 1 if delta < 0 else delta << 1)
            line = begin
            if has_columns:
                made += _varint(end - begin) + _varint(column + 1) + _varint(last + 1)
    while left > 0:
        length = min(left, 8)
        left -= length
        made.append(0x80 | (15 << 3) | (length - 1))
    return bytes(made)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number >= 64:
        made.append(0x40 | (number & 0x3F))
        number >>= 6
    made.append(number)
    return bytes(made)
