"""Every statement and expression: the text compiles to the same instructions, one by one."""

from __future__ import annotations

import dis
import types
import warnings
from pathlib import Path

import pytest

import pellucid

HERE = Path(__file__).parent


def codes_in(code: types.CodeType):
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from codes_in(constant)


def functions():
    for file in ("statements.py", "expressions.py"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = compile((HERE / file).read_text(), file, "exec", dont_inherit=True)
        for code in codes_in(module):
            yield pytest.param(code, id=code.co_qualname.replace("<locals>.", ""))


SILENT = {"NOP", "RESUME", "CACHE", "PRECALL", "EXTENDED_ARG"}


def instructions(code: types.CodeType):
    """What the interpreter does: without instructions that do nothing, jumps as numbers of instructions."""
    kept = [one for one in dis.get_instructions(code) if one.opname not in SILENT]
    found = []
    for one in kept:
        value = one.argval
        if one.opcode in dis.hasjrel:
            value = sum(other.offset < value for other in kept)
        elif isinstance(value, types.CodeType):
            value = instructions(value)
        elif isinstance(value, frozenset):
            value = sorted(map(repr, value))
        elif one.opcode in dis.hasconst:
            value = repr(value)
        name = one.opname.replace("_NO_INTERRUPT", "")
        found.append((name, value, one.arg & 1 if name == "LOAD_GLOBAL" else None))
    return found


def find(module: types.CodeType, code: types.CodeType):
    """The last code object of that name, innermost: decompiled text may stand in classes and functions around."""
    found = [one for one in codes_in(module) if one.co_name == code.co_name]
    assert found, f"{code.co_name} is not in its text"
    fits = [one for one in found if instructions(one) == instructions(code)]
    return fits[0] if fits else found[0]


@pytest.mark.parametrize("code", list(functions()))
def test_the_same_instructions(code):
    made = pellucid.Decompiled.of(code)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = find(compile(made.module, "again", "exec", dont_inherit=True), code)
    assert instructions(again) == instructions(code), made.text
    assert made.verified in ("equal", "normalised"), (made.difference, made.text)
