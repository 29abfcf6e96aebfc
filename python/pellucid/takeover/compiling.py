"""torch.compile, and what torch._dynamo.optimize gives, by pellucid."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from pellucid import api, errors
from pellucid.takeover import higher_order
from pellucid.takeover.once import warn_once
from pellucid.takeover.switch import is_installed


def torch_compile(original: Callable) -> Callable:
    """Stands in for torch.compile. A function of somebody else in its place stays: it goes on into torch.compile's own."""
    code = getattr(original, "__code__", None)
    if code is None or code.co_filename != torch.__file__:
        return original

    @functools.wraps(original)
    def compile(
        model: Any = None,
        *,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        backend: str | Callable | None = None,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
        disable: bool = False,
        **rare: Any,
    ) -> Any:
        ignored = torch.compiler.is_exporting() and not higher_order.is_asking()
        if not is_installed() or ignored or (options or {}).get("use_aoti"):
            more = {"fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode, "options": options}
            return original(model, disable=disable, **more, **rare)
        if mode is not None and options is not None:
            raise RuntimeError(
                "Either mode or options can be specified, but both can't be specified at the same time: a mode is a set of"
                " options"
            )
        settings = api.Settings(fullgraph, dynamic, backend or _default_backend(), mode, options)
        compile_one = _Compiles(settings, disabled=disable or is_disabled(), **rare)
        return compile_one if model is None else compile_one(model)

    return compile


def is_disabled() -> bool:
    """The environment, or torch's option `disable`, asks for no compiling at all."""
    options = sys.modules.get("torch._dynamo.config")
    if options is not None and options.disable:
        return True
    return any(os.environ.get(name) == "1" for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"))


def _default_backend() -> Any:
    registry = sys.modules.get("torch._dynamo.backends.registry")  # else nobody can have set another
    return "inductor" if registry is None else registry.get_default_backend()


class _Compiles:
    """A decorator: what torch.compile gives without a model."""

    def __init__(
        self,
        settings: api.Settings,
        *,
        disabled: bool = False,
        recompile_limit: int | None = None,
        isolate_recompiles: bool = False,
        shapes_spec: Any = None,
        name: str | None = None,
        error_on_graph_break: bool | None = None,
    ) -> None:
        if recompile_limit is not None:
            settings = replace(settings, config={**(settings.config or {}), "recompile_limit": recompile_limit})
        if isolate_recompiles:
            # Entries belong to a backend object: an own one has its own, with a limit of their own.
            settings = replace(settings)
            settings.resolved = replace(settings.resolved)
        if shapes_spec is not None:
            warn_once("shapes_spec= of torch.compile is not known to pellucid: sizes are open when they have changed")
        self.settings, self.disabled, self.error_on_graph_break = settings, disabled, error_on_graph_break

    def __call__(self, target: Any) -> Any:
        if target is None:
            raise RuntimeError("Model can't be None")
        if self.disabled:
            return target
        if higher_order.is_asking():
            return higher_order.run_eagerly(target)
        compiled = self._compiled(innermost(target))
        getattr(compiled, "__func__", compiled)._is_torch_compile = True
        return compiled

    def _compiled(self, target: Any) -> Any:
        if self.error_on_graph_break is None:
            return api._compile_with(target, settings=self.settings, disabled=False)
        compile_function: Any = self._with_errors
        if isinstance(target, torch.nn.Module):
            return api.OptimizedModule(target, compile_function)
        return compile_function(target)

    def _with_errors(self, function: Callable, instance: object = None) -> Callable:
        compiled = self.settings(function, instance)
        return api.error_on_graph_break(bool(self.error_on_graph_break))(compiled)


def innermost(target: Any) -> Any:
    """What is below wrappers of either compiler: a function that is disabled or compiled is compiled for itself."""
    frames = sys.modules.get("torch._dynamo.eval_frame")
    while True:
        if frames is not None and type(target) is frames.OptimizedModule:  # its attribute is `forward` alone
            target = target._orig_mod
        elif getattr(target, "_torchdynamo_wrapper_id", None) == id(target):
            target = target._torchdynamo_orig_callable
        else:
            return target


def optimize_context(original: type) -> type:
    """Stands in for torch._dynamo.eval_frame.OptimizeContext, which torch._dynamo.optimize makes and gives."""

    class OptimizeContext(_Compiles):
        """Compiles what it is called with. `backend` comes with torch._dynamo's own callbacks around it."""

        def __new__(cls, callback: Any, *args: Any, **kwargs: Any) -> Any:
            return super().__new__(cls) if is_installed() else original(callback, *args, **kwargs)

        def __init__(
            self,
            callback: Any,
            backend_ctx_ctor: Any = None,
            first_ctx: bool = False,
            *,
            fullgraph: bool = False,
            export: bool = False,
            dynamic: bool | None = None,
            hooks: Any = None,
            compiler_config: Any = None,
            rebuild_ctx: Any = None,
            package: Any = None,
            **more: Any,
        ) -> None:
            if export:
                raise errors.CaptureTakenOver(_NO_EXPORT)
            for hook in ("guard_export_fn", "guard_fail_fn"):
                if getattr(hooks, hook, None) is not None:
                    warn_once(f"{hook} of torch._dynamo.optimize is not called by pellucid")
            filter_fn = getattr(hooks, "guard_filter_fn", None)
            settings = settings_of(callback, fullgraph, dynamic, filter_fn)
            super().__init__(settings, disabled=is_disabled(), **more)

        def __enter__(self) -> None:
            raise RuntimeError("torch._dynamo.optimize(...) is a decorator; as a context manager it is not supported")

        def __exit__(self, *exc_info: object) -> None:
            pass

    return OptimizeContext


_NO_EXPORT = (
    "torch._dynamo.export captures with torch._dynamo, in whose place pellucid is installed. Use torch.export.export with"
    " strict=False, or call pellucid.uninstall() around it."
)


def settings_of(callback: Any, fullgraph: bool, dynamic: bool | None, guard_filter_fn: Callable | None) -> api.Settings:
    """From the callback of torch._dynamo: what it would compile with."""
    backend, given = callback, {}
    while hasattr(backend, "_torchdynamo_orig_backend"):
        backend = backend._torchdynamo_orig_backend
    if type(backend) is torch._TorchCompileWrapper:
        backend, given = backend.compiler_fn, dict(backend.kwargs)
    options = given.get("options")
    if guard_filter_fn is not None:
        options = {**(options or {}), "guard_filter_fn": guard_filter_fn}
    mode = given.get("mode")
    if mode is not None and options is not None:  # together they are refused; the mode is a keyword of this backend
        backend, mode = functools.partial(backend, mode=mode), None
    return api.Settings(fullgraph, dynamic, _registered_name(backend), mode, options)


def _registered_name(backend: Any) -> Any:
    """The name of a backend of torch's registry, of which pellucid may have one of its own."""
    from torch._dynamo.backends import registry

    name = getattr(backend, "__name__", None)
    return name if isinstance(name, str) and registry._COMPILER_FNS.get(name) is backend else backend


def run(original: Callable) -> Callable:
    """Stands in for torch._dynamo.run: what is compiled runs compiled, nothing is compiled anew."""

    @functools.wraps(original)
    def run_only(fn: Any = None) -> Any:
        if not is_installed():
            return original(fn)
        if fn is None:
            return run_only
        if not isinstance(fn, api.OptimizedModule):
            return _without_compiling(fn)
        compile_function = fn.__dict__["_pellucid_settings"]
        return api.OptimizedModule(fn._orig_mod, lambda *what: _without_compiling(compile_function(*what)))

    return run_only


def _without_compiling(fn: Callable) -> Callable:
    return api.set_stance("eager_on_recompile")(fn)
