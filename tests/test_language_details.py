"""Order of sets, subclasses of builtin containers, generators that did not start: where programs with breaks told from eager ones."""

from __future__ import annotations

import bisect
import collections
import functools
import itertools
import operator
import traceback
import warnings

import pytest
import torch
from runtime_common import Counting, same

import pellucid


class LongList(list):
    def __len__(self):
        return super().__len__() + 1

    def __getitem__(self, index):
        return super().__getitem__(index)


class Deque(collections.deque):
    pass


class WithoutHash:
    def __eq__(self, other):
        return True


def numbers(count):
    total = 0
    for number in range(count):
        pellucid.graph_break()
        yield number + total
        total += 1


def plain_numbers(count):
    yield from range(count)


def error_of(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error), repr(error.__context__), repr(error.__cause__)


class Ordered(collections.OrderedDict):
    pass


class AsksOften:
    """An iterator that notes each call of __iter__."""

    def __init__(self):
        self.asked = self.given = 0

    def __iter__(self):
        self.asked += 1
        return self

    def __next__(self):
        if self.given == 3:
            raise StopIteration
        self.given += 1
        return self.given


def turned():
    ordered = Ordered(a=1, b=2)
    ordered.move_to_end("a")
    return ordered


PROGRAMS = []


def program(f):
    PROGRAMS.append(f)
    return f


@program
def hash_of_what_has_none(x):
    return x + 1, error_of(hash, WithoutHash()), error_of(lambda: {WithoutHash(): 1})


@program
def sets_keep_their_order(x):
    sets = [{976, 973, 981}, set(map(str, range(20))), set([5, 13, 21, 29]), {-1, -2, "a", 1.5, (2, 3)}, set("hello")]
    more = set(range(0, 4000, 37))
    pellucid.graph_break()
    return (
        x + 1,
        [list(s) for s in sets],
        [list(frozenset(s)) for s in sets],
        [list(s | {981, 8}) for s in sets],
        list(more),
    )


@program
def outside_set_updated(x, kept=[{1}]):
    kept[0] = {1}
    outside = kept[0]
    pellucid.graph_break()
    outside |= {293, 36, 14, 981, 973}
    pellucid.graph_break()
    outside.add(997)
    pellucid.graph_break()
    return x + 1, list(outside)


@program
def frozenset_of_a_frozenset(x):
    one = frozenset([1, 2])
    return x + 1, frozenset(one) is one, frozenset({1}) is one, list(frozenset({"b": 1, "a": 2, "c": 3}))


@program
def islice_of_a_generator_behind_a_break(x):
    g = numbers(4)
    first = next(g)
    return x + 1, first, list(itertools.islice(g, 2)), list(g)


@program
def islice_in_a_handler(x):
    try:
        raise KeyError
    except KeyError:
        g = numbers(6)
        first = next(g)
        rest = [number for number in itertools.islice(g, 1, 4, 2)]
    return x + 1, first, rest, next(g, None)


@program
def bounds_that_islice_refuses(x):
    g = plain_numbers(3)
    return (
        x + 1,
        error_of(itertools.islice, g, -1),
        error_of(itertools.islice, g, 1.5),
        error_of(itertools.islice, g, 0, 2, 0),
        error_of(itertools.islice, 3, 2),
        list(itertools.islice(g, None)),
    )


@program
def comparing_lists_with_methods_of_their_own(x):
    a, b = LongList([1, 2]), LongList([1, 2])
    return x + 1, a == b, a < b, a == [1, 2], sorted([b, LongList([0])]), [a] == [b], a != b


@program
def changed_deque_of_a_subclass(x, kept=[Deque([1])]):
    kept[0] = Deque([1])
    outside = kept[0]
    pellucid.graph_break()
    outside.append(2)
    text = repr(outside), type(outside + outside).__name__, error_of(lambda: outside | outside)[:2]
    return x + 1, text


@program
def throw_into_a_generator_that_did_not_start(x):
    def thrown(error):
        try:
            raise OSError("handled")
        except OSError:
            return error_of(plain_numbers(1).throw, error)

    over = plain_numbers(0)
    list(over)
    kinds = [thrown(ValueError(1)), thrown(StopIteration(2))] if x.shape[0] else []
    try:
        raise OSError("handled")
    except OSError:
        kinds.append(error_of(over.throw, KeyError(3)))
    return x + 1, kinds


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


@program
def iterators_asked_for_their_iterator_once(x):
    asked = []
    for use in (
        lambda i: functools.reduce(operator.add, i),
        lambda i: functools.reduce(operator.add, i, 1),
        lambda i: list(itertools.accumulate(i)),
        lambda i: list(itertools.dropwhile(lambda n: n < 2, i)),
        lambda i: list(itertools.islice(i, 2)),
    ):
        iterator = AsksOften()
        asked.append((use(iterator), iterator.asked))
    return x + 1, asked


@program
def what_cannot_be_iterated(x):
    return (
        x + 1,
        error_of(functools.reduce, operator.add, 3),
        error_of(functools.reduce, operator.add, []),
        error_of(itertools.takewhile, bool, 3),
        error_of(itertools.dropwhile, bool, None),
        error_of(itertools.starmap, pow, 1.5),
        error_of(itertools.accumulate, 1),
    )


@program
def keyword_given_twice(x):
    def named(**names):
        return names

    def while_handling():
        try:
            raise IndexError(0)
        except IndexError:
            return named(k=1, **{"k": 2})

    # CPython words the error only where no exception is handled: that one would be its context.
    return x + 1, error_of(lambda: named(k=1, **{"k": 2})), error_of(while_handling)


@program
def bisect_with_a_key(x):
    asked = []

    def key(value):
        asked.append(value)
        return -value

    return x + 1, bisect.bisect([3, 2, 1], -2, key=key), bisect.bisect_left([1, 2, 3], 2), asked


class OnlySlots:
    __slots__ = ("a",)
    shared = 3


@program
def attributes_that_slots_do_not_take(x):
    made = OnlySlots()
    return (
        x + 1,
        error_of(setattr, made, "shared", 1),
        error_of(setattr, made, "b", 1),
        error_of(delattr, made, "shared"),
    )


@program
def nested_tensors(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair = torch.nested.nested_tensor([x, x[:2]])
        return x + 1, pair.size(0), (pair * 2).to_padded_tensor(0.0)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_as_eager(f):
    x = torch.ones(3)
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(3):
        got, want = compiled(x), f(x)
        assert same(got, want), (got, want)
    assert backend.count > 0


def test_attributes_that_slots_of_outside_do_not_take():
    def f(x, made):
        return (
            x + 1,
            error_of(setattr, made, "shared", 1),
            error_of(setattr, made, "b", 1),
            error_of(delattr, made, "shared"),
        )

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        assert same(compiled(torch.ones(1), OnlySlots()), f(torch.ones(1), OnlySlots()))
    assert pellucid.cache_entries(compiled)


def test_islice_of_an_outside_generator_is_taken_at_each_call():
    def f(x, g):
        return x + 1, list(itertools.islice(g, 2))

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(3):
        g = plain_numbers(4)
        assert compiled(torch.ones(1), g)[1] == [0, 1]
        assert list(g) == [2, 3]
    assert backend.count > 0


def test_traceback_of_a_generator_that_did_not_start():
    def f(x):
        plain_numbers(1).throw(ValueError(1))
        return x + 1

    def places(function):
        with pytest.raises(ValueError, match="1") as info:
            function(torch.ones(1))
        frames = traceback.extract_tb(info.value.__traceback__)
        return [(frame.name, frame.lineno, frame.colno, frame.end_colno) for frame in frames][1:]

    assert places(pellucid.compile(f, backend="eager")) == places(f)
