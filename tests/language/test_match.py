"""PYTEST_DONT_REWRITE

The match statement: sequences, mappings, classes, values, guards."""

import collections
import dataclasses
import enum

import pytest

from support.programs import Programs, check

PROGRAMS = program = Programs()


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Node:
    left: object
    right: object = None


class Shouting:
    @property
    def loud(self):
        raise KeyError("loud")

    @property
    def missing(self):
        raise AttributeError("missing")


class Logs:
    __match_args__ = ("a", "b")

    def __init__(self, log):
        self.log = log

    def __getattr__(self, name):
        self.log.append(name)
        return len(self.log)


class Meta(type):
    def __instancecheck__(cls, instance):
        return instance == 7


class Seven(metaclass=Meta):
    pass


class OwnMapping(collections.abc.Mapping):
    def __init__(self, data, log):
        self.data = data
        self.log = log

    def __getitem__(self, key):
        self.log.append(key)
        return self.data[key]

    def __iter__(self):
        return iter(self.data)

    def __len__(self):
        return len(self.data)


def describe(value, x):
    match value:
        case 0 | 1:
            return "bit"
        case "text" as t:
            return t
        case None:
            return "none"
        case [a]:
            return "one", a
        case [a, *rest] if len(rest) > 2:
            return "many", a, rest
        case (a, [b, c], *_):
            return "nested", a, b, c
        case {"op": "add", "by": by}:
            return x + by
        case {"op": op, **others}:
            return op, others
        case {}:
            return "mapping"
        case Point(x=0, y=0):
            return "origin"
        case Point(0, y):
            return "on y", y
        case Point(px, py) if px == py:
            return "diagonal", px
        case Point():
            return "point"
        case Colour.RED:
            return "red"
        case Node(Node(a, b), c):
            return "deep", a, b, c
        case Node(left=l):
            return "node", l
        case int(n):
            return "int", n
        case float() | complex():
            return "inexact"
        case str(t):
            return "str", t
        case _:
            return "other"


@program
def every_pattern(s, x):
    values = [
        0, 1, "text", None, [5], [1, 2, 3, 4], (1, [2, 3], 4), (1, 2), {"op": "add", "by": 3}, {"op": "mul", "by": 3, "z": x}, {},
        {"q": 1}, Point(0, 0), Point(0, 5), Point(3, 3), Point(3, 4), Colour.RED, Colour.BLUE, Node(Node(1, x), 2), Node(x), 17, 2.5, 1j,
        "zz", b"bytes", print, {1}, s.items, s.table, s.queue, range(2), True,
    ]  # fmt: skip
    return [describe(v, x) for v in values], x + 1


@program
def of_tensors(s, x):
    match [x, x + 1]:
        case [a, b]:
            return a * b
    return x


@program
def attribute_errors(s, x):
    out = []
    match Shouting():
        case Shouting(missing=m):
            out.append(m)
        case _:
            out.append("no match")
    try:
        match Shouting():
            case Shouting(loud=m):
                out.append(m)
    except KeyError as error:
        out.append(str(error))
    return out, x + 1


@program
def getattr_in_order(s, x):
    match Logs(s.log):
        case Logs(1, 9):
            return x
        case Logs(a, b, c=c):
            return a, b, c, x + 1


@program
def instancecheck_of_the_metaclass(s, x):
    out = []
    for v in (7, 8):
        match v:
            case Seven():
                out.append("seven")
            case _:
                out.append("other")
    return out, x + 1


@program
def wrong_class_patterns(s, x):
    out = []

    class Few:
        __match_args__ = ("a",)
        a = b = 1

    class Odd:
        __match_args__ = ["a"]
        a = 1

    class Number:
        __match_args__ = (1,)
        a = 1

    def try_one(v, n):
        try:
            match v, n:
                case Few(a, b), 1:
                    return a, b
                case Few(a, a=b), 2:
                    return a, b
                case Odd(a), 3:
                    return a
                case Number(a), 4:
                    return a
                case int(a, b), 5:
                    return a
                case object(a), 6:
                    return a
        except TypeError as error:
            return str(error)

    for v, n in ((Few(), 1), (Few(), 2), (Odd(), 3), (Number(), 4), (1, 5), (1, 6), (Few(), 9)):
        out.append(try_one(v, n))
    return out, x + 1


@program
def not_a_class(s, x):
    thing = 5
    try:
        match x:
            case thing():
                return 1
    except TypeError as error:
        return str(error), x + 1


@program
def user_mapping(s, x):
    match OwnMapping({"a": 1, "b": x}, s.log):
        case {"a": 2}:
            return 2
        case {"a": 1, "b": b, **rest}:
            return b + 1, rest


@program
def default_dict_is_not_filled(s, x):
    d = collections.defaultdict(list)
    d["here"] = 1
    match d:
        case {"missing": v}:
            return v
        case {"here": v}:
            return v, list(d), x + 1


@program
def keys_of_the_state(s, x):
    match s.table:
        case {"a": a, **rest}:
            s.table["a"] = a + 1
            s.table["b"] = rest
            return a, rest, x * a


@program
def sequences_of_the_state(s, x):
    match s.items:
        case [first, *rest, last]:
            s.items.append(first)
            return rest, x * last


@program
def values_by_attribute(s, x):
    match s.n:
        case Colour.RED.value:
            return x
        case -1 | 0:
            s.n = 1
            return x + 1


@program
def duplicate_keys(s, x):
    class C:
        key = "k"
        same = "k"

    try:
        match {"k": 1, "l": 2}:
            case {C.key: u, C.same: v}:
                return u, v
    except ValueError as error:
        return str(error), x + 1


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_same_as_eager(f):
    check(f)
