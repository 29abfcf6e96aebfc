"""Whole steps of training in one function: backward passes, gradients that are set, cleared, clipped and scaled,
optimizers, schedulers, averages. Each against eager, with how many regions and graph breaks it may make."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import pellucid
from support import CountingOf, same

PROGRAMS = {}


@dataclass
class Program:
    run: object
    entries: int = 2  # the first call finds no gradients
    breaks: int = 0
    tolerance: float = 1e-6


def program(**limits):
    def note(run):
        PROGRAMS[run.__name__] = Program(run, **limits)
        return run

    return note


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4)), torch.randn(5, 8)


def gradients(net):
    return [p.grad for p in net.parameters()]


def train(net, optimizer, x, **options):
    """One step."""
    optimizer.zero_grad(**options)
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def sgd(net, **options):
    return torch.optim.SGD(net.parameters(), lr=0.1, **options)


@program()
def loss_alone(around):
    net, x = make()

    def step(x):
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach()

    step = around(step)
    return [step(x) for _ in range(3)], gradients(net)


@program()
def optimizer(around):
    net, x = make()
    optimizer = sgd(net, momentum=0.9)

    step = around(lambda x: train(net, optimizer, x))
    return [step(x) for _ in range(4)], list(net.parameters())


@program()
def closure(around):
    net, x = make()
    optimizer = sgd(net)

    def closure():
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    step = around(lambda: optimizer.step(closure))
    return [step().detach() for _ in range(3)], list(net.parameters())


@program()
def clipped_norm(around):
    net, x = make()
    optimizer = sgd(net)

    def step(x):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
        return norm

    step = around(step)
    return [step(x) for _ in range(4)], list(net.parameters())


@program()
def clipped_value(around):
    net, x = make()

    def step(x):
        net.zero_grad()
        net(x).square().mean().backward()
        nn.utils.clip_grad_value_(net.parameters(), 0.01)

    step = around(step)
    return [step(x) for _ in range(3)], gradients(net)


@program()
def accumulated(around):
    net, x = make()
    optimizer = sgd(net)

    def step(x):
        optimizer.zero_grad()
        for i in range(3):
            (net(x * i).square().mean() / 3).backward()
        optimizer.step()

    step = around(step)
    return [step(x) for _ in range(4)], list(net.parameters())


@program()
def zeroed(around):
    net, x = make()
    optimizer = sgd(net)

    step = around(lambda x: train(net, optimizer, x, set_to_none=False))
    return [step(x) for _ in range(4)], gradients(net), list(net.parameters())


@program()
def scheduled(around):
    net, x = make()
    optimizer = sgd(net, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    step, rates = around(lambda x: train(net, optimizer, x)), []
    for _ in range(8):
        step(x)
        scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates, list(net.parameters())


@program(entries=3)
def scheduled_inside(around):
    net, x = make()
    optimizer = sgd(net)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)

    def step(x):
        train(net, optimizer, x)
        scheduler.step()

    step = around(step)
    return [step(x) for _ in range(6)], list(net.parameters()), scheduler.state_dict()


@program()
def moving_average(around):
    net, x = make()
    average, optimizer = copy.deepcopy(net), sgd(net)

    def step(x):
        train(net, optimizer, x)
        with torch.no_grad():
            for a, b in zip(average.parameters(), net.parameters()):
                a.lerp_(b, 0.1)

    step = around(step)
    return [step(x) for _ in range(4)], list(average.parameters())


@program(entries=1)
def moving_average_of_data(around):
    net, x = make()
    average = copy.deepcopy(net)

    def step(x):
        for a, b in zip(average.parameters(), net.parameters()):
            a.data.mul_(0.9).add_(b.data, alpha=0.1)
        return average(x)

    step = around(step)
    return [step(x) for _ in range(3)], list(average.parameters())


def scaled_loss(around, enabled):
    net, x = make()
    optimizer, scaler = sgd(net), torch.amp.GradScaler("cpu", enabled=enabled)

    def step(x):
        optimizer.zero_grad()
        scaler.scale(net(x).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()

    step = around(step)
    return [step(x) for _ in range(3)], list(net.parameters()), scaler.get_scale()


@program()
def scaler_that_is_off(around):
    return scaled_loss(around, enabled=False)


@program(breaks=2)
def scaler(around):
    return scaled_loss(around, enabled=True)


@program()
def autocast(around):
    net, x = make()
    optimizer = sgd(net)

    def step(x):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = net(x).float().square().mean()
        loss.backward()
        optimizer.step()

    step = around(step)
    return [step(x) for _ in range(3)], list(net.parameters())


@program()
def several_losses(around):
    net, x = make()

    def step(x):
        y = net(x)
        a, b = y.sum(), y.square().sum()
        torch.autograd.backward([a, b], retain_graph=True)
        a.backward()

    step = around(step)
    return [step(x) for _ in range(3)], gradients(net)


@program()
def no_scalar(around):
    net, x = make()

    def step(x):
        y = net(x)
        y.backward(torch.ones_like(y))
        return y.detach()

    step = around(step)
    return [step(x) for _ in range(3)], gradients(net)


@program()
def gradients_that_are_handed_in(around):
    first, second = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    given = torch.arange(2.0)

    def step(given):
        (first + second).backward(given)

    step = around(step)
    for _ in range(2):
        step(given)
        first.grad.mul_(3)
    return first.grad, second.grad, given


@program()
def shared_weight(around):
    net, x = make()
    net[2] = nn.Linear(8, 6)
    net[2].weight = net[0].weight

    def step(x):
        (net[0](x).sum() + net[2](x).square().sum()).backward()

    step = around(step)
    return [step(x) for _ in range(3)], gradients(net)


@program()
def strides_of_gradients(around):
    torch.manual_seed(0)
    weight = torch.randn(4, 3).t().requires_grad_()

    def step(x):
        ((weight @ x).sum() + weight.sum()).backward()
        return weight.grad.stride()

    step = around(step)
    return [step(torch.ones(4)) for _ in range(3)], weight.grad


@program()
def gradients_over_one_memory(around):
    a, b, c = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True), torch.arange(6.0)

    def step():
        ((a.view(-1) + b.view(-1)) * c).sum().backward()
        a.grad.mul_(2)
        return a.grad.clone(), b.grad.clone()

    step = around(step)
    return [step() for _ in range(2)], a.grad, b.grad


@program()
def detached_gradients(around):
    net, x = make()

    def step(x):
        net(x).sum().backward()
        return len([p.grad for p in net.parameters()])

    step, seen = around(step), []
    for _ in range(2):
        step(x)
        for p in net.parameters():
            p.grad.detach_().mul_(0.5)  # no view
            seen.append(p.grad.requires_grad)
    return seen, gradients(net)


@program(entries=1)
def gradients_as_values(around):
    net, x = make()

    def f(x):
        loss = net(x).square().mean()
        return [g * 2 for g in torch.autograd.grad(loss, list(net.parameters()))]

    f = around(f)
    return [f(x) for _ in range(2)]


@program(entries=1)
def gradient_of_an_input_twice(around):
    net, x = make()
    x.requires_grad_()

    def f(x):
        loss = net(x).square().mean()
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        return loss + gradient.square().sum()

    f, losses = around(f), []
    for _ in range(3):
        loss = f(x)
        loss.backward()
        losses.append(loss.detach())
    return losses, x.grad, gradients(net)


@program()
def penalty(around):
    weight, x = torch.arange(4.0).requires_grad_(), torch.ones(4)

    def f():
        (gradient,) = torch.autograd.grad((weight * x).sin().sum(), weight, create_graph=True)
        gradient.square().sum().backward()
        return gradient.detach(), weight.grad.clone()

    f = around(f)
    return [f() for _ in range(3)]


@program(entries=1)
def by_hand(around):
    weight, x = torch.arange(4.0).requires_grad_(), torch.ones(4)

    def step():
        loss = (weight * x).square().sum()
        loss.backward()
        with torch.no_grad():
            weight.sub_(0.1 * weight.grad)
        weight.grad = None
        return loss.detach()

    step = around(step)
    return [step() for _ in range(3)], weight


@program()
def gradients_that_are_set(around):
    net, x = make()

    def f(x):
        for p in net.parameters():
            p.grad = torch.ones_like(p) * 2
        return net(x).detach()

    f = around(f)
    return [f(x) for _ in range(3)], gradients(net)


@program(entries=3, breaks=1)
def hooks_that_come_later(around):
    net, x = make()

    def step(x):
        net(x).sum().backward()

    step, seen = around(step), []
    step(x)
    for p in net.parameters():
        p.register_hook(lambda g: seen.append(1) or g * 2)
    return [step(x) for _ in range(2)], gradients(net), seen


@program(entries=3, breaks=1)
def optimizers_in_hooks(around):
    net, x = make()
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}

    def hook(p):
        optimizers[p].step()
        p.grad = None

    def step(x):
        net(x).sum().backward()

    step = around(step)
    step(x)
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(hook)
    return [step(x) for _ in range(2)], list(net.parameters())


@program(entries=4, breaks=1)
def inputs_that_have_been_computed(around):
    net, x = make()
    weight, leaf = torch.ones(8, requires_grad=True), x.clone().requires_grad_()

    def step(y):
        net(y).sum().backward()

    step = around(step)
    for y in (x * weight, x * weight, x, leaf):
        step(y)
    return weight.grad, leaf.grad, gradients(net)


def leaves(value):
    return torch.utils._pytree.tree_leaves(value)


def check_equal(got, wanted, tolerance):
    for a, b in zip(leaves(got), leaves(wanted), strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert (a.shape, a.stride(), a.dtype, a.requires_grad) == (b.shape, b.stride(), b.dtype, b.requires_grad)
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, backend):
    found = PROGRAMS[name]
    compiled = []
    got = found.run(lambda f: compiled.append(pellucid.compile(f, backend=backend)) or compiled[-1])
    check_equal(got, found.run(lambda f: f), 0 if backend == "eager" else found.tolerance)
    assert 1 <= len(pellucid.cache_entries(compiled[0])) <= found.entries
    assert sum(pellucid.counters["graph_break"].values()) <= found.breaks


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_loss_that_leaves_has_no_graph_any_more(backend):
    net, x = make()

    def step(x):
        loss = net(x).square().mean()
        loss.backward()
        return loss

    compiled = pellucid.compile(step, backend=backend, fullgraph=True)
    for _ in range(2):
        loss, wanted = compiled(x), step(x)
        assert torch.equal(loss, wanted) and loss.requires_grad and not loss.is_leaf
        for each in (loss, wanted):
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                each.backward()
        assert float(loss.detach() * 2) == float(wanted.detach() * 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_leaves_behind_a_pass_can_be_written_to(backend):
    """A total of losses is summed up in place, as `total += loss` of a loop does with the first one."""

    def step(x):
        hidden = x * 2
        loss = hidden.exp().sum()
        loss.backward()
        return loss, hidden, hidden[0]

    compiled = pellucid.compile(step, backend=backend, fullgraph=True)
    for _ in range(2):
        results = [run(torch.arange(4.0, requires_grad=True)) for run in (compiled, step)]
        for loss, hidden, first in results:
            loss += 1
            first.mul_(3).add_(1)
            hidden.sub_(0.5)
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                hidden.sum().backward()
        for got, wanted in zip(*results, strict=True):
            assert same(got.detach(), wanted.detach()) and got.requires_grad and not got.is_leaf


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_second_pass_raises_as_in_eager(backend):
    net, x = make()

    def step(x):
        loss = net(x).square().mean()
        loss.backward()
        loss.backward()

    compiled = pellucid.compile(step, backend=backend)
    for _ in range(2):
        for run in (compiled, step):
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                run(x)
    both = copy.deepcopy(net)
    both.zero_grad()
    for _ in range(4):
        both(x).square().mean().backward()
    check_equal(gradients(net), gradients(both), 1e-6)


def test_with_fullgraph_the_reason_names_the_line():
    weight = torch.ones(2, requires_grad=True)
    weight.register_post_accumulate_grad_hook(lambda weight: None)

    def step():
        (weight * 2).sum().backward()

    with pytest.raises(pellucid.errors.Unsupported, match="hooks") as error:
        pellucid.compile(step, backend="eager", fullgraph=True)()
    assert f"line {step.__code__.co_firstlineno + 1}" in str(error.value)


def test_ranges_are_kept():
    def f(x):
        with torch.profiler.record_function("outer"):
            y = x.sin()
            with torch.profiler.record_function("inner", "args"):
                return y.cos()

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    x = torch.ones(3)
    compiled(x)
    with torch.profiler.profile() as profile:
        assert torch.equal(compiled(x), f(x))
    names = [event.name for event in profile.events()]
    assert names.count("outer") == names.count("inner") == 2


def test_ranges_alone_make_no_graph():
    def f(x):
        with torch.profiler.record_function("nothing"):
            pellucid.graph_break()
        return x + 1

    graphs = []
    compiled = pellucid.compile(f, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    x = torch.ones(3)
    assert torch.equal(compiled(x), f(x)) and len(graphs) == 1 and len(pellucid.break_reasons()) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_break_in_a_range(backend):
    def f(x):
        with torch.profiler.record_function("range"):
            y = x.sin()
            pellucid.graph_break()
            z = y.cos()
        return z + 1

    compiled = pellucid.compile(f, backend=backend)
    x = torch.ones(3)
    compiled(x)
    with torch.profiler.profile() as profile:
        assert torch.equal(compiled(x), f(x))
    assert [event.name for event in profile.events()].count("range") == 3  # two parts, and eager's
    assert len(pellucid.break_reasons()) == 1


FACTORS = [torch.tensor(0.5, dtype=torch.float64), torch.tensor(2), torch.tensor(True), torch.tensor(1j)]
TERMS = [torch.ones(()), torch.full((3,), 1.5), torch.ones(3, dtype=torch.int64), torch.ones(2, dtype=torch.complex64)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("factor", FACTORS, ids=str)
@pytest.mark.parametrize("term", TERMS, ids=lambda term: f"{term.dtype}-{term.dim()}")
def test_factors_that_are_tensors(term, factor, backend):
    """Values, dtypes and errors of torch, which asks such a tensor for its number."""

    def outcome(run, *args):
        try:
            return run(*args)
        except RuntimeError as error:
            return str(error).split("\n")[0]

    programs = [
        lambda a, s: torch.add(a, a, alpha=s),
        lambda a, s: a.clone().sub_(a, alpha=s),
        lambda a, s: a.addcmul(a, a.double(), value=s),
        lambda a, s: a.clone().addcdiv_(a, a, value=s),
        lambda a, s: torch.full_like(a, s),
        lambda a, s: torch._foreach_add([a, a], [a, a], alpha=s),
    ]
    for program in programs:
        check_equal(
            outcome(pellucid.compile(program, backend=backend), term, factor), outcome(program, term, factor), 0
        )


@pytest.mark.parametrize("disabled", [torch._C.DisableTorchFunction, torch._C.DisableTorchFunctionSubclass])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_default_device_where_torch_functions_are_disabled(disabled, backend):
    def f(x):
        with disabled():
            return torch.ones(2), x + 1

    x = torch.ones(2)
    compiled = pellucid.compile(f, backend=backend)
    for device in ("meta", "cpu"):
        with torch.device(device):
            for _ in range(2):
                assert [t.device for t in compiled(x)] == [t.device for t in f(x)]


def test_a_gradient_of_another_size_is_an_error_with_the_sizes_of_the_call():
    parameter = torch.nn.Parameter(torch.ones(2, 3))

    def f(x):
        y = x * 2
        try:
            parameter.grad = y
        except RuntimeError as error:
            return str(error)
        return y

    compiled = pellucid.compile(f, backend="eager", dynamic=True)
    for rows in (4, 5, 6):
        assert compiled(torch.ones(rows, 3)) == f(torch.ones(rows, 3)) and f"[{rows}, 3]" in f(torch.ones(rows, 3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_pass_that_fails_leaves_what_it_starts_from_as_it_is(backend):
    """Capture runs it on its own tensors and frees their autograd graph; the program has yet to make it."""

    def f(x, w):
        y = (x * 2).sin().sum()
        try:
            torch.autograd.grad(y, [x, w])
        except RuntimeError as error:
            return y, str(error)

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for _ in range(2):
        x, w = torch.arange(3.0, requires_grad=True), torch.ones(3, requires_grad=True)
        (got, got_text), (wanted, wanted_text) = compiled(x, w), f(x, w)
        assert got_text == wanted_text and "at index 1" in got_text
        assert same(got.detach(), wanted.detach()) and got.requires_grad
        for result in (got, wanted):
            with pytest.raises(RuntimeError, match="second time"):
                result.backward()
    assert counting.count == 1


SCHEDULES = {
    "Adam": {},
    "AdamW": {"weight_decay": 0.1},
    "Adam-amsgrad": {"amsgrad": True},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "RMSprop": {"momentum": 0.9},
    "Adagrad": {},
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_and_batches_that_change_have_two_graphs(name, backend):
    """A learning rate that a scheduler changes at each call, beside batches of any size."""

    def trained(around):
        net, _ = make()
        optimizer = getattr(torch.optim, name.split("-")[0])(net.parameters(), **SCHEDULES[name])
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)

        def step(x):
            loss = nn.functional.cross_entropy(net(x), x[:, :4].argmax(1))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            return loss.detach()

        step = around(step)
        torch.manual_seed(0)
        losses = [step(torch.randn(rows, 8)) for rows in (5, 5, 4, 6, 7, 3, 9)]
        return losses, [parameter.detach() for parameter in net.parameters()], optimizer.param_groups[0]["lr"]

    counting = CountingOf(backend)
    got = trained(lambda step: pellucid.compile(step, backend=counting, fullgraph=True))
    check_equal(got, trained(lambda step: step), 0 if backend == "eager" else 1e-6)
    assert counting.count <= 3
