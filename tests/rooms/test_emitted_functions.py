"""The emitted function stands in for the original, with its signature and the user's names (docs/feature_rows.md, C17 and C18)."""

import inspect

import pytest
import torch

import pellucid
from support import outcome, same

X = torch.arange(1.0, 4.0)


# ---- C17, C18: what emitted code looks like


def plain(a, b, c=3):
    return a + b * c


def everything(a, /, b, *rest, k=2, **extra):
    return a + b + sum(rest) + k + extra.get("z", 0)


@pytest.mark.parametrize("f", [plain, everything])
def test_C17_a_compiled_function_stands_in_for_the_original(counting, f):
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    assert inspect.signature(compiled) == inspect.signature(f) and compiled.__code__ is f.__code__
    calls = [((X, 1), {}), ((X, 1, 2), {}), ((X,), {"b": 4})]
    if f is everything:
        calls += [((X, 1, 2, 3), {"k": 5}), ((X, 1), {"z": 7, "k": 1})]
    for args, kwargs in calls * 2:
        assert same(compiled(*args, **kwargs), f(*args, **kwargs))
    assert counting.count == len(calls)
    assert outcome(compiled)[:2] == outcome(f)[:2] == ("raises", TypeError) and outcome(compiled) == outcome(f)


def test_C17_code_of_a_region():
    factor = 3

    def f(x, y=2):
        inner = lambda: x * factor + y  # noqa: E731
        return inner()

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    assert same(compiled(X), X * 3 + 2)
    (entry,) = pellucid.cache_entries(compiled)
    code, original = entry["code"], f.__code__
    assert code.co_argcount == original.co_argcount and code.co_flags == original.co_flags
    assert code.co_varnames[:2] == original.co_varnames[:2] and code.co_freevars == original.co_freevars == ("factor",)
    assert entry["function"].__closure__ == f.__closure__
    assert same(entry["function"](X, 2), f(X))  # a function that can be called in its place


tmp_0 = 1


def users_names(x, graph_out_0, __compiled_fn_0):
    random_values_0, out, add, new_list = 1, 2, 3, [x]
    new_list.append(new_list)
    value = x + tmp_0 + graph_out_0 + __compiled_fn_0 + random_values_0 + out + add
    return new_list, value, [value], graph_out_0


def test_C18_names_of_the_user(counting):
    compiled = pellucid.compile(users_names, backend=counting, fullgraph=True)
    for _ in range(2):
        new_list, value, (again,), given = compiled(X, 10, 100)
        assert new_list[0] is X and new_list[1] is new_list and again is value and given == 10
        assert same(value, X + 117)
    assert counting.count == 1
