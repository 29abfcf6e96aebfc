"""Hooks that see the code of each compiled region, and may replace it."""

from __future__ import annotations

import types
from collections.abc import Callable

from pellucid import events

Hook = Callable[[types.CodeType, types.CodeType], types.CodeType | None]


class BytecodeHook:
    """What `register_bytecode_hook` gives: ends with `remove()`."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._subscription = events.subscribe(self._read)

    def remove(self) -> None:
        """The hook is not called any more. What it has replaced stays.

        Example:
            >>> handle.remove()
        """
        self._subscription.close()

    def _read(self, event: events.Event) -> None:
        if isinstance(event, events.RegionFinished):
            replacement = self._hook(event.code, event.emitted_function.__code__)
            if replacement is not None:
                event.emitted_function.__code__ = replacement


def register_bytecode_hook(hook: Hook) -> BytecodeHook:
    """From here on `hook` is called with each region that is compiled, before it runs.

    What it raises is reported through `sys.unraisablehook`, and the region stays as it is.

    Args:
        hook: gets the code that the region begins in and the new code, which runs in the place of a part of it; gives a
            replacement for the new code, or None. A replacement takes what the new code takes and reads the same globals.

    Raises:
        TypeError: `hook` cannot be called.

    Example:
        >>> handle = pellucid.register_bytecode_hook(lambda old, new: print(old.co_name))
        >>> compiled(x)
        >>> handle.remove()
    """
    if not callable(hook):
        raise TypeError(f"hook must be callable, not {type(hook).__name__}")
    return BytecodeHook(hook)
