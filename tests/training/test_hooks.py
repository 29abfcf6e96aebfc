"""Hooks of autograd that a compiled function registers, and those of modules: what the hooks get, in which order they are called,
the gradients and what they change are as in eager. With the backend "eager" it is one graph; with backends that compile,
tensors of the graph end it, inputs do not."""

from __future__ import annotations

import contextlib
import gc
import weakref
from functools import partial

import pytest
import torch
from torch.autograd.graph import register_multi_grad_hook, saved_tensors_hooks

import pellucid
from support import CountingOf

BACKENDS = ["eager", "aot_eager"]
LOG: list = []


def ramp(*shape):
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape) / 4


def say(name, factor=None):
    def hook(grad):
        LOG.append((name, grad.tolist()))
        return None if factor is None else grad * factor

    return hook


def trained(function, make, calls=3):
    """Per call: the results, gradients of the inputs, what the hooks saw."""
    seen = []
    for _ in range(calls):
        args = make()
        LOG.clear()
        try:
            result = function(*args)
            loss = result[0] if isinstance(result, tuple) else result
            loss.sum().backward()
            shown = loss.detach().tolist()
        except Exception as error:
            shown = (type(error), str(error))
        grads = [a.grad.tolist() if a.grad is not None else None for a in args if isinstance(a, torch.Tensor)]
        seen.append((shown, grads, list(LOG)))
    return seen


def check(function, make, backend="eager", graphs=None, whole=None):
    eager = trained(function, make)
    pellucid.reset()
    counting = CountingOf(backend)
    whole = backend == "eager" if whole is None else whole
    got = trained(pellucid.compile(function, backend=counting, fullgraph=whole), make)
    for want, have in zip(eager, got, strict=True):
        assert have == want
    if graphs is not None:
        assert counting.count == graphs


def leaf(*shape):
    return lambda: (ramp(*(shape or (3,))).requires_grad_(),)


def inner(x):
    y = x * 2
    y.register_hook(say("y", 10))
    return (y * 3).sum()


def used_before(x):
    """What the tensor was used for before the hook counts, too."""
    y = x * 2
    z = y.sin()
    y.register_hook(say("y", 10))
    return (y + z).sum() + (y * z).sum()


def several(x):
    y = x * 2
    y.register_hook(say("first", 2))
    z = y * 3
    z.register_hook(say("z"))
    y.register_hook(say("second", 3))
    x.register_hook(say("x", 0.5))
    return z.sum() + y.sum()


def on_input(x):
    x.register_hook(say("x", 4))
    return (x * x).sum()


def lambdas(x):
    factor = 3.0
    y = x * 2
    y.register_hook(lambda g: g * factor)
    return y.sum()


def with_a_tensor(x):
    scale = x.detach() * 2
    y = x * 2
    y.register_hook(lambda g: g * scale)
    return y.sum()


def removed(x):
    y = x * 2
    handle = y.register_hook(say("removed", 10))
    other = y.register_hook(say("stays", 2))
    handle.remove()
    return y.sum(), other


def removed_by_with(x):
    y = x * 2
    with y.register_hook(say("removed", 10)):
        z = y * 2
    return z.sum()


def retained(x):
    y = x * 2
    y.retain_grad()
    z = (y * y).sum()
    return z, y


def accumulated(x):
    x.register_post_accumulate_grad_hook(lambda p: LOG.append(("accumulated", p.grad.tolist())))
    return (x * x).sum()


def of_view(x):
    y = (x * 2).view(-1)
    y.register_hook(say("view", 3))
    return y.sum()


def raising(x):
    def hook(grad):
        raise ValueError("from a hook")

    y = x * 2
    y.register_hook(hook)
    return y.sum()


def counted(x):
    calls = []
    y = x * 2
    y.register_hook(lambda g: calls.append(float(g.sum())))
    return y.sum(), calls


def in_order(x):
    """Each registers another when it is called."""
    y = x * 2

    def hook(grad):
        LOG.append("called")
        y.register_hook(say("late"))

    y.register_hook(hook)
    return (y * 2).sum()


def in_a_loop(x):
    for i in range(3):
        x = x * 2
        x.register_hook(say(i, 2))
    return x.sum()


def behind_a_branch(x):
    y = x * 2
    if y.sum() > 0:
        y.register_hook(say("positive", 3))
    return y.sum()


def in_a_finally(x):
    y = x * 2
    try:
        handle = y.register_hook(say("never"))
    finally:
        handle.remove()
    return y.sum()


class Hook:
    def __init__(self):
        self.calls = 0

    def hook(self, grad):
        self.calls += 1
        LOG.append(self.calls)
        return grad * self.calls

    def __call__(self, grad):
        self.calls += 2
        LOG.append(self.calls)


def of_an_object(x):
    hook = Hook()
    y = x * 2
    y.register_hook(hook.hook)
    y.register_hook(hook)
    y.register_hook(partial(lambda factor, grad: grad * factor, 3))
    return y.sum()


def twice(x):
    y = x * 2
    hook = say("same", 2)
    y.register_hook(hook)
    y.register_hook(hook=hook)
    return y.sum()


def of_parts(x):
    a, b = (x * 2).split([1, 2])
    a.register_hook(say("a", 5))
    b.retain_grad()
    return a.sum() + b.sum(), b


def across_a_break(x):
    y = x * 2
    handle = y.register_hook(say("never", 7))
    y.register_hook(say("y", 7))
    pellucid.graph_break()
    handle.remove()
    return y.sum()


def method_of_a_list(x):
    seen = []
    y = x * 2
    y.register_hook(seen.append)
    return y.sum(), seen


PROGRAMS = [
    in_a_loop,
    in_a_finally,
    of_an_object,
    twice,
    of_parts,
    method_of_a_list,
    inner,
    used_before,
    several,
    on_input,
    lambdas,
    with_a_tensor,
    removed,
    removed_by_with,
    retained,
    accumulated,
    of_view,
    raising,
    counted,
    in_order,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_A27_as_eager(function, backend):
    check(function, leaf(), backend, graphs=1 if backend == "eager" else None)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [behind_a_branch, across_a_break], ids=lambda f: f.__name__)
def test_with_breaks(function, backend):
    check(function, leaf(), backend, whole=False)


@pytest.mark.parametrize("function", [on_input, accumulated], ids=lambda f: f.__name__)
def test_hooks_on_inputs_are_an_effect(function):
    check(function, leaf(), "aot_eager", graphs=1, whole=True)


def test_handles_leave_the_region():
    def f(x):
        y = x * 2
        handle = y.register_hook(say("y", 10))
        return y.sum(), handle, x.register_hook(say("x"))

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for function in (f, compiled, compiled):
        x = ramp(3).requires_grad_()
        LOG.clear()
        y, handle, other = function(x)
        assert type(handle) is torch.utils.hooks.RemovableHandle and handle.id != other.id
        handle.remove()
        y.backward()
        assert [name for name, _ in LOG] == ["x"]
        assert x.grad.tolist() == [2.0, 2.0, 2.0]
        other.remove()
        assert not x._backward_hooks


def test_what_a_handle_is_asked_for_ends_the_region():
    def f(x):
        y = x * 2
        handle = y.register_hook(say("y", 10))
        return y.sum(), handle.id >= 0

    check(f, leaf(), whole=False)


def test_parameters_and_repeated_calls():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(ramp(3))
            self.handles = []

        def forward(self, x):
            self.handles.append(self.weight.register_hook(say("weight", 2)))
            return (self.weight * x).sum()

    for backend in BACKENDS:
        plain, model = Model(), Model()
        compiled = pellucid.compile(model, backend=backend, fullgraph=True)
        for n in range(3):
            seen = []
            for m, run in ((plain, plain), (model, compiled)):
                LOG.clear()
                run(ramp(3)).backward()
                seen.append((list(LOG), m.weight.grad.tolist(), len(m.handles), len(m.weight._backward_hooks)))
            assert seen[0] == seen[1] and seen[0][2] == n + 1


def test_another_hook_at_each_call():
    def f(x, hook):
        y = x * 2
        y.register_hook(hook)
        return y.sum()

    hooks = [say("a", 2), say("b", 3), say("a", 2), torch.sin, torch.Tensor.cos]
    compiled = pellucid.compile(f, backend="eager")
    for hook in hooks:
        one, two = ramp(3).requires_grad_(), ramp(3).requires_grad_()
        LOG.clear()
        f(one, hook).backward()
        want = list(LOG)
        LOG.clear()
        compiled(two, hook).backward()
        assert want == LOG and torch.equal(one.grad, two.grad)


def test_a_hook_on_what_needs_no_gradient_raises():
    def f(x):
        try:
            (x.detach() * 2).register_hook(say("never"))
        except RuntimeError as error:
            return (x * 2).sum(), LOG.append(str(error))

    def g(x):
        try:
            (x * 2).register_post_accumulate_grad_hook(say("never"))
        except RuntimeError as error:
            return (x * 2).sum(), LOG.append(str(error))

    check(f, leaf())
    check(g, leaf())


def test_tensors_that_are_written_later():
    def f(x):
        y = x * 2
        y.register_hook(say("y", 10))
        y.mul_(3)
        return y.sum()

    def g(x):
        y = x * 2
        y.mul_(3)
        y.register_hook(say("y", 10))
        return y.sum()

    def h(x):
        y = x * 2
        y.register_hook(say("y", 10))
        y[0] = 0
        return y.sum()

    for backend in BACKENDS:
        check(f, leaf(), backend, whole=False)
        check(g, leaf(), backend, whole=False)
        check(h, leaf(), backend, whole=False)
    check(g, leaf(), graphs=1)


def test_a_pass_in_the_region():
    def f(x):
        y = x * 2
        y.register_hook(say("y", 10))
        (g,) = torch.autograd.grad((y * y).sum(), x)
        return (x * g).sum()

    def g(x):
        x.register_hook(say("x", 3))
        (x * x).sum().backward()
        return (x * 2).sum()

    for backend in BACKENDS:
        check(f, leaf(), backend, whole=False)
        check(g, leaf(), backend, whole=False)


def test_an_input_that_was_computed():
    def f(x):
        x.register_hook(say("x", 3))
        return (x * x).sum()

    for backend in BACKENDS:
        compiled = pellucid.compile(f, backend=backend, fullgraph=True)
        seen = []
        for function in (f, compiled, compiled):
            base = ramp(3).requires_grad_()
            LOG.clear()
            function(base * 2).backward()
            seen.append((list(LOG), base.grad.tolist()))
        assert seen[0] == seen[1] == seen[2]


def test_several_gradients():
    def f(x, w):
        y, z = x * 2, w.sin()
        register_multi_grad_hook((y, z), lambda grads: LOG.append([g.tolist() for g in grads]))
        return (y * z).sum()

    def g(x, w):
        y, z = x * 2, w.sin()
        register_multi_grad_hook([y, z], lambda grad: LOG.append(grad.tolist()), mode="any")
        return (y * z).sum()

    def h(x, w):
        y = x * 2
        handle = register_multi_grad_hook((y, w), lambda grads: LOG.append(len(grads)))
        handle.remove()
        return (y * w).sum()

    def make():
        return ramp(3).requires_grad_(), (ramp(3) / 3).requires_grad_()

    for function in (f, g, h):
        check(function, make, graphs=1)
    for function in (f, h):  # which gradient is computed first is a compiler's choice
        check(function, make, "aot_eager")


# ---- hooks of modules


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.second = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def hooked(register):
    torch.manual_seed(0)
    model = Block()
    register(model)
    return model


def full(module, grad_input, grad_output):
    LOG.append((type(module).__name__, [g is not None for g in grad_input], grad_output[0].tolist()))


def scaling(module, grad_input, grad_output):
    return tuple(g if g is None else g * 2 for g in grad_input)


def before(module, grad_output):
    LOG.append(("before", grad_output[0].tolist()))
    return (grad_output[0] * 3,)


REGISTERED = {
    "full": lambda m: m.first.register_full_backward_hook(full),
    "of all": lambda m: [n.register_full_backward_hook(full) for n in m.modules()],
    "scaling": lambda m: (m.second.register_full_backward_hook(scaling), m.second.register_full_backward_hook(full)),
    "before": lambda m: (m.second.register_full_backward_pre_hook(before), m.second.register_full_backward_hook(full)),
    "before alone": lambda m: m.first.register_full_backward_pre_hook(before),
}


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("needs_grad", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", REGISTERED)
def test_hooks_of_modules(name, backend, needs_grad):
    plain, model = hooked(REGISTERED[name]), hooked(REGISTERED[name])
    counting = CountingOf(backend)
    compiled = pellucid.compile(model, backend=counting, fullgraph=backend == "eager")
    for _ in range(3):
        seen = []
        for m, run in ((plain, plain), (model, compiled)):
            x = ramp(2, 3).requires_grad_(needs_grad)
            LOG.clear()
            result = run(x)
            result.sum().backward()
            grads = [p.grad.tolist() for p in m.parameters()] + [x.grad.tolist() if needs_grad else None]
            seen.append((result.tolist(), grads, list(LOG)))
            m.zero_grad()
        assert seen[0] == seen[1]
    if backend == "eager":
        assert counting.count == 1


def test_a_hook_of_a_module_comes_and_goes():
    model = hooked(lambda m: None)
    compiled = pellucid.compile(model, backend="eager")
    x = ramp(2, 3)

    def called():
        LOG.clear()
        compiled(x).sum().backward()
        return len(LOG)

    assert called() == 0
    handle = model.first.register_full_backward_pre_hook(before)
    assert called() == 1
    other = model.first.register_full_backward_pre_hook(before)
    assert called() == 2
    handle.remove()
    assert called() == 1
    other.remove()
    assert called() == 0


# ---- what stays a break


def test_hooks_of_what_is_saved():
    def f(x):
        with saved_tensors_hooks(lambda t: LOG.append("pack") or t * 1, lambda t: LOG.append("unpack") or t):
            y = x * x
        return y.sum()

    check(f, leaf(), whole=False)


class Packs:
    def __init__(self):
        self.seen = []

    def pack(self, tensor):
        self.seen.append(("pack", tensor.tolist()))
        return tensor

    def unpack(self, tensor):
        self.seen.append(("unpack", tensor.tolist()))
        return tensor


def called_around_and_below_hooks(function, hooks):
    gradients = []
    for around in (False, True, True, False):
        x = ramp(3).requires_grad_()
        with saved_tensors_hooks(*hooks) if around else contextlib.nullcontext():
            y = function(x)
        y.backward()
        gradients.append(x.grad)
    return gradients


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("first_below", [False, True])
def test_functions_around_the_call_need_no_graph_of_their_own(backend, first_below):
    def f(x):
        return (x.sin() * x).sum()

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    eager, ours = Packs(), Packs()
    if first_below:
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            compiled(ramp(3).requires_grad_()).backward()
    want = called_around_and_below_hooks(f, (eager.pack, eager.unpack))
    got = called_around_and_below_hooks(compiled, (ours.pack, ours.unpack))
    assert counting.count == 1
    assert len({name for name, _ in ours.seen}) == 2
    if backend == "eager":
        assert ours.seen == eager.seen and all(map(torch.equal, got, want))
    else:
        torch.testing.assert_close(got, want)


def test_hooks_that_are_graphs_have_a_graph_of_their_own(counting):
    graph = torch.fx.symbolic_trace(lambda tensor: tensor * 1)
    compiled = pellucid.compile(lambda x: (x.sin() * x).sum(), backend=counting, fullgraph=True)
    called_around_and_below_hooks(compiled, (graph, graph))
    assert counting.count == 2


def test_nothing_is_kept_alive():
    def f(x):
        y = x * 2
        y.register_hook(say("y"))
        return y.sum()

    compiled = pellucid.compile(f, backend="eager")
    x = ramp(3).requires_grad_()
    compiled(x).backward()
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


# ---- hooks of what is saved that are entered by the program, with compilers: theirs would be other tensors


def scaled_on_the_way(x, scale):
    with saved_tensors_hooks(lambda t: (LOG.append("pack"), t), lambda packed: packed[1] * scale):
        return (x.exp() * x).sin()


def scaled_around_a_pass(x, scale):
    y = x.detach().requires_grad_()
    with saved_tensors_hooks(lambda t: t * 2, lambda t: t + scale):
        (y.exp() * y).sum().backward()
    return y.grad * 1


def by_a_function_below(x, scale):
    def helper(y):
        return (y.exp() * y).sin()

    y = x * 2
    with contextlib.ExitStack() as stack:
        stack.enter_context(saved_tensors_hooks(lambda t: t * scale, lambda t: t))
        result = helper(y)
    return result * 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [scaled_on_the_way, scaled_around_a_pass, by_a_function_below])
def test_hooks_of_what_is_saved_change_values(function, backend):
    def called(f):
        LOG.clear()
        gradients = []
        for count, scale in ((3, 1.0), (3, 2.0), (5, 3.0), (3, 4.0)):
            x = ramp(count).requires_grad_()
            result = f(x, scale)
            if result.requires_grad:
                result.sum().backward()
                result = x.grad
            gradients.append(result)
        return gradients, list(LOG)

    got, want = called(pellucid.compile(function, backend=backend)), called(function)
    torch.testing.assert_close(got[0], want[0])
    assert got[1] == want[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_behind_hooks_of_torch_are_compiled(backend):
    """save_on_cpu() gives back what it is given: what is called below it has a graph."""
    counting = CountingOf(backend)

    def f(x):
        with torch.autograd.graph.save_on_cpu():
            return (x.exp() * x).sin()

    compiled = pellucid.compile(f, backend=counting)
    x, y = ramp(3).requires_grad_(), ramp(3).requires_grad_()
    compiled(x).sum().backward()
    f(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    assert counting.count >= 1
