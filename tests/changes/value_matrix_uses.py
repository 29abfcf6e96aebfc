"""Uses of a value for the value matrix: functions of a tensor, the value, and what existed before (`State`).

`least`: with how many of the kinds in value_matrix_values the calls are one graph each, none run eagerly.
"""

from __future__ import annotations

import collections
import copy
import functools

import torch


def doubled(v, *more):
    return [v, more]


class Holder:
    """An object whose attributes the uses write."""


class State:
    """What existed before; eager and compiled have one each. `known` are values of the same kind, equal to the later ones."""

    def __init__(self, first, second):
        self.known = first
        self.table = {}
        self.filled = {0: "zero", "a": "text"}
        for key in (first, second):
            try:
                self.filled[key] = len(self.filled)
            except TypeError:
                pass
        self.members = set(self.filled)
        self.fixed = frozenset(self.filled)
        self.items = [0, first, "a", second]
        self.row = (second, first, None)
        self.queue = collections.deque([second, first], maxlen=5)
        self.counter = collections.Counter()
        self.default = collections.defaultdict(list)
        self.ordered = collections.OrderedDict()
        self.nested = {"inner": {}}
        self.holder = Holder()
        self.log = []
        self.cached = functools.lru_cache(doubled)
        self.hashed = None


USES = {}


def use(least):
    def add(f):
        USES[f.__name__] = (f, least)
        return f

    return add


# ---- keys


@use(90)
def keyed_memo(t, v, s):
    if v not in s.table:
        s.table[v] = t
    return t + s.table[v]


@use(90)
def keyed_count(t, v, s):
    s.table[v] = s.table.get(v, 0) + 1
    return t * s.table[v]


@use(90)
def keyed_pair_count(t, v, s):
    key = (v, t.dtype)
    s.table[key] = s.table.get(key, 0) + 1
    return t * s.table[key]


@use(90)
def keyed_deep_count(t, v, s):
    key = ("k", (v, t.shape), None)
    s.table[key] = s.table.get(key, 0) + 1
    return t * s.table[key]


@use(90)
def keyed_frozenset_count(t, v, s):
    key = frozenset([v, 1])
    s.table[key] = s.table.get(key, 0) + 1
    return t * s.table[key]


@use(73)
def looked_up(t, v, s):
    return t + 1, s.filled[v]


@use(90)
def got(t, v, s):
    return t + 1, s.filled.get(v, "none")


@use(90)
def in_dict(t, v, s):
    return t + (1 if v in s.filled else 2), v in s.table


@use(90)
def popped(t, v, s):
    return t + 1, s.filled.pop(v, "none"), len(s.filled)


@use(0)
def popped_strictly(t, v, s):
    return t + 1, s.filled.pop(v)


@use(90)
def set_default(t, v, s):
    s.table.setdefault(v, []).append(1)
    return t + len(s.table[v])


@use(0)
def deleted(t, v, s):
    del s.filled[v]
    return t + len(s.filled)


@use(90)
def counted(t, v, s):
    s.counter[v] += 1
    return t + s.counter[v]


@use(0)
def counter_update(t, v, s):
    s.counter.update([v, v])
    return t + 1, s.counter.most_common(1)


@use(90)
def default_key(t, v, s):
    s.default[v].append(len(s.default))
    return t + len(s.default[v])


@use(0)
def ordered_key(t, v, s):
    s.ordered[v] = s.ordered.get(v, 0) + 1
    s.ordered.move_to_end(v, last=False)
    return t + 1, list(s.ordered)


@use(90)
def nested_key(t, v, s):
    inner = s.nested["inner"]
    inner[v] = inner.get(v, 0) + 1
    return t + inner[v]


@use(90)
def updated(t, v, s):
    s.table.update({v: len(s.table)})
    return t + s.table[v]


@use(90)
def made_dict(t, v, s):
    d = {v: 1, s.known: 2}
    return t + len(d), d.get(v), d == {s.known: 2}


@use(82)
def kept_for_next(t, v, s):
    before = getattr(s.holder, "last", None)
    s.holder.last = v
    return t + 1, before == v, before is v


@use(81)
def seen_before(t, v, s):
    again = v in s.log
    s.log.append(v)
    return t + (2 if again else 1)


@use(40)
def cached_call(t, v, s):
    return t + 1, s.cached(v)


@use(40)
def cached_call_of_two(t, v, s):
    return t + 1, s.cached(1, v)


# ---- members


@use(91)
def in_set(t, v, s):
    return t + (1 if v in s.members else 2)


@use(91)
def in_frozenset(t, v, s):
    return t + (1 if v in s.fixed else 2)


@use(90)
def pair_in_set(t, v, s):
    seen = (v, 1) in s.members
    s.members.add((v, 1))
    return t + (1 if seen else 2)


@use(90)
def added_to_set(t, v, s):
    s.members.add(v)
    return t + len(s.members)


@use(91)
def discarded(t, v, s):
    s.members.discard(v)
    return t + len(s.members)


@use(40)
def set_operators(t, v, s):
    one = {v, 0}
    return t + len(one | s.members), len(one & s.fixed), one <= s.members


@use(81)
def in_list(t, v, s):
    return t + (1 if v in s.items else 2)


@use(81)
def in_tuple(t, v, s):
    return t + (1 if v in s.row else 2), v in (1, "a", None)


@use(81)
def in_deque(t, v, s):
    return t + (1 if v in s.queue else 2)


@use(65)
def index_in_list(t, v, s):
    return t + s.items.index(v)


@use(65)
def index_in_tuple(t, v, s):
    return t + s.row.index(v)


@use(0)
def count_in_list(t, v, s):
    return t + s.items.count(v), s.queue.count(v), s.row.count(v)


@use(0)
def removed(t, v, s):
    s.items.remove(v)
    return t + len(s.items)


@use(122)
def appended(t, v, s):
    s.items.append(v)
    s.queue.append(v)
    return t + len(s.items)


@use(40)
def made_set(t, v, s):
    return t + len({v, s.known}), {v} == {s.known}, frozenset([v])


# ---- comparing


@use(81)
def equal_to_known(t, v, s):
    return t + (1 if v == s.known else 2), v != s.known


@use(81)
def equal_in_containers(t, v, s):
    return t + 1, (v, 1) == (s.known, 1), [v] == [s.known], {"a": v} == {"a": s.known}


@use(84)
def equal_to_constants(t, v, s):
    return t + 1, v == 1, v == "a", v == None, v == (1, 0)  # noqa: E711


@use(122)
def is_known(t, v, s):
    return t + (1 if v is s.known else 2), v is None, v is v


@use(34)
def less(t, v, s):
    return t + (1 if v < s.known else 2), v >= s.known


@use(35)
def sorted_two(t, v, s):
    return t + 1, sorted([v, s.known])


@use(35)
def least_of(t, v, s):
    return t + 1, min(v, s.known), max([s.known, v])


@use(57)
def hashed(t, v, s):
    return t + (1 if hash(v) == s.hashed else 2)


@use(102)
def truth(t, v, s):
    return t + (1 if v else 2), not v, bool(v), v and 5, v or 6


# ---- looking into


@use(35)
def iterated(t, v, s):
    return t + 1, [x for x in v]


@use(35)
def iterated_twice(t, v, s):
    return t + 1, list(v), tuple(v)


@use(22)
def unpacked(t, v, s):
    a, b = v
    return t + 1, a, b


@use(35)
def starred(t, v, s):
    return t + 1, [*v, 0]


@use(5)
def double_starred(t, v, s):
    return t + 1, {**v}


@use(5)
def dict_of(t, v, s):
    return t + 1, dict(v)


@use(34)
def length(t, v, s):
    return t + len(v)


@use(27)
def contains(t, v, s):
    return t + (1 if 1 in v else 2)


@use(24)
def first_item(t, v, s):
    return t + 1, v[0]


@use(5)
def named_item(t, v, s):
    return t + 1, v["a"]


@use(12)
def attribute(t, v, s):
    return t + 1, v.a


@use(118)
def attributes_or_not(t, v, s):
    return t + 1, getattr(v, "name", None), hasattr(v, "shape"), getattr(v, "start", None)


@use(89)
def matched(t, v, s):
    match v:
        case None | True | 3:
            return t + 1
        case int() | str():
            return t + 2, v
        case {"a": x}:
            return t + 3, x
        case [x, y]:
            return t + 4, x, y
    return t + 5


@use(81)
def matched_known(t, v, s):
    match v:
        case s.known:
            return t + 1
    return t + 2


@use(118)
def type_of(t, v, s):
    return t + 1, type(v), v.__class__ is type(s.known)


@use(122)
def instance_of(t, v, s):
    return t + (1 if isinstance(v, (int, str)) else 2), isinstance(v, collections.abc.Hashable)


@use(122)
def callable_or_not(t, v, s):
    return t + (1 if callable(v) else 2)


# ---- text


@use(54)
def text(t, v, s):
    return t + 1, str(v)


@use(54)
def repr_of(t, v, s):
    return t + 1, repr(v)


@use(54)
def formatted(t, v, s):
    return t + 1, f"{v}", f"{v!r:>9}", f"{(v, 1)}"


@use(54)
def percent(t, v, s):
    return t + 1, "%s" % (v,)


# ---- computing with


@use(11)
def plus_one(t, v, s):
    return t + 1, v + 1


@use(33)
def added_to_itself(t, v, s):
    return t + 1, v + v


@use(28)
def times_two(t, v, s):
    return t + 1, v * 2


@use(10)
def with_tensor(t, v, s):
    return t * v


@use(17)
def tensor_index(t, v, s):
    return t.reshape(1, -1).expand(6, -1)[v]


@use(7)
def list_index(t, v, s):
    return t + 1, [0, 1, 2, 3, 4, 5][v]


@use(16)
def tensor_index_of_two(t, v, s):
    return t.reshape(1, -1).expand(6, -1)[v, 0]


@use(9)
def called(t, v, s):
    return t + 1, v()


@use(2)
def method_pop(t, v, s):
    return t + 1, v.pop(0), v


# ---- passing on


@use(122)
def given_back(t, v, s):
    return t + 1, v, (v, [v]), {"v": v}


@use(56)
def copied(t, v, s):
    return t + 1, copy.copy(v)


@use(122)
def as_default(t, v, s):
    def inner(x=v, *, y=v):
        return x, y

    return t + 1, inner()


@use(122)
def closed_over(t, v, s):
    def inner():
        return v

    return t + 1, inner()


@use(122)
def as_arguments(t, v, s):
    return t + 1, doubled(v, *(v, 1)), doubled(*[v])


@use(122)
def partially(t, v, s):
    return t + 1, functools.partial(doubled, v)(2)


@use(122)
def written_attribute(t, v, s):
    s.holder.value = v
    return t + 1, s.holder.value is v


@use(30)
def attribute_of_value(t, v, s):
    v.extra = 5
    return t + 1, v.extra


@use(5)
def item_of_value(t, v, s):
    v["a"] = 5
    return t + 1, v["a"]


@use(9)
def first_item_of_value(t, v, s):
    v[0] = 5
    return t + 1, v[0]


@use(90)
def list_of_value(t, v, s):
    return t + 1, list(zip([v], [1], strict=True)), dict.fromkeys([v], 1), list(enumerate([v]))


@use(0)
def as_shape(t, v, s):
    return torch.ones(2, 3).reshape(v)


@use(8)
def as_type(t, v, s):
    return t.to(v)
