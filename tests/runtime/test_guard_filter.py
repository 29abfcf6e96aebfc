"""The option guard_filter_fn: the user chooses which guards are checked."""

from __future__ import annotations

import pytest
import torch

import pellucid
from support import Counting, same

X = torch.arange(1.0, 4.0)
SCALE = 2


def scaled(x, word):
    return x * SCALE + len(word)


def compiled_with(function, filter_fn, backend="eager", **options):
    return pellucid.compile(function, backend=backend, options={"guard_filter_fn": filter_fn}, **options)


def kinds(compiled):
    regions = pellucid._core.guards_of(pellucid.api._compiled_function_of(compiled))
    return [guard["kind"] for guards in regions.values() for guard in guards]


def test_what_a_filter_sees():
    seen = []

    def keep_all(entries):
        seen.extend(entries)
        return [True for _ in entries]

    compiled = compiled_with(scaled, keep_all)
    assert same(compiled(X, "a"), scaled(X, "a"))
    by_name = {(entry.guard_type, entry.name): entry for entry in seen}
    tensor = by_name["TENSOR_MATCH", "L['x']"]
    assert tensor.has_value and tensor.value is X and not tensor.is_global
    scale = next(entry for entry in seen if "SCALE" in entry.name)
    assert scale.guard_type == "EQUALS_MATCH" and scale.is_global and scale.value == 2
    assert scale.orig_guard.file == __file__ and scale.orig_guard.line == scaled.__code__.co_firstlineno + 1
    word = by_name["EQUALS_MATCH", "L['word']"]
    assert word.value == "a" and word.derived_guard_types == ("EQUALS_MATCH",)
    state = by_name["GLOBAL_STATE", ""]
    assert not state.has_value and not state.is_global
    assert len(kinds(compiled)) == len(seen)


def test_guards_that_are_not_kept_are_not_checked(monkeypatch):
    counting = Counting()
    compiled = compiled_with(scaled, torch.compiler.skip_guard_on_globals_unsafe, counting)
    # The backend gets no option that is ours.
    assert same(compiled(X, "a"), scaled(X, "a"))
    monkeypatch.setitem(globals(), "SCALE", 5)
    assert same(compiled(X, "a"), X * 2 + 1)  # as the user wanted it
    assert same(compiled(X, "bb"), X * 5 + 2)
    assert counting.count == 2


@pytest.mark.parametrize(
    "filter_fn",
    [
        torch.compiler.keep_tensor_guards_unsafe,
        torch.compiler.skip_all_guards_unsafe,
        torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe,
        torch.compiler.skip_guard_on_all_nn_modules_unsafe,
        torch.compiler.skip_guard_on_globals_unsafe,
    ],
)
def test_the_filters_of_torch(filter_fn):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.scale = 2

        def forward(self, x):
            return self.linear(x) * self.scale

    net = Net()
    compiled = compiled_with(net, filter_fn)
    for _ in range(3):
        assert same(compiled(X), net(X))
    plain = pellucid.compile(net, backend="eager")
    plain(X)
    got, want = kinds(compiled), kinds(plain)
    assert len(got) < len(want) or filter_fn is torch.compiler.skip_guard_on_globals_unsafe
    if filter_fn is torch.compiler.skip_all_guards_unsafe:
        assert got == []
    if filter_fn is torch.compiler.keep_tensor_guards_unsafe:
        assert set(got) <= {"TENSOR_MATCH"}


def test_equal_filters_share_their_entries():
    counting = Counting()
    filter_fn = torch.compiler.keep_tensor_guards_unsafe
    first, second = (compiled_with(scaled, filter_fn, counting) for _ in range(2))
    other = compiled_with(scaled, torch.compiler.skip_all_guards_unsafe, counting)
    first(X, "a"), second(X, "a"), other(X, "a")
    assert counting.count == 2


@pytest.mark.parametrize(
    ("filter_fn", "error"),
    [
        (lambda entries: [True], ValueError),
        (lambda entries: [1 for _ in entries], TypeError),
        (lambda entries: 1 / 0, ZeroDivisionError),
    ],
)
def test_filters_that_fail(filter_fn, error):
    compiled = compiled_with(scaled, filter_fn)
    with pytest.raises(error):
        compiled(X, "a")


def test_a_filter_must_be_callable():
    with pytest.raises(TypeError, match="guard_filter_fn"):
        compiled_with(scaled, 3)


def test_options_of_the_backend_stay():
    seen = []

    def backend(gm, inputs, options=None):
        seen.append(options)
        return gm.forward

    compiled = pellucid.compile(scaled, backend=backend, options={"level": 1, "guard_filter_fn": all_of})
    compiled(X, "a")
    assert seen == [{"level": 1}]


def all_of(entries):
    return [True] * len(entries)
