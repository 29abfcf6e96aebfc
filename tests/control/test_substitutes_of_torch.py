"""What the program and its libraries have given to `torch.compiler.substitute_in_graph`, honoured by captures."""

from __future__ import annotations

import functools
import itertools
import operator

import pytest
import torch
import torch._dynamo.polyfills.loader

import pellucid
from pellucid import _core
from pellucid.control import _Steering

X = torch.arange(4.0)


def original_and_substitute():
    """A function that no capture follows, with what torch has been told of it."""
    called = []

    def original(x):
        called.append(x)
        print("never captured")
        return x + 1

    def substitute(x):
        return x + 1

    return original, substitute, called


@pytest.mark.parametrize("installed", [False, True])
def test_registered_before(installed):
    original, substitute, called = original_and_substitute()
    torch.compiler.substitute_in_graph(original)(substitute)

    def f(x):
        return original(x) * 2

    if installed:
        with pellucid.installed():
            got = torch.compile(f, backend="eager", fullgraph=True)(X)
    else:
        got = pellucid.compile(f, backend="eager", fullgraph=True)(X)
    assert torch.equal(got, (X + 1) * 2) and not called
    f(X)
    assert called  # plain Python calls the original


def test_registered_while_it_is_installed():
    original, substitute, called = original_and_substitute()
    with pellucid.installed():
        torch.compiler.substitute_in_graph(original)(substitute)
        assert torch.equal(torch.compile(lambda x: original(x), backend="eager", fullgraph=True)(X), X + 1)
    assert not called
    assert torch.equal(pellucid.compile(lambda x: original(x) * 1, backend="eager", fullgraph=True)(X), X + 1)
    assert not called  # what was pellucid's stays


def test_what_the_decorator_gives_is_followed_too():
    original, substitute, called = original_and_substitute()
    given = torch.compiler.substitute_in_graph(original)(substitute)
    assert given is not substitute  # torch's own wrapper of the original
    assert torch.equal(pellucid.compile(lambda x: given(x) * 2, backend="eager", fullgraph=True)(X), (X + 1) * 2)
    assert not called


def test_of_a_c_function():
    def index(a, b, /):
        for i, item in enumerate(a):
            if item is b or item == b:
                return i
        raise ValueError("sequence.index(x): x not in sequence")

    torch.compiler.substitute_in_graph(operator.indexOf)(index)
    f = pellucid.compile(lambda x, items: x + operator.indexOf(items, 3), backend="eager", fullgraph=True)
    assert torch.equal(f(X, [1, 3]), X + 1)
    with pytest.raises(ValueError, match="not in sequence"):
        pellucid.compile(lambda x, items: x + operator.indexOf(items, 7), backend="eager")(X, [1, 3])


def test_the_one_of_pellucid_goes_first():
    original, substitute, _ = original_and_substitute()
    pellucid.substitute_in_graph(original)(lambda x: x + 1)
    torch.compiler.substitute_in_graph(original)(substitute)
    assert torch.equal(pellucid.compile(lambda x: original(x), backend="eager", fullgraph=True)(X), X + 1)


def test_there_is_one_for_each():
    original, substitute, _ = original_and_substitute()
    torch.compiler.substitute_in_graph(original)(substitute)
    with pytest.raises(ValueError, match="already"):
        pellucid.substitute_in_graph(original)(substitute)


def test_torchs_own_are_left_alone():
    """Captures know these functions themselves, with rows or by following them."""
    for function in (itertools.chain, functools.reduce, any, all, sum, operator.countOf, itertools.islice):
        assert _core.steering_of(function) == _Steering.NONE, function


def test_torchs_keywords_and_signatures():
    original, _, _ = original_and_substitute()
    with pellucid.installed():
        torch.compiler.substitute_in_graph(original)(lambda *args, **kwargs: args[0] + 1)
        assert torch.equal(torch.compile(lambda x: original(x), backend="eager", fullgraph=True)(X), X + 1)

        class Pair:
            def __new__(cls, x):
                raise AssertionError("never captured")

        torch._dynamo.decorators.substitute_in_graph(Pair, is_embedded_type=True, skip_signature_check=True)(
            lambda x: (x, x + 1)
        )
        first, second = torch.compile(lambda x: Pair(x), backend="eager", fullgraph=True)(X)
        assert torch.equal(first, X) and torch.equal(second, X + 1)


def test_the_core_tells_the_numbers_of_all_switches():
    assert vars(_Steering) == _core.steerings()
    assert _Steering.NONE == 0 and sorted(vars(_Steering).values()) == list(range(6))
