"""The codegen room: captures made by hand, the function emitted for them, and what it does when it is called."""

import collections
import dataclasses
import enum
import functools
import gc
import types
import typing

import pytest
import torch

from pellucid import _core

Capture = _core._codegen.Capture


class Fake:
    """Stands for a value that the graph gives."""


def f(x):
    return x


def build(result, *, function=f, inputs=(), sources=(), nodes=0, effects=(), make=None):
    """A capture of `function` with `nodes` graph values (handed to `make`), finished and emitted.

    Returns (emitted function, capture). The graph gives "out0", "out1", … in the order of the capture's outputs.
    """
    capture = Capture(function)
    for value, path in inputs:
        capture.input(value, path)
    for value, path in sources:
        capture.source(value, path)
    fakes = [Fake() for _ in range(nodes)]
    for fake in fakes:
        capture.node(fake, len, tuple(value for value, _ in inputs))
    if make is not None:
        result, effects = make(*fakes)
    for effect in effects:
        capture.effect(*effect[:2], **effect[2])
    capture.finish(result)
    calls = []

    def compiled(*arguments):
        calls.append(arguments)
        return tuple(f"out{fakes.index(fake)}" for fake in capture.outputs())

    emitted = capture.emit(compiled if nodes else None)
    emitted.__dict__["calls"] = calls
    return emitted, capture


def rebuilt(value):
    """What two calls of a region give that made `value`: both new."""
    emitted, _ = build(value)
    return emitted(None), emitted(None)


# ---------------------------------------------------------------- what leaves the region


CONSTANTS = [
    None, True, 0, 7, 10**30, -0.0, 2.5, 1j, "text", "new text " + str(3), b"bytes", ..., NotImplemented, int, len, types, (1, (2, "x")),
    frozenset({1, 2}), range(3), slice(1, None), torch.float32, torch.device("cpu"), torch.strided, torch.preserve_format,
    torch.Size([2, 3]), f.__code__, typing.List[int], list[int], torch.add, torch.nn.functional.relu, list.append,
]  # fmt: skip


@pytest.mark.parametrize("value", CONSTANTS, ids=repr)
def test_constants_are_themselves(value):
    first, second = rebuilt(value)
    assert first is second
    assert type(first) is type(value) and (first is value or first == value)


def test_constants_keep_their_type_beside_equal_ones():
    values = (1, True, 1.0, 0.0, -0.0, 1 + 0j)
    result = rebuilt([*values])[0]
    assert [repr(item) for item in result] == [repr(item) for item in values]


class Color(enum.Enum):
    RED = 1


Point = collections.namedtuple("Point", "x y")


class Pair(tuple):
    pass


class MyList(list):
    def append(self, item):
        raise AssertionError("user code ran")

    def __setitem__(self, key, value):
        raise AssertionError("user code ran")

    def __init__(self, *items):
        raise AssertionError("user code ran")

    @classmethod
    def of(cls, *items):
        made = list.__new__(cls)
        list.extend(made, items)
        return made


class MyDict(dict):
    def __setitem__(self, key, value):
        raise AssertionError("user code ran")


class MyOrdered(collections.OrderedDict):
    def __setitem__(self, key, value):
        raise AssertionError("user code ran")


class MyInt(int):
    pass


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Guarded(Plain):
    shown = property(lambda self: 1)

    def __setattr__(self, name, value):
        raise AssertionError("user code ran")


class Slotted:
    __slots__ = ("a", "b", "__weakref__")


class SubSlotted(Slotted):
    __slots__ = ("c",)
    a = 5  # hides the slot of the base


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: list


def same(a, b, seen=None):
    """Equal in type, content and attributes, through cycles."""
    seen = {} if seen is None else seen
    if id(a) in seen:
        return seen[id(a)] is b
    if type(a) is not type(b):
        return False
    seen[id(a)] = b
    if getattr(a, "__dict__", None) and not isinstance(a, type):
        if list(a.__dict__) != list(b.__dict__) or not all(same(a.__dict__[k], b.__dict__[k], seen) for k in a.__dict__):
            return False
    if isinstance(a, (list, tuple, collections.deque)):
        return len(a) == len(b) and all(same(x, y, seen) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(dict.__getitem__(a, k), dict.__getitem__(b, k), seen) for k in a)
    if hasattr(a, "__dict__"):
        return True
    return a == b


def slotted():
    made = Slotted()
    made.a = [1]
    return made


def plain_tuple(cls, *items):
    return tuple.__new__(cls, items)


def my_dict(cls, base, **items):
    made = cls()
    for key, value in items.items():
        base.__setitem__(made, key, value)
    return made


def with_attribute(value, **attributes):
    value.__dict__.update(attributes)
    return value


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
    assert same(value, first) and same(value, second)
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
    import dis

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


def maker(n):
    captured = [n]

    def inner(a, b=captured, *, c=None, **rest) -> int:
        """Says things."""
        return captured, a, b, c, n

    inner.tag = captured
    return inner, captured


def test_functions_with_closure_defaults_and_attributes():
    value = maker(3)
    inner, captured = rebuilt(value)[0]
    assert inner is not value[0] and captured is not value[1] and captured == [3]
    result = inner(1)
    assert result[0] is captured and result[2] is captured and result[4] == 3
    assert inner.tag is captured and inner.__doc__ == "Says things." and inner.__annotations__ == {"return": int}
    assert inner.__qualname__ == value[0].__qualname__ and inner.__module__ == __name__ and inner.__globals__ is globals()
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
    assert (made.__name__, made.__qualname__, made.__doc__, made.__module__) == ("other", "very.other", None, "elsewhere")


def test_bound_methods():
    value = Plain(a=1)
    owner, method, builtin = rebuilt((value, types.MethodType(maker, value), [4].append))[0]
    assert method.__self__ is owner and method.__func__ is maker
    builtin(5)
    assert builtin.__self__ == [4, 5]
    number, wrapper = rebuilt((7, [1].__len__))[0]
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
    "make", [lambda: [1, 2, 3], lambda: (1, 2, 3), lambda: range(5), lambda: "abc", lambda: "äbc", lambda: range(10**20, 10**20 + 9)]
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
    assert list(made[1]) == [(1, 2), (2, 3)] and list(made[2]) == [(1, "a"), (2, "b"), (3, "c")] and list(made[3]) == [3, 2, 1]


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
    (iter({1: 2}), "dict_keyiterator"), ({}.keys(), "dict_keys"), (torch.Generator(), "Generator"), ([object(), Finalised()], "Finalised"),
]  # fmt: skip


@pytest.mark.parametrize("value, word", REFUSED, ids=lambda value: type(value).__name__)
def test_what_cannot_be_built_is_refused(value, word):
    with pytest.raises(ValueError, match="CannotReconstruct") as refusal:
        build(value)
    assert word in str(refusal.value)


def test_a_tensor_of_unknown_origin_is_refused():
    with pytest.raises(ValueError, match="UnknownOrigin"):
        build([torch.ones(2)])


def test_graph_value_with_attributes_or_of_a_subclass_is_refused():
    for fake in (torch.ones(2), torch.nn.Parameter(torch.ones(2))):
        fake.note = 1
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


# ---------------------------------------------------------------- the graph call


X = ("local", 0, "x")


def test_C07_fast_path():
    x = Fake()
    emitted, capture = build(None, inputs=[(x, X)], nodes=1, make=lambda a: (a, ()))
    assert emitted("value") == "out0" and emitted.calls == [("value",)]
    assert emitted.__code__.co_nlocals == 1
    assert capture.describe() == "return __compiled_fn_0(x)[0]\n"
    assert "__compiled_fn_0" in emitted.__code__.co_names


def test_C06_C09_values_used_often_are_given_once():
    x = Fake()
    emitted, capture = build(None, inputs=[(x, X)], nodes=2, make=lambda a, b: ([b, b, (b,), a], ()))
    assert emitted("value") == ["out1", "out1", ("out1",), "out0"]
    assert len(capture.outputs()) == 2 and len(emitted.calls) == 1


def test_C10_nothing_to_compute():
    emitted, capture = build(None, function=f, sources=[(x := Fake(), X)], make=lambda: (x, ()))
    value = object()
    assert emitted(value) is value and capture.outputs() == []


def test_C10_effects_without_outputs():
    x = Fake()
    emitted, _ = build(None, inputs=[(x, X)], nodes=1)
    assert emitted("value") is None and emitted.calls == [("value",)]


def test_C11_inputs_are_loaded_again():
    def g(self, x):
        return x

    weight, module, config = Fake(), Plain(), [1]
    emitted, _ = build(
        None,
        function=g,
        inputs=[(weight, ("attr", ("local", 0, "self"), "weight"))],
        sources=[(module, ("local", 0, "self")), (config, ("const", config))],
        nodes=1,
        make=lambda a: ([weight, weight, module, config, a], ()),
    )
    owner = Plain(weight=[1])
    first, second, third, fourth, _ = emitted(owner, None)
    assert first is second is owner.weight and third is owner and fourth is config


def test_no_outputs_named_when_the_backend_gives_a_list():
    capture = Capture(f)
    capture.input(x := Fake(), X)
    capture.node(y := Fake(), len, (x,))
    capture.finish((y, y))
    assert capture.emit(lambda x: [x + 1])(1) == (2, 2)
    with pytest.raises(ValueError):
        capture.emit(lambda x: [x, x])(1)


# ---------------------------------------------------------------- sources


class Opaque(Plain):
    """User code in every access."""

    def __getattribute__(self, name):
        raise AssertionError("user code ran")

    hidden = property(lambda self: 1)


class OpaqueList(list):
    def __getitem__(self, index):
        raise AssertionError("user code ran")


class OpaqueDict(dict):
    def __getitem__(self, key):
        raise AssertionError("user code ran")

    def __missing__(self, key):
        raise AssertionError("user code ran")


class Lenient(dict):
    def __missing__(self, key):
        raise AssertionError("user code ran")


class Shadowed:
    value = property(lambda self: "property")


def shadowed():
    made = Shadowed()
    made.__dict__["value"] = [1]
    return made


def opaque(**attributes):
    made = object.__new__(Opaque)
    object.__getattribute__(made, "__dict__").update(attributes)
    return made


SELF = ("local", 0, "x")
SOURCES = [
    (lambda: Plain(a=[1]), ("attr", SELF, "a"), lambda v: v.a),
    (lambda: opaque(a=[1]), ("attr", SELF, "a"), lambda v: object.__getattribute__(v, "a")),
    (shadowed, ("attr", SELF, "value"), lambda v: v.__dict__["value"]),
    (lambda: opaque(a=[1]), ("dict", SELF), lambda v: object.__getattribute__(v, "__dict__")),
    (lambda: Plain(a=[1]), ("dict", SELF), lambda v: v.__dict__),
    (lambda: [[1], [2]], ("item", SELF, 1), lambda v: v[1]),
    (lambda: ([1], [2]), ("item", SELF, 1), lambda v: v[1]),
    (lambda: OpaqueList([[1], [2]]), ("item", SELF, 1), lambda v: list.__getitem__(v, 1)),
    (lambda: collections.deque([[1], [2]]), ("item", SELF, 1), lambda v: v[1]),
    (lambda: Point([1], [2]), ("item", SELF, 0), lambda v: v[0]),
    (lambda: {"a": [1]}, ("key", SELF, "a"), lambda v: v["a"]),
    (lambda: {(1, "b"): [1]}, ("key", SELF, (1, "b")), lambda v: v[1, "b"]),
    (lambda: {Color.RED: [1]}, ("key", SELF, Color.RED), lambda v: v[Color.RED]),
    (lambda: OpaqueDict(a=[1]), ("key", SELF, "a"), lambda v: dict.__getitem__(v, "a")),
    (lambda: Lenient(a=[1]), ("key", SELF, "a"), lambda v: v["a"]),
    (lambda: collections.OrderedDict(a=[1]), ("key", SELF, "a"), lambda v: v["a"]),
    (slotted, ("member", SELF, "a"), lambda v: v.a),
    (lambda: maker(1)[0], ("member", SELF, "__defaults__"), lambda v: v.__defaults__),
    (lambda: maker(1)[0], ("item", ("member", SELF, "__closure__"), 0), lambda v: v.__closure__[0]),
    (lambda: types.CellType([1]), ("cell", SELF), lambda v: v.cell_contents),
    (lambda: Plain(a=1), ("type", SELF), type),
    (lambda: types.MethodType(maker, Plain()), ("member", SELF, "__self__"), lambda v: v.__self__),
    (lambda: types, ("attr", SELF, "MethodType"), lambda v: v.MethodType),
    (lambda: Plain, ("attr", SELF, "__init__"), lambda v: v.__init__),
    (lambda: torch.nn.Linear(2, 2), ("key", ("attr", SELF, "_parameters"), "weight"), lambda v: v.weight),
]  # fmt: skip


@pytest.mark.parametrize("make, path, expected", SOURCES, ids=lambda value: str(value) if isinstance(value, tuple) else "")
def test_sources_are_read_without_user_code(make, path, expected):
    found, later = make(), make()
    wanted = Fake() if path[0] == "type" else expected(found)
    emitted, _ = build([wanted], sources=[(found, SELF), (wanted, path)])
    assert emitted(found)[0] is expected(found)
    assert emitted(later)[0] is expected(later)


def test_common_prefixes_are_loaded_once():
    def g(self):
        pass

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    root = ("attr", ("local", 0, "self"), "_modules")
    paths = [("key", ("attr", ("key", root, str(i)), "_parameters"), name) for i in (0, 1) for name in ("weight", "bias")]
    values = [model[0].weight, model[0].bias, model[1].weight, model[1].bias]
    emitted, capture = build(
        None, function=g, inputs=list(zip(values, paths)), sources=[(model, ("local", 0, "self"))], nodes=1, make=lambda a: (a, ())
    )
    emitted(model)
    assert [id(value) for value in emitted.calls[0]] == [id(value) for value in values]
    assert emitted.__code__.co_code.count(bytes([__import__("dis").opmap["LOAD_ATTR"]])) <= 4
    assert capture.describe().count("._modules") == 1


def deep_model():
    return torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2)) for _ in range(4)])


def deep_paths(module, path):
    for name in module._parameters:
        yield module._parameters[name], ("key", ("attr", path, "_parameters"), name)
    for name, child in module._modules.items():
        yield from deep_paths(child, ("key", ("attr", path, "_modules"), name))


def test_many_inputs_are_loaded_in_c():
    def g(scale, self):
        return captured

    captured, scale = Fake(), Fake()
    model = deep_model()
    inputs = [(scale, ("local", 0, "scale")), *deep_paths(model, ("local", 1, "self")), (captured, ("cell", ("free", 0, "captured")))]
    emitted, capture = build(None, function=g, inputs=inputs, nodes=1, make=lambda a: ([a, model[0][0].weight], ()))
    for each in (model, deep_model()):
        for materialised in (False, True):
            if materialised:
                assert all(module.__dict__ for module in each.modules())
            result = emitted(5, each)
            assert result[0] == "out0" and result[1] is each[0][0].weight
            loaded = emitted.calls.pop()
            assert loaded[0] == 5 and loaded[-1] is captured
            assert [id(value) for value in loaded[1:-1]] == [id(value) for value in each.parameters()]
    assert capture.describe().splitlines()[-2].startswith("len_1, = __compiled_fn_0(*__inputs_0(scale, self, ")
    with pytest.raises(RuntimeError, match="'0'.*does not exist any more"):
        emitted(5, torch.nn.Sequential())
    assert gc.is_tracked(emitted.__globals__["__inputs_0"])


def test_input_loader_after_a_class_gets_other_attributes_first():
    class Holder:
        pass

    def holder(*order):
        made = Holder()
        for name in order:
            setattr(made, name, Fake())
        return made

    def g(x):
        pass

    names = [f"a{i}" for i in range(14)]
    first, second = holder(*names), holder("other", *reversed(names))
    second.__dict__  # no inline values any more
    third = holder(*names)
    del third.a3
    third.a3 = Fake()
    emitted, _ = build(
        None,
        function=g,
        inputs=[(getattr(first, name), ("attr", SELF, name)) for name in names],
        sources=[(first, SELF)],
        nodes=1,
        make=lambda a: (a, ()),
    )
    for each in (first, second, third, first):
        emitted(each)
        assert list(emitted.calls.pop()) == [getattr(each, name) for name in names]


def test_names_do_not_clash_with_the_users(request):  # C18
    def g(tmp_0, graph_out_0, new_list, __compiled_fn_0, dict, globals_of_test_codegen):
        len_1 = tmp_0
        return len_1

    x = Fake()

    def make(a):
        shared = [a]
        shared.append(shared)
        return (shared, ())

    emitted, _ = build(None, function=g, inputs=[(x, ("local", 3, "__compiled_fn_0"))], nodes=1, make=make)
    result = emitted(1, 2, 3, 4, 5, 6)
    assert result[0] == "out0" and result[1] is result and emitted.calls == [(4,)]
    assert len(set(emitted.__code__.co_varnames)) == len(emitted.__code__.co_varnames)
    assert "len_1" not in emitted.__code__.co_varnames


def test_objects_named_alike_keep_apart():
    class Plain:  # noqa: F811
        pass

    local, outer = Plain(), globals()["Plain"]()
    emitted, _ = build([local, outer], sources=[(Plain, ("const", Plain))])
    made = emitted(None)
    assert type(made[0]) is Plain and type(made[1]) is globals()["Plain"]


# ---------------------------------------------------------------- signature


def test_C17_every_argument_slot_is_positional():
    def g(a, /, b, *rest, c, d=1, **extra):
        pass

    values = [Fake() for _ in range(6)]
    names = ["a", "b", "c", "d", "rest", "extra"]
    emitted, _ = build(values[::-1], function=g, sources=[(v, ("local", i, n)) for i, (v, n) in enumerate(zip(values, names))])
    assert emitted(1, 2, 3, 4, (5,), {"e": 6}) == [{"e": 6}, (5,), 4, 3, 2, 1]
    code, original = emitted.__code__, g.__code__
    assert code.co_varnames[:6] == original.co_varnames[:6] and code.co_argcount == 6
    assert (code.co_name, code.co_qualname, code.co_filename) == (original.co_name, original.co_qualname, original.co_filename)
    assert code.co_firstlineno == original.co_firstlineno
    assert emitted.__module__ == __name__ and emitted.__globals__ is not globals()


def test_many_arguments():
    names = [f"a{i}" for i in range(300)]
    scope = {}
    exec(f"def g({', '.join(names)}): pass", scope)
    values = [Fake() for _ in names]
    emitted, _ = build(
        None,
        function=scope["g"],
        inputs=[(v, ("local", i, n)) for i, (v, n) in enumerate(zip(values, names))],
        nodes=300,
        make=lambda *fakes: (list(fakes), ()),
    )
    assert emitted(*range(300)) == [f"out{i}" for i in range(300)] and emitted.calls == [tuple(range(300))]


def test_closures_and_cells():
    seen, other = [1], 2

    def g(x):
        return seen, other

    cells = dict(zip(g.__code__.co_freevars, g.__closure__))
    index = g.__code__.co_freevars.index("seen")
    cell_path = ("free", index, "seen")
    emitted, capture = build(
        [seen, cells["seen"], seen], function=g, sources=[(seen, ("cell", cell_path)), (cells["seen"], cell_path)]
    )
    result = emitted(None)
    assert result[0] is seen and result[1] is cells["seen"]
    assert emitted.__closure__ == g.__closure__ and emitted.__code__.co_freevars == g.__code__.co_freevars
    seen = "changed"
    assert emitted(None)[0] == "changed"


# ---------------------------------------------------------------- effects


def effect(kind, target, value=..., **more):
    return (kind, target, {"value": value, **more} if value is not ... else more)


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
        emitted, capture = build(
            None,
            sources=[(value, SELF), (value.__dict__, ("dict", SELF))],
            effects=[effect("SetDict", value.__dict__, {"b": [3], "c": 4})],
        )
        emitted(later)
        assert list(later.__dict__.items()) == [("b", [3]), ("c", 4)]


def test_instance_dict_effect_under_a_property():
    value, later = shadowed(), shadowed()
    emitted, _ = build(
        None, sources=[(value, SELF), (value.__dict__, ("dict", SELF))], effects=[effect("SetDict", value.__dict__, {"value": 5})]
    )
    emitted(later)
    assert later.__dict__ == {"value": 5}


def test_instance_dict_effect_that_changes_the_order():
    value, later = Plain(a=1, b=2), Plain(a=1, b=2)
    emitted, _ = build(
        None, sources=[(value, SELF), (value.__dict__, ("dict", SELF))], effects=[effect("SetDict", value.__dict__, {"b": 2, "a": 1})]
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
    emitted, _ = build(None, sources=[(function, SELF)], effects=[effect("SetAttr", function, (1, 2), name="__defaults__")])
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
    emitted, _ = build([content], function=g, sources=[(cell, path), (content, ("cell", path))], effects=[effect("SetCell", cell, "new")])
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

    emitted, capture = build(None, inputs=[(x, X)], sources=[(seen, ("const", seen)), (note, ("const", note))], nodes=1, make=make)
    later = emitted("value")
    assert later == ["out0"] and seen[0] is later and seen[1] == 2
    assert log == [(("before", "out0"), {}, []), (("after",), {"key": later}, [later])]
    assert log[1][1]["key"] is later


def test_describe_names_everything():
    x = Fake()
    emitted, capture = build(
        None, inputs=[(x, X)], nodes=2, make=lambda a, b: ({"a": a, "o": Plain(value=b)}, [effect("Call", print, args=("hello",))])
    )
    assert capture.describe().splitlines() == [
        "len_1, len_2 = __compiled_fn_0(x)",
        "new_Plain = object___new__(Plain)",
        "new_Plain.value = len_2",
        "print('hello')",
        "return {'a': len_1, 'o': new_Plain}",
    ]


# ---------------------------------------------------------------- memory


def test_nothing_leaks():
    x = Fake()
    emitted, _ = build(None, inputs=[(x, X)], nodes=1, make=lambda a: ([a, Plain(a=a), {1, 2}, MyList.of(a)], ()))
    emitted("value")
    emitted.calls.clear()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        emitted("value")
        emitted.calls.clear()
    gc.collect()
    assert len(gc.get_objects()) - before < 20


def test_captures_are_freed():
    import weakref

    value = Plain()
    held = weakref.ref(value)
    build([value])
    del value
    gc.collect()
    assert held() is None
