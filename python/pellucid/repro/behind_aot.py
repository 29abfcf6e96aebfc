"""`config.repro_after = "aot"`: graphs of ATen operators, on their way from AOTAutograd to a compiler."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

from pellucid import config
from pellucid.errors import GraphFailed
from pellucid.repro import automatic
from pellucid.repro.inputs import Inputs
from pellucid.repro.script import Script, config_lines, script_of
from pellucid.repro.trial import Setup, compare, failure_of, reference_of, run

if TYPE_CHECKING:
    from pellucid.backends.call import Backend

_COMPILERS = ("fw_compiler", "bw_compiler", "inference_compiler")


@contextlib.contextmanager
def watching(backend: Backend) -> Iterator[None]:
    """While the backend compiles, what AOTAutograd hands to compilers is watched. Patches torch for the whole process, with its
    compile lock held. AOTAutograd's cache, which knows of no compiler, is off.

    Example:
        >>> with watching(backend):
        ...     compiled = backend(gm, example_inputs)
    """
    setup = automatic.settings("aot")
    if setup is None or not _may_use_aot(backend):
        yield
        return
    from torch._dynamo import config as dynamo_config
    from torch._dynamo.backends import common
    from torch._dynamo.convert_frame import compile_lock
    from torch._functorch import aot_autograd
    from torch._functorch import config as functorch_config

    # Torch's own scripts of such failures would come on top.
    settings = list(config_lines())  # before compilers patch them
    quiet = dynamo_config.patch(repro_after=None)
    original = aot_autograd.aot_module_simplified

    def watched(mod: Any, args: Any, fw_compiler: Callable, *more: Any, **options: Any) -> Any:
        name = automatic.name_of_backend(backend)
        given = {"fw_compiler": fw_compiler, **options}
        for each in _COMPILERS:
            if given.get(each) is not None:
                given[each] = _watched_compiler(given[each], name, setup, settings)
        if given.get("bw_compiler") is None and not more:
            given["bw_compiler"] = given["fw_compiler"]
        if given.get("inference_compiler") is None:
            given["inference_compiler"] = given["fw_compiler"]
        return original(mod, args, given.pop("fw_compiler"), *more, **given)

    with (
        compile_lock,
        quiet,
        functorch_config.patch(enable_autograd_cache=False),
        mock.patch.object(aot_autograd, "aot_module_simplified", watched),
        mock.patch.object(common, "aot_module_simplified", watched),
    ):
        yield


def _may_use_aot(backend: Backend) -> bool:
    from pellucid.backends.registry import aot_is_loaded

    return backend.aot or aot_is_loaded()


def _watched_compiler(compiler: Callable, name: str | None, setup: Setup, settings: list[str]) -> Callable:
    known = name if name == "inductor" else None
    inner = compiler
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    hint = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"

    def compile_watched(gm: GraphModule, example_inputs: Sequence[Any], *args: Any, **options: Any) -> Any:
        told = "" if known else f"{hint}, a compiler of AOTAutograd's graphs"
        watch = _Watch(gm, replace(setup, backend=known), told, settings)
        if config.repro_level == 3:  # type: ignore[attr-defined]
            watch.write(example_inputs, "the graph as it came to the compiler, before it was compiled")
        try:
            compiled = compiler(gm, example_inputs, *args, **options)
        except Exception as error:
            watch.write(example_inputs, str(failure_of(error)))
            automatic.mark(error, watch.file)
            raise
        return watch.tried_out(compiled)

    return compile_watched


class _Watch:
    """One graph of ATen operators."""

    def __init__(self, gm: GraphModule, setup: Setup, hint: str, settings: list[str]) -> None:
        self._settings = settings
        self._gm = GraphModule(gm, gm.graph.__deepcopy__({}))
        self._setup = setup
        self._hint = hint
        self._is_tried = False
        self.file: Path | None = None

    def write(self, inputs: Sequence[Any], title: str) -> None:
        if self.file is None:
            with _disable_current_modes():  # AOTAutograd's mode of fakes
                self.file = automatic.written(lambda: self._script(inputs, title))

    def _script(self, inputs: Sequence[Any], title: str) -> Script:
        script = script_of(self._gm, [_real(each) for each in inputs], self._setup, title=title, hint=self._hint)
        script.settings = self._settings
        return script

    def tried_out(self, compiled: Any) -> Any:
        """Its first run, which has real inputs, is watched: what it raises, and at level 4 what it gives."""
        is_boxed = getattr(compiled, "_boxed_call", False)

        def run_watched(*args: Any) -> Any:
            inputs = list(args[0]) if is_boxed else list(args)
            if not self._is_tried:
                self._is_tried = True
                self._try_out(compiled, is_boxed, inputs)
            return compiled(args[0]) if is_boxed else compiled(*args)

        if is_boxed:
            run_watched._boxed_call = True  # type: ignore[attr-defined]
        return run_watched

    def _try_out(self, compiled: Callable, is_boxed: bool, inputs: list[Any]) -> None:
        saved = Inputs.of([f"input {i}" for i in range(len(inputs))], inputs)
        with torch.no_grad():
            try:
                wanted = run(self._gm, saved.make(), backward=False)
            except Exception:
                return  # the error is the program's own
            args = saved.make()
            try:
                got = run(lambda *own: compiled(list(own)) if is_boxed else compiled(*own), args, backward=False)
                if self._setup.accuracy:
                    compare(wanted, got, reference_of(self._gm, saved, self._setup), self._setup)
            except Exception as error:
                self.write(inputs, str(failure_of(error)))
                found = GraphFailed(_what_failed(error, self.file))
                automatic.mark(found, self.file)
                raise found from error


def _what_failed(error: Exception, file: Path | None) -> str:
    script = "" if file is None else f"\nThe failure as a script: python {file}"
    return f"a graph behind AOTAutograd failed at its first run: {failure_of(error)}{script}"


def _real(value: Any) -> Any:
    """While AOTAutograd traces there are fakes only: of one a tensor of its layout, with random values."""
    from torch._subclasses.fake_tensor import FakeTensor

    if not isinstance(value, FakeTensor):
        return value
    sizes, strides = [[int(_hint(n)) for n in layout] for layout in (value.size(), value.stride())]
    made = torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device)
    return made.normal_() if made.is_floating_point() else made.zero_()


def _hint(length: Any) -> int:
    return length if isinstance(length, int) else length.node.hint
