"""Regions that give back or change Python objects: what a compiled function leaves behind equals what eager leaves, call after call."""

import collections
import dataclasses
import enum
import functools
import math
import os
import subprocess

import pytest
import torch

import pellucid
from support import Plain
from support.programs import Programs, check

PROGRAMS = program = Programs()


class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


@dataclasses.dataclass
class Out:
    a: object
    b: object = None
    c: list = dataclasses.field(default_factory=list)


Point = collections.namedtuple("Point", "x y")


@program
def gives_dataclass(state, x):
    return Out(x + 1, c=[x])


@program
def gives_namedtuple(state, x):
    return Point(x, x * 2)


@program
def gives_structseq(state, x):
    return torch.max(x, dim=0)


@program
def gives_list_comprehension(state, x):
    return [i * x for i in range(3)]


@program
def gives_defaultdict(state, x):
    made = collections.defaultdict(list)
    made["a"].append(x + 1)
    made["b"].append(made["a"])
    return made


@program
def gives_ordered_dict(state, x):
    return collections.OrderedDict(b=x, a=x + 1)


@program
def gives_bound_methods(state, x):
    made = Plain(a=x + 1)
    return made, made.__init__, [x].append


@program
def gives_closure(state, x):
    count = 0

    def increment():
        nonlocal count
        count += 1
        return count, x

    increment()
    return increment


@program
def gives_used_iterator(state, x):
    iterator = iter([x, x + 1, 2])
    next(iterator)
    return iterator


@program
def gives_cycle(state, x):
    ring = [x + 1]
    ring.append(ring)
    made = Plain(ring=ring)
    made.me = made
    return made


@program
def gives_slots(state, x):
    made = Slots()
    made.b = x + 1
    return made


@program
def gives_shape_and_slices(state, x):
    return x.shape, x.dtype, x.device, slice(0, x.shape[0]), range(3), x[slice(0, 2)]


@program
def gives_one_value_often(state, x):
    y = x + 1
    return y, y, [y], (x, x)


@program
def gives_nothing(state, x):
    return None


@program
def gives_its_argument(state, x):
    return x


@program
def changes_its_tensor(state, x):
    x.add_(1)
    return x


@program
def appends(state, x):
    state.items.append(x + 1)
    state.items.append(state.items[0])
    return state.items


@program
def edits_a_list(state, x):
    state.items.extend([1, 2, 3])
    state.items.pop(0)
    state.items.insert(0, x * 3)
    state.items.reverse()
    return len(state.items)


@program
def swaps(state, x):
    state.items[:] = [1, x, 3]
    state.items[0], state.items[2] = state.items[2], state.items[0]
    return state.items


@program
def edits_a_dict(state, x):
    state.table["a"] = x + 1
    state.table["b"] = {"n": state.table["a"]}
    state.table.pop("a")
    return state.table["b"]


@program
def makes_a_dict_hold_itself(state, x):
    same = state.table
    state.table["me"] = state.table
    return same


@program
def edits_a_set(state, x):
    state.seen.add(1)
    state.seen.add(2)
    state.seen.discard(1)
    return x


@program
def edits_a_deque(state, x):
    for i in range(5):
        state.queue.append(x + i)
    return state.queue


@program
def edits_attributes(state, x):
    state.n += 1
    state.last = x * state.n
    state.new = [state.last]
    return state.new


@program
def sets_and_deletes(state, x):
    state.short_lived = 1
    del state.short_lived
    state.n = 5
    return x


@program
def catches(state, x):
    try:
        raise ValueError("bad", x.shape[0])
    except ValueError as error:
        return error.args, x + 1


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_C12_same_as_eager(f):
    check(f, computes=False)


total = 0


def test_C12_globals():
    global total
    total = 0

    def add(x):
        global total
        total += 2
        return x + total

    compiled = pellucid.compile(add, backend="eager", fullgraph=True)
    assert [compiled(torch.zeros(1)).item() for _ in range(3)] == [2, 4, 6] and total == 6


def test_C17_keywords_and_rest():
    def f(x, *rest, k=2, **extra):
        extra["sum"] = x + k
        return rest, extra

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for k in (2, 5):
        rest, extra = compiled(torch.ones(1), 1, 2, k=k, a=3)
        assert rest == (1, 2) and list(extra) == ["a", "sum"] and extra["sum"].item() == 1 + k


def test_C11_identity_of_what_existed():
    config = [1]

    def f(x):
        return x, x + 1, config

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    x = torch.ones(1)
    first, _, third = compiled(x)
    assert first is x and third is config


CALLS = []
LEVEL = 0


@functools.lru_cache
def cached_and_told(n):
    CALLS.append((n, LEVEL))
    return LEVEL + n


@functools.lru_cache
def only_computed(n):
    return math.sqrt(n) + len("abc")


@functools.lru_cache
def computed_from_a_global(n):
    return n + LEVEL


def test_a_cached_function_sees_and_keeps_the_order_of_effects():
    def f(x):
        global LEVEL
        LEVEL += 5
        CALLS.append("before")
        value = cached_and_told(3), computed_from_a_global(1)
        CALLS.append("after")
        return x + 1, value

    seen = []
    for g in (f, pellucid.compile(f, backend="eager")):
        globals()["LEVEL"] = 0
        CALLS.clear()
        cached_and_told.cache_clear()
        computed_from_a_global.cache_clear()
        seen.append([(g(torch.ones(2))[1], list(CALLS), LEVEL) for _ in range(3)])
    assert seen[0] == seen[1]
    assert seen[0][0] == ((8, 6), ["before", (3, 5), "after"], 5)


def test_a_cached_function_that_only_computes_is_part_of_the_graph():
    only_computed.cache_clear()
    compiled = pellucid.compile(lambda x: x * only_computed(4), backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 5.0))
    assert only_computed.cache_info().currsize == 1


@functools.lru_cache
def put(name, value):
    import posix

    posix.putenv(name, value)
    return value


def getenv(name):
    return subprocess.run(["printenv", name], capture_output=True, text=True).stdout


def test_a_cached_function_that_touches_the_world_is_not_called_ahead_of_what_fails():
    def f(x, at):
        y = x[at]
        return y, put("PELLUCID_TEST_CACHED", "1")

    compiled = pellucid.compile(f, backend="eager")
    for g in (f, compiled):
        put.cache_clear()
        os.unsetenv("PELLUCID_TEST_CACHED")
        with pytest.raises(IndexError):
            g(torch.ones(2), torch.tensor([7]))
        assert getenv("PELLUCID_TEST_CACHED") == ""
        assert g(torch.ones(2), torch.tensor([1]))[1] == "1" == getenv("PELLUCID_TEST_CACHED").strip()


@functools.lru_cache
def drawn(n):
    return torch.rand(n).tolist()


def test_a_cached_function_draws_its_random_numbers_in_order():
    def f(x):
        a = torch.rand(2)
        return a, drawn(2), torch.rand(2), x + 1

    seen = []
    for g in (f, pellucid.compile(f, backend="eager")):
        drawn.cache_clear()
        torch.manual_seed(0)
        seen.append([repr(g(torch.ones(2))) for _ in range(2)])
    assert seen[0] == seen[1]


class Kind(enum.Enum):
    A = 1


def test_attributes_of_enum_members_are_set_when_the_call_comes_to_it():
    def f(x):
        Kind.A.note = y = [x.sum()]
        Kind.A.count = getattr(Kind.A, "count", 0) + 1
        return y

    compiled = pellucid.compile(f, backend="eager")
    for n in range(3):
        y = compiled(torch.full((2,), float(n)))
        assert Kind.A.note is y and y[0].tolist() == 2 * n and Kind.A.count == n + 1


def suspended(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("ends")


@pytest.mark.parametrize("seen", [False, True], ids=["frame_unseen", "frame_seen"])
def test_a_generator_that_the_region_drops_ends_in_order(seen):
    def f(x, holder, log):
        log.append("before")
        holder.generator = None
        log.append("after")
        return x + 1

    for started in (True, False):
        compiled = pellucid.compile(f, backend="eager")
        holder, log = Plain(generator=suspended([])), []
        holder.generator = suspended(log)
        if started:
            next(holder.generator)
        if seen:
            assert holder.generator.gi_frame.f_locals
        compiled(torch.ones(2), holder, log)
        assert log == (["before", "ends", "after"] if started else ["before", "after"])
