"""Hooks that leaves had before the call, and a backward pass in the region: gradients, the order of the hooks and what they
do are eager's."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pellucid
from support import Counting, same

BACKENDS = ["eager", "aot_eager"]
INPUTS = [(torch.randn(4, 6), torch.tensor([0, 1, 2, 1])) for _ in range(3)]


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def runs(program, backend, between=lambda model, number: None):
    """What `program(model, log)`, which gives a function of (x, y), makes of all inputs: eagerly and compiled; and breaks."""
    found, reasons = [], None
    for is_compiled in (False, True):
        model, log = make(), []
        f = program(model, log)
        if is_compiled:
            f = pellucid.compile(f, backend=backend)
        given = []
        for number, (x, y) in enumerate(INPUTS):
            between(model, number)
            try:
                given.append(f(x, y))
            except Exception as error:
                given.append((type(error), str(error)))
        grads = [p.grad for p in model.parameters()]
        found.append((given, grads, log, [None if grad is None else grad.stride() for grad in grads]))
        if is_compiled:
            reasons = {record.name for record in pellucid.break_reasons(f)}
    return (*found, reasons)


def clips(model, log):
    for p in model.parameters():
        p.register_hook(lambda grad: grad.clamp(-0.01, 0.01))

    def f(x, y):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()

    return f


def says_the_order(model, log):
    """Two hooks each. The second one is given what the first one gives, and finds the gradient of earlier passes."""
    for name, p in model.named_parameters():
        p.register_hook(lambda grad, name=name: (log.append((name, grad.clone())), grad * 2)[1])
        p.register_hook(lambda grad, p=p: log.append((grad.clone(), p.grad is None)))

    def f(x, y):
        log.append("before")
        F.cross_entropy(model(x), y).backward()
        log.append("between")
        F.cross_entropy(model(x) * 2, y).backward()
        log.append("behind")

    return f


def used_several_times(model, log):
    """The order is that of autograd's engine, not the one in which the leaves are met from the loss."""
    first, _, last = model
    for name, p in model.named_parameters():
        p.register_hook(lambda grad, name=name: log.append(name))

    def f(x, y):
        z = last(first(x)) + last(first(x * 2).relu()).sin()
        (F.cross_entropy(z, y) + first.weight.square().sum()).backward()

    return f


def keeps_what_it_is_given(model, log):
    """The gradient that accumulates is another tensor."""
    model[0].weight.register_hook(log.append)

    def f(x, y):
        F.cross_entropy(model(x), y).backward()
        model[0].weight.grad.mul_(0)

    return f


def some_inputs(model, log):
    for name, p in model.named_parameters():
        p.register_hook(lambda grad, name=name: log.append(name))

    def f(x, y):
        F.cross_entropy(model(x), y).backward(inputs=[model[0].weight, model[2].bias])

    return f


def is_without_gradients(model, log):
    """As eager calls a hook."""
    model[2].bias.register_hook(lambda grad: log.append((torch.is_grad_enabled(), grad.requires_grad)))

    def f(x, y):
        F.cross_entropy(model(x), y).backward()

    return f


PROGRAMS = [clips, says_the_order, used_several_times, keeps_what_it_is_given, some_inputs, is_without_gradients]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_hooks_are_part_of_the_region(program, backend):
    eager, compiled, reasons = runs(program, backend)
    assert reasons == set()
    assert same(compiled, eager) if backend == "eager" else str(compiled) == str(eager)
    counting = Counting()
    runs(program, counting)
    assert counting.count in ((1,) if program is clips else (1, 2))  # a later call finds gradients


def raises_in_the_middle(model, log):
    def refuse(grad):
        raise ValueError("refused")

    model[0].weight.register_hook(refuse)
    model[2].weight.register_hook(lambda grad: log.append("last"))
    return lambda x, y: F.cross_entropy(model(x), y).backward()


def of_another_shape(model, log):
    model[2].bias.register_hook(lambda grad: grad[:1])
    return lambda x, y: F.cross_entropy(model(x), y).backward()


def no_tensor(model, log):
    model[2].bias.register_hook(lambda grad: 3)
    return lambda x, y: F.cross_entropy(model(x), y).backward()


def with_a_graph(model, log):
    model[2].bias.register_hook(lambda grad: log.append(grad.requires_grad))
    return lambda x, y: F.cross_entropy(model(x), y).backward(create_graph=True)


def behind_accumulation(model, log):
    model[2].bias.register_hook(lambda grad: grad * 2)
    model[2].bias.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.clone()))
    return lambda x, y: F.cross_entropy(model(x), y).backward()


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize(
    "program", [raises_in_the_middle, of_another_shape, no_tensor, with_a_graph, behind_accumulation]
)
def test_what_torch_itself_has_to_see(program):
    eager, compiled, reasons = runs(program, "eager")
    assert same(compiled, eager)
    assert reasons & {"UntracedCallable", "ExceptionEscapes"}


def test_hooks_that_come_and_go():
    """A hook of another function, one more, and none are other captures; what a hook reads is guarded."""
    handles = []

    def program(model, log):
        handles.clear()
        return lambda x, y: F.cross_entropy(model(x), y).backward()

    def between(model, number):
        if number == 0:
            handles.append(model[0].weight.register_hook(lambda grad: grad * 2))
        if number == 1:
            handles.append(model[0].weight.register_hook(lambda grad: grad + 1))
        if number == 2:
            handles[0].remove()
            handles[1].remove()

    eager, compiled, reasons = runs(program, "eager", between)
    assert same(compiled, eager) and reasons == set()


def test_the_hooks_are_there_behind_the_call():
    model, log = make(), []
    model[0].weight.register_hook(lambda grad: log.append("hook"))
    compiled = pellucid.compile(lambda x, y: F.cross_entropy(model(x), y).backward(), backend="eager")
    for _ in range(2):
        compiled(*INPUTS[0])
    model[0].weight.sum().backward()
    assert log == ["hook"] * 3


@pytest.mark.parametrize("kind", ["register_post_accumulate_grad_hook", "register_hook", "closure", "node"])
def test_another_hook_comes_after_some_calls(kind):
    found = []
    for is_compiled in (False, True):
        model, log = make(), []
        weight, factor = model[0].weight, [2]
        weight.register_hook(lambda grad, factor=factor: grad * factor[0])

        def f(x, y, model=model):
            F.cross_entropy(model(x), y).backward()

        call = pellucid.compile(f, backend="eager") if is_compiled else f
        for _ in range(3):
            call(*INPUTS[0])
        if kind == "closure":
            factor[0] = 3
        elif kind == "node":
            node = weight.view_as(weight).grad_fn.next_functions[0][0]  # which lives as long as somebody holds it
            node.register_prehook(lambda grads, log=log: log.append("node"))
        else:
            getattr(weight, kind)(lambda grad, log=log: log.append(kind))
        for _ in range(2):
            call(*INPUTS[0])
        found.append(([p.grad for p in model.parameters()], log))
    assert len(found[0][1]) == (0 if kind == "closure" else 2)
    assert same(*found)
