"""Running losses, means and counts that programs keep beside the training."""

from __future__ import annotations

import collections
import math

import torch

from corpus.table import program, ramp
from support import Plain


@program(1, now=1)
def losses_appended():
    losses = []

    def f(x):
        loss = x.square().mean()
        losses.append(loss.item())
        return loss

    for i in range(10):
        yield f, ramp(4) * i


@program(1, now=2)
def running_loss():
    meter = Plain(total=0.0, count=0)

    def f(x):
        loss = x.square().mean()
        meter.total += loss.item()
        meter.count += 1
        return meter.total / meter.count

    for i in range(10):
        yield f, ramp(4) * i


@program(2, now=2)
def average_meter():
    class Meter:
        def __init__(self):
            self.value = self.total = self.average = 0.0
            self.count = 0

        def update(self, value, n=1):
            self.value = value
            self.total += value * n
            self.count += n
            self.average = self.total / self.count

    meter = Meter()

    def f(x, value, n):
        meter.update(value, n)
        return x * meter.average

    for i in range(12):
        yield f, ramp(3), 5.0 - i / 4, 3 + i % 4


@program(2, now=3)
def accuracy():
    correct = total = 0

    def f(logits, labels):
        nonlocal correct, total
        correct += int((logits.argmax(1) == labels).sum())
        total += labels.size(0)
        return correct / total

    for n in (4, 4, 4, 3, 4, 4, 2, 3):
        yield f, ramp(n, 3).sin(), torch.arange(n) % 3


@program(7, now=7, why="the window fills up over five calls, and its numbers move when it is full")
def mean_of_a_window():
    window = collections.deque(maxlen=5)

    def f(x, loss):
        window.append(loss)
        return x * (sum(window) / len(window))

    for i in range(12):
        yield f, ramp(3), 3.0 - i / 8


@program(4, now=5, why="better or not; the patience changes first at the fourth call")
def best_and_patience():
    class Early:
        def __init__(self):
            self.best, self.bad = float("inf"), 0

        def update(self, loss):
            if loss < self.best:
                self.best, self.bad = loss, 0
            else:
                self.bad += 1

    early = Early()
    early.update(100.0)

    def f(x, loss):
        early.update(loss)
        return x * early.best + early.bad

    for loss in (5.0, 4.0, 4.5, 4.25, 3.0, 3.5, 3.25, 3.75, 2.0):
        yield f, ramp(3), loss


@program(2, now=2)
def minimum_so_far():
    best = 100.0

    def f(x, loss):
        nonlocal best
        best = min(best, loss)
        return x - best

    for loss in (5.0, 4.0, 4.5, 4.25, 3.0, 3.5, 3.25, 3.75, 2.0):
        yield f, ramp(3), loss


@program(2, now=3)
def smoothed_loss():
    state = Plain(ema=4.0)

    def f(x, loss):
        state.ema = 0.9 * state.ema + 0.1 * loss
        return x / state.ema

    for i in range(12):
        yield f, ramp(3), 4.0 / (i + 1)


@program(2, now=2)
def perplexity():
    total, tokens = 0.0, 0

    def f(x, loss, n):
        nonlocal total, tokens
        total += loss * n
        tokens += n
        return x + 1, math.exp(total / tokens)

    for i in range(10):
        yield f, ramp(3), 2.0 - i / 8, 10 + i % 3


@program(2, now=2)
def throughput():
    tokens = 0

    def f(x, seconds):
        nonlocal tokens
        tokens += x.numel()
        return x * 2, tokens / seconds

    for i in range(10):
        yield f, ramp(3 + i % 4, 2), 0.5 + i * 0.75


@program(2, now=2)
def history_of_lists():
    history = {}

    def f(x, loss, rate):
        history.setdefault("loss", []).append(loss)
        history.setdefault("rate", []).append(rate)
        return x + 1

    for i in range(10):
        yield f, ramp(3), 3.0 - i / 8, 0.1 * 0.9**i


@program(8, now=8, why="how many tensors are stacked is known, and it grows")
def losses_kept_as_tensors():
    losses = []

    def f(x):
        losses.append(x.mean().detach())
        return torch.stack(losses).mean()

    for i in range(8):
        yield f, ramp(4) * i


@program(3, now=3, why="the second moment changes first at the third call")
def welford_mean_and_variance():
    state = {"n": 0, "mean": 0.0, "m2": 0.0}

    def f(x, value):
        state["n"] += 1
        delta = value - state["mean"]
        state["mean"] += delta / state["n"]
        state["m2"] += delta * (value - state["mean"])
        return x + state["mean"], state["m2"] / state["n"]

    for value in (4.0, 7.0, 13.0, 16.0, 1.0, 2.5, 8.0, 3.0, 9.5):
        yield f, ramp(3), value


@program(3, now=3, why="two parts, the first without a number")
def norm_of_a_gradient_as_a_number():
    norms = []

    def f(x, most):
        norm = x.norm().item()
        norms.append(norm)
        return x * min(1.0, most / (norm + 1e-6))

    for i in range(8):
        yield f, ramp(4) * (i + 1), 2.0 + i / 2


@program(2, now=3)
def confusion_counts():
    counts = [0, 0, 0]

    def f(x, hits, misses):
        counts[0] += hits
        counts[1] += misses
        counts[2] = counts[0] + counts[1]
        return x * (counts[0] / max(1, counts[2]))

    for i in range(10):
        yield f, ramp(3), i, 9 - i
