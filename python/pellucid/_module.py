"""The compiled form of an nn.Module."""

from __future__ import annotations

import copy
import copyreg
import functools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules import module as _torch_module

from pellucid import _after_import

# Set on the wrapper itself, beside what the class of the wrapper has. Every other attribute is set on the original.
_OWN = frozenset({"_orig_mod", "forward", "__dict__"})
# Not part of a pickle or copy: made at the first call.
_DERIVED = ("_pellucid_call",)


class _CompilesAgain(Mapping[str, Any]):
    """In the place of the options that Lightning's torch.compile leaves at its results, for Fabric to compile them again with.

    Fabric asks whether there are any whenever it unwraps a module. Only where it gives them to torch.compile they are read.
    """

    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError(
            "Fabric.setup() takes a compiled module apart and compiles it again with torch.compile, which would not be"
            " pellucid. Use pellucid.compile(fabric.setup(module)), or fabric.setup(pellucid.compile(module),"
            " _reapply_compile=False), or call pellucid.install() first and torch.compile(module)"
        )


class OptimizedModule(torch.nn.Module):
    """Stands for a module and runs its calls compiled, as the one of torch.compile does.

    It is a module of its own, with the original as its only submodule, `_orig_mod`. So what nn.Module defines (`to`, `train`,
    `apply`, `state_dict`, hooks, …) is done by the wrapper, reaches the original as it reaches any submodule, and gives the wrapper
    where nn.Module gives `self`. Attributes that nn.Module does not define are the original's, methods of its class included.

    Once something has imported torch._dynamo, this is a subclass of its OptimizedModule, for `isinstance` of others. All that
    is used of it is nn.Module's, hence no `super()`.
    """

    _orig_mod: torch.nn.Module

    def __init__(self, module: torch.nn.Module, compile: Callable[[Callable, torch.nn.Module], Callable]) -> None:
        torch.nn.Module.__init__(self)
        self.__dict__["_pellucid_settings"] = compile
        self._modules["_orig_mod"] = module
        _compiled_call(self)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        # All in one frame: this is on the way of every call.
        own = self.__dict__
        kept = own.get("_pellucid_call")
        if (
            is_compiling()
            or kept is None
            or own["_modules"].get("_orig_mod") is not kept[0]
            or type(kept[0]).__call__ is not kept[1]
            or own["_forward_hooks"]
            or own["_forward_pre_hooks"]
            or own["_backward_hooks"]
            or own["_backward_pre_hooks"]
            or "forward" in own
            or "_compiled_call_impl" in own
        ):
            return self._call_with_hooks(*args, **kwargs)
        return kept[2](kept[0], *args, **kwargs)

    def _call_with_hooks(self, /, *args: Any, **kwargs: Any) -> Any:
        if not _has_hooks(self):
            return self.forward(*args, **kwargs)
        if _torch_module._has_any_global_hook():
            warnings.warn(
                "hooks of all modules run for the wrapper of a compiled module too, because it has hooks of its own;"
                " register those on the module itself (`_orig_mod`) where that is not wanted",
                stacklevel=3,
            )
        return torch.nn.Module.__call__(self, *args, **kwargs)

    def forward(self, /, *args: Any, **kwargs: Any) -> Any:
        # Inside of another compiled region (this compiler's or torch.compile's) the original is part of that region.
        if is_compiling():
            return self._orig_mod(*args, **kwargs)
        return _compiled_call(self)(self._orig_mod, *args, **kwargs)

    # nn.Module keeps this one beside the submodules: the wrapper has none of its own.
    @property
    def training(self) -> bool:
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        if "_orig_mod" in self.__dict__.get("_modules", ()):  # not yet while nn.Module sets its attributes up
            self._orig_mod.training = mode

    @property
    def dynamo_ctx(self) -> Callable[[Any], Any]:
        """Compiles other functions and modules as this one is compiled; libraries read it under this name."""
        from pellucid.api import _compile_with

        return functools.partial(_compile_with, settings=self.__dict__["_pellucid_settings"], disabled=False)

    @property
    def _torchdynamo_orig_callable(self) -> torch.nn.Module:
        """torch.compile of this wrapper compiles the original."""
        return self._orig_mod

    @property
    def _torchdynamo_wrapper_id(self) -> int:
        return id(self)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for kind in ("_modules", "_parameters", "_buffers"):
            found = own.get(kind, {}).get(name)
            if found is not None:
                return found
        module = own.get("_modules", {}).get("_orig_mod")
        if module is None:  # read while it is made, or after `del _orig_mod`
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "_compile_kwargs":
            return getattr(module, name, _CompilesAgain())
        return getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or hasattr(type(self), name):
            torch.nn.Module.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or hasattr(type(self), name):
            torch.nn.Module.__delattr__(self, name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*torch.nn.Module.__dir__(self), *dir(self._orig_mod)})

    # Special methods are looked up on the type, so containers need them here.
    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __getitem__(self, index: Any) -> Any:
        return self._orig_mod[index]  # type: ignore[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._orig_mod[index] = value  # type: ignore[operator]

    def __delitem__(self, index: Any) -> None:
        del self._orig_mod[index]  # type: ignore[operator]

    def __iter__(self) -> Any:
        return iter(self._orig_mod)  # type: ignore[call-overload]

    def __reversed__(self) -> Any:
        return reversed(self._orig_mod)  # type: ignore[call-overload]

    def __contains__(self, item: Any) -> bool:
        return item in self._orig_mod  # type: ignore[operator]

    # Copies and pickles. What the class of the original defines for itself would give an original, so all of it is
    # here.
    def __reduce_ex__(self, protocol: Any) -> Any:
        return (copyreg.__newobj__, (type(self),), self.__getstate__())  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        torch.nn.Module.__setstate__(self, state)
        self.__dict__["_modules"] = dict(self._modules)  # of a shallow copy: it may get another original

    def __copy__(self) -> OptimizedModule:
        made = type(self).__new__(type(self))
        made.__setstate__(self.__getstate__())
        return made

    def __deepcopy__(self, memo: dict) -> OptimizedModule:
        made = memo[id(self)] = type(self).__new__(type(self))
        made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return made


def _has_hooks(wrapper: OptimizedModule) -> bool:
    """Whether nn.Module's call would do more than to call `forward`."""
    own = wrapper.__dict__
    return bool(
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or own.get("_compiled_call_impl")
    )


def _compiled_call(wrapper: OptimizedModule) -> Callable:
    """The compiled form of what a call of the original runs now: its class may have got another `__call__`."""
    own, module = wrapper.__dict__, wrapper._orig_mod
    target = type(module).__call__
    kept = own.get("_pellucid_call")
    if kept is None or kept[0] is not module or kept[1] is not target:
        kept = own["_pellucid_call"] = (module, target, own["_pellucid_settings"](target, module))
    return kept[2]


def _be_of_torch_too() -> None:
    OptimizedModule.__bases__ = (sys.modules["torch._dynamo.eval_frame"].OptimizedModule,)


_after_import.call_after("torch._dynamo.eval_frame", _be_of_torch_too)
