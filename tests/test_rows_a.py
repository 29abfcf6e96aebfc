"""FEATURES, section A: what is captured, and what a program may rely on around it. The rows on graph and metadata are in
test_rows_a_graph.py; which row holds is in docs/feature_rows.md."""

from __future__ import annotations

import operator
import zlib

import pytest
import torch
from runtime_common import same
from torch import nn

import pellucid


def calls(gm):
    return [node for node in gm.graph.nodes if node.op.startswith("call_")]


def targets(gm):
    return [node.target for node in calls(gm)]


# A01: callees write into the caller's graph


def aa(x):
    return x * 2 + 1


def ab(x):
    return (x - 3).sin()


def a(x):
    return aa(x) + ab(x)


def b(x):
    return torch.relu(x)


def tree(x):
    return b(a(x))


def test_A01_callees_write_into_the_graph_of_the_caller(counting):
    x = torch.arange(4.0)
    assert same(pellucid.compile(tree, backend=counting, fullgraph=True)(x), tree(x))
    assert counting.count == 1
    assert targets(counting.graphs[0]) == [operator.mul, operator.add, operator.sub, "sin", operator.add, torch.relu]


# A02: every form of the call. Bare and empty parentheses mean the default backend, Inductor.


def plain(x, scale=2.0):
    return x * scale + 1


@pellucid.compile
def bare(x, scale=2.0):
    return x * scale + 1


@pellucid.compile()
def empty_parentheses(x, scale=2.0):
    return x * scale + 1


@pellucid.compile(backend="eager")
def with_backend(x, scale=2.0):
    return x * scale + 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, scale=1.0):
        return self.linear(x) * scale


@pytest.mark.parametrize("form", ["bare", "empty parentheses", "backend=", "function", "module"])
def test_A02_call_forms(form):
    net = Net()
    compiled, eager = {
        "bare": (bare, plain),
        "empty parentheses": (empty_parentheses, plain),
        "backend=": (with_backend, plain),
        "function": (pellucid.compile(plain, backend="eager"), plain),
        "module": (pellucid.compile(net, backend="eager"), net),
    }[form]
    x = torch.arange(3.0)
    for arguments in ((x,), (x, 3.0), (x,)):
        assert torch.allclose(compiled(*arguments), eager(*arguments))
    counts = pellucid.counters()
    assert (counts["graphs"], counts["ops"], counts["stops"]) == (2, 4, 0)


# A04: a module in a global

FIVE = nn.Sequential(*[nn.Linear(3, 3) for _ in range(5)])


def use_global_module(x):
    return FIVE(x)


def test_A04_module_in_a_global(counting):
    x = torch.rand(2, 3)
    got = pellucid.compile(use_global_module, backend=counting, fullgraph=True)(x)
    assert same(got, FIVE(x))
    (gm,) = counting.graphs
    assert targets(gm) == [torch._C._nn.linear] * 5
    parameters = [n.target for n in gm.graph.find_nodes(op="placeholder")][1:]
    assert parameters == [f"G_FIVE_modules_{i}_parameters_{p}_" for i in range(5) for p in ("weight", "bias")]
    got.sum().backward()
    grads = [p.grad for p in FIVE.parameters()]
    FIVE.zero_grad()
    FIVE(x).sum().backward()
    assert len(grads) == 10 and all(same(grad, p.grad) for grad, p in zip(grads, FIVE.parameters()))
    FIVE.zero_grad()


# A05: a tensor as key


def test_A05_made_in_the_region(counting):
    def f():
        return {torch.ones(2): 5}

    (((key, value),),) = [pellucid.compile(f, backend=counting, fullgraph=True)().items()]
    assert value == 5 and same(key, torch.ones(2))
    assert targets(counting.graphs[0]) == [torch.ones]


def test_A05_from_outside(counting):
    def f(x):
        table = {x: 5}
        return table, x + table[x]

    x = torch.zeros(2)
    table, y = pellucid.compile(f, backend=counting, fullgraph=True)(x)
    assert list(table) == [x] and next(iter(table)) is x and table[x] == 5 and same(y, x + 5)
    assert targets(counting.graphs[0]) == [operator.add]


# A06: C code that nobody knows


def before(x):
    return x.sin() + 1


def after(x, number):
    return x * number


def checksum(x, text):
    y = before(x)
    return after(y, zlib.crc32(text))


def test_A06_unknown_c_code(counting):
    compiled = pellucid.compile(checksum, backend=counting)
    x = torch.arange(3.0)
    for text in (b"a", b"b", b"a"):
        assert same(compiled(x, text), checksum(x, text))
    assert [targets(gm) for gm in counting.graphs] == 2 * [["sin", operator.add], [operator.mul]]  # for each text
    reasons = {record.reason for record in pellucid.break_reasons(compiled)}
    assert len(reasons) == 1 and "zlib.crc32" in reasons.pop()


def test_A06_fullgraph_is_an_error():
    with pytest.raises(pellucid.errors.Unsupported, match=r"zlib\.crc32"):
        pellucid.compile(checksum, backend="eager", fullgraph=True)(torch.ones(2), b"a")


# A17, A18: attributes of modules


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        self.cache = self.linear(x)
        self.seen = [*getattr(self, "seen", []), x.shape[0]]
        return self.cache * len(self.seen)


def test_A17_attributes_set_in_forward(counting):
    torch.manual_seed(0)
    eager, module = Remembers(), Remembers()
    module.load_state_dict(eager.state_dict())
    compiled = pellucid.compile(module, backend=counting, fullgraph=True)
    for x in (torch.rand(1, 2), torch.rand(1, 2), torch.rand(1, 2)):
        assert same(compiled(x), eager(x))
        assert same(module.cache, eager.cache) and module.seen == eager.seen
    assert "cache" not in module.state_dict() and "cache" in vars(module)
    assert counting.count == 3  # the length of the list is a constant in each


def test_A17_class_changed(counting):
    class Scaled(nn.Module):
        factor = 2

        def forward(self, x):
            return x * self.factor

    module = Scaled()
    compiled = pellucid.compile(module, backend=counting, fullgraph=True)
    x = torch.ones(2)
    assert same(compiled(x), x * 2)
    Scaled.factor = 3
    assert same(compiled(x), x * 3)
    module.factor = 4
    assert same(compiled(x), x * 4)
    Scaled.forward = lambda self, x: x - self.factor
    assert same(compiled(x), x - 4)
    assert counting.count == 4


class Configured(nn.Module):
    def __init__(self):
        super().__init__()
        self.dtype = torch.float64
        self.mode = "up"
        self.steps = (1, 2)

    def forward(self, x):
        x = x.to(self.dtype)
        for step in self.steps:
            x = x + step if self.mode == "up" else x - step
        return x


def test_A18_attributes_of_other_kinds_are_guarded_by_value(counting):
    module = Configured()
    compiled = pellucid.compile(module, backend=counting, fullgraph=True)
    x = torch.ones(2)
    changes = [
        ("mode", "up", 1),
        ("mode", "".join(["u", "p"]), 1),  # equal: not the same object
        ("mode", "down", 2),
        ("dtype", torch.float16, 3),
        ("steps", (1, 2), 3),
        ("steps", (5,), 4),
        ("mode", "up", 5),
    ]
    for name, value, graphs in changes:
        setattr(module, name, value)
        assert same(compiled(x), module(x))
        assert counting.count == graphs, (name, value)


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Module()
        self.a.b = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x, name):
        try:
            module = self.get_submodule(name)
        except AttributeError as error:
            return x, str(error)
        return x if module is self else module(x), type(module).__name__


@pytest.mark.parametrize("name, ops", [("a.b.0", 1), ("a.b", 2), ("", 0), ("a.c", 0), ("a.b.9", 0)])
def test_A18_dotted_look_up(name, ops):
    module, x = Nested(), torch.rand(1, 2)
    found = []

    def backend(gm, example_inputs):
        found.extend(calls(gm))
        return gm.forward

    assert same(pellucid.compile(module, backend=backend, fullgraph=True)(x, name), module(x, name))
    assert len(found) == ops


# A23, A24, A25: grad mode and autocast


@pytest.fixture
def grad_enabled():
    assert torch.is_grad_enabled()
    yield
    torch.set_grad_enabled(True)


def leaves_it_off(x):
    y = x * 2
    torch.set_grad_enabled(False)
    return y, x * 3


def test_A23_grad_mode_left_off(counting, grad_enabled):
    compiled, x = pellucid.compile(leaves_it_off, backend=counting, fullgraph=True), torch.ones(2, requires_grad=True)
    for _ in range(2):
        torch.set_grad_enabled(True)
        y, z = compiled(x)
        assert not torch.is_grad_enabled()
        assert y.requires_grad and not z.requires_grad and same(z, torch.full((2,), 3.0))
    assert counting.count == 1
    assert targets(counting.graphs[0]) == [operator.mul, torch._C._set_grad_enabled, operator.mul]


def scaled_without_grad(x):
    with torch.no_grad():
        y = x * 2
    return y, x * 3


@torch.no_grad()
def wholly_without_grad(x):
    return x * 2, x * 3


@pytest.mark.parametrize("function, grads", [(scaled_without_grad, [False, True]), (wholly_without_grad, [False] * 2)])
def test_A23_no_grad_is_in_the_graph(function, grads, counting, grad_enabled):
    x = torch.ones(2, requires_grad=True)
    got = pellucid.compile(function, backend=counting, fullgraph=True)(x)
    assert same(got, function(x)) and [y.requires_grad for y in got] == grads
    assert torch.is_grad_enabled()
    switches = [n.args for n in calls(counting.graphs[0]) if n.target is torch._C._set_grad_enabled]
    assert switches == [(False,), (True,)]


def global_state():
    return (
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_enabled("cuda"),
        torch.get_autocast_dtype("cuda"),
        torch.is_autocast_cache_enabled(),
        torch._C._is_torch_function_enabled(),
    )


def stops_below_no_grad(x):
    with torch.no_grad():
        y = x * 2
        zlib.crc32(b"")  # nobody knows what it does
    return y


def stops_below_autocast(x):
    with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
        y = x * 2
        zlib.crc32(b"")
    return y


def stops_without_torch_function(x):
    with torch._C.DisableTorchFunctionSubclass():  # a break itself
        y = x * 2
    return y


def raises_below_no_grad(x):
    with torch.no_grad():
        return x.view(7, 7)


STOPS = [stops_below_no_grad, stops_below_autocast, stops_without_torch_function]


@pytest.mark.parametrize("stops", STOPS)
def test_A24_state_after_a_break(stops, counting, grad_enabled):
    def outer(x):
        y = stops(x)
        return y, global_state(), x * 3

    x = torch.ones(2, requires_grad=True)
    before = global_state()
    got, want = pellucid.compile(outer, backend=counting)(x), outer(x)
    assert same(got, want) and got[1] == before == global_state()
    assert [y.requires_grad for y in (got[0], got[2])] == [y.requires_grad for y in (want[0], want[2])]
    assert pellucid.break_reasons()


@pytest.mark.parametrize("stops", [*STOPS, raises_below_no_grad])
def test_A24_state_after_an_error(stops, grad_enabled):
    before = global_state()
    with pytest.raises(
        (pellucid.errors.Unsupported, RuntimeError),
        match=r"zlib\.crc32|DisableTorchFunction|is invalid for input of size",
    ):
        pellucid.compile(stops, backend="eager", fullgraph=True)(torch.ones(2, requires_grad=True))
    assert global_state() == before


def test_A24_the_backend_finds_the_state_of_the_call(grad_enabled):
    found = []

    def backend(gm, example_inputs):
        found.append(global_state())
        return gm.forward

    before = global_state()
    pellucid.compile(leaves_it_off, backend=backend, fullgraph=True)(torch.ones(2, requires_grad=True))
    assert found == [before]
    assert not torch.is_grad_enabled()


def autocast_inside(x):
    with torch.autocast("cpu"):
        y = x @ x
        with torch.autocast("cpu", enabled=False):
            z = x @ x
    return y, z, x @ x


def product(x):
    return x @ x, torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")


def test_A25_autocast_inside(counting):
    x, before = torch.rand(3, 3), global_state()
    got = pellucid.compile(autocast_inside, backend=counting, fullgraph=True)(x)
    assert same(got, autocast_inside(x))
    assert [y.dtype for y in got] == [torch.bfloat16, torch.float32, torch.float32]
    assert global_state() == before
    products = [n.meta["example_value"].dtype for n in calls(counting.graphs[0]) if n.target is operator.matmul]
    assert products == [torch.bfloat16, torch.float32, torch.float32]


def test_A25_autocast_outside(counting):
    compiled, x = pellucid.compile(product, backend=counting, fullgraph=True), torch.rand(3, 3)
    for arguments in ({"enabled": False}, {}, {"dtype": torch.float16}, {}, {"enabled": False}):
        with torch.autocast("cpu", **arguments):
            assert same(compiled(x), product(x))
    assert counting.count == 3
