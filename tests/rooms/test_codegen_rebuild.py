"""Objects that the region made: built anew at every call, identity and cycles kept, or refused."""

import collections
import dis
import enum
import functools
import types

import pytest
import torch

from support import name_of
from support.captures import (
    Capture,
    Color,
    Fake,
    Frozen,
    Guarded,
    MyDict,
    MyInt,
    MyList,
    MyOrdered,
    Pair,
    Plain,
    Point,
    Slotted,
    SubSlotted,
    build,
    equal_through_cycles,
    f,
    maker,
    my_dict,
    plain_tuple,
    rebuilt,
    slotted,
    with_attribute,
)

# ---------------------------------------------------------------- what leaves the region


CONSTANTS = [
    None, True, 0, 7, 10**30, -0.0, 2.5, 1j, "text", "new text " + str(3), b"bytes", ..., NotImplemented, int, len, types, (1, (2, "x")),
    frozenset({1, 2}), range(3), slice(1, None), torch.float32, torch.device("cpu"), torch.strided, torch.preserve_format,
    torch.Size([2, 3]), f.__code__, list[int], list[int], torch.add, torch.nn.functional.relu, list.append,
]  # fmt: skip


@pytest.mark.parametrize("value", CONSTANTS, ids=name_of)
def test_constants_are_themselves(value):
    first, second = rebuilt(value)
    assert first is second
    assert type(first) is type(value) and (first is value or first == value)


def test_constants_keep_their_type_beside_equal_ones():
    values = (1, True, 1.0, 0.0, -0.0, 1 + 0j)
    result = rebuilt([*values])[0]
    assert [repr(item) for item in result] == [repr(item) for item in values]


MADE = [
    [], [1, [2]], {}, {"a": [1], 2: "b"}, set(), {1, 2}, ([],), frozenset({Plain}), Point([1], 2), plain_tuple(Pair, 1, []),
    with_attribute(plain_tuple(Pair, 1), note="n"), collections.OrderedDict(), collections.OrderedDict([("b", 1), ("a", [2])]),
    collections.defaultdict(list, {"a": [1]}), collections.defaultdict(None, {"a": 1}), collections.deque([1, [2]]),
    collections.deque([1, 2, 3], maxlen=3), MyList.of(1, 2), with_attribute(MyList.of(1), a=1), my_dict(MyDict, dict, b=1, a=[2]),
    my_dict(MyOrdered, collections.OrderedDict, b=1, a=[2]), with_attribute(my_dict(MyOrdered, collections.OrderedDict, b=1), b=1),
    MyInt(7), with_attribute(MyInt(7), unit="m"), Plain(), Plain(a=[1], b="x"), Guarded(a=1, shown=2), Frozen(1, [2]),
    types.SimpleNamespace(a=[1]), bytearray(b"ab"), slice([], None), {"k": Plain(a={"b": (1, [2])})}, [list(range(40))], Color.RED,
    {Color.RED: [1], torch.float32: 2, (1, "a"): 3},
]  # fmt: skip


@pytest.mark.parametrize("value", MADE, ids=lambda value: f"{type(value).__name__}")
def test_made_objects_are_built_at_every_call(value):
    first, second = rebuilt(value)
    assert equal_through_cycles(value, first) and equal_through_cycles(value, second)
    if not isinstance(value, (enum.Enum, frozenset)):
        assert first is not value and first is not second


def test_long_constant_lists_are_one_constant():
    emitted, _ = build(list(range(1000)))
    assert emitted(None) == list(range(1000)) and emitted(None) is not emitted(None)
    assert len(emitted.__code__.co_code) < 100


def test_slots():
    made = rebuilt(slotted())[0]
    assert type(made) is Slotted and made.a == [1] and not hasattr(made, "b")
    value = SubSlotted()
    Slotted.__dict__["a"].__set__(value, "hidden")
    value.c = 3
    made = rebuilt(value)[0]
    assert (made.a, made.c, Slotted.__dict__["a"].__get__(made)) == (5, 3, "hidden")


def test_attributes_stay_inline_for_plain_classes():
    emitted, _ = build(Plain(a=1, b=2))
    assert "STORE_ATTR" in opnames(emitted)


def opnames(function):

    return [instruction.opname for instruction in dis.get_instructions(function)]


def test_class_with_default_dict_key_order():
    value = Plain()
    value.b, value.a = 1, 2
    del value.b
    value.b = 3
    assert list(rebuilt(value)[0].__dict__) == ["a", "b"]


def test_instance_dict_that_leaves_too():
    value = Plain(a=[1])
    made, attributes = rebuilt((value, value.__dict__))[0]
    assert made.__dict__ is attributes and made.a is attributes["a"]
    attributes, made = rebuilt((value.__dict__, value))[0]
    assert made.__dict__ is attributes
    guarded = Guarded(a=1)
    made, attributes = rebuilt([guarded, guarded.__dict__])[0]
    assert made.__dict__ is attributes


def test_non_string_keys_of_an_instance_dict():
    value = Plain(a=1)
    value.__dict__[3] = 4
    assert rebuilt(value)[0].__dict__ == {"a": 1, 3: 4}


def test_model_output():
    from transformers.modeling_outputs import BaseModelOutputWithPast

    value = BaseModelOutputWithPast(last_hidden_state=[1], past_key_values=[2])
    made = rebuilt(value)[0]
    assert type(made) is type(value) and list(made.items()) == list(value.items())
    assert made.last_hidden_state is made["last_hidden_state"] and made.hidden_states is None
    assert made[0] is made.last_hidden_state


def test_structseq():
    value = torch.return_types.max(([1], 2))
    made = rebuilt(value)[0]
    assert type(made) is type(value) and made.values == [1] and made.indices == 2


# ---------------------------------------------------------------- functions and friends


def test_functions_with_closure_defaults_and_attributes():
    value = maker(3)
    inner, captured = rebuilt(value)[0]
    assert inner is not value[0] and captured is not value[1] and captured == [3]
    result = inner(1)
    assert result[0] is captured and result[2] is captured and result[4] == 3
    assert inner.tag is captured and inner.__doc__ == "Says things." and inner.__annotations__ == {"return": int}
    assert inner.__qualname__ == value[0].__qualname__ and inner.__module__ == maker.__module__
    assert inner.__globals__ is maker.__globals__
    assert inner.__kwdefaults__ == {"c": None} and inner(1, c=2)[3] == 2
    assert type(inner.__defaults__) is tuple


def counter():
    count = 0

    def increment():
        nonlocal count
        count += 1
        return count

    def read():
        return count

    return increment, read


def test_shared_cells():
    increment, read = rebuilt(counter())[0]
    assert (increment(), increment(), read()) == (1, 2, 2)


def recursive():
    def again(n):
        return 1 if n == 0 else n * again(n - 1)

    return again


def test_recursive_closure():
    again = rebuilt(recursive())[0]
    assert again(5) == 120 and again.__closure__[0].cell_contents is again


def test_functions_of_the_module_are_not_copied():
    assert rebuilt([maker, Plain.__init__, functools.wraps])[0] == [maker, Plain.__init__, functools.wraps]


def test_renamed_function():
    inner, _ = maker(1)
    inner.__name__, inner.__qualname__, inner.__doc__, inner.__module__ = "other", "very.other", None, "elsewhere"
    made = rebuilt(inner)[0]
    assert (made.__name__, made.__qualname__, made.__doc__, made.__module__) == (
        "other",
        "very.other",
        None,
        "elsewhere",
    )


def test_bound_methods():
    value = Plain(a=1)
    owner, method, builtin = rebuilt((value, types.MethodType(maker, value), [4].append))[0]
    assert method.__self__ is owner and method.__func__ is maker
    builtin(5)
    assert builtin.__self__ == [4, 5]
    _number, wrapper = rebuilt((7, [1].__len__))[0]
    assert wrapper() == 1


def test_partial():
    inner = functools.partial(pow, 2)
    outer = functools.partial(inner, 3)
    outer.note = [1]
    nested = functools.partial(max, key=[1])
    made_inner, made_outer, made_nested = rebuilt((inner, outer, nested))[0]
    assert made_outer() == 8 and made_outer.note == [1] and made_nested.keywords == {"key": [1]}
    assert made_outer.func is pow and made_outer.args == (2, 3) and made_inner.args == (2,)


def test_partial_of_partial_that_was_not_flattened():
    inner = functools.partial(pow, 2)
    inner.flag = 1  # a partial with attributes is not flattened
    outer = functools.partial(inner, 3)
    assert outer.func is inner
    made_inner, made_outer = rebuilt((inner, outer))[0]
    assert made_outer.func is made_inner and made_outer() == 8


@pytest.mark.parametrize(
    "make",
    [
        lambda: [1, 2, 3],
        lambda: (1, 2, 3),
        lambda: range(5),
        lambda: "abc",
        lambda: "äbc",
        lambda: range(10**20, 10**20 + 9),
    ],
)
def test_iterators(make):
    used = iter(make())
    next(used)
    fresh, exhausted = iter(make()), iter(make())
    list(exhausted)
    first, second, third = rebuilt((used, fresh, exhausted))[0]
    assert type(first) is type(used)
    assert (list(first), list(second), list(third)) == (list(make())[1:], list(make()), [])


def test_composed_iterators():
    items = [1, 2, 3]
    value = (items, enumerate(iter(items)), zip(items, "abc"), reversed(items))
    next(value[1])
    made = rebuilt(value)[0]
    assert (
        list(made[1]) == [(1, 2), (2, 3)]
        and list(made[2]) == [(1, "a"), (2, "b"), (3, "c")]
        and list(made[3]) == [3, 2, 1]
    )


def test_iterator_shares_its_list():
    items = [1]
    made, iterator = rebuilt((items, iter(items)))[0]
    made.append(2)
    assert list(iterator) == [1, 2]


class MyError(ValueError):
    def __init__(self, text):
        raise AssertionError("user code ran")


def test_exceptions():
    error = MyError.__new__(MyError, "text", [1])
    error.extra = 5
    error.__cause__ = KeyError("key")
    error.__context__ = error.__cause__
    made = rebuilt(error)[0]
    assert type(made) is MyError and made.args == ("text", [1]) and made.extra == 5
    assert made.__cause__.args == ("key",) and made.__context__ is made.__cause__ and made.__suppress_context__
    error = RuntimeError("a")
    error.__suppress_context__ = True
    assert rebuilt(error)[0].__suppress_context__ is True


# ---------------------------------------------------------------- identity and cycles


def test_identity_is_kept():
    shared = [1]
    first, (second,), third = rebuilt((shared, (shared,), {"a": shared}))[0]
    assert first is second is third["a"]


def test_cycles():
    ring = []
    ring.append(ring)
    made = rebuilt(ring)[0]
    assert made[0] is made and len(made) == 1
    left, right = {}, []
    left["right"], pair = right, (left, right)
    right.append(pair)
    left, right = rebuilt(pair)[0]
    assert left["right"] is right and right[0][0] is left and right[0][1] is right
    node = Plain()
    node.me = node
    node.both = (node, [node])
    made = rebuilt(node)[0]
    assert made.me is made and made.both[0] is made and made.both[1][0] is made
    queue = collections.deque()
    queue.append(queue)
    assert (made := rebuilt(queue)[0])[0] is made
    cell = types.CellType()
    cell.cell_contents = cell
    assert (made := rebuilt(cell)[0]).cell_contents is made
    ordered = collections.OrderedDict()
    ordered["self"] = ordered
    assert (made := rebuilt(ordered)[0])["self"] is made


def test_deep_nesting():
    deep = []
    for _ in range(5000):
        deep = [deep]
    made = rebuilt(deep)[0]
    for _ in range(5000):
        (made,) = made
    assert made == []
    chain = None
    for i in range(2000):
        chain = Plain(next=chain, i=i)
    made = rebuilt(chain)[0]
    for i in reversed(range(2000)):
        assert made.i == i
        made = made.next


# ---------------------------------------------------------------- refusals


class Finalised:
    def __del__(self):
        pass


class BadHash:
    def __hash__(self):
        return 1


def generator():
    yield 1


REFUSED = [
    (Finalised(), "__del__"), ({BadHash(): 1}, "__hash__"), ({BadHash()}, "__hash__"), (generator(), "generator"),
    (memoryview(b"a"), "memoryview"), (OSError(1, "x"), "PermissionError"), (types.MappingProxyType({}), "mappingproxy"), (property(), "property"),
    (reversed({1: 2}), "dict_reversekeyiterator"), (map(abs, [1]), "map"), (torch.Generator(), "Generator"), ([object(), Finalised()], "Finalised"),
]  # fmt: skip


@pytest.mark.parametrize("value, word", REFUSED, ids=lambda value: type(value).__name__)
def test_what_cannot_be_built_is_refused(value, word):
    with pytest.raises(ValueError, match="CannotReconstruct") as refusal:
        build(value)
    assert word in str(refusal.value)


def test_a_tensor_of_unknown_origin_is_refused():
    with pytest.raises(ValueError, match="UnknownOrigin"):
        build([torch.ones(2)])


def test_graph_value_of_a_subclass_is_refused():
    fake = torch.nn.Parameter(torch.ones(2))  # that no node is known to have made a parameter
    capture = Capture(f)
    capture.input(x := Fake(), ("local", 0, "x"))
    capture.node(fake, len, (x,))
    with pytest.raises(ValueError, match="CannotReconstruct"):
        capture.finish([fake])


def test_classes_made_by_functions_need_a_source():
    class Local:
        pass

    for value in (Local, Local(), (1, Local)):
        with pytest.raises(ValueError, match="CannotReconstruct"):
            build(value)
        emitted, _ = build(value, sources=[(Local, ("const", Local))])
        assert type(emitted(None)) is type(value)


def test_methods_keep_the_function_of_their_class():
    class Local:
        def method(self):
            pass

        @classmethod
        def of(cls):
            pass

    value = Local()
    emitted, _ = build([value.method, Local.of], sources=[(Local, ("const", Local))])
    method, of = emitted(None)
    assert method.__func__ is Local.method and of == Local.of
