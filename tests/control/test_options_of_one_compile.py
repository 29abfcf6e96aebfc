"""`pellucid.compile(..., config={...})`: options that hold for one compiled function."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
import torch

import pellucid
from pellucid import config, errors
from support import Counting

X = torch.arange(4.0)


def scaled(x, n):
    return x * n


def graphs_of(numbers, **more):
    backend = Counting()
    f = pellucid.compile(scaled, backend=backend, **more)
    for n in numbers:
        assert torch.equal(f(X, n), X * n)
    return len(backend.graphs)


def test_they_hold_for_its_captures_alone():
    numbers = (2, 3, 4, 5)
    assert graphs_of(numbers) == 2
    assert graphs_of(numbers, config={"dynamic_shapes": False}) == 4
    assert graphs_of(numbers) == 2
    assert config.dynamic_shapes is True


def test_entries_of_one_serve_nobody_with_other_options():
    backend = Counting()
    closed = pellucid.compile(scaled, backend=backend, config={"dynamic_shapes": False})
    usual = pellucid.compile(scaled, backend=backend)
    for n in (2, 3, 4):
        closed(X, n), usual(X, n)
    assert len(pellucid.cache_entries(closed)) == 3
    assert len(pellucid.cache_entries(usual)) == 1  # the open one, which serves the first call too


def test_equal_options_share_entries():
    one, other = (pellucid.compile(scaled, backend="eager", config={"recompile_limit": 3}) for _ in range(2))
    one(X, 2)
    assert len(pellucid.cache_entries(other)) == 1
    assert pellucid.compile(scaled, backend="eager")._backend is not one._backend


def test_they_hold_behind_a_graph_break_and_in_what_runs_there():
    seen = []

    def look():
        seen.append((config.dynamic_shapes, config.recompile_limit))

    def f(x, n):
        y = x + n
        pellucid.disable(look)()
        return y * n

    backend = Counting()
    g = pellucid.compile(f, backend=backend, config={"dynamic_shapes": False})
    for n in (2, 3, 4):
        assert torch.equal(g(X, n), (X + n) * n)
    assert len(backend.graphs) == 6
    assert seen == [(False, 8)] * 3
    look()
    assert seen[-1] == (True, 8)


def test_they_hold_for_functions_that_it_calls():
    """A function that cannot be captured runs eagerly, and what it calls is compiled on its own: under its options."""

    def inner(x, n):
        return x * n

    def f(x, n):
        yield inner(x, n)

    backend = Counting()

    def run(**more):
        pellucid.reset()
        backend.graphs.clear()
        g = pellucid.compile(lambda x, n: [inner(x, n), pellucid.graph_break()][0], backend=backend, **more)
        for n in (2, 3, 4):
            assert torch.equal(g(X, n), X * n)
        return len(backend.graphs)

    assert run(config={"continue_after_break": False}) < run(
        config={"continue_after_break": False, "dynamic_shapes": False}
    )


def test_they_end_with_the_call_also_when_it_raises():
    def f(x):
        raise ValueError(str(config.recompile_limit))

    g = pellucid.compile(f, backend="eager", config={"recompile_limit": 3})
    with pytest.raises(ValueError, match="3"):
        g(X)
    assert config.recompile_limit == 8


def test_own_ones_win_over_a_patch_around_the_call():
    seen = []

    def f(x):
        pellucid.disable(lambda: seen.append((config.recompile_limit, config.error_on_recompile)))()
        return x + 1

    g = pellucid.compile(f, backend="eager", config={"recompile_limit": 3})
    with config.patch(recompile_limit=5, error_on_recompile=True):
        g(X)
        assert config.recompile_limit == 5
    g(X)
    assert seen == [(3, True), (3, False)]


def test_the_function_that_is_called_has_its_own():
    seen = []
    look = pellucid.disable(lambda: seen.append(config.recompile_limit))

    def inner(x):
        look()
        return x + 1

    compiled_inner = pellucid.disable(pellucid.compile(inner, backend="eager", config={"recompile_limit": 2}))

    def outer(x):
        y = compiled_inner(x)
        look()
        return y

    pellucid.compile(outer, backend="eager", config={"recompile_limit": 3})(X)
    assert seen == [2, 3]


def test_inlined_it_goes_by_the_options_of_the_capture():
    inner = pellucid.compile(scaled, backend="eager", config={"dynamic_shapes": False})
    backend = Counting()
    outer = pellucid.compile(lambda x, n: inner(x, n) + 1, backend=backend)
    for n in (2, 3, 4):
        assert torch.equal(outer(X, n), X * n + 1)
    assert len(backend.graphs) == 2


def test_limits_of_one():
    options = {"recompile_limit": 1, "fail_on_recompile_limit_hit": True, "dynamic_shapes": False}
    f = pellucid.compile(scaled, backend="eager", config=options)
    g = pellucid.compile(scaled, backend="eager", config={"error_on_recompile": True, "dynamic_shapes": False})
    f(X, 2), g(X, 2)
    with pytest.raises(errors.RecompileLimitExceeded):
        f(X, 3)
    with pytest.raises(errors.RecompileError):
        g(X, 3)
    assert torch.equal(pellucid.compile(scaled, backend="eager")(X, 3), X * 3)


def test_functions_that_may_wait(capsys):
    def f(x):
        print("value", x)
        return x + 1

    f = pellucid.compile(f, backend="eager", fullgraph=True, config={"reorderable_logging_functions": {print}})
    f(X)
    assert capsys.readouterr().out == f"value {X}\n"


def test_older_names_of_options():
    assert graphs_of((2, 3, 4), config={"cache_size_limit": 1, "dynamic_shapes": False}) == 1


def test_modules_methods_and_decorators():
    options = {"dynamic_shapes": False}
    module = torch.nn.Linear(4, 4)
    backend = Counting()
    compiled = pellucid.compile(module, backend=backend, config=options)
    for rows in (2, 3, 4):
        x = torch.ones(rows, 4)
        assert torch.equal(compiled(x), module(x))
    assert len(backend.graphs) == 3
    copied = copy.deepcopy(pellucid.compile(module, backend="eager", config=options))
    assert pickle.loads(pickle.dumps(copied)).__dict__["_pellucid_settings"].config == options

    backend = Counting()

    @pellucid.compile(backend=backend, config=options)
    def decorated(x, n):
        return x * n

    for n in (2, 3, 4):
        decorated(X, n)
    assert len(backend.graphs) == 3


def test_other_threads_do_not_see_them():
    inside, go_on, seen = threading.Event(), threading.Event(), []

    def wait():
        inside.set()
        go_on.wait(10)

    def f(x):
        pellucid.disable(wait)()
        return x + 1

    thread = threading.Thread(target=pellucid.compile(f, backend="eager", config={"recompile_limit": 3}), args=(X,))
    thread.start()
    assert inside.wait(10)
    seen.append(config.recompile_limit)
    go_on.set()
    thread.join()
    assert seen == [8]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"recompile_limt": 1}, AttributeError, "did you mean 'recompile_limit'"),
        ({"cache_size_limits": 1}, AttributeError, "did you mean 'cache_size_limit'"),
        ({"zzz": 1}, AttributeError, "it has accumulated_recompile_limit"),
        ({"recompile_limit": "1"}, TypeError, "must be int, not str"),
        ({"recompile_limit": True}, TypeError, "must be int, not bool"),
        ({"recompile_limit": -1}, ValueError, "must not be negative"),
        ([("recompile_limit", 1)], TypeError, "config must be dict or None"),
    ],
)
def test_wrong_ones(given, error, says):
    with pytest.raises(error, match=says):
        pellucid.compile(scaled, config=given)


def test_the_limit_of_one_torch_compile():
    with pellucid.installed():
        backend = Counting()
        f = torch.compile(scaled, backend=backend, dynamic=False, recompile_limit=2)
        g = torch.compile(scaled, backend=backend, dynamic=False)
        for n in (2, 3, 4, 5):
            assert torch.equal(f(X, n), X * n)
        assert len(backend.graphs) == 2
        for n in (2, 3, 4, 5):
            g(X, n)
        assert len(backend.graphs) == 6
