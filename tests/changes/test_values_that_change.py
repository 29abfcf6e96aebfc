"""Arguments that are values (numbers, texts, dates, subclasses of builtin types, containers of these) and change between the calls.

Each use of a value is one function; it is called with one value, with another of the same type, and with the first again.
"""

from __future__ import annotations

import array
import collections
import copy
import datetime
import enum
import functools
import ipaddress
import itertools
import math
import operator
import pathlib
import random
import re
import string
import struct
import types
import uuid
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest
import torch
from value_matrix_values import MyBytes, MyDict, MyFloat, MyInt, MyList, MyStr, MyTuple

import pellucid

P = collections.namedtuple("P", "a b")


class E(enum.Enum):
    A = 1
    B = 2


class Kind(enum.IntEnum):
    A = 1
    B = 2


class Fl(enum.Flag):
    A = 1
    B = 2


VALUES = [
    (Decimal("1.0"), Decimal("3.5")),
    (Fraction(1, 2), Fraction(3, 4)),
    (datetime.date(2020, 1, 1), datetime.date(2021, 2, 2)),
    (datetime.datetime(2020, 1, 1, 3), datetime.datetime(2021, 2, 2)),
    (datetime.timedelta(1), datetime.timedelta(2)),
    (datetime.time(1), datetime.time(2)),
    (uuid.UUID(int=1), uuid.UUID(int=2)),
    (pathlib.PurePosixPath("a/b"), pathlib.PurePosixPath("c/d")),
    (numpy.float32(1.5), numpy.float32(2.5)),
    (numpy.int64(3), numpy.int64(4)),
    (numpy.bool_(True), numpy.bool_(False)),
    (numpy.dtype("f4"), numpy.dtype("i8")),
    (numpy.array([1, 2]), numpy.array([3, 4])),
    (numpy.str_("a"), numpy.str_("b")),
    (re.compile("a+"), re.compile("b+")),
    (range(3), range(4)),
    (slice(1, 2), slice(2, 3)),
    (b"ab", b"cd"),
    (bytearray(b"ab"), bytearray(b"cd")),
    (array.array("i", [1]), array.array("i", [2])),
    (memoryview(b"ab"), memoryview(b"cd")),
    (1 + 2j, 3 + 4j),
    (list[int], list[str]),
    (torch.float32, torch.float64),
    (torch.device("cpu"), torch.device("meta")),
    (torch.Size([1, 2]), torch.Size([2, 3])),
    (torch.finfo(torch.float32), torch.finfo(torch.float64)),
    (types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})),
    (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    (P(1, 2), P(3, 4)),
    (functools.partial(max, 1), functools.partial(max, 5)),
    (operator.itemgetter(0), operator.itemgetter(1)),
    (operator.attrgetter("a"), operator.attrgetter("b")),
    (struct.Struct("i"), struct.Struct("d")),
    (random.Random(1), random.Random(2)),
    (E.A, E.B),
    (Kind.A, Kind.B),
    (Fl.A, Fl.B),
    (MyInt(1), MyInt(2)),
    (MyStr("a"), MyStr("b")),
    (MyTuple((1, 2)), MyTuple((3, 4))),
    (MyFloat(1.5), MyFloat(2.5)),
    ((1, (2, 3)), (1, (2, 4))),
    (frozenset([1]), frozenset([2])),
    ({1}, {2}),
    ([1], [2]),
    ({"a": 1}, {"a": 2}),
    (collections.deque([1]), collections.deque([2])),
    (collections.OrderedDict(a=1), collections.OrderedDict(a=2)),
    (collections.Counter("aab"), collections.Counter("abb")),
    (ipaddress.ip_address("1.1.1.1"), ipaddress.ip_address("2.2.2.2")),
    (string.Template("$a"), string.Template("$b")),
    (None, ...),
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    (int, float),
    (len, max),
    (abs, sum),
    ((Decimal("1"), 2), (Decimal("2"), 2)),
    ([Decimal("1")], [Decimal("2")]),
    ({"k": Decimal("1")}, {"k": Decimal("2")}),
    ((numpy.float32(1),), (numpy.float32(2),)),
    (frozenset([Decimal("1")]), frozenset([Decimal("2")])),
    (slice(Decimal("1")), slice(Decimal("2"))),
    (re.compile("a").match("a"), re.compile(".").match("ab")),
    (ValueError("a"), ValueError("b")),
    (types.GenericAlias(list, (int,)), types.GenericAlias(list, (str,))),
    ("abc".upper, "def".upper),
    ([1].copy, [2].copy),
    (datetime.UTC, datetime.timezone(datetime.timedelta(hours=1))),
]
KNOWN = [
    Decimal("1.0"),
    Fraction(1, 2),
    datetime.date(2020, 1, 1),
    datetime.timedelta(1),
    uuid.UUID(int=1),
    1,
    "a",
    (1, 2),
    b"ab",
    1.5,
    E.A,
    torch.float32,
    torch.device("cpu"),
    range(3),
    frozenset([1]),
    torch.Size([1, 2]),
    (Decimal("1"), 2),
    re.compile("a+"),
    list[int],
]
USES = {
    "inset": lambda t, x: x in set(KNOWN),
    "inset2": lambda t, x: (
        x in {Decimal("1.0"), Fraction(1, 2), datetime.date(2020, 1, 1), datetime.timedelta(1), 1, "a"}
    ),
    "inlist": lambda t, x: x in KNOWN,
    "intup": lambda t, x: x in (Decimal("1.0"), 1, "a"),
    "getk": lambda t, x: dict.fromkeys(KNOWN, 7).get(x),
    "getk2": lambda t, x: {Decimal("1.0"): 1, Fraction(1, 2): 2, datetime.date(2020, 1, 1): 3}.get(x),
    "index": lambda t, x: KNOWN.index(x),
    "count": lambda t, x: KNOWN.count(x),
    "eqD": lambda t, x: (x == Decimal("1.0"), Decimal("1.0") == x, x == KNOWN[2], KNOWN[3] == x),
    "sd": lambda t, x: (lambda d: (d.setdefault(x, 5), len(d)))({Decimal("1.0"): 1}),
    "rm": lambda t, x: (lambda d: (d.pop(x, None), len(d)))({Decimal("1.0"): 1, KNOWN[2]: 2}),
    "un": lambda t, x: len({x} | {Decimal("1.0"), KNOWN[2]}),
    "eqt": lambda t, x: (x, 1) == (Decimal("1.0"), 1),
    "eql": lambda t, x: [x] == [KNOWN[2]],
    "eqd": lambda t, x: {"a": x} == {"a": Decimal("1.0")},
    "switch": lambda t, x: "m" if x in (E.A, E.B) else "n",
    "dunion": lambda t, x: len({x: 1} | {Decimal("1.0"): 2}),
    "sub": lambda t, x: len({Decimal("1.0"), KNOWN[2]} - {x}),
    "Counter": lambda t, x: collections.Counter([x, x, Decimal("1.0")])[Decimal("1.0")],
    "dd": lambda t, x: collections.defaultdict(list, {Decimal("1.0"): [1]})[x],
    "ismin": lambda t, x: min([x, x]),
    "uniq": lambda t, x: len(dict.fromkeys([x, Decimal("1.0"), KNOWN[2], KNOWN[3]])),
    "lru": lambda t, x: functools.lru_cache(lambda v: v)(x),
    "pass": lambda t, x: x,
    "tuple": lambda t, x: (x, 1),
    "list": lambda t, x: [x],
    "dictv": lambda t, x: {"k": x},
    "dictk": lambda t, x: {x: 1},
    "set": lambda t, x: {x},
    "fset": lambda t, x: frozenset([x]),
    "nest": lambda t, x: ((x,), {"a": [x]}),
    "str": lambda t, x: str(x),
    "repr": lambda t, x: repr(x),
    "fmt": lambda t, x: f"{x}",
    "fmtr": lambda t, x: f"{x!r:>30}",
    "pct": lambda t, x: "%s" % (x,),
    "eq": lambda t, x: x == x,
    "hash": lambda t, x: hash(x),
    "bool": lambda t, x: bool(x),
    "not": lambda t, x: not x,
    "if": lambda t, x: 1 if x else 2,
    "len": lambda t, x: len(x),
    "iter": lambda t, x: list(x),
    "type": lambda t, x: type(x),
    "add1": lambda t, x: x + 1,
    "addx": lambda t, x: x + x,
    "mul2": lambda t, x: x * 2,
    "neg": lambda t, x: -x,
    "int": lambda t, x: int(x),
    "float": lambda t, x: float(x),
    "getitem0": lambda t, x: x[0],
    "slice": lambda t, x: slice(x),
    "call": lambda t, x: x(),
    "call3": lambda t, x: x(3),
    "attr_a": lambda t, x: x.a,
    "dict": lambda t, x: sorted(vars(x).items()),
    "in": lambda t, x: 1 in x,
    "lt": lambda t, x: x < x,
    "sorted": lambda t, x: sorted(x),
    "tuple_": lambda t, x: tuple(x),
    "unpack": lambda t, x: [*x],
    "closure": lambda t, x: (lambda: x)(),
    "default": lambda t, x: (lambda y=x: y)(),
    "max": lambda t, x: max(x, x),
    "isinst": lambda t, x: isinstance(x, (int, str)),
    "abs": lambda t, x: abs(x),
    "round": lambda t, x: round(x),
    "ns": lambda t, x: types.SimpleNamespace(v=x),
    "part": lambda t, x: functools.partial(print, x),
    "pairs": lambda t, x: list(zip([x], [1])),
    "enum": lambda t, x: list(enumerate([x])),
    "sizes": lambda t, x: torch.Size([2]) + tuple([1]),
    "const": lambda t, x: (x, x, "a", (1, x)),
    "tensor": lambda t, x: t * x,
    "copy": lambda t, x: copy.copy(x),
    "deep": lambda t, x: copy.deepcopy(x),
    "joined": lambda t, x: ",".join(map(str, x)),
    "year": lambda t, x: x.year,
    "name": lambda t, x: x.name,
    "value": lambda t, x: x.value,
    "real": lambda t, x: x.real,
    "pattern": lambda t, x: x.pattern,
    "shape": lambda t, x: x.shape,
    "item": lambda t, x: x.item(),
    "match": lambda t, x: bool(x.match("aa")),
    "args": lambda t, x: x.args,
    "self": lambda t, x: x.__self__,
    "cls": lambda t, x: x.__class__,
    "gt1": lambda t, x: x > 1,
    "eqc": lambda t, x: (x == 1, x == "a", x != 2),
    "is": lambda t, x: (x is None, x is x),
    "random": lambda t, x: x.random(),
    "keys": lambda t, x: list(x.keys()),
    "items": lambda t, x: list(x.items()),
    "start": lambda t, x: (x.start, x.stop),
    "numerator": lambda t, x: x.numerator,
    "index_by": lambda t, x: [0, 1, 2, 3, 4, 5][x],
    "slc": lambda t, x: [0, 1, 2, 3][x],
    "excl": lambda t, x: (x,) + (1,),
    "cond": lambda t, x: {x: 1}.get(x),
    "ordd": lambda t, x: collections.OrderedDict([(x, x)]),
}


class MyInt2(int):
    def __init__(self, *a):
        self.z = 1


class MyComplex(complex):
    pass


class MySet(set):
    pass


class MyFs(frozenset):
    pass


class TextEnum(str, enum.Enum):  # noqa: UP042
    A = "a"
    B = "b"


class Thing:
    a = 1
    b = 2


OF_INTS = {
    "range": lambda t, x: list(range(x)),
    "mull": lambda t, x: [0] * x,
    "muls": lambda t, x: "ab" * x,
    "divmod": lambda t, x: divmod(7, x),
    "pow": lambda t, x: pow(2, x),
    "pow3": lambda t, x: pow(2, x, 5),
    "round": lambda t, x: round(1.23456, x),
    "chr": lambda t, x: chr(x),
    "pctd": lambda t, x: "%d" % x,
    "pctt": lambda t, x: "%d %s" % (x, x),
    "fmt": lambda t, x: f"{x:03d}",
    "format": lambda t, x: "{:d}".format(x),  # noqa: UP032
    "insert": lambda t, x: (lambda kept: (kept.insert(x, 9), kept))([1, 2, 3])[1],
    "pop": lambda t, x: [1, 2, 3, 4].pop(x),
    "split": lambda t, x: "a b c d".split(" ", x),
    "center": lambda t, x: "a".center(x),
    "sqrt": lambda t, x: math.sqrt(x),
    "zeros": lambda t, x: torch.zeros(x),
    "view": lambda t, x: t.expand(x, 2),
    "addt": lambda t, x: t + x,
    "tidx": lambda t, x: torch.arange(9)[x],
    "idx": lambda t, x: (1, 2, 3, 4)[x],
    "sidx": lambda t, x: "abcd"[x],
    "ridx": lambda t, x: range(9)[x],
    "sl": lambda t, x: [1, 2, 3, 4][x:],
    "sl2": lambda t, x: "abcdef"[:x],
    "tsl": lambda t, x: torch.arange(9)[x:],
    "enum": lambda t, x: list(enumerate("ab", x)),
    "sum": lambda t, x: sum([1, 2], x),
    "min": lambda t, x: min(x, 5),
    "cmp": lambda t, x: (x < 2, x == 1, 2 > x),
    "dictk": lambda t, x: {1: "a", 2: "b"}[x],
    "dget": lambda t, x: {1: "a", 2: "b"}.get(x),
    "inl": lambda t, x: x in [1, 5],
    "ins": lambda t, x: x in {1, 5},
    "bool": lambda t, x: bool(x - 1),
    "int": lambda t, x: int(x),
    "float": lambda t, x: float(x),
    "str": lambda t, x: str(x),
    "hex": lambda t, x: hex(x),
    "neg": lambda t, x: -x,
    "inv": lambda t, x: ~x,
    "abs": lambda t, x: abs(x),
    "and": lambda t, x: x & 1,
    "shift": lambda t, x: 1 << x,
    "bl": lambda t, x: x.bit_length(),
    "real": lambda t, x: x.real,
    "iter": lambda t, x: list(itertools.islice("abcdef", x)),
    "rep": lambda t, x: list(itertools.repeat("a", x)),
    "count": lambda t, x: next(itertools.count(x)),
    "isl": lambda t, x: list(itertools.combinations("abc", x)),
    "bytes": lambda t, x: bytes(x),
    "hash": lambda t, x: hash(x),
    "set": lambda t, x: len({x, 1}),
    "reshape": lambda t, x: torch.ones(4).reshape(-1, x),
    "tensor": lambda t, x: torch.tensor(x),
    "tensorl": lambda t, x: torch.tensor([x, 1]),
    "full": lambda t, x: torch.full((2,), x),
    "item": lambda t, x: t.sum(dim=x - 1),
    "mod": lambda t, x: 5 % x,
    "list": lambda t, x: sorted([x, 1, 3]),
    "max": lambda t, x: max([x, 1]),
    "deq": lambda t, x: collections.deque([1, 2, 3], x),
    "rot": lambda t, x: (lambda d: (d.rotate(x), d))(collections.deque([1, 2, 3]))[1],
    "index": lambda t, x: operator.index(x),
    "getn": lambda t, x: operator.getitem([5, 6, 7], x),
    "inds": lambda t, x: [1, 2, 3].index(x),
    "cnt": lambda t, x: [1, 2].count(x),
    "del": lambda t, x: (lambda kept: (kept.__delitem__(x), kept))([1, 2, 3])[1],
    "set_": lambda t, x: (lambda kept: (kept.__setitem__(x, 0), kept))([1, 2, 3])[1],
    "json": lambda t, x: "%5.*f" % (x, 1.5),
    "cond": lambda t, x: "y" if x == 1 else "n",
    "while": lambda t, x: [i for i in range(5) if i < x],
    "shape": lambda t, x: torch.ones(3, 4).shape[x - 1],
    "perm": lambda t, x: torch.ones(2, 3).transpose(0, x - 1),
    "dim": lambda t, x: torch.ones(3, 3).sum(x - 1),
    "top": lambda t, x: torch.arange(5).topk(x)[0],
    "chunk": lambda t, x: len(torch.arange(6).chunk(x)),
    "setattr": lambda t, x: t.new_zeros(x),
    "comp": lambda t, x: complex(x, 1),
    "gcd": lambda t, x: math.gcd(x, 4),
    "isinst": lambda t, x: isinstance(x, int),
    "reduce": lambda t, x: functools.reduce(operator.add, [x, x]),
    "mulf": lambda t, x: x * 1.5,
    "rmul": lambda t, x: 2 * x,
    "radd": lambda t, x: 2 + x,
    "tdiv": lambda t, x: t / x,
    "tpow": lambda t, x: t**x,
    "where": lambda t, x: torch.where(t > 0, x, 0),
    "clamp": lambda t, x: t.clamp(max=x),
    "iadd": lambda t, x: t.add_(x),
    "fill": lambda t, x: t.fill_(x),
    "assign": lambda t, x: t.__setitem__(0, x),
    "match": lambda t, x: (lambda v: [v for _ in [0]])(x),
}
OF_TEXTS = {
    "in": lambda t, x: x in "abc",
    "upper": lambda t, x: x.upper(),
    "join": lambda t, x: "-".join([x, x]),
    "sw": lambda t, x: "abc".startswith(x),
    "getattr": lambda t, x: getattr(Thing, x),
    "hasattr": lambda t, x: hasattr(Thing(), x),
    "dict": lambda t, x: {"a": 1, "b": 2}[x],
    "dget": lambda t, x: {"a": 1}.get(x),
    "kw": lambda t, x: dict(**{x: 1}),
    "add": lambda t, x: x + "z",
    "radd": lambda t, x: "z" + x,
    "eq": lambda t, x: x == "a",
    "len": lambda t, x: len(x),
    "fmt": lambda t, x: f"{x:>4}",
    "pct": lambda t, x: "%s" % x,
    "iter": lambda t, x: list(x),
    "idx": lambda t, x: x[0],
    "split": lambda t, x: "xaxbx".split(x),
    "repl": lambda t, x: "aabb".replace(x, "z"),
    "ord": lambda t, x: ord(x),
    "re": lambda t, x: re.sub(x, "z", "ab"),
    "setd": lambda t, x: (lambda d: (d.__setitem__(x, 1), d))({}),
    "lt": lambda t, x: x < "b",
    "enc": lambda t, x: x.encode(),
    "mul": lambda t, x: x * 2,
    "hash": lambda t, x: hash(x) == hash("a"),
    "strip": lambda t, x: "aba".strip(x),
    "count": lambda t, x: "aab".count(x),
    "str": lambda t, x: str(x),
    "set": lambda t, x: x in {"a"},
    "match": lambda t, x: [k for k in ("a", "b") if k == x],
    "sorted": lambda t, x: sorted([x, "aa"]),
    "fmt2": lambda t, x: "{}".format(x),  # noqa: UP032
    "find": lambda t, x: "ab".find(x),
    "dtype": lambda t, x: torch.einsum(x + x + "->" + x, torch.eye(2)),
    "setattr": lambda t, x: (lambda o: (setattr(o, x, 5), vars(o)))(Thing()),
    "int": lambda t, x: int(x, 16),
    "isid": lambda t, x: x.isidentifier(),
    "dictcomp": lambda t, x: {x: 1},
    "kwarg": lambda t, x: (lambda **k: sorted(k))(**{x: 1}),
}
OF_SEQUENCES = {
    "len": lambda t, x: len(x),
    "idx": lambda t, x: x[0],
    "iter": lambda t, x: [*x],
    "in": lambda t, x: 1 in x,
    "sum": lambda t, x: sum(x),
    "eq": lambda t, x: list(x) == [1, 2],
    "tuple": lambda t, x: tuple(x),
    "list": lambda t, x: list(x),
    "max": lambda t, x: max(x),
    "sorted": lambda t, x: sorted(x),
    "unp": lambda t, x: (lambda a, b: (a, b))(*x),
    "star": lambda t, x: (lambda *a: a)(*x),
    "enum": lambda t, x: list(enumerate(x)),
    "zip": lambda t, x: list(zip(x, x)),
    "rev": lambda t, x: list(reversed(x)),
    "tensor": lambda t, x: torch.tensor(x),
    "size": lambda t, x: torch.ones(x),
    "view": lambda t, x: torch.ones(2, 2).sum(x),
    "add": lambda t, x: x + x,
    "sl": lambda t, x: x[1:],
    "mul": lambda t, x: x * 2,
    "pct": lambda t, x: "%s %s" % x,
    "str": lambda t, x: str(x),
    "bool": lambda t, x: bool(x),
    "cmp": lambda t, x: x == x,
    "index": lambda t, x: x.index(2),
    "cnt": lambda t, x: x.count(1),
    "set": lambda t, x: set(x),
    "any": lambda t, x: any(x),
    "map": lambda t, x: list(map(abs, x)),
    "ext": lambda t, x: [0, *x],
    "hash": lambda t, x: hash(x),
    "dk": lambda t, x: {x: 1}[x],
    "perm": lambda t, x: torch.ones(1, 2, 3).permute(*x, 0) if 0 not in x else 0,
    "dict": lambda t, x: dict.fromkeys(x),
    "chain": lambda t, x: list(itertools.chain(x, [1])),
    "as": lambda t, x: torch.as_tensor(x),
    "arr": lambda t, x: numpy.array(x).tolist(),
    "stack": lambda t, x: torch.stack([t] * len(x)),
    "it2": lambda t, x: next(iter(x)),
    "keys": lambda t, x: list(x.keys()),
    "vals": lambda t, x: list(x.values()),
    "get": lambda t, x: x.get(1),
    "un": lambda t, x: x | x,
    "copy": lambda t, x: x.copy(),
}
FAMILIES = [
    (
        "int",
        [
            (MyInt(1), MyInt(2)),
            (MyInt2(1), MyInt2(2)),
            (numpy.int64(1), numpy.int64(2)),
            (MyFloat(1.0), MyFloat(2.0)),
            (numpy.float64(1), numpy.float64(2)),
            (numpy.float32(1), numpy.float32(2)),
            (MyComplex(1), MyComplex(2)),
            (True, 1),
            (1, 1.0),
        ],
        OF_INTS,
    ),
    (
        "str",
        [
            (MyStr("a"), MyStr("b")),
            (TextEnum.A, TextEnum.B),
            (numpy.str_("a"), numpy.str_("b")),
            (MyBytes(b"a"), MyBytes(b"b")),
        ],
        OF_TEXTS,
    ),
    (
        "seq",
        [
            (MyTuple((1, 2)), MyTuple((2, 1))),
            (MyList((1, 2)), MyList((2, 1))),
            (MyDict({1: 2}), MyDict({2: 1})),
            (MySet([1, 2]), MySet([1, 3])),
            (MyFs([1, 2]), MyFs([1, 3])),
            (torch.Size([1, 2]), torch.Size([2, 1])),
            (numpy.array([1, 2]), numpy.array([2, 1])),
            ((MyInt(1), MyInt(2)), (MyInt(2), MyInt(1))),
            ([MyInt(1), 2], [MyInt(2), 1]),
            ((numpy.int64(1), 2), (numpy.int64(2), 1)),
            (range(1, 3), range(2, 4)),
            ((True, 2), (1, 2)),
        ],
        OF_SEQUENCES,
    ),
]


def show(v, depth=0):
    """What tells two results apart; not where in memory they are."""
    if isinstance(v, torch.Tensor):
        return "tensor", v.tolist(), str(v.dtype), tuple(v.shape)
    if isinstance(v, numpy.ndarray):
        return "array", v.tolist()
    if isinstance(v, (tuple, list)) and depth < 6:
        return type(v).__name__, [show(item, depth + 1) for item in v]
    if isinstance(v, dict) and depth < 6:
        return type(v).__name__, [(show(key, depth + 1), show(item, depth + 1)) for key, item in v.items()]
    if isinstance(v, functools.partial):
        return "partial", show(v.args, depth + 1)
    if isinstance(v, random.Random):
        return "Random", hash(v.getstate())
    if isinstance(v, (set, frozenset)):
        return type(v).__name__, sorted(map(repr, v))
    return type(v).__name__, re.sub("0x[0-9a-f]+", "", repr(v))


def shown_result(f, value):
    state = value.getstate() if isinstance(value, random.Random) else None
    try:
        return show(f(torch.ones(2), value))
    except Exception as error:
        return type(error).__name__, str(error)
    finally:
        if state is not None:
            value.setstate(state)


def as_it_is(use):
    def f(t, x):
        t = t + 1
        return t, use(t, x)

    return f


def behind_a_break(use):
    def f(t, x):
        t = t + 1
        held = x, [x]
        print(end="")
        result = use(t, x)
        return t * 2, result, held

    return f


def captured_uses(use, pairs, style):
    f = style(use)
    captured = 0
    both = [*pairs, *((second, first) for first, second in pairs)]  # what the first call does not find it must look for
    for at in range(0, len(both), 6):  # fewer than the recompile limit
        pellucid.reset()
        compiled = pellucid.compile(f, backend="eager")
        for first, second in both[at : at + 6]:
            for value in (first, second, first):
                want = shown_result(f, value)
                assert shown_result(compiled, value) == want, value
        captured += len(pellucid.cache_entries(compiled))
    return captured


@pytest.mark.parametrize("style", [as_it_is, behind_a_break])
@pytest.mark.parametrize("use", USES)
def test_values_that_change(use, style, capsys):
    assert captured_uses(USES[use], VALUES, style)


@pytest.mark.parametrize("style", [as_it_is, behind_a_break])
@pytest.mark.parametrize(("family", "use"), [(family, use) for family, _, uses in FAMILIES for use in uses])
def test_subclasses_of_builtin_types(family, use, style, capsys):
    _, pairs, uses = next(row for row in FAMILIES if row[0] == family)
    assert captured_uses(uses[use], pairs, style)
