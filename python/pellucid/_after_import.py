"""Something to do when the program has imported a module: without importing it for that."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any


class _Watch(importlib.abc.MetaPathFinder):
    """Finds what the other finders find, and has its loader call `then` behind the module's code."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self.then)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, then: Callable[[], None]) -> None:
        self.loader, self.then = loader, then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        # The module is to know its own loader: inspect and pkgutil ask for it.
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        forget(self.then)
        self.then()


def call_after(name: str, then: Callable[[], None]) -> None:
    """Calls `then` once, when module `name` has been imported: now, if it has been already."""
    if name in sys.modules:
        importlib.import_module(name)  # waits for another thread that is at it
        then()
    else:
        sys.meta_path.insert(0, _Watch(name, then))


def forget(then: Callable[[], None]) -> None:
    """It will not be called any more."""
    for finder in [finder for finder in sys.meta_path if isinstance(finder, _Watch) and finder.then == then]:
        sys.meta_path.remove(finder)
