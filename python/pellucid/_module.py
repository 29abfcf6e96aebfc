"""The compiled form of an nn.Module."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

_get = object.__getattribute__
# Attributes of the wrapper itself; every other one is the original module's.
_OWN = frozenset(
    {
        "_orig_mod",
        "_compile",
        "_target",
        "_compiled",
        "_compiled_call",
        "__call__",
        "__reduce_ex__",
        "__reduce__",
        "__deepcopy__",
        "__copy__",
        "__repr__",
    }
)


class OptimizedModule(torch.nn.Module):
    """Stands for a module and runs its calls compiled.

    Reading, setting and deleting attributes, `state_dict`, hooks, `train()`, `to()` and so on are the original module's;
    `isinstance` says what it says for the original; pickles and copies wrap a pickle or copy of the original. `_orig_mod` is the original.
    """

    _orig_mod: torch.nn.Module

    def __init__(self, module: torch.nn.Module, compile: Callable[[Callable, torch.nn.Module], Callable]) -> None:
        # Not torch.nn.Module.__init__: the wrapper has no parameters, buffers, submodules or hooks of its own.
        own = _get(self, "__dict__")
        own["_orig_mod"] = module
        own["_compile"] = compile
        own["_target"] = None
        own["_compiled"] = None
        _get(self, "_compiled_call")()

    def _compiled_call(self) -> Callable:
        """The compiled form of what a call of the original runs now: its class may have got another `__call__`."""
        own = _get(self, "__dict__")
        module = own["_orig_mod"]
        target = type(module).__call__
        if own["_target"] is not target:
            own["_compiled"] = own["_compile"](target, module)
            own["_target"] = target
        return own["_compiled"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _get(self, "_compiled_call")()(_get(self, "__dict__")["_orig_mod"], *args, **kwargs)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN:
            return _get(self, name)
        return getattr(_get(self, "__dict__")["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_get(self, "__dict__")["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_get(self, "__dict__")["_orig_mod"], name)

    def __dir__(self) -> list[str]:
        return ["_orig_mod", *dir(self._orig_mod)]

    def __repr__(self) -> str:
        body = "\n  ".join(repr(self._orig_mod).splitlines())
        return f"OptimizedModule(\n  (_orig_mod): {body}\n)"

    # Special methods are looked up on the type, so containers need them here.
    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __getitem__(self, index: Any) -> Any:
        return self._orig_mod[index]  # type: ignore[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._orig_mod[index] = value  # type: ignore[index]

    def __delitem__(self, index: Any) -> None:
        del self._orig_mod[index]  # type: ignore[attr-defined]

    def __iter__(self) -> Any:
        return iter(self._orig_mod)  # type: ignore[call-overload]

    def __contains__(self, item: Any) -> bool:
        return item in self._orig_mod  # type: ignore[operator]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (OptimizedModule, (self._orig_mod, self._compile))

    def __copy__(self) -> OptimizedModule:
        return OptimizedModule(copy.copy(self._orig_mod), self._compile)

    def __deepcopy__(self, memo: dict) -> OptimizedModule:
        return OptimizedModule(copy.deepcopy(self._orig_mod, memo), self._compile)
