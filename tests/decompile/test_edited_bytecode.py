"""Code objects that no compiler made: a text that is right, or an error that says what is not Python. Never a crash."""

from __future__ import annotations

import dis
import random

import pytest

import pellucid
from pellucid import _core


def f(x, y):
    if x:
        for i in y:
            try:
                x.a += i
            except ValueError:
                break
    return [x for x in y if x]


def bytes_of(*rows):
    return bytes(byte for name, arg in rows for byte in (dis.opmap[name], arg))


def edited(*rows, **changes):
    return f.__code__.replace(co_code=bytes_of(*rows), co_exceptiontable=b"", **changes)


def test_right_text_of_edited_code():
    code = edited(
        ("RESUME", 0), ("LOAD_FAST", 1), ("LOAD_FAST", 0), ("SWAP", 2), ("BUILD_TUPLE", 2), ("RETURN_VALUE", 0)
    )
    assert "return x, y" in pellucid.decompile(code)


@pytest.mark.parametrize(
    "rows, words",
    [
        ([("LOAD_FAST", 0), ("POP_TOP", 0), ("RETURN_VALUE", 0)], "the stack is empty"),
        ([("LOAD_FAST", 200), ("RETURN_VALUE", 0)], "a variable that does not exist"),
        ([("LOAD_CONST", 200), ("RETURN_VALUE", 0)], "a constant that does not exist"),
        ([("LOAD_NAME", 200), ("RETURN_VALUE", 0)], "a name that does not exist"),
        ([("LOAD_FAST", 0), ("COPY", 0), ("RETURN_VALUE", 0)], "the stack is empty"),
        ([("LOAD_FAST", 0), ("SWAP", 9), ("RETURN_VALUE", 0)], "the stack is empty"),
        ([("BUILD_TUPLE", 255), ("RETURN_VALUE", 0)], "the stack is too short"),
        ([("LOAD_FAST", 0), ("LOAD_FAST", 1), ("RETURN_VALUE", 0)], "values are left on the stack"),
        ([("PUSH_EXC_INFO", 0), ("RETURN_VALUE", 0)], "no template expects here"),
    ],
)
def test_what_is_not_python_is_said(rows, words):
    with pytest.raises(pellucid.CannotDecompile, match=words):
        pellucid.decompile(edited(("RESUME", 0), *rows))


def test_a_name_that_is_no_identifier():
    code = edited(("LOAD_GLOBAL", 0), *[("CACHE", 0)] * 5, ("RETURN_VALUE", 0), co_names=("not a name",))
    with pytest.raises(pellucid.CannotDecompile, match="no identifier: not a name"):
        pellucid.decompile(code)


def test_a_constant_that_is_no_literal():
    code = edited(("LOAD_CONST", 0), ("RETURN_VALUE", 0), co_consts=(object(),))
    with pytest.raises(pellucid.CannotDecompile, match="no literal"):
        pellucid.decompile(code)


def test_malformed_code():
    with pytest.raises(ValueError, match="malformed"):
        pellucid.decompile(f.__code__.replace(co_code=bytes([dis.opmap["LOAD_GLOBAL"], 0])))
    with pytest.raises(ValueError, match="malformed"):
        pellucid.decompile(f.__code__.replace(co_code=bytes([dis.opmap["JUMP_FORWARD"], 200])))


def mutations(number):
    choose = random.Random(number)
    code = f.__code__
    for _ in range(400):
        text = bytearray(code.co_code)
        for _ in range(choose.choice((1, 1, 2, 5))):
            at = choose.randrange(len(text) // 2) * 2
            what = choose.randrange(4)
            if what == 0:
                text[at + 1] = choose.randrange(256)
            elif what == 1:
                text[at] = choose.randrange(180)
            elif what == 2:
                del text[at : at + 2]
            else:
                other = choose.randrange(len(text) // 2) * 2
                text[at : at + 2], text[other : other + 2] = text[other : other + 2], text[at : at + 2]
        table = bytearray(code.co_exceptiontable)
        if choose.random() < 0.3:
            table[choose.randrange(len(table))] = choose.randrange(256)
        constants = (
            code.co_consts[: choose.randrange(len(code.co_consts) + 1)] if choose.random() < 0.2 else code.co_consts
        )
        yield code.replace(co_code=bytes(text), co_exceptiontable=bytes(table), co_consts=constants)


@pytest.mark.parametrize("number", range(5))
def test_hostile_code_objects(number):
    """No crash, no hang: an error or a text that compiles."""
    for code in mutations(number):
        try:
            made = _core._decompile(code, True)
        except ValueError:  # malformed
            continue
        if not isinstance(made, str):
            compile(made[1], "again", "exec")


def test_deep_nesting_is_an_error():
    nested = ()
    for _ in range(1000):
        nested = (nested,)
    code = edited(("LOAD_CONST", 0), ("RETURN_VALUE", 0), co_consts=(nested,))
    with pytest.raises(pellucid.CannotDecompile, match="nested too deeply"):
        pellucid.decompile(code)
    while nested:
        (nested,) = nested


def test_a_text_that_is_not_verified_says_so():
    # A slice that is no subscript: only a call of the type makes one.
    code = edited(("RESUME", 0), ("LOAD_FAST", 0), ("LOAD_FAST", 1), ("BUILD_SLICE", 2), ("RETURN_VALUE", 0))
    assert pellucid.Decompiled.of(code).verified == "unverified"
    text = pellucid.decompile(code)
    assert text.startswith("# Not verified: this compiles to other instructions (f: ")
    assert text.endswith("return slice(x, y, None)\n")


def test_an_in_place_operator_that_is_not_stored():
    rows = [("RESUME", 0), ("LOAD_FAST", 0), ("LOAD_FAST", 1), ("BINARY_OP", 13), ("CACHE", 0), ("RETURN_VALUE", 0)]
    with pytest.raises(pellucid.CannotDecompile, match="in-place operator whose result is not stored"):
        pellucid.decompile(edited(*rows))


def test_a_value_that_doubles_is_an_error():
    """A copy of a value costs one instruction, but all of its text."""
    double = [("COPY", 1), ("BINARY_OP", 0), ("CACHE", 0)]
    code = edited(("RESUME", 0), ("LOAD_FAST", 0), *double * 100, ("RETURN_VALUE", 0))
    with pytest.raises(pellucid.CannotDecompile, match="the text is too long"):
        pellucid.decompile(code)
