"""`pellucid.export`, rows N01 to N10."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import pellucid
from pellucid.errors import ConstraintViolation, ExportError, Unsupported
from support import Plain, same

X = torch.arange(6.0).reshape(2, 3)
OUTSIDE = torch.arange(3.0)
OTHER = torch.ones(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("scale", torch.full((4,), 2.0), persistent=False)
        self.count = 0

    def forward(self, x, *, bias=None):
        y = self.norm(self.lin(x)) * self.scale
        return y if bias is None else y + bias


def names(gm, op="placeholder"):
    return [node.name if op == "placeholder" else node.target for node in gm.graph.nodes if node.op == op]


def line_of(text, f):
    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if text in line)


# ---- N01


def test_N01_one_graph_that_runs_like_eager():
    def f(x, y):
        return (x @ y.t()).relu(), {"sum": x.sum(), "shape": tuple(x.shape)}

    gm, _ = pellucid.export(f, X, X + 1)
    for args in ((X, X + 1), (X - 4, X.sin())):
        assert same(gm(*args), f(*args))
    assert isinstance(gm, torch.fx.GraphModule)


def test_N01_print_is_an_error_that_names_the_line():
    def f(x):
        y = x + 1
        print("side effect")
        return y

    with pytest.raises(Unsupported) as caught:
        pellucid.export(f, X)
    assert f'test_export.py", line {line_of("print(", f)}' in str(caught.value)


def test_N01_nothing_runs():
    x = X.clone()

    def f(x):
        x.add_(1)
        return x.sum()

    gm, _ = pellucid.export(f, x)
    assert same(x, X)
    assert same(gm(x), (X + 1).sum()) and same(x, X + 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda net, x: setattr(net, "count", net.count + 1),
        lambda net, x: net.log.append(x.shape[0]),
        lambda net, x: net.seen.update(n=1),
    ],
    ids=["attribute", "list", "dict"],
)
def test_N01_effects_are_an_error(change):
    net = Plain(count=0, log=[], seen={})

    def f(x):
        change(net, x)
        return x + 1

    with pytest.raises(Unsupported, match="what it changes"):
        pellucid.export(f, X)
    assert (net.count, net.log, net.seen) == (0, [], {})
    with pytest.warns(UserWarning, match="pellucid.export leaves out"):
        gm, _ = pellucid.export(f, X, strict=False)
    assert same(gm(X), X + 1)
    assert (net.count, net.log, net.seen) == (0, [], {})


@pytest.mark.parametrize("strict", [True, False])
def test_N01_a_state_of_torch_that_stays_switched_is_an_error(strict):
    def f(x):
        torch.set_grad_enabled(False)
        return x + 1

    with pytest.raises(Unsupported, match="state of torch"):
        pellucid.export(f, X, strict=strict)
    assert torch.is_grad_enabled()


def test_N01_a_state_of_torch_that_is_put_back():
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y, x * 3

    x = X.clone().requires_grad_()
    got = pellucid.export(f, x)[0](x)
    assert [part.requires_grad for part in got] == [False, True] and same(got, f(x))


def test_N01_the_program_is_told():
    def f(x):
        told = torch.compiler.is_compiling(), torch.compiler.is_exporting()
        return x + 1, told

    assert pellucid.export(f, X)[0](X)[1] == (True, True)
    assert pellucid.compile(f, backend="eager", fullgraph=True)(X)[1] == (True, False)
    assert f(X)[1] == (False, False)


def test_N01_a_program_that_raises():
    def f(x):
        raise ValueError("two rows")

    with pytest.raises(ValueError, match="two rows"):
        pellucid.export(f, X)


def test_N01_no_fallback_where_nothing_is_compiled():
    with pellucid.set_stance("force_eager"), pytest.raises(ExportError, match="nothing was captured"):
        pellucid.export(lambda x: x + 1, X)


def test_N01_what_cannot_be_exported_is_a_TypeError():
    with pytest.raises(TypeError, match="function, method or module"):
        pellucid.export(3)


# ---- N02


def test_N02_a_tensor_from_outside_is_an_attribute():
    closed = torch.ones(3)

    def f(x):
        return x * OUTSIDE + closed

    gm, _ = pellucid.export(f, X)
    assert same(gm(X + 1), f(X + 1)) and names(gm) == ["x"]
    assert set(names(gm, "get_attr")) == set(gm.state_dict()) == {"OUTSIDE", "closed"}
    assert gm.OUTSIDE is OUTSIDE and gm.closed is closed
    ((source, (stack,)), *_) = gm._source_to_user_stacks.items()
    assert source.name == "G['OUTSIDE']" and f"line {line_of('return', f)}" in stack


def test_N02_or_an_error_that_lists_all():
    def f(x):
        y = x * OUTSIDE
        return y + OTHER

    with pytest.raises(ExportError) as caught:
        pellucid.export(f, X, outside_tensors=False)
    text = str(caught.value)
    assert "G['OUTSIDE']" in text and "G['OTHER']" in text
    assert f"line {line_of('OUTSIDE', f)}" in text and f"line {line_of('OTHER', f)}" in text


def test_N02_tensors_of_an_argument_that_is_one_leaf_are_an_error():
    with pytest.raises(ExportError, match=r"L\['a'\]"):
        pellucid.export(lambda x, a: x + a.t, X, Plain(t=OUTSIDE))


# ---- N03


def test_N03_parameters_and_buffers_have_their_names():
    net = Net()
    gm, _ = pellucid.export(net, X)
    assert set(gm.state_dict()) == set(net.state_dict())
    assert dict(gm.named_parameters()).keys() == dict(net.named_parameters()).keys()
    assert dict(gm.named_buffers()).keys() == dict(net.named_buffers()).keys()
    assert gm.lin.weight is net.lin.weight
    assert gm._param_name_to_source["lin.weight"].name.endswith("._modules['lin']._parameters['weight']")
    assert names(gm) == ["x"]
    gm.load_state_dict(net.state_dict())


def test_N03_training_writes_the_statistics():
    net = Net()
    gm, _ = pellucid.export(net, X)
    assert net.norm.num_batches_tracked.item() == 0
    other = copy.deepcopy(net)
    assert same(gm(X), other(X)) and same(gm.norm.running_mean, other.norm.running_mean)
    gm(X).sum().backward()
    other(X).sum().backward()
    assert same(gm.lin.weight.grad, other.lin.weight.grad)


def test_N03_shared_parameters():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    gm, _ = pellucid.export(net, X)
    assert same(gm(X), net(X)) and set(gm.state_dict()) == set(net.state_dict())
    assert gm.get_parameter("1.weight") is gm.get_parameter("0.weight")


def test_N03_methods_functions_and_compiled_forms():
    net = nn.Linear(3, 3)

    def f(x):
        return net(x)

    for model in (net, net.forward, f, pellucid.compile(net, backend="eager"), pellucid.compile(f, backend="eager")):
        gm, _ = pellucid.export(model, X)
        assert same(gm(X), net(X))
        assert [name.removeprefix("net.") for name in gm.state_dict()] == ["weight", "bias"]


# ---- N04


def test_N04_fakes_of_one_mode():
    gm, _ = pellucid.export(Net(), X)
    fakes = [node.meta["val"] for node in gm.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)]
    assert len({id(fake.fake_mode) for fake in fakes}) == 1 and len(fakes) >= 8
    for node in gm.graph.nodes:
        assert node.op == "output" or node.meta["example_value"] is node.meta["val"]
    (linear,) = [node for node in gm.graph.nodes if node.target is torch._C._nn.linear]
    assert linear.meta["val"].shape == (2, 4) and linear.meta["val"].requires_grad


# ---- inputs


def test_N02_inputs_are_all_leaves_in_order():
    def f(a, b=2, *rest, c, **more):
        return a["x"] + more["z"][0] + rest[0]

    args = ({"y": X, "x": X + 1}, "text", X, 7)
    kwargs = {"c": None, "z": [X, X.sum()]}
    gm, _ = pellucid.export(f, *args, kwargs=kwargs)
    assert names(gm) == ["a_y", "a_x", "b", "rest_0", "rest_1", "c", "z_0", "z_1"]
    assert same(gm(*args, **kwargs), f(*args, **kwargs))


def test_N02_one_tensor_that_is_two_arguments():
    gm, guards = pellucid.export(lambda x, y: x + y, X, X)
    assert names(gm) == ["x", "y"] and same(gm(X, X), X + X)
    assert guards.failing(X, X) == [] and guards.failing(X, X + 1) != []


# ---- N05


def test_N05_sizes_are_no_inputs():
    def f(x, y):
        return x.reshape(-1), torch.zeros(x.shape[0] * 2), y * x.shape[1], x.shape[0] // 2

    gm, guards = pellucid.export(f, X, 5, dynamic=True)
    assert names(gm) == ["x", "y"]
    for x, y in ((X, 5), (torch.ones(7, 9), 4)):
        assert same(gm(x, y), f(x, y)) and guards.failing(x, y) == []
    assert guards.failing(torch.ones(1, 3), 5) != []


def test_N05_marked_sizes_alone():
    x = X.clone()
    pellucid.mark_dynamic(x, 0)
    net = Net()
    gm, guards = pellucid.export(net, x)
    many = torch.randn(9, 3)
    assert same(gm(many), copy.deepcopy(net)(many)) and names(gm) == ["x"]
    assert guards.failing(many) == [] and guards.failing(torch.ones(2, 4)) != []


def test_N05_an_argument_of_which_only_the_size_is_used():
    def f(x, y):
        return y + x.shape[0], x.shape[0] + x.shape[1]

    gm, _ = pellucid.export(f, X, OUTSIDE, dynamic=True)
    assert same(gm(torch.ones(5, 7), OUTSIDE), f(torch.ones(5, 7), OUTSIDE))


def test_N05_without_marks_sizes_are_constants():
    gm, guards = pellucid.export(lambda x: x.reshape(-1), X, dynamic=False)
    assert guards.failing(X + 1) == [] and guards.failing(torch.ones(3, 3)) != []


# ---- N06


def test_N06_marked_sizes_that_have_to_be_constants_are_listed():
    x = X.clone()
    pellucid.mark_dynamic(x, [0, 1])

    def f(x):
        return nn.functional.linear(x, torch.ones(2, 3)) + x[:, :2].reshape(2, 2)

    with pytest.raises(ConstraintViolation) as caught:
        pellucid.export(f, x)
    text = str(caught.value)
    assert "2 sizes that are marked as dynamic" in text
    assert "L['x'].size(0)" in text and "L['x'].size(1)" in text and "maybe_mark_dynamic" in text
    assert f"line {line_of('return', f)}" in text or f":{line_of('return', f)}" in text
    assert x._dynamo_dynamic_indices == {0, 1}


def test_N06_one_of_two():
    x = X.clone()
    pellucid.mark_dynamic(x, [0, 1])
    with pytest.raises(ConstraintViolation) as caught:
        pellucid.export(nn.Linear(3, 2), x)
    assert caught.value.source.endswith(".size(1)") and "sizes that are marked" not in str(caught.value)


# ---- N07


def test_N07_hooks_are_an_error():
    def f(x):
        y = x * 2
        y.register_hook(lambda grad: grad * 3)
        return y

    with pytest.raises(Unsupported, match="register_hook"):
        pellucid.export(f, X.clone().requires_grad_())


# ---- N08


def test_N08_inputs_are_outputs_too():
    def f(x, n, text):
        return x, x + 1, [n, text, x], {"constant": 3, "none": None}

    gm, _ = pellucid.export(f, X, 4, "a")
    assert same(gm(X, 5, "b"), f(X, 5, "b")) and gm(X, 5, "b")[0] is X
    (x, n, text) = [node for node in gm.graph.nodes if node.op == "placeholder"]
    output = gm.graph.output_node().args[0]
    assert output[0] is x and output[2:5] == [n, text, x]
    assert output[-2:] == [3, None]


def test_N08_parameters_and_written_inputs():
    net = nn.Linear(3, 3)

    def f(x):
        x.mul_(2)
        return x, net.weight

    gm, _ = pellucid.export(f, X.clone())
    x = X.clone()
    got = gm(x)
    assert got[0] is x and got[1] is net.weight and same(x, X * 2)


def test_N08_without_any_operation():
    gm, _ = pellucid.export(lambda x: {"x": x}, X)
    assert gm(OUTSIDE)["x"] is OUTSIDE


@pytest.mark.parametrize(
    "f", [lambda x, n: Plain(x=x), lambda x, n: x.sin().detach and Plain(t=x.sin())], ids=["input", "made"]
)
def test_N08_objects_that_no_pytree_knows_are_an_error(f):
    with pytest.raises(ExportError, match="register_pytree_node"):
        pellucid.export(f, X, 1)


def test_N08_an_argument_as_a_key_is_a_constant():
    gm, guards = pellucid.export(lambda x, n: {n: x + 1}, X, "key")
    assert same(gm(X, "key"), {"key": X + 1}) and guards.failing(X, "other") != []


@pytest.mark.parametrize(
    "f",
    [
        lambda x, n: (x + 1, f"{n} rows"),
        lambda x, n: (x + 1, min(x.shape[0], x.shape[1])),
    ],
    ids=["text", "min"],
)
def test_N08_what_no_graph_can_make_of_numbers_is_an_error(f):
    with pytest.raises(ExportError, match="that may change"):
        pellucid.export(f, torch.ones(4, 3), 2, dynamic=True)


def test_N08_a_number_in_a_key_is_a_constant():
    gm, guards = pellucid.export(lambda x, n: {f"{n}": x + 1}, X, 2, dynamic=True)
    assert same(gm(X, 2), {"2": X + 1}) and guards.failing(X, 2) == [] and guards.failing(X, 3) != []


# ---- N09


def test_N09_metadata():
    net = Net()
    gm, _ = pellucid.export(net, X)
    (linear,) = [node for node in gm.graph.nodes if node.target is torch._C._nn.linear]
    assert f"line {line_of('self.norm(', Net.forward)}" in linear.meta["stack_trace"]
    assert [kind.__name__ for _, kind in linear.meta["nn_module_stack"].values()] == ["Net", "Linear"]
    assert linear.meta["source_fn_stack"][-1][1] is nn.Linear


def test_N09_metadata_of_a_graph_that_is_exported_again():
    gm, _ = pellucid.export(Net(), X)
    again, _ = pellucid.export(gm, X)

    def metadata(module):
        fields = ("stack_trace", "nn_module_stack", "source_fn_stack")
        return [[n.meta.get(name) for name in fields] for n in module.graph.nodes if n.op.startswith("call")]

    assert metadata(again) == metadata(gm) and all(trace for trace, *_ in metadata(gm))
    assert same(again(X), gm(X))


# ---- N10


def test_N10_guards_are_given():
    gm, guards = pellucid.export(lambda x, n: x + n, X, 3)
    assert all(isinstance(guard, str) for guard in guards)
    assert guards.failing(X, 3) == []
    assert any("== 3" in guard for guard in guards.failing(X, 4))
    assert guards.failing(X.double(), 3) != []
    scope = {**guards.scope, "L": {"x": X, "n": 3}}
    assert all(eval(guard, scope) for guard in guards)


# ---- others take the module


def test_N09_the_module_is_taken_by_others():
    net = Net().eval()
    args = (X,)
    kwargs = {"bias": torch.ones(4)}
    want = net(*args, **kwargs)
    gm, _ = pellucid.export(net, *args, kwargs=kwargs)
    assert not gm.training
    program = torch.export.export(gm, args, kwargs)
    assert same(program.module()(*args, **kwargs), want)
    assert {spec.target for spec in program.graph_signature.input_specs if spec.target} == {
        *dict(net.named_parameters()),
        *dict(net.named_buffers()),
    }
    assert same(torch.fx.Interpreter(gm).run(X, kwargs["bias"]), want)
    assert torch.allclose(torch.compile(gm, backend="aot_eager", fullgraph=True)(*args, **kwargs), want)
    assert torch.allclose(pellucid.compile(gm, backend="aot_eager", fullgraph=True)(*args, **kwargs), want)


def test_N09_copies_and_pickles():
    net = Net()
    gm, _ = pellucid.export(lambda d: {"y": net(d["x"]) + d["z"]}, {"x": X, "z": torch.ones(4)})
    args = ({"x": X + 1, "z": torch.zeros(4)},)
    copies = [copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))]
    want = gm(*args)
    for copied in copies:
        assert copied.state_dict().keys() == gm.state_dict().keys()
        assert copied.get_buffer("net.norm.num_batches_tracked").item() == 0
        assert same(copied(*args), want)
        assert copied.get_buffer("net.norm.num_batches_tracked").item() == 1
        assert same(pickle.loads(pickle.dumps(copied))(*args), copied(*args))


def test_N09_other_programs_compile_it():
    gm, _ = pellucid.export(nn.Linear(3, 2), X)
    compiled = pellucid.compile(lambda x: gm(x) + 1, backend="eager", fullgraph=True)
    assert same(compiled(X), gm(X) + 1)


class Checkpointed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return checkpoint(lambda y: self.second(self.first(y).relu()), x, use_reentrant=False).sum()


def test_a_checkpointed_block():
    model, x = Checkpointed(), torch.randn(2, 4)
    model(x).backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    gm, _ = pellucid.export(model, x)
    assert torch.equal(gm(x), model(x))
    gm(x).backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.equal(parameter.grad, gradient)


def test_an_assertion_says_what_the_program_says():
    def root(x):
        if (x < 0).any():
            raise ValueError("it is negative")
        return x.sqrt()

    gm, _ = pellucid.export(root, torch.ones(2))
    assert torch.equal(gm(torch.full((2,), 4.0)), torch.full((2,), 2.0))
    with pytest.raises(RuntimeError, match=r"ValueError: it is negative \(in root, line \d+\)"):
        gm(-torch.ones(2))


def test_N02_all_sizes_open_beside_floats_and_tensors_from_outside():
    def f(x, scale):
        return (x * scale + OUTSIDE) * OTHER.sum()

    gm, _ = pellucid.export(f, X, 2.5, dynamic=True)
    for x in (X, torch.randn(5, 3)):
        assert same(gm(x, 2.5), f(x, 2.5))
