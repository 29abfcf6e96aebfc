"""`pellucid.guard_costs`: what the checks of guards cost, by guard and by line of the program."""

from __future__ import annotations

import pytest
import torch

import pellucid

X = torch.ones(3)
SETTINGS = {"factor": 2}


def program(x, n, *, items=(1, 2)):
    y = x * n
    return y * SETTINGS["factor"] + len(items)


LINE = program.__code__.co_firstlineno


def test_by_guard_and_by_line():
    f = pellucid.compile(program, backend="eager")
    f(X, 2)
    costs = pellucid.guard_costs(f)(X, 2)
    (entry,) = pellucid.cache_entries(f)
    assert costs.region == entry["region"] and costs.guards == len(entry["guards"])
    (tensor,) = [cost for cost in costs.costs if cost.kind == "TENSOR_MATCH"]
    assert (tensor.source, tensor.line, tensor.operation) == ("L['x']", LINE, "is an argument")
    assert tensor.file == __file__ and tensor.text.startswith("f32[3] cpu")
    (state,) = [cost for cost in costs.costs if cost.kind == "GLOBAL_STATE"]
    assert state.place == "(state of the process)"
    assert any(
        cost.kind == "reads" and cost.source == "G['SETTINGS']" and cost.line == LINE + 2 for cost in costs.costs
    )
    assert [cost.nanoseconds for cost in costs.costs] == sorted(
        (cost.nanoseconds for cost in costs.costs), reverse=True
    )
    by_line = costs.by_line()
    assert set(by_line) >= {(__file__, LINE), (__file__, LINE + 2), ("", 0)}
    assert sum(by_line.values()) == pytest.approx(sum(cost.nanoseconds for cost in costs.costs))


def test_the_figures_are_of_the_checks():
    """Guards on a long tuple of keys cost more than one on a number, and the parts add up to about the whole."""

    def f(x, short, long):
        return x + len(short) + len(long) + short[0] + long[-1]

    g = pellucid.compile(f, backend="eager")
    short, long = (1,), tuple(range(400))
    g(X, short, long)
    costs = pellucid.guard_costs(g, repeats=5000)(X, short, long)

    def cost_of(source):
        return sum(cost.nanoseconds for cost in costs.costs if cost.source.startswith(source))

    assert cost_of("L['long']") >= 0 and costs.nanoseconds > 0
    assert 0.2 < sum(cost.nanoseconds for cost in costs.costs) / costs.nanoseconds < 20
    more = pellucid.compile(lambda xs: torch.stack(xs), backend="eager")
    tensors = [torch.ones(3) for _ in range(40)]
    more(tensors)
    assert pellucid.guard_costs(more)(tensors).nanoseconds > 2 * costs.nanoseconds


def test_the_table():
    f = pellucid.compile(program, backend="eager")
    f(X, 2)
    text = str(pellucid.guard_costs(f)(X, 2))
    first, *lines = text.splitlines()
    assert first.startswith("program, __compiled_fn_") and "ns a call for" in first
    assert any(f"test_guard_costs.py:{LINE}" in line and "TENSOR_MATCH L['x'] f32[3]" in line for line in lines)
    assert lines[lines.index("      ns    %  all of a line") + 1 :]
    assert max(map(len, lines)) < 150


def test_nothing_runs_and_nothing_is_changed():
    ran = []

    def f(x):
        pellucid.disable(ran.append)(1)
        return x + 1

    g = pellucid.compile(f, backend="eager")
    g(X)
    hits = pellucid.cache_entries(g)[0]["hits"]
    pellucid.guard_costs(g)(X)
    assert ran == [1] and pellucid.cache_entries(g)[0]["hits"] == hits
    g(X)
    assert ran == [1, 1]


def test_open_numbers_and_conditions():
    def f(x, n):
        return x * n if n > 2 else x

    g = pellucid.compile(f, backend="eager")
    for n in (3, 4, 5):
        g(X, n)
    costs = pellucid.guard_costs(g)(X, 9)
    (condition,) = [cost for cost in costs.costs if cost.kind == "CONDITION"]
    assert condition.nanoseconds > 0
    assert torch.equal(g(X, 9), X * 9)


def test_modules_and_methods():
    module = torch.nn.Linear(3, 3)
    compiled = pellucid.compile(module, backend="eager")
    compiled(X)
    assert any("weight" in cost.source for cost in pellucid.guard_costs(compiled)(X).costs)

    class Scale:
        def __init__(self):
            self.by = 2

        def apply(self, x):
            return x * self.by

    method = pellucid.compile(Scale().apply, backend="eager")
    method(X)
    assert any(cost.source == "L['self'].by" or "self" in cost.source for cost in pellucid.guard_costs(method)(X).costs)


def test_calls_that_nothing_serves():
    f = pellucid.compile(program, backend="eager")
    with pytest.raises(ValueError, match="call it first"):
        pellucid.guard_costs(f)(X, 2)
    f(X, 2)
    with pytest.raises(ValueError, match="call it first"):
        pellucid.guard_costs(f)(torch.ones(2, 2), 2)
    with pytest.raises(TypeError, match="parameters"):
        pellucid.guard_costs(f)(X, 2, 3, 4)
    with pytest.raises(TypeError, match="compiled by pellucid"):
        pellucid.guard_costs(program)
    assert len(pellucid.cache_entries(f)) == 1
