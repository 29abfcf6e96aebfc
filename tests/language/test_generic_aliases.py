"""list[int] and its like, called and asked for what they have: `types.GenericAlias`."""

import collections
import collections.abc
import types
from collections.abc import Callable

import pytest
import torch

import pellucid
from support.programs import Programs, check

PROGRAMS = program = Programs()


class Plain:
    __class_getitem__ = classmethod(types.GenericAlias)
    level = 3

    def __init__(self, value, *, by=1):
        self.value = value * by

    @classmethod
    def named(cls):
        return cls.__name__


class HasSlots:
    __slots__ = ("value",)
    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, value):
        self.value = value


class Refuses:
    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, value):
        self.value = value

    def __setattr__(self, name, value):
        if name == "__orig_class__":
            raise self.value
        super().__setattr__(name, value)


@program
def builtin_classes(s, x):
    counts = collections.defaultdict[str, list](list)
    counts["a"].append(s.n)
    return dict[str, int](a=1), list[int](s.items), set[int](), tuple[int, ...]([1, 2]), counts, x + 1


@program
def a_class_of_the_program(s, x):
    alias = Plain[int]
    made = alias(x, by=2)
    return made.value, made.__orig_class__ is alias, made.__orig_class__.__args__


@program
def an_instance_without_room_for_the_alias(s, x):
    made = HasSlots[int](x)
    return made.value + 1, hasattr(made, "__orig_class__")


@program
def what_setattr_raises(s, x):
    for error in (AttributeError("a"), TypeError("b"), ValueError("c")):
        try:
            made = Refuses[int](error)
        except ValueError as raised:
            s.log.append(raised.args)
        else:
            s.log.append(hasattr(made, "__orig_class__"))
    return x + len(s.log)


@program
def what_the_class_raises(s, x):
    try:
        list[int](5)
    except TypeError as error:
        return x + 1, str(error)


@program
def called_by_a_builtin(s, x):
    return list(map(dict[str, int], [[("a", s.n)], []])), x + 1


@program
def attributes(s, x):
    alias = Plain[int, str]
    own = alias.__origin__, alias.__args__, alias.__parameters__, alias.__unpacked__, alias.__class__
    return own, alias.level, alias.named(), alias.__name__, hasattr(alias, "nothing"), x * alias.level


@program
def a_subclass_of_it(s, x):
    alias = Callable[[int], str]
    try:
        alias(3)
    except TypeError as error:
        return alias.__args__, alias.__origin__ is collections.abc.Callable, str(error), x + 1


@program
def the_class_of_aliases(s, x):
    return types.GenericAlias(dict, (str, int))(a=s.n), x + 1


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_same_as_eager(f):
    check(f)


ALIAS = list[int]


def test_an_alias_of_another_class_is_another_graph(monkeypatch, counting):
    def f(x):
        return x + len(ALIAS((1, 1, 2)))

    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    assert compiled(torch.zeros(1)).item() == compiled(torch.zeros(1)).item() == 3
    monkeypatch.setitem(globals(), "ALIAS", set[int])
    assert compiled(torch.zeros(1)).item() == 2
    assert counting.count == 2


NAMES = [name for name in dir(types.GenericAlias) if name not in dir(object)]
NAMES += ["__copy__", "__deepcopy__", "__bool__", "__len__", "__reduce__", "__reduce_ex__"]
OF_ALL_NAMES = types.GenericAlias(type("HasAll", (), dict.fromkeys(NAMES, "of the class")), (int,))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_of_the_alias_or_of_its_class(name, counting):
    def f(x):
        return x + (getattr(OF_ALL_NAMES, name, None) == "of the class")

    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    assert compiled(torch.zeros(1)) == f(torch.zeros(1))
    assert counting.count == 1
