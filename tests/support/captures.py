"""Captures made by hand, and odd classes, for the tests of the codegen room."""

import collections
import dataclasses
import enum

import pellucid
from pellucid import _core
from support import Plain

Capture = _core._codegen.Capture


class Fake:
    """Stands for a value that the graph gives."""


pellucid.compile(lambda: None, backend="eager")()  # sets up the tables that codegen reads


def f(x):
    return x


def build(result, *, function=f, inputs=(), sources=(), nodes=0, effects=(), make=None):
    """A capture of `function` with `nodes` graph values (handed to `make`), finished and emitted.

    Returns (emitted function, capture). The graph gives "out0", "out1", … in the order of the capture's outputs.
    """
    capture = Capture(function)
    for value, path in inputs:
        capture.input(value, path)
    for value, path in sources:
        capture.source(value, path)
    fakes = [Fake() for _ in range(nodes)]
    for fake in fakes:
        capture.node(fake, len, tuple(value for value, _ in inputs))
    if make is not None:
        result, effects = make(*fakes)
    for effect in effects:
        capture.effect(*effect[:2], **effect[2])
    capture.finish(result)
    calls = []

    def compiled(*arguments):
        calls.append(arguments)
        return tuple(f"out{fakes.index(fake)}" for fake in capture.outputs())

    emitted = capture.emit(compiled if nodes else None)
    emitted.__dict__["calls"] = calls
    return emitted, capture


def rebuilt(value):
    """What two calls of a region give that made `value`: both new."""
    emitted, _ = build(value)
    return emitted(None), emitted(None)


SELF = X = ("local", 0, "x")


def effect(kind, target, value=..., **more):
    return (kind, target, {"value": value, **more} if value is not ... else more)


class Color(enum.Enum):
    RED = 1


Point = collections.namedtuple("Point", "x y")


class Pair(tuple):
    pass


class MyList(list):
    def append(self, item):
        raise AssertionError("user code ran")

    def __setitem__(self, key, value):
        raise AssertionError("user code ran")

    def __init__(self, *items):
        raise AssertionError("user code ran")

    @classmethod
    def of(cls, *items):
        made = list.__new__(cls)
        list.extend(made, items)
        return made


class MyDict(dict):
    def __setitem__(self, key, value):
        raise AssertionError("user code ran")


class MyOrdered(collections.OrderedDict):
    def __setitem__(self, key, value):
        raise AssertionError("user code ran")


class MyInt(int):
    pass


class Guarded(Plain):
    shown = property(lambda self: 1)

    def __setattr__(self, name, value):
        raise AssertionError("user code ran")


class Slotted:
    __slots__ = ("__weakref__", "a", "b")


class SubSlotted(Slotted):
    __slots__ = ("c",)
    a = 5  # hides the slot of the base


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: list


def equal_through_cycles(a, b, seen=None):
    """Equal in type, content and attributes, through cycles."""
    seen = {} if seen is None else seen
    if id(a) in seen:
        return seen[id(a)] is b
    if type(a) is not type(b):
        return False
    seen[id(a)] = b
    if getattr(a, "__dict__", None) and not isinstance(a, type):
        if list(a.__dict__) != list(b.__dict__) or not all(
            equal_through_cycles(a.__dict__[k], b.__dict__[k], seen) for k in a.__dict__
        ):
            return False
    if isinstance(a, (list, tuple, collections.deque)):
        return len(a) == len(b) and all(equal_through_cycles(x, y, seen) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(
            equal_through_cycles(dict.__getitem__(a, k), dict.__getitem__(b, k), seen) for k in a
        )
    if hasattr(a, "__dict__"):
        return True
    return a == b


def slotted():
    made = Slotted()
    made.a = [1]
    return made


def plain_tuple(cls, *items):
    return tuple.__new__(cls, items)


def my_dict(cls, base, **items):
    made = cls()
    for key, value in items.items():
        base.__setitem__(made, key, value)
    return made


def with_attribute(value, **attributes):
    value.__dict__.update(attributes)
    return value


def maker(n):
    captured = [n]

    def inner(a, b=captured, *, c=None, **rest) -> int:
        """Says things."""
        return captured, a, b, c, n

    inner.tag = captured
    return inner, captured


class Opaque(Plain):
    """User code in every access."""

    def __getattribute__(self, name):
        raise AssertionError("user code ran")

    hidden = property(lambda self: 1)


class OpaqueList(list):
    def __getitem__(self, index):
        raise AssertionError("user code ran")


class OpaqueDict(dict):
    def __getitem__(self, key):
        raise AssertionError("user code ran")

    def __missing__(self, key):
        raise AssertionError("user code ran")


class Lenient(dict):
    def __missing__(self, key):
        raise AssertionError("user code ran")


class Shadowed:
    value = property(lambda self: "property")


def shadowed():
    made = Shadowed()
    made.__dict__["value"] = [1]
    return made


def opaque(**attributes):
    made = object.__new__(Opaque)
    object.__getattribute__(made, "__dict__").update(attributes)
    return made
