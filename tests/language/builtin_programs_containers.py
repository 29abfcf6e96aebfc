"""Builtin containers and iterators at their edges: what they refuse, in which words, and what they ask their arguments for (test_builtin_corners.py)."""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import operator
import sys
import typing
from collections import Counter, OrderedDict

from support.programs import err


class Indexed:
    def __index__(self):
        return self.ind


OUTSIDE = Indexed()
OUTSIDE.ind = 2


class Empty:
    pass


class NoHash:
    __hash__ = None


class NoIter:
    """__next__ and no __iter__."""

    def __init__(self, items):
        self.items = iter(items)

    def __next__(self):
        return next(self.items)


class OnlyIter:
    """__iter__ and no __next__."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return self


def on_index_outside():
    n = OUTSIDE
    r = [1, 2, 3, 4][n:], "abcd"[n:], "abcd"[n], (1, 2, 3)[n:]
    return r


def on_index_made():
    n = Indexed()
    n.ind = 1
    r = "abcd"[n:]
    return r


def on_enumerate_noniter():
    r = err(enumerate, 1), err(enumerate, NoIter([1])), err(enumerate)
    return r


def on_enum_sub():
    class E(enumerate):
        pass

    r = err(E, 1)
    return r


def on_zip_x():
    r = err(zip, NoIter([1])), err(map, len, NoIter([1])), err(filter, None, NoIter([1])), err(zip, [1], 3)
    return r


def on_it_x():
    r = (
        err(itertools.product, NoIter([1])),
        err(itertools.zip_longest, NoIter([1])),
        err(itertools.accumulate, NoIter([1])),
        err(itertools.dropwhile, bool, NoIter([1])),
        err(itertools.takewhile, bool, NoIter([1])),
        err(itertools.starmap, bool, NoIter([1])),
        err(itertools.islice, NoIter([1]), 2),
        err(itertools.chain.from_iterable, 3),
        err(itertools.chain, NoIter([1])),
        err(itertools.cycle, NoIter([1])),
        err(itertools.groupby, NoIter([1])),
        err(itertools.compress, NoIter([1]), [1]),
        err(itertools.pairwise, NoIter([1])),
        err(itertools.tee, NoIter([1])),
        err(itertools.filterfalse, bool, NoIter([1])),
    )
    return r


def on_it_n():
    r = (
        err(lambda: list(zip(OnlyIter([1])))),
        err(lambda: list(itertools.chain(OnlyIter([1])))),
        err(zip, OnlyIter([1])),
        err(map, len, OnlyIter([1])),
        err(enumerate, OnlyIter([1])),
        err(itertools.product, OnlyIter([1])),
    )
    return r


def on_od_update():
    d = OrderedDict()
    r = err(d.update, [("a", 1)], 3), err(OrderedDict.update), err(d.update, 5), err(d.update, {"a": 1}, b=2), d
    return r


def on_od_setdefault():
    d = OrderedDict(a=1)
    r = d.setdefault("x"), d.setdefault("x", 9), d.setdefault("y", 9), d
    return r


def on_od_copy():
    class S(OrderedDict):
        __slots__ = ("x", "y")

    d = S([(1, 2)])
    d.x = 3
    c = copy.copy(d)
    r = c, c.x
    return r


def on_overflow_list():
    lst = [4] * 2
    r = err(operator.mul, lst, sys.maxsize), err(operator.imul, lst, sys.maxsize)
    return r


def on_dict_keys_args():
    r = err({}.keys, x=2), err({}.keys, 1), err({}.update, 1, 2), err([].append, x=1), err([].count), err({}.items, a=1)
    return r


def on_noargs_kw():
    r = err({}.keys, **{"foo": 2}), err({}.keys, {}), err({}.values, 1)
    return r


def on_typeddict():
    TD = typing.TypedDict("TD", {"a": int})  # noqa: UP013
    r = TD(a=1), TD.__total__, TD.__required_keys__
    return r


def on_typeddict2():
    class TD(typing.TypedDict, total=False):
        a: int

    r = TD(a=1), TD.__total__
    return r


def on_typeddict_gen():
    TT = typing.TypeVar("TT")

    class TD(typing.TypedDict, typing.Generic[TT]):
        a: TT

    r = TD(a=1)
    return r


def on_list_eq_mod():
    class Z:
        def __eq__(self, o):
            L2.clear()
            return NotImplemented

    L1 = [Z()]
    L2 = [Z()]
    r = L1 == L2, len(L2)
    return r


def on_product_kw():
    r = (
        err(itertools.product, 0, repeat=1, foo=2),
        err(min, 0, default=1, key=2, foo=3),
        err(max, [], foo=1),
        err(sorted, [], foo=1),
        err(enumerate, [], foo=1),
        err(zip, [], foo=1),
        err(map, len, [], foo=1),
        err(sum, [], foo=1),
        err(print, foo=1),
        err(int, foo=1),
        err(len, [], foo=1),
    )
    return r


def on_hash_none():
    r = err(hash, NoHash()), err(hash, []), err(hash, {}), err(hash, slice(1))
    return r


def on_hash_none_made():
    class H:
        def __eq__(self, o):
            return True

    r = err(hash, H()), err(lambda: {H(): 1}), err(lambda: {H()})
    return r


def on_hash_later():
    class A:
        pass

    class B(A):
        pass

    b = B()
    h = hash(b) == hash(b)
    A.__hash__ = lambda s: 42
    h2 = hash(b)
    A.__hash__ = None
    r = h, h2, err(hash, b)
    return r


def on_iter_func():
    it = iter(lambda a=[]: (a.append(1), len(a))[1], 4)
    r = list(it), list(it)
    return r


def on_iter_stop():
    def sp(s=[]):
        s.append(1)
        if len(s) == 3:
            raise StopIteration
        return len(s)

    r = list(iter(sp, 20))
    return r


def on_iter_reent():
    def g():
        if not hasattr(g, "x"):
            g.x = 1
            return next(it, 5)
        return 7

    it = iter(g, 7)
    r = list(it)
    return r


def on_length_hint():
    class L:
        def __iter__(self):
            return iter([1])

        def __len__(self):
            raise RuntimeError("len")

    class H:
        def __iter__(self):
            return iter([1])

        def __length_hint__(self):
            raise RuntimeError("hint")

    r = (
        err(list, L()),
        err([].extend, L()),
        err(list, H()),
        err([].extend, H()),
        err(operator.length_hint, H()),
        err(tuple, L()),
        err(bytearray, []),
    )
    return r


def on_mapping_ne():
    from collections.abc import Mapping

    class Oth:
        rs = False

        def __eq__(self, o):
            self.rs = True
            return True

        __ne__ = __eq__

    class MM(Mapping):
        def __len__(self):
            return 0

        def __getitem__(self, i):
            raise IndexError

        def __iter__(self):
            return iter(())

    o = Oth()
    a = (MM() == o, o.rs)
    o = Oth()
    r = a, (MM() != o, o.rs)
    return r


def on_counter_eq():
    c = Counter("abcaba")
    r = (
        c == Counter({"a": 3, "b": 2, "c": 1}),
        c == {"a": 3, "b": 2, "c": 1},
        dict(c) == c,
        Counter(a=0) == Counter(),
        c != {"a": 3, "b": 2, "c": 1},
    )
    return r


def on_od_del_iter():
    o = OrderedDict([("a", 1), ("b", 2)])
    n = 0
    try:
        for k in o:
            del o[k]
    except Exception as e:
        n = (type(e).__name__, str(e))
    r = n
    return r


def on_cmp_to_key_py():
    k = functools.cmp_to_key(lambda a, b: a - b)
    r = err(hash, k(10)), k(1) < k(2), k(1) == k(1), sorted([3, 1, 2], key=k)
    return r


def on_zip_reent():
    def g():
        yield next(gg)

    gg = g()
    r = err(next, gg)
    return r


def on_heap_cmp():
    r = err(lambda: Empty() < 1), err(sorted, [Empty(), 1])
    return r


def on_counter_generic():
    c = Counter([4, 4, 5])
    r = c == {4: 2, 5: 1}, {4: 2, 5: 1} == c
    return r


def on_builtin_iter():
    r = err(iter), err(iter, 42, 42), err(iter, 5), err(iter, lambda: 1)
    return r


def on_builtin_sum():
    r = (
        err(sum),
        err(sum, 42),
        err(sum, ["a", "b"]),
        err(sum, ["a"], ""),
        err(sum, [b"a"], b""),
        err(sum, [[1]]),
        err(sum, [{2: 3}]),
        err(sum, [{2: 3}] * 2, {2: 3}),
        err(sum, [], bytearray()),
    )
    return r


def on_unpack_sum():
    r = (
        err(dict, [1]),
        err(dict, [(1, 2, 3)]),
        err(dict, 5),
        err(dict, 1, 2),
        err(OrderedDict, [(1,)]),
        err(set, 5),
        err(list, 5),
        err(tuple, 5),
        err(frozenset, 5),
        err(dict.fromkeys, 5),
    )
    return r


def on_nt_eq():
    NT = collections.namedtuple("NT", "a b")

    class T2(tuple):
        def __eq__(s, o):
            return NotImplemented

        __hash__ = None

    r = NT(1, 2) == (1, 2), (1, 2) == T2((1, 2)), T2((1, 2)) == (1, 2), T2((1,)) == T2((1,)), NT(1, 2) < (1, 3)
    return r


def on_deque_eq():
    D = collections.deque
    r = D([1]) == D([1]), D([1]) == [1], D([1]) < D([2]), [1] == D([1])
    return r


def on_defaultdict():
    d = collections.defaultdict(int, a=1)
    r = (
        d == {"a": 1},
        {"a": 1} == d,
        d == OrderedDict(a=1),
        OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1),
        OrderedDict(a=1, b=2) == {"b": 2, "a": 1},
    )
    return r


def on_od_eq_ne():
    r = (
        OrderedDict(a=1) != OrderedDict(a=1),
        OrderedDict(a=[1]) == OrderedDict(a=[1]),
        Counter(a=1) <= Counter(a=2),
        Counter(a=1) < Counter(a=1),
        Counter(a=1) != Counter(a=2),
    )
    return r


def on_iter_sent():
    class E:
        def __eq__(s, o):
            return o == 2

    it = iter([1, 2, 3])
    r = list(iter(lambda: next(it), E())), list(iter(lambda: next(it), None))
    return r


def on_contains():
    class A:
        def __contains__(s, o):
            return "yes"

    class B:
        def __iter__(s):
            return iter([1, 2])

    class C:
        def __getitem__(s, i):
            if i > 2:
                raise IndexError
            return i

    r = 1 in A(), 2 in B(), 3 in B(), 2 in C(), 5 in C(), err(lambda: 1 in 3), 3 not in B()
    return r


def on_dict_errs():
    d = {}
    r = (
        err(d.pop, "a"),
        err(d.popitem),
        err(d.__getitem__, 1),
        err(d.__delitem__, 2),
        err(dict.fromkeys, 1),
        err(d.setdefault),
        err(lambda: {[]: 1}),
        err(lambda: {**3}),
        err(lambda: dict(a=1, **{"a": 2})),
        err(lambda: d[[]]),
    )
    return r


def on_list_errs():
    items = [1]
    r = (
        err(items.pop, 5),
        err([].pop),
        err(items.remove, 9),
        err(items.index, 9),
        err(items.insert, "a", 1),
        err(lambda: items["a"]),
        err(lambda: items[5]),
        err(items.__setitem__, 9, 1),
        err(lambda: items + (1,)),
        err(items.extend, 3),
        err(lambda: items * "a"),
        err(lambda: [1, 2] < [1, "a"]),
        err(list.sort, [1, "a"]),
        err(lambda: items.sort(key=3)),
        err(lambda: items[::0]),
    )
    return r


def on_set_errs():
    s = {1}
    r = (
        err(s.remove, 9),
        err(set().pop),
        err(s.add, []),
        err(lambda: s | [1]),
        s.union([2], (3,)),
        err(s.union, 3),
        err(lambda: s < [1]),
        s.isdisjoint([2]),
        err(lambda: {[]}),
        err(frozenset.add, 1),
    )
    return r


def on_unpack():
    def u2(v):
        a, b = v
        return a

    def u3(v):
        a, *b, c = v
        return b

    r = (
        err(u2, [1]),
        err(u2, [1, 2, 3]),
        err(u2, 3),
        err(u3, [1]),
        u3("abcd"),
        err(u2, {1: 2}),
        err(u2, iter([1])),
        err(u2, None),
    )
    return r


def on_min_max():
    r = (
        err(min),
        err(min, []),
        err(max, 3),
        min([], default=4),
        max("ab", "c", key=len),
        err(min, 1, 2, default=3),
        err(max, [1, "a"]),
        min({3: 1, 2: 2}),
        max([1, 2], key=lambda v: -v),
        max(1, True),
        max(True, 1),
    )
    return r


def on_sorted():
    r = (
        err(sorted),
        err(sorted, 3),
        sorted("bca", reverse=True),
        sorted([(1, "b"), (1, "a")], key=lambda t: t[0]),
        err(sorted, [1, "a"]),
        err(sorted, [1], lambda v: v),
        sorted({2: 1, 1: 2}),
        sorted([3, 1, 2], key=None),
    )
    return r
