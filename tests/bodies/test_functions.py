"""torch.autograd.Function with gradients: one node, whose backward is the program's."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import pellucid
from support import Counting

BACKENDS = ["eager", "aot_eager"]


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * result * 2  # not the real one: it shows whose backward ran


class Scaled(Function):
    """With setup_context, a number, two results of which one is not differentiable."""

    @staticmethod
    def forward(x, y, scale):
        return x * y * scale, (x > 0).float()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, scale = inputs
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        x, y = ctx.saved_tensors
        of_x = grad * y * ctx.scale if ctx.needs_input_grad[0] else None
        of_y = grad * x * ctx.scale if ctx.needs_input_grad[1] else None
        return of_x, of_y, None


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return torch.ones(ctx.shape) * grad


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


class Missing(Function):
    """A gradient that is not there stays None."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        total = None
        if first is not None:
            total = first * 2
        if second is not None:
            total = second * 3 if total is None else total + second * 3
        return total


class Same(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x, y + 1

    @staticmethod
    def backward(ctx, first, second):
        return -first, second


programs = {
    "exp": lambda x, y: Exp.apply(x * y) + x,
    "exp twice": lambda x, y: Exp.apply(Exp.apply(x * 0.1)) * y,
    "scaled": lambda x, y: Scaled.apply(x, y, 2.5)[0] * Scaled.apply(x.detach(), y, 2)[1],
    "once": lambda x, y: Once.apply(x.sin()) * y,
    "in place": lambda x, y: InPlace.apply(x + y) * 2,
    "missing": lambda x, y: Missing.apply(x * y)[1],
    "same": lambda x, y: Same.apply(x, y)[0] * Same.apply(y, x)[1],
    "no gradient": lambda x, y: Exp.apply(x.detach()) * y,
}


def step(f, x, y):
    x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
    result = f(x, y)
    result.sum().backward()
    return result.detach(), x.grad, y.grad


def agree(wanted, got):
    return all(torch.equal(a, b) if a is not None else b is None for a, b in zip(wanted, got, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", programs)
def test_A41_as_in_eager(name, backend):
    function = programs[name]
    compiled = pellucid.compile(function, backend=backend, fullgraph=True)
    for seed in range(2):
        torch.manual_seed(seed)
        x, y = torch.randn(4), torch.randn(4)
        assert agree(step(function, x, y), step(compiled, x, y))


def test_one_node_calls_the_class():
    counting = Counting()
    pellucid.compile(programs["exp"], backend=counting, fullgraph=True)(
        torch.ones(3, requires_grad=True), torch.ones(3)
    )
    (gm,) = counting.graphs
    assert [node.name for node in gm.graph.nodes if node.op == "call_function"][1:2] == ["exp"]
    gm.recompile()
    (result,) = gm(
        *[
            torch.ones(3, requires_grad=True) if n.name == "l_x_" else torch.ones(3)
            for n in gm.graph.find_nodes(op="placeholder")
        ]
    )
    assert "ExpBackward" in result.grad_fn.next_functions[0][0].name()


def test_derivatives_of_derivatives():
    compiled = pellucid.compile(lambda x: Exp.apply(x), backend="eager", fullgraph=True)
    x = torch.randn(3, requires_grad=True)
    (first,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    (first_too,) = torch.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
    (second_too,) = torch.autograd.grad(first_too.sum(), x)
    assert torch.equal(first, first_too) and torch.equal(second, second_too)


# ---- what a node cannot stand for

log: list = []
factor = 2.0


class Logs(Exp):
    @staticmethod
    def forward(ctx, x):
        log.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad


class LogsBackward(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        log.append("backward")
        return grad


class ReadsLate(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * factor


hidden = torch.full((4,), 3.0)


class Closes(Function):
    @staticmethod
    def forward(ctx, x):
        return x * hidden

    @staticmethod
    def backward(ctx, grad):
        return grad * hidden


class ReadsLog(Function):
    @staticmethod
    def forward(ctx, x):
        return x * len(log)

    @staticmethod
    def backward(ctx, grad):
        return grad


def changed_before(x):
    log.append(1)
    return ReadsLog.apply(x)


def local_class(x):
    class Local(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

    return Local.apply(x)


def of_a_list(x):
    values = [x]
    return TakesList.apply(values, x)


class TakesList(Function):
    @staticmethod
    def forward(ctx, values, x):
        return x * values[0].detach()

    @staticmethod
    def backward(ctx, grad):
        return None, grad


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: Logs.apply(x) + x,
        lambda x: LogsBackward.apply(x) + x,
        lambda x: ReadsLate.apply(x) + x,
        lambda x: Closes.apply(x) + x,
        changed_before,
        local_class,
        of_a_list,
    ],
)
def test_effects_and_what_is_read(function, backend):
    def run(f):
        global factor
        log.clear()
        factor = 2.0
        x = torch.arange(4.0).requires_grad_()
        result = f(x)
        before = list(log)
        factor = 7.0
        result.sum().backward()
        return result.detach(), x.grad, before, list(log)

    compiled = pellucid.compile(function, backend=backend)
    for _ in range(2):
        wanted, got = run(function), run(compiled)
        assert agree(wanted[:2], got[:2]) and wanted[2:] == got[2:]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_pass_in_the_program(backend):
    def train(x):
        y = x * 1
        loss = LogsBackward.apply(y).sum()
        loss.backward()
        return loss.detach()

    compiled = pellucid.compile(train, backend=backend)
    for _ in range(2):
        log.clear()
        x = torch.randn(3, requires_grad=True)
        compiled(x)
        assert torch.equal(x.grad, torch.ones(3)) and log == ["backward"]


def misfit(give):
    """A function of two arguments whose backward gives this."""

    class Given(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        backward = staticmethod(give)

    return Given


GIVEN = {
    "one": (False, misfit(lambda ctx, g: g)),
    "three": (False, misfit(lambda ctx, g: (g, g, g))),
    "nothing": (False, misfit(lambda ctx, g: None)),
    "no tensor": (False, misfit(lambda ctx, g: (g, "a"))),
    "smaller": (False, misfit(lambda ctx, g: (g, g[:1]))),
    "of no dimension": (False, misfit(lambda ctx, g: (g.sum(), g))),
    "None behind": (True, misfit(lambda ctx, g: (g, g, None, None))),
    "of another dtype": (True, misfit(lambda ctx, g: (g, g.double()))),
    "larger": (True, misfit(lambda ctx, g: (g, g.expand(4, 3)))),
    "None": (True, misfit(lambda ctx, g: (None, g))),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", GIVEN)
def test_what_backward_gives(name, backend):
    """A wrong number of gradients is an error of the backward pass, where a compiler has traced that before as well."""
    fits, function = GIVEN[name]
    found = []
    compiled = pellucid.compile(lambda x, y: function.apply(x.sin(), y).sum(), backend=backend)
    for f in (lambda x, y: function.apply(x.sin(), y).sum(), compiled, compiled):
        x, y = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
        loss = f(x, y)
        try:
            found.append((loss.backward(), x.grad, y.grad))
        except RuntimeError as error:
            found.append(str(error))
    assert str(found[0]) == str(found[1]) == str(found[2])
    assert isinstance(found[0], str) != fits
    assert {record.name for record in pellucid.break_reasons(compiled)} == (
        set() if fits or backend == "eager" else {"ImpureBody"}
    )


class WithList(Function):
    """What backward does with the list shows whether it has the program's."""

    @staticmethod
    def forward(ctx, x, sizes):
        ctx.kept = {"sizes": sizes}
        return x * sizes[0]

    @staticmethod
    def backward(ctx, grad):
        sizes = ctx.kept["sizes"]
        sizes.append(len(sizes))
        return grad * sum(sizes), None


class WithFirst(Function):
    @staticmethod
    def forward(ctx, x, sizes):
        ctx.first = sizes[0]
        return x * sizes[0]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.first * 7, None


class WithKeptList(WithFirst):
    @staticmethod
    def forward(ctx, x, sizes):
        ctx.sizes = sizes
        return x * sizes[0]

    @staticmethod
    def backward(ctx, grad):
        return grad * sum(ctx.sizes), None


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_list_that_a_function_keeps_is_the_programs(backend):
    def changed_by_backward(x, sizes):
        return WithList.apply(x.sin(), sizes)

    def changed_behind_the_call(x, sizes):
        result = WithKeptList.apply(x.sin(), sizes)
        sizes.append(100)
        return result

    def made_and_changed_by_backward(x, sizes):
        own = [*sizes, 1]
        return WithList.apply(x.sin(), own), own

    for f in (changed_by_backward, changed_behind_the_call, made_and_changed_by_backward):
        seen = []
        for call in (f, pellucid.compile(f, backend=backend)):
            sizes, seen_by_call = [2, 3], []
            for _ in range(3):
                x = torch.arange(3.0, requires_grad=True)
                result = call(x, sizes)
                result, *rest = result if isinstance(result, tuple) else (result,)
                result.sum().backward()
                seen_by_call += [result.tolist(), x.grad.tolist(), list(sizes), rest]
            seen.append(seen_by_call)
        assert seen[0] == seen[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f", [lambda x, sizes: WithFirst.apply(x.sin(), sizes) * 2, lambda x, _: WithKeptList.apply(x.sin(), [2, 3]) * 2]
)
def test_a_list_that_nobody_else_sees_is_no_break(f, backend):
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        x, y = (torch.arange(3.0, requires_grad=True) for _ in range(2))
        compiled(x, [2, 3]).sum().backward()
        f(y, [2, 3]).sum().backward()
        assert torch.allclose(x.grad, y.grad)


class Expanded(Function):
    @staticmethod
    def forward(ctx, x, shape):
        ctx.shape = shape
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        return grad.expand(ctx.shape) * ctx.shape.numel(), None


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_is_given_a_size(backend):
    compiled = pellucid.compile(
        lambda x: Expanded.apply(x.sin(), x.shape) * 2, backend=backend, fullgraph=backend == "eager"
    )
    for size in ((2, 3), (4, 3), (5, 2), (2, 3)):
        x = torch.ones(size, requires_grad=True)
        compiled(x).backward()
        assert torch.allclose(x.grad, torch.full(size, x.numel() * 2).mul(torch.ones(()).cos()))
