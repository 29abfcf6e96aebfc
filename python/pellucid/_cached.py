"""Which functions behind functools.lru_cache may be called while a region is being captured."""

from __future__ import annotations

import builtins
import dis
import functools
import sys
import types
from typing import Any

import torch

_NEVER = {
    "STORE_GLOBAL",
    "DELETE_GLOBAL",
    "STORE_ATTR",
    "DELETE_ATTR",
    "IMPORT_FROM",
    "IMPORT_STAR",
    "LOAD_BUILD_CLASS",
    "LOAD_CLASSDEREF",
}
_ACT = {print, input, open, exec, eval, compile, setattr, delattr, globals, locals, vars, breakpoint, __import__}
# The C functions of other modules may touch the world: posix, time.
_COMPUTE = {"builtins", "math", "cmath", "_operator"}
_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...))


def _is_harmless(value: Any, seen: set, read: list) -> bool:
    if isinstance(value, functools._lru_cache_wrapper):
        value = value.__wrapped__
    if isinstance(value, types.FunctionType):
        return value.__closure__ is None and _computes(value.__code__, value.__globals__, seen, read)
    if isinstance(value, type):
        return not value.__flags__ & (1 << 9)  # Py_TPFLAGS_HEAPTYPE: it may have Python code of its own
    if type(value) in (tuple, frozenset):
        return all(type(item) in _ATOMS for item in value)
    if isinstance(value, types.BuiltinFunctionType):
        if value.__self__ is None:  # a torch function
            return not _draws(value.__name__)
        module = value.__self__
        return value not in _ACT and isinstance(module, types.ModuleType) and module.__name__ in _COMPUTE
    return type(value) in _ATOMS


def _draws(name: str) -> bool:
    """Whether this torch function takes random numbers: they come in the order of the program."""
    packet = getattr(torch.ops.aten, name, None)
    seeded = torch.Tag.nondeterministic_seeded
    return packet is None or any(seeded in getattr(packet, each).tags for each in packet.overloads())


def _computes(code: types.CodeType, space: dict, seen: set, read: list) -> bool:
    if code in seen:
        return True
    seen.add(code)
    module = None  # what the instruction before this one has pushed, when that was a module
    imported: dict[str, types.ModuleType] = {}
    for instruction in dis.get_instructions(code):
        opname, name = instruction.opname, instruction.argval
        if opname in _NEVER or (opname == "IMPORT_NAME" and name not in sys.modules):
            return False
        if opname == "IMPORT_NAME":
            module = sys.modules[name.partition(".")[0]]
            continue
        if opname.startswith("STORE_") and (module is not None or name in imported):
            if module is None or imported.setdefault(name, module) is not module:
                return False
            module = None
            continue
        if opname.startswith("LOAD_") and name in imported:
            module = imported[name]
            continue
        if opname == "LOAD_GLOBAL":
            value = space[name] if name in space else getattr(builtins, name, print)
            read.append((space, name))
        elif opname in ("LOAD_ATTR", "LOAD_METHOD") and module is not None:
            value = vars(module).get(name, print)
            read.append((vars(module), name))
        else:
            module = None
            continue
        module = value if isinstance(value, types.ModuleType) else None
        if module is None and not _is_harmless(value, seen, read):
            return False
    return all(_computes(c, space, seen, read) for c in code.co_consts if isinstance(c, types.CodeType))


def reads(function: Any) -> list[tuple[dict, str]] | None:
    """The globals that `function` reads when calling it does nothing but compute from these and from its arguments (texts,
    numbers and the like); None when it may do more.

    Example:
        >>> reads(lambda n: n + 1)
        []
    """
    found: list[tuple[dict, str]] = []
    return found if _is_harmless(function, set(), found) else None
