"""PYTEST_DONT_REWRITE

Sorting, hashing and comparing by user code, iteration protocols, names and imports, formatting, mutation while iterating."""

import collections
import functools
import itertools
import math
import operator
import string
import sys
import weakref

import pytest
from language_common import Programs, check

PROGRAMS = program = Programs()


# ---- sorting


class Item:
    def __init__(self, log, value):
        self.log = log
        self.value = value

    def __lt__(self, other):
        self.log.append((self.value, other.value))
        return self.value < other.value

    def __repr__(self):
        return f"Item({self.value})"


@program
def sort_with_key(s, x):
    words = ["bb", "a", "dddd", "ccc", "ee"]
    words.sort(key=lambda w: (s.log.append(w), len(w))[1])
    numbers = [3, 1, 2]
    numbers.sort(key=lambda n: -n, reverse=True)
    s.items.sort(key=lambda n: -n)
    pairs = [(1, "b"), (0, "z"), (1, "a")]
    pairs.sort(key=operator.itemgetter(0))
    return words, numbers, pairs, sorted(words, key=str.upper, reverse=True), x + 1


@program
def sort_by_lt(s, x):
    for values in ([3, 1, 2], [1, 2, 3, 4], [5, 4, 3, 2, 1], [2, 2, 1, 3, 1, 0, 7, 6], [1], []):
        items = [Item(s.log, v) for v in values]
        items.sort()
        s.log.append([i.value for i in items])
        s.log.append([i.value for i in sorted(items, reverse=True)])
        s.log.append([i.value for i in sorted(items, key=lambda i: i, reverse=False)])
    return max(Item([], 1), Item([], 2)).value if False else x + 1


@program
def sort_many_with_plain_keys(s, x):
    class Thing:
        def __init__(self, n):
            self.n = n

    things = [Thing(i * 37 % 101) for i in range(100)]
    things.sort(key=lambda t: t.n)
    return [t.n for t in things], x + 1


@program
def sort_tensors_by_key(s, x):
    tensors = [x * 2, x, x + 5]
    order = {id(t): i for i, t in enumerate([tensors[1], tensors[2], tensors[0]])}
    tensors.sort(key=lambda t: order[id(t)])
    return tensors


@program
def list_modified_during_sort(s, x):
    items = [3, 1, 2]

    def key(v):
        s.log.append(len(items))
        items.append(v)
        return v

    try:
        items.sort(key=key)
    except ValueError as error:
        return str(error), items, x + 1


@program
def sort_fails(s, x):
    def key(v):
        if v == 2:
            raise KeyError(v)
        return v

    items = [3, 1, 2]
    out = []
    for f in (lambda: items.sort(key=key), lambda: sorted([1, "a", 2]), lambda: [2, "b", 1].sort()):
        try:
            f()
        except (KeyError, TypeError) as error:
            out.append(str(error))
    return out, items, x + 1


@program
def sort_tuples_of_objects(s, x):
    pairs = [(1, Item(s.log, 2)), (1, Item(s.log, 1)), (0, Item(s.log, 5))]
    return [p[1].value for p in sorted(pairs)], x + 1


@program.breaks
def sort_by_cmp_to_key(s, x):
    def compare(a, b):
        s.log.append((a, b))
        return (a > b) - (a < b)

    return sorted([3, 1, 2], key=functools.cmp_to_key(compare)), x + 1


@program.breaks
def heaps_and_bisect(s, x):
    import bisect
    import heapq

    heap = [5, 1, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    return heapq.heappop(heap), bisect.bisect([1, 2, 4], 3), heapq.nlargest(2, [1, 3, 2]), x + 1


# ---- equality and hashes


class Key:
    def __init__(self, log, name):
        self.log = log
        self.name = name

    def __hash__(self):
        self.log.append("hash " + self.name)
        return hash(self.name)

    def __eq__(self, other):
        self.log.append("eq " + self.name)
        return isinstance(other, Key) and self.name == other.name


@program.breaks
def keys_with_own_hash(s, x):
    a, b, c = Key(s.log, "a"), Key(s.log, "b"), Key(s.log, "a")
    d = {a: 1, b: x}
    d[c] = 5
    out = [d[a], d.get(c), d.get(Key(s.log, "z"), "none"), c in d, Key(s.log, "q") in d, len(d)]
    del d[b]
    d.setdefault(b, 7)
    d.pop(c)
    seen = {a, b, c}
    seen.add(Key(s.log, "b"))
    return out, len(d), len(seen), [k.name for k in d], x + 1


@program
def eq_in_containers(s, x):
    class E:
        def __init__(self, v):
            self.v = v

        def __eq__(self, other):
            s.log.append(("eq", self.v, getattr(other, "v", other)))
            return self.v == getattr(other, "v", other)

    a, b = E(1), E(1)
    return (
        a == b,
        a != b,
        a == 1,
        1 == a,
        [a] == [b],
        [a] != [b],
        (a, 2) == (b, 2),
        (a,) == (b, 1),
        a in [E(3), b],
        [E(3), a].index(b),
        [a, b].count(1),
        {"k": a} == {"k": b},
        [1, a] == [1, b],
        x + 1,
    )


@program
def comparisons_of_all_kinds(s, x):
    class C:
        def __init__(self, v):
            self.v = v

        def __lt__(self, other):
            s.log.append("lt")
            return NotImplemented if isinstance(other, str) else "lt"

        def __ge__(self, other):
            s.log.append("ge")
            return []

        def __gt__(self, other):
            s.log.append("gt")
            return NotImplemented

    a, b = C(1), C(2)
    out = [a < b, a > b, a >= b]
    for f in (lambda: a <= b, lambda: a < "s", lambda: "s" > a, lambda: a > 3):
        try:
            out.append(f())
        except TypeError as error:
            out.append(str(error))
    return out, a < b < a, bool(a >= b), x + 1


@functools.total_ordering
class Ordered:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return self.v == other.v

    def __lt__(self, other):
        return self.v < other.v


@program
def total_ordering(s, x):
    a, b = Ordered(1), Ordered(2)
    return a <= b, a >= b, a > b, a != b, max([a, b], key=lambda o: o.v).v, max(a, b).v, x + 1


@program
def arithmetic_of_objects(s, x):
    class N:
        def __init__(self, v):
            self.v = v

        def __add__(self, other):
            s.log.append("add")
            return N(self.v + other.v) if isinstance(other, N) else NotImplemented

        def __radd__(self, other):
            s.log.append("radd")
            return N(self.v + other)

        def __iadd__(self, other):
            s.log.append("iadd")
            self.v += 100
            return self

        def __mul__(self, other):
            return self.v * other

        def __rmul__(self, other):
            return other * self.v

        def __neg__(self):
            return -self.v

        def __abs__(self):
            return abs(self.v)

        def __int__(self):
            return int(self.v)

        def __float__(self):
            return 2.5

        def __index__(self):
            return 2

        def __round__(self, n=None):
            return "round", n

        def __divmod__(self, other):
            return "divmod"

        def __pow__(self, other, mod=None):
            return "pow", mod

        def __matmul__(self, other):
            return "matmul"

        def __invert__(self):
            return "invert"

        def __bool__(self):
            s.log.append("bool")
            return self.v > 1

        def __len__(self):
            return 3

        def __contains__(self, item):
            return item == 1

        def __call__(self, v):
            return v

    class M(N):
        def __radd__(self, other):
            s.log.append("M.radd")
            return "sub"

    a, b = N(1), N(2)
    c = a + b
    c += 5
    out = [
        (a + b).v, (5 + a).v, a + M(1), sum([a, b], N(0)).v, a * 2, 2 * a, -a, abs(N(-3)), int(b), float(b),
        [1, 2, 3][N(0)], round(a), round(a, 2), divmod(a, 1), a**2, pow(a, 2, 3), a @ b, ~a, not a, not b, len(a), 1 in a,
        2 in a, a(7), (a and 1) is a, (b or 2) is b, [0, 1, 2, 3][N(0):], range(5)[N(0)], "ab" * N(0),
    ]  # fmt: skip
    return c.v, out, x + 1


# ---- iteration


@program
def getitem_sequences(s, x):
    class Seq:
        def __getitem__(self, i):
            s.log.append(i)
            if i >= 3:
                raise IndexError(i)
            return i * 10

    class Sized(Seq):
        def __len__(self):
            return 3

    q = Seq()
    a, *rest = q
    return list(q), [v for v in q], 20 in q, 99 in q, a, rest, list(reversed(Sized())), tuple(zip(q, "ab")), x + 1


@program
def iter_protocol(s, x):
    class It:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            s.log.append("iter")
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def f(*args, **kw):
        return args, kw

    a, b = It(2)
    first, *middle, last = It(5)
    return (
        list(It(3)), sum(It(4)), max(It(3)), sorted(It(3)), [*It(2), *It(1)], {*It(2)}, f(*It(2), *[7]), a, b, first, middle, last,
        dict(zip(It(2), "ab")), ",".join(str(v) for v in It(3)), all(It(3)), any(It(1)), 2 in It(3), next(It(1)), next(It(0), "d"),
        list(enumerate(It(2), 5)), list(map(lambda p, q: p + q, It(2), It(3))), list(filter(None, It(3))), set(It(3)), tuple(It(2)),
        list(itertools.chain(It(1), [9])), list(itertools.islice(It(5), 1, 3)), x + 1,
    )  # fmt: skip


@program
def length_hints(s, x):
    class Hinted:
        def __init__(self, hint):
            self.hint = hint

        def __iter__(self):
            s.log.append("iter")
            return iter([1, 2])

        def __length_hint__(self):
            s.log.append("hint")
            return self.hint

    class Sized(Hinted):
        def __len__(self):
            s.log.append("len")
            return 2

    out = [list(Hinted(3)), tuple(Hinted(NotImplemented)), list(Sized(1)), tuple(Sized(1))]
    for hint in (-1, "a"):
        try:
            list(Hinted(hint))
        except (TypeError, ValueError) as error:
            out.append(str(error))
    return out, x + 1


@program.breaks
def text_of_user_objects_in_ascii(s, x):
    m = Money(s.log, 7)
    return f"{m!a:<12}|", ascii(m), x + 1


@program
def unpacking_takes_no_more(s, x):
    def endless():
        n = 0
        while True:
            s.log.append(n)
            yield n
            n += 1

    it = iter([1, 2, 3, 4])
    out = []
    for values in (endless(), it, itertools.count()):
        try:
            a, b = values
        except ValueError as error:
            out.append(str(error))
    return out, list(it), x + 1


@program
def bad_iterators(s, x):
    class NotIter:
        def __iter__(self):
            return 5

    class NoneIter:
        __iter__ = None

    out = []
    for f in (
        lambda: list(NotIter()),
        lambda: iter(NoneIter()),
        lambda: [*5],
        lambda: (lambda *a: a)(*5),
        lambda: (lambda **k: k)(**5),
        lambda: dict([1]),
        lambda: dict([(1, 2, 3)]),
        lambda: {**5},
    ):
        try:
            out.append(f())
        except TypeError as error:
            out.append(str(error))
        except ValueError as error:
            out.append(str(error))
    for values in ([1], [1, 2, 3], 5, "abc", {1: 2}):
        try:
            a, b = values
        except (TypeError, ValueError) as error:
            out.append(str(error))
        try:
            a, *b, c, d = values
            out.append((a, b, c, d))
        except (TypeError, ValueError) as error:
            out.append(str(error))
    return out, x + 1


@program
def iter_with_sentinel(s, x):
    values = [1, 2, 0, 3]

    def pull():
        s.log.append(len(values))
        return values.pop(0)

    return list(iter(pull, 0)), values, x + 1


@program
def own_reversed(s, x):
    class R:
        def __reversed__(self):
            s.log.append("reversed")
            return iter([3, 2, 1])

    return list(reversed(R())), list(reversed({"a": 1, "b": 2})), list(reversed([1, 2])), x + 1


@program
def changes_while_iterating(s, x):
    out = []
    d = {"a": 1, "b": 2}
    try:
        for k in d:
            d[k + k] = 1
    except RuntimeError as error:
        out.append(str(error))
    try:
        for k in d:
            del d[k]
    except RuntimeError as error:
        out.append(str(error))
    numbers = [1, 2, 3]
    for n in numbers:
        if n < 4:
            numbers.append(n + 3)
    for n in numbers:
        numbers.remove(n)
    chars = {1, 2}
    try:
        for c in chars:
            chars.add(c + 10)
    except RuntimeError as error:
        out.append(str(error))
    queue = collections.deque([1, 2])
    try:
        for q in queue:
            queue.append(q)
    except RuntimeError as error:
        out.append(str(error))
    for item in s.items:
        if len(s.items) < 6:
            s.items.append(item)
    try:
        for k in s.table:
            s.table[k + "z"] = 1
    except RuntimeError as error:
        out.append(str(error))
    view = d.items()
    d["late"] = 1
    return out, numbers, list(view), x + 1


@program
def unpacking(s, x):
    a, (b, *c), [d, (e, f)] = 1, (2, 3, 4), [5, "xy"]
    (g, h), *i = [(1, 2), 3, 4]
    *j, k = {"p": 1, "q": 2}
    m = n = [1]
    m[0], n = n, m
    z = [0, 1, 2]
    i2, z[(i2 := 1)] = 2, "w"
    s.log.append(i2)
    for p, (q, *r) in [(1, (2, 3)), (4, (5,))]:
        s.log.append((p, q, r))
    return a, b, c, d, e, f, g, h, i, j, k, z, [*range(3), *"ab"], {**{"a": 1}, "b": 2, **{"a": 3}}, (*(1,), 2), x + 1


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
    for text in ("import no_such_module_here", "from math import no_such_name"):
        try:
            if "from" in text:
                from math import no_such_name  # noqa: F401
            else:
                import no_such_module_here  # noqa: F401
        except ImportError as error:
            out.append((type(error).__name__, str(error)[:45], error.name))
    return m.sqrt(4), os.path.join("a", "b"), F.relu(x), od(a=1), floor(pi), out


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
