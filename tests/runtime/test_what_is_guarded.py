"""What a call compiles anew for, and what not: values, sizes, ambient state, tensors, modules (docs/feature_rows.md, B01 to B08)."""

import contextlib
import types

import pytest
import torch

import pellucid
from support import SinIsCos, deterministic_algorithms, same

X = torch.arange(1.0, 4.0)
SCALE = 2


def compiles(counting, f, *calls):
    """Calls the compiled function with each of `calls`, compares with eager; graphs compiled after each call."""
    compiled, counts = pellucid.compile(f, backend=counting, fullgraph=True), []
    for args in calls:
        assert same(compiled(*args), f(*args))
        counts.append(counting.count)
    return counts


# ---- B01, B02: what was read is guarded


def scaled(x):
    return x * SCALE


def test_B01_a_changed_global_compiles_anew(counting, monkeypatch):
    compiled = pellucid.compile(scaled, backend=counting, fullgraph=True)
    assert same(compiled(X), X * 2) and same(compiled(X + 1), (X + 1) * 2)
    assert counting.count == 1
    monkeypatch.setitem(globals(), "SCALE", 3)
    assert same(compiled(X), X * 3) and counting.count == 2
    monkeypatch.setitem(globals(), "SCALE", 2)
    assert same(compiled(X), X * 2) and counting.count == 2  # the first entry holds again


def test_B01_locals_are_guarded(counting):
    def f(x, factor, options):
        return x * factor if options["on"] else x - factor

    calls = [(X, 2, {"on": True}), (X, 2, {"on": True}), (X, 3, {"on": True}), (X, 2, {"on": False})]
    assert compiles(counting, f, *calls, *calls) == [1, 1, 2, 3, 3, 3, 3, 3]


def test_B02_sizes_that_were_asked_are_guarded(counting):
    def f(x):
        return x + 1 if x.shape[0] > 3 else x - 1

    sizes = [2, 3, 4, 5, 3, 4]
    assert compiles(counting, f, *[(torch.ones(n),) for n in sizes]) == [1, 2, 3, 3, 3, 3]  # 2; up to 3; more


def test_B02_a_size_is_guarded_though_the_tensor_is_no_input_of_the_graph(counting):
    def f(x, y):
        return y + 1 if x.shape[0] == 3 else y - 1

    assert compiles(counting, f, (torch.ones(3), X), (torch.ones(4), X), (torch.ones(3), X)) == [1, 2, 2]
    assert [len(gm.graph.find_nodes(op="placeholder")) for gm in counting.graphs] == [1, 1]


@contextlib.contextmanager
def default_device(name):
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


def state(x):
    y = torch.sin(x) @ x
    return y, torch.ones(3).device.type, y.requires_grad, y.dtype


# How to change the state, its name in the report, and what `state` shows of it.
AMBIENT = {
    "B03_grad_mode": (torch.no_grad, "grad mode off", ("cpu", False, torch.float32)),
    "B03_deterministic_algorithms": (deterministic_algorithms, "deterministic", ("cpu", True, torch.float32)),
    "B03_default_device": (
        lambda: default_device("meta"),
        "default device",
        ("meta", True, torch.float32),
    ),
    "B04_torch_function_mode": (SinIsCos, "torch function modes", ("cpu", True, torch.float32)),
    "B04_torch_function_disabled": (
        torch._C.DisableTorchFunction,
        "__torch_function__ off",
        ("cpu", True, torch.float32),
    ),
    "B04_autocast": (
        lambda: torch.autocast("cpu", torch.bfloat16),
        "autocast for cpu on with torch.bfloat16",
        ("cpu", True, torch.bfloat16),
    ),
}


@pytest.mark.parametrize("name", AMBIENT)
def test_B03_B04_ambient_state(counting, name):
    enter, word, shown = AMBIENT[name]
    w = torch.randn(3, 3, requires_grad=True)
    # Under a mode of the user calls run eagerly (PEL0307).
    mode = name == "B04_torch_function_mode"
    compiled = pellucid.compile(state, backend=counting, fullgraph=not mode)
    seen = []
    for toggled in (False, True, False, True):
        with enter() if toggled else contextlib.nullcontext():
            seen.append(compiled(w))
            assert same(seen[-1], state(w))
    assert mode or counting.count == 2
    (reason,) = set(pellucid.guard_failures(compiled))
    assert reason.startswith("GLOBAL_STATE") and word in reason
    assert seen[0][1:] == ("cpu", True, torch.float32) and seen[1][1:] == shown
    if mode:
        assert torch.equal(seen[1][0], torch.cos(w) @ w)


# ---- B06, B07, B09: tensors

PROPERTIES = {
    "type": (lambda: torch.nn.Parameter(torch.ones(2, 3), requires_grad=False), "type mismatch"),
    "dtype": (lambda: torch.ones(2, 3, dtype=torch.float64), "dtype mismatch, expected f32, actual f64"),
    "device": (lambda: torch.ones(2, 3, device="meta"), "device mismatch, expected cpu, actual meta"),
    "requires_grad": (lambda: torch.ones(2, 3, requires_grad=True), "requires_grad mismatch, expected False"),
    "rank": (lambda: torch.ones(2, 3, 1), "rank mismatch, expected 2, actual 3"),
    "size": (lambda: torch.ones(2, 4), "size mismatch at index 1, expected 3, actual 4"),
    "stride": (lambda: torch.ones(3, 2).t(), "stride mismatch at index 0, expected 3, actual 1"),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_B06_each_property_of_a_tensor_is_guarded(counting, name):
    make, message = PROPERTIES[name]

    def f(x):
        return x * 2

    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    first, second = torch.ones(2, 3), make()
    for _ in range(2):
        assert same(compiled(first), f(first))
        got, want = compiled(second), f(second)
        assert (got.dtype, got.device, got.requires_grad, got.stride()) == (
            want.dtype,
            want.device,
            want.requires_grad,
            want.stride(),
        )
        assert want.is_meta or torch.equal(got, want)
    assert counting.count == 2
    (reason,) = pellucid.guard_failures(compiled)
    assert "TENSOR_MATCH x: " in reason and message in reason


def test_B06_dispatch_keys_are_guarded(counting):
    def f(z):
        return z.imag + 1

    z = torch.ones(3, dtype=torch.complex64) * 1j
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for _ in range(2):
        assert compiled(z).tolist() == [2] * 3 and compiled(z.conj()).tolist() == [0] * 3
    (reason,) = pellucid.guard_failures(compiled)
    assert counting.count == 2 and "dispatch key set mismatch" in reason and "Conjugate" in reason


@pytest.mark.parametrize("change", ["t_", "squeeze_", "unsqueeze_", "transpose_"])
def test_B06_the_guard_is_on_the_tensor_as_it_came(counting, change):
    arguments = {"unsqueeze_": (0,), "transpose_": (0, 1)}.get(change, ())

    def f(x):
        getattr(x, change)(*arguments)
        return x + 1

    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for _ in range(3):
        got, want = torch.ones(1, 3), torch.ones(1, 3)
        assert same(compiled(got), f(want)) and got.shape == want.shape and got.stride() == want.stride()
    assert counting.count == 1


def test_B07_a_static_address_is_guarded(counting):
    from torch._dynamo import mark_static_address

    fixed, other = torch.ones(3), torch.zeros(3)
    mark_static_address(fixed, guard=True)

    def f(t, x):
        return t + x

    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for t in (fixed, fixed, other, fixed, other):
        assert same(compiled(t, X), f(t, X))
    assert counting.count == 2
    assert any("ID_MATCH t: " in reason for reason in pellucid.guard_failures(compiled))
    (x,) = counting.graphs[0].graph.find_nodes(op="placeholder")
    (t,) = counting.graphs[0].graph.find_nodes(op="get_attr")  # as in 2.13: the tensor is a constant of the graph
    assert x._dynamo_source.name == "L['x']" and getattr(counting.graphs[0], t.target) is fixed


def test_B07_a_static_address_that_is_not_guarded_is_no_condition(counting):
    from torch._dynamo import mark_static_address

    fixed = torch.ones(3)
    mark_static_address(fixed)
    assert compiles(counting, lambda t: t + 1, (fixed,), (torch.zeros(3),)) == [1, 1]


# ---- B08: modules


class Net(torch.nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.inner = torch.nn.Linear(3, width)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.inner(x))


def test_B08_training_mode(counting):
    net = Net()
    compiled = pellucid.compile(net, backend=counting, fullgraph=True)
    for training in (True, False, True, False):
        net.train(training)
        torch.manual_seed(0)
        got = compiled(X)
        torch.manual_seed(0)
        assert same(got, net(X))
    assert counting.count == 2


def zero_weight(net):
    net.inner.weight = torch.nn.Parameter(torch.zeros(3, 3))


def wider(net):
    net.inner.weight, net.inner.bias = torch.nn.Parameter(torch.ones(5, 3)), torch.nn.Parameter(torch.ones(5))


def other_module(net):
    net.inner = torch.nn.Tanh()


def forward_hook(net):
    net.inner.register_forward_hook(lambda module, args, result: result + 1)


def forward_pre_hook(net):
    net.register_forward_pre_hook(lambda module, args: (args[0] * 2,))


def frozen(net):
    net.inner.weight.requires_grad_(False)


@pytest.mark.parametrize(
    ("change", "graphs"),
    [(zero_weight, 1), (wider, 2), (other_module, 2), (forward_hook, 2), (forward_pre_hook, 2), (frozen, 2)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_B08_changes_of_a_module(counting, change, graphs):
    torch.manual_seed(0)
    net = Net().eval()
    compiled = pellucid.compile(net, backend=counting, fullgraph=True)
    before = net(X)
    assert same(compiled(X), before)
    change(net)
    for _ in range(2):
        assert same(compiled(X), net(X))
    assert change is frozen or not same(net(X), before)
    assert counting.count == graphs
    if change is zero_weight:
        assert same(compiled(X), net.inner.bias)


def test_B08_a_module_replaced(counting):
    holder = types.SimpleNamespace(net=torch.nn.Linear(3, 3))

    def f(x):
        return holder.net(x)

    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    assert same(compiled(X), f(X))
    for net, graphs in [(torch.nn.Linear(3, 3), 1), (torch.nn.Linear(3, 2), 2), (torch.nn.ReLU(), 3)]:
        holder.net = net
        assert same(compiled(X), f(X)) and counting.count == graphs
