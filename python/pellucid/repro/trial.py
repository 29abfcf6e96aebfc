"""One try: a module, compiled and run beside itself. It fails in some way, or it does not."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import linecache
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule

from pellucid import accuracy, config
from pellucid._fx import InputSource
from pellucid.backends import call as backend_call
from pellucid.backends.copies import same_random_numbers
from pellucid.errors import BackendCompilerFailed
from pellucid.repro.errors import AccuracyError
from pellucid.repro.inputs import Inputs
from pellucid.repro.printer import ModuleText

_ALIKE = 0.5  # of texts that are taken for one failure: difflib's ratio


@dataclass(frozen=True)
class Failure:
    """How a try failed."""

    kind: str
    """"exception", "accuracy", "crash" (the process ended by a signal) or "hang"."""
    type: str
    """Of the exception; of a crash the signal."""
    text: str
    """What the exception says."""

    def is_like(self, other: Failure | None) -> bool:
        """Whether it is the same failure: of one kind and type, with a first line that is more alike than not.

        Example:
            >>> Failure("exception", "ValueError", "size 3").is_like(Failure("exception", "ValueError", "size 4"))
            True
        """
        if other is None or (self.kind, self.type) != (other.kind, other.type):
            return False
        if self.kind != "exception":
            return True
        texts = [(each.text.splitlines() or [""])[0] for each in (self, other)]
        return texts[0] == texts[1] or difflib.SequenceMatcher(None, texts[0], texts[1]).ratio() > _ALIKE

    def __str__(self) -> str:
        if self.kind == "hang":
            return f"a hang ({self.text})"
        if self.kind == "crash":
            return f"a crash ({self.type})"
        return f"{self.type}: {(self.text.splitlines() or [''])[0]}".rstrip(": ")


def failure_of(error: BaseException) -> Failure:
    """What an exception of a run is; of BackendCompilerFailed what the backend raised.

    Example:
        >>> failure_of(ValueError("size 3"))
        Failure(kind='exception', type='ValueError', text='size 3')
    """
    if isinstance(error, BackendCompilerFailed):
        error = error.inner_exception
    kind = "accuracy" if isinstance(error, AccuracyError) else "exception"
    return Failure(kind, type(error).__name__, str(error))


@dataclass(frozen=True)
class Setup:
    """How a script's module is compiled, and what is held against what."""

    backend: str | Callable | None
    after: str = "dynamo"
    """"dynamo": the backend gets the module as it is captured. "aot": a compiler of AOTAutograd's graphs gets it as it is."""
    accuracy: bool = False
    dynamic: bool | None = None
    tolerance: float = 1e-3
    ignores_integers: bool = False
    forward_only: bool = False
    config: dict[str, Any] = field(default_factory=dict)
    """Options of pellucid that were set."""


_numbers = itertools.count()


def module_of(text: ModuleText, name: str = "Repro") -> torch.nn.Module:
    """The module that a text defines; its source can be looked up.

    Raises:
        Exception: whatever the text raises.

    Example:
        >>> module_of(text_of(gm))(*inputs)
    """
    file = f"<repro {next(_numbers)}>"
    source = "\n".join(["import torch", *(f"import {module}" for module in text.imports), text.classes, ""])
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": file}
    exec(compile(source, file, "exec"), scope)
    return scope[name]()


class Ran:
    """What one run gave: results, gradients and the inputs behind it, as copies."""

    def __init__(self, called: Callable, args: Sequence[Any], backward: bool) -> None:
        leaves = [_leaf_below(arg) for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
        results = torch.utils._pytree.tree_leaves(called(*args))
        self.results = [_copied(result) for result in results]
        self.gradients: list[Any] = []
        differentiable = [each for each in results if isinstance(each, torch.Tensor) and each.grad_fn is not None]
        if backward and differentiable:
            torch.autograd.backward(differentiable, [_weights(result) for result in differentiable])
            self.gradients = [_copied(leaf.grad) for leaf in leaves]
        self.inputs = [_copied(arg) for arg in args]


def _leaf_below(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or of an input that is no leaf the one that it was made of."""
    made_by: Any = tensor.grad_fn
    return tensor if made_by is None else made_by.next_functions[0][0].variable


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _weights(result: torch.Tensor) -> torch.Tensor:
    """What goes into the backward pass: other numbers for each element, so that a mix-up of elements shows."""
    with torch.no_grad():
        ramp = torch.linspace(0.5, 1.5, max(result.numel(), 1), device=result.device)[: result.numel()]
        return ramp.reshape(result.shape).to(result.dtype)


def run(called: Callable, args: Sequence[Any], backward: bool = True) -> Ran:
    """Forward, and backward if a result has something to go back to.

    Raises:
        Exception: whatever the run raises.

    Example:
        >>> run(torch.sin, [torch.ones(3, requires_grad=True)]).gradients
        [tensor([0.2702, 0.5403, 0.8105])]
    """
    with same_random_numbers(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        return Ran(called, args, backward and torch.is_grad_enabled())


def compare(wanted: Ran, got: Ran, reference: Ran | None, setup: Setup) -> None:
    """Holds one run against the other.

    Raises:
        AccuracyError: they differ.

    Example:
        >>> compare(run(f, args), run(compiled, other_args), None, Setup("eager"))
    """
    parts = ("results", "gradients", "inputs")
    names = {"results": "result", "gradients": "gradient", "inputs": "input behind the run"}
    for part in parts:
        values = getattr(wanted, part), getattr(got, part)
        if len(values[0]) != len(values[1]):
            raise AccuracyError(f"{len(values[1])} {part} instead of {len(values[0])}")
        of_reference = getattr(reference, part) if reference is not None else None
        for i, (a, b) in enumerate(zip(*values, strict=True)):
            found = accuracy.difference(
                a,
                b,
                of_reference[i] if of_reference is not None and i < len(of_reference) else None,
                tolerance=setup.tolerance,
                ignores_integers=setup.ignores_integers,
                place=f"{names[part]} {i}",
            )
            if found is not None:
                raise AccuracyError(found)


def reference_of(gm: GraphModule, inputs: Inputs, setup: Setup) -> Ran | None:
    """The run in float64; None: it cannot be had.

    Example:
        >>> reference_of(gm, Inputs.of(["x"], [torch.ones(3)]), Setup("eager")).results[0].dtype
        torch.float64
    """
    try:
        wide, args = accuracy.in_double(gm, inputs.make())
        return run(wide, args, setup.after == "dynamo" and not setup.forward_only)
    except Exception:
        return None


class Invalid(Exception):
    """The module fails without a compiler too."""


def check(
    gm: GraphModule,
    module: torch.nn.Module,
    inputs: Inputs,
    setup: Setup,
    ran_eagerly: Callable[[], None] = lambda: None,
) -> None:
    """Runs the module eagerly and compiled, in this process.

    Args:
        gm: the graph of the module.
        module: the module.
        inputs: made anew for each run.
        setup: how it is compiled.
        ran_eagerly: called behind the eager run.

    Raises:
        Invalid: the module raises when it runs eagerly.
        AccuracyError: the compiled run gives something else.
        Exception: what the backend or its graph raises.

    Example:
        >>> check(gm, module, inputs, Setup("relu_compile_error_TESTING_ONLY"))
        Traceback (most recent call last):
        ReluCompileError
    """
    backward = setup.after == "dynamo" and not setup.forward_only
    with _modes_kept():
        try:
            wanted = run(module, inputs.make(), backward)
        except Exception as error:
            raise Invalid(f"{type(error).__name__}: {error}") from error
    ran_eagerly()
    with _modes_kept():
        got = _compiled_run(gm, module, inputs, setup, backward)
    if setup.accuracy:
        with _modes_kept():
            try:
                compare(wanted, got, None, setup)
            except AccuracyError:
                reference = reference_of(gm, inputs, setup)
                if reference is None:
                    raise
                compare(wanted, got, reference, setup)


def _compiled_run(gm: GraphModule, module: torch.nn.Module, inputs: Inputs, setup: Setup, backward: bool) -> Ran:
    args = inputs.make()
    if setup.after == "aot":
        return run(compiled_graph(gm, args, setup.backend), args, backward=False)
    if any(isinstance(child, GraphModule) for child in module.children()):
        return run(_compiled_directly(gm, args, setup), args, backward)
    raised: list[Exception] = []
    backend = _watched(backend_call.resolve_backend(setup.backend), raised)  # type: ignore[arg-type]
    import pellucid

    options = {**setup.config, "suppress_errors": False, "repro_after": None, "verify_correctness": False}
    with config.patch({name: value for name, value in options.items() if name in config.options()}):
        compiled = pellucid.compile(module, backend=backend, dynamic=setup.dynamic)
        ran = run(compiled, args, backward)
    if raised:
        raise raised[0]
    return ran


def _compiled_directly(gm: GraphModule, args: Sequence[Any], setup: Setup) -> Callable:
    """Hands the graph itself to the backend, as if it had been captured: one with graphs inside of it would be captured as something
    else."""
    import torch._functorch.aot_autograd

    copied = GraphModule(gm, gm.graph.__deepcopy__({}))
    copied.__dict__.update(_param_name_to_source={}, _source_to_user_stacks={})
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
        _Described(copied).run(*fakes)
    return backend_call.call_backend(copied, args, setup.backend)  # type: ignore[arg-type]


class _Described(torch.fx.Interpreter):
    """Notes at each node what capture notes there."""

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        n.meta["example_value"] = value
        if n.op == "placeholder":
            n._dynamo_source = InputSource(f"L[{n.name!r}]")
        return value


def _watched(backend: backend_call.Backend, raised: list[Exception]) -> backend_call.Backend:
    """A compiled graph that raises is taken back (docs/design/failing-graphs.md): here that is the failure."""
    if backend.runs_as_captured:
        return backend

    def compiling(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Any:
        compiled = backend.function(gm, example_inputs, **options)
        if not callable(compiled):
            return compiled

        def running(*args: Any) -> Any:
            try:
                return compiled(*args)
            except Exception as error:
                raised.append(error)
                raise

        return running

    return replace(backend, function=compiling)


def compiled_graph(gm: GraphModule, args: Sequence[Any], compiler: str | Callable | None) -> Callable:
    """What a compiler of graphs behind AOTAutograd makes of a graph, as a function of its inputs.

    Args:
        gm: of ATen operators; the compiler gets a copy.
        args: its inputs.
        compiler: "inductor", or a callable `(gm, example_inputs) -> callable`.

    Raises:
        Exception: whatever the compiler raises.

    Example:
        >>> compiled_graph(gm, args, "inductor")(*args)
    """
    copied = GraphModule(gm, gm.graph.__deepcopy__({}))
    compiled = compiler_of(compiler)(copied, list(args))
    if getattr(compiled, "_boxed_call", False):
        return lambda *inputs: compiled(list(inputs))
    return compiled


def compiler_of(compiler: str | Callable | None) -> Callable:
    """A compiler of AOTAutograd's graphs by its name.

    Raises:
        ValueError: there is none of this name.
    """
    if callable(compiler):
        return compiler
    if compiler != "inductor":
        raise ValueError(f"no compiler of AOTAutograd's graphs is called {compiler!r}: there is 'inductor'")
    from torch._inductor.compile_fx import compile_fx_inner

    def compile_inner(gm: GraphModule, example_inputs: Sequence[Any]) -> Any:
        with torch.no_grad():
            return compile_fx_inner(gm, example_inputs)

    return compile_inner


@contextlib.contextmanager
def _modes_kept() -> Iterator[None]:
    """A graph may set modes of torch; one that lost the node that ends it leaves them set."""
    with torch.set_grad_enabled(torch.is_grad_enabled()), contextlib.ExitStack() as stack:
        for device in ("cpu", "cuda"):
            enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
            stack.callback(torch.set_autocast_dtype, device, dtype)
            stack.callback(torch.set_autocast_enabled, device, enabled)
        stack.callback(torch.clear_autocast_cache)
        yield


class Overtime(BaseException):
    """A try takes longer than it may. No Exception, which a backend could handle."""


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Python code that runs longer is interrupted; what a library does meanwhile is not. Of the main thread only.

    Args:
        seconds: None: as long as it takes.

    Raises:
        Overtime: it is over.

    Example:
        >>> with time_limit(60):
        ...     attempt(gm, module, inputs, setup)
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: Any) -> None:
        raise Overtime(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
