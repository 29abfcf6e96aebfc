"""Hooks of autograd on tensors inside of a compiled graph: an operator of its backward graph calls them.

A compiler's function gives gradients to its inputs alone, so no hook hears of the gradient of what it computes between.
`torch.ops.pellucid.hooked` is the identity there, whose backward is the operator `run_hooks`: opaque to the compiler, it
calls what has been registered for this very call. `hooked_all` and `run_all_hooks` are the same for the inputs, or the
outputs, of a module with backward hooks. A tensor of one number, the key, says what that is. The graph makes it
(`new_hooks`), gives it to the code behind the graph, which registers the hooks, and saves it for the backward pass.
"""

from __future__ import annotations

import collections
import functools
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.hooks import BackwardHook, RemovableHandle

from pellucid import _hooks


class _Hooks(bytearray):
    """The memory of a key, which lives as long as the key does, in whatever tensor or saved variable."""

    by_name: collections.OrderedDict[int, Callable]
    """Of a tensor, as `torch.Tensor.register_hook` keeps them."""
    hang: Callable[[tuple[torch.Tensor]], None] | None
    """Of a module: hangs its hooks on the node of autograd that gives a tensor."""
    is_reached: bool
    """Whether the pass that runs has come to a result that is computed of the hooked tensors."""
    upstream: list[Any]
    """Where gradients of the graph's inputs go that come through the hooked tensors: nodes of autograd."""


_HOOKS: weakref.WeakValueDictionary[int, _Hooks] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()
_MOST_VIEWS = 4
_UNTIL_RUN: dict[int, _Hooks] = {}
"""Of calls where functions of the program save tensors (`saved_tensors_hooks`): a copy of the key, perhaps, that does not
have its memory. They live until the pass has run, which need not be."""


def _new_hooks() -> torch.Tensor:
    number = next(_NUMBERS)
    hooks = _Hooks(number.to_bytes(8, "little"))
    hooks.by_name = collections.OrderedDict()
    hooks.hang = None
    hooks.is_reached = True
    hooks.upstream = []
    _HOOKS[number] = hooks
    return torch.frombuffer(hooks, dtype=torch.int64)


# ---- what a compiler sees. It gets copies, since a view would have the gradients of its base: results that are views
# are made of that.


class _Hooked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(key)
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> Any:
        if gradient is None:
            return None, None
        return torch.ops.pellucid.run_hooks(*ctx.saved_tensors, gradient), None


class _HookedAll(torch.autograd.Function):
    """Gives copies of the tensors that have gradients."""

    @staticmethod
    def forward(ctx: Any, key: torch.Tensor, *tensors: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(key)
        ctx.kinds = [(tensor.size(), tensor.dtype, tensor.device) for tensor in tensors]
        ctx.needs = [tensor.requires_grad for tensor in tensors]
        return tuple([tensor.clone() for tensor in tensors if tensor.requires_grad])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        given = iter(gradients)
        found = [next(given) if needs else None for needs in ctx.needs]
        is_there = [gradient is not None for gradient in found]
        filled = [
            torch.zeros((), dtype=dtype, device=device).expand(size) if gradient is None else gradient
            for gradient, (size, dtype, device) in zip(found, ctx.kinds, strict=True)
        ]
        results = iter(torch.ops.pellucid.run_all_hooks(*ctx.saved_tensors, filled, is_there, ctx.needs))
        return None, *[next(results) if needs else None for needs in ctx.needs]


# ---- what runs in the backward pass: the program's hooks in a small pass of their own, so that autograd itself hands
# them on what it hands on, and refuses what it refuses. What hooks get and give keeps its memory, and so does the
# graph: neither has that of the other.


def _hooks_to_run(key: torch.Tensor) -> _Hooks:
    hooks = _HOOKS[int(key)]
    if not torch._C._autograd._get_current_graph_task_keep_graph():
        _UNTIL_RUN.pop(int(key), None)
    return hooks


def _run_hooks(key: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    hooks = _hooks_to_run(key)
    result = torch.empty_like(gradient)
    if not hooks.by_name or not _is_asked_for(hooks):
        return result.copy_(gradient)
    with torch.enable_grad():
        leaf = torch.empty_like(gradient).requires_grad_()
        passed = leaf.view_as(leaf)
    passed._backward_hooks = hooks.by_name  # as register_hook() does it
    node: Any = passed.grad_fn
    node._register_hook_dict(passed)
    (value,) = torch.autograd.grad(passed, leaf, _copy(gradient))
    return result.copy_(value)


def _run_all_hooks(
    key: torch.Tensor, gradients: list[torch.Tensor], is_there: list[bool], needs: list[bool]
) -> list[torch.Tensor]:
    """`gradients` has something like each tensor: of those that are not there, or need none, only the kind counts."""
    hooks = _hooks_to_run(key)
    results = _results_like(key, gradients, is_there, needs)
    if hooks.hang is None or not _is_asked_for(hooks):
        return [result.copy_(gradient) for result, gradient in zip(results, itertools.compress(gradients, needs))]
    with torch.enable_grad():
        likes = [torch.empty_like(gradient) for gradient in gradients]
        leaves = [like.requires_grad_() for like in itertools.compress(likes, needs)]
        passed = BackwardHookFunction.apply(*likes)
        hooks.hang((next(itertools.compress(passed, needs)),))
    values = torch.autograd.grad(
        list(itertools.compress(passed, is_there)),
        leaves,
        [_copy(gradient) for gradient in itertools.compress(gradients, is_there)],
        allow_unused=True,
    )
    return [
        result.zero_() if value is None else result.copy_(value) for result, value in zip(results, values, strict=True)
    ]


def _results_like(
    key: torch.Tensor, gradients: list[torch.Tensor], is_there: list[bool], needs: list[bool]
) -> list[torch.Tensor]:
    return [torch.empty_like(gradient) for gradient in itertools.compress(gradients, needs)]


def _copy(gradient: torch.Tensor) -> torch.Tensor:
    """In the same layout, also of one that is expanded: autograd hands on such ones, and torch refuses writes to them."""
    made = gradient.clone()
    if made.stride() == gradient.stride() or not made.numel():
        return made
    count = 1 + sum((size - 1) * stride for size, stride in zip(gradient.size(), gradient.stride(), strict=True))
    memory = gradient.as_strided((count,), (1,), gradient.storage_offset()).clone()
    return memory.as_strided(gradient.size(), gradient.stride())


def _is_asked_for(hooks: _Hooks) -> bool:
    """Whether autograd would come here: from a result to an input. The function of a compiler computes all gradients, of
    zeros where none come."""
    if not hooks.is_reached:
        return False
    for node in hooks.upstream:
        try:
            if torch._C._will_engine_execute_node(node):
                return True
        except RuntimeError:  # torch.autograd.grad() with respect to this very leaf
            return True
    return False


# ---- called by compiled code behind the graph, with the key of what is hooked, the inputs of the graph that it was
# computed of, and the results that are computed of it, None where that holds of all.

_Tensors = tuple[torch.Tensor, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...] | None]


def register_hook(tensors: _Tensors, hook: Callable, handle: RemovableHandle) -> None:
    """`torch.Tensor.register_hook`; `handle` is what the program got for it, without what only the registration tells."""
    hooks = _hooks_of(tensors)
    made = RemovableHandle(hooks.by_name)
    hooks.by_name[made.id] = hook
    vars(handle).update(vars(made))


def hook_inputs(tensors: _Tensors, hook: BackwardHook) -> None:
    """Of a module's inputs."""
    _hooks_of(tensors).hang = functools.partial(_hooks.hook_inputs, hook=hook)


def hook_outputs(tensors: _Tensors, hook: BackwardHook) -> None:
    """Of its outputs."""
    _hooks_of(tensors).hang = functools.partial(_hooks.hook_outputs, hook=hook)


def _hooks_of(tensors: _Tensors) -> _Hooks:
    key, inputs, results = tensors
    hooks = _HOOKS[int(key)]
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        _UNTIL_RUN[int(key)] = hooks
    hooks.upstream = [torch.autograd.graph.get_gradient_edge(tensor).node for tensor in inputs]
    if results is not None and hooks.is_reached:
        _hear_of_results(hooks, results)
    return hooks


def _hear_of_results(hooks: _Hooks, results: tuple[torch.Tensor, ...]) -> None:
    """Before each pass through the function of a compiler that gave them. Where a graph runs as it is there is none, and
    autograd itself comes to the hooks or does not."""
    numbers: dict[Any, set[int]] = collections.defaultdict(set)
    for result in results:
        for node, number in _functions_of_compilers(result.grad_fn, result.output_nr):
            numbers[node].add(number)
    for node, own in numbers.items():
        hooks.is_reached = False
        node.register_prehook(functools.partial(_note_pass, weakref.ref(hooks), own))


def _note_pass(hooks: weakref.ref[_Hooks], numbers: set[int], gradients: tuple[torch.Tensor | None, ...]) -> None:
    of_call = hooks()
    if of_call is not None:
        of_call.is_reached = any(gradients[number] is not None for number in numbers)


def _functions_of_compilers(node: Any, number: int, depth: int = 0) -> Iterator[tuple[Any, int]]:
    """Of a result, or of what it is a view of."""
    if type(node).__name__ == "CompiledFunctionBackward":
        yield node, number
    elif node is not None and depth < _MOST_VIEWS:
        for following, its_number in node.next_functions:
            yield from _functions_of_compilers(following, its_number, depth + 1)


@functools.cache
def operators() -> tuple[Any, Any, Any]:
    """`new_hooks`, `hooked` and `hooked_all` of torch.ops.pellucid, made when one is asked for: torch takes its time."""
    library = torch.library.Library("pellucid", "FRAGMENT")
    _LIBRARIES.append(library)
    fit = torch.Tag.pt2_compliant_tag
    # "nondeterministic_seeded": no two calls are one, and none is made again in the backward pass.
    library.define("new_hooks() -> Tensor", tags=(torch.Tag.nondeterministic_seeded, fit))
    library.define("hooked(Tensor tensor, Tensor key) -> Tensor", tags=(fit,))
    library.define("hooked_all(Tensor key, Tensor[] tensors) -> Tensor[]", tags=(fit,))
    library.define("run_hooks(Tensor key, Tensor gradient) -> Tensor", tags=(fit,))
    library.define(
        "run_all_hooks(Tensor key, Tensor[] gradients, bool[] is_there, bool[] needs) -> Tensor[]", tags=(fit,)
    )
    library.impl("new_hooks", _new_hooks, "CompositeExplicitAutograd")
    library.impl("hooked", _Hooked.apply, "CompositeImplicitAutograd")
    library.impl("hooked_all", lambda key, all: list(_HookedAll.apply(key, *all)), "CompositeImplicitAutograd")
    library.impl("run_hooks", _run_hooks, "CompositeExplicitAutograd")
    library.impl("run_all_hooks", _run_all_hooks, "CompositeExplicitAutograd")
    fakes: dict[str, Callable] = {
        "new_hooks": lambda: torch.empty(1, dtype=torch.int64),
        "run_hooks": lambda key, gradient: torch.empty_like(gradient),
        "run_all_hooks": _results_like,
    }
    for name, fake in fakes.items():
        torch.library.register_fake(f"pellucid::{name}", fake, lib=library)
    operators = torch.ops.pellucid
    for runs in (operators.run_hooks, operators.run_all_hooks):
        torch.fx.node.has_side_effect(runs.default)
    return operators.new_hooks.default, operators.hooked.default, operators.hooked_all.default


_LIBRARIES: list[torch.library.Library] = []  # an operator goes with its library
