"""Writes to tensors around tensors, and their gradients: in the graph, as eager does them; a graph that raises takes
back what it has written to the parts."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from test_wrapper_sizes import facts, two
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import pellucid
from support import CountingOf

BACKENDS = ["eager", "aot_eager"]


def check(program, make, backend, calls=1):
    """Results and arguments of each call are eager's."""
    compiled = pellucid.compile(program, backend=backend)
    seen = []
    for function in (compiled, program):
        torch.manual_seed(0)
        args = make()
        seen.append([facts([function(*args), list(args)]) for _ in range(calls)])
    assert seen[0] == seen[1]


def set_item(x):
    x[0] = 1.0


PROGRAMS = {
    "mul_": (lambda x: x.mul_(2), lambda: (two(4, 3),)),
    "then read": (lambda x, y: (x.add_(y), x * 2)[1], lambda: (two(4, 3), torch.randn(4, 3))),
    "read before": (lambda x: (x * 2, x.add_(1), x.sin()), lambda: (two(4, 3),)),
    "copy_": (lambda x, y: x.copy_(y), lambda: (two(4, 3), two(4, 3))),
    "an item": (set_item, lambda: (two(4, 3),)),
    "zero_": (lambda x: x.zero_(), lambda: (two(4, 3),)),
    "made inside": (lambda x: (x * 1).add_(2), lambda: (two(4, 3),)),
    "nested": (lambda x: x.mul_(2).sub_(1), lambda: (TwoTensor(two(4, 3), two(4, 3)),)),
    "twice the same": (lambda x, y: (x.add_(1), y * 2)[1], lambda: (lambda x: (x, x))(two(4, 3))),
    "out": (lambda x, y: torch.mul(x, y, out=x), lambda: (two(4, 3), two(4, 3))),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_writes_are_eagers(name, backend):
    program, make = PROGRAMS[name]
    counting = CountingOf(backend)
    compiled = pellucid.compile(program, backend=counting)
    seen = []
    for function in (compiled, program):
        torch.manual_seed(0)
        args = make()
        versions = [x._version for x in args]
        given = [function(*args), function(*args)]
        same = [result is x for result in given for x in args]
        moved = [x._version > before for x, before in zip(args, versions, strict=True)]
        seen.append(facts([*given, list(args), same, moved]))
    assert seen[0] == seen[1]
    assert counting.count >= 1


def test_writes_to_views_and_their_bases():
    def program(x):
        part = x[1:]
        part.mul_(2)
        return x + 1, part.sum()

    counting = CountingOf("eager")
    compiled = pellucid.compile(program, backend=counting)
    x = two(4, 3)
    y = TwoTensor(x.a.clone(), x.b.clone())
    assert facts(compiled(x)) == facts(program(y)) and facts(x) == facts(y)
    assert counting.count >= 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_part_that_is_an_input_beside(backend):
    """Two inputs have the memory: what is written by one is seen by the other."""

    def program(x, part):
        x.add_(1)
        return part * 2

    check(program, lambda: (lambda x: (x, x.a))(two(4, 3)), backend, calls=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_of_one_part(backend):
    def program(x, y):
        x.add_(1)
        return y * 2

    def make():
        shared = torch.randn(3)
        return TwoTensor(shared, torch.randn(3)), TwoTensor(shared, torch.randn(3))

    check(program, make, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_with_gradients_are_eagers(backend):
    def program(x, w):
        y = x * w
        y.add_(1)
        return y

    compiled = pellucid.compile(program, backend=backend)
    seen = []
    for function in (compiled, program):
        torch.manual_seed(0)
        x, w = two(4, 3).requires_grad_(), torch.randn(3, requires_grad=True)
        result = function(x, w)
        result.backward(torch.ones_like(result))
        seen.append(facts([result.detach(), x.grad, w.grad]))
    assert seen[0] == seen[1]


def test_a_leaf_that_requires_gradients_raises_as_eager_does():
    compiled = pellucid.compile(lambda x: x.add_(1), backend="eager")
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        compiled(two(2, 2).requires_grad_())


class TestOptimizers:
    KINDS = (
        ("SGD", {"lr": 0.1, "momentum": 0.9}),
        ("AdamW", {"lr": 0.1}),
        ("Adam", {"lr": 0.1, "amsgrad": True}),
        ("RMSprop", {"lr": 0.1}),
    )

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(two(3, 3))
            self.table = nn.Parameter(two(2, 3))

        def forward(self, x):
            return x @ self.weight + self.table.sum(0)

    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize(("name", "settings"), KINDS)
    def test_steps_over_parameters_around_tensors(self, name, settings, backend):
        def train(wrap):
            torch.manual_seed(0)
            model = self.Model()
            optimizer = getattr(torch.optim, name)(model.parameters(), **settings)
            step = wrap(optimizer.step)
            for _ in range(3):
                loss = model(torch.randn(2, 3))
                loss.backward(torch.ones_like(loss))
                step()
                optimizer.zero_grad()
            return [part for p in model.parameters() for part in (p.detach().a, p.detach().b)]

        counting, compiled = CountingOf(backend), []

        def wrap(step):
            compiled.append(pellucid.compile(step, backend=counting))
            return compiled[0]

        for mine, eager in zip(train(wrap), train(lambda step: step), strict=True):
            torch.testing.assert_close(mine, eager)
        assert counting.count >= 1
        assert not pellucid.break_reasons(compiled[0]), [str(r)[:700] for r in pellucid.break_reasons(compiled[0])]

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_zero_grad_and_reading_gradients(self, backend):
        def program(model):
            total = model.weight.grad.sum()
            model.weight.grad = None
            return total

        counting = CountingOf(backend)
        compiled = pellucid.compile(program, backend=counting)
        seen = []
        for function in (compiled, program):
            torch.manual_seed(0)
            model = self.Model()
            loss = model(torch.ones(2, 3))
            loss.backward(torch.ones_like(loss))
            seen.append(facts([function(model), model.weight.grad]))
        assert seen[0] == seen[1]
        assert counting.count == 1


@pytest.mark.parametrize("backend", [*BACKENDS, lambda module, inputs: module.forward])
def test_writes_with_sizes_that_change(backend):
    def program(x):
        x.masked_fill_(x > 0, 1.0)

    compiled = pellucid.compile(program, backend=backend)
    for rows in (4, 5, 6):
        x = two(rows, 3)
        y = TwoTensor(x.a.clone(), x.b.clone())
        assert compiled(x) is None and program(y) is None
        assert facts(x) == facts(y)
    assert len(pellucid.recompile_reasons(compiled)) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_shape_in_place(backend):
    def program(x):
        x.unsqueeze_(0)
        x.add_(1)

    compiled = pellucid.compile(program, backend=backend)
    x = two(4, 3)
    y = TwoTensor(x.a.clone(), x.b.clone())
    compiled(x)
    program(y)
    assert facts(x) == facts(y)


def test_what_torch_leaves_in_the_thread_recompiles_nothing():
    """Its operators that change the shape of a wrapper in place leave the key Dense among those included for all."""

    def program(x):
        return x.sin() + 1

    def work():
        x = torch.randn(3)
        compiled(x)
        before = torch._C._dispatch_tls_local_include_set()
        two(4, 3).unsqueeze_(0)
        seen.append(torch._C._dispatch_tls_local_include_set() != before)
        seen.append(torch.equal(compiled(x), program(x)))

    compiled, seen = pellucid.compile(program, backend="eager"), []
    thread = threading.Thread(target=work)  # it begins as torch does, whatever this one has seen
    thread.start()
    thread.join()
    assert seen == [True, True]
    assert pellucid.counters()["captures"] == 1 and pellucid.recompile_reasons(compiled) == []


def test_copies_without_gradients():
    def program(x):
        with torch.no_grad():
            return copy.copy(x)

    x = two(3)
    assert facts(pellucid.compile(program, backend="eager")(x)) == facts(program(x))


class Failing(Exception):
    pass


def test_a_graph_that_raises_leaves_the_parts_as_they_were():
    def program(x, y):
        x.add_(1)
        return x @ y

    def backend(module, inputs):
        def run(*args):
            module(*args)
            raise Failing

        return run

    compiled = pellucid.compile(program, backend=backend)
    x, y = two(2, 2), two(2, 2)
    z = TwoTensor(x.a.clone(), x.b.clone())
    assert facts(compiled(x, y)) == facts(program(z, y)) and facts(x) == facts(z)
