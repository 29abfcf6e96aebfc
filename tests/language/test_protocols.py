"""PYTEST_DONT_REWRITE: programs contain `assert`.

Sorting, hashing, comparing and iterating by user code, mutation while iterating.
"""

import collections
import functools
import itertools
import operator

import pytest

from support.programs import Programs, check

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


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_same_as_eager(f):
    check(f)
