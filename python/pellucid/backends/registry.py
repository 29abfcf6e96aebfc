"""Names of backends."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points

from pellucid.backends import builtin
from pellucid.backends.by_number import choice, is_choice
from pellucid.errors import InvalidBackend

CompilerFn = Callable[..., Callable]

_REGISTERED: dict[str, CompilerFn] = {}
_TAGS: dict[str, tuple[str, ...]] = {}


def register_backend(
    compiler_fn: CompilerFn | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Callable:
    """Gives a backend a name: as a decorator, with or without arguments, or as a call. Returns the backend.

    Args:
        compiler_fn: the backend, a callable `(GraphModule, example_inputs) -> callable`.
        name: its name; that of the function when it is not given.
        tags: "debug" and "experimental" keep it out of what `list_backends()` gives.

    Raises:
        AssertionError: there is a backend of this name.
        TypeError: the backend cannot be called.

    Example:
        >>> @register_backend(tags=("debug",))
        ... def counting(gm, example_inputs):
        ...     print(len(gm.graph.nodes))
        ...     return gm
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise TypeError(f"a backend must be callable, not {type(compiler_fn).__name__}")
    name = name or compiler_fn.__name__
    assert name not in _REGISTERED and name not in builtin.TABLE, f"duplicate name: {name}"
    _REGISTERED[name] = compiler_fn
    _TAGS[name] = tuple(tags)
    return compiler_fn


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


def unregister_backend(name: str) -> None:
    _REGISTERED.pop(name, None)
    _TAGS.pop(name, None)


def lookup_backend(backend: str | CompilerFn) -> CompilerFn:
    """The backend of that name; a callable is its own. `docs/backends.md` lists ours.

    Raises:
        InvalidBackend: there is none, or a choice by graph number is wrong.
        TypeError: neither a name nor a callable.

    Example:
        >>> lookup_backend("aot_eager")(gm, example_inputs)
    """
    if not isinstance(backend, str):
        if not callable(backend):
            raise TypeError(f"a backend is a name or a callable, not {type(backend).__name__}")
        return backend
    if backend not in _REGISTERED and is_choice(backend):
        return choice(backend, lookup_backend)
    found = _REGISTERED.get(backend) or builtin.load(backend) or _from_entry_point(backend) or _from_torch(backend)
    if found is None:
        raise InvalidBackend(backend, list_backends())
    return found


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Names for `backend=`, without the debug and experimental ones; all of them with None."""
    excluded = set(exclude_tags or ())
    tags_of: dict[str, tuple[str, ...]] = dict.fromkeys(_entry_points(), ())
    tags_of.update(_torch_backends())
    tags_of.update({name: facts.tags for name, facts in builtin.TABLE.items()})
    tags_of.update(_TAGS)
    return sorted(name for name, tags in tags_of.items() if not excluded.intersection(tags))


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="torch_dynamo_backends")}


def _from_entry_point(name: str) -> CompilerFn | None:
    point = _entry_points().get(name)
    return None if point is None else point.load()


def _torch_registry() -> types.ModuleType:
    registry = importlib.import_module("torch._dynamo.backends.registry")
    registry.list_backends(None)  # loads what torch has
    return registry


def _torch_backends() -> dict[str, tuple[str, ...]]:
    registry = _torch_registry()
    return {name: getattr(registry._COMPILER_FNS.get(name), "_tags", ()) for name in registry.list_backends(None)}


def _from_torch(name: str) -> CompilerFn | None:
    registry = _torch_registry()
    if name not in registry.list_backends(None):
        return None
    return registry.lookup_backend(name)


def aot_is_loaded() -> bool:
    """AOTAutograd is loaded, so a backend may call it."""
    return "torch._functorch.aot_autograd" in sys.modules
