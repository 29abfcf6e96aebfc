"""Methods of the user's that C code would run without being seen: of enum members, `__class__` under isinstance(), lookups."""

from __future__ import annotations

import abc
import enum
import functools

import pytest
import torch

import pellucid

X = torch.ones(2)


def both(f, *args):
    """Eager's and our answer, ours with a second call from the cache."""
    compiled = pellucid.compile(f, backend="eager")
    want = f(*args)
    assert compiled(*args) == compiled(*args) == want
    return compiled


def mode(method: str, answer, base=enum.Enum):
    """An enum class with one method of its own, which reads a variable; and how to change that."""
    said = [answer]

    class Mode(base):
        FAST, SAFE = 1, 2

    setattr(Mode, method, lambda self, *rest: said[0])
    return Mode, said


PRINTING = {
    "%s": ("__str__", lambda m: "%s" % m),
    "%s of a tuple": ("__str__", lambda m: "%s %s" % (m, 1)),
    "%r": ("__repr__", lambda m: "%r" % m),
    "%s of a list": ("__repr__", lambda m: "%s" % [m]),
    "str": ("__str__", lambda m: str(m)),
    "f-string": ("__str__", lambda m: f"{m!s}"),
    "f-string, __format__": ("__format__", lambda m: f"{m}"),
    "str of a list": ("__repr__", lambda m: str([m])),
}


@pytest.mark.parametrize("kind", PRINTING)
def test_printing_a_member(kind):
    method, show = PRINTING[kind]
    cls, said = mode(method, "one")

    def f(x, m):
        return show(m), (x + 1).shape

    compiled = pellucid.compile(f, backend="eager")
    for answer in ("one", "two"):
        said[0] = answer
        assert compiled(X, cls.FAST) == f(X, cls.FAST)
    setattr(cls, method, lambda self, *rest: "three")
    assert compiled(X, cls.FAST) == f(X, cls.FAST)


def test_a_class_that_gets_a_method_later():
    class Mode(enum.Enum):
        FAST = 1

    def f(x, m):
        y = x + 1
        return "%s" % m, y.shape

    compiled = both(f, X, Mode.FAST)
    Mode.__str__ = lambda self: "later"
    assert compiled(X, Mode.FAST) == f(X, Mode.FAST) == ("later", (2,))


def test_the_enum_modules_own_methods_are_captured():
    class Mode(enum.Enum):
        FAST = 1

    class Level(enum.IntEnum):
        LOW = 1

    class Flags(enum.Flag):
        A, B = 1, 2

    def f(x):
        text = "%s %r %d" % (Mode.FAST, Mode.FAST, Level.LOW)
        table = {Mode.FAST: 2, Level.LOW: 3}
        return text, table[Mode.FAST], hash(Mode.FAST) == hash(Mode.FAST), Flags.A | Flags.B, ~Flags.A, (x * 2).shape

    assert pellucid.compile(f, backend="eager", fullgraph=True)(X) == f(X)


def test_members_as_keys():
    cls, said = mode("__hash__", 1)

    def look_up(x, m, table):
        y = x + 1
        return table.get(m), m in table, len({m, cls.SAFE}), hash(m), y.shape

    table = {cls.FAST: "fast"}
    compiled = both(look_up, X, cls.FAST, table)
    said[0] = 2
    assert compiled(X, cls.FAST, table) == look_up(X, cls.FAST, table)


def test_members_that_are_equal():
    cls, said = mode("__eq__", True)
    cls.__hash__ = enum.Enum.__hash__

    def compare(x, m):
        y = x + 1
        return m == cls.SAFE, (m,) == (cls.SAFE,), m in [cls.SAFE], y.shape

    compiled = both(compare, X, cls.FAST)
    said[0] = False
    assert compiled(X, cls.FAST) == compare(X, cls.FAST)


@pytest.mark.parametrize(
    "method, use", [("__or__", lambda a, b: a | b), ("__add__", lambda a, b: a + b), ("__invert__", lambda a, b: ~a)]
)
@pytest.mark.parametrize("base", [enum.Enum, enum.Flag])
def test_operators_of_members(method, use, base):
    cls, said = mode(method, 10, base)

    def f(x, a, b):
        return use(a, b), (x + 1).shape

    compiled = both(f, X, cls.FAST, cls.SAFE)
    said[0] = 20
    assert compiled(X, cls.FAST, cls.SAFE) == f(X, cls.FAST, cls.SAFE)


# ---- __class__


class Claims:
    claimed: type = int

    @property
    def __class__(self):
        return Claims.claimed


class ByGetattribute:
    claimed: type = int

    def __getattribute__(self, name):
        return ByGetattribute.claimed if name == "__class__" else object.__getattribute__(self, name)


class Abstract(abc.ABC):
    pass


@pytest.mark.parametrize("cls", [Claims, ByGetattribute])
@pytest.mark.parametrize("asked", [int, str, (str, list), Abstract, (Abstract, int), object])
def test_isinstance_asks_for_the_class_that_an_object_claims(cls, asked):
    thing = cls()

    def f(x):
        return isinstance(thing, asked), isinstance(thing, cls), (x + 1).shape

    compiled = pellucid.compile(f, backend="eager")
    try:
        for claimed in (int, str, int, Abstract, cls):
            cls.claimed = claimed
            assert compiled(X) == f(X)
    finally:
        cls.claimed = int


def test_a_class_that_starts_to_claim():
    class Base:
        pass

    class Plain(Base):
        pass

    class Number:
        __class__ = property(lambda self: int)

    thing = Plain()

    def f(x):
        return isinstance(thing, int), (x + 1).shape

    compiled = both(f, X)
    Plain.__bases__ = (Number,)
    assert compiled(X) == f(X) == (True, (2,))


LOOKED_UP: list[str] = []


class SlotAndFallback:
    __slots__ = ("size",)

    def __getattr__(self, name):
        LOOKED_UP.append(name)
        return 7


class EveryLookup:
    __slots__ = ("__dict__", "size")

    def __getattribute__(self, name):
        LOOKED_UP.append(name)
        return super().__getattribute__(name)


def filled():
    made = EveryLookup()
    made.size = 2
    return made


def reads_the_slot(x, o):
    return x + o.size


def reads_the_dict(x, o):
    return x + len(o.__dict__)


def sets_the_slot(x, o):
    o.size = 3
    return x + o.size


def sets_an_attribute(x, o):
    o.__init__()
    o.extra = 4
    return x


@pytest.mark.parametrize("make", [SlotAndFallback, filled])
@pytest.mark.parametrize("use", [reads_the_slot, reads_the_dict, sets_the_slot, sets_an_attribute])
def test_hooks_of_attributes_run_once(use, make, counting):
    """Capture reads members and the dict as C code does; the class's __getattr__ and __getattribute__ are followed as code."""
    compiled = pellucid.compile(use, backend=counting)

    def called(function):
        LOOKED_UP.clear()
        try:
            result = function(X, make()).tolist()
        except Exception as error:
            result = type(error)
        return result, list(LOOKED_UP)

    want = called(use)
    assert [called(compiled), called(compiled)] == [want, want]
    assert bool(counting.count) == (isinstance(want[0], list) and use is not sets_an_attribute)


class AttributeDict(dict):
    def __getattr__(self, name):
        return self[name]

    def __setattr__(self, name, value):
        self[name] = value


class DictOfMethods(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Named(list):
    def __getattr__(self, name):
        return len(self) + len(name)


class Whole(int):
    def __getattr__(self, name):
        return len(name)


@pytest.mark.parametrize(
    "made", [lambda: AttributeDict(scale=3), lambda: DictOfMethods(scale=3), Named, lambda: Whole(4)]
)
def test_attributes_that_a_class_over_a_builtin_one_computes(made):
    def f(x, o):
        return (x * o.scale).tolist(), hasattr(o, "__len__"), getattr(o, "keys", None) is None

    both(lambda x, o: f(x, o), X, made())
    compiled = pellucid.compile(lambda x, o: x * o.scale, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X, made()), X * made().scale)


@pytest.mark.parametrize("cls", [AttributeDict, DictOfMethods])
def test_attributes_that_become_items(cls):
    def f(x, o):
        o.first = x + 1
        o.second = o.first * o.scale
        if cls is DictOfMethods:
            del o.scale
        return o.second

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for scale in (2, 3, 2):
        mine, want = cls(scale=scale), cls(scale=scale)
        assert torch.equal(compiled(X, mine), f(X, want))
        assert list(mine) == list(want)
        assert torch.equal(mine["second"], want["second"])


class Bound:
    """`__getattr__` and `__setattr__` that are no plain methods."""

    __getattr__ = staticmethod(lambda name: len(name))

    def _set(self, times, name, value):
        self.__dict__[name] = value * times

    __setattr__ = functools.partialmethod(_set, 3)


def test_hooks_that_are_no_methods():
    def f(x, o):
        o.value = 2
        return (x * o.value + o.missing).tolist()

    both(f, X, Bound())


@pytest.mark.parametrize("base", [dict, list, object])
def test_a_hook_given_later(base):
    cls = type("Later", (base,), {})

    def f(x, o):
        return hasattr(o, "scale"), (x + 1).tolist()

    compiled = both(f, X, cls())
    cls.__getattr__ = lambda self, name: 3
    assert compiled(X, cls()) == f(X, cls())
    assert compiled(X, cls())[0]
