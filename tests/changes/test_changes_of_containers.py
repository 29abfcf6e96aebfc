"""Between calls lists, dicts, sets and other containers that a region read may change: the result equals eager's every time (support/changes.py)."""

import collections
import math

import pytest
import torch

import pellucid
from support import same
from support.changes import Cases, X, put

case = CASES = Cases()


def helper(x):
    return x * 2


case.argument("list_length", lambda v, x: x * len(v), [1], [1, 2], [])
case.argument("list_truth", lambda v, x: x + 1 if v else x - 1, [1], [])
case.argument("list_contents", lambda v, x: sum(v, x), [1, 2], [1, 3], [1, 2.0], [X, 2])
case.argument("list_or_tuple", lambda v, x: x + 1 if isinstance(v, list) else x - 1, [1], (1,))
case.argument(
    "nested", lambda v, x: x * v["a"][0][1], {"a": [(1, 2)]}, {"a": [(1, 3)]}, {"a": ((1, 4),)}, {"a": [(1, X)]}
)
case.argument("dict_keys", lambda v, x: x + 1 if "a" in v else x - 1, {"a": 1}, {"b": 1})
case.argument("dict_get", lambda v, x: x * v.get("a", 5), {"a": 1}, {"b": 1}, {"a": None})
case.argument("dict_order", lambda v, x: x * list(v)[0] + list(v.values())[1], {1: 2, 3: 4}, {3: 4, 1: 2})
case.argument("set_contents", lambda v, x: x + 1 if 1 in v else x - 1, {1}, {2}, frozenset([1]), set())
case.argument("set_order", lambda v, x: x * list(v)[0] + 1, {8, 0}, {0, 8}, frozenset([8, 0]), frozenset([0, 8]))
case.argument("set_equality", lambda v, x: x + 1 if v == {1, 2} else x - 1, {1, 2}, {2}, {1, 2, 3})
case.argument("range", lambda v, x: x * sum(v), range(3), range(4), range(0, 6, 3))
case.argument("slice", lambda v, x: x[v] * 2, slice(1), slice(2), slice(None, None, 2))
case.argument("numbers", lambda v, x: x * v if type(v) is int else (x - v if type(v) is bool else x + v), 1, True, 1.0)
case.argument("signed_zero", lambda v, x: x * math.copysign(1.0, v), 0.0, -0.0)
case.argument("nan", lambda v, x: x + 1 if v != v else x - 1, math.nan, 1.0, float("nan"), -math.nan)
case.argument("tuple_of_numbers", lambda v, x: x + 1 if type(v[0]) is bool else x * v[0], (1,), (True,), (1.0,))
case.argument("tuple_of_zeros", lambda v, x: x * math.copysign(1.0, v[0]), (0.0,), (-0.0,))
case.argument("complex_zero", lambda v, x: x * math.copysign(1.0, v.imag), complex(1, 0.0), complex(1, -0.0))
case.argument("none", lambda v, x: x + 1 if v is None else x - 1, None, 0, False)
case.argument("text", lambda v, x: x + len(v), "a", "ab", b"abc")
case.argument("type_as_argument", lambda v, x: x * v(2.5), int, float, lambda n: 7)
case.argument("dtype", lambda v, x: x.to(v), torch.float64, torch.int32)
case.argument("device", lambda v, x: torch.ones(3, device=v), torch.device("cpu"), torch.device("meta"), "cpu")
case.argument("large_int", lambda v, x: x + 1 if v > 2**70 else x - 1, 2**71, 2**69)
case.argument(
    "dict_of_equal_keys", lambda v, x: x + 1 if type(next(iter(v))) is int else x - 1, {1: 2}, {True: 2}, {1.0: 2}
)
case.argument("set_of_equal_members", lambda v, x: x + 1 if type(next(iter(v))) is int else x - 1, {1}, {True}, {1.0})

case.mutation(
    "list_changed",
    lambda v, x: x * v[0] + v[-1],
    lambda: [1, 2],
    lambda v: v.append(3),
    lambda v: v.insert(0, 7),
    lambda v: v.reverse(),
    lambda v: v.clear(),
)
case.mutation(
    "list_of_tensors",
    lambda v, x: torch.cat(v),
    lambda: [X, X + 1],
    lambda v: v.append(X),
    lambda v: v.reverse(),
    lambda v: v.pop(),
)
case.mutation(
    "dict_changed",
    lambda v, x: x * v["a"],
    lambda: {"a": 2},
    lambda v: v.update(a=3),
    lambda v: v.update(a=X),
    lambda v: v.clear(),
)
case.mutation(
    "dict_iterated",
    lambda v, x: x * sum(k * n for n, k in enumerate(v)),
    lambda: {1: 0, 2: 0},
    lambda v: v.update({3: 0}),
    lambda v: v.update({1: v.pop(1)}),
)
case.mutation("set_changed", lambda v, x: x * len(v), lambda: {1}, lambda v: v.add(2), lambda v: v.clear())
case.mutation(
    "deque_changed",
    lambda v, x: x * v[0] + len(v),
    lambda: collections.deque([1, 2]),
    lambda v: v.rotate(1),
    lambda v: v.appendleft(9),
    lambda v: v.clear(),
)
case.mutation("deque_iterated", lambda v, x: sum(v, x), lambda: collections.deque([1, 2]), lambda v: v.append(5))
case.mutation(
    "ordered_dict_moved",
    lambda v, x: x * next(iter(v)),
    lambda: collections.OrderedDict({1: 0, 2: 0, 3: 0}),
    lambda v: v.move_to_end(1),
    lambda v: v.move_to_end(3, last=False),
)
case.mutation(
    "ordered_dict_values",
    lambda v, x: x * list(v.values())[0],
    lambda: collections.OrderedDict(a=1, b=2),
    lambda v: v.move_to_end("a"),
    lambda v: v.update(b=5),
)
case.mutation(
    "defaultdict_changed",
    lambda v, x: x * v["a"] if "a" in v else x,
    lambda: collections.defaultdict(int, a=2),
    lambda v: v.update(a=3),
    lambda v: v.clear(),
)
case.mutation(
    "inner_list_changed",
    lambda v, x: x * v[0][0],
    lambda: [[1]],
    lambda v: v[0].insert(0, 5),
    lambda v: v.insert(0, [6]),
)
case.mutation(
    "list_compared", lambda v, x: x + 1 if v == [1, [2]] else x - 1, lambda: [1, [2]], lambda v: v[1].append(1)
)
case.mutation("list_searched", lambda v, x: x + v.index(2) + v.count(1), lambda: [1, 2], lambda v: v.insert(0, 1))
case.mutation("list_in_text", lambda v, x: x + len(f"{v}"), lambda: [1], lambda v: v.append(22))
case.mutation("list_sorted", lambda v, x: x * sorted(v)[0], lambda: [3, 2], lambda v: v.append(1))
case.mutation("list_sliced", lambda v, x: x * sum(v[1:]), lambda: [1, 2], lambda v: v.append(5))
case.mutation(
    "dict_unpacked",
    lambda v, x: torch.add(x, x, **v),
    lambda: {"alpha": 2},
    lambda v: v.update(alpha=3),
    lambda v: v.clear(),
)
case.mutation("list_unpacked", lambda v, x: max(*v) * x, lambda: [1, 2], lambda v: v.append(5))


@case
def list_identity():
    a, b = [1], [1]

    def f(v, w, x):
        return x + 1 if v is w else x - 1

    yield f, a, b, X
    yield f, a, a, X
    yield f, b, b, X
    yield f, b, a, X


@case
def list_subclass():
    class Items(list):
        pass

    def f(v, x):
        return x * v[0] + len(v)

    v = Items([1, 2])
    yield f, v, X
    v[0] = 5
    yield f, v, X
    Items.__getitem__ = lambda self, i: 9
    yield f, v, X
    Items.__len__ = lambda self: 30
    yield f, v, X


@case
def dict_subclass_missing():
    class Table(dict):
        def __missing__(self, key):
            return 7

    def f(v, x):
        return x * v["a"]

    v = Table(a=2)
    yield f, v, X
    del v["a"]
    yield f, v, X
    Table.__missing__ = lambda self, key: 8
    yield f, v, X


@case
def dict_key_objects():
    class Key:
        pass

    a, b = Key(), Key()

    def f(k, v, x):
        return x * v.get(k, 9)

    yield f, a, {a: 2}, X
    yield f, b, {a: 2}, X
    yield f, b, {b: 3}, X


def test_iterator_from_outside():
    def f(v, x):
        return x * next(v, 9)

    compiled = pellucid.compile(f, backend="eager")
    for make in (
        lambda: iter([1, 2]),
        lambda: iter([3]),
        lambda: iter([]),
        lambda: iter((5, 6)),
        lambda: (i for i in [4]),
    ):
        got, want = make(), make()
        assert same(compiled(got, X), f(want, X))
        assert list(got) == list(want)


@case
def keys_of_the_regions_own_dict():
    class Key:
        pass

    a, b = Key(), Key()

    def f(k, q, x):
        table = {k: 2}
        table[q] = 3
        return x * table[k] + len(table)

    yield f, a, b, X
    yield f, a, a, X
    yield f, b, b, X


@case
def members_of_the_regions_own_set():
    class Key:
        pass

    a, b = Key(), Key()

    def f(k, q, x):
        return x * len({k, q}) + (1 if q in {k} else 2) + len(set([k, q]))

    yield f, a, b, X
    yield f, a, a, X


@case
def keys_in_tuples():
    class Key:
        pass

    a, b = Key(), Key()

    def f(k, q, x):
        return x * {(1, k): 2}.get((1, q), 5)

    yield f, a, b, X
    yield f, a, a, X


@case
def tuples_compared():
    class Key:
        pass

    a, b = Key(), Key()

    def f(v, w, x):
        return x + 1 if v == w else x - 1

    yield f, (a,), (b,), X
    yield f, (a,), (a,), X


@case
def objects_searched_in_lists():
    class Key:
        pass

    a, b = Key(), Key()

    def f(v, k, x):
        return x + 1 if k in v else x - 1

    yield f, [a, b], a, X
    yield f, [b], a, X
    yield f, [b], b, X


@case
def sum_of_a_generator_over_a_dict():
    table = {"a": 1}

    def f(x):
        return x * sum(v for v in table.values())

    yield f, X
    table["b"] = 4
    yield f, X


@case
def range_of_a_length():
    v = [1]

    def f(x):
        return sum((x * i for i in range(len(v))), x)

    yield f, X
    v += [1, 1]
    yield f, X


@case
def counter_changed():
    v = collections.Counter("aab")

    def f(x):
        return x * v["a"] + v["z"]

    yield f, X
    v["a"] = 7
    yield f, X
    v["z"] = 1
    yield f, X


@case
def chain_map():
    inner = {"a": 1}
    v = collections.ChainMap({}, inner)

    def f(x):
        return x * v["a"]

    yield f, X
    inner["a"] = 2
    yield f, X
    v["a"] = 5
    yield f, X


@case
def array_and_bytearray():
    v = bytearray(b"abc")

    def f(x):
        return x * v[0] + len(v) if helper is not None else x - 1

    with put(globals(), "helper", None):
        yield f, X
    yield f, X
    v[0] = 1
    yield f, X
    v.append(2)
    yield f, X


@case
def numpy_array():
    import numpy

    v = numpy.ones(2)

    def f(x):
        return x * float(v[0]) + v.shape[0] if helper is not None else x - 1

    with put(globals(), "helper", None):
        yield f, X
    yield f, X
    v[0] = 3
    yield f, X


@case
def default_factory_changed():
    v = collections.defaultdict(lambda: 2)

    def f(x):
        return x * v.get("a", 1) + (v["b"] if "b" in v else 3)

    yield f, X
    v["b"] = 9
    yield f, X


@case
def list_attribute():
    class Items(list):
        pass

    v = Items([1])
    v.tag = 2

    def f(v, x):
        return x * v.tag + v[0]

    yield f, v, X
    v.tag = 3
    yield f, v, X


@case
def type_of_a_value_in_a_dict():
    table = {int: 2, float: 3}

    def f(v, x):
        return x * table[type(v)]

    yield f, 1, X
    yield f, 1.0, X


@pytest.mark.parametrize("make", CASES, ids=CASES.names)
def test_B01_change(make, counting):
    CASES.check(make, counting)
