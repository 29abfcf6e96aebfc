"""Every optimizer of torch.optim: steps of a small net, as people write them, the gradients given or taken."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import nn

from programs import Case, program


def small_net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def batches(count: int = 3, width: int = 6, classes: int = 3) -> list[tuple]:
    return [(torch.randn(4, width), torch.randint(0, classes, (4,))) for _ in range(count)]


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable:
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def step_alone(make_optimizer: Callable) -> Case:
    """`optimizer.step` is what is compiled; forward and backward run between the calls."""
    model = small_net()
    optimizer = make_optimizer(model.parameters())
    given = batches(4)

    def between(number: int) -> None:
        optimizer.zero_grad()
        x, y = given[number]
        nn.functional.cross_entropy(model(x), y).backward()

    def step():
        optimizer.step()

    return Case(step, [()] * len(given), state=[model, optimizer], between=between)


def whole_step(make_optimizer: Callable) -> Case:
    model = small_net()
    optimizer = make_optimizer(model.parameters())
    return Case(train_step(model, optimizer), batches(4), state=[model, optimizer])


OPTIMIZERS = {
    "sgd": functools.partial(torch.optim.SGD, lr=0.1),
    "sgd_momentum": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": functools.partial(torch.optim.Adam, lr=0.01),
    "adam_amsgrad": functools.partial(torch.optim.Adam, lr=0.01, amsgrad=True, maximize=True),
    "adamw": functools.partial(torch.optim.AdamW, lr=0.01),
    "adamax": functools.partial(torch.optim.Adamax, lr=0.01),
    "nadam": functools.partial(torch.optim.NAdam, lr=0.01),
    "radam": functools.partial(torch.optim.RAdam, lr=0.01),
    "adagrad": functools.partial(torch.optim.Adagrad, lr=0.01, lr_decay=0.1),
    "adadelta": functools.partial(torch.optim.Adadelta, lr=0.5),
    "rmsprop": functools.partial(torch.optim.RMSprop, lr=0.01, momentum=0.9, centered=True),
    "rprop": functools.partial(torch.optim.Rprop, lr=0.01),
    "asgd": functools.partial(torch.optim.ASGD, lr=0.01),
    "adafactor": functools.partial(torch.optim.Adafactor, lr=0.01),
}
VARIANTS = {
    "sgd_foreach": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=True),
    "adam_foreach": functools.partial(torch.optim.Adam, lr=0.01, foreach=True),
    "adamw_fused": functools.partial(torch.optim.AdamW, lr=0.01, fused=True),
    "adam_tensor_lr": lambda parameters: torch.optim.Adam(parameters, lr=torch.tensor(0.01)),
    "radam_foreach": functools.partial(torch.optim.RAdam, lr=0.01, foreach=True),
    "rmsprop_foreach": functools.partial(torch.optim.RMSprop, lr=0.01, foreach=True),
    "adagrad_fused": functools.partial(torch.optim.Adagrad, lr=0.01, fused=True),
}
WITH_INDUCTOR = ("sgd_momentum", "adamw")

for name, make_optimizer in OPTIMIZERS.items():
    chosen = name in WITH_INDUCTOR
    program("optimizers", name=f"step_{name}")(functools.partial(step_alone, make_optimizer))
    program("optimizers", name=f"train_{name}", inductor=chosen)(functools.partial(whole_step, make_optimizer))
for name, make_optimizer in VARIANTS.items():
    program("optimizers", name=f"step_{name}")(functools.partial(step_alone, make_optimizer))


@program("optimizers")
def train_muon():
    model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, 3, bias=False))
    optimizer = torch.optim.Muon(model.parameters(), lr=0.01)
    return Case(train_step(model, optimizer), batches(), state=[model, optimizer])


@program("optimizers")
def train_sparse_adam():
    table = nn.Embedding(10, 6, sparse=True)
    optimizer = torch.optim.SparseAdam(list(table.parameters()), lr=0.01)

    def step(rows):
        optimizer.zero_grad()
        loss = table(rows).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(
        step, [(torch.randint(0, 10, (5,)),) for _ in range(3)], state=[table.weight.data, optimizer.state_dict()]
    )


@program("optimizers")
def train_lbfgs():
    model = nn.Linear(6, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)

    def step(x, y):
        def closure():
            optimizer.zero_grad()
            loss = (model(x).squeeze(-1) - y).square().mean()
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return Case(step, [(torch.randn(5, 6), torch.randn(5)) for _ in range(3)], state=model)


@program("optimizers")
def closure_of_sgd():
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

    def step(x, y):
        def closure():
            optimizer.zero_grad(set_to_none=False)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure)

    return Case(step, batches(), state=[model, optimizer], backward=False)


@program("optimizers", inductor=True)
def parameter_groups():
    """Weight decay for the weights alone, another learning rate for the head."""
    model = small_net()
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0, "lr": 0.1}], lr=0.01
    )
    return Case(train_step(model, optimizer), batches(), state=[model, optimizer])


@program("optimizers")
def own_optimizer():
    """A Lion, written as a user would."""

    class Lion(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
            super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        state["exp_avg"] = torch.zeros_like(p)
                    average, (b1, b2) = state["exp_avg"], group["betas"]
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    update = average * b1 + p.grad * (1 - b1)
                    p.add_(update.sign_(), alpha=-group["lr"])
                    average.mul_(b2).add_(p.grad, alpha=1 - b2)

    model = small_net()
    optimizer = Lion(model.parameters(), weight_decay=0.1)
    return Case(train_step(model, optimizer), batches(4), state=[model, optimizer])


@program("optimizers")
def step_hooks():
    """Hooks before and behind `step` tell the order in which they are called."""
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    log: list = []
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: log.append("before"))
    optimizer.register_step_post_hook(lambda opt, args, kwargs: log.append("behind"))
    return Case(train_step(model, optimizer), batches(), state=[model, log])


@program("optimizers")
def state_dict_round_trip():
    """State saved in one call and loaded in the next."""
    model = small_net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = train_step(model, optimizer)
    kept: dict = {}

    def train(x, y, load):
        if load:
            model.load_state_dict(kept["model"])
        loss = step(x, y)
        kept["model"] = {name: value.clone() for name, value in model.state_dict().items()}
        return loss

    calls = [(*batch, load) for batch, load in zip(batches(4), (False, False, True, True))]
    return Case(train, calls, state=[model, optimizer, kept])


@program("optimizers")
def optimizer_state_loaded():
    model = small_net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    saved: list = []
    given = batches(4)

    def between(number: int) -> None:
        if number == 2:
            saved.append(optimizer.state_dict())
            optimizer.load_state_dict(saved[0])

    return Case(train_step(model, optimizer), given, state=[model, optimizer], between=between)
