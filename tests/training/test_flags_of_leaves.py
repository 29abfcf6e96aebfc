"""`requires_grad` of parameters and arguments changed inside the compiled function: frozen layers, adversarial training,
attacks on inputs. Each against eager in values, gradients, flags and what the tensors are good for afterwards, with how
many graphs and graph breaks it may make."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import pellucid
from support import nearly_same

PROGRAMS = {}
NOTED = []


def note(what):
    NOTED.append(str(what))


class State:
    """What exists before the calls."""

    def __init__(self):
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        self.first, self.last = self.net[0], self.net[2]
        self.gen, self.disc = nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1, momentum=0.9)
        self.of_gen = torch.optim.Adam(self.gen.parameters(), 0.01)
        self.of_disc = torch.optim.RMSprop(self.disc.parameters(), 0.01)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.first.weight
        self.register = torch.zeros(4)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.alias = self.last.weight.detach()
        self.view = self.last.weight[0]
        self.numbers = torch.arange(3)
        self.seen = []

    def tensors(self):
        modules = {"net": self.net, "gen": self.gen, "disc": self.disc}
        named = {f"{name}.{at}": p for name, module in modules.items() for at, p in module.named_parameters()}
        return {**named, "register": self.register, "alias": self.alias, "scale": self.scale}


@dataclass
class Program:
    run: object
    graphs: int
    breaks: int
    compiled: tuple  # the same of backends that compile
    is_compiled: bool


def program(graphs, breaks=0, compiled=None, is_compiled=True):
    """`graphs`: of all calls together; `breaks`: how many kinds; `is_compiled`: AOTAutograd takes it."""

    def add(run):
        PROGRAMS[run.__name__] = Program(run, graphs, breaks, compiled or (graphs, breaks), is_compiled)
        return run

    return add


def set_requires_grad(module, on):
    for p in module.parameters():
        p.requires_grad = on


def flags(module):
    return [(p.requires_grad, p.is_leaf, p.grad is None) for p in module.parameters()]


# ---- layers that are frozen for a while


@program(3)
def frozen_layer(s, x):
    s.first.requires_grad_(False)
    loss = s.net(x).pow(2).sum()
    loss.backward()
    s.first.requires_grad_(True)
    return loss.detach()


@program(3)
def frozen_layer_with_its_step(s, x):
    s.optimizer.zero_grad()
    set_requires_grad(s.first, False)
    loss = s.net(x).pow(2).sum()
    loss.backward()
    s.optimizer.step()
    set_requires_grad(s.first, True)
    return loss.detach(), s.first.weight.grad is None


@program(2)
def gan(s, x):
    s.of_disc.zero_grad()
    made = s.gen(x)
    of_disc = F.softplus(-s.disc(x[:, :3])).mean() + F.softplus(s.disc(made.detach())).mean()
    of_disc.backward()
    s.of_disc.step()
    for p in s.disc.parameters():
        p.requires_grad_(False)
    s.of_gen.zero_grad()
    of_gen = F.softplus(-s.disc(made)).mean()
    of_gen.backward()
    s.of_gen.step()
    for p in s.disc.parameters():
        p.requires_grad_(True)
    return of_disc.detach(), of_gen.detach()


@program(2)
def gan_that_ends_frozen(s, x):
    made = s.gen(x)
    set_requires_grad(s.disc, True)
    s.of_disc.zero_grad()
    of_disc = F.softplus(-s.disc(x[:, :3])).mean() + F.softplus(s.disc(made.detach())).mean()
    of_disc.backward()
    s.of_disc.step()
    set_requires_grad(s.disc, False)
    s.of_gen.zero_grad()
    of_gen = F.softplus(-s.disc(made)).mean()
    of_gen.backward()
    s.of_gen.step()
    return of_disc.detach(), of_gen.detach()


@program(4)
def alternates(s, x):
    on = not s.first.weight.requires_grad
    s.first.requires_grad_(on)
    s.last.requires_grad_(not on)
    loss = s.net(x).pow(2).sum()
    loss.backward()
    return loss.detach(), flags(s.net)


@program(3)
def flags_alone(s, x):
    s.net.requires_grad_(not s.first.weight.requires_grad)
    return flags(s.net), s.first.weight.requires_grad_() is s.first.weight


@program(2)
def back_and_forth(s, x):
    seen = []
    for on in (False, True, False, False, True):
        set_requires_grad(s.first, on)
        out = s.net(x).sum()
        seen.append((flags(s.net), out.requires_grad, out.detach()))
        out.backward()
    return seen


@program(3)
def frozen_behind_the_forward(s, x):
    loss = s.net(x).sum()
    s.first.requires_grad_(False)
    loss.backward()
    return loss.detach(), flags(s.net)


@program(3)
def frozen_between_forward_and_backward(s, x):
    loss = s.net(x).sum()
    s.first.requires_grad_(False)
    frozen = s.net(x).sum()
    s.first.requires_grad_(True)
    (loss + frozen).backward()
    return loss.detach()


@program(2)
def result_of_frozen(s, x):
    set_requires_grad(s.first, False)
    out = s.net(x)
    set_requires_grad(s.first, True)
    return out


@program(3)
def result_before_frozen(s, x):
    out = s.net(x)
    set_requires_grad(s.first, False)
    return out


@program(2, breaks=1)
def result_that_keeps_the_leaf(s, x):
    """Differentiated twice behind the function, it would lead to the leaf, which requires gradients again then."""
    s.scale.requires_grad_(False)
    out = s.last.bias[0] * s.scale * x
    s.scale.requires_grad_(True)
    return out


@program(3, breaks=1)
def freed_up_to_a_frozen_leaf(s, x):
    """The backward pass goes on to the leaf and frees what is on the way; the leaf gets nothing."""
    loss = (x * s.scale * s.first.bias).sum()
    loss.backward(retain_graph=True)
    s.scale.requires_grad_(False)
    loss.backward()
    s.scale.requires_grad_(True)
    try:
        loss.backward()
    except RuntimeError as error:
        return str(error)[:60]
    return None


@program(2, breaks=3)
def differentiated_after_a_change(s, x):
    """With create_graph=True the gradient requires gradients or not as the leaf does by now."""
    x = x.detach().requires_grad_()
    y = (x * s.scale).pow(2).sum()
    s.scale.requires_grad_(False)
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    seen = gradient.requires_grad
    s.scale.requires_grad_(True)
    return seen, gradient.detach()


@program(2)
def penalty_while_on(s, x):
    x = x.detach().requires_grad_()
    s.scale.requires_grad_(False)
    y = (x * s.scale).pow(2).sum()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    gradient.pow(2).sum().backward()
    s.scale.requires_grad_(True)
    return gradient.detach(), x.grad * 1


@program(3)
def tied(s, x):
    s.tied.weight.requires_grad_(False)
    out = s.net(x).sum() + s.tied(x).sum()
    out.backward()
    s.first.weight.requires_grad_(True)
    return out.detach(), s.tied.weight is s.first.weight


@program(3)
def below_no_grad(s, x):
    with torch.no_grad():
        s.first.requires_grad_(False)
        y = s.net(x)
    s.net(x).sum().backward()
    with torch.no_grad():
        s.first.requires_grad_(True)
    return y


@program(3, is_compiled=False)
def twice_differentiated(s, x):
    s.first.requires_grad_(False)
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(s.net(x).sum(), x, create_graph=True)
    gradient.pow(2).sum().backward()
    s.first.requires_grad_(True)
    return gradient.detach()


@program(2)
def copied_while_frozen(s, x):
    s.first.requires_grad_(False)
    one = copy.deepcopy(s.first)
    s.first.requires_grad_(True)
    return one(x), flags(one)


@program(4)
def returned_while_frozen(s, x):
    s.first.weight.requires_grad_(False)
    s.seen.append(s.first.weight)
    return s.first.weight, s.first.weight is s.seen[-1], s.first.weight * 2


@program(3)
def branch_on_a_frozen_number(s, x):
    s.scale.requires_grad_(False)
    if s.scale * 2 > 3:
        x = x * 2
    s.scale.add_(1)
    if s.scale > 3:
        x = x + 1
    (s.net(x) * s.scale).sum().backward()
    s.scale.requires_grad_(True)
    return x


# ---- blocks that end in the middle


@program(3)
def exception_inside(s, x):
    s.first.requires_grad_(False)
    try:
        if s.last.weight.requires_grad:
            raise ValueError(flags(s.net))
        return None
    except ValueError as error:
        s.net(x).sum().backward()
        return error.args
    finally:
        s.first.requires_grad_(True)


@program(3, breaks=1)
def exception_that_leaves(s, x):
    s.net(x).sum().backward()
    s.first.requires_grad_(False)
    raise ValueError(flags(s.net))


@program(5, breaks=1)
def break_while_frozen(s, x):
    s.first.requires_grad_(False)
    loss = s.net(x).sum()
    pellucid.graph_break()
    seen = flags(s.net)
    s.net(x * 2).sum().backward()
    s.first.requires_grad_(True)
    return loss.detach(), seen


@program(2, breaks=2)
def break_with_a_loss(s, x):
    """The backward pass comes to what was computed before the break."""
    s.first.requires_grad_(False)
    loss = s.net(x).sum()
    pellucid.graph_break()
    loss.backward()
    s.first.requires_grad_(True)
    return loss.detach()


# ---- writes and views


@program(3)
def written_while_frozen(s, x):
    s.last.weight.requires_grad_(False)
    s.last.weight.mul_(0.5)
    s.last.weight[0].add_(1)
    loss = s.net(x).sum()
    loss.backward()
    s.last.weight.requires_grad_(True)
    return loss.detach(), s.last.weight.detach() * 1


@program(3)
def written_on_both_sides(s, x):
    for on in (False, True, False, True):
        with torch.no_grad():
            s.last.weight.add_(1)
        s.last.weight.requires_grad_(on)
        s.net(x).sum().backward()
        with torch.no_grad():
            s.last.weight.mul_(0.5)
    return s.last.weight * 2


@program(2)
def written_through_its_data(s, x):
    s.last.weight.requires_grad_(False)
    s.last.weight.data.mul_(0.5)
    loss = s.net(x).sum()
    s.last.weight.requires_grad_(True)
    return loss


@program(3, compiled=(4, 1))
def written_beside_an_alias(s, x):
    """Inputs in one memory that is written to, of which one requires gradients: AOTAutograd takes no such graph."""
    s.last.weight.requires_grad_(False)
    s.last.weight.mul_(0.5)
    loss = s.net(x).sum()
    loss.backward()
    s.last.weight.requires_grad_(True)
    return loss.detach(), s.alias * 2


@program(3, breaks=2)
def written_with_gradients(s, x):
    s.register.requires_grad_(True)
    s.register.requires_grad_(False)
    s.last.bias.requires_grad_(False)
    s.last.bias.mul_(s.first.bias[:2])
    out = s.last.bias.requires_grad, s.last.bias.is_leaf, s.last.bias.detach() * 1
    s.last.bias.detach_()
    return out


@program(1, breaks=2)
def view_made_while_frozen(s, x):
    s.last.weight.requires_grad_(False)
    row = s.last.weight[0]
    before = row.requires_grad
    s.last.weight.requires_grad_(True)
    with torch.no_grad():
        s.last.weight.mul_(2)
    return before, row.requires_grad, (row * 2).detach()


@program(0, breaks=2)
def view_that_leaves(s, x):
    s.last.weight.requires_grad_(False)
    row = s.last.weight[0]
    s.last.weight.requires_grad_(True)
    return row, row._base is s.last.weight


@program(3)
def view_made_before(s, x):
    row = s.last.weight[0]
    s.last.weight.requires_grad_(False)
    out = (row * x[0]).sum() + s.net(x).sum()
    out.backward()
    s.last.weight.requires_grad_(True)
    return out.detach(), row.requires_grad, flags(s.net)


@program(1, breaks=3)
def view_written_while_frozen(s, x):
    row = s.last.weight[0]
    s.last.weight.requires_grad_(False)
    row.mul_(0.5)
    out = s.last.weight.requires_grad, s.last.weight.is_leaf, s.last.weight.detach() * 1
    s.last.weight.detach_().requires_grad_()
    return out


@program(1, breaks=1, is_compiled=False)
def view_from_before_written(s, x):
    s.last.weight.requires_grad_(False)
    with torch.no_grad():
        s.last.weight.mul_(0.5)
    out = s.view * 2
    s.last.weight.requires_grad_(True)
    return out.detach(), out.requires_grad


@program(3, breaks=1)
def moved_while_frozen(s, x):
    s.last.bias.requires_grad_(False)
    s.last.bias.data = x[0, :2] * 2
    out = s.last.bias * 3
    s.last.bias.requires_grad_(True)
    return out


@program(1, breaks=1)
def reshaped_while_frozen(s, x):
    s.last.bias.requires_grad_(False)
    s.last.bias.unsqueeze_(0)
    out = s.last.bias * 3
    s.last.bias.squeeze_(0)
    s.last.bias.requires_grad_(True)
    return out


@program(3)
def saved_and_written(s, x):
    """The backward pass finds that what it needs was written to."""
    s.first.requires_grad_(False)
    loss = s.net(x).pow(2).sum()
    with torch.no_grad():
        s.last.weight.mul_(2)
    s.first.requires_grad_(True)
    try:
        loss.backward()
    except RuntimeError as error:
        return str(error)[:80]
    return loss.detach()


# ---- what torch refuses


def complaint(f):
    try:
        f()
    except (RuntimeError, TypeError) as error:
        return type(error), str(error)
    return None


@program(1, breaks=1)
def of_no_leaf(s, x):
    try:
        x.requires_grad_(False)
    except RuntimeError as error:
        return str(error)
    return x * 2


@program(2, breaks=1)
def of_no_leaf_by_attribute(s, x):
    y = x * s.scale
    try:
        y.requires_grad = True
    except RuntimeError as error:
        return str(error)
    return y


@program(0, breaks=1)
def of_ints(s, x):
    try:
        s.numbers.requires_grad_()
    except RuntimeError as error:
        return str(error)
    return x * 2


@program(0, breaks=1)
def with_no_bool(s, x):
    try:
        s.first.weight.requires_grad = 1
    except (RuntimeError, TypeError) as error:
        return str(error)
    return x * 2


@program(2, breaks=1)
def gradient_of_frozen(s, x):
    loss = s.net(x).sum()
    s.first.weight.requires_grad_(False)
    try:
        return torch.autograd.grad(loss, [s.first.weight])
    except RuntimeError as error:
        return str(error)
    finally:
        s.first.weight.requires_grad_(True)


@program(0, breaks=1)
def leaf_written_with_gradients(s, x):
    s.register.requires_grad_(True)
    try:
        s.register.add_(1)
    except RuntimeError as error:
        return str(error)
    finally:
        s.register.requires_grad_(False)


# ---- what sees flags later


@program(3, breaks=1)
def logged_while_frozen(s, x):
    note(s.first.bias)
    s.first.bias.requires_grad_(False)
    out = s.net(x).sum()
    out.backward()
    return out.detach()


@program(3)
def logged_behind(s, x):
    s.first.bias.requires_grad_(False)
    out = s.net(x)
    note(s.first.bias)
    return out


@program(1, breaks=2)
def hooked_and_frozen(s, x):
    s.first.bias.register_hook(lambda g: g * 2)
    s.first.bias.requires_grad_(False)
    return s.net(x)


@program(3, breaks=1)
def hooked_before_and_frozen(s, x):
    """Hooks are called all the same."""
    loss = s.net(x).sum()
    s.last.bias.requires_grad_(False)
    loss.backward()
    s.last.bias.requires_grad_(True)
    return loss.detach()


@program(3)
def checkpointed_while_frozen(s, x):
    s.first.requires_grad_(False)
    out = checkpoint(s.net, x, use_reentrant=False)
    out.sum().backward()
    return out.detach(), flags(s.net)


@program(5, breaks=2, is_compiled=False)
def frozen_behind_a_checkpoint(s, x):
    out = checkpoint(s.net, x, use_reentrant=False)
    s.last.requires_grad_(False)
    out.sum().backward()
    s.last.requires_grad_(True)
    return out.detach()


@program(3)
def called_functionally(s, x):
    s.first.requires_grad_(False)
    parts = {name: p * 1 for name, p in s.net.named_parameters()}
    out = torch.func.functional_call(s.net, parts, (x,))
    out.sum().backward()
    s.first.requires_grad_(True)
    return out.detach(), [p.requires_grad for p in parts.values()]


# ---- tensors that are told to require gradients


@program(3)
def attack(s, x):
    x.requires_grad_()
    s.net(x).pow(2).sum().backward()
    return x.detach() + 0.1 * x.grad.sign(), x.requires_grad, x.is_leaf


@program(2)
def attack_by_attribute(s, x):
    x.requires_grad = True
    (gradient,) = torch.autograd.grad(s.net(x).pow(2).sum(), x)
    x.requires_grad = False
    return x + 0.1 * gradient.sign(), x.requires_grad, x.grad is None


@program(3)
def attack_in_steps(s, x):
    start = x.clone()
    for _ in range(3):
        x.requires_grad_(True)
        s.net(x).pow(2).sum().backward()
        x.requires_grad_(False)
        x.add_(x.grad.sign(), alpha=0.1)
        x.clamp_(start - 0.3, start + 0.3)
        x.grad.zero_()
    s.net.zero_grad()
    return x * 1


@program(3)
def only_its_gradient(s, x):
    s.net.requires_grad_(False)
    x.requires_grad_()
    s.net(x).sum().backward()
    s.net.requires_grad_(True)
    return x.grad * 2, flags(s.net)


@program(2, breaks=1)
def what_is_computed_leaves(s, x):
    x.requires_grad_()
    return s.net(x), x * 2


@program(3)
def buffer_for_a_while(s, x):
    s.register.requires_grad_()
    (x * s.register).sum().backward()
    with torch.no_grad():
        s.register.add_(s.register.grad)
    s.register.requires_grad_(False)
    return s.register * 2, s.register.grad * 1


@program(2)
def view_of_data(s, x):
    part = s.alias[:1]
    part.requires_grad_()
    (part * 2).sum().backward()
    return part.grad * 2


# ---- the test


def seen(value, versions):
    """What programs can see of a value."""
    if isinstance(value, torch.Tensor):
        facts = [type(value), value.requires_grad, value.is_leaf, value.stride(), value.detach().clone()]
        grad = value.grad if value.is_leaf else None
        return [*facts, None if grad is None else seen(grad, versions), value._version if versions else None]
    if isinstance(value, (list, tuple)):
        return [seen(item, versions) for item in value]
    return value


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in tensors_in(item)] if isinstance(value, (list, tuple)) else []


def runs(f, versions, run=None, calls=4):
    """What each call gives and leaves behind, and what is then made of it outside."""
    state, gave = State(), []
    NOTED.clear()
    run = run or f
    if run is hooked_before_and_frozen:
        state.last.bias.register_hook(lambda g: state.seen.append(g.clone()))
    same = {name: id(tensor) for name, tensor in state.tensors().items()}
    torch.manual_seed(1)
    for i in range(calls):
        x = torch.randn(3 + (i == 2), 4)
        if run is of_no_leaf:
            x = (x.requires_grad_() * 2).detach_() if i == 1 else x.requires_grad_() * 2
        try:
            result = f(state, x)
        except Exception as error:
            result = [type(error).__name__, str(error)]
        everything = {"result": result, "x": x, **state.tensors(), "seen": state.seen, "noted": list(NOTED)}
        gave.append({name: copy.deepcopy(seen(value, versions)) for name, value in everything.items()})
        total = [t.float().sum() for t in [*tensors_in(result), *state.tensors().values()] if t.requires_grad]
        if total:
            sum(total).backward()
        gave.append({name: copy.deepcopy(seen(value, versions)) for name, value in everything.items()})
        assert same == {name: id(tensor) for name, tensor in state.tensors().items()}
    return gave


def callable_backend(gm, example_inputs):
    return gm.forward


def check(name, backend):
    row = PROGRAMS[name]
    versions = backend in ("eager", "callable")
    want = runs(row.run, versions)
    pellucid.reset()
    pellucid.counters.clear()
    compiled = pellucid.compile(row.run, backend=callable_backend if backend == "callable" else backend)
    with pellucid.config.patch(reorderable_logging_functions={note}):
        got = runs(compiled, versions, row.run)
    for i, (one, other) in enumerate(zip(want, got)):
        for key in one:
            assert nearly_same(one[key], other[key]), (i, key, one[key], other[key])
    graphs, breaks = pellucid.counters["stats"]["unique_graphs"], pellucid.counters["graph_break"]
    want_graphs, want_breaks = (row.graphs, row.breaks) if backend == "eager" else row.compiled
    assert graphs == want_graphs, breaks
    # AOTAutograd lets nobody differentiate a gradient behind the function: some regions go on there.
    assert len(breaks) <= want_breaks if backend == "aot_eager" else len(breaks) == want_breaks, breaks


@pytest.mark.parametrize("backend", ["eager", "callable"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_flags(name, backend):
    check(name, backend)


@pytest.mark.parametrize("name", [name for name, row in PROGRAMS.items() if row.is_compiled])
def test_flags_aot_eager(name):
    check(name, "aot_eager")


@pytest.mark.parametrize("name", ["frozen_layer", "gan_that_ends_frozen", "attack"])
def test_flags_inductor(name):
    check(name, "inductor")
