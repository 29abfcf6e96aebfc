"""The public functions."""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
import os
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from pellucid import _core, _late_guards, _recompiles, config, errors
from pellucid._module import OptimizedModule, _compiled_call
from pellucid._module import is_compiling as _torch_is_compiling
from pellucid.backends import Backend, lookup_backend, resolve_backend
from pellucid.backends import list_backends as _list_backends

CompiledFunction = _core.CompiledFunction

# Functions of these are not compiled on their own when the function that calls them could not be compiled.
_SKIPPED = [os.path.dirname(file) + os.sep for file in (torch.__file__, os.__file__, __file__)]
_core.set_skipped_directories(_SKIPPED)


def _call(self, /, *args, **kwargs):
    if _torch_is_compiling():
        return self._torchdynamo_orig_callable(*args, **kwargs)
    return self(*args, **kwargs)


# torch.compile reads this and goes on into the original function, where the native call would be the end of its graph.
_core.show_call_as(_call)


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    config: dict[str, Any] | None = None,
) -> Any:
    """Compiles a function or module; signature and meaning are torch.compile's.

    What cannot be compiled runs eagerly and correctly; `break_reasons` tells why.

    Args:
        model: a function, method, nn.Module, class with `__call__` or other callable. Without it a decorator is returned.
        fullgraph: a function that cannot be captured as one graph is an error.
        dynamic: None: an int, float or size that changes between calls is a constant of the first capture and open in the
            next one. True: those of arguments are open at once. False: each value is compiled anew. Sizes of 0 and 1
            are always apart. Backends that compile graphs for fixed sizes (all but eager in this version) get
            constants.
        backend: a name (`list_backends`) or a callable `(GraphModule, example_inputs) -> callable`.
        mode: a mode of the inductor backend; other backends get it as a keyword.
        options: options of the inductor backend; other backends get them as a keyword. "guard_filter_fn" is for any: a
            function from the list of guards of a region (as torch.compile gives them) to a list of bools, which says
            which are checked. A call that would fail on another one gets a wrong result, or worse.
        disable: return `model` as it is.
        config: options of `pellucid.config` by name: for calls of what is compiled here, for what they compile and for the
            functions that they call, which may have options of their own. Inlined into a capture of another compiled
            function it goes by that one's options.

    Raises:
        TypeError: `model` cannot be called, or an argument has the wrong type.
        ValueError: `mode` together with `options`, or values that inductor or an option of `config` does not know.
        AttributeError: there is no option of a name in `config`.
        InvalidBackend: there is no backend of that name.
        Unsupported: at a call, with `fullgraph=True` or under `error_on_graph_break(True)`.
        BackendCompilerFailed: at a call, when the backend raises, unless `config.suppress_errors` is set.

    Example:
        >>> @pellucid.compile(backend="eager")
        ... def f(x):
        ...     return x + 1
    """
    settings = Settings(fullgraph, dynamic, backend, mode, options, config)
    if model is None:
        return functools.partial(_compile_with, settings=settings, disabled=disable)
    return _compile_with(model, settings=settings, disabled=disable)


@dataclass
class Settings:
    """The arguments of `compile`, checked. `backend` as the user gave it, `resolved` as `_core` uses it."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str | Callable = "inductor"
    mode: str | None = None
    options: dict[str, Any] | None = None
    config: dict[str, Any] | None = None
    resolved: Backend = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_type("fullgraph", self.fullgraph, bool)
        _check_type("dynamic", self.dynamic, bool, type(None))
        _check_type("mode", self.mode, str, type(None))
        _check_type("options", self.options, dict, type(None))
        _check_type("config", self.config, dict, type(None))
        self.config = config.checked(self.config or {}) or None
        if not callable((self.options or {}).get("guard_filter_fn", len)):
            raise TypeError("guard_filter_fn must be callable")
        if not isinstance(self.backend, str) and not callable(self.backend):
            raise TypeError(f"backend must be a name or a callable, not {type(self.backend).__name__}")
        if self.mode is not None and self.options is not None:
            raise ValueError("mode and options cannot be given together: a mode is a set of options")
        self.resolved = _shared_backend(self)

    def __reduce__(self):
        return (Settings, (self.fullgraph, self.dynamic, self.backend, self.mode, self.options, self.config))

    def __deepcopy__(self, memo: dict) -> Settings:
        return self  # never changed; and a copy of a model goes to the same backend

    def __call__(self, function: Callable, instance: object = None) -> Callable:
        """Compiles one function. `instance`: each has a limit of its own, and takes over what fits it of the others' entries."""
        if isinstance(function, CompiledFunction):
            function = function._torchdynamo_orig_callable
        if not isinstance(function, types.FunctionType):
            function, instance = _calling(function), function
        options = self.config or {}
        return CompiledFunction(function, self.resolved, fullgraph=self.fullgraph, instance=instance, config=options)


def _check_type(name: str, value: object, *allowed: type) -> None:
    if not isinstance(value, allowed):
        names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in allowed)
        raise TypeError(f"{name} must be {names}, not {type(value).__name__}")


# Equal settings share one Backend object: entries belong to it (row B05).
_shared: weakref.WeakValueDictionary[tuple, Backend] = weakref.WeakValueDictionary()


def _shared_backend(settings: Settings) -> Backend:
    options = tuple(sorted(settings.options.items())) if settings.options else ()
    own = tuple(sorted(settings.config.items())) if settings.config else ()  # what is captured depends on them
    key = (settings.backend, settings.mode, options, settings.dynamic, own)
    try:
        found = _shared.get(key)
    except TypeError:  # something that cannot be hashed
        return _resolve(settings)
    if found is None:
        found = _shared[key] = _resolve(settings)
    return found


def _resolve(settings: Settings) -> Backend:
    backend = _resolve_name(settings)
    static, dynamic = settings.dynamic is False, settings.dynamic is True
    filter_fn = (settings.options or {}).get("guard_filter_fn")
    is_as_wanted = (backend.static, backend.dynamic, backend.guard_filter_fn) == (static, dynamic, filter_fn)
    if (
        settings.config or not is_as_wanted
    ):  # with options of its own it has entries of its own, which go by the backend
        backend = replace(backend, static=static, dynamic=dynamic, guard_filter_fn=filter_fn)
    return backend


def _resolve_name(settings: Settings) -> Backend:
    options = {name: value for name, value in (settings.options or {}).items() if name != "guard_filter_fn"} or None
    if settings.backend == "inductor" and not settings.mode and not options:
        # Inductor is imported at the first compile, not here.
        return Backend(
            "inductor", lookup_backend("inductor"), {"dynamic": settings.dynamic}, aot=True, takes_symbols=True
        )
    try:
        return resolve_backend(settings.backend, mode=settings.mode, options=options, dynamic=settings.dynamic)
    except errors.InvalidBackend:
        raise
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def _compile_with(target: Any, *, settings: Settings, disabled: bool) -> Any:
    if disabled:
        return target
    if isinstance(target, OptimizedModule):
        target = target._orig_mod
    if isinstance(target, torch.nn.Module):
        if isinstance(target, torch.jit.ScriptModule):
            raise TypeError("a torch.jit.ScriptModule is compiled already: pass the eager module")
        return OptimizedModule(target, settings)
    if isinstance(target, (staticmethod, classmethod)):
        return type(target)(_compile_with(target.__func__, settings=settings, disabled=False))
    if inspect.isclass(target):
        return _compile_class(target, settings)
    if not callable(target):
        raise TypeError(f"pellucid.compile needs a function, a module or another callable, not {type(target).__name__}")
    if isinstance(target, types.MethodType):
        instance = target.__self__
        function = settings(target.__func__, instance if isinstance(instance, torch.nn.Module) else None)
        return types.MethodType(function, instance)
    return settings(target)


def _compile_class(cls: type, settings: Settings) -> type:
    """As torch.compile: calls of the instances are compiled."""
    call = next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)
    if call is None:
        raise TypeError(f"instances of {cls.__qualname__} cannot be called: there is nothing to compile")
    cls.__call__ = settings(call)  # type: ignore[method-assign]
    return cls


def _calling(target: Callable) -> types.FunctionType:
    """A Python function that calls `target`, for callables that are none."""

    def call(*args, **kwargs):
        return target(*args, **kwargs)

    for name in functools.WRAPPER_ASSIGNMENTS:
        value = getattr(target, name, None)
        if isinstance(value, str):
            setattr(call, name, value)
    call.__wrapped__ = target  # type: ignore[attr-defined]
    assert isinstance(call, types.FunctionType)
    return call


def reset() -> None:
    """Drops all compiled code and everything remembered of captures: the next calls compile anew.

    Example:
        >>> pellucid.reset()
    """
    _core.reset()
    errors._stops.clear()
    _late_guards.CHANGED.clear()


def disable(fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A wrapper of `fn` that is never captured: neither is what it calls, unless `recursive=False`.

    As a decorator, bare or with arguments, or as a call. `fn` itself stays as it is. For an nn.Module the calls of its class
    are not affected, only those through the wrapper.

    Raises:
        TypeError: `fn` cannot be called.

    Example:
        >>> @pellucid.disable
        ... def log(x):
        ...     print(x)
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise TypeError(f"pellucid.disable needs a callable, not {type(fn).__name__}")

    @functools.wraps(fn, updated=())
    def disabled(*args, **kwargs):
        return fn(*args, **kwargs)

    # The marks that torch.compiler.disable leaves: both compilers end a graph at them.
    marks = {"disable": True, "disable_msg": reason, "disable_recursive": recursive}
    disabled.__dict__.update({f"_torchdynamo_{name}": value for name, value in marks.items()})
    return disabled


def graph_break(msg: str = "") -> None:
    """Ends the graph here when captured; with `fullgraph=True` that is an error. Does nothing in plain Python.

    Args:
        msg: is part of the reason that `break_reasons`, `explain` and the error show.

    Example:
        >>> pellucid.graph_break("the next part is not to be captured")
    """


class error_on_graph_break(contextlib.ContextDecorator):
    """Whether a graph break is an error (`errors.Unsupported`), in a `with` block or a decorated function.

    It holds for what runs inside the block, functions called there included, until a block in it says otherwise; it may stand
    inside or around compiled functions. With `fullgraph=True` every break is an error, whatever a block says. A block
    with True allows more than one graph: breaks before and behind it are none of its business.

    Example:
        >>> @pellucid.compile
        ... def f(x):
        ...     print("a break is allowed here")
        ...     with pellucid.error_on_graph_break(True):
        ...         return hot_loop(x)
    """

    def __init__(self, error: bool) -> None:
        self.error = bool(error)

    def __enter__(self) -> None:
        _core.open_break_block(self.error)

    def __exit__(self, *exc_info: object) -> None:
        _core.close_break_block()


class set_stance:
    """What calls of compiled functions do, in the whole process; as a function, in a `with` block or as a decorator.

    The stance that torch.compiler.set_stance has set counts as well, as long as this one is the default.

    Args:
        stance: "default": they are compiled. "force_eager": they run eagerly. "eager_on_recompile": one that fits no
            compiled version runs eagerly. "fail_on_recompile": it raises errors.RecompileError. "eager_then_compile":
            the first call of each function runs eagerly, and sizes and numbers in which the second differs from it are
            open at once. "aot_eager_then_compile": the same, but that the first call runs with the backend aot_eager.
        skip_guard_eval_unsafe: of the guards only those are checked on which calls have failed before. A call that
            would fail on another one gets the result of the wrong version, or worse.
        force_backend: the backend of all functions; with "default" only.

    Raises:
        ValueError: there is no such stance, or it goes with no other backend.
        TypeError: an argument has the wrong type.

    Example:
        >>> with pellucid.set_stance("fail_on_recompile"):
        ...     serve(model)
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable | None = None,
    ) -> None:
        _check_type("stance", stance, str)
        _check_type("skip_guard_eval_unsafe", skip_guard_eval_unsafe, bool)
        if force_backend is not None:
            if stance != "default":
                raise ValueError(f'force_backend goes with the stance "default" only, not with {stance!r}')
            Settings(backend=force_backend)  # raises where there is none
        self._wanted = (stance, skip_guard_eval_unsafe, force_backend)
        self._before = _core.set_stance(*self._wanted)

    def __call__(self, function: Callable) -> Callable:
        _core.set_stance(*self._before)  # it is for the calls of this function only
        stance, skips, backend = self._wanted

        @functools.wraps(function)
        def in_stance(*args, **kwargs):
            with set_stance(stance, skip_guard_eval_unsafe=skips, force_backend=backend):
                return function(*args, **kwargs)

        return in_stance

    def __enter__(self) -> None:
        _core.set_stance(*self._wanted)

    def __exit__(self, *exc_info: object) -> None:
        _core.set_stance(*self._before)


def _forced_backend(own: Backend, forced: str | Callable) -> Backend:
    """Called by `_core`: what `set_stance(force_backend=...)` makes of the backend of a function."""
    dynamic = True if own.dynamic else False if own.static else None
    options = {"guard_filter_fn": own.guard_filter_fn} if own.guard_filter_fn is not None else None
    return Settings(dynamic=dynamic, backend=forced, options=options).resolved


def is_compiling() -> bool:
    """True in code that is captured, exported or called by a backend while it compiles; else False.

    Example:
        >>> y = x if pellucid.is_compiling() else check(x)
    """
    return _core.is_compiling() or _torch_is_compiling()


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Names for `compile(backend=...)`, without the debug and experimental ones; all with None.

    Example:
        >>> "inductor" in pellucid.list_backends()
        True
    """
    return _list_backends(exclude_tags)


def explain(fn: Callable, *args: Any, **kwargs: Any) -> Any:
    """What capture makes of a function: `explain(fn)(*inputs)` runs it once and tells graphs, breaks, guards and times.

    All compiled code is dropped before and after, as `reset` does. The time of each line is taken, so capture takes about
    twice as long as otherwise. `pellucid.ExplainWithBackend` tells of any number of calls.

    Returns:
        A function of the arguments of `fn` that gives an `ExplainOutput`: `text()`, `to_html(path)`, `to_dict()`.

    Raises:
        TypeError: `fn` cannot be called.

    Example:
        >>> report = pellucid.explain(f)(torch.ones(3))
        >>> print(report.text())
        >>> report.to_html("report.html")
    """
    from pellucid._explain import explain as run

    return run(fn, *args, **kwargs)


def show(fn: Callable) -> Callable[..., Any]:
    """Every stage of a compiled function as text: `show(fn)(*inputs)` calls it once with backend "eager" and gives a report.

    For each region: the bytecode, the graph, the guards, the effects on objects from outside, and the emitted code. The
    report (`str()`, `.text(only=["graph"])`, `.to_dict()`, `.regions`, `.result`) is the same in every process. What is
    compiled already stays; the call is a real one, with its effects. `python -m pellucid show file.py:function` is the same
    from a shell.

    Raises:
        TypeError: `fn` cannot be called.
        Exception: whatever the call raises.

    Example:
        >>> print(pellucid.show(f)(torch.ones(3)))
        >>> print(pellucid.show(f)(torch.ones(3)).text(only=["guards", "code"]))
    """
    from pellucid._show import show as run

    return run(fn)


def step(fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """Records `fn(*args, **kwargs)`, compiled with backend "eager": each instruction of each capture, to go through forward and back.

    The call is a real one, with its effects. What it gives has `prompt()`, which asks for commands (or takes them:
    `prompt("n; n; stack")`), `text(step, parts)`, `to_dict()`, `to_html(path)`, the `steps` and `captures` themselves and the
    `result`. `python -m pellucid step program.py` is the same from a shell; docs/step.md has all of it.

    Raises:
        TypeError: `fn` cannot be called.
        Exception: whatever the call raises.

    Example:
        >>> steps = pellucid.step(f, torch.ones(3))
        >>> steps.prompt()
        >>> steps.to_html("steps.html")
    """
    from pellucid._step.run import step as run

    return run(fn, args, kwargs)


def triage(fn: Callable, /, *args: Any, backend: str | None = None, **kwargs: Any) -> Any:
    """Finds the first stage of the compiler, and the first graph, at which `fn(*args, **kwargs)` is not what it is eagerly.

    The function runs twice eagerly and then with backends that go deeper and deeper (docs/backends.md), each time with copies of
    the arguments; results, gradients of their sum, arguments behind the call, what is printed and exceptions are compared. What
    it reads of modules and tensors in its closure and globals is put back. All compiled code is dropped, as `reset` does.

    Args:
        fn: a function or module, compiled or not.
        args: its arguments.
        backend: only this backend or choice by graph number, with the traceback and the graphs: what the report says to type
            next.
        kwargs: more arguments.

    Returns:
        An object with `stage`, `graph`, `problem`, `next`, `steps`; `str()` of it is the report.

    Raises:
        TypeError: `fn` cannot be called.
        InvalidBackend: there is no such backend.

    Example:
        >>> print(pellucid.triage(f, x))
        >>> print(pellucid.triage(f, x, backend="2:inductor;else:eager"))
    """
    from pellucid._triage import of_function

    if not callable(fn):
        raise TypeError(f"pellucid.triage needs a callable, not {type(fn).__name__}")
    if backend is not None:
        lookup_backend(backend)
    return of_function(fn, args, kwargs, backend)


def export(
    model: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    strict: bool = True,
    outside_tensors: bool = True,
) -> tuple[torch.fx.GraphModule, Any]:
    """One graph module that does what `model(*args, **kwargs)` does, or an error that names the line where that is not to be had.

    Its inputs are the leaves (`torch.utils._pytree`) of the arguments, used or not, in their order; parameters, buffers and other tensors
    that the program reads are attributes of it, under the names that they have in `model`. It is called as `model` is, and gives
    what `model` gives. Nothing runs while it is made (docs/export.md).

    Args:
        model: a module, function or method, compiled or not.
        args: arguments for it.
        kwargs: its keyword arguments.
        dynamic: None: sizes are constants but those that are marked (`mark_dynamic`). True: all that can be are open, ints of
            arguments too. False: none.
        strict: changes of objects that the program did not make are an error. Otherwise they are left out, with a warning.
        outside_tensors: False: a tensor that is neither an argument nor a parameter or buffer of `model` is an error.

    Returns:
        `(graph_module, guards)`. The guards say for which arguments, and for which globals and attributes, the graph is right.

    Raises:
        TypeError: `model` is nothing that can be exported.
        Unsupported: a step of the program cannot be captured.
        ExportError: the program reads or returns something that a graph module cannot have as input, attribute or output.
        ConstraintViolation: a marked size has to be a constant; all of them are listed.

    Example:
        >>> gm, guards = pellucid.export(torch.nn.Linear(3, 4), torch.ones(2, 3))
        >>> gm(torch.zeros(2, 3)).shape
        torch.Size([2, 4])
    """
    from pellucid._export import export as run

    return run(model, args, dict(kwargs or {}), dynamic, strict, outside_tensors)


def _compiled_function_of(compiled: Any) -> Any:
    if isinstance(compiled, OptimizedModule):
        return _compiled_call(compiled)
    if isinstance(compiled, types.MethodType):
        compiled = compiled.__func__
    if not isinstance(compiled, CompiledFunction):
        raise TypeError(f"expected something compiled by pellucid, not {type(compiled).__name__}")
    return compiled


def break_reasons(compiled: Any = None) -> list[errors.BreakRecord]:
    """Where captures stopped and why, oldest first: of one compiled function or module, or of all since `reset`.

    Raises:
        TypeError: `compiled` was not made by `pellucid.compile`.

    Example:
        >>> for record in pellucid.break_reasons(f):
        ...     print(record)
    """
    if compiled is None:
        return list(errors._stops)
    return _core.break_reasons(_compiled_function_of(compiled))


def cache_entries(target: Any) -> list[dict[str, Any]]:
    """The entries of a compiled function or module, the one used last first: code, function, guards, scope and hits.

    The guards are Python expressions. All of them hold, evaluated with `scope` and the locals of a call as `L`, when the
    entry fits the call. (`G` are the globals, `F` the cells of the closure, `C` constants, `math` is the module; `HOLDS`
    asks the core.)

    Args:
        target: what `pellucid.compile` gave; or a function or code object: the entries of all that was compiled from it.

    Raises:
        TypeError: `target` is nothing of the kind.

    Example:
        >>> (entry,) = pellucid.cache_entries(f)
        >>> all(eval(guard, {**entry["scope"], "L": {"x": torch.ones(3)}}) for guard in entry["guards"])
        True
    """
    of_code = isinstance(target, (types.FunctionType, types.CodeType))
    return [{**entry} for entry in _core.cache_entries(target if of_code else _compiled_function_of(target))]


def recompile_reasons(compiled: Any = None) -> list[_recompiles.Recompile]:
    """Why functions were compiled again, oldest first: of one compiled function or module, or of all that there are.

    Each record has every guard that failed, with the old and the new value, the line that made it matter and what would
    avoid it, and what the recompile cost. The logger "pellucid" tells the same at level INFO.

    Raises:
        TypeError: `compiled` was not made by `pellucid.compile`.

    Example:
        >>> for record in pellucid.recompile_reasons(f):
        ...     print(record)
    """
    if compiled is None:
        return list(_recompiles._all.values())
    return _core.recompiles(_compiled_function_of(compiled))


def guard_failures(compiled: Any) -> list[str]:
    """Why calls did not fit the entries that there were, oldest first: one text for each entry, a line for each guard.

    Raises:
        TypeError: `compiled` was not made by `pellucid.compile`.

    Example:
        >>> pellucid.guard_failures(f)
        ["TENSOR_MATCH L['x']: expected f32[2] cpu requires_grad=False, found size mismatch at index 0, expected 2, ..."]
    """
    return _core.guard_failures(_compiled_function_of(compiled))


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """What compiling took in this process, phase by phase, and function by function: since the last `compile_times.clear()`.

    The phases are "capture", "finish_graph", "guards", "graph_module", "backend" and "emit"; "compile" is the whole.

    Args:
        repr: "str": a table. "csv": the names of the phases, and for each its seconds as text.
        aggregate: one sum for each phase, instead of one value for each time.

    Raises:
        ValueError: `repr` is something else.

    Example:
        >>> print(pellucid.compile_times())
        >>> headers, values = pellucid.compile_times("csv", aggregate=True)
    """
    from pellucid._compile_times import compile_times as run

    return run(repr, aggregate)


compile_times.clear = _core.clear_timings  # type: ignore[attr-defined]


class _Counters(Mapping[str, "collections.Counter[str]"]):
    """Totals since the last `clear`: all of them when called; by group as torch._dynamo.utils.counters has them.

    The groups are "stats" (calls_captured, unique_graphs), "frames" (total, ok), "graph_break" (how often captures stopped,
    by reason) and "recompiles" (total, limit_hits).

    Example:
        >>> pellucid.counters()["ops"]
        12
        >>> pellucid.counters["stats"]["unique_graphs"]
        2
        >>> pellucid.counters.clear()
    """

    def __call__(self) -> dict[str, int]:
        return _core.counters()

    def clear(self) -> None:
        _core.reset_counters()
        errors._stop_counts.clear()

    def __getitem__(self, group: str) -> collections.Counter[str]:
        return self._groups()[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups())

    def __len__(self) -> int:
        return len(self._groups())

    def _groups(self) -> dict[str, collections.Counter[str]]:
        totals = self()
        counter = collections.Counter
        return {
            "stats": counter(calls_captured=totals["ops"], unique_graphs=totals["graphs"]),
            "frames": counter(total=totals["captures"], ok=totals["entries"]),
            "graph_break": counter(errors._stop_counts),
            "recompiles": counter(total=totals["recompiles"], limit_hits=totals["limit_hits"]),
        }


counters = _Counters()
