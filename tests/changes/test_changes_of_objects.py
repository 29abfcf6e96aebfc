"""Between calls objects that a region read, and what operators and builtins ask of them may change: the result equals eager's every time (support/changes.py)."""

import abc
import collections
import dataclasses
import enum
import functools
import types
import typing
import weakref

import pytest
import torch

from support.changes import Cases, X

case = CASES = Cases(eager={"isinstance_of_a_runtime_protocol", "attrgetter_and_itemgetter", "format_with_attributes"})


# ---- classes and instances


class Base:
    base = 2.0

    def work(self, x):
        return x * 2


@case
def bool_and_len_of_objects():
    class C:
        def __init__(self, n):
            self.n = n

        def __len__(self):
            return self.n

    c = C(1)

    def f(x):
        return x + 1 if c else x - 1

    yield f, X
    c.n = 0
    yield f, X
    C.__bool__ = lambda self: True
    yield f, X


@case
def truth_of_an_object_without_bool():
    class C:
        pass

    c = C()

    def f(x):
        return x + 1 if c else x - 1

    yield f, X
    C.__len__ = lambda self: 0
    yield f, X


@case
def equality_of_objects():
    class C:
        pass

    a, b = C(), C()

    def f(x):
        return x + 1 if a == b else x - 1

    yield f, X
    C.__eq__ = lambda self, other: True
    yield f, X
    del C.__eq__
    b = a
    yield f, X


@case
def operators_of_objects():
    class C:
        def __add__(self, other):
            return other + 1

    c = C()

    def f(x):
        return c + x

    yield f, X
    C.__add__ = lambda self, other: other + 2
    yield f, X


@case
def call_of_an_object():
    class C:
        def __call__(self, x):
            return x + 1

    c = C()

    def f(x):
        return c(x)

    yield f, X
    C.__call__ = lambda self, x: x + 2
    yield f, X


@case
def iteration_of_an_object():
    class C:
        def __iter__(self):
            return iter([1, 2])

    c = C()

    def f(x):
        return x * sum(c)

    yield f, X
    C.__iter__ = lambda self: iter([5])
    yield f, X


@case
def isinstance_by_class():
    class A:
        pass

    class B(A):
        pass

    def f(c, x):
        return x + 1 if isinstance(c, B) else x - 1

    yield f, A(), X
    yield f, B(), X
    yield f, A(), X


@case
def isinstance_by_registration():
    class Scale(abc.ABC):
        pass

    class C:
        pass

    c = C()

    def f(x):
        return x + 1 if isinstance(c, Scale) else x - 1

    yield f, X
    Scale.register(C)
    yield f, X


@case
def isinstance_by_bases():
    class A:
        pass

    class B:
        pass

    class C(A):
        pass

    c = C()

    def f(x):
        return x + 1 if isinstance(c, B) else x - 1

    yield f, X
    C.__bases__ = (B,)
    yield f, X


@case
def issubclass_by_bases():
    class A:
        pass

    class B:
        pass

    class C(A):
        pass

    def f(x):
        return x + 1 if issubclass(C, B) else x - 1

    yield f, X
    C.__bases__ = (B,)
    yield f, X


@case
def isinstance_of_a_runtime_protocol():
    @typing.runtime_checkable
    class HasScale(typing.Protocol):
        def scale(self): ...

    class C:
        pass

    c = C()

    def f(x):
        return x + 1 if isinstance(c, HasScale) else x - 1

    yield f, X
    C.scale = lambda self: 1
    yield f, X


@case
def enum_members():
    class Mode(enum.Enum):
        A = 2
        B = 3

    def f(mode, x):
        return x * mode.value if mode is Mode.A else x - mode.value

    yield f, Mode.A, X
    yield f, Mode.B, X
    yield f, Mode.A, X


@case
def enum_member_changed():
    class Mode(enum.Enum):
        A = 2

    def f(x):
        return x * Mode.A.value

    yield f, X
    Mode.A._value_ = 5
    yield f, X


@case
def enum_member_attribute():
    class Mode(enum.Enum):
        A = 2

    Mode.A.extra = 2

    def f(mode, x):
        return x * mode.extra

    yield f, Mode.A, X
    Mode.A.extra = 5
    yield f, Mode.A, X


Point = collections.namedtuple("Point", "a b")


@case
def namedtuple_fields():
    def f(p, x):
        return x * p.a + p.b

    yield f, Point(1.0, 2.0), X
    yield f, Point(1.0, 3.0), X
    yield f, Point(torch.ones(3), 3.0), X


@case
def namedtuple_or_tuple():
    def f(p, x):
        return x + 1 if isinstance(p, Point) else x - 1

    yield f, Point(1.0, 2.0), X
    yield f, (1.0, 2.0), X


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    sizes: list = dataclasses.field(default_factory=lambda: [1, 2])


@case
def dataclass_fields():
    config = Config()

    def f(config, x):
        return x * config.scale + len(config.sizes)

    yield f, config, X
    config.scale = 3.0
    yield f, config, X
    config.sizes.append(1)
    yield f, config, X
    yield f, Config(5.0), X


@case
def dataclass_equality_and_asdict():
    a, b = Config(), Config()

    def f(x):
        return (x + 1 if a == b else x - 1) * dataclasses.asdict(a)["scale"]

    yield f, X
    b.sizes[0] = 7
    yield f, X
    a.scale = 9.0
    yield f, X


@case
def simple_namespace():
    s = types.SimpleNamespace(n=2)

    def f(s, x):
        return x * s.n

    yield f, s, X
    s.n = 3
    yield f, s, X
    yield f, types.SimpleNamespace(n=4), X


@case
def weak_reference():
    class C:
        n = 2

    a, b = C(), C()
    b.n = 5

    def f(r, c, x):
        return x * c.n * (1 if r() is c else 3)

    yield f, weakref.ref(a), a, X
    yield f, weakref.ref(b), a, X
    yield f, weakref.ref(b), b, X


@case
def docstring_read():
    class C:
        "a"

    def f(x):
        return x * len(C.__doc__)

    yield f, X
    C.__doc__ = "abc"
    yield f, X


@case
def name_of_a_class():
    class C:
        pass

    c = C()

    def f(x):
        return x + 1 if c.__class__.__name__ == "C" else x - 1

    yield f, X
    C.__name__ = "D"
    yield f, X
    C.__qualname__ = "E"
    yield f, X


@case
def mro_read():
    class A:
        pass

    class B:
        pass

    class C(A):
        pass

    def f(x):
        return x + 1 if B in C.__mro__ else x - 1

    yield f, X
    C.__bases__ = (B,)
    yield f, X


@case
def methods_compared():
    a, b = Base(), Base()

    def f(g, h, x):
        return x + 1 if g == h else x - 1

    yield f, a.work, a.work, X
    yield f, a.work, b.work, X


@case
def hash_of_an_object():
    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return hash(self.n)

        def __eq__(self, other):
            return self.n == other.n

    k = Key(1)

    def f(x):
        return x * (hash(k) + 2)

    yield f, X
    k.n = 3
    yield f, X


@case
def callable_of_an_object():
    class C:
        pass

    c = C()

    def f(x):
        return x + 1 if callable(c) else x - 1

    yield f, X
    C.__call__ = lambda self: 1
    yield f, X


@case
def hasattr_of_a_class_attribute():
    class C:
        pass

    c = C()

    def f(x):
        return x + 1 if hasattr(c, "late") else x - 1

    yield f, X
    C.late = 1
    yield f, X
    del C.late
    yield f, X


@case
def text_of_an_object():
    class C:
        def __repr__(self):
            return "abc"

    c = C()

    def f(x):
        return x * len(f"{c}")

    yield f, X
    C.__repr__ = lambda self: "abcdef"
    yield f, X


@case
def text_of_a_class_in_a_message():
    class C:
        pass

    def f(x):
        return x * len(f"{C}")

    yield f, X
    C.__qualname__ = "D"
    yield f, X


@case
def text_of_an_enum_member():
    class Mode(enum.Enum):
        A = 2

    def f(x):
        return x * len(str(Mode.A)) + len(f"{Mode.A}")

    yield f, X
    Mode.__str__ = lambda self: "?"
    yield f, X


@case
def exception_message():
    def f(n, x):
        try:
            raise ValueError(n)
        except ValueError as error:
            return x * len(str(error))

    yield f, "a", X
    yield f, "abc", X


@case
def cached_property():
    class C:
        n = 2

        @functools.cached_property
        def scale(self):
            return self.n * 2

    c = C()

    def f(c, x):
        return x * c.scale

    c.scale
    yield f, c, X
    c.__dict__["scale"] = 7
    yield f, c, X


@case
def attrgetter_and_itemgetter():
    import operator

    class C:
        n = 2

    c = C()
    by_name, by_item = operator.attrgetter("n"), operator.itemgetter(0)
    v = [3]

    def f(x):
        return x * by_name(c) + by_item(v)

    yield f, X
    c.n = 4
    yield f, X
    v[0] = 9
    yield f, X


@case
def format_with_attributes():
    class Mode(enum.Enum):
        A = 2

    def f(x):
        return x * int(f"{Mode.A.value}")

    yield f, X
    Mode.A._value_ = 5
    yield f, X


@case
def property_of_a_namedtuple_subclass():
    class P(Point):
        n = 2

        @property
        def area(self):
            return self.a * self.n

    p = P(2.0, 3.0)

    def f(p, x):
        return x * p.area

    yield f, p, X
    P.n = 5
    yield f, p, X
    yield f, P(4.0, 3.0), X


@case
def object_in_a_set_from_outside():
    a, b = Base(), Base()

    def f(v, k, x):
        return x + 1 if k in v else x - 1

    yield f, {a}, a, X
    yield f, {a}, b, X
    yield f, {b}, b, X


@case
def regex_and_dates():
    import re

    def f(p, x):
        return x * len(p.pattern)

    yield f, re.compile("a"), X
    yield f, re.compile("abc"), X


@pytest.mark.parametrize("make", CASES, ids=CASES.names)
def test_B01_change(make, counting):
    CASES.check(make, counting)
