"""Settings of torch._dynamo.config that pellucid has too, passed on."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from pellucid import config
from pellucid.takeover.once import warn_once

_READ_ELSEWHERE = {"disable"}  # when something is compiled
# A patch is for one thread, and sets pellucid's for itself.
_in_patch: contextvars.ContextVar[bool] = contextvars.ContextVar("pellucid_in_patch_of_torch", default=False)


def take() -> Callable[[], None]:
    """Passes on what is set, and from now on what will be. Returns what undoes it."""
    module: Any = sys.modules["torch._dynamo.config"]
    own_class = type(module)
    passed_on = _PassedOn()
    for name in _known(module):
        if not module._is_default(name):
            passed_on.set(name, getattr(module, name))
    share = _share_sets(module, passed_on)
    types.ModuleType.__setattr__(module, "__class__", _listening(own_class, passed_on))

    def undo() -> None:
        types.ModuleType.__setattr__(module, "__class__", own_class)
        share()
        passed_on.undo()

    return undo


def _known(module: Any) -> list[str]:
    """Names of options of pellucid; an older name of one is passed on by torch's own alias."""
    return [name for name in config.options() if name in module._config and module._config[name].alias is None]


class _PassedOn:
    """What pellucid's options were before torch's values came."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[Any, Any]] = {}  # the value before, the newest of torch

    def set(self, name: str, value: Any) -> None:
        before = self._before.get(name, (getattr(config, name), None))[0]
        try:
            setattr(config, name, value)
        except (TypeError, ValueError) as error:
            warn_once(f"torch._dynamo.config.{name} = {value!r} is not taken over: {error}")
            return
        self._before[name] = (before, value)

    def undo(self) -> None:
        for name, (before, newest) in self._before.items():
            if getattr(config, name) is newest or getattr(config, name) == newest:  # else somebody set it meanwhile
                setattr(config, name, before)


def _share_sets(module: Any, passed_on: _PassedOn) -> Callable[[], None]:
    """Sets are changed in place: both have the same object, with what either had."""
    undo: list[Callable[[], None]] = []
    for name in _known(module):
        ours, theirs = getattr(config, name), getattr(module, name)
        if isinstance(ours, set) and isinstance(theirs, set) and ours is not theirs:
            added = ours - theirs
            theirs |= added
            undo.append(functools.partial(theirs.difference_update, added))
            passed_on.set(name, theirs)

    def undo_all() -> None:
        for step in undo:
            step()

    return undo_all


def _listening(own_class: type, passed_on: _PassedOn) -> type:
    class Listening(own_class):
        """torch._dynamo.config while pellucid is installed."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if _in_patch.get() or name not in self._config or self._config[name].alias is not None:
                return
            if name in config.options():
                passed_on.set(name, value)
            elif name not in _READ_ELSEWHERE:
                _warn(name)

        def patch(self, arg1: Any = None, arg2: Any = None, **kwargs: Any) -> Any:
            own = super().patch(arg1, arg2, **kwargs)
            return _Patch(own, own.changes)

    return Listening


class _Patch(contextlib.ContextDecorator):
    """A patch of torch's options, and of pellucid's of the same names: for this thread."""

    def __init__(self, of_torch: Any, changes: dict[str, Any]) -> None:
        self._of_torch, self.changes = of_torch, changes
        aliases = config._ALIASES
        known = {aliases.get(name, name): value for name, value in changes.items()}
        self._known = {name: value for name, value in known.items() if name in config.options()}
        self._others = sorted(set(known) - set(self._known) - _READ_ELSEWHERE)
        self._open: list[contextlib.ExitStack] = []

    def __enter__(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_patched(self._of_torch))
            stack.enter_context(config.patch(self._known))
            self._open.append(stack.pop_all())
        for name in self._others:
            _warn(name)

    def __exit__(self, *exc_info: Any) -> None:
        self._open.pop().close()


@contextlib.contextmanager
def _patched(of_torch: Any) -> Iterator[None]:
    with _in_patch_now():
        of_torch.__enter__()
    try:
        yield
    finally:
        with _in_patch_now():
            of_torch.__exit__(None, None, None)


@contextlib.contextmanager
def _in_patch_now() -> Iterator[None]:
    token = _in_patch.set(True)
    try:
        yield
    finally:
        _in_patch.reset(token)


def _warn(name: str) -> None:
    """Not for what torch sets for itself: its operators do so around their own captures."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _PASSED_THROUGH:
        frame = frame.f_back
    if not frame.f_globals.get("__name__", "").startswith("torch."):
        warn_once(f"torch._dynamo.config.{name} has no meaning for pellucid, which is installed in its place")


_PASSED_THROUGH = (__name__, "contextlib", "functools", "unittest.mock", "torch.utils._config_module")
