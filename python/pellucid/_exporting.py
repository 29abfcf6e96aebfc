"""Whether this thread (or asyncio task) is inside of `pellucid.export`; asked by `_core` for torch.compiler.is_exporting()."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_EXPORTING: contextvars.ContextVar[bool] = contextvars.ContextVar("pellucid_exporting", default=False)


def is_exporting() -> bool:
    return _EXPORTING.get()


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    token = _EXPORTING.set(True)
    try:
        yield
    finally:
        _EXPORTING.reset(token)
