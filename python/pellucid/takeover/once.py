"""Warnings about what has no meaning here: each text once in a process."""

from __future__ import annotations

import sys
import warnings

_told: set[str] = set()


class NoMeaningWarning(UserWarning):
    """Something of torch.compile has no meaning for pellucid, and the program goes on without it."""


def warn_once(text: str) -> None:
    """Warns, at the innermost line that is neither torch's nor pellucid's."""
    if text in _told:
        return
    _told.add(text)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, NoMeaningWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.split(".")[0] in ("torch", "pellucid", "contextlib", "functools")
