"""Puts the rows of the table in place, and back."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pellucid import _after_import

DYNAMO = "torch._dynamo"

_lock = threading.RLock()
_depth = 0
_replaced: list[Replaced] = []
_undo: list[Callable[[], None]] = []


@dataclass(frozen=True)
class Replaced:
    """An attribute of a module that has another value now."""

    module: str
    name: str
    original: Any
    stand_in: Any

    def put_back(self) -> None:
        # Somebody may have wrapped the stand-in meanwhile: it goes on into the original by itself.
        if vars(sys.modules[self.module]).get(self.name) is self.stand_in:
            setattr(sys.modules[self.module], self.name, self.original)


def is_installed() -> bool:
    return _depth > 0


def replaced() -> tuple[Replaced, ...]:
    """What is replaced now."""
    return tuple(_replaced)


def install() -> None:
    global _depth
    with _lock:
        _depth += 1
        if _depth > 1:
            return
        try:
            _replace(of_dynamo=False)
            _after_import.call_after(DYNAMO, _take_dynamo)
        except BaseException:
            uninstall()
            raise


def uninstall() -> None:
    global _depth
    with _lock:
        if _depth == 0:
            raise RuntimeError("pellucid.uninstall() without an install()")
        _depth -= 1
        if _depth:
            return
        _after_import.forget(_take_dynamo)
        while _undo:
            _undo.pop()()
        while _replaced:
            _replaced.pop().put_back()


def _take_dynamo() -> None:
    from pellucid.takeover import earlier, torch_config

    with _lock:
        if not is_installed():
            return
        _replace(of_dynamo=True)
        for take in (torch_config.take, earlier.take):
            _undo.append(take())


def _replace(of_dynamo: bool) -> None:
    from pellucid.takeover.table import ROWS

    for row in ROWS:
        for place in row.places:
            module, _, name = place.rpartition(".")
            if module.startswith(DYNAMO) is not of_dynamo:
                continue
            owner = sys.modules.get(module) or importlib.import_module(module)
            original = vars(owner)[name]
            stand_in = row.stand_in(original)
            if stand_in is not original:
                setattr(owner, name, stand_in)
                _replaced.append(Replaced(module, name, original, stand_in))
