"""Programs over the corners of builtins: what they refuse, in which words, and what they ask their arguments for.

Each is called inside of a compiled function and compared with eager (test_builtin_corners.py); `err` gives an exception as a value.
"""

from __future__ import annotations

import collections
import copy
import decimal
import functools
import itertools
import math
import operator
import sys
import typing
import weakref
from collections import Counter, OrderedDict


class Indexed:
    def __index__(self):
        return self.ind


OUTSIDE = Indexed()
OUTSIDE.ind = 2


class Empty:
    pass


def err(f, *args, **kwargs):
    try:
        return f(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


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


def on_generator_setstate():
    r = (
        hasattr(iter([1]), "__setstate__"),
        hasattr(iter("ab"), "__reduce__"),
        hasattr(zip([1]), "__reduce__"),
        hasattr(itertools.islice([1], 1), "__dict__"),
        hasattr(map(len, []), "__setstate__"),
        hasattr((i for i in []), "__dict__"),
    )
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


def on_complex():
    r = (
        err(complex, "1", 2),
        err(complex, 1, "2"),
        err(complex, {}),
        err(complex, "1+"),
        err(complex, []),
        err(complex, (1, 2)),
    )
    return r


def on_complex_dunder():
    class C1:
        def __complex__(self):
            return None

    class C2:
        def __complex__(self):
            return 1j

    class C3:
        def __float__(self):
            return 2.0

    class C4:
        def __index__(self):
            return 3

    r = err(complex, C1()), complex(C2()), complex(C3()), complex(C4()), err(complex, C2(), C3()), err(complex, C1(), 1)
    return r


def on_float_dunder():
    class F1:
        def __float__(self):
            return "x"

    class F2:
        def __int__(self):
            return 2.5

    class F3:
        def __index__(self):
            return 7

    r = err(float, F1()), err(int, F2()), float(F3()), int(F3()), err(int, F1())
    return r


def on_mem():
    r = err(operator.mul, "a", sys.maxsize)
    return r


def on_decimal_fmt():
    r = f"{decimal.Decimal(10):{8}.{3}}", format(decimal.Decimal("1.5"), ".3f")
    return r


def on_cmp_numbers():
    class Q:
        pass

    r = (
        1 == 1.0,
        1 == 1 + 0j,
        err(operator.lt, 1, 1j),
        decimal.Decimal(1) == 1,
        1.0 == decimal.Decimal(1),
        err(operator.eq, 1, decimal.Decimal(1)),
        __import__("fractions").Fraction(1) == 1,
    )
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


def on_decorated_classmethod():
    class A:
        @classmethod
        @functools.wraps
        def foo(cls):
            return 42

        class W:
            def __init__(self, w):
                self.__wrapped__ = w
                self.bound = None

            def __get__(self, i, o):
                self.bound = self.__wrapped__.__get__(i, o)
                return self

            def __call__(self, *a, **k):
                return self.bound(*a, **k)

    W = A.W

    class B:
        @classmethod
        @W
        def foo(cls):
            return "spam"

    r = B.foo(), B().foo()
    return r


def on_bad_new():
    class C:
        __new__ = 1

    r = err(C), err(C, 1)
    return r


def on_bad_new2():
    class C:
        __new__ = None

    r = err(C)
    return r


def on_object_new():
    class A:
        pass

    r = err(object.__new__, A, 5), err(A.__new__, A, 5), err(A(3) if 0 else A, 3), err(A().__init__, 3)
    return r


def on_object_new2():
    class A:
        def __init__(self, f):
            self.f = f

    a = object.__new__(A)
    r = err(object.__new__, A, "x"), err(a.__init__), err(object.__init__, a, 3)
    return r


def on_object_new3():
    class A:
        def __new__(cls, f):
            return object.__new__(cls)

    r = err(object.__new__, A), err(A), err(A, 3), err(object.__new__, A, 3), err(object.__init__, A(1), 3)
    return r


def on_setattr_indirect():
    r = (
        err(object.__setattr__, {}, "a", 1),
        err(type.__setattr__, int, "foo", 1),
        err(object.__setattr__, int, "foo", 1),
        err(object.__delattr__, int, "x"),
        err(object.__setattr__, Empty, "foo", 1),
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


def on_type_getattribute():
    r = (
        err(type.__getattribute__, list, "foo"),
        err(type.__getattribute__, list, 5),
        err(getattr, list, "x"),
        err(object.__getattribute__, 3, 4),
        err(getattr, 3, 4),
    )
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


def on_ctx():
    from contextlib import ExitStack

    class My(Exception):
        pass

    def go():
        with ExitStack() as s:

            def c(*a):
                try:
                    raise My(2)
                except My:
                    raise My(3)

            s.push(c)
            raise My(1)

    try:
        go()
    except My as e:
        r = (e, e.__context__, e.__context__.__context__)
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


def on_finalize():
    class A:
        pass

    a = A()
    f = weakref.finalize(a, lambda: 199)
    r = f.alive, f(), f.alive, f()
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


def on_protocol():
    class Pp(typing.Protocol):
        x: int

    r = err(isinstance, 3, Pp), err(issubclass, int, Pp), err(Pp)
    return r


def on_protocol_new():
    class Pp(typing.Protocol):
        def m(self):
            pass

    class C(Pp):
        pass

    r = err(Pp), type(C()).__name__
    return r


def on_protocol_rt():
    @typing.runtime_checkable
    class Pp(typing.Protocol):
        def m(self):
            pass

    class C:
        def m(self):
            pass

    r = isinstance(C(), Pp), isinstance(3, Pp), issubclass(C, Pp)
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


def on_builtin_vars():
    r = err(vars, 42), err(vars, 1, 2), vars(Empty()), err(dir, 1, 2)
    return r


def on_class_types():
    class A:
        def __int__(self):
            return "a"

        def __float__(self):
            return None

        def __hash__(self):
            return ""

        def __str__(self):
            return 1

        def __repr__(self):
            return 2

        def __len__(self):
            return -1

        def __bool__(self):
            return 2

        def __contains__(self, o):
            return []

    r = (
        err(int, A()),
        err(float, A()),
        err(hash, A()),
        err(str, A()),
        err(repr, A()),
        err(len, A()),
        err(bool, A()),
        1 in A(),
    )
    return r


def on_class_ctor():
    class C:
        pass

    class D:
        def __new__(cls, *a):
            return super().__new__(cls)

    class E:
        def __init__(self, *a):
            super().__init__(*a)

    r = (
        err(C, 1),
        err(D, 1),
        err(E, 1),
        err(object, 1),
        err(object().__init__, 3),
        err(E),
        err(C.__new__),
        err(C.__init__),
        err(object.__new__, C, 3),
        err(C().__init__, 3),
    )
    return r


def on_cells():
    def o():
        v = 1

        def i():
            return v

        return i.__closure__[0]

    r = err(operator.lt, o(), o()), o() == o()
    return r


def on_isinstance_abstract():
    class AbC:
        def __init__(self, b):
            self.bases = b

        def getb(self):
            return self.bases

        __bases__ = property(getb)

        def __call__(self):
            return AbI(self)

    class AbI:
        def __init__(self, k):
            self.k = k

        __class__ = property(lambda s: s.k)

    S = AbC(())
    C2 = AbC((S,))
    r = isinstance(S(), S), isinstance(S(), C2), isinstance(C2(), S), issubclass(C2, S), isinstance(3, S)
    return r


def on_isinstance_raises():
    class Int:
        def gb(self):
            raise RuntimeError

        __bases__ = property(gb)

    r = err(isinstance, Int(), Int()), err(issubclass, Int(), Int()), err(isinstance, 3, Int())
    return r


def on_yield_from_broken():
    class Br:
        def __iter__(self):
            return self

        def __next__(self):
            return 1

        def __getattr__(self, a):
            1 / 0

    def g():
        yield from Br()

    q = g()
    next(q)
    return err(q.send, 1)


def on_super_cell():
    class X1:
        def meth(self):
            super().meth()

        def f(self):
            del self
            return super()

    r = err(X1().meth), err(X1().f)
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


def on_int_conv():
    class Int(int):
        pass

    class A:
        def __int__(self):
            return Int(3)

        def __index__(self):
            return True

    r = err(int, A()), type(int(A())).__name__
    return r


def on_hash_big():
    class A:
        def __init__(s, v):
            s.v = v

        def __hash__(s):
            return s.v

    r = [hash(A(v)) for v in (-1, 2**62, 2**63, 2**70, -(2**63), True, 0)]
    return r


def on_ne():
    class A:
        def __eq__(s, o):
            return NotImplemented

    class B:
        def __ne__(s, o):
            return "B"

    r = A() != B(), A() != A(), A() != 3, A() == A(), B() != A(), B() == A()
    return r


def on_eq_mixes():
    class L(list):
        pass

    class D(dict):
        def __eq__(s, o):
            return NotImplemented

    class S(set):
        def __lt__(s, o):
            return "S"

    r = (
        L([1]) == [1],
        [1] == L([1]),
        L([1]) < [2],
        D(a=1) == {"a": 1},
        {"a": 1} == D(a=1),
        D() == D(),
        S([1]) < {1, 2},
        {1, 2} > S([1]),
        S([1]) <= frozenset([1]),
        (1, 2) == [1, 2],
        L() == (),
        D() != {},
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


def on_str_sub():
    class S(str):
        def __eq__(s, o):
            return "eq"

        def __hash__(s):
            return 1

    r = S("a") == "a", "a" == S("a"), S("a") != "a", "a" != S("a"), S("a") < "b"
    return r


def on_int_sub():
    class Int(int):
        def __eq__(s, o):
            return "eq"

        def __lt__(s, o):
            return "lt"

        def __radd__(s, o):
            return "radd"

    r = Int(1) == 1, 1 == Int(1), 1 != Int(1), 2 > Int(1), 1 + Int(1), Int(1) + 1, Int(1) < 0
    return r


def on_fmt():
    class A:
        def __format__(s, f):
            return 3

    class B:
        def __str__(s):
            return "B!"

    r = (
        err(format, A()),
        f"{B()}",
        err(format, B(), ">5"),
        f"{B()!s:>5}",
        err(format, [1], "x"),
        format([1], ""),
        f"{None}",
        err(format, None, "d"),
        f"{True:d}",
        f"{1.5:.2f}",
        f"{10:#x}",
        err(format, "a", "d"),
    )
    return r


def on_round_etc():
    class A:
        def __round__(s, n=None):
            return ("r", n)

        def __abs__(s):
            return "abs"

        def __trunc__(s):
            return 5

        def __floor__(s):
            return "fl"

        def __ceil__(s):
            return "ce"

        def __divmod__(s, o):
            return "dm"

        def __pow__(s, o, m=None):
            return ("p", o, m)

        def __neg__(s):
            return "neg"

        def __invert__(s):
            return "inv"

        def __reversed__(s):
            return iter([1])

        def __length_hint__(s):
            return 3

    r = (
        round(A()),
        round(A(), 2),
        abs(A()),
        math.trunc(A()),
        math.floor(A()),
        math.ceil(A()),
        divmod(A(), 1),
        pow(A(), 2, 3),
        pow(A(), 2),
        -A(),
        ~A(),
        list(reversed(A())),
        operator.length_hint(A()),
    )
    return r


def on_index():
    class A:
        def __index__(s):
            return 2

    r = (
        [1, 2, 3][A()],
        "abc"[A()],
        list(range(A())),
        hex(A()),
        bin(A()),
        oct(A()),
        [0] * A(),
        "a" * A(),
        chr(A()),
        (1).__lshift__(2),
        [1, 2, 3][: A()],
        operator.index(A()),
        b"abc"[A()],
        "x".center(A() + 3),
        round(2.567, A()),
        err(int, A()),
        err(float, A()),
        complex(A()),
        "%d" % A(),
    )
    return r


def on_bool():
    class A:
        def __len__(s):
            return 0

    class B:
        def __bool__(s):
            return 1

    r = bool(A()), not A(), err(bool, B()), err(lambda: 1 if B() else 2), [1 for _ in [1] if not A()]
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


def on_call_errs():
    def f(a, /, b, *, c):
        pass

    r = (
        err(f),
        err(f, 1),
        err(f, 1, 2),
        err(f, 1, 2, 3),
        err(f, 1, 2, c=1, d=2),
        err(f, a=1, b=2, c=3),
        err(f, 1, b=2, c=1, **{"b": 1}),
    )
    return r


def on_del_attr():
    class A:
        x = 1

    a = A()
    r = (
        err(delattr, a, "x"),
        err(delattr, a, "y"),
        err(setattr, 3, "x", 1),
        err(getattr, a, "zz"),
        err(delattr, A, "zz"),
        hasattr(a, "x"),
    )
    return r


def on_slots():
    class A:
        __slots__ = ("a",)

    a = A()
    r = err(getattr, a, "a"), err(setattr, a, "b", 1), err(delattr, a, "a")
    return r


def on_prop():
    class A:
        @property
        def p(s):
            return 1

    a = A()
    r = err(setattr, a, "p", 1), err(delattr, a, "p"), A.p.__get__(a), type(A.p).__name__
    return r


def on_str_methods():
    r = (
        err("a".join, [1]),
        err("a".split, ""),
        err("{}".format),
        err("{a}".format, 1),
        "{0[1]}{1.real}".format([1, 2], 3),  # noqa: UP030, UP032
        "%s %d %r" % ("a", 1, "b"),
        err(operator.mod, "%d", "a"),
        err(operator.mod, "%s", (1, 2)),
        "%(a)s" % {"a": 1},
        err(operator.mod, "%(a)s", {}),
        "a,b".split(","),
        err("a".index, "z"),
        "abc".translate({97: "x"}),
        err("a".encode, "zzz"),
        "aXb".partition("X"),
    )
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


def on_raise():
    def ra(x):
        raise x

    r = err(ra, 3)
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


def on_type3():
    A = type("A", (), {"x": 1})
    B = type("B", (A,), {"f": lambda s: s.x})
    r = (
        B().f(),
        A.__name__,
        err(type, "A"),
        err(type, "A", (3,), {}),
        err(type, 1, 2, 3),
        B.__mro__[1].__name__,
        issubclass(B, A),
    )
    return r


def on_mro():
    class A:
        pass

    class B(A):
        pass

    def mk():
        class C(A, B):
            pass

    r = err(mk), [c.__name__ for c in type("D", (B, A), {}).__mro__]
    return r


def on_exc():
    class E(Exception):
        def __init__(s, a, b=2):
            super().__init__(a)
            s.b = b

        def __str__(s):
            return "E!"

    e = E(1)
    r = (
        str(e),
        repr(e),
        e.args,
        e.b,
        err(E),
        isinstance(e, Exception),
        str(KeyError("a")),
        repr(KeyError("a")),
        str(OSError(2, "x")),
        OSError(2, "x").errno,
        type(OSError(2, "x")).__name__,
        str(ValueError(1, 2)),
        UnicodeDecodeError("utf8", b"a", 0, 1, "r").reason,
        StopIteration(5).value,
        SystemExit(3).code,
        ImportError("a", name="n").name,
    )
    return r
