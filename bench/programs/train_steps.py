"""What stands in a training loop around model and optimizer: clipping, schedulers, averages, scaling, accumulation."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler

from programs import Case, program
from programs.optimizers import batches, small_net


def case_of(step: Callable, *state: object, count: int = 3) -> Case:
    return Case(step, batches(count), state=list(state))


@program("train steps", inductor=True)
def clip_norm():
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return loss.detach(), norm

    return case_of(step, model)


@program("train steps")
def clip_value():
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.01)
        optimizer.step()

    return case_of(step, model)


@program("train steps")
def skip_nonfinite():
    """A step with gradients that are not finite is left out: a decision on data."""
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
            return True
        return False

    given = batches(3)
    given[1] = (given[1][0] * float("inf"), given[1][1])
    return Case(step, given, state=model)


SCHEDULERS: dict[str, Callable] = {
    "step": functools.partial(lr_scheduler.StepLR, step_size=2, gamma=0.5),
    "cosine": functools.partial(lr_scheduler.CosineAnnealingLR, T_max=5),
    "one_cycle": functools.partial(lr_scheduler.OneCycleLR, max_lr=0.5, total_steps=10),
    "lambda": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step),
    "exponential": functools.partial(lr_scheduler.ExponentialLR, gamma=0.9),
    "warmup": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2), lr_scheduler.CosineAnnealingLR(optimizer, 4)],
        milestones=[2],
    ),
}


def scheduled(make_scheduler: Callable) -> Case:
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = make_scheduler(optimizer)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach(), scheduler.get_last_lr()

    return case_of(step, model, optimizer, count=5)


for name, make_scheduler in SCHEDULERS.items():
    program("train steps", name=f"schedule_{name}")(functools.partial(scheduled, make_scheduler))


@program("train steps")
def schedule_plateau():
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step(loss.item())
        return loss.detach(), optimizer.param_groups[0]["lr"]

    return case_of(step, model, count=4)


@program("train steps", inductor=True)
def moving_average():
    """An average of the weights by lerp."""
    model, average = small_net(), small_net()
    average.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(average.parameters(), model.parameters()):
                ours.lerp_(theirs, 0.1)
        return loss.detach()

    return case_of(step, model, average)


@program("train steps")
def averaged_model():
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = torch.optim.swa_utils.AveragedModel(model)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        return loss.detach()

    return case_of(step, model, average)


@program("train steps")
def grad_scaler():
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach(), scaler.get_scale()

    return case_of(step, model)


@program("train steps")
def autocast_step():
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x)
            loss = F.cross_entropy(logits.float(), y)
        loss.backward()
        optimizer.step()
        return logits.detach(), loss.detach()

    return case_of(step, model)


@program("train steps", inductor=True)
def accumulation():
    """Gradients of several small batches, one step."""
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        total = 0.0
        for part_x, part_y in zip(x.split(2), y.split(2)):
            loss = F.cross_entropy(model(part_x), part_y) / 2
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return case_of(step, model)


@program("train steps")
def accumulation_over_calls():
    """A step in every second call: a counter from outside."""
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    counter = {"calls": 0}

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        counter["calls"] += 1
        if counter["calls"] % 2 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return Case(step, batches(4), state=[model, counter])


@program("train steps")
def zero_grad_of_module():
    model = small_net()

    def step(x, y):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad

    return case_of(step, model)


@program("train steps")
def grad_set_to_none():
    model = small_net()

    def step(x, y):
        for p in model.parameters():
            p.grad = None
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return [p.grad.norm() for p in model.parameters()]

    return case_of(step, model)


@program("train steps")
def backward_of_argument():
    """The loss comes from outside of the region."""
    model = small_net()

    def step(loss):
        loss.backward()
        return loss.detach() * 2

    calls = [(F.cross_entropy(model(x), y),) for x, y in batches()]
    return Case(step, calls, state=model)


@program("train steps", inductor=True)
def batch_norm_dropout():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return case_of(step, model)


@program("train steps")
def frozen_layers():
    model = small_net()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)

    def step(x, y, unfreeze):
        if unfreeze:
            model[0].requires_grad_(True)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return Case(step, [(*batch, number == 2) for number, batch in enumerate(batches(4))], state=model)


@program("train steps")
def sharpness_aware():
    """Two passes: up the gradient and back."""
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        F.cross_entropy(model(x), y).backward()
        kept = []
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            for p in model.parameters():
                up = p.grad * (0.05 / (norm + 1e-12))
                p.add_(up)
                kept.append(up)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p, up in zip(model.parameters(), kept):
                p.sub_(up)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return case_of(step, model)


@program("train steps")
def optimizer_in_backward():
    """Each parameter is stepped as soon as its gradient is there."""
    model = small_net()
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
    order: list = []

    def hook(p):
        order.append(tuple(p.shape))
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    return case_of(step, model, order)


@program("train steps")
def loss_history():
    """Metrics as Python numbers, kept in a list from outside."""
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history: list = []

    def step(x, y):
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        accuracy = (logits.argmax(-1) == y).float().mean()
        history.append({"loss": loss.item(), "accuracy": round(accuracy.item(), 3)})
        return loss.detach()

    return case_of(step, model, history)


@program("train steps", inductor=True)
def weight_norm_and_tying():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 6)
            self.mix = nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))
            self.head = nn.Linear(6, 10, bias=False)
            self.head.weight = self.table.weight

        def forward(self, tokens):
            return self.head(torch.tanh(self.mix(self.table(tokens))))

    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(tokens):
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(step, [(torch.randint(0, 10, (2, 5)),) for _ in range(3)], state=model)


@program("train steps")
def two_losses_retained():
    model = small_net()

    def step(x, y):
        model.zero_grad()
        hidden = model(x)
        first, second = F.cross_entropy(hidden, y), hidden.square().mean()
        first.backward(retain_graph=True)
        kept = [p.grad.clone() for p in model.parameters()]
        second.backward()
        return kept

    return case_of(step, model)


@program("train steps", inductor=True)
def adversarial_pair_with_a_frozen_judge():
    """The judge requires no gradients while the maker learns, and the call ends so."""
    maker, judge = nn.Linear(4, 6), nn.Linear(6, 1)
    opt_maker = torch.optim.Adam(maker.parameters(), lr=0.01)
    opt_judge = torch.optim.RMSprop(judge.parameters(), lr=0.01)

    def step(real, noise):
        fake = maker(noise)
        judge.requires_grad_(True)
        opt_judge.zero_grad()
        loss_judge = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
        loss_judge.backward()
        opt_judge.step()
        judge.requires_grad_(False)
        opt_maker.zero_grad()
        loss_maker = F.softplus(-judge(fake)).mean()
        loss_maker.backward()
        opt_maker.step()
        return loss_judge.detach(), loss_maker.detach()

    return Case(step, [(torch.randn(4, 6), torch.randn(4, 4)) for _ in range(3)], state=[maker, judge])


@program("train steps")
def attacked_inputs():
    """A step on inputs that are moved up their own gradient."""
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        model.requires_grad_(False)
        x.requires_grad_(True)
        F.cross_entropy(model(x), y).backward()
        model.requires_grad_(True)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.detach() + 0.1 * x.grad.sign()), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return case_of(step, model)


@program("train steps")
def adversarial_pair():
    """Two players with an optimizer each, as a GAN has them."""
    maker, judge = nn.Linear(4, 6), nn.Linear(6, 1)
    opt_maker = torch.optim.Adam(maker.parameters(), lr=0.01, betas=(0.5, 0.9))
    opt_judge = torch.optim.Adam(judge.parameters(), lr=0.01, betas=(0.5, 0.9))

    def step(real, noise):
        opt_judge.zero_grad()
        fake = maker(noise)
        loss_judge = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
        loss_judge.backward()
        opt_judge.step()
        opt_maker.zero_grad()
        loss_maker = F.softplus(-judge(fake)).mean()
        loss_maker.backward()
        opt_maker.step()
        return loss_judge.detach(), loss_maker.detach()

    return Case(step, [(torch.randn(4, 6), torch.randn(4, 4)) for _ in range(3)], state=[maker, judge])
