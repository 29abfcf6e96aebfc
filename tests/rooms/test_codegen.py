"""The emitted function: the graph call, loads, names, signature."""

import collections
import dis
import gc
import types
import weakref

import pytest
import torch

from support.captures import (
    SELF,
    Capture,
    Color,
    Fake,
    Lenient,
    MyList,
    OpaqueDict,
    OpaqueList,
    Plain,
    Point,
    X,
    build,
    f,
    maker,
    opaque,
    shadowed,
    slotted,
)

# ---------------------------------------------------------------- the graph call


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
    with pytest.raises(ValueError, match="unpack"):
        capture.emit(lambda x: [x, x])(1)


# ---------------------------------------------------------------- sources


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
    (lambda: types.MethodType(maker, Plain()), ("member", SELF, "__self__"), lambda v: v.__self__),
    (lambda: types, ("attr", SELF, "MethodType"), lambda v: v.MethodType),
    (lambda: Plain, ("attr", SELF, "__init__"), lambda v: v.__init__),
    (lambda: torch.nn.Linear(2, 2), ("key", ("attr", SELF, "_parameters"), "weight"), lambda v: v.weight),
]  # fmt: skip


@pytest.mark.parametrize(
    "make, path, expected", SOURCES, ids=lambda value: str(value) if isinstance(value, tuple) else ""
)
def test_sources_are_read_without_user_code(make, path, expected):
    found, later = make(), make()
    wanted = expected(found)
    emitted, _ = build([wanted], sources=[(found, SELF), (wanted, path)])
    assert emitted(found)[0] is expected(found)
    assert emitted(later)[0] is expected(later)


# Larger than the ints that Python has once: those are constants of the emitted code.
@pytest.mark.parametrize(
    "path, text, expected",
    [
        (("size", SELF, 0), "size_of(x, 0)", lambda v: v.size(0)),
        (("size", SELF, 1), "size_of(x, 1)", lambda v: v.size(1)),
        (("stride", SELF, 0), "stride_of(x, 0)", lambda v: v.stride(0)),
    ],
)
def test_sizes_and_strides_are_read_from_the_tensor(path, text, expected):
    found, later = torch.empty(1000, 2000), torch.empty(3000, 4000)
    wanted = expected(found)
    emitted, capture = build([wanted], sources=[(found, SELF), (wanted, path)])
    assert text in capture.describe()
    assert emitted(found) == [expected(found)] and emitted(later) == [expected(later)] != [wanted]
    for other in ([1], torch.tensor(1), torch.ones(2, 3).to_sparse()):
        with pytest.raises(LookupError, match=f"a tensor has no plain dim {path[2]}"):
            emitted(other)


def test_common_prefixes_are_loaded_once():
    def g(self):
        pass

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    root = ("attr", ("local", 0, "self"), "_modules")
    paths = [
        ("key", ("attr", ("key", root, str(i)), "_parameters"), name) for i in (0, 1) for name in ("weight", "bias")
    ]
    values = [model[0].weight, model[0].bias, model[1].weight, model[1].bias]
    emitted, capture = build(
        None,
        function=g,
        inputs=list(zip(values, paths)),
        sources=[(model, ("local", 0, "self"))],
        nodes=1,
        make=lambda a: (a, ()),
    )
    emitted(model)
    assert [id(value) for value in emitted.calls[0]] == [id(value) for value in values]
    assert emitted.__code__.co_code.count(bytes([dis.opmap["LOAD_ATTR"]])) <= 4
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
    inputs = [
        (scale, ("local", 0, "scale")),
        *deep_paths(model, ("local", 1, "self")),
        (captured, ("cell", ("free", 0, "captured"))),
    ]
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
    with pytest.raises(RuntimeError, match=r"'0'.*does not exist any more"):
        emitted(5, torch.nn.Sequential())
    assert gc.is_tracked(emitted.__globals__["__inputs_0"])


def test_sizes_are_loaded_in_c():
    def g(self):
        pass

    model = deep_model()
    paths = [path for _, path in deep_paths(model, ("local", 0, "self"))]
    inputs = [(Fake(), (step, path, 0)) for path in paths for step in ("size", "stride")]
    emitted, capture = build(None, function=g, inputs=inputs, nodes=1, make=lambda a: (a, ()))
    assert "__inputs_0(self)" in capture.describe()
    for width in (2, 1000):
        each = deep_model()
        for linear in each.modules():
            if isinstance(linear, torch.nn.Linear):
                linear.weight = torch.nn.Parameter(torch.ones(width, 3))
        emitted(each)
        assert list(emitted.calls.pop()) == [n for p in each.parameters() for n in (p.size(0), p.stride(0))]
    each[0][0].weight = torch.nn.Parameter(torch.tensor(1.0))
    with pytest.raises(RuntimeError, match=r"'weight'\].size\(0\) does not exist any more"):
        emitted(each)


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


def test_C18_names_do_not_clash_with_the_users():
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
    class Plain:
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
    emitted, _ = build(
        values[::-1], function=g, sources=[(v, ("local", i, n)) for i, (v, n) in enumerate(zip(values, names))]
    )
    assert emitted(1, 2, 3, 4, (5,), {"e": 6}) == [{"e": 6}, (5,), 4, 3, 2, 1]
    code, original = emitted.__code__, g.__code__
    assert code.co_varnames[:6] == original.co_varnames[:6] and code.co_argcount == 6
    assert (code.co_name, code.co_qualname, code.co_filename) == (
        original.co_name,
        original.co_qualname,
        original.co_filename,
    )
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
    emitted, _capture = build(
        [seen, cells["seen"], seen], function=g, sources=[(seen, ("cell", cell_path)), (cells["seen"], cell_path)]
    )
    result = emitted(None)
    assert result[0] is seen and result[1] is cells["seen"]
    assert emitted.__closure__ == g.__closure__ and emitted.__code__.co_freevars == g.__code__.co_freevars
    seen = "changed"
    assert emitted(None)[0] == "changed"


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

    value = Plain()
    held = weakref.ref(value)
    build([value])
    del value
    gc.collect()
    assert held() is None
