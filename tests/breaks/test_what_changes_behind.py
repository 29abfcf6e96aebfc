"""What is open in a region is open in the first region behind its graph break: no part has to see it change again."""

from __future__ import annotations

import pytest
import torch

import pellucid
from support import Counting, same


@torch.compiler.disable
def outside(*values):
    """Runs as plain Python."""


def graphs(f, calls, **options):
    """How many graphs these calls make; each gives what eager gives."""
    pellucid.reset()
    counting = Counting()
    compiled = pellucid.compile(f, backend=counting, **options)
    for arguments in calls:
        want = f(*arguments())
        assert same(compiled(*arguments()), want)
    return counting.count


def ramp(size=3):
    return torch.arange(float(size))


class Plain:
    def __init__(self, **values):
        vars(self).update(values)


def marked(size):
    x = ramp(size)
    pellucid.mark_dynamic(x, 0)
    return x


def three_parts(x):
    y = x + 1
    outside()
    z = y.reshape(-1) * 2
    outside()
    return z.sum(), z


def test_sizes_that_are_marked_stay_open_behind_breaks():
    assert graphs(three_parts, [lambda n=n: (marked(n),) for n in range(3, 9)]) == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_that_are_marked_are_one_entry_for_each_part(backend):
    pellucid.reset()
    compiled = pellucid.compile(three_parts, backend=backend)
    before = pellucid.counters()["entries"]
    for n in range(3, 9):
        assert same(compiled(marked(n)), three_parts(marked(n)))
    assert pellucid.counters()["entries"] - before == 3


def rarely(x, step):
    y = x * step
    if step % 4 == 0:
        outside()
        y = y + step
    return y


def test_a_part_that_is_reached_late():
    # The first, all others, those with the break, and what is behind it.
    assert graphs(rarely, [lambda n=n: (ramp(), n) for n in range(1, 25)]) == 4


def computed(x, step):
    after = step + 1
    y = x * after
    if step % 4 == 0:
        outside()
        return y * after, (after, step * 2)
    return y, step


def test_a_number_that_was_computed():
    assert graphs(computed, [lambda n=n: (ramp(), n) for n in range(1, 25)]) == 4


def in_containers(x, n):
    parts = [x[:n], {"double": x[: n * 2]}]
    pair = (n, 2.5)
    if n % 4 == 0:
        outside()
        return parts[0] + 1, parts[1]["double"] * pair[0]
    return parts[0], x * pair[0]


def test_sizes_and_numbers_in_containers():
    assert graphs(in_containers, [lambda n=n: (ramp(64), n) for n in range(3, 25)]) == 4


def scaled(state, x):
    state.step += 1
    y = x * state.step
    if state.step % 4 == 0:
        outside()
        return y + state.step
    return y


def below(outer, x):
    return scaled(outer.state, x) + 1


def test_an_attribute_that_has_another_path_behind_the_break():
    calls = [lambda n=n: (Plain(state=Plain(step=n)), ramp()) for n in range(24)]
    assert graphs(below, calls) == 4


def not_looked_at(x, n):
    y = x * n
    if n % 4 == 0:
        outside()
        y = y + 1
        outside()
        return y * n
    return y


def test_a_number_that_only_crosses_a_part():
    assert graphs(not_looked_at, [lambda n=n: (ramp(), n) for n in range(1, 25)]) == 5


def counted(x, n):
    y = x + n
    if n % 4 == 0:
        outside()
        for _ in range(n):
            y = y + 1
    return y


def test_what_the_next_part_needs_to_know_is_a_value_there():
    assert graphs(counted, [lambda n=n: (ramp(), n) for n in range(1, 17)]) == 7


def test_a_size_that_becomes_one_is_apart():
    def f(x, n):
        y = x[:n]
        if n % 2:
            outside()
            return y.expand(n, n) if n == 1 else y.sum(), y.shape
        return y, y.shape

    lengths = [2, 4, 6, 3, 5, 1, 7, 1, 9]
    assert graphs(f, [lambda n=n: (ramp(16), n) for n in lengths]) <= 7


def test_nothing_is_open_where_that_is_not_wanted():
    with pellucid.config.patch(automatic_dynamic_shapes=False, recompile_limit=64):
        assert graphs(rarely, [lambda n=n: (ramp(), n) for n in range(1, 9)]) == 10
