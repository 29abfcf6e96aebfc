"""Runs code of the program that has to be functional: what it gives depends on its arguments, and it changes nothing
but what it makes.

`__torch_dispatch__`, `__tensor_flatten__` and `__tensor_unflatten__` of a traceable wrapper subclass are such code.
Capture runs them on fakes, in addition to the calls that the program asks for, so nobody may notice. The interpreter's
tracing says what each frame is about to do: the call stops before its first side effect, and the region ends there.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import gc
import importlib
import inspect
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_BEHIND_TORCH = (_TORCH, os.path.join(os.path.dirname(_TORCH[:-1]), "torchgen") + os.sep)
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep

# Modules of torch whose functions the program's code may call: they compute, or look something up.
_OF_TORCH = tuple(
    _TORCH + part
    for part in (
        "_ops.py",
        "_tensor.py",
        "functional.py",
        "nn/functional.py",
        "nn/parameter.py",
        "overrides.py",
        "types.py",
        "_decomp/",
        "_jit_internal.py",
        "_meta_registrations.py",
        "_prims_common/",
        "_refs/",
        "autograd/grad_mode.py",
        "utils/_contextlib.py",
        "utils/_python_dispatch.py",
        "utils/_pytree.py",
        "utils/_cxx_pytree.py",
    )
)
_OF_LIBRARY = frozenset(
    [_LIBRARY + part for part in ("abc.py", "contextlib.py", "dataclasses.py", "enum.py", "functools.py", "inspect.py")]
    + [_LIBRARY + part for part in ("numbers.py", "operator.py", "types.py", "typing.py")]
    + ["<frozen abc>", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>"]
)

# Builtins that look at their arguments, or make something new. No event tells of a for loop that advances an iterator.
_PURE = frozenset(
    id(getattr(builtins, name))
    for name in [
        "abs",
        "all",
        "any",
        "callable",
        "chr",
        "divmod",
        "format",
        "getattr",
        "hasattr",
        "hash",
        "id",
        "isinstance",
        "issubclass",
        "iter",
        "len",
        "max",
        "min",
        "ord",
        "pow",
        "repr",
        "round",
        "sorted",
        "sum",
        "__build_class__",
    ]
)
_PURE_MODULES = frozenset(
    ["math", "_operator", "itertools", "_functools", "_abc", "cmath", "_struct", "_warnings_filters"]
)
_CONSTANTS = (str, bytes, int, float, complex, bool, tuple, frozenset, range, type(None), torch.dtype, torch.device)
_READING = frozenset(
    [
        "get",
        "items",
        "keys",
        "values",
        "copy",
        "index",
        "count",
        "union",
        "intersection",
        "difference",
        "symmetric_difference",
        "issubset",
        "issuperset",
        "isdisjoint",
        "mro",
        "__new__",
        "__subclasscheck__",
        "__instancecheck__",
        "__contains__",
        "__getitem__",
        "__len__",
    ]
)
# Methods that change an object are slots of its type when they have such names: no event tells of their calls.
_CHANGING_NAMES = frozenset(
    [
        "__setattr__",
        "__delattr__",
        "__setitem__",
        "__delitem__",
        "__setstate__",
        "__iadd__",
        "__imul__",
        "__ior__",
        "__iand__",
        "__ixor__",
        "__isub__",
        "__next__",
        "__dict__",
        "__del__",
    ]
)
# Functions of those modules that do more.
_EFFECTS = frozenset(
    [
        "Tensor.backward",
        "Tensor.module_load",
        "Tensor.register_hook",
        "Tensor.register_post_accumulate_grad_hook",
        "Tensor.share_memory_",
        "_RedirectStream.__enter__",
        "chdir.__enter__",
    ]
)
_CALL_OPERATOR = torch._ops.OpOverload.__call__.__code__
# What open sizes compute with.
_OF_SYMBOLIC_NUMBERS = frozenset(
    function.__code__
    for function in [
        *(vars(number)[name] for number in (torch.SymInt, torch.SymFloat, torch.SymBool) for name in vars(number)),
        *(getattr(torch, name) for name in dir(torch) if name.startswith("sym_")),
    ]
    if isinstance(function, types.FunctionType)
)
_DISPLAYS = frozenset(["BUILD_MAP", "BUILD_CONST_KEY_MAP", "BUILD_LIST", "BUILD_SET", "LIST_EXTEND", "DICT_UPDATE"])
_WRITE = frozenset(["STORE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "BINARY_OP"])
_LOADS = frozenset(["LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF"])
_PLAIN_LOADS = frozenset(["LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_DEREF"])


class SideEffect(BaseException):
    """What the code was about to do. Not an Exception: the program's handlers are not for it."""


def watched(function: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, which raises SideEffect in place of a side effect of Python code.

    Example:
        >>> watched(lambda: print("heard"))
        Traceback (most recent call last):
        pellucid._functional.SideEffect: calls print()
    """
    return observed(function, *args, **kwargs)[0]


def observed(function: Callable, /, *args: Any, **kwargs: Any) -> tuple[Any, list[tuple[dict[str, Any], str]]]:
    """The same, and the globals of the program that the code may have read: (namespace, name)."""
    _load_what_torch_loads()
    watch = _Watch()
    return watch.run(function, args, kwargs), list(watch.reads.values())


@functools.cache
def _load_what_torch_loads() -> None:
    """Its dispatcher imports this when it first asks a class, and the body of a module is no functional code."""
    if torch.distributed.is_available():
        importlib.import_module("torch.distributed.tensor")


class _Watch:
    """One such call. Meanwhile the collector rests, so that its youngest generation tells what the call has made."""

    def __init__(self) -> None:
        self._found: str | None = None
        self._new: dict[int, Any] = {}
        self._old: set[int] = set()
        self.reads: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}

    def run(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        tracing, profiling, collecting = sys.gettrace(), sys.getprofile(), gc.isenabled()
        random, gradients = torch.get_rng_state(), torch.is_grad_enabled()
        gc.disable()
        self._old = {id(held) for held in gc.get_objects(generation=0)}
        try:
            sys.setprofile(self._call)
            sys.settrace(self._frame)
            try:
                return function(*args, **kwargs)
            finally:
                sys.settrace(None)
                sys.setprofile(None)
                if not torch.equal(random, torch.get_rng_state()):
                    torch.set_rng_state(random)
                    self._found = self._found or "draws random numbers"
                if torch.is_grad_enabled() != gradients:
                    torch._C._set_grad_enabled(gradients)
                    self._found = self._found or "leaves another gradient mode"
                if self._found is not None:
                    raise SideEffect(self._found)
        finally:
            sys.setprofile(profiling)
            sys.settrace(tracing)
            if collecting:
                gc.enable()
            self._new.clear()

    def _refuse(self, what: str) -> None:
        self._found = self._found or what
        raise SideEffect(what)

    def _is_new(self, held: Any) -> bool:
        if id(held) in self._new:
            return True
        if id(held) in self._old or not any(held is young for young in gc.get_objects(generation=0)):
            return False
        self._new[id(held)] = held
        return True

    def _may_change(self, held: Any) -> bool:
        """Changing it is seen by nobody, or by capture itself: of fakes it hears of each write."""
        return isinstance(held, _CONSTANTS) or self._is_new(held) or _is_fake(held)

    def _frame(self, frame: types.FrameType, event: str, arg: Any) -> Callable | None:
        """A frame begins."""
        code = frame.f_code
        if code is _CALL_OPERATOR:
            self._check_operator(frame)
        kind = _kind(frame)
        if kind == "program":
            facts = _facts(code)
            if facts.refused is not None:
                self._refuse(facts.refused)
            for name in facts.globals:
                if name in frame.f_globals:
                    self.reads[id(frame.f_globals), name] = (frame.f_globals, name)
            if not facts.writes:
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            return self._step
        caller = frame.f_back
        is_effect = code.co_qualname in _EFFECTS
        if code in _OF_SYMBOLIC_NUMBERS:
            return None
        if (kind != "trusted" or is_effect) and caller is not None and _kind(caller) == "program":
            self._refuse(f"calls {code.co_name}() of {code.co_filename}")
        return None

    def _step(self, frame: types.FrameType, event: str, arg: Any) -> Callable:
        if event == "opcode":
            name = _facts(frame.f_code).writes.get(frame.f_lasti)
            if name is not None and not self._may_change(frame.f_locals.get(name)):
                self._refuse(f"changes {name} in line {frame.f_lineno}")
        return self._step

    def _check_operator(self, frame: types.FrameType) -> None:
        operator = frame.f_locals["self"]
        if operator._schema.is_mutable:
            arguments = [*frame.f_locals["args"], *frame.f_locals["kwargs"].values()]
            for held in torch.utils._pytree.tree_leaves(arguments):
                if isinstance(held, torch.Tensor) and not self._may_change(held):
                    self._refuse(f"calls {operator} on a tensor that it did not make")

    def _call(self, frame: types.FrameType, event: str, arg: Any) -> None:
        """A C function is about to be called."""
        if event != "c_call" or _kind(frame) != "program":
            return
        held, name, module = getattr(arg, "__self__", None), arg.__name__, getattr(arg, "__module__", None) or ""
        if id(arg) in _PURE or module in _PURE_MODULES:
            return
        if isinstance(held, torch.Tensor):
            if name.endswith("_") and not name.endswith("__") and not self._may_change(held):
                self._refuse(f"calls {name}() on a tensor that it did not make")
            return
        if getattr(arg, "__qualname__", "") == "TensorBase._make_wrapper_subclass":
            return
        if held is torch._C._nn and not name.endswith("_"):
            return
        if name == "_log_api_usage_once":  # torch's own code calls it in the same way
            return
        if name in _TORCH_FUNCTIONS and (held is _FUNCTIONS or module.startswith("torch")):
            return
        if isinstance(held, _CONSTANTS) and not isinstance(held, type(None)):
            return
        if isinstance(held, (dict, list, set, type)) and name in _READING:
            return
        if isinstance(held, (dict, list, set)):
            fresh = _facts(frame.f_code).fresh
            if self._is_new(held) or any(frame.f_locals.get(variable) is held for variable in fresh):
                return
        self._refuse(f"calls {getattr(arg, '__qualname__', name)}()")


_FUNCTIONS: Any = vars(torch._C)["_VariableFunctionsClass"]
_TORCH_FUNCTIONS = frozenset(
    name
    for name in dir(_FUNCTIONS)
    if not name.startswith("__") and not name.endswith("_") and name not in ("seed", "manual_seed", "set_default_dtype")
)


def _is_fake(held: Any) -> bool:
    return isinstance(held, torch.Tensor) and torch._C._dispatch_keys(held).has(torch._C.DispatchKey.PrivateUse3)


def _kind(frame: types.FrameType) -> str:
    """What dataclasses and the like write has no file: it belongs to the module of its globals."""
    name = frame.f_code.co_filename
    if name == "<string>":
        name = frame.f_globals.get("__file__") or name
    return _kind_of_file(name)


@functools.cache
def _kind_of_file(name: str) -> str:
    """Of code that is looked at "program", of what that may call "trusted", of what only the trusted may call "other"."""
    if name == __file__ or name.startswith(_OF_TORCH) or name in _OF_LIBRARY:
        return "trusted"
    of_library = name.startswith((_LIBRARY, "<frozen ")) and not name.startswith(_LIBRARY + "site-packages" + os.sep)
    return "other" if name.startswith(_BEHIND_TORCH) or of_library else "program"


class _Facts:
    """Of a code object: why it is refused, or the variable whose object an instruction changes, by its offset."""

    def __init__(self, code: types.CodeType) -> None:
        self.refused: str | None = None
        self.writes: dict[int, str] = {}
        self.globals: list[str] = []
        steps = self._steps(code)
        self.fresh = self._fresh(code, steps)
        for i, (step, _) in enumerate(steps):
            self._look(code, step, steps[: i + 1])

    @staticmethod
    def _steps(code: types.CodeType) -> list[tuple[dis.Instruction, bool]]:
        """The instructions that count, and whether there is another way to one than from the one before it."""
        steps, is_target = [], False
        for step in dis.get_instructions(code):
            is_target |= step.is_jump_target
            if step.opname not in ("CACHE", "EXTENDED_ARG", "PRECALL", "RESUME", "NOP"):
                steps.append((step, is_target))
                is_target = False
        return steps

    @staticmethod
    def _fresh(code: types.CodeType, steps: list[tuple[dis.Instruction, bool]]) -> frozenset[str]:
        """Variables that hold containers which this code has made, whenever they hold anything. (The collector does not
        know of dicts of numbers and the like.)"""
        arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
        names = set(code.co_varnames[arguments:]) - set(code.co_cellvars)
        is_named = bool(code.co_flags & inspect.CO_VARKEYWORDS)
        stored = {code.co_varnames[arguments]} if is_named else set()
        for i, (step, is_target) in enumerate(steps):
            if step.opname == "STORE_FAST":
                stored.add(step.argval)
                if i == 0 or is_target or steps[i - 1][0].opname not in _DISPLAYS:
                    names.discard(step.argval)
        return frozenset(names & stored)

    def _look(self, code: types.CodeType, step: dis.Instruction, steps: list[tuple[dis.Instruction, bool]]) -> None:
        name = step.opname
        if name in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME", "DELETE_NAME", "DELETE_ATTR") or (
            name in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars
        ):
            self.refused = f"sets {step.argval}"
        elif name == "KW_NAMES" and "out" in code.co_consts[step.arg or 0]:
            self.refused = "gives an operator a tensor to write to"
        elif name in ("LOAD_GLOBAL", "LOAD_NAME"):
            self.globals.append(step.argval)
        elif step.argval in _CHANGING_NAMES and name in ("LOAD_ATTR", "LOAD_METHOD"):
            self.refused = f"uses {step.argval}"
        elif name in _WRITE and (name != "BINARY_OP" or step.argrepr.endswith("=")):
            owner = self._owner(steps)
            if owner is None:
                self.refused = (
                    f"changes an object in line {step.positions.lineno if step.positions else '?'} of {code.co_name}()"
                )
            elif owner not in self.fresh:
                self.writes[step.offset] = owner

    @staticmethod
    def _owner(steps: list[tuple[dis.Instruction, bool]]) -> str | None:
        """The variable that the last of these instructions changes the object of."""
        above = 1 if steps[-1][0].opname == "STORE_ATTR" else 2
        if len(steps) <= above or any(is_target for _, is_target in steps[-above:]):
            return None
        if any(step.opname not in _PLAIN_LOADS for step, _ in steps[-above:-1]):
            return None
        load = steps[-1 - above][0]
        return load.argval if load.opname in _LOADS else None


_known_facts: dict[types.CodeType, _Facts] = {}


def _facts(code: types.CodeType) -> _Facts:
    with contextlib.suppress(KeyError):
        return _known_facts[code]
    return _known_facts.setdefault(code, _Facts(code))
