"""Kinds of values for the value matrix: each row makes a new object at every call, one value for 0 and another for 1."""

from __future__ import annotations

import abc
import array
import collections
import dataclasses
import datetime
import enum
import fractions
import functools
import ipaddress
import itertools
import math
import operator
import pathlib
import re
import types
import typing
import uuid
import weakref
from decimal import Decimal

import numpy
import torch


class MyInt(int):
    pass


class MyFloat(float):
    pass


class MyStr(str):
    pass


class MyBytes(bytes):
    pass


class MyTuple(tuple):
    pass


class MyFrozenSet(frozenset):
    pass


class MyDecimal(Decimal):
    pass


class MyList(list):
    pass


class MyDict(dict):
    pass


Point = collections.namedtuple("Point", "a b")


class Pair(typing.NamedTuple):
    a: int
    b: object = None


class OwnTuple(tuple):
    """A tuple with Python code that compares."""

    def __eq__(self, other):
        return tuple.__eq__(self, other)

    __hash__ = tuple.__hash__


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    A = "a"
    B = "b"


class Bits(enum.Flag):
    A = 1
    B = 2


class IntBits(enum.IntFlag):
    A = 1
    B = 2


class Mixed(str, enum.Enum):  # noqa: UP042
    A = "a"
    B = "b"


class OwnEnum(enum.Enum):
    A = 1
    B = 2

    def __hash__(self):
        return 7


@dataclasses.dataclass
class Data:
    a: int


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int


@dataclasses.dataclass(eq=False)
class ByIdentity:
    a: int


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class Ordered:
    a: int


class Plain:
    def __init__(self, a):
        self.a = a

    def method(self):
        return self.a

    @classmethod
    def made(cls):
        return cls(1)


class Slots:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Equal:
    def __init__(self, a):
        self.a = a

    def __eq__(self, other):
        return isinstance(other, Equal) and self.a == other.a

    def __hash__(self):
        return hash(self.a)


class Less:
    """Python code in the comparing slot, but not for ==."""

    def __init__(self, a):
        self.a = a

    def __lt__(self, other):
        return self.a < other.a


class Unhashable:
    __hash__ = None

    def __init__(self, a):
        self.a = a


class Meta(type):
    def __eq__(cls, other):
        return isinstance(other, Meta) and cls.tag == other.tag

    def __hash__(cls):
        return hash(cls.tag)


def tagged(n):
    return Meta("Tagged", (), {"tag": n})


class MyZone(datetime.tzinfo):
    def utcoffset(self, moment):
        return datetime.timedelta(0)

    def tzname(self, moment):
        return "mine"

    def dst(self, moment):
        return None


OBJECTS = (Plain(1), Plain(2))
LISTS = ([1], [2])


def first_function(x=1):
    return x


def second_function(x=2):
    return x


FUNCTIONS = (first_function, second_function)
T = typing.TypeVar("T")
U = typing.TypeVar("U")


def a_lambda(n):
    return (lambda x=1: x) if n == 0 else (lambda x=2: x)


def closure(n):
    def inner():
        return n

    return inner


def generator(n):
    return (i for i in range(n + 2))


def error(n):
    return ValueError(f"number {n}")


VALUES: dict[str, typing.Callable[[int], object]] = {
    # numbers and texts
    "none": lambda n: (None, ...)[n],
    "bool": lambda n: (True, False)[n],
    "int": lambda n: (3, 4)[n],
    "big_int": lambda n: 10**20 + n,
    "int_or_bool": lambda n: (1, True)[n],
    "int_or_float": lambda n: (1, 1.0)[n],
    "float": lambda n: float(f"1.{n}"),
    "zero": lambda n: (0.0, -0.0)[n],
    "nan": lambda n: (math.nan, 1.0)[n],
    "complex": lambda n: complex(1, n),
    "str": lambda n: "".join(["te", "xt"[n]]),
    "bytes": lambda n: bytes([97, 98 + n]),
    "bytearray": lambda n: bytearray([97, 98 + n]),
    "memoryview": lambda n: memoryview(bytes([97, 98 + n])),
    "my_int": lambda n: MyInt(n + 1),
    "my_float": lambda n: MyFloat(n + 0.5),
    "my_str": lambda n: MyStr("ab"[n]),
    "my_bytes": lambda n: MyBytes([97 + n]),
    "decimal": lambda n: Decimal(f"1.{n}"),
    "equal_decimals": lambda n: (Decimal("1.0"), Decimal("1.00"))[n],
    "my_decimal": lambda n: MyDecimal(n),
    "fraction": lambda n: fractions.Fraction(1, 2 + n),
    # tuples and their like
    "tuple": lambda n: (1, (2, n)),
    "empty_tuple": lambda n: ((), (1,))[n],
    "tuple_of_object": lambda n: (OBJECTS[n], 1),
    "tuple_of_new": lambda n: (Plain(n), 1),
    "tuple_of_frozenset": lambda n: (frozenset([1, n + 2]), 1),
    "tuple_of_pattern": lambda n: (re.compile("ab"[n]), 1),
    "tuple_of_dtype": lambda n: (numpy.dtype(("f4", "i8")[n]), torch.float32),
    "tuple_of_decimal": lambda n: (Decimal(n), "x"),
    "tuple_of_list": lambda n: ([n], 1),
    "my_tuple": lambda n: MyTuple((1, n)),
    "own_tuple": lambda n: OwnTuple((1, n)),
    "namedtuple": lambda n: Point(1, n),
    "typed_namedtuple": lambda n: Pair(n, Decimal(1)),
    "struct_sequence": lambda n: torch.return_types.max((1, n)),
    "frozenset": lambda n: frozenset([1, n + 2]),
    "frozenset_of_objects": lambda n: frozenset([OBJECTS[n]]),
    "frozenset_of_decimal": lambda n: frozenset([Decimal(n)]),
    "my_frozenset": lambda n: MyFrozenSet([n]),
    "range": lambda n: range(3 + n),
    "slice": lambda n: slice(1, 2 + n),
    # containers that change
    "list": lambda n: [1, n],
    "my_list": lambda n: MyList([1, n]),
    "dict": lambda n: {"a": n},
    "my_dict": lambda n: MyDict(a=n),
    "ordered_dict": lambda n: collections.OrderedDict(a=n, b=1),
    "counter": lambda n: collections.Counter("aab"[n:]),
    "default_dict": lambda n: collections.defaultdict(int, a=n),
    "set": lambda n: {1, n + 2},
    "deque": lambda n: collections.deque([1, n]),
    "mapping_proxy": lambda n: types.MappingProxyType({"a": n}),
    "array": lambda n: array.array("i", [n]),
    "dict_keys": lambda n: {"a": 1, n: 2}.keys(),
    # torch's and numpy's
    "size": lambda n: torch.Size([2, 3 + n]),
    "dtype": lambda n: (torch.float32, torch.int64)[n],
    "device": lambda n: torch.device(("cpu", "meta")[n]),
    "layout": lambda n: (torch.strided, torch.sparse_coo)[n],
    "memory_format": lambda n: (torch.contiguous_format, torch.channels_last)[n],
    "finfo": lambda n: torch.finfo((torch.float32, torch.float64)[n]),
    "tensor": lambda n: torch.tensor([1.0, n]),
    "numpy_int": lambda n: numpy.int64(n + 1),
    "numpy_float": lambda n: numpy.float64(n + 0.5),
    "numpy_float32": lambda n: numpy.float32(n + 0.5),
    "numpy_bool": lambda n: numpy.bool_(n),
    "numpy_str": lambda n: numpy.str_("ab"[n]),
    "numpy_date": lambda n: numpy.datetime64(f"2020-01-0{n + 1}"),
    "numpy_dtype": lambda n: numpy.dtype([("f4", "f4", "i8")[2 * n]][0]),
    "numpy_record_dtype": lambda n: numpy.dtype([("x", ("f4", "i8")[n])]),
    "numpy_array": lambda n: numpy.array([1, n]),
    # enums
    "enum": lambda n: (Color.RED, Color.BLUE)[n],
    "int_enum": lambda n: (Level.LOW, Level.HIGH)[n],
    "str_enum": lambda n: (Word.A, Word.B)[n],
    "flag": lambda n: (Bits.A, Bits.A | Bits.B)[n],
    "int_flag": lambda n: (IntBits.A, IntBits.B)[n],
    "mixed_enum": lambda n: (Mixed.A, Mixed.B)[n],
    "own_enum": lambda n: (OwnEnum.A, OwnEnum.B)[n],
    # objects
    "dataclass": lambda n: Data(n),
    "frozen_dataclass": lambda n: Frozen(n),
    "dataclass_by_identity": lambda n: ByIdentity(n),
    "ordered_dataclass": lambda n: Ordered(n),
    "plain": lambda n: Plain(n),
    "known_plain": lambda n: OBJECTS[n],
    "slots": lambda n: Slots(n),
    "equal": lambda n: Equal(n),
    "less": lambda n: Less(n),
    "unhashable": lambda n: Unhashable(n),
    "exception": lambda n: error(n),
    "namespace": lambda n: types.SimpleNamespace(a=n),
    "module": lambda n: (math, operator)[n],
    # dates, paths, patterns …
    "date": lambda n: datetime.date(2020, 1, 1 + n),
    "datetime": lambda n: datetime.datetime(2020, 1, 1 + n),
    "utc_datetime": lambda n: datetime.datetime(2020, 1, 1 + n, tzinfo=datetime.UTC),
    "own_datetime": lambda n: datetime.datetime(2020, 1, 1 + n, tzinfo=MyZone()),
    "time": lambda n: datetime.time(1 + n),
    "timedelta": lambda n: datetime.timedelta(1 + n),
    "timezone": lambda n: datetime.timezone(datetime.timedelta(hours=n)),
    "pattern": lambda n: re.compile("ab"[n]),
    "match": lambda n: re.match("a|b", "ab"[n]),
    "path": lambda n: pathlib.PurePosixPath("ab"[n]),
    "uuid": lambda n: uuid.UUID(int=n),
    "address": lambda n: ipaddress.ip_address(n),
    # callables
    "function": lambda n: FUNCTIONS[n],
    "lambda": a_lambda,
    "closure": closure,
    "method": lambda n: OBJECTS[n].method,
    "method_of_new": lambda n: Plain(n).method,
    "class_method": lambda n: (Plain.made, dict.fromkeys)[n],
    "builtin": lambda n: (len, max)[n],
    "builtin_method": lambda n: LISTS[n].count,
    "text_method": lambda n: "ab"[n].upper,
    "slot_wrapper": lambda n: LISTS[n].__len__,
    "descriptor": lambda n: (list.append, list.extend)[n],
    "partial": lambda n: functools.partial(max, n),
    "itemgetter": lambda n: operator.itemgetter(n),
    "class": lambda n: (Plain, Slots)[n],
    "builtin_class": lambda n: (int, str)[n],
    "abstract_class": lambda n: (abc.ABC, collections.abc.Sized)[n],
    "class_with_eq": tagged,
    "torch_function": lambda n: (torch.sin, torch.cos)[n],
    # types as values
    "alias": lambda n: (list[int], list[str])[n],
    "alias_of_dict": lambda n: dict[str, (int, str)[n]],
    "unpacked_alias": lambda n: (next(iter(tuple[int])), tuple[int])[n],
    "union": lambda n: (int | str, int | None)[n],
    "typing_list": lambda n: typing.List[(int, str)[n]],  # noqa: UP006
    "optional": lambda n: typing.Optional[(int, str)[n]],  # noqa: UP045
    "type_var": lambda n: (T, U)[n],
    "forward_ref": lambda n: typing.ForwardRef("AB"[n]),
    # iterators
    "list_iterator": lambda n: iter([1, n]),
    "zip": lambda n: zip([1, n], "ab", strict=True),
    "repeat": lambda n: itertools.repeat(n, 2),
    "generator": generator,
    "weakref": lambda n: weakref.ref(OBJECTS[n]),
    "code": lambda n: FUNCTIONS[n].__code__,
    "property": lambda n: property(FUNCTIONS[n]),
}
