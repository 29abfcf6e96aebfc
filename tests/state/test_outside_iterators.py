"""Iterators that existed before a region: half-consumed arguments, and the iterator of a loop behind a graph break in its body."""

from __future__ import annotations

import itertools
from collections import deque

import pytest
import torch

import pellucid
from support import Counting, same
from support.outcomes import whole_outcome

pytestmark = pytest.mark.usefixtures("continued")


@pytest.fixture(params=[True, False], ids=["continue", "eager"])
def either(request):
    with pellucid.config.patch(continue_after_break=request.param):
        yield request.param


X = torch.arange(6.0).reshape(2, 3) - 1


def left(iterator, most=12):
    """What the iterator still gives, and that it stays at its end."""
    items = []
    try:
        for item in itertools.islice(iterator, most):
            items.append(item)
        items.append(next(iterator, "the end"))
    except RuntimeError as error:
        items.append(str(error))
    return items


def both(f, make, calls=3):
    """Calls f(*make()) eagerly and compiled, several times; then what is left of the arguments. Returns the number of graphs."""
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(calls):
        want_args, got_args = make(), make()
        want, got = whole_outcome(f, *want_args), whole_outcome(compiled, *got_args)
        assert same(got, want), (got, want)
        for mine, theirs in zip(got_args, want_args):
            if hasattr(mine, "__next__"):
                mine, theirs = left(mine), left(theirs)
            if isinstance(mine, deque):
                mine, theirs = list(mine), list(theirs)
            assert same(mine, theirs), (mine, theirs)
    return backend.count


def advanced(iterator, count):
    for _ in range(count):
        next(iterator)
    return iterator


TENSORS = [X + i for i in range(5)]
KINDS = {
    "list": lambda: iter(list(TENSORS)),
    "reversed list": lambda: reversed(list(TENSORS)),
    "tuple": lambda: iter(tuple(TENSORS)),
    "range": lambda: iter(range(2, 12, 2)),
    "long range": lambda: iter(range(2**70, 2**70 + 5)),
    "str": lambda: iter("abcde"),
    "wide str": lambda: iter("aßc\U0001f600e"),
    "bytes": lambda: iter(b"abcde"),
    "dict": lambda: iter(dict(zip("abcde", TENSORS))),
    "dict values": lambda: iter(dict(zip("abcde", TENSORS)).values()),
    "dict items": lambda: iter(dict(zip("abcde", TENSORS)).items()),
    "set": lambda: iter({1, 2, 3, 4, 5}),
    "frozenset": lambda: iter(frozenset("abcde")),
    "deque": lambda: iter(deque(TENSORS)),
    "enumerate": lambda: enumerate(list(TENSORS)),
    "enumerate from": lambda: enumerate(list(TENSORS), 7),
    "zip": lambda: zip(list(TENSORS), "abcdef"),
    "strict zip": lambda: zip(list(TENSORS), "abcde", strict=True),
    "map": lambda: map(torch.sin, list(TENSORS)),
    "map of two": lambda: map(lambda a, b: a + b, list(TENSORS), range(9)),
    "filter": lambda: filter(lambda t: t.dim() == 2, list(TENSORS)),
    "enumerate of zip": lambda: enumerate(zip(list(TENSORS), iter(range(8)))),
    "count": lambda: itertools.count(3),
    "count by": lambda: itertools.count(3, -2),
    # Nobody knows these: steps for real
    "chain": lambda: itertools.chain(TENSORS[:2], TENSORS[2:]),
    "islice": lambda: itertools.islice(TENSORS, 1, 5),
    "cycle": lambda: itertools.cycle(TENSORS[:3]),
    "repeat": lambda: itertools.repeat(X, 5),
    "generator": lambda: (t + 1 for t in TENSORS),
    "reversed dict": lambda: reversed(dict(zip("abcde", TENSORS))),
    "callable": lambda: iter(iter(TENSORS).__next__, None),
}
KNOWN = list(KINDS)[: list(KINDS).index("chain")]
ENDLESS = ("count", "count by", "cycle")


def total(x, item):
    if isinstance(item, tuple):
        for part in item:
            x = total(x, part)
        return x
    if isinstance(item, torch.Tensor):
        return x + item
    return x + (len(item) if isinstance(item, str) else item % 97)


@pytest.mark.parametrize("used", [0, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_next_of_a_half_used_iterator(kind, used, either):
    def f(x, it):
        x = x * 2
        for _ in range(2):
            item = next(it, None)
            if item is None:
                return x, "end"
            x = total(x, item)
        return x

    graphs = both(f, lambda: (X, advanced(KINDS[kind](), min(used, 4) if kind == "islice" else used)))
    if kind in KNOWN and kind != "filter":
        assert graphs == 1


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ENDLESS])
def test_loop_over_the_rest(kind, either):
    def f(x, it):
        for item in it:
            x = total(x, item)
        return x

    graphs = both(f, lambda: (X, advanced(KINDS[kind](), 2)))
    if kind in KNOWN:
        assert graphs == 1


@pytest.mark.parametrize("kind", KINDS)
def test_loop_that_breaks_off(kind, either):
    def f(x, it):
        for item in it:
            x = total(x, item)
            break
        return x

    both(f, lambda: (X, advanced(KINDS[kind](), 1)))


@pytest.mark.parametrize(
    "take", [list, tuple, lambda it: [*it], lambda it: list(zip(it, it)), lambda it: list(enumerate(it))]
)
@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ENDLESS])
def test_everything_at_once(kind, take, either):
    def f(x, it):
        items = take(it)
        for item in items:
            x = total(x, item)
        return x, len(items)

    both(f, lambda: (X, advanced(KINDS[kind](), 1)))


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ENDLESS])
def test_breaks_in_a_loop(kind):
    def f(x, make):
        for item in make():
            x = total(x, item)
            print("step")
        return x.sin()

    both(f, lambda: (X, KINDS[kind]))


@pytest.mark.parametrize(
    "kind",
    ["list", "tuple", "dict values", "dict items", "deque", "enumerate", "zip", "range", "set", "str", "reversed list"],
)
def test_graphs_are_breaks_and_one(kind):
    make = KINDS[kind]

    def f(x):
        for item in make():
            x = total(x, item)
            print("step")
        return x.sin()

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    assert same(whole_outcome(compiled, X), whole_outcome(f, X))
    assert backend.count <= 6
    before = backend.count
    assert same(whole_outcome(compiled, X + 1), whole_outcome(f, X + 1))
    assert backend.count == before


@pytest.mark.parametrize("most", [2, 9])
def test_a_module_in_every_step_is_compiled_once(most):
    layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(most))

    def f(x):
        for layer in layers:
            x = layer(x).relu()
            print("layer")
        return x * 2

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    x = torch.randn(3, 4)
    for _ in range(2):
        assert same(whole_outcome(compiled, x), whole_outcome(f, x))
    assert backend.count == 3  # up to the first print, from print to print, behind the last


def test_nested_loops():
    def f(x, rows):
        for row in rows:
            for item in row:
                x = x + item
                print("item")
            x = x * 2
            print("row")
        return x

    graphs = both(f, lambda: (X, [TENSORS[:3], TENSORS[1:3], TENSORS[:1]]))
    assert graphs <= 7


def test_loops_in_functions_that_wait():
    def inner(x, items):
        for item in items:
            x = x + item
            print("inner")
        return x

    def f(x, rows):
        for row in rows:
            x = inner(x, row) * 2
        return x

    both(f, lambda: (X, [TENSORS[:3], TENSORS[1:3]]))


def test_while_with_next():
    def f(x, it):
        while (item := next(it, None)) is not None:
            x = x + item
            print("step")
        return x

    assert both(f, lambda: (X, iter(list(TENSORS)))) == 2  # nothing to compute behind the last print


def test_next_raises_stop_iteration_to_the_handler():
    def f(x, it):
        try:
            while True:
                x = x + next(it)
                print("step")
        except StopIteration as stop:
            return x, stop.value

    both(f, lambda: (X, iter(list(TENSORS))))


def test_iterator_held_by_an_object():
    class Loader:
        def __init__(self):
            self.it = iter(list(TENSORS))

    def f(x, loader):
        x = x + next(loader.it)
        print("step")
        return x * next(loader.it)

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    mine, theirs = Loader(), Loader()
    for _ in range(3):
        assert same(whole_outcome(compiled, X, mine), whole_outcome(f, X, theirs))
    assert same(left(mine.it), left(theirs.it))


@pytest.mark.parametrize(
    "build",
    [
        lambda x, step: [x + step(t) for t in TENSORS],
        lambda x, step: {i: x + step(t) for i, t in enumerate(TENSORS)},
        lambda x, step: {step(i) for i in range(4)},
        lambda x, step: [x + step(t) * i for i in range(2) for t in TENSORS[:2]],
        lambda x, step: [x + step(v) for k, v in dict(zip("abc", TENSORS)).items() if k != "b"],
    ],
)
def test_comprehensions_broken_in_the_middle(build):
    def step(item):
        print("step")
        return item

    def f(x):
        return build(x * 2, step)

    both(f, lambda: (X,))


MUTATIONS = {
    "append": lambda xs, x: xs.append(x) if len(xs) < 8 else None,
    "insert": lambda xs, x: xs.insert(0, x) if len(xs) < 8 else None,
    "pop": lambda xs, x: xs.pop(),
    "pop first": lambda xs, x: xs.pop(0),
    "clear": lambda xs, x: xs.clear(),
    "item": lambda xs, x: xs.__setitem__(-1, x),
    "sort": lambda xs, x: xs.reverse(),
}


@pytest.mark.parametrize("order", ["next first", "change first", "between"])
@pytest.mark.parametrize("change", MUTATIONS)
@pytest.mark.parametrize(
    "wrap", [iter, reversed, enumerate, lambda xs: zip(xs, range(20))], ids=["iter", "reversed", "enumerate", "zip"]
)
def test_the_list_changes_under_the_iterator(change, order, wrap, either):
    mutate = MUTATIONS[change]

    def f(x, xs, it):
        if order != "change first":
            x = total(x, next(it, (0,)))
        if order != "next first":
            mutate(xs, x)
            x = total(x, next(it, (0,)))
        if order == "between":
            mutate(xs, x)
        return x * 2

    def make():
        xs = list(TENSORS[:3])
        return X, xs, advanced(wrap(xs), 1)

    both(f, make)


@pytest.mark.parametrize("change", MUTATIONS)
@pytest.mark.parametrize("printing", [True, False])
def test_the_list_changes_in_its_loop(change, printing):
    mutate = MUTATIONS[change]

    def f(x, xs):
        for n, item in enumerate(xs):
            x = x + item
            mutate(xs, x)
            if printing:
                print("step")
            if n > 10:
                break
        return x, list(xs)

    both(f, lambda: (X, list(TENSORS[:3])))


DICT_CHANGES = {
    "value": lambda d, k: d.__setitem__(k, d[k] * 2),
    "other value": lambda d, k: d.__setitem__("b", d["a"] * 2),
    "new key": lambda d, k: d.__setitem__("new", 1),
    "delete": lambda d, k: d.pop(k),
    "swap": lambda d, k: d.__setitem__("z", d.pop(k)),
    "clear": lambda d, k: d.clear(),
}


@pytest.mark.parametrize("view", ["keys", "values", "items"])
@pytest.mark.parametrize("change", DICT_CHANGES)
def test_the_dict_changes_in_its_loop(change, view, either):
    mutate = DICT_CHANGES[change]

    def f(x, d):
        seen = []
        for key, entry in zip("abcde", getattr(d, view)()):
            x = total(x, entry)
            seen.append(entry)
            mutate(d, key)
            print("step")
        return x, seen, d

    both(f, lambda: (X, dict(zip("abcd", TENSORS))))


@pytest.mark.parametrize("view", ["keys", "values", "items"])
@pytest.mark.parametrize("change", DICT_CHANGES)
def test_the_dict_changes_under_the_iterator(change, view, either):
    mutate = DICT_CHANGES[change]

    def f(x, d, it):
        x = total(x, next(it))
        mutate(d, "b")
        try:
            x = total(x, next(it))
        except RuntimeError as error:
            return x, str(error)
        return x * 2

    def make():
        d = dict(zip("abcd", TENSORS))
        return X, d, advanced(iter(getattr(d, view)()), 1)

    both(f, make)


@pytest.mark.parametrize("change", ["append", "popleft", "clear", "rotate"])
def test_the_deque_changes_under_the_iterator(change, either):
    def f(x, d, it):
        x = x + next(it)
        getattr(d, change)(*([x] if change == "append" else []))
        try:
            x = x + next(it)
        except RuntimeError as error:
            return x, str(error)
        return x * 2

    def make():
        d = deque(TENSORS)
        return X, d, advanced(iter(d), 1)

    both(f, make)


def test_the_set_changes_under_the_iterator(either):
    def f(x, s, it):
        x = x + next(it)
        s.add(99)
        try:
            return x + next(it)
        except RuntimeError as error:
            return x, str(error)

    def make():
        s = {1, 2, 3}
        return X, s, advanced(iter(s), 1)

    both(f, make)


@pytest.mark.parametrize("most", [3, 5])
def test_a_set_from_outside_changes_in_its_loop(most, either):
    def f(x, s):
        n = 0
        for item in s:
            n += item
            if len(s) < most:
                s.add(item + 10)
        s.add(99)
        return x + n

    both(f, lambda: (X, {1, 2, 3}))


def test_the_end_is_for_good(either):
    def f(x, xs, it):
        first = next(it, "end")
        xs.append(x * 2)
        return first, next(it, "end"), x + 1

    def make():
        xs = list(TENSORS[:1])
        return X, xs, advanced(iter(xs), 1)

    both(f, make)


def test_the_same_iterator_twice(either):
    def f(x, a, b):
        return x + next(a) * next(b) + next(a), a is b

    one = lambda: [iter(list(TENSORS))] * 2  # noqa: E731
    two = lambda: [iter(list(TENSORS)), iter(list(TENSORS))]  # noqa: E731
    compiled = pellucid.compile(f, backend="eager")
    for make in (one, two, one, two):
        a, b = make()
        c, d = make()
        assert same(compiled(X, a, b), f(X, c, d))
        assert same(left(a), left(c)) and same(left(b), left(d))


@pytest.mark.parametrize("place", ["global", "class", "cell", "default", "tuple", "list"])
def test_where_the_iterator_is_held(place, either, monkeypatch):
    class Holder:
        it = None

    def make(it):
        if place == "global":
            monkeypatch.setitem(globals(), "held", it)
            return lambda x: x + next(held)  # noqa: F821
        if place == "class":
            Holder.it = it
            return lambda x: x + next(Holder.it)
        if place == "cell":
            return lambda x: x + next(it)
        if place == "default":
            return lambda x, it=it: x + next(it)
        items = (it, 1) if place == "tuple" else [it, 1]
        return lambda x: x + next(items[0])

    def all_of(wrap):
        f = wrap(make(iter(list(TENSORS))))
        return [whole_outcome(f, X) for _ in range(6)]

    backend = Counting()
    assert same(all_of(lambda f: pellucid.compile(f, backend=backend)), all_of(lambda f: f))
    assert backend.count == 1


def test_a_list_in_a_cell_is_read_and_changed(either):
    def make():
        xs = [X]

        def f(x):
            y = x + xs[0]
            xs.append(y)
            return y, len(xs)

        return f

    mine, theirs = pellucid.compile(make(), backend="eager"), make()
    for _ in range(3):
        assert same(whole_outcome(mine, X), whole_outcome(theirs, X))


def test_two_iterators_over_one_list(either):
    def f(x, xs, a, b):
        x = x + next(a) * next(b)
        xs[2] = x
        return x + next(a), next(b)

    def make():
        xs = list(TENSORS)
        return X, xs, advanced(iter(xs), 1), iter(xs)

    def other():
        xs = list(TENSORS)
        return X, xs, advanced(iter(list(xs)), 1), iter(xs)

    compiled = pellucid.compile(f, backend="eager")
    for arguments in (make, other, make, other):
        mine, theirs = arguments(), arguments()
        assert same(compiled(*mine), f(*theirs))
        assert (
            same(mine[1], theirs[1]) and same(left(mine[2]), left(theirs[2])) and same(left(mine[3]), left(theirs[3]))
        )


def test_identity_of_what_comes_back(either):
    def f(x, it):
        item = next(it)
        return x + 1, it, iter(it), item

    def check(g):
        items = [torch.ones(2, 3), torch.zeros(2, 3)]
        it = iter(items)
        value, back, again, item = g(X, it)
        assert back is it and again is it and item is items[0] and next(it) is items[1]
        return value

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        assert same(check(compiled), check(f))


def test_another_element_is_another_entry():
    def f(x, it):
        item = next(it)
        return x + item if item is not None else x

    compiled = pellucid.compile(f, backend="eager")
    values = [1, 2.5, None, torch.ones(3), torch.ones(2, 3), 1, None]
    mine, theirs = iter(values), iter(values)
    for _ in values:
        assert same(whole_outcome(compiled, X, mine), whole_outcome(f, X, theirs))
    for _ in range(2):
        with pytest.raises(StopIteration):
            compiled(X, mine)


def test_position_does_not_matter():
    backend = Counting()

    def f(x, it):
        return x + next(it) * next(it)

    compiled = pellucid.compile(f, backend=backend)
    for used in range(4):
        mine, theirs = advanced(iter(list(TENSORS)), used), advanced(iter(list(TENSORS)), used)
        assert same(whole_outcome(compiled, X, mine), whole_outcome(f, X, theirs))
        assert same(left(mine), left(theirs))
    assert backend.count == 1


def test_an_exception_half_way(either):
    def f(x, it, bad):
        x = x + next(it)
        if bad:
            raise ValueError("bad")
        return x + next(it)

    both(f, lambda: (X, iter(list(TENSORS)), True))
    both(f, lambda: (X, iter(list(TENSORS)), False))


def test_an_operation_that_fails(either):
    def f(x, it):
        y = x + next(it)
        y = y + next(it)
        return y

    both(f, lambda: (X, iter([X, torch.ones(5), X])))


@pytest.mark.parametrize("take", [lambda a, b, it: (a, b), lambda a, b, it: None])
@pytest.mark.parametrize("used", [0, 2, 3, 4])
def test_unpacking(used, take, either):
    def f(x, it):
        x = x * 2
        try:
            a, b = it
        except ValueError as error:
            return x, str(error)
        return x, take(a, b, it)

    both(f, lambda: (X, advanced(iter(list(TENSORS)), used)))


@pytest.mark.parametrize(
    "use",
    [
        lambda it: sum(it),
        lambda it: max(it),
        lambda it: "b" in it,
        lambda it: 3 in it,
        lambda it: any(i == 3 for i in it),
        lambda it: sorted(it),
        lambda it: dict.fromkeys(it, 1),
        lambda it: "-".join(it),
        lambda it: {*it},
        lambda it: [0, *it, 0],
        lambda it: print(*it),
        lambda it: list(map(str, it)),
        lambda it: list(zip(it, it)),
        lambda it: list(itertools.chain([1], it)),
        lambda it: list(itertools.islice(it, 2)),
        lambda it: deque(it, 2),
        lambda it: iter(it) is it,
        lambda it: (bool(it), it == it, it != 1),
        lambda it: it.__next__(),
        lambda it: next(it) if len([*it]) > 1 else None,
        lambda it: [].__iadd__(it),
    ],
)
@pytest.mark.parametrize(
    "values", [[1, 2, 3, 4], ["a", "b", "c"], [1, "b", 3], []], ids=["ints", "strs", "mixed", "empty"]
)
def test_builtins_that_take_an_iterator(use, values, either):
    def f(x, it):
        y = x + 1
        try:
            return y, use(it)
        except (TypeError, StopIteration) as error:
            return y, type(error)

    both(f, lambda: (X, iter(list(values))))


def test_list_plus_equals(either):
    def f(x, it):
        xs = [1]
        xs += it
        return x + 1, xs

    both(f, lambda: (X, iter([2, 3])))


@pytest.mark.parametrize("view", ["keys", "values", "items"])
def test_a_view_from_outside(view, either):
    def f(x, v, d):
        n = len(v)
        for entry in v:
            x = total(x, entry)
        d["n"] = x
        return x, n, len(v), "n" in v, list(v)

    def make():
        d = dict(zip("abc", TENSORS))
        return X, getattr(d, view)(), d

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(3):
        mine, theirs = make(), make()
        if view == "values":
            mine, theirs = (X, {"a": 1}.values(), {}), (X, {"a": 1}.values(), {})
        assert same(whole_outcome(compiled, *mine), whole_outcome(f, *theirs))
        assert same(mine[2], theirs[2])


@pytest.mark.parametrize("view", ["keys", "values", "items"])
def test_a_view_crosses_a_break(view):
    def f(x, d):
        v = getattr(d, view)()
        print("break")
        d["n"] = x + 1
        return [total(x, entry) for entry in v], len(v)

    both(f, lambda: (X, dict(zip("abc", TENSORS))))


def test_strict_zip_of_unequal_lengths(either):
    def f(x, it):
        try:
            for a, b in it:
                x = x + a * b
                print("step")
        except ValueError as error:
            return x, str(error)
        return x

    for a, b in ((2, 3), (3, 2), (0, 1), (2, 2)):
        both(f, lambda a=a, b=b: (X, zip(list(TENSORS[:a]), range(b), strict=True)))


def test_an_inner_iterator_that_is_advanced_too(either):
    def f(x, inner, outer):
        n, item = next(outer)
        x = x + item * n + next(inner)
        n, item = next(outer)
        return x + n * item

    def make():
        inner = iter(list(TENSORS))
        return X, inner, enumerate(inner, 3)

    both(f, make)


def test_guards_as_python_say_the_same():
    def f(x, it, pairs):
        return x + next(it) * next(it), next(pairs)

    others = [torch.ones(2, 3) for _ in range(3)]
    compiled = pellucid.compile(f, backend="eager")
    compiled(X, iter(TENSORS), zip(others, "abc"))
    (entry,) = pellucid.cache_entries(compiled)

    def holds(*args):
        scope = {**entry["scope"], "L": dict(zip(("x", "it", "pairs"), args))}
        try:
            return all(eval(guard, scope) for guard in entry["guards"])
        except LookupError:
            return False

    assert holds(X, iter(TENSORS), zip(others, "abc"))
    assert holds(X, advanced(iter(TENSORS), 2), zip(others, "abc"))
    assert not holds(X, advanced(iter(TENSORS), 4), zip(others, "abc"))
    assert holds(X, iter(TENSORS), zip(others, "bc"))  # which text it is does not matter
    assert not holds(X, iter(TENSORS), zip(others, (b"b", b"c")))
    assert not holds(X, iter(TENSORS), zip(others, "abc", "abc"))
    assert not holds(X, iter(TENSORS), zip(others, "abc", strict=True))
