"""The graph room and the hand-off: names, truncation, simplification, the native forward, torch.fx graphs and modules."""

import collections
import copy
import dis
import gc
import inspect
import operator
import pickle
import random
import sys
import traceback
import weakref

import pytest
import torch
import torch.nn.functional as F

from pellucid import _core

GraphBuilder = _core._graph.GraphBuilder
site = _core._graph.site


def meta(*size):
    return torch.empty(*size, device="meta")


def linear_graph(x=None, weight=None):
    """y = linear(x, w); z = y.view(-1, 3) + 1; return z, y"""
    g = GraphBuilder()
    px = g.placeholder("L['x']", meta(2, 3), real=x)
    pw = g.placeholder("L['self']._modules['lin']._parameters['weight']", meta(3, 3), real=weight)
    y = g.call_function(torch._C._nn.linear, (px, pw), {}, meta(2, 3))
    g.rename(y, "y")
    v = g.call_method("view", (y, -1, 3), {}, meta(2, 3))
    z = g.call_function(operator.add, (v, 1), {}, meta(2, 3))
    g.output([z, y])
    return g


X, W = torch.arange(6.0).view(2, 3), torch.eye(3) * 2
EXPECTED = (X * 2 + 1, X * 2)


def assert_equal_tensors(got, expected):
    assert type(got) is tuple and len(got) == len(expected)
    for a, b in zip(got, expected):
        assert torch.equal(a, b)


# Names


def test_names_of_inputs_calls_and_variables():
    g = linear_graph()
    assert g.names == ["l_x_", "l_self_modules_lin_parameters_weight_", "y", "view", "add"]


@pytest.mark.parametrize(
    "source, target",
    [
        ("L['x']", "L_x_"),
        ("L['self']._modules['seq']._modules['0']._buffers['mean']", "L_self_modules_seq_modules_0_buffers_mean_"),
        ("L['args'][0]", "L_args_0_"),
        ("L['s'].t", "L_s_t"),
        ("G['GD']['a b']", "G_GD_a_b_"),
        ("F['w'].cell_contents", "L_w_"),
        ("F['w'].cell_contents.x", "L_w_x"),
        ("L['straße']", "L_stra_e_"),
    ],
)
def test_targets_of_inputs(source, target):
    assert GraphBuilder().placeholder(source).target == target


def test_inputs_of_like_names_are_distinct():
    g = GraphBuilder()
    refs = [g.placeholder(source) for source in ("L['x']", "L['x_']", "L['x'][0]", "L['X']")]
    assert [ref.target for ref in refs] == ["L_x_", "L_x__0", "L_x_0_", "L_X_"]
    assert len(set(g.names)) == 4


def random_name(rng):
    pieces = [
        "a",
        "B",
        "x",
        "_",
        "__",
        "1",
        "02",
        "camelCase",
        "ReLU",
        "sum",
        "é",
        ".",
        "-",
        "_3",
        "in",
        "torch",
        "False",
        "if",
        "print",
    ]
    return "".join(rng.choice(pieces) for _ in range(rng.randint(1, 4)))


@pytest.mark.parametrize("seed", range(50))
def test_names_are_those_of_torch_fx(seed):
    rng = random.Random(seed)
    ours, theirs = GraphBuilder(), torch.fx.Graph()
    refs, nodes = [], []
    for _ in range(60):
        if rng.random() < 0.3 and refs:
            i = rng.randrange(len(refs))
            variable = random_name(rng)
            if refs[i] is not None:
                ours.rename(refs[i], variable)
                nodes[i]._rename(variable)
                refs[i] = None  # the first variable names it
            continue
        method = random_name(rng)
        refs.append(ours.call_method(method, ()))
        nodes.append(theirs.create_node("call_method", method))
    assert ours.names == [node.name for node in nodes]
    ours.output([])
    theirs.output(())
    made = ours.fx_graph()
    for candidate in (random_name(rng) for _ in range(50)):  # later edits go on alike
        assert made.create_node("call_method", candidate).name == theirs.create_node("call_method", candidate).name


def test_callables_name_their_nodes():
    g = GraphBuilder()
    for target in (torch.max, F.relu, torch.ops.aten.add, torch.ops.aten.add.Tensor, operator.iadd, int):
        g.call_function(target, ())
    assert g.names == ["max_1", "relu", "add", "add_tensor", "iadd", "int_1"]


def test_a_variable_named_output_does_not_clash():
    g = GraphBuilder()
    x = g.placeholder("L['x']")
    y = g.call_function(torch.sin, (x,))
    g.rename(y, "output")
    g.output([y])
    graph = g.fx_graph()
    graph.lint()
    assert [n.name for n in graph.nodes] == ["l_x_", "output", "output_1"]


# Simplification


def test_D16_dead_reads_and_then_unused_inputs_go():
    g = GraphBuilder()
    x, y, z = (g.placeholder(f"L['{n}']") for n in "xyz")
    pair = g.call_function(operator.getitem, (z, 0))
    g.call_function(operator.getitem, (pair, 1))
    g.call_function(torch.sin, (y,))  # dead, but it may fail at run time
    g.output([g.call_function(torch.cos, (x,))])
    g.simplify()
    assert g.names == ["l_x_", "l_y_", "sin", "cos"]
    assert [n.name for n in g.fx_graph().nodes] == ["l_x_", "l_y_", "sin", "cos", "output"]


def switch(g, enabled):
    return g.call_function(torch._C._set_grad_enabled, (enabled,), impure=True)


@pytest.mark.parametrize(
    "steps, kept",
    [
        ([False, True], []),
        ([False, "op", True], [False, "op", True]),
        (["op", False, True, False, True, "op"], ["op", "op"]),
        ([True, False], [False]),  # grad mode is on at the start
        ([False, False, True], []),
    ],
)
def test_cancelled_grad_modes_go(steps, kept):
    g = GraphBuilder()
    x = g.placeholder("L['x']")
    for step in steps:
        x = g.call_function(torch.sin, (x,)) if step == "op" else switch(g, step) and x
    g.output([x])
    g.simplify()
    nodes = [n for n in g.fx_graph().nodes if n.op == "call_function"]
    assert [n.args[0] if n.target is torch._C._set_grad_enabled else "op" for n in nodes] == kept


# The native forward


def test_native_forward():
    forward = linear_graph().native_forward()
    assert list(inspect.signature(forward).parameters) == ["L_x_", "L_self_modules_lin_parameters_weight_"]
    assert_equal_tensors(forward(X, W), EXPECTED)


BINARY = "add and_ floordiv lshift mul mod or_ rshift sub xor iadd iand ifloordiv ilshift imul imod ior irshift isub ixor lt le eq ne gt ge"


@pytest.mark.parametrize("name", BINARY.split() + ["pow", "ipow", "truediv", "itruediv", "matmul", "imatmul"])
def test_operators_are_opcodes_with_the_same_meaning(name):
    function = getattr(operator, name)
    integers = name not in ("truediv", "itruediv", "matmul", "imatmul")
    a = torch.tensor([[5, 6], [7, 9]]) if integers else torch.tensor([[5.0, 6], [7, 9]])
    b = torch.tensor([[1, 2], [3, 2]]) if integers else torch.tensor([[1.0, 2], [3, 2]])
    g = GraphBuilder()
    pa, pb = g.placeholder("L['a']"), g.placeholder("L['b']")
    g.output([g.call_function(function, (pa, pb))])
    forward = g.native_forward()
    assert name not in forward.__globals__
    assert_equal_tensors(forward(a.clone(), b), (function(a.clone(), b),))


@pytest.mark.parametrize("name", ["neg", "pos", "invert"])
def test_unary_operators(name):
    g = GraphBuilder()
    g.output([g.call_function(getattr(operator, name), (g.placeholder("L['a']"),))])
    assert_equal_tensors(g.native_forward()(torch.tensor([3])), (getattr(operator, name)(torch.tensor([3])),))


def echo(*args, **kwargs):
    return args, kwargs


Pair = collections.namedtuple("Pair", "a b")


def test_every_kind_of_argument():
    g = GraphBuilder()
    a, b = g.placeholder("L['a']"), g.placeholder("L['b']")
    args = (
        [a, [b, 1]],
        (a, (b,), ()),
        Pair(a, 2),
        torch.Size([1, 2]),
        {"k": a, 3: [b]},
        slice(a, None, b),
        slice(1, None),
        1,
        True,
        1.0,
        0.0,
        -0.0,
        "text",
        None,
        ...,
        torch.float32,
        torch.device("cpu"),
        (1, (2.5, "x")),
        float("inf"),
    )
    g.output([g.call_function(echo, args, {"key": a, "other": [b]})])
    expect = (
        [7, [8, 1]], (7, (8,), ()), Pair(7, 2), torch.Size([1, 2]), {"k": 7, 3: [8]}, slice(7, None, 8), slice(1, None), 1, True, 1.0,
        0.0, -0.0, "text", None, ..., torch.float32, torch.device("cpu"), (1, (2.5, "x")), float("inf"),
    )  # fmt: skip
    ((got, kwargs),) = g.native_forward()(7, 8)
    assert got == expect and kwargs == {"key": 7, "other": [8]}
    assert [type(x) for x in got] == [type(x) for x in expect]
    assert [repr(x) for x in got] == [repr(x) for x in expect]  # -0.0, True
    ((got, kwargs),) = torch.fx.Interpreter(g.graph_module()).run(7, 8)
    assert repr(got) == repr(expect).replace("torch.Size([1, 2])", "(1, 2)")  # torch.fx makes tuples of them


def test_constant_containers_are_fresh_each_time():
    g = GraphBuilder()
    g.output([g.call_function(echo, ([1], {"a": 1}))])
    forward = g.native_forward()
    first, second = forward()[0][0], forward()[0][0]
    assert first == second == ([1], {"a": 1})
    assert first[0] is not second[0] and first[1] is not second[1]


def test_values_are_freed_behind_their_last_use():
    alive = []

    def make(x):
        made = x.clone()
        alive.append(weakref.ref(made))
        return made

    seen = []

    def look(x):
        seen.append([ref() is not None for ref in alive])
        return x

    g = GraphBuilder()
    x = g.placeholder("L['x']")
    a = g.call_function(make, (x,))
    b = g.call_function(make, (a,))
    g.call_function(make, (b,))  # never used
    c = g.call_function(look, (x,))
    d = g.call_function(torch.add, (b, c))
    g.call_function(look, (c,))
    g.output([d])
    g.native_forward()(torch.ones(1))
    assert seen == [[False, True, False], [False, False, False]]


def test_an_output_twice_and_an_input_as_output():
    g = GraphBuilder()
    x, unused = g.placeholder("L['x']"), g.placeholder("L['unused']")
    y = g.call_function(torch.sin, (x,))
    g.output([y, x, y])
    assert_equal_tensors(g.native_forward()(X, None), (X.sin(), X, X.sin()))
    assert unused.users == 0


def test_attributes_and_item_writes():
    g = GraphBuilder()
    x = g.placeholder("L['x']")
    constant = g.get_attr("_tensor_constant0", torch.ones(3), meta(3))
    y = g.call_function(operator.add, (x, constant))
    g.call_function(operator.setitem, (y, 0, 5.0), impure=True)
    g.output([y, g.call_function(getattr, (y, "T"))])
    module = g.graph_module()
    module.graph.lint()
    expected = X + 1
    expected[0] = 5.0
    assert_equal_tensors(g.native_forward()(X), (expected, expected.T))
    assert_equal_tensors(module(X), (expected, expected.T))
    assert_equal_tensors(copy.deepcopy(module)(X), (expected, expected.T))
    assert_equal_tensors(torch.fx.Interpreter(module).run(X), (expected, expected.T))
    assert dict(module.named_buffers()).keys() == {"_tensor_constant0"}


def test_forward_keeps_only_what_it_needs():
    g = linear_graph()
    module = g.graph_module()
    forward, ref = module.forward, weakref.ref(module)
    del module, g
    gc.collect()
    assert ref() is None
    assert_equal_tensors(forward(X, W), EXPECTED)


# torch.fx.Graph


def reference(graph):
    """The same nodes through torch.fx's own API."""
    out = torch.fx.Graph()
    nodes = {}
    for n in graph.nodes:
        arg = lambda a: torch.fx.node.map_arg(a, lambda m: nodes[m])  # noqa: E731
        nodes[n] = out.create_node(n.op, n.target, arg(n.args), arg(n.kwargs), name=n.name)
    return out


def test_nodes_are_what_create_node_makes():
    g = linear_graph()
    ours = g.fx_graph()
    theirs = reference(ours)
    ours.lint()
    assert len(ours.nodes) == len(theirs.nodes) == 6
    for a, b in zip(ours.nodes, theirs.nodes):
        assert (a.op, a.name, a.target, str(a.args), str(a.kwargs)) == (
            b.op,
            b.name,
            b.target,
            str(b.args),
            str(b.kwargs),
        )
        assert [str(n) for n in a.users] == [str(n) for n in b.users]
        assert [str(n) for n in a._input_nodes] == [str(n) for n in b._input_nodes]
        assert (type(a.args), type(a.kwargs), a.type, a._erased) == (type(b.args), type(b.kwargs), b.type, b._erased)
        assert a._sort_key == b._sort_key
        assert a.graph is ours
        assert vars(a) == vars(b)
    assert ours._graph_namespace._used_names >= theirs._graph_namespace._used_names
    assert {k[0] for k in ours._find_nodes_lookup_table.table} == {k[0] for k in theirs._find_nodes_lookup_table.table}
    assert str(ours) == str(theirs)


def test_find_erase_insert():
    graph = linear_graph().fx_graph()
    (add,) = graph.find_nodes(op="call_function", target=operator.add)
    assert [n.name for n in graph.find_nodes(op="placeholder")] == ["l_x_", "l_self_modules_lin_parameters_weight_"]
    with graph.inserting_after(add):
        relu = graph.call_function(torch.relu, (add,))
    output = graph.output_node()
    output.replace_input_with(add, relu)
    assert relu.name == "relu" and relu > add and relu < output
    graph.lint()
    output.replace_input_with(relu, add)
    graph.erase_node(relu)
    graph.lint()
    assert not graph.find_nodes(op="call_function", target=torch.relu)


def test_immutable_arguments():
    g = GraphBuilder()
    x = g.placeholder("L['x']")
    g.output([g.call_function(torch.cat, ([x, x],), {"dim": 0})])
    (cat,) = g.fx_graph().find_nodes(op="call_function", target=torch.cat)
    with pytest.raises(TypeError):
        cat.args[0].append(1)
    with pytest.raises(TypeError):
        cat.kwargs["dim"] = 1


# The module


def test_module_runs_prints_and_lints():
    module = linear_graph().graph_module()
    assert isinstance(module, torch.fx.GraphModule)
    assert_equal_tensors(module(X, W), EXPECTED)
    assert_equal_tensors(module.forward(X, W), EXPECTED)
    assert_equal_tensors(torch.fx.Interpreter(module).run(X, W), EXPECTED)
    module.graph.lint()
    text = module.print_readable(print_output=False)
    assert text.startswith("class GraphModule(torch.nn.Module):") and 'y: "f32[2, 3]" = torch._C._nn.linear' in text
    assert "def forward(self, L_x_, L_self_modules_lin_parameters_weight_)" in module.code
    assert module.code in str(module)
    assert_equal_tensors(module(X, W), EXPECTED)
    assert isinstance(module.graph.output_node().args[0], tuple)


def test_forward_is_one_object_until_recompiled():
    module = linear_graph().graph_module()
    assert module.forward is module.forward
    native = module.forward
    for node in module.graph.find_nodes(op="call_function", target=operator.add):
        node.target = operator.sub
    assert_equal_tensors(module(X, W), EXPECTED)  # as torch.fx: edits count after recompile()
    module.recompile()
    assert module.forward is not native
    assert_equal_tensors(module(X, W), (X * 2 - 1, X * 2))


def test_assigning_a_graph():
    module = linear_graph().graph_module()
    module.graph = torch.fx.symbolic_trace(lambda a, b: (a - b,)).graph
    assert_equal_tensors(module(X, X), (X * 0,))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(duplicate):
    module = linear_graph().graph_module()
    twin = duplicate(module)
    assert_equal_tensors(twin(X, W), EXPECTED)
    twin.graph.lint()
    assert [n.name for n in twin.graph.nodes][-1] == "output"
    assert_equal_tensors(module(X, W), EXPECTED)


def test_copying_leaves_the_native_forward():
    module = linear_graph().graph_module()
    native = module.forward
    copy.deepcopy(module)
    assert module.forward is native


def test_script():
    module = linear_graph().graph_module()
    assert_equal_tensors(torch.jit.script(module)(X, W), EXPECTED)


def test_module_is_released():
    module = linear_graph().graph_module()
    module.graph
    refs = [weakref.ref(module), weakref.ref(module.graph)]
    del module
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_no_references_leak():
    def marker(x):
        return x

    def once():
        g = GraphBuilder()
        x = g.placeholder("L['x']", marker)
        for _ in range(10):
            x = g.call_function(marker, (x, [marker, (x, marker)]), {"k": marker}, marker)
        g.output([x])
        g.graph_module().print_readable(print_output=False)
        g.native_forward()

    once()
    gc.collect()
    before = sys.getrefcount(marker)
    for _ in range(3):
        once()
    gc.collect()
    assert sys.getrefcount(marker) == before


# Metadata


def inner(x):
    return torch.sin(x).cos()


def outer(x):
    y = x + 1
    return inner(y)


def offset_of(function, opname, index=0):
    return [i.offset for i in dis.get_instructions(function) if i.opname == opname][index]


def graph_with_sites():
    g = GraphBuilder()
    top = site(outer.__code__, offset_of(outer, "CALL"))
    x = g.placeholder("L['x']", meta(2))
    a = g.call_function(operator.add, (x, 1), {}, meta(2), site=site(outer.__code__, offset_of(outer, "BINARY_OP")))
    block = site(inner.__code__, offset_of(inner, "CALL"), top, "L['m']._modules['block']", torch.nn.Sequential)
    b = g.call_function(torch.sin, (a,), {}, meta(2), site=block)
    leaf_code = torch.nn.ReLU.forward.__code__
    leaf = site(
        leaf_code,
        offset_of(torch.nn.ReLU.forward, "CALL"),
        block,
        "L['m']._modules['block']._modules['0']",
        torch.nn.ReLU,
    )
    c = g.call_function(F.relu, (b,), {}, meta(2), site=leaf)
    g.rename(b, "s")
    g.output([c])
    return g


def test_stack_traces_read_like_tracebacks():
    nodes = {n.name: n for n in graph_with_sites().graph_module().graph.nodes}
    try:
        outer(None)
    except TypeError as error:
        expected = traceback.format_tb(error.__traceback__)[1:]
    assert nodes["add"].meta["stack_trace"] == "".join(expected)
    lines = nodes["s"].stack_trace.splitlines()
    assert [line.strip().partition(" in ")[2] for line in lines if "File" in line] == ["outer", "inner"]
    assert "return inner(y)" in lines[1] and "torch.sin(x)" in "".join(lines)
    assert nodes["relu"].stack_trace == nodes["s"].stack_trace  # the insides of torch.nn are left out
    assert torch.fx.graph._parse_stack_trace(nodes["s"].stack_trace).name == "inner"


def test_module_and_source_stacks():
    nodes = {n.name: n for n in graph_with_sites().graph_module().graph.nodes}
    assert "nn_module_stack" not in nodes["add"].meta
    assert list(nodes["s"].meta["nn_module_stack"].values()) == [("L['m'].block", torch.nn.Sequential)]
    assert list(nodes["relu"].meta["nn_module_stack"].values()) == [
        ("L['m'].block", torch.nn.Sequential),
        ("L['m'].block.0", torch.nn.ReLU),
    ]
    assert nodes["add"].meta["source_fn_stack"] == [("add", operator.add)]
    assert nodes["s"].meta["source_fn_stack"] == [("sin", torch.sin)]
    assert nodes["relu"].meta["source_fn_stack"] == [("relu", torch.nn.ReLU)]


def test_example_values():
    for node in linear_graph().graph_module().graph.nodes:
        assert (node.op == "output") == ("example_value" not in node.meta)


def test_D05_sources_of_inputs():
    weight = torch.nn.Parameter(W)
    lin = torch.nn.Linear(3, 3, bias=False)
    lin.weight = weight
    model = torch.nn.Module()
    model.lin = lin
    module = linear_graph(X, weight).graph_module()
    x, w = module.graph.find_nodes(op="placeholder")
    scope = {"L": {"x": X, "self": model}, "G": {}}
    assert eval(x._dynamo_source.name, scope) is X and eval(w._dynamo_source.name, scope) is weight
    assert x.meta["grapharg"].source is x._dynamo_source and x.meta["grapharg"].example is X
    assert (x.type, w.type) == (torch.Tensor, torch.nn.Parameter)
    assert x.meta["tensor_dict"] == {} and w.meta["tensor_dict"] == {"_dynamo_static_input_type": "unguarded"}
    assert module._param_name_to_source == {"self.lin.weight": w._dynamo_source}
    assert module.meta["dynamo_flat_name_to_original_fqn"] == {"L__self___lin_weight": "lin.weight"}
    assert module._source_to_user_stacks == {} and module.compile_subgraph_reason.graph_break is False


def test_inputs_are_not_kept_alive():
    x = torch.ones(2, 3)
    ref = weakref.ref(x)
    g = linear_graph(x)
    module = g.graph_module()
    placeholder = module.graph.find_nodes(op="placeholder")[0]
    del x, g
    assert ref() is None and placeholder.meta["grapharg"].example is None
