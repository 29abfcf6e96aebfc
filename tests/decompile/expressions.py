"""Functions for every expression of the language; test_language.py decompiles each and compares the instructions."""

# ruff: noqa
import os


def names_and_constants(a):
    return [
        a,
        b,
        None,
        True,
        False,
        ...,
        1,
        -1,
        1.5,
        -2.5,
        1e309,
        -1e309,
        2j,
        1 + 2j,
        "x",
        b"y",
        "a'b",
        'a"b',
        "a\n\\",
        10**400,
    ]


def containers(a, b):
    x = []
    x = [1, a, *b]
    x = ()
    x = (a,)
    x = a, b, *a
    x = {a}
    x = {1, a, *b}
    x = {}
    x = {"a": a, b: 1, **a}
    x = {"a": a, "b": b}
    x = [1, 2, 3]
    x = (1, (2, 3), "x")
    x = {1, 2, 3}
    return x


def long_containers(a):
    x = [
        a,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        27,
        28,
        29,
        30,
        31,
        32,
    ]
    y = {
        a: 1,
        1: 2,
        2: 3,
        3: 4,
        4: 5,
        5: 6,
        6: 7,
        7: 8,
        8: 9,
        9: 10,
        10: 11,
        11: 12,
        12: 13,
        13: 14,
        14: 15,
        15: 16,
        16: 17,
        17: 18,
    }
    z = (
        a,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        27,
        28,
        29,
        30,
        31,
        32,
    )
    return x, y, z


def operators(a, b, c):
    x = a + b - c * a / b // c % a @ b
    x = (a + b) * c
    x = a**b**c
    x = (a**b) ** c
    x = -(a**b)
    x = (-a) ** b
    x = a**-b
    x = ~a, +b, -c, not a
    x = not a == b
    x = a << b >> c & a | b ^ c
    x = (a | b) & (c ^ a)
    x = a - (b - c)
    x = a / (b * c)
    x = not (a and b)
    x = (not a) + b
    x = -(-a)
    x = --1
    return x


def comparisons(a, b, c):
    x = a < b
    x = a <= b == c
    x = a != b > c >= 1
    x = a is b, a is not b, a in b, a not in b
    x = (a < b) < c
    x = a < (b < c)
    x = not a in b
    x = a in (1, 2), b in {1, 2}, c in [1, 2]
    x = a is None
    return a < b < c


def boolean(a, b, c, d):
    x = a and b
    x = a or b
    x = a and b or c
    x = a or b and c
    x = (a or b) and c
    x = a and (b or c) and d
    x = not a and b
    x = not (a or b) or c
    x = a if b else c
    x = a if b and c else d
    x = a if b else c if c else d
    x = (a if b else c) if c else d
    x = a and (b if c else d)
    x = (a or b) if c else (b and d)
    x = [a or b, b and c, a if b else c]
    x = a == 1 and b == 2 or c == 3 and d == 4
    x = a is None and b is not None
    return a or b


def calls(a, b, c):
    a()
    a(b)
    a(b, c, 1)
    a(b, x=c)
    a(x=1, y=2)
    a(*b)
    a(b, *c, 1)
    a(**b)
    a(b, *c, x=1, **a)
    a(*b, *c, **a, **b)
    a(b)(c)(x=1)
    a.b(c).d(e=1)
    a[b](c)
    (a or b)(c)
    (lambda: a)()
    a.b.c(1)(2)
    a(**{"not an identifier": 1, "x": 2})
    a(b for b in c)
    a((b for b in c), 1)
    a(b if c else a)
    a(x := b)
    return print("x", end="")


def many_arguments(a):
    a(
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        27,
        28,
        29,
        30,
        31,
        32,
    )
    a(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, i=9, j=10, k=11, l=12, m=13, n=14, o=15, p=16, q=17, r=18, s=19, t=20)
    a.b(
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        27,
        28,
        29,
        30,
        31,
        32,
    )


def module_calls(a):
    os.getcwd()
    os.path.join(a, os.sep)
    return os.fspath(a)


def attributes_and_subscripts(a, b):
    x = a.b.c
    x = a[0]
    x = a[b]
    x = a[1:2]
    x = a[:]
    x = a[b:]
    x = a[:b]
    x = a[::2]
    x = a[b:a:-1]
    x = a[1, 2]
    x = a[1:2, ..., b]
    x = a[b,]
    x = a[(1, 2), 3]
    x = a[*b]
    x = a[1, *b]
    x = a["x"]["y"].z
    x = (1).real
    x = (1.5).real
    x = "".join(a)
    x = (-1).bit_length()
    x = [1, 2][a]
    x = (yield_ := a).b
    return x


def comprehensions(a, b):
    x = [i for i in a]
    x = [i for i in a if i]
    x = [i for i in a if i if b]
    x = [(i, j) for i in a for j in i if j]
    x = {i for i in a}
    x = {i: j for i, j in a}
    x = (i for i in a)
    x = (i for i in a if i and b)
    x = [[j for j in i] for i in a]
    x = [i or j for i in a for j in b if i or j]
    x = [i if j else b for i, j in a]
    x = [lambda: i for i in a]
    x = [i for i, *j in a if not (i and j)]
    x = [i for i in [b] + a]
    x = {**{k: v for k, v in a}, b: 1}
    x = [last := i for i in a]
    x = [i for a.x in a for i in a.x]
    return sum(i * i for i in a if i > 0), any(i for i in a)


async def async_comprehensions(a, b):
    x = [i async for i in a]
    x = {i: await b async for i in a if i}
    x = [await i for i in a]
    x = {i async for i in a for j in b}
    x = (i async for i in a if i)
    return [j async for i in a async for j in i]


def lambdas(a):
    x = lambda: 1
    x = lambda y: y + a
    x = lambda y, z=1, *args, w=2, **k: (y, z, args, w, k)
    x = lambda y, /, *, z: y if z else a
    x = lambda y: y and a or None
    x = lambda: (yield)
    x = lambda: [i for i in a]
    x = lambda y: lambda z: y(z)
    x = sorted(a, key=lambda i: (i.x, -i.y))
    x = lambda y: a if y else None if a else y
    x = lambda y: not y
    x = lambda y: 1 < y < 2
    return x


def strings(a, b):
    x = f"{a}"
    x = f"{a}{b}"
    x = f"x{a}y{b}z"
    x = f"{a!r}{b!s}{a!a}"
    x = f"{a:>10}"
    x = f"{a!r:^{b}}"
    x = f"{a:{b}.{b}f}"
    x = f"{{{a}}}"
    x = f"{a['x']}"
    x = f"{a['x']}" + f"it's {a}"
    x = f"{a if b else 1}"
    x = f"{(lambda: a)()}"
    x = f"{ {1: a}[1] }"
    x = f"{a}\n\t{b}\\"
    x = f"{f'{a}{1}'} {b!r}"
    x = f"{', '.join(a)}"
    x = f"'{a}' \"{b}\""
    x = "%s and %r" % (a, b)
    x = "%s" % a
    x = "100%% %s" % (a,)
    x = f"{a=}"
    x = f"{a:%Y-%m-%d}"
    x = f"{'ab'}{a}"
    return x


def walruses(a, b):
    x = (y := a)
    if (z := a.b) is not None and (w := z.c):
        return w
    while (n := a()) > 1:
        b(n)
    return [m for v in a if (m := v.x)], (q := 1, 2), y, x


def unusual(a):
    x = a if a else (yield a)
    x = [(yield)]
    x = (yield from a) + 1
    x = {**a, "b": (yield)}
    return x


def chained(a, b, c):
    if a < b() < c:
        return 1
    x = a() < b() <= c() != 1
    return 1 < a < 2 and b, x, not 1 < b < 3


def ternaries_in_calls(a, b, c):
    return a(b if c else a, *(b if a else ()), x=b or c, **(c and {}))


def large_numbers():
    return 123456789012345678901234567890, 0.1, 1e-300, 1e16, -0.0, 0xFFFF


def comprehensions_over_one_value(n):
    a = {j: j * j for i in n for j in [i + 1]}
    b = [j + k for i in n for j, k in [(i + 1, i + 2)] if j]
    return a, b, {k for i in n for j in [i + 1] for k in [j + 1]}, list(j for i in n for j in [i])
