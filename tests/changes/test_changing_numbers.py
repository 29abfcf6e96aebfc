"""Ints and floats that change between calls: captured as values first, and open from the first change on."""

import math

import pytest
import torch

import pellucid
from support import outcome


def check(counting, function, calls, graphs):
    """Every call does what eager does; `graphs`: how many the backend gets to see."""
    compiled = pellucid.compile(function, backend=counting)
    for call in calls:
        expected, found = (outcome(f, torch.ones(3), *call) for f in (function, compiled))
        assert repr(found) == repr(expected)
    assert counting.count == graphs


@pytest.mark.parametrize(
    "operation",
    [
        lambda n: n + 1,
        lambda n: 2 * n - 7,
        lambda n: -n,
        lambda n: n * n,
        lambda n: n / 4,
        lambda n: n // 3,
        lambda n: n % 5,
        lambda n: 2**n,
        lambda n: n**2,
        lambda n: abs(n - 20),
        lambda n: float(n),
        lambda n: int(n * 1.5),
        lambda n: math.sqrt(n),
        lambda n: 0.95**n,
        lambda n: 0.5 * (1 + math.cos(math.pi * n / 100)),
        lambda n: math.floor(n / 3) + math.ceil(n / 7),
        lambda n: (n, [n + 1], {"n": n}),
    ],
)
def test_arithmetic(counting, operation):
    def function(x, n):
        return x + 1, operation(n)

    check(counting, function, [(n,) for n in (3, 5, 8, 13, 21, 34, 2, 1)], 2)


def test_what_is_only_moved(counting):
    def function(x, n):
        row = [n]
        return x + 1, n, row, {"n": (n, None)}

    check(counting, function, [(1,), (2,), (2**70,), (-3,)], 1)


@pytest.mark.parametrize("values", [(1, 2, 3, 50, -4, 0), (0.5, 0.25, 1e-3, -2.0, -0.0, 1e300)], ids=["int", "float"])
@pytest.mark.parametrize(
    "operation",
    [
        lambda x, n: x * n,
        lambda x, n: n * x,
        lambda x, n: x + n,
        lambda x, n: n - x,
        lambda x, n: x / (n + 3),
        lambda x, n: x - 2 * n,
        lambda x, n: torch.add(x, x, alpha=n),
        lambda x, n: x.mul(n).add_(n),
        lambda x, n: x > n,
        lambda x, n: x.clamp(max=n),
    ],
)
def test_beside_tensors(counting, operation, values):
    check(counting, operation, [(value,) for value in values], 2)


def test_decisions_have_entries_of_their_own(counting):
    def function(x, n):
        if n % 4 == 0:
            return x * 2
        return x + 1 if n > 10 else x - 1

    check(counting, function, [(n,) for n in (1, 2, 3, 4, 8, 12, 16, 11, 13, 15, 2, 5)], 4)


def test_values_that_must_be_known(counting):
    def function(x, n):
        for _ in range(n):
            x = x + 1
        return x

    check(counting, function, [(n,) for n in (1, 2, 3, 2, 1)], 3)


def test_types_are_told_apart(counting):
    def function(x, n):
        return x * n

    check(counting, function, [(1,), (2,), (1.5,), (2.5,), (3,), (True,), (4.5,)], 5)


def test_ints_beyond_64_bits(counting):
    def function(x, n):
        return x + 1, n * 2

    check(counting, function, [(1,), (2,), (2**62,), (2**63 - 1,), (2**63,), (3,)], 3)


def test_attribute_counters(counting):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step, self.scale, self.log = 0, 1.0, []

        def forward(self, x):
            self.step += 1
            self.scale *= 0.5
            self.log.append(self.step)
            return x * self.scale + self.step

    eager, original = Counter(), Counter()
    compiled = pellucid.compile(original, backend=counting)
    for _ in range(6):
        assert torch.equal(compiled(torch.ones(2)), eager(torch.ones(2)))
        assert (original.step, original.scale, original.log) == (eager.step, eager.scale, eager.log)


def test_globals_cells_and_items(counting):
    count = 0
    table = {"count": 0}
    row = [0]

    def function(x):
        nonlocal count
        count += 1
        table["count"] += 2
        row[0] += 3
        return x + count, table["count"], row[0]

    compiled = pellucid.compile(function, backend=counting)
    for number in range(1, 7):
        found = compiled(torch.ones(2))
        assert torch.equal(found[0], torch.ones(2) + number)
        assert found[1:] == (2 * number, 3 * number) and (count, table, row) == (
            number,
            {"count": 2 * number},
            [3 * number],
        )
    assert counting.count <= 2 + 6  # the list is read whole


def test_division_by_zero(counting):
    def function(x, n):
        return x + 1, 12 // n

    compiled = pellucid.compile(function, backend=counting)
    for n in (1, 2, 3):
        assert compiled(torch.ones(2), n)[1] == 12 // n
    with pytest.raises(ZeroDivisionError):
        compiled(torch.ones(2), 0)
    assert compiled(torch.ones(2), 5)[1] == 2


def test_a_miss_names_the_decision(counting):
    def function(x, n):
        return x + 1 if n > 10 else x - 1

    compiled = pellucid.compile(function, backend=counting)
    for n in (1, 2, 3, 30):
        compiled(torch.ones(2), n)
    (miss,) = [text for text in pellucid.guard_failures(compiled) if "CONDITION" in text]
    assert "expected n <= 10, found n = 30 " in miss


def test_dynamic_false(counting):
    def function(x, n):
        return x * n

    compiled = pellucid.compile(function, backend=counting, dynamic=False)
    for n in (1, 2, 3, 2, 1):
        assert torch.equal(compiled(torch.ones(2), n), torch.ones(2) * n)
    assert counting.count == 3


class Hashed(type):
    def __hash__(cls):
        return hash(cls.tag)

    def __eq__(cls, other):
        return isinstance(other, Hashed) and cls.tag == other.tag


def test_a_class_that_the_program_makes_holds_the_number(counting):
    def function(x, n, seen):
        y = x * n
        key = Hashed("Tagged", (), {"tag": n % 2})
        seen[key] = seen.get(key, 0) + 1
        return y + 1

    compiled = pellucid.compile(function, backend=counting)
    mine, its = {}, {}
    for n in (2, 3, 2, 3, 4, 5, 7, 9):
        assert torch.equal(compiled(torch.ones(2), n, mine), function(torch.ones(2), n, its))
        assert [(key.tag, count) for key, count in mine.items()] == [(key.tag, count) for key, count in its.items()]
    assert pellucid.break_reasons(compiled)  # the class cannot leave: capture gives up behind it


def test_infinities_leave_the_other_number_open(counting):
    def f(x, n):
        return x + 1, n + math.inf, math.inf - n, min(math.inf, n), max(n, -math.inf), n * math.nan

    check(counting, f, [(1.5,), (2.5,), (-3.0,), (0.0,), (7.0,)], graphs=2)
