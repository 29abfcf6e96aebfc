"""Inputs and attributes of the captured graph: one for each object, their order, names, sources and keys (docs/feature_rows.md, A08 to A16)."""

from __future__ import annotations

import inspect
import sys
import types

import pytest
import torch
from torch import nn

import pellucid
from pellucid import _core
from pellucid._fx import module_key_name
from support import same
from support.graphs import Block, compiled_for, placeholders

# A08, A09, A10: inputs
G_TENSOR = torch.full((3,), 2.0)


def test_A08_one_input_for_each_source(recording):
    def f(x):
        return x * x + x.sin() + G_TENSOR * G_TENSOR

    x = torch.rand(3)
    assert same(compiled_for(recording, f)(x), f(x))
    assert [n._dynamo_source.name for n in placeholders(recording.graphs[0])] == ["L['x']", "G['G_TENSOR']"]


def test_A09_one_input_for_each_object(recording):
    def f(a, b, c):
        return a + b * c[0] + G_TENSOR

    compiled, x, y = compiled_for(recording, f), torch.rand(3), torch.rand(3)
    cases = [(x, x, [x]), (x, y, [x]), (G_TENSOR, y, [y]), (x, y, [torch.rand(3)])]
    for case in cases + cases:
        assert same(compiled(*case), f(*case))
    assert [len(inputs) for _, inputs in recording.seen] == [2, 3, 2, 4]


l_x_ = torch.full((3,), 3.0)  # its input would have the name of that of a local x


def test_A10_inputs_are_first_and_in_order_of_use(recording):
    def f(unused, x, y):
        z = torch.zeros(3) + 1
        z = z + y
        z = z.sin() * G_TENSOR
        return z - x

    x, y = torch.rand(3), torch.rand(3)
    assert same(compiled_for(recording, f)(x + 1, x, y), f(x + 1, x, y))
    (gm,) = recording.graphs
    assert [n.op for n in gm.graph.nodes][:4] == ["placeholder"] * 3 + ["call_function"]
    assert [n._dynamo_source.name for n in placeholders(gm)] == ["L['y']", "G['G_TENSOR']", "L['x']"]
    assert recording.seen[0][1][0] is y and recording.seen[0][1][1] is G_TENSOR


def test_A10_like_names_stay_distinct(recording):
    def f(x, x_, G):
        l_x_0 = x * 2  # a variable of the program
        return x + x_ + l_x_ + G["l_x_"] + l_x_0

    inputs = torch.rand(3), torch.rand(3), {"l_x_": torch.rand(3)}
    assert same(compiled_for(recording, f)(*inputs), f(*inputs))
    (gm,) = recording.graphs
    gm.graph.lint()
    names = [n.name for n in gm.graph.nodes]
    assert len(set(names)) == len(names) and len(placeholders(gm)) == 4
    assert same(torch.fx.GraphModule({}, gm.graph)(*recording.seen[0][1])[0], f(*inputs))  # the text of the graph too


def test_A10_an_input_needs_a_source():
    with pytest.raises(Exception, match="input without a source"):
        _core._graph.GraphBuilder().placeholder("")


# A11: where inputs come from

OTHER = types.ModuleType("another_module")
exec(
    """
import torch
G_TENSOR = torch.full((3,), 7.0)
def shift(x, *, by=torch.full((3,), 5.0)):
    return x + G_TENSOR + by
""",
    OTHER.__dict__,
)


@pytest.fixture(autouse=True)
def other_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "another_module", OTHER)


class Holder:
    __slots__ = ("__dict__", "slot")
    of_class = torch.full((3,), 1.5)

    def __init__(self):
        self.slot = torch.rand(3)
        self.attribute = torch.rand(3)
        self.table = {
            "a b": torch.rand(3),
            3: [torch.rand(3)],
            torch.float32: torch.rand(3),
            (1, torch.int8): torch.rand(3),
        }

    @classmethod
    def of(cls, x, weight=torch.full((3,), 0.5)):
        return x * weight

    @staticmethod
    def twice(x, weight=torch.full((3,), 2.0)):
        return x * weight

    @property
    def total(self, weight=torch.full((3,), 0.25)):
        return self.attribute * weight


HOLDER = Holder()


def with_default(x, weight=torch.full((3,), 4.0)):
    return x * weight


def maker():
    cell = torch.rand(3)

    def inner(x):
        return x + cell

    return inner


INNER = maker()


def arguments(x, *args, key, **kwargs):
    return x + args[1] + key + kwargs["more"][0]


def of_instances(x):
    table = HOLDER.table
    return x + HOLDER.slot + HOLDER.attribute + table["a b"] + table[3][0] + table[torch.float32] + table[1, torch.int8]


def of_classes(x, holder):
    return Holder.of(x) + HOLDER.of_class + holder.total + holder.twice(x)


def with_nested_default(x, weights=(1, (torch.full((3,), 6.0),))):
    return x * weights[1][0]


def of_functions(x):
    return with_nested_default(INNER(with_default(x)))


def of_another_module(x):
    return OTHER.shift(x) + G_TENSOR


def of_an_import(x):
    from another_module import shift

    return shift(x)


def gradients(x):
    return x.grad * 2


def with_gradient():
    x = torch.rand(3, requires_grad=True)
    x.sum().backward()
    return x


CASES = {
    "arguments": (arguments, lambda: ((torch.rand(3), 1, torch.rand(3)), {"key": torch.rand(3), "more": [torch.rand(3)]})),
    "instances": (of_instances, lambda: ((torch.rand(3),), {})),
    "classes": (of_classes, lambda: ((torch.rand(3), Holder()), {})),
    "functions": (of_functions, lambda: ((torch.rand(3),), {})),
    "free variables": (INNER, lambda: ((torch.rand(3),), {})),
    "another module": (of_another_module, lambda: ((torch.rand(3),), {})),
    "an import": (of_an_import, lambda: ((torch.rand(3),), {})),
    "gradients": (gradients, lambda: ((with_gradient(),), {})),
}  # fmt: skip


def scope_of(function, args, kwargs):
    """What the names of sources are evaluated in: the arguments as the function sees them, its globals."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return {"L": {**bound.arguments, **inspect.getclosurevars(function).nonlocals}, "G": function.__globals__}


@pytest.mark.parametrize("case", CASES)
def test_A11_each_input_says_where_it_comes_from(case, recording):
    function, make = CASES[case]
    args, kwargs = make()
    assert same(compiled_for(recording, function)(*args, **kwargs), function(*args, **kwargs))
    ((gm, inputs),) = recording.seen
    scope = {**scope_of(function, args, kwargs), "torch": torch}
    found = placeholders(gm)
    assert len(found) == len(inputs) >= 1
    for node, example in zip(found, inputs):
        name = node._dynamo_source.name
        assert eval(name, scope) is example, name
        assert node.meta["grapharg"].source is node._dynamo_source and node.meta["grapharg"].example is None
    assert len({node._dynamo_source for node in found}) == len(found)


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_A11_globals_of_one_name_are_different_inputs(backend):
    x = torch.rand(3)
    assert same(pellucid.compile(of_another_module, backend=backend, fullgraph=True)(x), of_another_module(x))


class UsesGlobals(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) + G_TENSOR


def test_A11_inputs_of_a_module(recording):
    module, x = UsesGlobals(), torch.rand(3)
    assert same(compiled_for(recording, module)(x), module(x))
    ((gm, inputs),) = recording.seen
    scope = {"L": {"self": module, "args": (x,), "kwargs": {}}, "G": globals()}
    assert len(inputs) == 4 and "G['G_TENSOR']" in [n._dynamo_source.name for n in placeholders(gm)]
    assert all(eval(n._dynamo_source.name, scope) is example for n, example in zip(placeholders(gm), inputs))


# A12: what is no input is guarded all the same


def test_A12_pruned_inputs_stay_guarded(recording):
    def f(x, y):
        dead = x * 2
        if dead.shape[0] == 3:
            return y + 1
        return y - 1

    compiled, y = compiled_for(recording, f), torch.rand(2)
    for x, graphs in ((torch.rand(3), 1), (torch.rand(3), 1), (torch.rand(4), 2), (torch.rand(3, 1), 3)):
        assert same(compiled(x, y), f(x, y))
        assert len(recording.seen) == graphs


def test_A12_tensors_that_only_python_looked_at(recording):
    def f(holder, y):
        return y + 1 if holder.attribute.dim() == 1 else y - 1

    compiled, holder, y = compiled_for(recording, f), Holder(), torch.rand(2)
    for shape, graphs in (((3,), 1), ((3, 3), 2), ((3,), 2)):
        holder.attribute = torch.rand(shape)
        assert same(compiled(holder, y), f(holder, y))
        assert len(recording.seen) == graphs
        assert [n._dynamo_source.name for n in placeholders(recording.graphs[-1])] == ["L['y']"]


# A13, A16: tensors that the graph holds itself


def static(value):
    tensor = torch.full((3,), float(value))
    tensor._dynamo_static_input_type = "guarded"  # what torch._dynamo.mark_static_address(tensor, guard=True) sets
    return tensor


def test_A13_a_guarded_static_tensor_is_an_attribute(recording):
    def f(x, holder):
        return x + holder.weight * holder.same

    holder, x = types.SimpleNamespace(weight=static(2)), torch.rand(3)
    holder.same = holder.weight
    compiled = compiled_for(recording, f)
    for _ in range(2):
        assert same(compiled(x, holder), f(x, holder))
    ((gm, inputs),) = recording.seen
    (node,) = gm.graph.find_nodes(op="get_attr")
    assert [n._dynamo_source.name for n in placeholders(gm)] == ["L['x']"] and len(inputs) == 1
    assert getattr(gm, node.target) is holder.weight and node.target == "L__holder___weight"
    assert gm._param_name_to_source[node.target].name == "L['holder'].weight"
    assert node.meta["tensor_dict"] == {"_dynamo_static_input_type": "guarded"}
    assert same(torch.fx.GraphModule(gm, gm.graph)(x), (f(x, holder),))
    holder.weight = holder.same = static(3)
    assert same(compiled(x, holder), f(x, holder))
    assert len(recording.seen) == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_A13_it_may_be_written(backend):
    weight = static(0)

    def f(x):
        weight.add_(x)
        x.mul_(2)
        return weight * 1

    def eager(x, weight):
        weight.add_(x)
        x.mul_(2)
        return weight * 1

    compiled, expected = pellucid.compile(f, backend=backend, fullgraph=True), torch.zeros(3)
    for _ in range(3):
        x = torch.rand(3)
        assert same(compiled(x.clone()), eager(x.clone(), expected)) and same(weight, expected)
    assert same(compiled(weight.view(3)), eager(expected.view(3), expected)) and same(weight, expected)


def test_A13_an_unguarded_static_tensor_is_an_input(recording):
    x, weight = torch.rand(3), torch.rand(3)
    weight._dynamo_static_input_type = "unguarded"
    assert same(compiled_for(recording, lambda a, b: a + b)(x, weight), x + weight)
    assert [n.meta["tensor_dict"] for n in placeholders(recording.graphs[0])] == [
        {},
        {"_dynamo_static_input_type": "unguarded"},
    ]


LEAVES = ["lin.weight", "lin.bias", "b"]


@pytest.mark.parametrize(
    "call, key, source",
    [
        (lambda m, x: m(x), "m", "L['m']"),
        (lambda ms, x: ms[0](x), "ms___0", "L['ms'][0]"),
        (lambda holder, x: holder.inner(x), "L__holder___inner", "L['holder'].inner"),
    ],
)
def test_A14_parameters_have_names_and_sources(call, key, source, recording):
    block, x = Block(), torch.rand(3)
    owner = {"m": block, "ms___0": [block]}.get(key, types.SimpleNamespace(inner=block))
    assert same(compiled_for(recording, call)(owner, x), block(x))
    sources = recording.graphs[0]._param_name_to_source
    assert list(sources) == [f"{key}.{leaf}" for leaf in LEAVES]
    scope = {"L": {"m": owner, "ms": owner, "holder": owner}}
    for leaf in LEAVES:
        path, _, name = leaf.rpartition(".")
        assert eval(sources[f"{key}.{leaf}"].name, scope) is getattr(block.get_submodule(path), name)


def test_A14_another_module_is_noticed(recording):
    compiled, x = compiled_for(recording, lambda m, x: m(x)), torch.rand(3)
    other_bias = Block()
    other_bias.lin.bias = None
    for module, graphs in ((Block(), 1), (Block(), 1), (nn.Sequential(Block()), 2), (other_bias, 3), (Block(), 3)):
        assert same(compiled(module, x), module(x))
        assert len(recording.seen) == graphs  # parameters are inputs: other ones of the same kind need no new graph


def test_A15_original_names_of_the_parameters_of_local_modules(recording):
    block = Block()
    compiled_for(recording, block)(torch.rand(3))
    expected = {"L__self___lin_weight": "lin.weight", "L__self___lin_bias": "lin.bias", "L__self___b": "b"}
    assert recording.graphs[0].meta["dynamo_flat_name_to_original_fqn"] == expected
    assert set(expected.values()) == set(block.state_dict())


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.b.weight = self.a.weight
        self.c = nn.Linear(3, 3)
        self.c.weight = nn.Parameter(self.a.weight.detach().clone())  # equal, but another object

    def forward(self, x):
        return self.c(self.b(self.a(x)))


def test_A16_tied_weights_are_one_input(recording):
    module, x = Tied(), torch.rand(3)
    assert same(compiled_for(recording, module)(x), module(x))
    ((gm, inputs),) = recording.seen
    weights = [n.args[1] for n in gm.graph.nodes if n.target is torch._C._nn.linear]
    assert weights[0] is weights[1] and weights[2] is not weights[0]
    assert len(inputs) == len(list(module.parameters())) + 1


@pytest.mark.parametrize(
    "source, key",
    [
        ("G['m']", "m"),
        ("L['self']._modules['lin']._parameters['weight']", "L__self___lin_weight"),
        ("L['x'].layers[3].w", "L__x___layers_3_w"),
        ("L['0abc']", "sub0abc"),
        ("L['_x']", "sub_x"),
        ("G['d'][3]", "d___3"),
        ("", "sub"),
        ("G['forward']", "forward_0"),
        ("G['training']", "training_0"),
    ],
)
def test_A16_text_of_keys(source, key):
    assert module_key_name(source) == key


def test_A16_keys_of_attributes(recording):
    first, second = static(1), static(2)

    def f(ws, names):
        return ws[3] + names["[3"] + ws[3] * names["a b"]

    ws, names = [0, 1, 2, first], {"[3": second, "a b": first}
    assert same(compiled_for(recording, f)(ws, names), f(ws, names))
    nodes = recording.graphs[0].graph.find_nodes(op="get_attr")
    assert [n.target for n in nodes] == [module_key_name("L['ws'][3]"), module_key_name("L['names']['[3']")]


CLASH = static(1)


def test_A16_keys_do_not_clash(recording):
    def f(CLASH_0, x):
        return x + CLASH * CLASH_0["CLASH"] - CLASH_0.get("w")

    first = {"CLASH": static(2), "w": static(3)}
    x = torch.rand(3)
    assert same(compiled_for(recording, f)(first, x), f(first, x))
    (gm,) = recording.graphs
    targets = [n.target for n in gm.graph.find_nodes(op="get_attr")]
    assert targets[0] == "CLASH_0"  # a global of the program has the plain name, as torch._dynamo has it
    assert len(set(targets)) == 3
    gm.graph.lint()
