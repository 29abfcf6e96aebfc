"""What instances and classes have, without asking the class of the program."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any


def dict_of(thing: Any) -> dict[str, Any] | None:
    """The attributes of an instance; None: it has none."""
    for cls in type(thing).__mro__:
        descriptor = cls.__dict__.get("__dict__")
        if isinstance(descriptor, types.GetSetDescriptorType):
            return descriptor.__get__(thing, type(thing))
    return None


def finalizer_of(classes: Iterable[type]) -> Any:
    """The `__del__` that the first of these with one has; None: no one has."""
    return next(
        (each.__dict__["__del__"] for cls in classes for each in cls.__mro__ if "__del__" in each.__dict__), None
    )
