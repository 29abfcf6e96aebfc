"""Methods of builtin objects that exist before the region: what they read is guarded, what they change is changed at every call."""

import collections
import functools

import pytest
import torch

import pellucid
from support import same

X = torch.arange(3.0)


class Holder:
    pass


CHANGES = {
    "list.append": (lambda: [], "append", (1,)),
    "list.extend": (lambda: [0], "extend", ([1, 2],)),
    "list.pop": (lambda: list(range(9)), "pop", ()),
    "list.__setitem__": (lambda: [0, 0], "__setitem__", (0, 5)),
    "dict.__setitem__": (lambda: {}, "__setitem__", ("a", 1)),
    "dict.update": (lambda: {"a": 1}, "update", ({"b": 2},)),
    "dict.setdefault": (lambda: {}, "setdefault", ("k", 3)),
    "dict.pop": (lambda: {1: 1}, "pop", (1, None)),
    "set.add": (set, "add", (1,)),
    "deque.append": (collections.deque, "append", (1,)),
    "deque.popleft": (lambda: collections.deque(range(9)), "popleft", ()),
}


@pytest.mark.parametrize("way", ["attribute", "argument", "global", "keyed"])
@pytest.mark.parametrize("name", CHANGES)
def test_changes(name, way, monkeypatch):
    make, method, args = CHANGES[name]

    def run(compiled):
        target = make()
        bound = getattr(target, method)
        holder = Holder()
        holder.bound, table = bound, {"bound": bound}
        monkeypatch.setitem(globals(), "BOUND", bound)

        def f(x, given):
            if way == "attribute":
                result = holder.bound(*args)
            elif way == "argument":
                result = given(*args)
            elif way == "global":
                result = BOUND(*args)  # noqa: F821
            else:
                result = table["bound"](*args)
            return x + 1, result

        call = pellucid.compile(f, backend="eager") if compiled else f
        seen = []
        for _ in range(4):
            value, result = call(X, bound)
            assert same(value, X + 1)
            seen.append((result, type(target)(target)))
        return seen

    assert run(True) == run(False)


@pytest.mark.parametrize("fails", [False, True])
def test_a_region_that_does_not_come_about_changes_nothing(fails):
    log = []
    holder = Holder()
    holder.note = log.append

    def f(x):
        holder.note(1)
        if fails:
            raise ValueError("no")
        print(end="")
        return x + 1

    compiled = pellucid.compile(f, backend="eager")
    for count in (1, 2, 3):
        try:
            compiled(X)
        except ValueError:
            assert fails
        assert log == [1] * count


def test_reads_are_guarded():
    table, items = {"scale": 2.0}, [1]
    holder = Holder()
    holder.get, holder.count = table.get, items.__len__

    def f(x):
        return x * holder.get("scale", 0.0) + holder.count()

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    assert same(compiled(X), f(X))
    table["scale"] = 3.0
    assert same(compiled(X), f(X))
    items.append(2)
    assert same(compiled(X), f(X))
    del table["scale"]
    assert same(compiled(X), f(X))


def test_method_of_a_tensor():
    total = torch.zeros(3)
    holder = Holder()
    holder.add = total.add_

    def f(x):
        holder.add(x)
        return x * 2

    compiled = pellucid.compile(f, backend="eager")
    for count in (1, 2, 3):
        assert same(compiled(X), X * 2)
        assert same(total, X * count)


def test_a_cache_made_by_the_call_is_new_at_every_call():
    def f(values, x):
        return functools.lru_cache(lambda n: values), x + 1

    compiled = pellucid.compile(f, backend="eager")
    first, second = compiled([1], X)[0], compiled([2], X)[0]
    assert first is not second
    assert (first(0), second(0)) == ([1], [2])
