"""Steps of training, with the numbers that optimizers and loops keep."""

from __future__ import annotations

import torch

from corpus.table import program, ramp
from support import Plain


@program(3, now=3, why="two parts, the first without a number")
def sgd():
    weight = ramp(3, 2).sin().requires_grad_()

    def f(x, lr):
        loss = (x @ weight).square().mean()
        (grad,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight.sub_(lr * grad)
        return loss.detach()

    for i in range(9):
        yield f, ramp(4, 3), 0.1 * 0.8**i


@program(2, now=2)
def update_with_momentum_that_warms_up():
    weight, velocity = ramp(3), torch.zeros(3)

    def f(grad, lr, momentum):
        velocity.mul_(momentum).add_(grad)
        weight.sub_(velocity, alpha=lr)
        return weight.norm()

    for i in range(9):
        yield f, ramp(3).cos(), 0.1 / (i + 1), 0.5 + i / 20


@program(2, now=2)
def adam_with_its_step_in_a_dict():
    weight = ramp(3)
    state = {"step": 0, "m": torch.zeros(3), "v": torch.zeros(3)}

    def f(grad):
        state["step"] += 1
        state["m"].lerp_(grad, 0.1)
        state["v"].mul_(0.999).addcmul_(grad, grad, value=0.001)
        fix1, fix2 = 1 - 0.9 ** state["step"], 1 - 0.999 ** state["step"]
        weight.addcdiv_(state["m"], (state["v"] / fix2).sqrt() + 1e-8, value=-0.01 / fix1)
        return weight * 1

    for i in range(10):
        yield f, ramp(3) * i


@program(2, now=2)
def optimizer_object_with_groups():
    class Optimizer:
        def __init__(self, params, lr):
            self.groups = [{"params": params, "lr": lr, "weight_decay": 0.01, "updates": 0}]

        def step(self, grads):
            for group in self.groups:
                group["updates"] += 1
                for p, grad in zip(group["params"], grads):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(grad, alpha=-group["lr"])
            return self.groups[0]["params"][0].sum()

    optimizer = Optimizer([ramp(3), ramp(2, 2)], 0.1)
    for _ in range(10):
        yield optimizer.step, [ramp(3).cos(), ramp(2, 2).sin()]
        optimizer.groups[0]["lr"] *= 0.9


@program(3, now=4, why="the loss and the update")
def sgd_of_torch():
    weight = torch.nn.Parameter(ramp(3))
    optimizer = torch.optim.SGD([weight], lr=0.1, foreach=False)

    def f(x):
        return (weight * x).square().sum()

    def update():
        optimizer.step()
        return weight * 1

    for _ in range(6):
        loss = yield f, ramp(3)
        loss.backward()
        loss = None
        yield (update,)
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] *= 0.5


@program(3, now=3, why="every fourth call makes the update")
def accumulated_gradients():
    weight, total = ramp(3), torch.zeros(3)

    def f(grad, i):
        total.add_(grad / 4)
        if (i + 1) % 4 == 0:
            weight.sub_(total)
            total.zero_()
        return weight * 1

    for i in range(12):
        yield f, ramp(3).cos() * i, i


@program(4, now=4, why="every third call makes the update, and the count of these changes at the second")
def accumulated_gradients_with_a_counter():
    class Trainer:
        def __init__(self):
            self.seen, self.updates, self.total = 0, 0, torch.zeros(3)

        def feed(self, grad):
            self.total = self.total + grad
            self.seen += 1
            if self.seen == 3:
                out, self.seen, self.total = self.total / 3, 0, torch.zeros(3)
                self.updates += 1
                return out
            return None

    trainer = Trainer()
    for i in range(12):
        yield trainer.feed, ramp(3) * i


@program(5, now=5, why="the scale shrinks, or it is kept; it changes first at the fourth call")
def loss_scale():
    scaler = Plain(scale=1024.0, good=0)

    def f(x, overflow):
        loss = x.square().mean() * scaler.scale
        if overflow:
            scaler.scale, scaler.good = scaler.scale / 2, 0
        else:
            scaler.good += 1
        return loss

    for i in range(10):
        yield f, ramp(4), i % 3 == 2


@program(2, now=2)
def loss_scaled_and_unscaled():
    weight = ramp(3).requires_grad_()

    def f(x, scale):
        loss = (weight * x).square().mean() * scale
        return loss, loss.detach() / scale

    for i in range(8):
        loss, _ = yield f, ramp(3), 2.0 ** (10 - i)
        loss.backward()
        loss = _ = None


@program(2, now=2)
def clipped_gradients():
    def f(grad, most):
        scale = (most / (grad.norm() + 1e-6)).clamp(max=1.0)
        return grad * scale, grad.clamp(-most, most)

    for i in range(9):
        yield f, ramp(5), 2.0 - i / 8


@program(2, now=2)
def averaged_parameters():
    weight, average = ramp(3), ramp(3)
    state = Plain(n=0)

    def f(grad, lr):
        weight.sub_(grad * lr)
        state.n += 1
        average.add_((weight - average) / state.n)
        return average * 1

    for i in range(9):
        yield f, ramp(3).cos() * i, 0.1 / (i + 1)


@program(2, now=2)
def smoothed_labels():
    def f(logits, labels, smoothing):
        return torch.nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing)

    for i in range(1, 9):
        yield f, ramp(4, 3), torch.tensor([0, 1, 2, 1]), i / 20


@program(3, now=3, why="the last batch is smaller first at the fourth call")
def loss_with_a_last_batch_that_is_smaller():
    model = torch.nn.Linear(3, 2)
    totals = Plain(seen=0)

    def f(x, y):
        totals.seen += len(x)
        return torch.nn.functional.mse_loss(model(x), y) * (len(x) / totals.seen)

    for n in (8, 8, 8, 5, 8, 8, 8, 5):
        yield f, ramp(n, 3), ramp(n, 2).cos()


@program(3, now=3, why="the epoch changes first at the fifth call")
def epochs_and_batches():
    def f(x, epoch, batch, batches):
        progress = epoch + batch / batches
        return x * progress, progress

    for epoch in range(3):
        for batch in range(4):
            yield f, ramp(3), epoch, batch, 4


@program(2, now=2)
def penalty_with_a_growing_weight():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))

    def f(x, weight):
        penalty = sum(p.square().sum() for p in model.parameters())
        return model(x).mean() + weight * penalty

    for i in range(8):
        loss = yield f, ramp(2, 3), i / 100
        loss.backward()
        loss = None


@program(2, now=2)
def dropout_probability_in_eval_mode():
    def f(x, p, training=False):
        return torch.nn.functional.dropout(x, p, training) + 1

    for i in range(9):
        yield f, ramp(4), i / 10


@program(2, now=2)
def drop_path_by_depth():
    class Drop(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.p = 0.0

        def forward(self, x):
            keep = 1 - self.p
            return x * keep if not self.training else x

    drop = Drop().eval()
    for i in range(9):
        drop.p = i / 20
        yield drop, ramp(3)


@program(2, now=2)
def curriculum_of_lengths():
    def f(x, difficulty):
        n = max(2, int(x.size(1) * difficulty))
        return x[:, :n].mean(1)

    for i in range(1, 10):
        yield f, ramp(2, 12), i / 10


@program(2, now=2)
def beta_of_a_variational_loss():
    schedule = Plain(beta=0.1, growth=1.25)

    def f(mean, log_variance):
        schedule.beta *= schedule.growth
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return schedule.beta * divergence

    for i in range(9):
        yield f, ramp(3) * i, ramp(3).sin()
