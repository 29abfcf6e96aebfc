"""Each kind of guard that fails says what was there, what is there now, which line made it matter, and what to do."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pellucid
from pellucid._core import _symbolic
from support.guards import Box, Guards

ROWS = Path(__file__).parents[2] / "src" / "guards" / "guards.def"


def program_of_the_user():
    x = 1
    return x


LINE = program_of_the_user.__code__.co_firstlineno + 1


class Loud:
    """Runs code when it goes."""

    def __del__(self):
        pass


class Slotted:
    __slots__ = ("x",)


def hooked():
    tensor = torch.ones(2, requires_grad=True)
    tensor.register_hook(lambda gradient: gradient)
    return tensor


def some(x, y=1):
    return x


def other(x, y=1):
    return y


def with_default(value):
    def some(x, y=value):
        return x

    return some


def numbers():
    yield 1


def ended(generator):
    list(generator)
    return generator


def slotted(value=None):
    made = Slotted()
    if value is not None:
        made.x = value
    return made


def empty_cell():
    if False:
        x = 1
    return (lambda: x).__closure__[0]


def full_cell():
    x = 1
    return (lambda: x).__closure__[0]


def iterator(values, taken):
    made = iter(values)
    for _ in range(taken):
        next(made)
    return made


def handling(call):
    try:
        raise KeyError("lost")
    except KeyError:
        call()


def with_one_more_virtual_subclass(call):
    class Abstract(abc.ABC):
        pass

    Abstract.register(Box)
    call()


def without_gradients(call):
    with torch.no_grad():
        call()


class Changing:
    word = "old"


def with_another_word(call):
    Changing.word = "new"
    call()
    Changing.word = "old"


@dataclass
class Miss:
    """A guard of this kind, arguments that fit it, others that do not, and what the reason says then."""

    kind: str
    fits: tuple
    fails: tuple
    old: str
    new: str
    advice: str
    operand: Any = None
    number: int = 0
    add: Callable[[Guards, dict], None] | None = None
    """Adds the guard, where it is not simply about the first argument."""
    around: Callable[[Callable], None] = lambda call: call()
    """In what the second call happens."""

    def program(self):
        g = Guards()
        place = {"code": program_of_the_user.__code__, "offset": 2, "operation": "adds"}
        if self.add is not None:
            self.add(g, place)
        else:
            g.add(self.kind, g.arg(), self.operand, self.number, **place)
        return g.program()


def between(kind):
    return lambda g, place: g.add(kind, g.arg(0), other=g.arg(1), **place)


def ambient(kind, number=0):
    return lambda g, place: g.add(kind, None, None, number, **place)


def add_distinct(g, place):
    g.add("DISTINCT", None, (g.arg(0), g.arg(1), g.arg(2)), **place)


def add_condition(g, place):
    space = _symbolic.Space()
    n = space.symbol(4, None, None)
    even = space.compare("==", space.binary("%", n, space.constant(2)), space.constant(0))
    g.add("CONDITION", None, (even, [g.table.size_of(g.arg(), 1)]), **place)


def add_foreseen(g, place):
    g.add("FORESEEN", None, (g.arg(0), g.arg(1)), **place)


def add_lookup(g, place):
    g.add("TYPE_LOOKUP", g.table.constant(Changing), ("word", "old"), **place)


BOX, ANOTHER = Box(), Box()
TENSOR = torch.ones(3)
MISSES = [
    Miss("ID_MATCH", (BOX,), (ANOTHER,), hex(id(BOX)), hex(id(ANOTHER)), "better made once", BOX),
    Miss("NOT_ID", (ANOTHER,), (BOX,), f"anything but <{Box.__module__}.Box at", hex(id(BOX)), "always or never", BOX),
    Miss("TYPE_MATCH", ({},), ([],), "type dict", "type list", "the same type", dict),
    Miss("EQUALS_MATCH", ("old",), ("new",), "'old'", "'new'", "pass it as a tensor", "old"),
    Miss("EQUALS_MATCH", (1,), (2.5,), "1", "2.5 of type float", "pass it as a tensor", 1),
    Miss("NUMBER_MATCH", (1,), (2.5,), "an int of 64 bits", "2.5 of type float", "ints of 64 bits", int),
    Miss("NUMBER_MATCH", (1.0,), (float("inf"),), "a finite float", "inf of type float", "finite floats", float),
    Miss("KEY_MATCH", (("a", 1),), (("a", 2),), "a key equal to ('a', 1)", "('a', 2)", "each one gets", ("a", 1)),
    Miss("LENGTH", ([1, 2],), ([1],), "length 2", "length 1", "keep its length", number=2),
    Miss("DICT_KEYS", ({"a": 1},), ({"b": 1},), "keys ['a'] (1)", "keys ['b'] (1)", "keep the keys", ("a",)),
    Miss("DICT_CONTAINS", ({"a": 1},), ({},), "key 'a'", "no key 'a'", "keep the keys", "a", 1),
    Miss("DICT_CONTAINS", ({},), ({"a": 1},), "no key 'a'", "found key 'a'", "keep the keys", "a", 0),
    Miss("HAS_ATTR", (Box(),), (Box(x=5),), "no instance attribute 'x'", "found 5", "in __init__", "x", 0),
    Miss("HAS_ATTR", (Box(x=5),), (Box(),), "the instance attribute 'x'", "no such attribute", "in __init__", "x", 1),
    Miss("SET_EQUALS", ({1},), ({2},), "a set of [1] (1)", "a set of [2] (1)", "keep the elements", frozenset([1])),
    Miss("SET_TABLE", ({0, 8},), ({1, 2},), "xx......", ".xx.....", "before the first call", b"xx......"),
    Miss(
        "TYPE_LOOKUP",
        (),
        (),
        "'word' to be 'old'",
        "found 'new'",
        "before the first call",
        add=add_lookup,
        around=with_another_word,
    ),
    Miss(
        "FUNCTION",
        (some,),
        (other,),
        "the code of some",
        "other with the code of other",
        "define the function once",
        (some.__code__, (1,), None),
    ),
    Miss(
        "FUNCTION",
        (),
        (with_default(7),),
        "__defaults__ (1,)",
        "__defaults__ (7,)",
        "define the function once",
        (with_default(1).__code__, (1,), None),
    ),
    Miss("CELL_EMPTY", (full_cell(),), (empty_cell(),), "a cell with a value", "an empty cell", "before the call"),
    Miss("SLOT_EMPTY", (slotted(1),), (slotted(),), "a filled slot", "an empty slot", "in __init__", Slotted.x, 0),
    Miss("NO_FINALIZER", (Box(),), (Loud(),), "runs nothing when it goes", "Loud at 0x", "outside the compiled"),
    Miss("NO_FINALIZER_OWNED", (Box(),), (Loud(),), "runs nothing", "Loud at 0x", "outside the compiled", number=99),
    Miss(
        "NO_FINALIZER_BUT_GENERATORS",
        (Box(),),
        (Loud(),),
        "runs nothing",
        "Loud at 0x",
        "outside the compiled",
        number=99,
    ),
    Miss("NO_FINALIZER_ATTR", (Box(x=1),), (Box(x=Loud()),), "runs nothing", "Loud at 0x", "outside the compiled", "x"),
    Miss("NO_FINALIZER_KEY", ({"k": 1},), ({"k": Loud()},), "runs nothing", "Loud at 0x", "outside the compiled", "k"),
    Miss(
        "NO_FINALIZER_SLOT",
        (slotted(1),),
        (slotted(Loud()),),
        "runs nothing",
        "Loud at 0x",
        "outside the compiled",
        Slotted.x,
    ),
    Miss(
        "TENSOR_MATCH",
        (torch.ones(2),),
        (torch.ones(3),),
        "f32[2] cpu",
        "index 0, expected 2, actual 3",
        "keep sizes",
        torch.ones(2),
    ),
    Miss(
        "ARRAY_MATCH",
        (np.ones((2, 3)),),
        (np.ones(3),),
        "an array float64[2, 3]",
        "float64[3]",
        "keep them",
        (np.ndarray, np.dtype("float64"), False, 2, 3),
    ),
    Miss(
        "TENSOR_ELEMENTS",
        (torch.tensor([True, False]),),
        (torch.tensor([True, True]),),
        "the elements of the capture",
        "other elements",
        "as numbers",
        b"\1\0",
    ),
    Miss(
        "GRADIENT_TARGET",
        (torch.ones(2, requires_grad=True),),
        (torch.ones(2),),
        "a leaf that requires gradients",
        "no such leaf",
        "without hooks",
        number=1,
    ),
    Miss(
        "GRADIENT_TARGET",
        (torch.ones(2, requires_grad=True),),
        (hooked(),),
        "without hooks",
        "one with hooks",
        "outside of it",
        number=0,
    ),
    Miss(
        "GRADIENT_TARGET",
        (hooked(),),
        (torch.ones(2, requires_grad=True),),
        "with hooks by register_hook() alone",
        "no such leaf",
        "outside of it",
        number=2,
    ),
    Miss(
        "WHOLE_MEMORY",
        (torch.ones(2),),
        (torch.ones(3)[1:],),
        "fills its memory",
        "a part of it",
        "no part of a larger one",
    ),
    Miss(
        "IS",
        (BOX, BOX),
        (BOX, ANOTHER),
        "both to be one object",
        f"{hex(id(ANOTHER))}> as L['b']",
        "the same object for both",
        add=between("IS"),
    ),
    Miss(
        "IS_NOT",
        (BOX, ANOTHER),
        (BOX, BOX),
        "two different objects",
        "L['b'] as well",
        "different objects again",
        add=between("IS_NOT"),
    ),
    Miss(
        "DISTINCT",
        (1, 2, 3),
        (1, 2, 1),
        "3 different objects",
        "one object as L['a'] and L['c']",
        "such as a clone",
        add=add_distinct,
    ),
    Miss(
        "CONDITION",
        (torch.ones(3, 4),),
        (torch.ones(4, 3),),
        "L['a'].size(1) % 2 == 0",
        "L['a'].size(1) = 3",
        "outcome",
        add=add_condition,
    ),
    Miss(
        "FORESEEN",
        (TENSOR, torch.ones(3)),
        (TENSOR, TENSOR[1:]),
        "tensors that share no memory",
        "one memory",
        "by the values of this tensor",
        add=add_foreseen,
    ),
    Miss(
        "GLOBAL_STATE",
        (),
        (),
        "the torch state of the capture",
        "grad mode: expected on, found off",
        "one grad mode",
        add=ambient("GLOBAL_STATE"),
        around=without_gradients,
    ),
    Miss(
        "NOT_HANDLING",
        (),
        (),
        "no exception",
        "KeyError('lost')",
        "outside of except",
        add=ambient("NOT_HANDLING"),
        around=handling,
    ),
    Miss(
        "ABC_TOKEN",
        (),
        (),
        "",
        "",
        "register virtual subclasses",
        add=lambda g, place: ambient("ABC_TOKEN", abc.get_cache_token())(g, place),
        around=with_one_more_virtual_subclass,
    ),
    Miss(
        "ITERATOR_HAS",
        (iterator([1, 2], 0),),
        (iterator([1, 2], 1),),
        "at least 2 elements",
        "1 elements",
        "make it inside",
        number=2,
    ),
    Miss(
        "ITERATOR_LEFT",
        (iterator([1], 0),),
        (iterator([1], 1),),
        "1 elements ahead",
        "0 elements ahead",
        "make it inside",
        number=1,
    ),
    Miss(
        "ITERATOR_AT",
        (iterator([1, 2], 1),),
        (iterator([1, 2], 0),),
        "at index 1",
        "at index 0",
        "make it inside",
        number=1,
    ),
    Miss(
        "ITERATOR_SHAPE",
        (zip("ab", "cd"),),
        (zip("ab"),),
        "of 2 parts",
        "of 1 parts, type zip",
        "make it inside",
        number=2,
    ),
    Miss(
        "GENERATOR_AT",
        (ended(numbers()),),
        (numbers(),),
        "a generator that has ended",
        "suspended in numbers at byte",
        "make it inside",
    ),
]


@pytest.fixture(scope="module", autouse=True)
def tables():
    """The kinds of iterators are known from the first compile on."""
    pellucid.compile(lambda x: x, backend="eager")(torch.ones(1))


def kinds() -> list[str]:
    return re.findall(r"^GUARD\(\s*(\w+)", ROWS.read_text(), re.MULTILINE)


def test_every_kind_has_a_row():
    assert {miss.kind for miss in MISSES} == set(kinds()) and len(kinds()) > 30


@pytest.mark.parametrize("row", MISSES, ids=lambda row: row.kind)
def test_what_a_reason_says(row: Miss):
    p = row.program()
    if row.fits or not row.fails:
        assert p.misses(row.fits) == [], p.explain(row.fits)
    seen = []
    row.around(lambda: seen.append((p.check(row.fails), p.misses(row.fails))))
    ((holds, (miss,)),) = seen
    assert not holds
    assert miss["kind"] == row.kind
    assert row.old in miss["expected"] and row.new in f"found {miss['found']}", miss["message"]
    assert miss["expected"] != miss["found"]
    assert row.advice in miss["suggestion"] and miss["line"] == LINE
    for part in (miss["expected"], miss["found"], f"{__file__}:{LINE}, adds", miss["suggestion"]):
        assert part in miss["message"]
