"""What changes between calls, and between a call and its backward pass."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

from programs import Case, program
from programs.checkpointing import leaf_calls
from programs.optimizers import batches, small_net, train_step


@program("changes")
def parameter_replaced():
    model = small_net()

    def between(number: int) -> None:
        if number:
            model[0].weight = nn.Parameter(torch.full((8, 6), 0.1 * number))

    return Case(lambda x, y: F.cross_entropy(model(x), y), batches(), state=model, between=between)


@program("changes")
def gradient_held_outside():
    """The caller holds the tensor that `.grad` was, and looks at it later."""
    model = small_net()
    held: list = []

    def between(number: int) -> None:
        held.append(model[0].weight.grad)

    def f(x, y):
        model.zero_grad(set_to_none=False)
        F.cross_entropy(model(x), y).backward()

    return Case(f, batches(4), state=[model, held], between=between)


@program("changes")
def gradient_of_the_caller():
    """`.grad` is a view of a flat buffer of the caller."""
    w = nn.Parameter(torch.randn(6, 3))
    flat = torch.zeros(18)
    w.grad = flat.view(6, 3)

    def f(x, y):
        F.cross_entropy(x @ w, y).backward()

    return Case(f, batches(), state=[w, flat])


@program("changes")
def learning_rate_set_by_hand():
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def between(number: int) -> None:
        optimizer.param_groups[0]["lr"] = 0.1 / (number + 1)

    return Case(train_step(model, optimizer), batches(4), state=[model, optimizer], between=between)


@program("changes")
def group_added():
    model, head = nn.Linear(6, 4), nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def f(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(head(model(x)), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def between(number: int) -> None:
        if number == 2:
            optimizer.add_param_group({"params": head.parameters(), "lr": 0.01})

    return Case(f, batches(4), state=[model, head, optimizer], between=between)


@program("changes")
def mode_of_training():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))

    def between(number: int) -> None:
        model.train(number % 2 == 0)

    return Case(lambda x, y: F.cross_entropy(model(x), y), batches(4), state=model, between=between)


@program("changes")
def gradients_required_or_not():
    w = torch.randn(6, 3)

    def between(number: int) -> None:
        w.requires_grad_(number != 1)

    return Case(lambda x, y: F.cross_entropy(x @ w, y), batches(4), state=w, between=between)


@program("changes")
def hook_of_a_parameter_comes_and_goes():
    model = small_net()
    handles: list = []

    def f(x, y):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()

    def between(number: int) -> None:
        if number == 1:
            handles.append(model[0].weight.register_hook(lambda grad: grad * 10))
        if number == 3:
            handles.pop().remove()

    return Case(f, batches(4), state=model, between=between)


@program("changes")
def post_hook_comes_later():
    model = small_net()
    order: list = []

    def f(x, y):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()

    def between(number: int) -> None:
        if number == 2:
            model[2].bias.register_post_accumulate_grad_hook(lambda p: order.append(p.grad.sum()))

    return Case(f, batches(4), state=[model, order], between=between)


@program("changes")
def hooks_of_the_optimizer_come_later():
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    log: list = []

    def between(number: int) -> None:
        if number == 2:
            optimizer.register_step_post_hook(lambda opt, args, kwargs: log.append(number))

    return Case(train_step(model, optimizer), batches(4), state=[model, log], between=between)


@program("changes")
def grad_mode_of_the_caller():
    model = small_net()
    before = torch.is_grad_enabled()

    def between(number: int) -> None:
        torch.set_grad_enabled(before and number != 1)

    return Case(lambda x: model(x) * 2, [(torch.randn(3, 6),) for _ in range(3)], state=model, between=between)


@program("changes")
def copies_of_a_model():
    model = small_net()

    def f(x):
        twin = copy.deepcopy(model)
        with torch.no_grad():
            twin[0].weight.mul_(2)
        return twin(x) - model(x)

    return Case(f, [(torch.randn(3, 6),) for _ in range(3)], state=model)


@program("changes")
def checkpoint_reads_what_changes():
    """The block reads a number again in the backward pass; it has been changed since."""
    settings = {"scale": 1.0}

    def block(x):
        return torch.sin(x * settings["scale"])

    def f(x):
        return checkpoint(block, x, use_reentrant=False)

    def between(number: int) -> None:
        settings["scale"] = 1.0 + number

    def before_backward(number: int) -> None:
        settings["scale"] = 10.0

    return Case(f, leaf_calls(3, 4), state=settings, between=between, before_backward=before_backward)


@program("changes")
def checkpoint_reads_a_tensor_that_changes():
    """The recomputation sees the new values of a tensor that was set in between."""
    holder = {"w": torch.randn(4)}

    def f(x):
        return checkpoint(lambda x: torch.sin(x * holder["w"]), x, use_reentrant=False)

    def between(number: int) -> None:
        holder["w"] = torch.full((4,), float(number))

    def before_backward(number: int) -> None:
        holder["w"] = torch.full((4,), 7.0)

    return Case(f, leaf_calls(3, 4), state=holder, between=between, before_backward=before_backward)


@program("changes")
def checkpoint_in_another_mode():
    """Dropout is switched off before the recomputation."""
    block = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def between(number: int) -> None:
        block.train()

    def before_backward(number: int) -> None:
        if number == 1:
            block.eval()

    return Case(
        lambda x: checkpoint(block, x, use_reentrant=False),
        leaf_calls(3, 4),
        state=block,
        between=between,
        before_backward=before_backward,
    )


@program("changes")
def checkpoint_draws_in_between():
    """Random numbers are drawn between forward and backward: the recomputation draws the old ones."""
    block = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def before_backward(number: int) -> None:
        torch.rand(5)

    return Case(
        lambda x: checkpoint(block, x, use_reentrant=False),
        leaf_calls(3, 4),
        state=block,
        before_backward=before_backward,
    )


@program("changes")
def checkpoint_weight_written():
    """A weight is written between forward and backward."""
    w = torch.randn(4, 4, requires_grad=True)

    def before_backward(number: int) -> None:
        if number:
            with torch.no_grad():
                w.mul_(2)

    return Case(
        lambda x: checkpoint(lambda x: torch.tanh(x @ w), x, use_reentrant=False),
        leaf_calls(3, 4),
        state=w,
        before_backward=before_backward,
    )


@program("changes")
def saved_tensor_written():
    """Autograd notices a write to what it has saved."""
    w = torch.randn(4, 4, requires_grad=True)

    def before_backward(number: int) -> None:
        if number:
            with torch.no_grad():
                w.mul_(2)

    return Case(lambda x: torch.tanh(x @ w), leaf_calls(3, 4), state=w, before_backward=before_backward)


@program("changes")
def saved_tensor_written_past_autograd():
    """A write through `.data` that autograd does not notice: the gradient is that of the new value."""
    w = torch.randn(4, 4, requires_grad=True)

    def before_backward(number: int) -> None:
        w.data.mul_(2)

    return Case(lambda x: torch.tanh(x @ w), leaf_calls(3, 4), state=w, before_backward=before_backward)


@program("changes")
def function_reads_what_changes():
    """Its backward reads a number that was changed since the forward."""
    settings = {"factor": 1.0}

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * settings["factor"]

        @staticmethod
        def backward(ctx, grad):
            return grad * settings["factor"]

    def between(number: int) -> None:
        settings["factor"] = 1.0 + number

    def before_backward(number: int) -> None:
        settings["factor"] = 100.0

    return Case(
        lambda x: Scaled.apply(x), leaf_calls(3, 4), state=settings, between=between, before_backward=before_backward
    )


@program("changes")
def hook_reads_what_changes():
    settings = {"factor": 1.0}

    def f(x):
        y = x.sin()
        y.register_hook(lambda grad: grad * settings["factor"])
        return y * 2

    def before_backward(number: int) -> None:
        settings["factor"] += 1.0

    return Case(f, leaf_calls(3, 4), state=settings, before_backward=before_backward)


@program("changes")
def class_of_the_function_changes():
    """The `backward` of the class is another one from the second call on."""

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def between(number: int) -> None:
        if number == 1:
            Scaled.backward = staticmethod(lambda ctx, grad: grad * 50)

    return Case(lambda x: Scaled.apply(x), leaf_calls(3, 4), between=between)


@program("changes")
def retained_and_taken_twice():
    kept: list = []

    def f(x):
        loss = (x * x).sum()
        loss.backward(retain_graph=True)
        kept.append(x.grad.clone())
        return loss

    return Case(f, leaf_calls(3, 4), state=kept)


@program("changes")
def inference_mode_of_the_caller():
    model = small_net()
    mode = torch.inference_mode()

    def between(number: int) -> None:
        if number == 1:
            mode.__enter__()
        if number == 2:
            mode.__exit__(None, None, None)

    return Case(lambda x: model(x) * 2, [(torch.randn(3, 6),) for _ in range(3)], state=model, between=between)


@program("changes")
def autocast_of_the_caller():
    model = small_net()
    mode = torch.autocast("cpu", dtype=torch.bfloat16)

    def between(number: int) -> None:
        if number == 1:
            mode.__enter__()
        if number == 2:
            mode.__exit__(None, None, None)

    return Case(lambda x: model(x) * 2, [(torch.randn(3, 6),) for _ in range(3)], state=model, between=between)


@program("changes")
def weights_loaded():
    model, other = small_net(), small_net()

    def between(number: int) -> None:
        if number == 1:
            model.load_state_dict(other.state_dict())
        if number == 2:
            model.load_state_dict({name: value.double() for name, value in other.state_dict().items()}, assign=True)
            model.float()

    return Case(lambda x: model(x), [(torch.randn(3, 6),) for _ in range(3)], state=model, between=between)


@program("changes")
def layer_replaced():
    model = small_net()

    def between(number: int) -> None:
        if number == 1:
            model[1] = nn.ReLU()
        if number == 2:
            model.append(nn.Softmax(-1))

    return Case(lambda x: model(x), [(torch.randn(3, 6),) for _ in range(3)], state=model, between=between)


@program("changes")
def shared_weight_split():
    """Two layers share a weight until the second call."""
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight

    def between(number: int) -> None:
        if number == 1:
            second.weight = nn.Parameter(first.weight.detach().clone())

    return Case(lambda x: second(torch.tanh(first(x))), leaf_calls(3, 4), state=[first, second], between=between)
