"""Hooks on tensors inside of a graph that a compiler gets: an operator of the backward graph calls them. What they hear
and give, when they are called and what lives on is as in eager code, in one graph; where the backward of a compiled
graph would call another one, or in another order, the region ends before the tensor is used, as it does for what cannot
be told."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import pellucid
from support import CountingOf

LOG: list = []
KEPT: list = []
BUFFER = torch.zeros(2, 3)


def say(name, factor=None):
    def hook(grad):
        LOG.append((name, grad.tolist(), grad.requires_grad, torch.is_grad_enabled()))
        return None if factor is None else grad * factor

    return hook


def one(x, w):
    y = x * w
    y.register_hook(say("y", 3))
    return (y * y).sum()


def chain(x, w):
    y = x * w
    y.register_hook(say("y", 3))
    z = y.sin()
    z.register_hook(say("z"))
    z.register_hook(say("z again", 2))
    return (z * w).sum()


def used_between(x, w):
    """The second hook comes when the tensor has been used: it is hung on what the first one is."""
    y = x * w
    y.register_hook(say("first", 3))
    z = y.cos()
    y.register_hook(say("second", 5))
    return (z + y).sum()


def all_results(x, w):
    y = x * 2
    y.register_hook(say("y", 3))
    return y.sin(), y * w


def kept(x, w):
    y = x * w
    y.register_hook(KEPT.append)
    return (y * y).sum()


def of_no_gradient(x, w):
    """Its gradient is zeros, whatever comes: a compiler that looks for what is needed finds nothing."""
    y = (x * w).sign()
    y.register_hook(say("sign"))
    return (y * 3).sum()


def removed(x, w):
    y = x * w
    handle = y.register_hook(say("removed"))
    y.register_hook(say("stays", 2))
    handle.remove()
    return (y * 2).sum()


def buffer_written(x, w):
    y = x * w
    y.register_hook(say("y", 2))
    BUFFER.copy_(y.detach())
    return y.sum()


def written_grad(x, w):
    y = x * w
    y.register_hook(lambda grad: (grad.mul_(2), None)[1])
    return (y * y).sum()


def looked_at_before(x, w):
    """Uses that no gradient comes from are none."""
    y = x * w
    seen = y.detach()
    y.register_hook(say("y", 3))
    return (y * y).sum(), seen


CELL = nn.GRUCell(3, 3)


def made_in_place(x, w):
    """What torch puts together in the memory of its result."""
    y = CELL(x, w)
    y.register_hook(say("y", 3))
    return (y * y).sum()


NORM = nn.BatchNorm1d(3)


def behind_written_buffers(x, w):
    y = NORM(x) * w
    y.register_hook(say("y", 3))
    return (y * y).sum()


def other_sizes(x, w):
    y = x * w
    y.register_hook(lambda grad: grad[0])
    return y.sum()


def other_dtype(x, w):
    y = x * w
    y.register_hook(lambda grad: grad.double())
    return y.sum()


def no_tensor(x, w):
    y = x * w
    y.register_hook(lambda grad: 3)
    return y.sum()


def raising(x, w):
    def hook(grad):
        raise ValueError("from a hook")

    y = x * w
    y.register_hook(hook)
    return (y * 2).sum()


def a_result_without(x, w):
    y = x * 2
    y.register_hook(say("y", 3))
    return y.sin().sum() * w.sum(), w * 2


def a_view_among_results(x, w):
    y = x * 2
    y.register_hook(say("y", 3))
    z = y * w
    return w * 2, z.view(-1)[1:], z


# What autograd would not do alike in one graph.


def result(x, w):
    y = x * w
    y.register_hook(say("y", 3))
    return y


def with_a_view(x, w):
    y = x * w
    y.register_hook(say("y", 3))
    return y.view(-1), y


def written_later(x, w):
    y = x * w
    y.register_hook(say("y", 3))
    y.add_(1)
    return y.sum()


def of_view(x, w):
    y = (x * w).view(-1)
    y.register_hook(say("y", 3))
    return (y * 2).sum()


def used_before(x, w):
    y = x * w
    z = y.sin()
    y.register_hook(say("y", 3))
    return (y + z).sum()


INSIDE = [one, chain, used_between, all_results, kept, of_no_gradient, removed, buffer_written, written_grad]
INSIDE += [looked_at_before, made_in_place, behind_written_buffers, a_result_without, a_view_among_results]
REFUSED = [other_sizes, other_dtype, no_tensor, raising]
BEHIND = [written_later, of_view, used_before]


def take(results, x, w, how):
    total = sum(result.sum() for result in results)
    if how == "backward":
        total.backward()
    elif how == "twice":
        total.backward(retain_graph=True)
        total.backward()
    elif how == "grad of x":
        return torch.autograd.grad(total, [x])
    elif how == "grad of w":
        return torch.autograd.grad(total, [w], allow_unused=True)
    elif how == "inputs":
        total.backward(inputs=[w])
    elif how == "hook of a result":
        results[0].register_hook(say("result"))
        total.backward()
    return ()


HOW = ["backward", "twice", "grad of x", "grad of w", "inputs", "hook of a result"]


def values(tensors):
    """A compiler's backward gives zeros where autograd gives nothing."""
    return [torch.zeros(()) if tensor is None else tensor.detach().clone() for tensor in tensors]


def ran(function, how, calls=2):
    torch.manual_seed(0)
    seen = []
    for _ in range(calls):
        LOG.clear()
        KEPT.clear()
        x, w = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
        try:
            results = function(x, w)
            results = results if isinstance(results, tuple) else (results,)
            given = values(take(results, x, w, how))
            said = [result.detach().clone() for result in results]
        except Exception as error:
            seen.append((type(error), str(error)))
            continue
        seen.append((said, given, values([x.grad, w.grad]), list(LOG), list(KEPT), BUFFER.clone()))
    return seen


def assert_equal(want, have):
    for one_call, other in zip(want, have, strict=True):
        if isinstance(one_call[0], type):
            assert other == one_call
            continue
        (log, kept_now), (other_log, other_kept) = one_call[3:5], other[3:5]
        torch.testing.assert_close([*one_call[:3], kept_now, one_call[5]], [*other[:3], other_kept, other[5]])
        assert [(name, *rest) for name, _, *rest in log] == [(name, *rest) for name, _, *rest in other_log]
        torch.testing.assert_close([torch.tensor(row[1]) for row in log], [torch.tensor(row[1]) for row in other_log])


def check(function, how, backend, graphs):
    want = ran(function, how)
    pellucid.reset()
    counting = CountingOf(backend)
    compiled = pellucid.compile(function, backend=counting)
    assert_equal(want, ran(compiled, how))
    assert counting.count == graphs


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("function", INSIDE, ids=lambda f: f.__name__)
def test_inside_of_one_graph(function, how):
    check(function, how, "aot_eager", 1)


@pytest.mark.parametrize("function", [one, chain, of_no_gradient, removed], ids=lambda f: f.__name__)
def test_with_inductor(function):
    check(function, "backward", "inductor", 1)


def test_a_pass_that_asks_for_another_input_calls_no_hook():
    def f(x, w):
        y = x * 2
        y.register_hook(say("y"))
        return (y * w).sum()

    check(f, "grad of w", "aot_eager", 1)
    assert not LOG
    check(f, "grad of x", "aot_eager", 1)
    assert [name for name, *_ in LOG] == ["y"]


def test_a_pass_from_another_result_calls_no_hook():
    counting = CountingOf("aot_eager")
    compiled = pellucid.compile(a_view_among_results, backend=counting)
    x, w = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    other, part, whole = compiled(x, w)
    LOG.clear()
    other.sum().backward(retain_graph=True)
    assert not LOG and torch.equal(w.grad, torch.full((2, 3), 2.0))
    part.sum().backward(retain_graph=True)
    assert [name for name, *_ in LOG] == ["y"]
    assert torch.equal(x.grad.flatten(), torch.tensor([0.0, 6, 6, 6, 6, 6]))
    other.sum().backward(retain_graph=True)
    whole.sum().backward()
    assert [name for name, *_ in LOG] == ["y", "y"]
    assert counting.count == 1


def test_modules_whose_states_are_results_too():
    """What models of transformers give: the states of all layers, of which a backward hook belongs to one."""
    torch.manual_seed(0)
    layers = [nn.Linear(3, 3) for _ in range(3)]
    heard: list = []
    for number, layer in enumerate(layers):
        layer.register_full_backward_hook(
            lambda module, into, out, number=number: heard.append((number, into[0].tolist(), out[0].tolist()))
        )

    def f(x):
        states = [x * 1]
        for layer in layers:
            states.append(layer(states[-1]).tanh())
        return states

    def run(function):
        found = []
        for number in (3, 1, 2, 0):
            x = torch.ones(2, 3, requires_grad=True)
            heard.clear()
            function(x)[number].sum().backward()
            found.append((x.grad, [row[0] for row in heard], torch.tensor([row[1:] for row in heard])))
        return found

    want = run(f)
    counting = CountingOf("aot_eager")
    have = run(pellucid.compile(f, backend=counting))
    torch.testing.assert_close([row[::2] for row in have], [row[::2] for row in want])
    assert [row[1] for row in have] == [row[1] for row in want] == [[2, 1, 0], [0], [1, 0], []]
    assert counting.count == 1


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_autograd_refuses(function):
    check(function, "backward", "aot_eager", 1)


@pytest.mark.parametrize("function", BEHIND, ids=lambda f: f.__name__)
def test_where_the_region_ends_instead(function):
    check(function, "backward", "aot_eager", 2)


@pytest.mark.parametrize("how", ["backward", "hook of a result"])
@pytest.mark.parametrize("function", [result, with_a_view], ids=lambda f: f.__name__)
def test_a_result_gets_its_hook_behind_the_graph(function, how):
    check(function, how, "aot_eager", 1)


def test_tensors_beside_each_other():
    """Which hook is called first is the order of autograd's nodes, of which a compiled graph is one."""

    def f(x, w):
        y, z = x * 2, w * 3
        y.register_hook(say("y", 3))
        z.register_hook(say("z", 5))
        return (y * z).sum()

    x, w = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    counting = CountingOf("aot_eager")
    pellucid.compile(f, backend=counting)(x, w).backward()
    assert counting.count == 2  # each tensor of the first one has its hook behind it
    assert torch.equal(x.grad, torch.full((2, 3), 18.0)) and torch.equal(w.grad, torch.full((2, 3), 30.0))


def test_handles_that_leave():
    def f(x, w):
        y = x * w
        handle = y.register_hook(say("y", 3))
        return (y * y).sum(), handle

    counting = CountingOf("aot_eager")
    compiled = pellucid.compile(f, backend=counting)
    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    LOG.clear()
    loss, handle = compiled(x, w)
    handle.remove()
    loss.backward()
    assert not LOG and torch.equal(x.grad, torch.full((2,), 2.0))
    loss, handle = compiled(x, w)
    loss.backward()
    assert len(LOG) == 1 and torch.equal(x.grad, torch.full((2,), 8.0))
    assert counting.count == 1


def test_open_sizes():
    counting = CountingOf("aot_eager")
    compiled = pellucid.compile(one, backend=counting)
    for size in (3, 4, 5, 6):
        LOG.clear()
        x, w = torch.ones(size, requires_grad=True), torch.full((size,), 2.0, requires_grad=True)
        compiled(x, w).backward()
        assert torch.equal(x.grad, torch.full((size,), 24.0))
        assert LOG == [("y", [4.0] * size, False, False)]
    assert counting.count == 2


def test_calls_whose_passes_come_later():
    """Each pass calls the hooks of its own call."""

    def f(x, factor):
        y = x * 2
        y.register_hook(lambda grad: grad * factor)
        return (y * y).sum()

    counting = CountingOf("aot_eager")
    compiled = pellucid.compile(f, backend=counting, dynamic=True)
    xs = [torch.ones(2, requires_grad=True) for _ in range(3)]
    losses = [compiled(x, torch.tensor(float(n))) for n, x in enumerate(xs, 1)]
    for loss in reversed(losses):
        loss.backward()
    assert [x.grad.tolist() for x in xs] == [[8.0, 8.0], [16.0, 16.0], [24.0, 24.0]]
    assert counting.count == 1


class Doubles:
    """A hook that can be watched."""

    def __call__(self, grad):
        return grad * 2


def with_hook(x, hook):
    y = x * 2
    y.register_hook(hook)
    return (y * y).sum()


def test_nothing_is_kept_alive():
    compiled = pellucid.compile(with_hook, backend="aot_eager")
    x = torch.ones(2, requires_grad=True)
    for goes_back in (True, False):
        hook = Doubles()
        alive = weakref.ref(hook)
        loss = compiled(x, hook)
        del hook
        gc.collect()
        assert alive() is not None
        if goes_back:
            loss.backward()
        del loss
        gc.collect()
        assert alive() is None


def test_saved_tensors_that_functions_of_the_program_keep():
    """What they unpack is a copy, which has not the memory of the key."""

    counting = CountingOf("aot_eager")
    compiled = pellucid.compile(with_hook, backend=counting)
    x, hook = torch.ones(2, requires_grad=True), Doubles()
    alive = weakref.ref(hook)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t.clone()):
        loss = compiled(x, hook)
    del hook
    gc.collect()
    loss.backward(retain_graph=True)
    loss.backward()
    assert torch.equal(x.grad, torch.full((2,), 32.0))
    assert counting.count == 1
    del loss
    gc.collect()
    assert alive() is None


# ---- modules


def net(*, kind):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Linear(3, 2)
    )

    def full(module, into, out):
        LOG.append((type(module).__name__, [None if g is None else g.tolist() for g in (*into, *out)], False, False))
        return tuple(None if g is None else g * 2 for g in into) if kind == "changes" else None

    def pre(module, out):
        LOG.append(("pre", [g.tolist() for g in out], False, False))
        return tuple(g * 0.5 for g in out) if kind == "changes" else None

    if kind in ("full", "changes"):
        model[1].register_full_backward_hook(full)
        model[2].register_full_backward_hook(full)
    if kind in ("pre", "changes"):
        model[1].register_full_backward_pre_hook(pre)
    if kind == "all":
        for module in model.modules():
            module.register_full_backward_hook(full)
    if kind == "raises":
        model[1].register_full_backward_hook(lambda module, into, out: (into[0][:1],))
    if kind == "identity":
        model = nn.Sequential(model, nn.Identity())
        model[1].register_full_backward_hook(full)
    return model


def trained(model, run, needs_grad, how):
    torch.manual_seed(1)
    seen = []
    for _ in range(2):
        LOG.clear()
        model.zero_grad()
        x = torch.randn(2, 3, requires_grad=needs_grad)
        try:
            loss = run(x).square().sum()
            if how == "one parameter":
                given = list(torch.autograd.grad(loss, [next(reversed(list(model.parameters())))]))
            else:
                loss.backward()
                given = [p.grad.clone() for p in model.parameters()] + ([x.grad] if needs_grad else [])
        except RuntimeError as error:
            seen.append(str(error))
            continue
        seen.append((given, [(name, str(heard)) for name, heard, *_ in LOG]))
    return seen


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("how", ["backward", "one parameter"])
@pytest.mark.parametrize("needs_grad", [True, False])
@pytest.mark.parametrize("kind", ["full", "changes", "pre", "all", "identity", "raises"])
def test_modules_in_one_graph(kind, needs_grad, how):
    model = net(kind=kind)
    want = trained(model, model, needs_grad, how)
    pellucid.reset()
    counting = CountingOf("aot_eager")
    model = net(kind=kind)
    have = trained(model, pellucid.compile(model, backend=counting), needs_grad, how)
    assert counting.count == 1
    for one_call, other in zip(want, have, strict=True):
        if isinstance(one_call, str):
            assert one_call == other
            continue
        torch.testing.assert_close(one_call[0], other[0])
        assert one_call[1] == other[1]


def test_tensors_without_gradients_beside_others():
    """What a module gets and gives beside: an index, a mask. In their places its hooks get what they get in eager code."""

    class Chosen(nn.Module):
        def forward(self, x, index, mask):
            return index + 1, (x * mask)[index], mask

    heard: list = []

    def hook(module, into, out):
        heard.append([None if g is None else (g.tolist(), g.dtype) for g in (*into, *out)])
        return tuple(None if g is None else g * 2 for g in into)

    model = Chosen()
    model.register_full_backward_hook(hook)

    def f(x, index, mask):
        number, chosen, same = model(x * 1, index, mask)
        return (chosen * number[0]).sum(), same

    index, mask = torch.tensor([2, 0]), torch.tensor([1.0, 1.0, 0.5])
    want = torch.ones(3, requires_grad=True)
    f(want, index, mask)[0].backward()
    counting = CountingOf("aot_eager")
    have = torch.ones(3, requires_grad=True)
    loss, same = pellucid.compile(f, backend=counting)(have, index, mask)
    loss.backward()
    assert torch.equal(have.grad, want.grad)
    assert heard[0] == heard[1]
    assert same.data_ptr() == mask.data_ptr() and same is not mask
    assert counting.count == 1


def test_a_module_that_gives_what_it_gets():
    """In eager code the result has the memory of the argument, and so it has here: the region ends at the module."""
    model = nn.Identity()
    model.register_full_backward_hook(lambda module, into, out: (into[0] * 2,))

    def f(x):
        y = x * 2
        return model(y), y

    counting = CountingOf("aot_eager")
    x = torch.ones(3, requires_grad=True)
    got, y = pellucid.compile(f, backend=counting)(x)
    assert got.data_ptr() == y.data_ptr()
    got.sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 4.0))
    assert counting.count == 1


def test_an_output_that_nobody_uses():
    class Two(nn.Module):
        def forward(self, x):
            return x.sin(), x.cos()

    heard: list = []
    model = Two()
    model.register_full_backward_hook(lambda module, into, out: heard.append([g is None for g in (*into, *out)]))

    def f(x):
        first, _ = model(x * 1)
        return (first * 2).sum()

    x = torch.ones(3, requires_grad=True)
    f(x).backward()
    counting = CountingOf("aot_eager")
    pellucid.compile(f, backend=counting)(x).backward()
    assert len(heard) == 2 and heard[0] == heard[1]
    assert counting.count == 1
