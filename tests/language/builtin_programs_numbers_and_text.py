"""Numbers and text at their edges: conversions, comparisons, formatting (test_builtin_corners.py)."""

from __future__ import annotations

import cmath
import decimal
import math
import operator
import sys

from support.programs import err


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


def on_cmath():
    class Complex:
        def __complex__(self):
            return 3 + 4j

    z = complex(0.5, -0.0)
    one = ("acos acosh asin asinh atan atanh cos cosh exp log log10 sin sinh sqrt tan tanh").split()
    values = [getattr(cmath, name)(z) for name in one]
    r = (
        values,
        [cmath.phase(v) for v in (1, -1.0, -1 - 0j, 2j)],
        cmath.polar(3 + 4j),
        cmath.rect(2.0, cmath.pi / 2),
        cmath.log(8, 2),
        cmath.isclose(1, 1 + 1e-10j),
        cmath.isclose(1, 2, rel_tol=0.5),
        [(cmath.isfinite(v), cmath.isinf(v), cmath.isnan(v)) for v in (1j, complex("inf"), complex(0, cmath.nan))],
        err(cmath.log, 0),
        err(cmath.exp, 1e4),
        err(cmath.sqrt, "1"),
        err(cmath.rect, 1j, 0),
        err(cmath.phase),
        err(cmath.isclose, 1, 1, rel_tol=-1),
        err(cmath.sqrt, Complex()),
    )
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
