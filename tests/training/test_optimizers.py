"""`step` of all of torch.optim, compiled: parameters and state as eager leaves them, in one region (the first call, which
makes the state, runs by the interpreter)."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

import pellucid
from support import Counting, CountingOf, FailsWithItems, same

PLAIN = ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]
WITH_BREAKS = {"LBFGS"}  # it branches on numbers of tensors
CASES = {
    **{name: (name, {}) for name in PLAIN},
    **{f"{name}-foreach": (name, {"foreach": True}) for name in PLAIN},
    **{f"{name}-tensor_lr": (name, {"lr": torch.tensor(0.01), "foreach": False}) for name in PLAIN},
    **{f"{name}-fused": (name, {"fused": True}) for name in ("SGD", "Adam", "AdamW", "Adagrad")},
    "SGD-nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "Adam-amsgrad": ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    "RMSprop-centered": ("RMSprop", {"centered": True, "momentum": 0.9}),
    "Adafactor": ("Adafactor", {}),
    "Muon": ("Muon", {}),
    "LBFGS": ("LBFGS", {"max_iter": 3}),
}


def train(name, options, around):
    """Four steps; what they leave: losses, parameters, state."""
    torch.manual_seed(0)
    bias = name != "Muon"
    net = nn.Sequential(nn.Linear(4, 5, bias=bias), nn.ReLU(), nn.Linear(5, 2, bias=bias))
    copied = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in options.items()}
    optimizer = getattr(torch.optim, name)(net.parameters(), **copied)
    x = torch.randn(3, 4)

    def closure():
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    step = around(optimizer.step)
    losses = []
    for _ in range(4):
        if name == "LBFGS":
            losses.append(step(closure).detach())
        else:
            losses.append(closure().detach())
            step()
    return losses, [p.detach() for p in net.parameters()], optimizer.state_dict()["state"]


def close(a, b, atol=1e-5):
    return all(
        torch.allclose(x, y, atol=atol) if isinstance(x, torch.Tensor) else x == y
        for x, y in zip(*map(torch.utils._pytree.tree_leaves, (a, b)), strict=True)
    )


@pytest.mark.parametrize("case", CASES)
def test_step(case):
    name, options = CASES[case]
    found = []
    wanted = train(name, options, lambda step: step)
    got = train(name, options, lambda step: found.append(pellucid.compile(step, backend="eager")) or found[-1])
    assert same(got, wanted)
    assert pellucid.cache_entries(found[0])
    if name not in WITH_BREAKS:
        assert not pellucid.break_reasons() and len(pellucid.cache_entries(found[0])) == 1


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][0] not in WITH_BREAKS])
def test_step_for_a_backend_that_compiles(case):
    name, options = CASES[case]
    wanted = train(name, options, lambda step: step)
    found = []
    got = train(name, options, lambda step: found.append(pellucid.compile(step, backend="aot_eager")) or found[-1])
    assert same(got, wanted) if name == "Adafactor" else close(got, wanted)
    if not options.get("fused"):
        assert not pellucid.break_reasons() and 1 <= len(pellucid.cache_entries(found[0])) <= 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ["RAdam", "ASGD"])
def test_each_way_that_a_step_goes_by_its_number_is_one_graph(name, backend):
    def run(around):
        torch.manual_seed(0)
        net = nn.Linear(4, 3)
        options = {"lr": 0.01, **({"t0": 4.0} if name == "ASGD" else {})}
        optimizer = getattr(torch.optim, name)(net.parameters(), **options)
        step, x = around(optimizer.step), torch.randn(3, 4)
        for _ in range(12):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            step()
        return [p.detach() for p in net.parameters()], optimizer.state_dict()["state"]

    found = []
    wanted = run(lambda step: step)
    got = run(lambda step: found.append(pellucid.compile(step, backend=backend, fullgraph=True)) or found[-1])
    # torch's optimizers count in tensors of float32 where they are compiled, which RAdam subtracts.
    assert same(got, wanted) if backend == "eager" else close(got, wanted, 1e-4)
    assert 2 <= len(pellucid.cache_entries(found[0])) <= 4


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_what_an_optimizer_asks_of_a_tensor_is_a_number_of_the_graph(weight_decay):
    """For backends that compile too, bit for bit; the program's own item() ends the region there."""

    def run(around, steps=5):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
        optimizer = torch.optim.Adafactor(net.parameters(), lr=0.01, weight_decay=weight_decay)

        def train(x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = around(train)
        losses = [step(torch.randn(3, 4)) for _ in range(steps)]
        return losses, [p.detach() for p in net.parameters()], optimizer.state_dict()["state"]

    backend = CountingOf("aot_eager")
    wanted, got = run(lambda step: step), run(lambda step: pellucid.compile(step, backend=backend, fullgraph=True))
    assert same(got, wanted)
    assert backend.count == 1
    (graph,) = backend.graphs
    assert sum(node.target == "item" for node in graph.graph.nodes) == 3 * 4

    def own(x):
        return x * x.sum().item()

    compiled = pellucid.compile(own, backend="aot_eager")
    assert same(compiled(torch.ones(3)), own(torch.ones(3)))
    assert "x.sum().item()" in str(pellucid.break_reasons(compiled)[0])


def test_inductor_takes_such_a_number_as_the_weight_of_lerp():
    """It asks which of two formulas is for the weight, which the first four steps of Adafactor ask for both."""
    backend = CountingOf("inductor")
    wanted = train("Adafactor", {}, lambda step: step)
    got = train("Adafactor", {}, lambda step: pellucid.compile(step, backend=backend, fullgraph=True))
    assert close(got, wanted)
    assert 1 <= backend.count <= 2


def test_a_backend_that_fails_with_a_number_of_the_graph_fails_once():
    """What lies behind the breaks that are there then does without such numbers at once."""
    backend = FailsWithItems("aot_eager")
    wanted = train("Adafactor", {}, lambda step: step)
    got = train("Adafactor", {}, lambda step: pellucid.compile(step, backend=backend))
    assert same(got, wanted)
    assert len(backend.failed) == 1 and backend.count > 4


def test_every_optimizer_is_here():
    of_torch = {name for name, value in vars(torch.optim).items() if inspect.isclass(value)} - {"Optimizer"}
    assert of_torch - {name for name, _ in CASES.values()} == {"SparseAdam"}  # dense gradients are an error there


def test_marks_of_torch_dynamo_on_optimizers_are_about_itself():
    import torch._dynamo.eval_frame as eval_frame

    eval_frame.TorchPatcher.patch()
    assert torch.optim.Adam._init_group._torchdynamo_disable
    train("Adam", {}, lambda step: pellucid.compile(step, backend="eager", fullgraph=True))


def test_what_the_program_disables_is_a_break():
    class Own(torch.optim.SGD):
        @pellucid.disable
        def _init_group(self, *args, **options):
            return super()._init_group(*args, **options)

    torch.optim.Own = Own
    try:
        wanted, got = (train("Own", {}, around) for around in (lambda step: step, pellucid.compile))
    finally:
        del torch.optim.Own
    assert same(got, wanted) and any("disabled" in str(reason) for reason in pellucid.break_reasons())


def closure_steps(optimizer_of, net, loss_of):
    """A training step whose closure takes nothing, and closes over all that it works on."""
    optimizer = optimizer_of(net.parameters())

    def step(*data):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(net, *data)
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return step, optimizer


STEPS_AS_THEY_ARE = {
    "LBFGS": (
        lambda parameters: torch.optim.LBFGS(parameters, lr=0.5, max_iter=4),
        lambda: nn.Linear(4, 1),
        lambda net, x, y: (net(x).squeeze(-1) - y).square().mean(),
        lambda: (torch.randn(3, 4), torch.randn(3)),
    ),
    "LBFGS-strong_wolfe": (
        lambda parameters: torch.optim.LBFGS(parameters, max_iter=3, line_search_fn="strong_wolfe"),
        lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)),
        lambda net, x, y: (net(x).squeeze(-1) - y).square().mean(),
        lambda: (torch.randn(3, 4), torch.randn(3)),
    ),
    "SparseAdam": (
        lambda parameters: torch.optim.SparseAdam(list(parameters), lr=0.1),
        lambda: nn.Embedding(6, 4, sparse=True),
        lambda net, rows: net(rows).square().mean(),
        lambda: (torch.randint(0, 6, (5,)),),
    ),
}


@pytest.mark.parametrize("marked", [False, True], ids=["", "marked_by_dynamo"])
@pytest.mark.parametrize("case", STEPS_AS_THEY_ARE)
def test_a_step_runs_as_it_is_and_its_closure_is_captured(case, marked, monkeypatch):
    """torch._dynamo marks these steps for itself: what they call is captured all the same."""
    optimizer_of, net_of, loss_of, data_of = STEPS_AS_THEY_ARE[case]
    cls = getattr(torch.optim, case.partition("-")[0])
    if marked:
        monkeypatch.setattr(cls, "step", torch.compiler.disable(cls.step, reason=f"optimizer {cls} step not supported"))

    def run(around):
        torch.manual_seed(0)
        net = net_of()
        step, optimizer = closure_steps(optimizer_of, net, loss_of)
        step = around(step)
        losses, counts = [], []
        for _ in range(6):
            losses.append(step(*data_of()))
            counts.append(counting.count)
        return losses, [p.detach() for p in net.parameters()], optimizer.state_dict()["state"], counts

    counting = Counting()
    *wanted, _ = run(lambda step: step)
    *got, counts = run(lambda step: pellucid.compile(step, backend=counting))
    assert same(got, wanted)
    assert any("PEL0318" in str(reason) for reason in pellucid.break_reasons())
    of_closure = [gm for gm in counting.graphs if len(gm.graph.nodes) > 4]
    assert len(of_closure) == 1, "of the calls that find gradients"
    assert counts[0] and counts[2] == counts[-1] <= 3


def test_of_a_sparse_gradient_its_presence_is_known():
    """No graph takes it, but one that only puts it away is made once."""
    parameter = nn.Parameter(torch.ones(4))

    def f(x):
        had = parameter.grad is not None
        parameter.grad = None
        return x * 2, had

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    sparse = torch.tensor([0.0, 1.0, 0.0, 2.0]).to_sparse()
    for gradient in (None, sparse, sparse * 2, None, torch.ones(4), sparse.coalesce(), torch.ones(4)):
        parameter.grad = gradient
        value, had = compiled(torch.ones(3))
        assert torch.equal(value, torch.full((3,), 2.0)) and had == (gradient is not None) and parameter.grad is None
    assert counting.count == 3
