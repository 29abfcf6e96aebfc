"""A graph break at each opcode that has a rule in frames/real_*.cpp: the step runs for real, a region goes on behind it."""

from __future__ import annotations

import array
import collections
import copy
import datetime
import itertools
import operator
import sys
import threading
import types
import weakref

import pytest
import torch

import pellucid
from support import outcome, same

pytestmark = pytest.mark.usefixtures("continued")


X = torch.arange(6.0).reshape(2, 3) - 1


class Hashed:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return hash(self.n)

    def __eq__(self, other):
        return isinstance(other, Hashed) and self.n == other.n

    def __repr__(self):
        return f"Hashed({self.n})"


class Pair:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


def unknown(*values):
    """An iterator that nobody looks into."""
    return itertools.accumulate(values)


def mapping(**values):
    return types.MappingProxyType(values)


def takes(*args, **kwargs):
    return len(args), sorted(kwargs.items())


def step_unary(y, d):
    return -d, +d, y


def step_build_set(y, h):
    return len({h, 1, h}), y


def step_build_map(y, h):
    return list({h: 1, 2: 3, Hashed(1): 4}.values()), y


def step_set_add(y, hs):
    return len({h for h in hs}), y


def step_map_add(y, hs):
    return list({h: i for i, h in enumerate(hs)}.values()), y


def step_list_extend(y, it):
    return [0, *it, 9], y


def step_tuple_extend(y, it):
    return (0, *it, 9), y


def step_set_update(y, it):
    return {0, *it}, y


def step_dict_update(y, m):
    return {"a": 0, **m, "z": 1}, y


def step_dict_merge(y, m):
    return takes(1, a=2, **m), y


def step_unpack(y, it):
    a, b, c = it
    return a, b, c, y


def step_unpack_ex(y, it):
    a, *b, c = it
    return a, b, c, y


def step_format(y, d):
    return f"{d} {d!r} {d!s:>20} {d:}", y


def step_format_spec(y, d):
    return f"{d:%d}", y


def step_delete_item(y, array):
    del array[0]
    return len(array), y


def step_class(y, base):
    class Made(base):
        size = 3

        def twice(self, x):
            return x * 2

    return Made().twice(y), Made.size, Made.__qualname__


def step_with(y, lock):
    with lock:
        y = y + 1
    return y, lock.locked()


def step_match_class(y, subject):
    match subject:
        case int(n):
            return "int", n, y
        case Pair(1, b=b):
            return "one", b, y
        case Pair(a, b):
            return a, b, y
        case Hashed(n=n, m=m):
            return n, m, y
        case _:
            return "none", y


def step_match_mapping(y, subject):
    match subject:
        case {"k": v, "l": w, **rest}:
            return v, w, rest, y
        case {"k": v}:
            return v, y
        case _:
            return "none", y


def step_match_length(y, subject):
    match subject:
        case [_, _]:
            return "two", y
        case [_, *_]:
            return "some", y
        case _:
            return "none", y


def step_import(y, name):
    sys.modules["made_up"] = MadeUp(name)
    try:
        from made_up import name as found

        return found, y
    finally:
        del sys.modules["made_up"]


def step_yield_from(y, values):
    def made():
        yield from values
        yield y + 1

    return list(made())


class MadeUp:
    def __init__(self, name):
        self.name = name


STEPS = [
    (step_unary, lambda: datetime.timedelta(3)),
    (step_build_set, lambda: Hashed(1)),
    (step_build_map, lambda: Hashed(1)),
    (step_set_add, lambda: [Hashed(1), Hashed(2), Hashed(1)]),
    (step_map_add, lambda: [Hashed(1), Hashed(2), Hashed(1)]),
    (step_list_extend, lambda: unknown(1, 2, 3)),
    (step_tuple_extend, lambda: unknown(1, 2, 3)),
    (step_set_update, lambda: unknown(1, 2, 3)),
    (step_dict_update, lambda: mapping(a=1, b=2)),
    (step_dict_merge, lambda: mapping(b=1, c=2)),
    (step_unpack, lambda: unknown(1, 2, 3)),
    (step_unpack_ex, lambda: unknown(1, 2, 3, 4)),
    (step_format, lambda: datetime.timedelta(3)),
    (step_delete_item, lambda: array.array("i", [1, 2, 3])),
    (step_class, lambda: object),
    (step_with, threading.Lock),
    (step_match_class, lambda: Pair(1, 2)),
    (step_match_class, lambda: Pair(2, 3)),
    (step_match_class, lambda: 7),
    (step_match_class, lambda: Hashed(7)),
    (step_match_mapping, lambda: {"k": 1, "l": 2, "m": 3}),
    (step_match_mapping, lambda: {"k": 1}),
    (step_match_length, lambda: array.array("i", [1, 2])),
    (step_match_length, lambda: array.array("i", [1, 2, 3])),
    (step_import, lambda: "found"),
    (step_yield_from, lambda: array.array("i", [1, 2])),
    (step_yield_from, lambda: mapping(a=1, b=2)),
]


@pytest.mark.parametrize("step, make", STEPS, ids=lambda value: getattr(value, "__name__", "")[5:] or None)
def test_C05_goes_on_behind_each_opcode(step, make):
    def f(x, value):
        result = step(x.sin(), value)
        return result, x.cos()

    graphs, backend = [], lambda gm, inputs: graphs.append(gm) or gm.forward
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        got, want = outcome(compiled, X, make()), outcome(f, X, make())
        assert same(got, want), (got, want)
    followed = step in (step_class, step_match_class, step_match_mapping)  # nothing of these needs a break
    assert len(graphs) >= (1 if followed else 2)


FAILING = [
    (step_unary, lambda: "text"),
    (step_build_set, lambda: []),
    (step_build_map, lambda: []),
    (step_set_add, lambda: [Hashed(1), Hashed([])]),
    (step_map_add, lambda: [Hashed(1), Hashed([])]),
    (step_list_extend, lambda: unknown(1, "b")),
    (step_list_extend, lambda: 3),
    (step_set_update, lambda: unknown(1, "b")),
    (step_dict_update, lambda: 3),
    (step_dict_update, lambda: unknown(1)),
    (step_dict_merge, lambda: mapping(a=1)),
    (step_dict_merge, lambda: 3),
    (step_dict_merge, lambda: mapping(**{"a b": 1})),
    (step_unpack, lambda: unknown(1, 2)),
    (step_unpack, lambda: unknown(1, 2, 3, 4)),
    (step_unpack, lambda: unknown(1, "b")),
    (step_unpack, lambda: datetime.timedelta(3)),
    (step_unpack_ex, lambda: unknown(1)),
    (step_unpack_ex, lambda: unknown()),
    (step_unpack_ex, lambda: unknown(1, "b")),
    (step_format_spec, lambda: datetime.timedelta(3)),
    (step_delete_item, lambda: array.array("i", [])),
    (step_class, lambda: bool),
    (step_with, lambda: datetime.timedelta(3)),
    (step_with, lambda: types.SimpleNamespace(__enter__=1)),
    (step_match_class, lambda: Hashed("bad")),
    (step_import, lambda: None),
    (step_yield_from, lambda: threading.Lock()),
    (step_yield_from, lambda: array.array("i", [1]).append),
]


@pytest.mark.parametrize("step, make", FAILING, ids=lambda value: getattr(value, "__name__", "")[5:] or None)
def test_C05_errors_of_each_opcode(step, make):
    def f(x, value):
        y = x.sin()
        try:
            return step(y, value)
        except (TypeError, ValueError, IndexError, ImportError) as error:
            return y * 2, type(error), str(error)

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        got, want = outcome(compiled, X, make()), outcome(f, X, make())
        assert same(got, want), (got, want)


@types.coroutine
def delegates(values):
    yield from values


def test_yield_from_goes_on_in_the_generator():
    """The generator itself is captured behind the step, not left to the interpreter until its next yield."""

    def made(y, values):
        yield from values
        yield y.exp().tan()

    def f(x, values):
        return list(made(x.sin(), values))

    nodes = []

    def backend(gm, inputs):
        nodes.extend(node.target for node in gm.graph.nodes if node.op == "call_method")
        return gm.forward

    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        assert same(compiled(X, mapping()), f(X, mapping()))
    assert nodes == ["sin", "exp", "tan"]


async def coroutine():
    return 3


@pytest.mark.parametrize("through", [delegates, lambda values: (yield from values)])
def test_yield_from_a_coroutine(through):
    """A generator of types.coroutine may, another one may not."""

    def f(x):
        y, inner = x.sin(), coroutine()
        try:
            return y, list(through(inner))
        except TypeError as error:
            return y.cos(), str(error)
        finally:
            inner.close()

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        got, want = outcome(compiled, X), outcome(f, X)
        assert same(got, want), (got, want)


class Blocks:
    __iadd__ = __add__ = __lt__ = __eq__ = None


class NoError(Exception):
    def __new__(cls):
        return Pair(1, 2)


@pytest.mark.parametrize(
    "use",
    [
        lambda x, a: x.__iadd__(a) if a is None else operator.iadd(a, 1),
        lambda x, a: a + 1,
        lambda x, a: 1 + a,
        lambda x, a: a < 1,
        lambda x, a: a == a,
        lambda x, a: a != 1,
        lambda x, a: raises(NoError),
        lambda x, a: raises(NoError, ValueError()),
        lambda x, a: raises(NoError, KeyError),
        lambda x, a: raises(Own, 3),
    ],
)
def test_methods_that_are_none_and_exceptions_that_are_none(use):
    def f(x, a):
        y = x.sin()
        try:
            return y, use(x, a)
        except TypeError as error:
            return y, str(error)

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        got, want = outcome(compiled, X, Blocks()), outcome(f, X, Blocks())
        assert same(got, want), (got, want)


def test_an_inplace_operator_that_is_none():
    def f(x, a):
        try:
            a += 1
        except TypeError as error:
            return x + 1, str(error)
        return x

    compiled = pellucid.compile(f, backend="eager")
    assert same(outcome(compiled, X, Blocks()), outcome(f, X, Blocks()))


def raises(error, *cause):
    if not cause:
        raise error
    raise error from cause[0]


class Own(Exception):
    def __init__(self, *args):
        super().__init__("own")
        if args:
            print("made")


@pytest.mark.parametrize("printing", [True, False])
@pytest.mark.parametrize("cause", [None, KeyError, KeyError("k"), Own, Own("arg")], ids=str)
@pytest.mark.parametrize("error", [Own, ValueError, ValueError("v")], ids=str)
def test_raise_from(error, cause, printing):
    class Printing(Own):
        def __init__(self):
            super().__init__(*([1] if printing else []))

    def f(x, error, cause):
        y = x.sin()
        try:
            raises(error, cause)
        except Exception as caught:
            return y.cos(), type(caught), str(caught), type(caught.__cause__), caught.__suppress_context__
        return y

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        for kind in (error, Printing):
            got, want = outcome(compiled, X, kind, cause), outcome(f, X, kind, cause)
            assert same(got, want), (got, want)


def appends(xs):
    out = []
    append = out.append
    for x in xs:
        print(end="")
        append(x + 1)
    return out


def appends_to(xs, table):
    again = [table["add"]]
    add = table["add"]
    for x in xs:
        print(end="")
        add(x + 1)
        again[-1](x)
    return again[0] is add, again[0] is table["add"]


def test_a_method_of_a_builtin_object_is_not_what_a_region_is_for():
    compiled, xs = pellucid.compile(appends, backend="eager"), [X, X + 1, X + 2]
    want = appends(xs)
    assert same(compiled(xs), want)
    graphs = pellucid.counters()["graphs"]
    for _ in range(10):
        assert same(compiled(xs), want)
    # Before the first print there is no operation, and behind each the same: nobody looks at the list.
    assert pellucid.counters()["graphs"] == graphs == 2


def test_a_method_that_others_have_too_stays_the_same_object():
    compiled, xs = pellucid.compile(appends_to, backend="eager"), [X, X + 1]
    for add in ([].append, collections.deque().append, set().add):
        got, want = add.__self__, copy.copy(add.__self__)
        same_add = getattr(want, add.__name__)
        assert same(compiled(xs, {"add": add}), appends_to(xs, {"add": same_add}))
        assert same(sorted(map(str, got)), sorted(map(str, want)))


def test_code_keeps_no_object_alive_for_its_method():
    def f(x, data):
        tell = data.tobytes
        print(end="")
        x = x + len(tell())
        del tell
        return x

    compiled, data = pellucid.compile(f, backend="eager"), array.array("b", b"ab")
    assert same(compiled(X, data), f(X, data))
    assert pellucid.counters()["graphs"]
    held = weakref.ref(data)
    del data
    assert held() is None
