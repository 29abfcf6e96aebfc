"""Objects that a region drops: what their end runs (a __del__, the `finally` of a generator, the callback of a weak reference) runs where
eager runs it, whatever lay there in the calls before."""
# ruff: noqa: F841

import collections
import weakref

import pytest
import torch

import pellucid
from support import Plain


class Slotted:
    __slots__ = ("item",)


class Finalised:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("ends")


class Shared:
    item = None


GLOBAL = None
REFS = []


def in_block(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("ends")


def suspended(log):
    generator = in_block(log)
    next(generator)
    return generator


def watched(log, value):
    REFS.append(weakref.ref(value, lambda _: log.append("ends")))
    return value


def holding(log):
    def function(inner=suspended(log)):
        return inner

    return function


def collecting():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    return graphs, backend


# What lay in the place before. Those that say nothing when they go come first.
NO_FINALIZER = {
    "int": lambda log: 5,
    "tensor": lambda log: torch.ones(2),
    "not started": in_block,
}
LOUD = {
    "finalised": Finalised,
    "suspended": suspended,
    "watched": lambda log: watched(log, Plain()),
    "in a list": lambda log: [Finalised(log)],
    "in lists": lambda log: ([[Finalised(log)]], 1),
    "twice in a list": lambda log: [Finalised(log)] * 2,
    "in a dict": lambda log: {"k": suspended(log)},
    "in an object": lambda log: Plain(a=suspended(log)),
    "watched in an object": lambda log: Plain(a=watched(log, Plain())),
    "in a function": holding,
}


def attribute(x, h, log):
    log.append("before")
    h.item = None
    log.append("after")
    return x + 1


def deleted_attribute(x, h, log):
    log.append("before")
    del h.item
    log.append("after")
    return x + 1


def class_attribute(x, h, log):
    log.append("before")
    Shared.item = None
    log.append("after")
    return x + 1


def global_(x, h, log):
    global GLOBAL
    log.append("before")
    GLOBAL = None
    log.append("after")
    return x + 1


def item(x, h, log):
    log.append("before")
    h[0] = None
    log.append("after")
    return x + 1


def deleted_item(x, h, log):
    log.append("before")
    del h[0]
    log.append("after")
    return x + 1


def part(x, h, log):
    log.append("before")
    h[0:1] = []
    log.append("after")
    return x + 1


def cleared(x, h, log):
    log.append("before")
    h.clear()
    log.append("after")
    return x + 1


def multiplied(x, h, log):
    log.append("before")
    h *= 0
    log.append("after")
    return x + 1


def popped(x, h, log):
    log.append("before")
    value = h.pop()
    log.append("held")
    del value
    log.append("after")
    return x + 1


def updated(x, h, log):
    log.append("before")
    h.update({0: 1})
    log.append("after")
    return x + 1


def pushed_out(x, h, log):
    log.append("before")
    h.append(1)
    log.append("after")
    return x + 1


def appended(x, h, log):
    log.append("before")
    h.append(1)
    log.append("after")
    return x + 1


def in_list(value):
    return [value]


def in_dict(value):
    return {0: value}


def in_slot(value):
    holder = Slotted()
    holder.item = value
    return holder


def in_class(value):
    Shared.item = value


def in_global(value):
    global GLOBAL
    GLOBAL = value


PLACES = {
    "attribute": (attribute, lambda value: Plain(item=value)),
    "deleted attribute": (deleted_attribute, lambda value: Plain(item=value)),
    "slot": (attribute, in_slot),
    "deleted slot": (deleted_attribute, in_slot),
    "class attribute": (class_attribute, in_class),
    "global": (global_, in_global),
    "list item": (item, in_list),
    "dict item": (item, in_dict),
    "deleted list item": (deleted_item, in_list),
    "deleted dict item": (deleted_item, in_dict),
    "part of a list": (part, in_list),
    "list.clear": (cleared, in_list),
    "dict.clear": (cleared, in_dict),
    "set.clear": (cleared, lambda value: {value}),
    "list multiplied": (multiplied, in_list),
    "list.pop": (popped, in_list),
    "deque.pop": (popped, lambda value: collections.deque([value])),
    "dict.update": (updated, in_dict),
    "full deque": (pushed_out, lambda value: collections.deque([value], maxlen=1)),
    "list.append": (appended, in_list),
}


@pytest.mark.parametrize("first", NO_FINALIZER)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_dropped_runs_where_eager_runs_it(place, first, monkeypatch):
    monkeypatch.setattr(pellucid.config, "recompile_limit", 40)
    function, put = PLACES[place]
    graphs, backend = collecting()
    compiled = pellucid.compile(function, backend=backend)
    for kind in [first, *LOUD, first, *LOUD]:
        if place == "set.clear" and kind in ("in a list", "in lists", "twice in a list", "in a dict"):
            continue  # not hashable
        seen = []
        for f in (function, compiled):
            log = []
            value = (NO_FINALIZER | LOUD)[kind](log)
            holder = put(value)
            del value
            result = f(torch.ones(1), holder, log)
            seen.append((list(log), result.tolist()))
            del holder
        assert seen[0] == seen[1], kind
        if kind == first:
            assert len(graphs) >= 1
    assert "ends" in seen[0][0] or place == "list.append"


@pytest.mark.parametrize("first", [5, "many"])
def test_all_that_goes_is_looked_at(first):
    compiled = pellucid.compile(attribute, backend="eager")
    for kind in (first, "many", first, "many"):
        seen = []
        for f in (attribute, compiled):
            log = []
            value = [Finalised(log), *(Plain() for _ in range(30_000))] if kind == "many" else kind
            holder = Plain(item=value)
            del value
            f(torch.ones(1), holder, log)
            seen.append(log)
        assert seen[0] == seen[1] == ["before", *["ends"] * (kind == "many"), "after"]


def test_a_variable_of_an_outer_function_is_dropped_like_the_rest():
    def make(value):
        def f(x, log):
            nonlocal value
            log.append("before")
            value = None
            log.append("after")
            return x + 1

        return f

    for kind in (*NO_FINALIZER, *LOUD):
        seen = []
        for wrap in (lambda f: f, pellucid.compile(backend="eager")):
            log = []
            wrap(make((NO_FINALIZER | LOUD)[kind](log)))(torch.ones(1), log)
            seen.append(log)
        assert seen[0] == seen[1], kind


def test_what_says_nothing_is_dropped_in_one_graph():
    def f(x, h):
        h.last = x * 2
        h.items[0] = (x, h.count)
        h.count += 1
        h.seen.pop()
        return x + 1

    graphs, backend = collecting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    h = Plain(last=None, items=[Plain(a=[Plain()])], count=0, seen=[Plain(), torch.ones(1)])
    compiled(torch.ones(2), h)
    assert len(graphs) == 1
    assert h.last.tolist() == [2, 2]
    assert h.items[0][1] == 0
    assert (h.count, len(h.seen)) == (1, 1)


@pytest.mark.parametrize(
    ("container", "put"),
    [
        (weakref.WeakValueDictionary, lambda weak, value: weak.update(k=value)),
        (weakref.WeakKeyDictionary, lambda weak, value: weak.update({value: 1})),
        (weakref.WeakSet, lambda weak, value: weak.add(value)),
    ],
)
@pytest.mark.parametrize("quiet_first", [False, True])
def test_entries_of_weak_containers_go_where_the_object_is_dropped(container, put, quiet_first):
    def f(x, weak, h, items):
        y = x + 1
        h.item = None
        first = len(weak)
        items.pop()
        return y * 2, first, len(weak), list(weak)

    def calls(g):
        seen = []
        for entered in (not quiet_first, True, True):
            weak, h, items = container(), Plain(item=Plain()), [Plain()]
            if entered:
                put(weak, h.item), put(weak, items[0])
            seen.append(g(torch.ones(2), weak, h, items)[1:])
        return seen

    graphs, backend = collecting()
    assert calls(pellucid.compile(f, backend=backend)) == calls(f)
    assert graphs


def test_a_weak_reference_knows_that_its_target_was_dropped():
    def f(x, h, ref):
        before = ref() is None
        h.item = None
        return x + 1, before, ref() is None

    compiled = pellucid.compile(f, backend="eager")
    for g in (f, compiled, compiled):
        h = Plain(item=Plain())
        assert g(torch.ones(1), h, weakref.ref(h.item))[1:] == (False, True)


def test_an_object_with_other_owners_is_dropped_in_the_region():
    """Only the count of references says that nothing ends: the guard looks at it, so no code is compiled again."""
    graphs, backend = collecting()

    def f(x, h):
        h.item = None
        return x + 1

    compiled = pellucid.compile(f, backend=backend)
    log = []
    finalised = Finalised(log)
    for value in (Plain(), Plain(a=finalised), Plain(a=[finalised, finalised])):
        compiled(torch.ones(1), Plain(item=value))
    assert len(graphs) == 1
    assert log == []


# Programs that hold on to it themselves for a while.


def replaced(x, h, log):
    v = h.item
    h.item = None
    log.append("a")
    v = None
    log.append("b")
    return x + 1


def deleted(x, h, log):
    v = h.item
    h.item = None
    log.append("a")
    del v
    log.append("b")
    return x + 1


def passed_on(x, h, log):
    def inner(v):
        log.append("in")
        return 3

    r = inner(h.__dict__.pop("item"))
    log.append("b")
    return x + r


def replaced_in_a_loop(x, h, log):
    v = h.item
    del h.item
    for i in range(3):
        log.append(i)
        if i == 1:
            v = i
    return x + 1


def in_a_list_of_its_own(x, h, log):
    v = [h.item]
    h.item = None
    log.append("a")
    v.clear()
    log.append("b")
    return x + 1


def swapped_before_a_break(x, h, log):
    h.item, v = x, h.item
    log.append("a")
    pellucid.graph_break()
    v = 0
    log.append("b")
    return x + 1


def moved_behind_a_break(x, h, log):
    pellucid.graph_break()
    h.item, h.other = 1, h.item
    log.append("a")
    h.other = 2
    log.append("b")
    return x + 1


def in_a_handler(x, h, log):
    try:
        v = h.item
        h.item = None
        raise ValueError
    except ValueError as e:
        log.append("a")
        v = None
        log.append("b")
    log.append("c")
    return x + 1


def in_a_dict_of_its_own(x, h, log):
    d = {"k": h.item}
    h.item = None
    log.append("a")
    d["k"] = 0
    log.append("b")
    return x + 1


def namespace_cleared(x, h, log):
    h.__dict__.clear()
    log.append("b")
    return x + 1


def namespace_updated(x, h, log):
    h.__dict__.update(item=0)
    log.append("b")
    return x + 1


def by_setattr(x, h, log):
    setattr(h, "item", 0)
    log.append("b")
    delattr(h, "item")
    log.append("c")
    return x + 1


def between_breaks(x, h, log):
    pellucid.graph_break()
    v = h.item
    h.item = None
    log.append("a")
    pellucid.graph_break()
    log.append("m")
    v = None
    log.append("b")
    return x + 1


def popped_and_passed_on(x, h, log):
    (lambda q: log.append("q"))(h.__dict__.popitem())
    log.append("b")
    return x + 1


def wrapped(x, h, log):
    h.item = (h.item, 1)
    log.append("a")
    h.item = h.item[1]
    log.append("b")
    return x + 1


def moved(x, h, log):
    h.other = h.item
    h.item = None
    log.append("a")
    h.other = None
    log.append("b")
    return x + 1


def in_an_iterator(x, h, log):
    it = iter([h.item])
    h.item = None
    log.append("a")
    w = next(it)
    del w
    log.append("b")
    next(it, None)
    log.append("c")
    del it
    log.append("d")
    return x + 1


def in_a_variable_of_an_inner_function(x, h, log):
    def c():
        return v

    v = h.item
    h.item = None
    log.append("a")
    v = 0
    log.append("b")
    return x + c()


HOLD_ON = [
    replaced,
    deleted,
    passed_on,
    replaced_in_a_loop,
    in_a_list_of_its_own,
    swapped_before_a_break,
    moved_behind_a_break,
    in_a_handler,
    in_a_dict_of_its_own,
    namespace_cleared,
    namespace_updated,
    by_setattr,
    between_breaks,
    popped_and_passed_on,
    wrapped,
    moved,
    in_an_iterator,
    in_a_variable_of_an_inner_function,
]


@pytest.mark.parametrize("first", NO_FINALIZER)
@pytest.mark.parametrize("function", HOLD_ON, ids=lambda f: f.__name__)
def test_what_the_program_holds_on_to_goes_where_it_lets_go(function, first, monkeypatch):
    monkeypatch.setattr(pellucid.config, "recompile_limit", 40)
    graphs, backend = collecting()
    compiled = pellucid.compile(function, backend=backend)
    for kind in [first, *LOUD, first, *LOUD]:
        seen = []
        for f in (function, compiled):
            log = []
            holder = Plain(item=(NO_FINALIZER | LOUD)[kind](log))
            result = f(torch.ones(1), holder, log)
            seen.append((list(log), result.tolist()))
            del holder
        assert seen[0] == seen[1], kind
    assert graphs
