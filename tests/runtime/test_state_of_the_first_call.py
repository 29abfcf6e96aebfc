"""A first call that makes the state that all others find runs by the interpreter, and the region is that of the next."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import pellucid
from pellucid.errors import BackendCompilerFailed, Unsupported
from support import Counting, CountingOf, same

X = torch.arange(3.0)


def running_mean(state):
    def f(x):
        if "mean" not in state:
            state["mean"], state["count"] = torch.zeros_like(x), torch.zeros(())
        state["count"] += 1
        state["mean"] += (x - state["mean"]) / state["count"]
        return state["mean"] * 2

    return f


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = (x > 1).float()
        return x * self.weight * self.mask


class Marked:
    """Says itself that it is ready."""

    def __init__(self):
        self.ready = False

    def __call__(self, x):
        if not self.ready:
            self.table = {"scale": torch.full((3,), 2.0)}
            self.ready = True
        return x * self.table["scale"]


def per_tensor(state):
    def f(x, y):
        for t in (x, y):
            if t not in state:
                state[t] = [torch.zeros(())]
            state[t][0] += t.sum()
        return state[x][0] + state[y][0]

    return f


@pytest.mark.parametrize("fullgraph", [False, True])
def test_state_in_a_dict(fullgraph):
    states = {}, {}
    backend = Counting()
    eager, compiled = running_mean(states[0]), running_mean(states[1])
    compiled = pellucid.compile(compiled, backend=backend, fullgraph=fullgraph)
    for i in range(5):
        assert same(compiled(X + i), eager(X + i)) and same(*states)
    assert backend.count == 1 and not pellucid.break_reasons(compiled)
    assert len(pellucid.cache_entries(compiled)) == 1 and not pellucid.guard_failures(compiled)


def test_state_of_tensors_as_keys():
    states = {}, {}
    backend = Counting()
    eager, compiled = per_tensor(states[0]), pellucid.compile(per_tensor(states[1]), backend=backend)
    y = X + 1
    for _ in range(3):
        assert same(compiled(X, y), eager(X, y))
    assert backend.count == 1 and same(list(states[0].values()), list(states[1].values()))


def test_attribute_of_a_module():
    backend = Counting()
    eager, module = Lazy(), Lazy()
    compiled = pellucid.compile(module, backend=backend)
    for i in range(4):
        results = [m(X + i) for m in (eager, compiled)]
        for result in results:
            result.sum().backward()
        assert same(*results) and same(eager.weight.grad, module.weight.grad) and same(eager.mask, module.mask)
    assert backend.count == 1
    another = Lazy()  # its first call makes its own mask; the region of the first one serves it then
    again = pellucid.compile(another, backend=backend)
    assert same(again(X), Lazy()(X)) and same(again(X + 1), another(X + 1)) and backend.count == 1


def test_marks():
    backend = Counting()
    compiled = pellucid.compile(Marked().__call__, backend=backend)
    eager = Marked()
    for i in range(3):
        assert same(compiled(X + i), eager(X + i))
    assert backend.count == 1


def test_a_dict_of_the_caller_is_no_state():
    def fill(cache, x):
        if "twice" not in cache:
            cache["twice"] = x * 2
        return cache["twice"] + 1

    backend = Counting()
    compiled = pellucid.compile(fill, backend=backend)
    for _ in range(3):
        cache = {}
        assert same(compiled(cache, X), X * 2 + 1) and same(cache, {"twice": X * 2})
    assert backend.count == 1  # the region that fills it serves every call
    assert pellucid.cache_entries(compiled)[0]["hits"] >= 2


def test_another_key_at_each_call():
    caches = {}, {}

    def make(cache):
        def f(x, name):
            if name not in cache:
                cache[name] = x * 2
            return cache[name] + x

        return f

    eager, backend = make(caches[0]), Counting()
    compiled = pellucid.compile(make(caches[1]), backend=backend)
    for i, name in enumerate("abcab"):
        assert same(compiled(X + i, name), eager(X + i, name)) and same(*caches)
    assert backend.count <= 4


def test_what_it_raises_is_raised_once():
    state: dict = {}
    log: list = []

    def f(x, index):
        if "seen" not in state:
            state["seen"] = x + 1
            log.append("made")
        return state["seen"][index] * x

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(X, torch.tensor([7]))
    assert same(state, {"seen": X + 1}) and log == ["made"]
    for _ in range(2):
        assert same(compiled(X, torch.tensor([1])), X * 2)
    assert backend.count == 1 and log == ["made"]


def test_a_backend_that_fails_is_told_by_the_next_call():
    def backend(gm, inputs):
        raise ValueError("cannot")

    state: dict = {}
    compiled = pellucid.compile(running_mean(state), backend=backend)
    assert same(compiled(X), X * 2) and state["count"] == 1
    with pytest.raises(BackendCompilerFailed, match="cannot"):
        compiled(X)
    assert state["count"] == 1  # before anything has happened


def test_what_the_second_region_stops_at():
    state: dict = {}

    def f(x):
        if "scale" not in state:
            state["scale"] = torch.full((3,), 2.0)
            return x * state["scale"]
        pellucid.graph_break()
        return x / state["scale"]

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    assert same(compiled(X), X * 2) and same(compiled(X), X / 2) and same(compiled(X), X / 2)
    assert backend.count == 1 and len(pellucid.break_reasons(compiled)) == 1
    state.clear()
    whole = pellucid.compile(f, backend=backend, fullgraph=True)
    assert same(whole(X), X * 2)
    with pytest.raises(pellucid.errors.Unsupported):
        whole(X)


def test_a_call_within_the_first():
    state: dict = {}

    def f(x, depth):
        if depth not in state:
            state[depth] = torch.ones(3)
        return x * state[depth] if depth == 0 else compiled(x, depth - 1) + state[depth]

    compiled = pellucid.compile(f, backend=Counting())
    for _ in range(3):
        assert same(compiled(X, 2), X + 2)
    assert list(state) == [2, 1, 0]


def test_random_numbers_are_drawn_once():
    def make(state):
        def f(x):
            if "noise" not in state:
                state["noise"] = torch.randn(3)
            return x + state["noise"] + torch.rand(3)

        return f

    results = []
    for around in (lambda f: f, lambda f: pellucid.compile(f, backend=Counting())):
        torch.manual_seed(0)
        f = around(make({}))
        results.append([[f(X) for _ in range(3)], torch.get_rng_state()])
    assert same(*results)


def test_arguments_die_with_their_call():
    state: dict = {}

    class Box:
        def __init__(self):
            self.value = X + 1

    def f(*boxes):
        if "sum" not in state:
            state["sum"] = torch.zeros(3)
        state["sum"] += boxes[0].value
        return state["sum"] * 1

    compiled = pellucid.compile(f, backend=Counting())
    box = Box()
    gone = weakref.ref(box)
    compiled(box)
    del box
    gc.collect()
    assert gone() is None
    assert same(compiled(Box()), 2 * (X + 1))


# ---- functions that an eager run calls, and backward passes that no region takes


def training_step(sparse):
    torch.manual_seed(0)
    table = nn.Embedding(6, 4, sparse=sparse)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

    def step(rows):
        optimizer.zero_grad()
        loss = table(rows).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, table


@pytest.mark.parametrize("call", [0, 1, 2])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_that_a_backward_pass_behind_a_break_leaves(backend, call):
    """The pass on a sparse gradient is a step of its own; the region before it is made for the calls that find one."""
    # The first of a process that comes to AOTAutograd loads what puts other objects in the place of guarded ones.
    pellucid.compile(training_step(sparse=True)[0], backend=CountingOf(backend))(torch.tensor([1, 2]))
    step, table = training_step(sparse=True)
    wanted_step, wanted_table = training_step(sparse=True)
    counting = CountingOf(backend)
    compiled = pellucid.compile(step, backend=counting)
    counts = []
    for number in range(5):
        rows = torch.randint(0, 6, (5,))
        if number == call:  # found without any, whenever that is
            table.weight.grad = wanted_table.weight.grad = None
        assert same(compiled(rows), wanted_step(rows))
        assert torch.equal(table.weight, wanted_table.weight)
        assert torch.equal(table.weight.grad.to_dense(), wanted_table.weight.grad.to_dense())
        counts.append(counting.count)
    forward = [gm for gm in counting.graphs if any("embedding" in str(node.target) for node in gm.graph.nodes)]
    assert len(forward) == (1 if call == 0 else 2)
    assert counts[0] == 1 and counts[-1] == counts[-2]


def test_a_pass_that_asks_nothing_of_gradients_is_captured_in_its_first_call():
    table = nn.Embedding(6, 4, sparse=True)

    def f(rows):
        loss = table(rows).square().mean()
        loss.backward()
        return loss.detach()

    counting = Counting()
    pellucid.compile(f, backend=counting)(torch.tensor([1, 2]))
    assert counting.count


def test_fullgraph_says_so():
    step, table = training_step(sparse=True)
    compiled = pellucid.compile(step, backend="eager", fullgraph=True)
    with pytest.raises(Unsupported):
        compiled(torch.tensor([1, 2]))
    assert not pellucid.cache_entries(compiled)
    wanted_step, wanted_table = training_step(sparse=True)
    wanted_step(torch.tensor([1, 2]))  # the error is the program's own, if it has one: it has run once
    assert torch.equal(table.weight, wanted_table.weight)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_function_that_an_eager_run_calls_makes_its_state(backend):
    def run(around):
        torch.manual_seed(0)
        net, seen = nn.Linear(3, 2), {}

        def closure():
            if "calls" not in seen:
                seen["calls"] = torch.zeros(())
            seen["calls"] += 1
            net.zero_grad()
            loss = net(X).square().sum() * seen["calls"]
            loss.backward()
            return loss.detach()

        def inner(x, closure):
            print("in the middle")
            return closure() + x.sum()

        f = around(lambda x: pellucid.disable(inner, recursive=False)(x, closure))
        return [f(X + turn) for turn in range(4)], [p.grad for p in net.parameters()], seen

    counting = CountingOf(backend)
    wanted, got = run(lambda f: f), run(lambda f: pellucid.compile(f, backend=counting))
    assert same(got, wanted)
    of_closure = [gm for gm in counting.graphs if any("linear" in str(node.target) for node in gm.graph.nodes)]
    assert len(of_closure) == 1


def test_a_function_that_an_eager_run_calls_and_that_raises():
    """Its frame is used up by running it, once."""

    def run(around):
        seen = {}

        def closure():
            if "calls" not in seen:
                seen["calls"] = []
            seen["calls"].append(X.sum())
            if len(seen["calls"]) == 1:
                raise ValueError("the first")
            return X * len(seen["calls"])

        def inner(x, closure):
            try:
                return closure() + x
            except ValueError as error:
                return str(error), len(seen["calls"])

        f = around(lambda x: pellucid.disable(inner, recursive=False)(x, closure))
        return [f(X) for _ in range(3)]

    assert same(run(lambda f: f), run(lambda f: pellucid.compile(f, backend="eager")))


def test_what_a_used_up_frame_held_goes():
    class Held:
        pass

    def closure(held, x):
        if not hasattr(table, "scale"):
            table.scale = x * 2
        return x * table.scale

    def inner(x):
        held = Held()
        gone.append(weakref.ref(held))
        return closure(held, x)

    table, gone = Lazy(), []
    f = pellucid.compile(lambda x: pellucid.disable(inner, recursive=False)(x), backend="eager")
    for _ in range(3):
        assert same(f(X), X * X * 2)
        gc.collect()
        assert gone[-1]() is None


def lazy_net():
    return nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(3))


def lazy_images():
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.Flatten(), nn.LazyLinear(2))


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make, shape", [(lazy_net, (8, 4)), (lazy_images, (2, 3, 8, 8))])
def test_lazy_modules_get_their_shapes_in_the_first_call(make, shape, backend, fullgraph):
    def run(around):
        torch.manual_seed(0)
        net = make()
        f, results = around(net), []
        for _ in range(3):
            result = f(torch.randn(shape))
            result.square().sum().backward()
            results.append(result.detach())
        return results, net.state_dict(), [p.grad for p in net.parameters()], [type(p) for p in net.parameters()]

    counting = CountingOf(backend)
    wanted = run(lambda net: net)
    assert same(run(lambda net: pellucid.compile(net, backend=counting, fullgraph=fullgraph)), wanted)
    assert counting.count == 1 and not pellucid.break_reasons()


def test_a_lazy_module_that_fails_in_its_first_call():
    net = nn.Sequential(nn.LazyLinear(8), nn.Linear(9, 3))
    compiled = pellucid.compile(net, backend=Counting())
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        compiled(torch.ones(2, 4))
    assert type(net[0].weight) is nn.Parameter and net[0].weight.shape == (8, 4)
    net[1] = nn.Linear(8, 3)
    assert same(compiled(torch.ones(2, 4)), net(torch.ones(2, 4)))


def test_a_batch_norm_that_averages_over_all_calls_is_one_graph():
    def run(around):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, momentum=None))
        f = around(net)
        return [f(torch.randn(8, 4)).detach() for _ in range(4)], net.state_dict()

    counting, wanted = Counting(), run(lambda net: net)
    assert same(run(lambda net: pellucid.compile(net, backend=counting, fullgraph=True)), wanted)
    assert counting.count == 1
