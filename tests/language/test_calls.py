"""PYTEST_DONT_REWRITE: programs contain `assert`.

Calls of all forms, closures, generators, comprehensions, loops and names.
"""

import functools
import itertools
import operator

import pytest

from support.programs import Programs, check

PROGRAMS = program = Programs()


def reset():
    global LEVEL
    LEVEL = 0


LEVEL = 0


# ---- calls


def takes(a, b=2, /, c=3, *rest, d=4, **others):
    return a * b + c + sum(rest) + d + sum(others.values())


@program
def call_forms(s, x):
    return (
        takes(x),
        takes(x, 1),
        takes(x, 1, c=5, d=6),
        takes(x, 1, 2, 3, 4, d=1, e=2),
        takes(*(x, 1), c=2, z=1),
        takes(*[x], *(1, 2), d=9),
    )


@program
def wrong_calls(s, x):
    out = []
    for call in (
        lambda: takes(),
        lambda: takes(x, b=1),
        lambda: takes(x, c=1, **{"c": 2}),
        lambda: len(),
        lambda: s.n(2),
    ):
        try:
            out.append(call())
        except TypeError as error:
            out.append(str(error)[-12:])
    return out, x + 1


@program
def closures_and_lambdas(s, x):
    total = 0

    def add(v):
        nonlocal total
        total = total + v
        return total

    adders = [lambda v, i=i: v + i for i in range(3)]
    late = [lambda v: v + i for i in range(3)]
    add(x)
    add(1)
    return total, [a(x) for a in adders], [f(x) for f in late]


@program
def partials_and_operators(s, x):
    p = functools.partial(takes, x, d=1)
    q = functools.partial(p, 5, d=2)
    return p(), q(c=1), p.args, q.keywords, operator.add(x, 1), functools.reduce(operator.mul, [x, 2, 3])


def logged(f):
    @functools.wraps(f)
    def wrapper(s, *args, **kwargs):
        s.log.append(f.__name__)
        return f(s, *args, **kwargs)

    return wrapper


@logged
def decorated_helper(s, x, by=2):
    return x * by


@program
def decorators(s, x):
    return decorated_helper(s, x) + decorated_helper(s, x, by=3)


@program
def recursion(s, x):
    def walk(v, depth):
        return v if depth == 0 else walk(v + depth, depth - 1)

    def even(n):
        return True if n == 0 else not even(n - 1)

    return walk(x, 30), even(7)


@program
def nonlocal_of_the_caller(s, x):
    return x * s.bump() + s.bump(2)


@program
def globals_changed(s, x):
    global LEVEL
    LEVEL = (LEVEL + 1) % 5
    return x + LEVEL


# ---- comprehensions, generators, unpacking


@program
def comprehensions(s, x):
    pairs = [(i, j) for i in range(3) if i for j in range(i)]
    return (
        [x * i for i, _ in pairs],
        {i: x + i for i in s.items},
        {i % 2 for i in range(5)},
        sum(x * i for i in range(3)),
        [[y for y in range(z)] for z in range(3)],
    )


@program
def generators(s, x):
    def numbers(n):
        s.log.append("start")
        try:
            for i in range(n):
                got = yield x + i
                if got:
                    s.log.append(got)
        finally:
            s.log.append("end")
        return n

    def outer():
        n = yield from numbers(2)
        yield x * n

    g = numbers(3)
    first = next(g)
    second = g.send("hello")
    g.close()
    return first, second, list(outer()), next(numbers(0), None)


@program
def generator_methods(s, x):
    def g():
        while True:
            try:
                yield x
            except ValueError as error:
                s.log.append(str(error))
                yield x + 1

    it = g()
    next(it)
    return it.throw(ValueError("told")), next(it)


@program
def unpacking(s, x):
    a, (b, *c), d = 1, (2, 3, 4), x
    *e, f = s.items
    (g, h), i = (x, 2), [3]
    a, b = b, a
    first, *_ = "xyz"
    return a, b, c, d, e, f, g, h, i, first, [*s.items, *c], {**s.table, "z": 1}, (*s.seen,)


@program
def wrong_unpacking(s, x):
    out = []
    for values in ([1], [1, 2, 3], 5):
        try:
            a, b = values
            out.append(a + b)
        except (TypeError, ValueError) as error:
            out.append(str(error))
    return x, out


@program
def walrus_and_conditions(s, x):
    if (n := len(s.items)) > 1 and not (m := s.table.get("no")):
        x = x + n
    y = x if m is None else 0
    return y, 1 < n <= 5 != 4, n or 3, n and 0, m is not None


@program
def loops(s, x):
    for i in range(5):
        if i == 1:
            continue
        if i == 3:
            break
        x = x + i
    else:
        x = x * 100
    while s.n < 3:
        s.n += 1
    else:
        x = x + s.n
    for k, (i, v) in zip("ab", enumerate(s.items), strict=False):
        x = x + i * v + len(k)
    return x


@program
def iterator_tools(s, x):
    return (
        [x + a * b for a, b in itertools.product([1, 2], repeat=2)],
        list(itertools.chain([1], (2,), s.items)),
        list(itertools.islice(itertools.count(3), 2)),
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.zip_longest([1], [1, 2], fillvalue=0)),
        list(map(lambda a, b: a + b, [1, 2], [3, 4])),
        list(filter(None, [0, 1, 2])),
        sorted([3, 1, 2], key=lambda v: -v, reverse=True),
        list(reversed(s.items)),
        max([1, 3], key=lambda v: -v),
        min(2, 1),
        any(v > 1 for v in s.items),
        all([]),
    )


@program
def star_imports_and_names(s, x):
    import math as m
    from operator import mul

    return mul(x, m.floor(2.5)), __name__


@program.breaks
def wrong_call_of_a_tensor_method(s, x):
    try:
        return x.add()
    except TypeError:
        return x + 1


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_same_as_eager(f):
    check(f, reset, also=lambda: LEVEL, computes=False)
