"""Many entries of one function are told apart by a value that they ask for. What is found is what trying them one by one
finds, the one used last first: each call is compared with that, done in Python over `pellucid.cache_entries`."""

from __future__ import annotations

import gc
import random
import threading

import pytest
import torch

import pellucid

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of guards that are evaluated as Python

MANY = 64
X = torch.ones(2)


def order(compiled) -> list[int]:
    return [entry["region"] for entry in pellucid.cache_entries(compiled)]


def fits(entry: dict, values: dict) -> bool:
    scope = {**entry["scope"], "L": values}
    try:
        return all(eval(guard, scope) for guard in entry["guards"])
    except (AttributeError, IndexError, KeyError, TypeError):
        return False  # of a value that another guard refuses


def wanted(compiled, values: dict) -> int | None:
    found = (entry["region"] for entry in pellucid.cache_entries(compiled) if fits(entry, values))
    return next(found, None)


def call(compiled, names, arguments) -> bool:
    """Whether the call fitted an entry. That is the one that trying would find, and the order is as it leaves it."""
    values = dict(zip(names, arguments, strict=True))
    before, region = order(compiled), wanted(compiled, values)
    hits = {entry["region"]: entry["hits"] for entry in pellucid.cache_entries(compiled)}
    compiled(*arguments)
    if region is None:
        return False
    after = pellucid.cache_entries(compiled)
    assert order(compiled) == [region, *(other for other in before if other != region)]
    assert {entry["region"]: entry["hits"] for entry in after} == {**hits, region: hits[region] + 1}
    return True


class Holder:
    def __init__(self, value) -> None:
        self.value = value


def classes(count: int) -> list:
    return [type(f"Class{i}", (), {"value": 2})() for i in range(count)]


def functions(count: int) -> list:
    return [eval(f"lambda x: x + {i}") for i in range(count)]


def by_value(x, value):
    if value is None or isinstance(value, (str, tuple, bytes)):
        return x + (0 if value is None else len(value))
    return x - value % 5 if isinstance(value, int) and abs(value) > 100 else x * value


def by_object(x, function):
    return function(x)


def by_type(x, holder):
    return x * holder.value


def by_size(x, y):
    return x.sum() * y


def by_ways(x, word, n):
    return x * len(word) + n if n > 10 else x * len(word) - n


VALUES = [
    *range(12),
    *(str(i) for i in range(12)),
    *(float(i) for i in range(4)),
    *(-0.0, float("nan"), float("inf"), True, False, None, 2**70, -(2**70), 1j, b"1", (1,), (2,)),
]
PROGRAMS = {
    "value": (by_value, ("x", "value"), [[X], VALUES]),
    "attribute": (by_type, ("x", "holder"), [[X], [Holder(value) for value in (*range(9), 0.5, True, 2**40)]]),
    "object": (by_object, ("x", "function"), [[X, torch.ones(3)], functions(12)]),
    "type": (by_type, ("x", "holder"), [[X, torch.ones(3, 3)], classes(12)]),
    "size": (
        by_size,
        ("x", "y"),
        [
            [torch.ones(size) for size in ((2,), (3,), (4,), (5,), (2, 2), (2, 3), (5, 4), (3, 2, 2), ())],
            [X, X.double()],
        ],
    ),
    "ways": (by_ways, ("x", "word", "n"), [[X], ["w" * i for i in range(9)], [1, 5, 11, 30, 2.5, 20.5]]),
}


@pytest.mark.parametrize("dynamic", [False, None], ids=["static", "open"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_trying_one_by_one(name, dynamic):
    function, names, pools = PROGRAMS[name]
    compiled = pellucid.compile(function, backend="eager", dynamic=dynamic)
    choose = random.Random(name)
    most = hits = 0
    with pellucid.config.patch(recompile_limit=MANY):
        for _ in range(220):
            hits += call(compiled, names, [choose.choice(pool) for pool in pools])
            most = max(most, len(order(compiled)))
    assert hits > 100 and (most > 8 or dynamic is None)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["ways", "size"])
def test_entries_that_serve_the_same_calls(name, seed):
    """Guards that are left out at random: a call fits many entries, with its value and for any value."""
    choose = random.Random(seed)
    function, names, pools = PROGRAMS[name]

    def some(guards):
        left_out = f"L['{choose.choice(names[-2:])}']" if choose.random() < 0.2 else ""
        return [guard.name != left_out for guard in guards]

    compiled = pellucid.compile(function, backend="eager", dynamic=False, options={"guard_filter_fn": some})
    with pellucid.config.patch(recompile_limit=24, recompile_patience=2):
        most = 0
        for _ in range(200):
            call(compiled, names, [choose.choice(pool) for pool in pools])
            most = max(most, len(order(compiled)))
    assert most > 4


@pytest.mark.parametrize("patience", [1, 3])
def test_entries_that_give_way(patience):
    compiled = pellucid.compile(by_value, backend="eager", dynamic=False)
    choose = random.Random(patience)
    with pellucid.config.patch(recompile_limit=8, recompile_patience=patience):
        for _ in range(300):
            call(compiled, ("x", "value"), [X, choose.randrange(14)])
            assert len(order(compiled)) <= 8


def test_entries_whose_objects_are_gone():
    compiled = pellucid.compile(by_type, backend="eager", dynamic=False)
    choose = random.Random(0)
    holders = [Holder(k) for k in range(12)]

    def look(x, holder, known):
        return x * holder.value if holder is known else x - holder.value

    compiled = pellucid.compile(look, backend="eager", dynamic=False)
    with pellucid.config.patch(recompile_limit=MANY, accumulated_recompile_limit=1000):
        for turn in range(300):
            at = choose.randrange(len(holders))
            if turn % 20 == 19:
                holders[at] = Holder(choose.randrange(12))
                gc.collect()
            call(compiled, ("x", "holder", "known"), [X, holders[at], holders[at]])
    assert len(order(compiled)) > 4


def test_reset_and_again():
    compiled = pellucid.compile(by_value, backend="eager", dynamic=False)
    with pellucid.config.patch(recompile_limit=MANY):
        for _ in range(2):
            for value in (*range(9), *reversed(range(9))):
                assert torch.equal(compiled(X, value), by_value(X, value))
            assert order(compiled) == sorted(order(compiled), reverse=True) or len(order(compiled)) == 9
            pellucid.reset()
            assert order(compiled) == []


def test_state_is_compared_too():
    compiled = pellucid.compile(by_value, backend="eager", dynamic=False)
    with pellucid.config.patch(recompile_limit=MANY):
        for value in range(9):
            compiled(X, value)
        with torch.no_grad():
            for value in range(9):
                assert not call(compiled, ("x", "value"), [X, value])
        assert len(order(compiled)) == 18
        for value in range(9):
            assert call(compiled, ("x", "value"), [X, value])


def test_skip_guard_eval_unsafe():
    """Of the guards that are left out then none told entries apart."""
    compiled = pellucid.compile(by_value, backend="eager", dynamic=False)
    with pellucid.config.patch(recompile_limit=MANY):
        for value in range(9):
            compiled(X, value)
        with pellucid.set_stance("default", skip_guard_eval_unsafe=True):
            for value in (3, 8, 0, 3):
                assert torch.equal(compiled(X, value), by_value(X, value))
                assert pellucid.cache_entries(compiled)[0]["hits"] > 0
    assert pellucid.counters()["captures"] == 9


def test_threads_over_many_entries(quick_switches):
    compiled = pellucid.compile(by_value, backend="eager", dynamic=False)
    errors = []

    def work(seed):
        choose = random.Random(seed)
        for _ in range(400):
            value = choose.randrange(40)
            if not torch.equal(compiled(X, value), by_value(X, value)):
                errors.append(value)

    with pellucid.config.patch(recompile_limit=MANY):
        pellucid.config.recompile_limit = MANY  # for other threads
        try:
            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        finally:
            del pellucid.config.recompile_limit
    assert errors == []
    with pellucid.config.patch(recompile_limit=MANY):
        for value in range(40):  # a call that misses while another thread compiles runs eagerly
            assert torch.equal(compiled(X, value), by_value(X, value))
    entries = pellucid.cache_entries(compiled)
    assert len(entries) == 40 and sum(entry["hits"] for entry in entries) > 40
