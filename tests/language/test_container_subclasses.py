"""Subclasses of list, dict, deque and int, and classes that take a method of a container away: what of theirs is asked, and what is not."""

from __future__ import annotations

import collections
import collections.abc
import itertools
import operator
import types

import numpy as np
import pytest
import torch

import pellucid
from support import Counting, CountingOf, same
from support.programs import Programs, check_tensor_program, error_of

PROGRAMS = program = Programs()


class Counted(dict):
    """`dict(c)` asks it for its keys and items, because it has an __iter__ of its own."""

    def __init__(self, *args):
        super().__init__(*args)
        self.reads = 0

    def __iter__(self):
        return super().__iter__()

    def __getitem__(self, key):
        self.reads += 1
        return super().__getitem__(key)


class ReadsAside(dict):
    """`dict(r)` takes what lies in its storage."""

    def __getitem__(self, key):
        return "never asked"

    def keys(self):
        return ["never asked"]


class NoTruth:
    __bool__ = None


class NoLength:
    __len__ = None


class NoContains:
    __contains__ = None

    def __iter__(self):
        return iter([1])


class NoItem:
    __getitem__ = None
    __setitem__ = None


class Number(int):
    pass


class Deque(collections.deque):
    def __iter__(self):
        raise RuntimeError("not to be asked")


@program.without_graph
def subclass_that_iterates_itself(x):
    c = Counted(a=1)
    c["b"] = 2
    reads = [c.reads]
    print(end="")
    c["c"] = 3
    reads.append(c.reads)
    plain = dict(c)
    reads.append(c.reads)
    more = {**c}
    reads.append(c.reads)
    plain.update(c)
    return x + 1, reads, c.reads, plain, more


@program
def subclass_with_another_getitem(x):
    r = ReadsAside(a=1)
    d = {}
    d.update(r)
    return x + 1, dict(r), {**r}, d


@pytest.mark.parametrize("what", [NoTruth, NoLength, NoContains, NoItem])
def test_slots_that_are_none(what):
    def f(x, value):
        x = x + 1
        try:
            if what is NoItem:
                value[0]
            return x, 1 in value if what is NoContains else bool(value)
        except TypeError as error:
            return x, str(error)

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    assert same(compiled(torch.ones(2), what()), f(torch.ones(2), what()))
    assert backend.count == 1


@program
def index_of_a_subclass(x):
    items = [1, 2, 3]
    return x + 1, items[Number(1)], (4, 5)[Number(0)], items[operator.index(Number(2))]


@program
def deque_subclass(x):
    queue = Deque([1, 2])
    print(end="")
    queue.append(3)
    queue.popleft()
    return x + 1, queue.pop(), len(queue)


class StoresPairs(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, "stored"))


class OrderedStoresPairs(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, "stored"))


OUTSIDE = [Counted({"a": 1}), ReadsAside(a=1, b=2), collections.Counter("aab"), StoresPairs(a=1)]


@program
def subclasses_of_dict_made_from_others(x):
    kinds = (Counted, StoresPairs, ReadsAside, collections.OrderedDict)
    return x + 1, [[dict(kind(other)) for other in OUTSIDE] for kind in kinds]


@program
def update_of_dicts_with_a_setitem_in_python(x):
    found = []
    for make in (StoresPairs, OrderedStoresPairs, collections.OrderedDict):
        for other in (*OUTSIDE, [("a", 1)], {"a": 1}.items(), types.MappingProxyType({"a": 1}), {"a": 2}):
            made = make()
            made.update(other, named=1)
            found.append(list(made.items()))
    return x + 1, found


class LongList(list):
    def __len__(self):
        return super().__len__() + 1

    def __getitem__(self, index):
        return super().__getitem__(index)


class PlainDeque(collections.deque):
    pass


class Ordered(collections.OrderedDict):
    pass


def turned():
    ordered = Ordered(a=1, b=2)
    ordered.move_to_end("a")
    return ordered


@program
def comparing_lists_with_methods_of_their_own(x):
    a, b = LongList([1, 2]), LongList([1, 2])
    return x + 1, a == b, a < b, a == [1, 2], sorted([b, LongList([0])]), [a] == [b], a != b


@program
def changed_deque_of_a_subclass(x, kept=[PlainDeque([1])]):
    kept[0] = PlainDeque([1])
    outside = kept[0]
    pellucid.graph_break()
    outside.append(2)
    text = repr(outside), type(outside + outside).__name__, error_of(lambda: outside | outside)[:2]
    return x + 1, text


@program
def dict_from_what_are_no_pairs(x):
    class Late:
        def __iter__(self):
            raise TypeError("mine")

    return x + 1, error_of(dict, [1]), error_of(dict, [(1, 2, 3)]), error_of(dict, [Late()])


@program
def ordered_dict_of_a_subclass(x, kept=[None]):
    kept[0] = turned()
    outside = kept[0]
    pellucid.graph_break()
    texts = [{**outside}, dict(outside), (lambda **k: k)(**outside), dict(outside, z=1), list(outside)]
    outside["c"] = 3
    texts += [repr(outside), {**outside}, list(outside), list(outside.values())]
    pellucid.graph_break()
    return x + 1, [list(t.items()) if isinstance(t, dict) else t for t in texts], list(outside.items())


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_as_eager(f):
    check_tensor_program(f)


# ---- C code that takes what a subclass holds, past the methods of its class, and C code that asks


class Shifted(list):
    def __iter__(self):
        return iter([value + 1 for value in list.__iter__(self)])


class Pair(tuple):
    __slots__ = ()

    def __iter__(self):
        return iter((7, 8))


class Odd(list):
    """Nothing of it is what lies in its storage."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return "item"

    def __eq__(self, other):
        return "equal"


class ByKeys(dict):
    def keys(self):
        return ["k"]

    def __getitem__(self, key):
        return "item " + key


class ByIterator(ByKeys):
    def __iter__(self):
        return iter(["i"])


class Nine(set):
    def __iter__(self):
        return iter([9])

    def __len__(self):
        return 4


class OnlyEqual:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return getattr(other, "value", other) == self.value

    __hash__ = None


class Aliased(dict):
    __contains__ = dict.get
    __getitem__ = dict.get


class Static(list):
    __contains__ = staticmethod(lambda value: value == 3)


def appended(c):
    target, deque = [0], collections.deque([0])
    target += c
    deque += c
    return target, list(deque), [0] + c if isinstance(c, list) else (0, *c)


def filled(c):
    target = {1, 7}
    target |= c
    target.update(c)
    other = {1, 7, 9}
    other.intersection_update(c)
    return target, other, set(c), frozenset(c), {*c}, {1, 7}.union(c), {1, 9}.difference(c), {7, 9}.isdisjoint(c)


def merged(c):
    target = {"a": 1}
    target |= c
    return target, {"a": 1} | c


SUBCLASSES = {
    "appended": (appended, lambda: Shifted([1, 2])),
    "appended tuple": (appended, lambda: Pair((1, 2))),
    "found": (lambda c: (2 in c, 3 in c, c.count(2), c.index(2)), lambda: Shifted([1, 2])),
    "found in a tuple": (lambda c: (2 in c, 8 in c, c.count(2), c.index(2)), lambda: Pair((1, 2))),
    "found in what lies": (lambda c: (2 in c, 3 in c, c.count(2), c.index(2)), lambda: Odd([1, 2, 2])),
    "found by its own comparison": (
        lambda c: (2 in c, 3 in c, c.count(2), c.index(2)),
        lambda: Odd([OnlyEqual(1), OnlyEqual(2), OnlyEqual(2)]),
    ),
    "removed": (lambda c: (c.remove(2), list.__len__(c), list(list.__iter__(c))), lambda: Odd([1, 2, 3])),
    "sets": (filled, lambda: Nine({1, 2})),
    "merged by keys": (merged, lambda: ByKeys(a=2)),
    "merged by an iterator": (merged, lambda: ByIterator(a=2)),
    "ordered by keys": (lambda c: list(collections.OrderedDict(c).items()), lambda: ByKeys(a=2)),
    "ordered update": (lambda c: collections.OrderedDict(b=1).update(c), lambda: ByKeys(a=2)),
    "default by an iterator": (lambda c: dict(collections.defaultdict(list, c)), lambda: ByIterator(a=2)),
    "deque of keys": (lambda c: list(collections.deque(c)), lambda: ByIterator(a=2)),
    "methods of other names": (lambda c: ("a" in c, "b" in c, c["z"]), lambda: Aliased(a=0, b=1)),
    "a static method": (lambda c: (3 in c, 4 in c), lambda: Static([4])),
}


@pytest.mark.parametrize("name", SUBCLASSES)
def test_what_c_code_takes_of_a_subclass(name):
    use, make = SUBCLASSES[name]

    def f(x, container):
        return x + 1, use(container)

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    x = torch.ones(2)
    for _ in range(3):
        want, got = f(x, make()), compiled(x, make())
        assert torch.equal(want[0], got[0])
        assert repr(want[1]) == repr(got[1])
    assert counting.graphs


class Two(list):
    def __len__(self):
        return 2


class Tens(list):
    def __iter__(self):
        return iter([v * 10 for v in list.__iter__(self)])


class TupleOfTens(tuple):
    def __iter__(self):
        return iter([v * 10 for v in tuple.__iter__(self)])


class TensByIndex(list):
    def __getitem__(self, index):
        return list.__getitem__(self, index) * 10


ASKERS = {
    "tensor": lambda c, x: torch.tensor(c),
    "nested": lambda c, x: torch.as_tensor([c, c]),
    "method": lambda c, x: x.new_tensor(c),
    "index": lambda c, x: torch.arange(100)[c],
    "index of two": lambda c, x: torch.arange(100)[c, None],
    "set item": lambda c, x: torch.zeros(3).__setitem__(slice(None), torch.tensor(c)),
    "array": lambda c, x: np.array(c),
    "memory": lambda c, x: (torch.zeros(c[0:1] and [1]), torch.ones(1).repeat(c), x.sum(dim=[0])),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", [Two, Tens, TupleOfTens, TensByIndex])
@pytest.mark.parametrize("name", ASKERS)
def test_what_torch_asks_of_a_sequence(name, kind, backend):
    """Functions that ask a list or tuple for its items get what its class gives; the others what lies in it."""
    use = ASKERS[name]

    def given(x, container):
        return x + 1, use(container, x)

    def made(x, items):
        return x + 1, use(kind(items), x)

    def outcome(f, *args):
        try:
            return f(*args)
        except (ValueError, IndexError, RuntimeError, TypeError) as error:
            return type(error), str(error)

    for f, make in ((given, kind), (made, list)):
        counting = CountingOf(backend)
        compiled = pellucid.compile(f, backend=counting)
        x = torch.ones(3)
        for items in ([3, 4, 5], [6, 4, 5], [2, 4, 6]):
            assert repr(outcome(f, x, make(items))) == repr(outcome(compiled, x, make(items)))
        assert counting.graphs


class FoundIn(collections.deque):
    def __contains__(self, item):
        return item == 3


class Summed(collections.deque):
    def __add__(self, other):
        return "a sum"


class SevenOnly(collections.deque):
    def __iter__(self):
        return iter([7])


class Joined(set):
    def __or__(self, other):
        return "a union"

    def __ror__(self, other):
        return "a reflected union"

    def __and__(self, other):
        return "an intersection"


class JoinedDict(dict):
    def __or__(self, other):
        return "a union"


class ByLength(frozenset):
    compared = 0

    def __hash__(self):
        return 1

    def __eq__(self, other):
        ByLength.compared += 1
        return len(self) == len(other)


def by_length(use, *arguments):
    ByLength.compared = 0
    return use(*arguments), ByLength.compared


IN_PLACE = {
    "deque += deque": (operator.iadd, lambda: FoundIn([1]), lambda: FoundIn([2])),
    "deque += list, with a sum of its own": (operator.iadd, lambda: Summed([1]), lambda: [2]),
    "deque += int, with a sum of its own": (operator.iadd, lambda: Summed([1]), lambda: 2),
    "deque + deque with an iterator": (operator.add, lambda: SevenOnly([1]), lambda: SevenOnly([2])),
    "deque * int with an iterator": (operator.mul, lambda: SevenOnly([1]), lambda: 2),
    "deque == deque with an iterator": (operator.eq, lambda: collections.deque([7]), lambda: SevenOnly([1])),
    "in a deque with an iterator": (operator.contains, lambda: SevenOnly([1, Joined([5])]), lambda: 7),
    "found past an iterator": (operator.contains, lambda: SevenOnly([OnlyEqual(1)]), lambda: 1),
    "set |= set": (operator.ior, lambda: Joined([1]), lambda: {2}),
    "set &= itself": (operator.iand, lambda: Joined([1]), lambda: Joined([1])),
    "set |= one that reflects": (operator.ior, lambda: {1}, lambda: Joined([2])),
    "set | set": (operator.or_, lambda: Joined([1]), lambda: {2}),
    "frozenset |= set": (operator.ior, lambda: frozenset([1]), lambda: Joined([2])),
    "dict |= dict": (operator.ior, lambda: JoinedDict(a=1), lambda: {"b": 2}),
    "in a tuple of own comparisons": (
        lambda c, d: by_length(operator.contains, c, d),
        lambda: (ByLength([1, 2]), ByLength([3])),
        lambda: ByLength([4]),
    ),
    "lists of own comparisons": (
        lambda c, d: by_length(operator.lt, c, d),
        lambda: [ByLength([1])],
        lambda: [ByLength([1, 2])],
    ),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_operators_of_a_subclass(name):
    use, left, right = IN_PLACE[name]

    def f(x, a, b):
        result = use(a, b)
        return x + 1, result, result is a

    def outcome(function):
        a, b = left(), right()
        try:
            x, *rest = function(torch.ones(2), a, b)
        except TypeError as error:
            rest = [type(error)]
        else:
            assert torch.equal(x, torch.full((2,), 2.0))
        return [repr(list.__iter__(r) if isinstance(r, list) else r) for r in (*rest, a, b) if not isinstance(r, list)]

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(3):
        assert outcome(f) == outcome(compiled)


class Indexed(OnlyEqual):
    def __hash__(self):
        return hash(self.value)

    def __index__(self):
        return self.value

    def __repr__(self):
        return f"Indexed({self.value})"


ONE_BY_ONE = {
    "set": set,
    "frozenset": frozenset,
    "display": lambda i: {*i},
    "union": lambda i: set().union(i),
    "update": lambda i: {1}.symmetric_difference(i),
    "disjoint": lambda i: {1}.isdisjoint(i),
    "ordered": lambda i: collections.OrderedDict(zip(i, "abc", strict=False)),
    "star": lambda i: torch.zeros(*i).shape,
    "size": lambda i: torch.Size(i),
}
ITERATORS = {
    "list": iter,
    "reversed": reversed,
    "tuple": lambda v: iter(tuple(v)),
    "values": lambda v: iter(dict(enumerate(v)).values()),
    "chain": itertools.chain,
    "generator": lambda v: (i for i in v),
}


@pytest.mark.parametrize("kind", [int, Indexed])
@pytest.mark.parametrize("make", ITERATORS)
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_an_iterator_is_used_up_once(name, make, kind):
    """An instruction that takes all elements and is a break then begins again, with the iterator as it was."""
    use, iterator = ONE_BY_ONE[name], ITERATORS[make]

    def f(values, x):
        i = iterator(values)
        y = x + 1
        return repr(use(i)), list(i), y

    def outcome(function, values):
        try:
            return repr(function([kind(v) for v in values], torch.ones(2)))
        except TypeError as error:
            return repr(error)

    compiled = pellucid.compile(f, backend="eager")
    for values in ([3, 1, 2], [1, 2, 2], [3, 1, 2]):
        assert outcome(f, values) == outcome(compiled, values)
