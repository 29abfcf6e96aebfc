"""Classes, instances, calls and exceptions at their edges: what is refused, and in which words (test_builtin_corners.py)."""

from __future__ import annotations

import functools
import itertools
import operator
import typing
import weakref

from support.programs import err


class Empty:
    pass


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


def on_type_getattribute():
    r = (
        err(type.__getattribute__, list, "foo"),
        err(type.__getattribute__, list, 5),
        err(getattr, list, "x"),
        err(object.__getattribute__, 3, 4),
        err(getattr, 3, 4),
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


def on_finalize():
    class A:
        pass

    a = A()
    f = weakref.finalize(a, lambda: 199)
    r = f.alive, f(), f.alive, f()
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


def on_raise():
    def ra(x):
        raise x

    r = err(ra, 3)
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
