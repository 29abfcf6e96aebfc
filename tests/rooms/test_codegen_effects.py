"""Net changes of objects that existed before the region, replayed by the emitted function."""

import collections

import pytest
import torch

from support.captures import (
    SELF,
    Fake,
    Guarded,
    MyDict,
    MyList,
    MyOrdered,
    OpaqueList,
    Plain,
    Shadowed,
    X,
    build,
    effect,
    maker,
    shadowed,
    slotted,
)

# ---------------------------------------------------------------- effects


def replayed(target, later, kind, value, *, sources=(), path=SELF):
    """Captures a change of `target` to `value`, then runs the region on `later`."""
    emitted, capture = build(None, sources=[(target, path), *sources], effects=[effect(kind, target, value)])
    emitted(later)
    return emitted, capture


A, B, N = Plain(), Plain(), [0]
LISTS = [([1, 2], [1, 2, 3, [4]]), ([1, 2, 3], [1, 3]), ([1, 2, 3], []), ([], [1]), ([1, 2, 3], [3, 2, 1]), ([1, 2], [0, 1, 2]),
         ([1, 2], [1, 2]), ([5, 5, 5], [5, 5]), ([1, 2, 3, 4], [1, 7, 8, 9, 4])]  # fmt: skip


@pytest.mark.parametrize("before, after", LISTS)
@pytest.mark.parametrize("cls", [list, OpaqueList, MyList])
def test_list_effects(before, after, cls):
    make = MyList.of if cls is MyList else lambda *items: cls(items)
    later = make(*before)
    replayed(make(*before), later, "SetList", after)
    assert list.__eq__(later, after)


def test_untouched_items_need_no_source():
    items = [Fake(), Fake()]
    emitted, _ = build(None, sources=[(items, SELF)], effects=[effect("SetList", items, [*items, 3])])
    later = [torch.ones(1), "x"]
    first = later[0]
    emitted(later)
    assert later[0] is first and later[1:] == ["x", 3]


DICTS = [({"a": 1}, {"a": 1, "b": [2]}), ({"a": 1, "b": 2}, {"b": 2}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({"a": 1}, {"a": 3}), ({}, {1: 2}),
         ({"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 4, "d": 5, "b": 2}), ({"a": 1}, {}), ({"a": 1, "b": 2}, {"a": 1, "b": 2})]  # fmt: skip


@pytest.mark.parametrize("before, after", DICTS)
@pytest.mark.parametrize("cls", [dict, MyDict, collections.OrderedDict, MyOrdered, collections.defaultdict])
def test_dict_effects(before, after, cls):
    base = collections.OrderedDict if issubclass(cls, collections.OrderedDict) else dict

    def make(items, cls=cls):
        made = cls()
        for key, value in items.items():
            base.__setitem__(made, key, value)
        return made

    later = make(before)
    replayed(make(before), later, "SetDict", make(after))
    assert list(later.items()) == list(after.items()) and type(later) is cls


def test_dict_effects_write_only_what_changed():
    before = {"a": Fake(), "b": 1}
    _, capture = replayed(before, {"a": 5, "b": 1}, "SetDict", {"a": before["a"], "b": 2})
    assert capture.describe() == "x['b'] = 2\nreturn None\n"


@pytest.mark.parametrize("before, after", [({1, 2}, {2, 3}), (set(), {1}), ({1}, set()), ({1}, {1})])
def test_set_effects(before, after):
    later = set(before)
    replayed(before, later, "SetSet", after)
    assert later == after


@pytest.mark.parametrize("before, after", [([1], [1, 2]), ([1, 2], [2]), ([], [1]), ([1, 2], [3, 1, 2])])
def test_deque_effects(before, after):
    later = collections.deque(before)
    replayed(collections.deque(before), later, "SetDeque", collections.deque(after))
    assert list(later) == after


def test_bounded_deque_effect():
    items = [7, 8, 9]
    later = collections.deque([7, 8], maxlen=2)
    replayed(collections.deque([7, 8], maxlen=2), later, "SetDeque", collections.deque(items, maxlen=2))
    assert list(later) == [8, 9]


def test_instance_dict_effects():
    for make in (lambda: Plain(a=1, b=2), lambda: Guarded(a=1, b=2)):
        value, later = make(), make()
        emitted, _capture = build(
            None,
            sources=[(value, SELF), (value.__dict__, ("dict", SELF))],
            effects=[effect("SetDict", value.__dict__, {"b": [3], "c": 4})],
        )
        emitted(later)
        assert list(later.__dict__.items()) == [("b", [3]), ("c", 4)]


def test_instance_dict_effect_under_a_property():
    value, later = shadowed(), shadowed()
    emitted, _ = build(
        None,
        sources=[(value, SELF), (value.__dict__, ("dict", SELF))],
        effects=[effect("SetDict", value.__dict__, {"value": 5})],
    )
    emitted(later)
    assert later.__dict__ == {"value": 5}


def test_instance_dict_effect_that_changes_the_order():
    value, later = Plain(a=1, b=2), Plain(a=1, b=2)
    emitted, _ = build(
        None,
        sources=[(value, SELF), (value.__dict__, ("dict", SELF))],
        effects=[effect("SetDict", value.__dict__, {"b": 2, "a": 1})],
    )
    emitted(later)
    assert list(later.__dict__) == ["b", "a"]


def test_slot_and_c_attribute_effects():
    value, later = slotted(), slotted()
    emitted, _ = build(
        None,
        sources=[(value, SELF)],
        effects=[effect("SetAttr", value, [5], name="b"), effect("SetAttr", value, name="a")],
    )
    emitted(later)
    assert later.b == [5] and not hasattr(later, "a")
    function, other = maker(1)[0], maker(1)[0]
    emitted, _ = build(
        None, sources=[(function, SELF)], effects=[effect("SetAttr", function, (1, 2), name="__defaults__")]
    )
    emitted(other)
    assert other.__defaults__ == (1, 2)


def test_class_attribute_effect():
    class Later:
        pass

    emitted, _ = build(None, sources=[(Later, ("const", Later))], effects=[effect("SetAttr", Later, 3, name="count")])
    emitted(None)
    assert Later.count == 3


def test_attribute_effect_on_a_property_is_refused():
    value = Shadowed()
    with pytest.raises(ValueError, match="UnsupportedMutation"):
        build(None, sources=[(value, SELF)], effects=[effect("SetAttr", value, 1, name="value")])


def test_effect_on_an_object_of_the_region_is_refused():
    with pytest.raises(ValueError, match="UnsupportedMutation"):
        build(None, effects=[effect("SetList", [], [1])])


def test_cell_effects():
    total = 0

    def g(x):
        return total

    cell = g.__closure__[0]
    path = ("free", 0, "total")
    emitted, _ = build(None, function=g, sources=[(cell, path)], effects=[effect("SetCell", cell, [7])])
    emitted(None)
    assert total == [7]
    emitted, _ = build(None, function=g, sources=[(cell, path)], effects=[effect("SetCell", cell)])
    emitted(None)
    with pytest.raises(NameError):
        g(None)


def test_sources_are_read_before_the_first_write():
    swapped = [Fake(), Fake()]
    emitted, _ = build(
        [swapped[0]],
        sources=[(swapped, SELF), (swapped[0], ("item", SELF, 0)), (swapped[1], ("item", SELF, 1))],
        effects=[effect("SetList", swapped, swapped[::-1])],
    )
    later = ["a", "b"]
    assert emitted(later) == ["a"] and later == ["b", "a"]


def test_cell_content_is_read_before_it_is_written():
    total = "old"

    def g(x):
        return total

    content, cell = total, g.__closure__[0]
    content = Fake()
    path = ("free", 0, "total")
    emitted, _ = build(
        [content],
        function=g,
        sources=[(cell, path), (content, ("cell", path))],
        effects=[effect("SetCell", cell, "new")],
    )
    assert emitted(None) == ["old"] and total == "new"


def test_iterator_over_the_changed_content_is_over_the_target():
    target, content = [], [1, 2]
    emitted, _ = build([iter(content), content], sources=[(target, SELF)], effects=[effect("SetList", target, content)])
    later = []
    iterator, same_list = emitted(later)
    later.append(3)
    assert list(iterator) == [1, 2, 3] and same_list is later


def test_C12_C13_order_and_identity_of_effects():
    log = []

    def note(*arguments, **keywords):
        log.append((arguments, keywords, list(seen)))

    seen, later = [], None
    x = Fake()

    def make(a):
        fresh = [a]
        return fresh, [
            effect("Call", note, args=("before", a), kwargs={}),
            effect("SetList", seen, [fresh]),
            effect("Call", note, args=("after",), kwargs={"key": fresh}),
            effect("SetList", seen, [fresh, 2]),
        ]

    emitted, _capture = build(
        None, inputs=[(x, X)], sources=[(seen, ("const", seen)), (note, ("const", note))], nodes=1, make=make
    )
    later = emitted("value")
    assert later == ["out0"] and seen[0] is later and seen[1] == 2
    assert log == [(("before", "out0"), {}, []), (("after",), {"key": later}, [later])]
    assert log[1][1]["key"] is later


def test_describe_names_everything():
    x = Fake()
    _emitted, capture = build(
        None,
        inputs=[(x, X)],
        nodes=2,
        make=lambda a, b: ({"a": a, "o": Plain(value=b)}, [effect("Call", print, args=("hello",))]),
    )
    assert capture.describe().splitlines() == [
        "len_1, len_2 = __compiled_fn_0(x)",
        "new_Plain = object___new__(Plain)",
        "new_Plain.value = len_2",
        "print('hello')",
        "return {'a': len_1, 'o': new_Plain}",
    ]
