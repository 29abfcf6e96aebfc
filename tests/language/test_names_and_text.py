"""PYTEST_DONT_REWRITE: programs contain `assert`.

Names and imports, formatting, lifetimes, asynchronous functions.
"""

import functools
import math
import string
import sys
import weakref

import pytest
import torch

import pellucid
from support import same
from support.programs import Programs, check

PROGRAMS = program = Programs()


@program.breaks
def text_of_user_objects_in_ascii(s, x):
    m = Money(s.log, 7)
    return f"{m!a:<12}|", ascii(m), x + 1


# ---- names


GLOBAL = 0
DELETED = 1


def reset():
    global GLOBAL, DELETED
    GLOBAL = 0
    DELETED = 1
    globals().pop("MADE", None)
    vars(Dropped)["log"].clear()


@program
def globals_and_nonlocals(s, x):
    global GLOBAL, DELETED, MADE
    GLOBAL += 1
    MADE = x + GLOBAL
    k = 0

    def inner():
        nonlocal k
        global GLOBAL
        k += 1
        GLOBAL *= 2

        def deeper():
            nonlocal k
            k += 10

        deeper()

    inner()
    out = [GLOBAL, k]
    del DELETED
    try:
        DELETED
    except NameError as error:
        out.append((str(error), error.name))
    DELETED = 5  # noqa: F841
    return out, MADE


@program
def del_of_everything(s, x):
    out = []
    a = b = c = 1
    del a
    try:
        a  # noqa: F821
    except UnboundLocalError as error:
        out.append((str(error), error.name))
    try:
        del a  # noqa: F821
    except UnboundLocalError as error:
        out.append(str(error))

    def closure():
        return b

    del b
    try:
        closure()
    except NameError as error:
        out.append((str(error), error.name))
    try:
        del b
    except NameError as error:
        out.append(str(error))
    b = 2
    numbers = [0, 1, 2, 3, 4, 5]
    del numbers[0], numbers[-1], numbers[1:3]
    del s.table["a"], s.seen
    try:
        s.seen
    except AttributeError as error:
        out.append((str(error), error.name, error.obj is s))
    s.seen = {2}
    s.table["a"] = closure()
    try:
        del s.nothing
    except AttributeError as error:
        out.append((str(error), error.name))
    for bad in (lambda: numbers.__delitem__(9), lambda: s.table.__delitem__("no")):
        try:
            bad()
        except (IndexError, KeyError) as error:
            out.append(str(error))
    y = x + 1
    del (c, x)
    return out, numbers, y


@program
def walrus(s, x):
    if (n := len(s.items)) > 1:
        s.log.append(n)
    values = [y := 1, y**2, (z := y + 1)]
    while (m := len(values)) < 6:
        values.append(m)
    found = any((hit := v) > 2 for v in values)
    last = [last_item := v for v in values]
    return n, values, y, z, m, found, hit, last, last_item, x * n


@program
def imports(s, x):
    import math as m
    import os.path
    from collections import OrderedDict as od
    from math import floor, pi

    import torch.nn.functional as F

    out = []
    try:
        from math import no_such_name  # noqa: F401
    except ImportError as error:
        out.append((type(error).__name__, str(error)[:45], error.name))
    return m.sqrt(4), os.path.join("a", "b"), F.relu(x), od(a=1), floor(pi), out


@program.breaks
def module_that_is_missing(s, x):
    y = x.relu()
    try:
        import no_such_module_here  # noqa: F401
    except ImportError as error:
        return y * 2, type(error).__name__, str(error)[:45], error.name
    return y


@program
def comprehension_scopes(s, x):
    n = 5
    a = [n for n in range(3)]
    b = [[i * j for j in range(i)] for i in range(4) if i % 2]
    c = {k: v for k, v in zip("abc", range(3)) if v}
    d = {i % 2 for i in range(5)}
    fs = [lambda: i for i in range(3)]
    g = ((i, j) for i in range(2) for j in "ab")
    return n, a, b, c, d, [f() for f in fs], list(g), x + 1


@program.breaks
def frames_and_namespaces(s, x):
    y = 1
    return sorted(locals()), "GLOBAL" in globals(), sys._getframe().f_code.co_name, vars(s) is s.__dict__, y, x + 1


@program
def identity(s, x):
    a, b = [], []
    same = x
    return (
        a is b, a is a, same is x, x is not s, id(a) == id(a), id(a) == id(b), None is None, s.items is s.same, s.same is s.items,
        () == (), "a" == "a", type(a) is list, x + 1,
    )  # fmt: skip


@program.breaks
def recursion_error(s, x):
    def forever(n):
        return forever(n + 1)

    try:
        forever(0)
    except RecursionError as error:
        return str(error)[:32], x + 1


@program
def defaults_are_shared(s, x):
    def f(a, items=[]):
        items.append(a)
        return items

    f(1)
    return f(2), f(3, []), f.__defaults__, x + 1


# ---- text


class Money:
    def __init__(self, log, n):
        self.log = log
        self.n = n

    def __format__(self, spec):
        self.log.append(("format", spec))
        return f"<{self.n:{spec or 'd'}}>"

    def __str__(self):
        self.log.append("str")
        return f"${self.n}"

    def __repr__(self):
        self.log.append("repr")
        return f"Money({self.n})"


@program
def format_by_user_code(s, x):
    m = Money(s.log, 7)
    width = 5
    return (
        f"{m}", f"{m:>4}", f"{m!s}", f"{m!r}", f"{m!s:>6}", f"{m!r:>{width + 5}}", f"{m=}", str(m), repr(m),
        format(m, "03"), f"{width:{width}}", f"{'x':*^{width}}", f"{3.14159:.2f}", f"{1000000:,}", f"{255:#x}", f"{True!r:>6}",
        f"{[m]}", f"{(m, 1)}", f"{ {'k': m} }", str([m, "t"]), repr({"a": [m]}), x + 1,
    )  # fmt: skip


@program.breaks
def format_methods_of_text(s, x):
    m = Money(s.log, 7)
    return f"{m} {m:>4} {m!r}", "%s %r %d" % (m, m, 3), string.Template("$a b").substitute(a=1), x + 1


@program
def text_methods(s, x):
    t = "Hello, World"
    return (
        t.split(", "), t.replace("l", "L"), t[::-1], t.partition(","), t.encode(), t.title(), t.find("o"), t.count("l"), "-".join("abc"),
        "%s-%05d-%.1f-%x" % ("a", 42, 2.55, 255), "{0}{1}{0}".format("a", "b"), "{a:>{w}}".format(a=1, w=4), t.center(20, "*"),
        "a,b,,c".split(","), " x ".strip(), t.startswith(("He", "x")), "abc" < "abd", "a" * 3, "é".encode(), b"ab".decode(), b"ab"[0],
        bytes([1, 2]), b"a" + b"b", "ß".upper(), "x".isalpha(), t.translate({72: "J"}), "a\tb".expandtabs(4), "A".casefold(), x + 1,
    )  # fmt: skip


@program
def numbers(s, x):
    big = 2**100
    return (
        big + 1, big // 7, -big % 13, big.bit_length(), int("123" * 10), 7 // -2, -7 % 3, divmod(-7, 2), 2**-1, 0.1 + 0.2, 1e308 * 10,
        -0.0, math.isnan(float("nan")), float("inf") - 1, 1j * 1j, (1 + 2j).real, abs(3 + 4j), complex(1, -1).conjugate(), round(2.5),
        round(-1.55, 1), int(-3.9), True + True, 5 & 3 | 8 ^ 2, ~5, 1 << 70, big >> 90, 3 == 3.0, hash(1) == hash(1.0), hash(big),
        hash(0.5), int.from_bytes(b"\x01\x02", "big"), (5).to_bytes(2, "little"), 10 .__add__(5), 1.5.is_integer(), 0.75.as_integer_ratio(),
        min(1, 2.0, True), max("a", "b"), sum([0.1] * 10), math.fsum([0.1] * 10), 1 < 2 < 3, 1 < 3 > 2, not 0, None or 5, 0 and 5, x + 1,
    )  # fmt: skip


# ---- lifetimes


class Dropped:
    log = []

    def __init__(self, name):
        self.name = name

    def __del__(self):
        Dropped.log.append(self.name)


@program.breaks
def dels_in_order(s, x):
    a = Dropped("a")
    Dropped.log.append("made")
    a = Dropped("b")
    Dropped.log.append("replaced")
    del a
    Dropped.log.append("end")
    return list(Dropped.log), x + 1


@program.breaks
def drop_of_an_outer_object(s, x):
    s.thing = Dropped("outer")
    s.other = s.thing
    del s.thing
    s.log.append(list(Dropped.log))
    s.other = None
    s.log.append(list(Dropped.log))
    return x + 1


@program.breaks
def weak_references(s, x):
    class C:
        pass

    c = C()
    r = weakref.ref(c)
    alive = r() is c
    del c
    return alive, r() is None, x + 1


@program.breaks
def cached_functions(s, x):
    @functools.lru_cache
    def f(n):
        s.log.append(n)
        return n * 2

    return f(1), f(1), f(2), f(1), x + 1


@functools.lru_cache
def cached_outside(t, log):
    return t * 2


@program.breaks
def cache_of_tensors(s, x):
    calls = []

    class Log:
        pass

    log = Log()
    a = cached_outside(x, log)
    b = cached_outside(x, log)
    return a is b, calls


class OnlyDeletes:
    def __delitem__(self, key):
        raise LookupError(key)


class OnlySets:
    def __setitem__(self, key, value):
        raise LookupError(key, value)


@program
def one_of_the_two_methods_for_items(s, x):
    out = []
    for each in (OnlyDeletes(), OnlySets(), object(), (1, 2), "text"):
        for change in (0, 1):
            try:
                if change:
                    each[1] = x
                else:
                    del each[1]
            except (LookupError, TypeError, AttributeError) as error:
                out.append((type(error), len(error.args), str(error.args[0])))
    return x + 1, out


@program.breaks
def async_functions(s, x):
    async def f():
        return x + 1

    coroutine = f()
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


async def some_coroutine(n):
    return n


async def agen():
    yield 1


@program.breaks
def async_with_everything(s, x):
    async def f():
        total = x
        async for v in agen():
            total = total + v
        total = total + await some_coroutine(2)
        return [w async for w in agen()], total

    try:
        f().send(None)
    except StopIteration as stop:
        return stop.value


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_same_as_eager(f):
    check(f, reset)


class Described:
    """As the extra_repr of many modules of torch: a template is given all attributes, of which it names a few."""

    def __init__(self):
        self.width, self.parts, self.owner = 3, {"a": [1]}, None

    def text(self):
        return "{width}, {width:>{level}} of {owner!r}".format(**self.__dict__, level=5, unused=self)


def test_format_looks_at_what_the_template_names():
    described, embedding = Described(), torch.nn.Embedding(4, 3)

    def f(x):
        return x + len(described.text()), described.text(), embedding.extra_repr()

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    x = torch.ones(2)
    for width in (3, 4, 500000):
        described.width = width
        assert same(compiled(x), f(x))
    described.owner = "b"
    assert same(compiled(x), f(x))
