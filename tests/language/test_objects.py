"""PYTEST_DONT_REWRITE: programs contain `assert`.

Classes from outside, their instances, dataclasses, enums, truth and text of objects.
"""

import collections
import dataclasses
import enum

import pytest

from support.programs import Programs, check

PROGRAMS = program = Programs()


# ---- classes


class Scale:
    def __init__(self, name):
        self.name = name

    def __set_name__(self, owner, name):
        self.public = name

    def __get__(self, obj, owner):
        return self if obj is None else obj.__dict__.get(self.name, 1) * 2

    def __set__(self, obj, value):
        obj.__dict__[self.name] = value
        obj.log.append(self.public)


class Animal:
    kind = "animal"
    scale = Scale("_scale")
    __slots_like__ = ()

    def __init__(self, x, log=None):
        self.x = x
        self.log = [] if log is None else log

    @property
    def double(self):
        return self.x * 2

    @double.setter
    def double(self, value):
        self.x = value / 2

    @double.deleter
    def double(self):
        del self.x

    @classmethod
    def make(cls, x):
        return cls(x)

    @staticmethod
    def plus(a, b):
        return a + b

    def speak(self, x):
        return x + 1

    def __call__(self, x):
        return self.speak(x)

    def __add__(self, other):
        return type(self)(self.x + getattr(other, "x", other))

    __radd__ = __add__

    def __iadd__(self, other):
        self.x = self.x + other
        return self

    def __getitem__(self, key):
        return self.x * key

    def __setitem__(self, key, value):
        self.log.append((key, value))

    def __contains__(self, key):
        return key == 1

    def __len__(self):
        return 3

    def __iter__(self):
        yield from (self.x, 1)

    def __eq__(self, other):
        return isinstance(other, Animal) and self.kind == other.kind

    __hash__ = object.__hash__

    def __repr__(self):
        return f"<{self.kind}>"


class Dog(Animal):
    kind = "dog"

    def speak(self, x):
        return super().speak(x) * 2

    def __getattr__(self, name):
        if name.startswith("get_"):
            return name[4:]
        raise AttributeError(name)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@program
def classes(s, x):
    d = Dog.make(x)
    a = Animal(x, s.log)
    a.double = x * 8
    a.scale = 3
    a[1] = 2
    both = d + a
    d += 1
    return (d.double, d(x), d.speak(x), a.x, a.scale, both.x, (1 + d).x, d[3], 1 in d, len(d), [v for v in d], a == d, Dog.plus(x, 1), f"{d!r}", d.get_name,
            hasattr(d, "other"), isinstance(d, Animal), issubclass(Dog, Animal), type(d).__name__, a.log)  # fmt: skip


@program
def deleting_a_property(s, x):
    a = Animal(x)
    del a.double
    try:
        return a.double, x
    except AttributeError as error:
        return str(error), x + 1


@program
def slots(s, x):
    v = Slotted(x)
    try:
        v.b
    except AttributeError as error:
        s.log.append(str(error))
    v.b = 2
    v.a = v.a + v.b
    del v.b
    return v.a, hasattr(v, "b")


@dataclasses.dataclass
class Point:
    a: object
    b: int = 2
    c: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.c.append(self.b)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object


Pair = collections.namedtuple("Pair", "a b", defaults=[5])


class Mode(enum.Enum):
    A = 1
    B = "b"

    @property
    def lower(self):
        return self.name.lower()


class Flag(enum.IntFlag):
    X = 1
    Y = 2


@program
def dataclasses_(s, x):
    p = Point(x)
    q = dataclasses.replace(p, b=4)
    return p, q.b, q.c, [f.name for f in dataclasses.fields(p)], Frozen(x).a


@program
def namedtuples(s, x):
    p = Pair(x)
    a, b = p
    return p, p.a, b, p._replace(b=7), p._asdict(), p._fields, Pair._make([x, 1])


@program
def enums(s, x):
    mode = Mode("b")
    return (
        Mode.A.value,
        mode.name,
        mode is Mode.B,
        Mode["A"].lower,
        [m.name for m in Mode],
        mode in (Mode.A,),
        Flag.X < 2,
        int(Flag.Y),
        x,
    )


@program.breaks
def class_body(s, x):
    class Local:
        n = 3

        def work(self, v):
            return v * self.n

    return Local().work(x)


@program.breaks
def match_statement(s, x):
    match s.items:
        case [a, b]:
            return x * a + b
        case [a, *rest]:
            return x * a + len(rest)


class Truthy:
    def __init__(self, n):
        self.n = n

    def __bool__(self):
        return self.n > 0


@program
def truth_of_objects(s, x):
    a, b = Truthy(1), Truthy(0)
    if a and not b:
        x = x + 1
    return (
        x if b else x * 2,
        (a and b) is b,
        (a or b) is a,
        (b and a) is b,
        (b or a) is a,
        bool(a),
        not a,
        [v.n for v in (a, b) if v],
        all([a, b]),
        any([a, b]),
    )


@program.breaks
def converted_and_formatted(s, x):
    return f"{Dog(x)!r:>9}", x + 1


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_same_as_eager(f):
    check(f, computes=False)
