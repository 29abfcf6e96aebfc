"""Learning rates, decays and other numbers that a schedule gives."""

from __future__ import annotations

import math
import time

import torch

from corpus.table import program, ramp
from support import Plain


@program(2, now=2)
def rate_as_argument():
    def f(x, lr):
        return x - lr * x.cos()

    for lr in (0.1, 0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 0.0005, 0.0001, 0.1):
        yield f, ramp(3), lr


@program(2, now=2)
def rate_that_is_an_int_at_first():
    def f(x, lr):
        return x - lr * x, lr

    for lr in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10):
        yield f, ramp(3), lr


@program(2, now=2)
def linear_decay():
    def f(x, step, total):
        lr = 0.5 * (1 - step / total)
        return x - lr * x, lr

    for step in range(12):
        yield f, ramp(3), step, 12


@program(2, now=2)
def cosine_schedule():
    def f(x, step):
        lr = 0.5 * 0.1 * (1 + math.cos(math.pi * step / 12))
        return x * lr, lr

    for step in range(12):
        yield f, ramp(3), step


@program(2, now=2)
def exponential_decay():
    def f(x, epoch):
        lr = 0.1 * 0.95**epoch
        return x * lr, lr

    for epoch in range(12):
        yield f, ramp(3), epoch


@program(2, now=2)
def warm_up_by_min():
    def f(x, step):
        return x * (0.1 * min(1.0, (step + 1) / 5))

    for step in range(10):
        yield f, ramp(3), step


@program(2, now=2)
def warm_up_and_decay_by_min_and_max():
    def f(x, step):
        lr = max(0.01, min((step + 1) / 4, 1 - step / 16))
        return x * lr, lr

    for step in range(14):
        yield f, ramp(3), step


@program(2, now=2)
def step_decay():
    def f(x, epoch):
        return x * (0.1 * 0.5 ** (epoch // 3))

    for epoch in range(12):
        yield f, ramp(3), epoch


@program(2, now=2)
def inverse_square_root():
    def f(x, step):
        return x * (64**-0.5 * min(step**-0.5, step * 4**-1.5))

    for step in range(1, 12):
        yield f, ramp(3), step


@program(2, now=2)
def polynomial_decay():
    def f(x, step):
        left = max(0.0, 1 - step / 8)
        return x * left**1.5, left

    for step in range(11):
        yield f, ramp(3), step


@program(3, now=3, why="both sides of the branch")
def one_cycle():
    def f(x, step):
        if step < 5:
            lr = 0.1 + 0.2 * step / 5
        else:
            lr = 0.3 - 0.2 * (step - 5) / 5
        return x * lr

    for step in range(11):
        yield f, ramp(3), step


@program(2, now=3)
def triangular_cycle():
    def f(x, step):
        cycle = math.floor(1 + step / 8)
        lr = 0.01 + 0.1 * max(0, 1 - abs(step / 4 - 2 * cycle + 1))
        return x * lr, lr

    for step in range(14):
        yield f, ramp(3), step


@program(4, now=4, why="a graph for each number of milestones passed, and the first")
def milestones():
    def f(x, epoch):
        passed = sum(1 for milestone in (3, 7) if epoch >= milestone)
        return x * 0.1**passed

    for epoch in range(11):
        yield f, ramp(3), epoch


@program(5, now=5, why="the loss is better, or it is not; the rate changes first at the fourth call")
def reduce_on_plateau():
    class Plateau:
        def __init__(self):
            self.best, self.rate = 10.0, 1.0

        def step(self, loss):
            if loss < self.best:
                self.best = loss
            else:
                self.rate *= 0.5
            return self.rate

    plateau = Plateau()

    def f(x, loss):
        return x * plateau.step(loss)

    for loss in (9.0, 8.0, 8.5, 7.0, 7.25, 6.0, 6.5, 5.0, 5.5, 4.0):
        yield f, ramp(3), loss


@program(2, now=2)
def rate_in_a_parameter_group():
    groups = [{"params": [ramp(3)], "lr": 0.5}, {"params": [ramp(2)], "lr": 0.25}]

    def f():
        for group in groups:
            for p in group["params"]:
                p.mul_(1 - group["lr"])
        return groups[0]["params"][0] + 1

    for _ in range(10):
        yield (f,)
        for group in groups:
            group["lr"] *= 0.9


@program(2, now=2)
def scheduler_object():
    class Scheduler:
        def __init__(self, rates):
            self.rates, self.last_epoch = rates, 0

        def step(self):
            self.last_epoch += 1

        def current(self):
            return [rate * 0.9**self.last_epoch for rate in self.rates]

    scheduler = Scheduler([0.1, 0.2])

    def f(x):
        a, b = scheduler.current()
        scheduler.step()
        return x * a + b

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=2)
def ema_with_a_growing_decay():
    shadow = ramp(3)

    def f(x, step):
        decay = min(0.999, (1 + step) / (10 + step))
        shadow.mul_(decay).add_(x, alpha=1 - decay)
        return shadow.clone()

    for step in range(10):
        yield f, ramp(3) * step, step


@program(2, now=2)
def bias_correction():
    def f(m, v, step):
        return m / (1 - 0.9**step) / (math.sqrt(1 - 0.999**step) + v)

    for step in range(1, 12):
        yield f, ramp(3), ramp(3).abs(), step


@program(2, now=2)
def temperature_that_falls():
    def f(x, tau):
        return torch.softmax(x / tau, -1)

    for i in range(10):
        yield f, ramp(5), max(0.1, math.exp(-0.3 * i))


@program(2, now=2)
def annealed_weight_of_a_loss():
    def f(x, step):
        weight = 1 / (1 + math.exp(-(step - 5) / 2))
        return (x.square().mean() + weight * x.abs().mean()), weight

    for step in range(11):
        yield f, ramp(6), step


@program(2, now=2)
def teacher_forcing_ratio():
    sampler = Plain(ratio=1.0)

    def f(x, y):
        sampler.ratio = sampler.ratio * 0.9
        return sampler.ratio * x + (1 - sampler.ratio) * y

    for _ in range(10):
        yield f, ramp(3), ramp(3).cos()


@program(3, now=3, why="both sides of the branch")
def rate_below_a_floor():
    def f(x, lr):
        if lr < 1e-3:
            return x.clone()
        return x - lr * x

    for i in range(8):
        yield f, ramp(3), 10.0**-i


@program(2, now=2)
def timings_given():
    def f(x, start, now):
        elapsed = now - start
        return x * 2, x.numel() / elapsed, elapsed

    for i in range(10):
        yield f, ramp(4), 100.0 + i * 1.5, 100.5 + i * 1.75


@program(1, now=1)
def timings_taken():
    def f(x):
        start = time.perf_counter()
        y = x.sin()
        elapsed = time.perf_counter() - start
        return y, elapsed >= 0, f"{elapsed:.0f} s"

    for _ in range(10):
        yield f, ramp(4)


@program(2, now=2)
def time_of_the_last_call():
    watch = Plain(last=0.0, longest=0.0)

    def f(x, now):
        watch.longest = max(watch.longest, now - watch.last)
        watch.last = now
        return x + 1

    for now in (0.5, 1.25, 3.5, 4.0, 4.5, 9.25, 9.5, 10.0, 30.0):
        yield f, ramp(3), now
