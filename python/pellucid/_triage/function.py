"""Runs of one function, in this process."""

from __future__ import annotations

import contextlib
import copy
import io
import random
import time
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

import pellucid
from pellucid._triage.outcome import Outcome, kept
from pellucid._triage.recorder import Recorder, complaints
from pellucid.backends.copies import copies, same_random_numbers, unchanged


class FunctionRunner:
    """Calls `fn(*args, **kwargs)` with copies of the arguments; what it reads of modules and tensors elsewhere is put back."""

    def __init__(self, fn: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
        self._fn = _original(fn)
        self._args = args
        self._kwargs = kwargs
        self.minify: str | None = None
        self.command = f"pellucid.triage({getattr(self._fn, '__name__', 'fn')}, …, backend={{backend!r}})"

    def run(self, backend: str | None) -> Outcome:
        """One run: compiled with this backend, or eagerly without one."""
        pellucid.reset()
        recorder = None if backend is None else Recorder(backend, first=_next_number())
        fn, args, kwargs = self._copied()
        called = fn if recorder is None else pellucid.compile(fn, backend=recorder)
        outcome = Outcome(graphs=[] if recorder is None else recorder.graphs)
        printed = io.StringIO()
        start = time.perf_counter()
        with self._put_back(), complaints() as outcome.complaints, contextlib.redirect_stdout(printed):
            try:
                result = called(*args, **kwargs)
                outcome.results = [("the result", kept(result))]
                outcome.results += _gradients(result, fn, args, kwargs)
                outcome.results.append(("the arguments behind the call", kept((args, kwargs))))
            except Exception as error:
                outcome.error = f"{type(error).__name__}: {error}"
                outcome.traceback = traceback.format_exc()
        outcome.seconds = time.perf_counter() - start
        outcome.printed = printed.getvalue()
        pellucid.reset()
        return outcome

    def _copied(self) -> tuple[Callable, tuple, dict[str, Any]]:
        tensors = [leaf for leaf in torch.utils._pytree.tree_leaves((self._args, self._kwargs)) if _is_tensor(leaf)]
        memo = {id(tensor): copy for tensor, copy in zip(tensors, copies(tensors), strict=True)}
        return copy.deepcopy((self._fn, self._args, self._kwargs), memo)

    @contextlib.contextmanager
    def _put_back(self) -> Iterator[None]:
        state = random.getstate()
        try:
            with unchanged(list(_tensors_outside(self._fn))), same_random_numbers():
                yield
        finally:
            random.setstate(state)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _original(fn: Callable) -> Callable:
    if isinstance(fn, pellucid.api.OptimizedModule):
        return fn._orig_mod
    return getattr(fn, "_torchdynamo_orig_callable", fn)


def _next_number() -> int:
    """The number that the next graph will have."""
    probe = Recorder("eager")
    pellucid.compile(lambda x: x + 1, backend=probe)(torch.zeros(1))
    return probe.graphs[0].number + 1


def _tensors_outside(fn: Callable) -> Iterator[torch.Tensor]:
    """Of modules and tensors that a function reaches through its closure and its globals: copies of arguments leave these alone."""
    function = getattr(fn, "__func__", fn)
    if not isinstance(function, types.FunctionType):
        return
    names = function.__code__.co_names
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
    for value in (*cells, *(function.__globals__[name] for name in names if name in function.__globals__)):
        if isinstance(value, torch.nn.Module):
            yield from (*value.parameters(), *value.buffers())
        elif isinstance(value, torch.Tensor):
            yield value


def _gradients(result: Any, fn: Callable, args: tuple, kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Of the sum of all results, for arguments and parameters that are leaves."""
    results = [
        leaf
        for leaf in torch.utils._pytree.tree_leaves(result)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.grad_fn is not None
    ]
    candidates = [*torch.utils._pytree.tree_leaves((args, kwargs)), *_tensors_outside(fn)]
    candidates += [p for each in (fn, *args) if isinstance(each, torch.nn.Module) for p in each.parameters()]
    inputs = [leaf for leaf in candidates if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_leaf]
    if not results or not inputs:
        return []
    grads = torch.autograd.grad(results, inputs, [torch.ones_like(each) for each in results], allow_unused=True)
    zeroed = [torch.zeros_like(x) if grad is None else grad for x, grad in zip(inputs, grads, strict=True)]
    return [("the gradients", kept(zeroed))]
