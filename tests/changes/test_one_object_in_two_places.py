"""Objects that are told apart by identity, met in two places that hold one object in one call and two in the next."""

import functools

import pytest
import torch

import pellucid


def a_function(number):
    def inner():
        return number

    return inner


class Plain:
    pass


class Sized:
    def __init__(self, number):
        self.numbers = [number]


def a_class(number):
    return type("Made", (), {"number": number})


PAIRS = {
    "function": (a_function(0), a_function(1)),
    "lambda": (lambda: 0, lambda: 0),
    "instance": (Plain(), Plain()),
    "instance with attributes": (Sized(0), Sized(0)),
    "class": (a_class(0), a_class(0)),
    "C function": (len, max),
    "partial": (functools.partial(len), functools.partial(len)),
    "module": (torch.nn.ReLU(), torch.nn.ReLU()),
    "parameter": (torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))),
    "tensor": (torch.ones(2), torch.ones(2)),
    "python module": (torch, functools),
}
KEPT = None
KEPT_IN_LIST = [None]
KEPT_IN_TUPLE = (None,)


class Holder:
    on_class = None
    unbound = staticmethod(len)

    def __init__(self, value):
        self.on_instance = value


HOLDER = Holder(None)


def with_default(value=None):
    return value


def in_cell():
    kept = None

    def read():
        return kept

    def write(value):
        nonlocal kept
        kept = value

    return read, write


READ_CELL, WRITE_CELL = in_cell()
PLACES = {
    "global": lambda: KEPT,
    "list": lambda: KEPT_IN_LIST[0],
    "tuple": lambda: KEPT_IN_TUPLE[0],
    "class": lambda: Holder.__dict__["on_class"],
    "static method": lambda: Holder.unbound,
    "instance": lambda: HOLDER.on_instance,
    "default": with_default,
    "cell": READ_CELL,
}


def keep(value):
    global KEPT, KEPT_IN_TUPLE
    KEPT = KEPT_IN_LIST[0] = Holder.on_class = HOLDER.on_instance = value
    KEPT_IN_TUPLE = (value,)
    Holder.unbound = staticmethod(value)
    with_default.__defaults__ = (value,)
    WRITE_CELL(value)


def is_it(x, value, place):
    return value is place()


def is_it_reversed(x, value, place):
    return place() is value


def is_element(x, value, place):
    return any(one is value for one in (1, place()))


def hands_both_back(x, value, place):
    return [value, place()]


@pytest.mark.parametrize("use", [is_it, is_it_reversed, is_element, hands_both_back])
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("kind", PAIRS)
def test_identity(kind, where, use, counting):
    place = PLACES[where]

    def program(x, value):
        return x + 1, use(x, value, place)

    compiled = pellucid.compile(program, backend=counting)
    one, other = PAIRS[kind]
    keep(one)
    for value in (one, other, one, other):
        expected, found = program(torch.ones(2), value), compiled(torch.ones(2), value)
        torch.testing.assert_close(found[0], expected[0])
        assert (
            [id(item) for item in found[1]] == [id(item) for item in expected[1]]
            if use is hands_both_back
            else (found[1] is expected[1])
        )
    assert counting.count


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("kind", [kind for kind in PAIRS if kind not in ("tensor", "parameter")])
def test_as_keys_and_in_equal_tuples(kind, where, counting):
    place = PLACES[where]

    def program(x, value):
        return x + 1, {value: 1}.get(place()), (value, 2) == (place(), 2), value in [0, place()]

    compiled = pellucid.compile(program, backend=counting)
    one, other = PAIRS[kind]
    keep(one)
    for value in (one, other, one, other):
        assert compiled(torch.ones(2), value)[1:] == program(torch.ones(2), value)[1:]
    assert counting.count


class Kept:
    """Containers from outside that hold one object."""

    def __init__(self, value):
        self.mixed, self.alone, self.pairs = {value, 1, 0}, {value}, {(value, 1)}
        self.frozen, self.table, self.row = frozenset({value, 1}), {value: 1}, [value]


CONTAINERS = {
    "set of both": lambda value, kept: {value, 0} | kept.mixed,
    "set display": lambda value, kept: len({value, *kept.mixed}),
    "intersection": lambda value, kept: {value, 2} & kept.mixed,
    "subset": lambda value, kept: {value, 2} <= kept.mixed,
    "equal sets": lambda value, kept: ({value} == kept.alone, kept.frozen == {value, 1}),
    "disjoint": lambda value, kept: kept.mixed.isdisjoint([value]),
    "superset": lambda value, kept: kept.frozen.issuperset([value]),
    "union": lambda value, kept: len(kept.mixed.union([value])),
    "difference": lambda value, kept: kept.mixed - {value},
    "merged dicts": lambda value, kept: len({value: 1} | dict.fromkeys(kept.mixed)),
    "keys of a dict": lambda value, kept: len({value: 1}.keys() | kept.mixed),
    "equal dicts": lambda value, kept: {value: 1} == kept.table,
    "in tuples": lambda value, kept: ({(value, 1)} == kept.pairs, (value, 1) in kept.pairs, {(value, 1)} <= kept.pairs),
    "equal lists": lambda value, kept: [value] == kept.row,
    "set comprehension": lambda value, kept: len({item for item in (value, *kept.frozen)}),
}


class WithMethods:
    def method(self):
        return 1

    def other(self):
        return 2


OBJECTS = WithMethods(), WithMethods()
MADE = {
    **{kind: (lambda pair=pair: pair[0], lambda pair=pair: pair[1]) for kind, pair in PAIRS.items()},
    "method of another object": (lambda: OBJECTS[0].method, lambda: OBJECTS[1].method),
    "other method": (lambda: OBJECTS[0].method, lambda: OBJECTS[0].other),
}
for tensors in ("tensor", "parameter"):
    del MADE[tensors]  # their == is no truth value


@pytest.mark.parametrize("starts", [0, 1])
@pytest.mark.parametrize("use", CONTAINERS)
@pytest.mark.parametrize("kind", MADE)
def test_in_containers(kind, use, starts, counting):
    """An element or key from outside, and an object that the region puts into a container of its own."""
    make = MADE[kind]

    def program(x, value, kept):
        return x + 1, CONTAINERS[use](value, kept)

    compiled, kept = pellucid.compile(program, backend=counting), Kept(make[0]())
    for turn in range(4):
        value = make[(turn + starts) % 2]()
        assert compiled(torch.ones(2), value, kept)[1] == program(torch.ones(2), value, kept)[1]
    assert counting.count
