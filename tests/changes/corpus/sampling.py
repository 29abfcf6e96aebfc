"""Diffusion loops and other iterations whose time is a number."""

from __future__ import annotations

import itertools
import math

import torch

from corpus.table import program, ramp


@program(2, now=2)
def int_time_into_a_table():
    alphas = torch.linspace(0.9, 0.1, 12)

    def f(x, t):
        return alphas[t].sqrt() * x + (1 - alphas[t]).sqrt()

    for t in reversed(range(12)):
        yield f, ramp(3), t


@program(8, now=8, why="an index into a list is known")
def int_time_into_a_list():
    alphas = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]

    def f(x, t):
        return math.sqrt(alphas[t]) * x

    for t in reversed(range(8)):
        yield f, ramp(3), t


@program(2, now=2)
def float_time():
    def f(x, t):
        sigma = math.sin(t * math.pi / 2)
        return x * math.cos(t * math.pi / 2) + sigma

    for i in range(12):
        yield f, ramp(3), 1 - i / 12


@program(2, now=2)
def embedding_of_the_time():
    def f(x, t):
        angles = t * torch.exp(-math.log(10000.0) * torch.arange(3) / 3)
        return x + torch.cat([angles.sin(), angles.cos()])

    for t in range(990, 0, -110):
        yield f, ramp(6), t


@program(2, now=2)
def embedding_of_a_float_time():
    def f(x, t):
        angles = 1000.0 * t * torch.exp(-math.log(10000.0) * torch.arange(3) / 3)
        return x + torch.cat([angles.sin(), angles.cos()])

    for i in range(9):
        yield f, ramp(6), 1.0 - i / 9


@program(2, now=2)
def euler_steps():
    def f(x, t, following):
        return x + (following - t) * torch.tanh(x * t)

    x, times = ramp(4), [1 - i / 9 for i in range(10)]
    for t, following in itertools.pairwise(times):
        x = yield f, x, t, following


@program(2, now=2)
def karras_sigmas():
    def f(x, i, n):
        high, low = 80.0 ** (1 / 7), 0.002 ** (1 / 7)
        sigma = (high + i / (n - 1) * (low - high)) ** 7
        return x * sigma, sigma

    for i in range(10):
        yield f, ramp(3), i, 10


@program(2, now=2)
def time_for_a_batch():
    def f(x, t):
        times = torch.full((x.size(0),), t)
        return x * times[:, None] / 100

    for t in range(100, 10, -11):
        yield f, ramp(2, 3), t


@program(3, now=3, why="both sides of the branch")
def guidance_scale():
    def f(x, scale):
        conditional, free = x.sin(), x.cos()
        if scale > 1.0:
            return free + scale * (conditional - free)
        return conditional

    for scale in (7.5, 6.0, 5.0, 4.0, 3.0, 1.0, 0.5, 7.5, 2.0):
        yield f, ramp(3), scale


@program(3, now=3, why="the last step is without noise")
def no_noise_at_the_last_step():
    def f(x, noise, t):
        x = x * (1 - t / 20)
        if t > 0:
            x = x + noise * math.sqrt(t / 10)
        return x

    for t in reversed(range(10)):
        yield f, ramp(3), ramp(3).cos(), t


@program(2, now=2)
def langevin_steps():
    def f(x, sigma, last):
        step = 2e-3 * (sigma / last) ** 2
        return x + step * x.cos() + math.sqrt(2 * step)

    x = ramp(3)
    for i in range(9):
        x = yield f, x, 10.0 * 0.6**i, 0.1


@program(4, now=4, why="the loop is unrolled: one graph for each number of steps")
def whole_loop_of_changing_length():
    def f(x, steps):
        for i in range(steps):
            x = x - x * (1 / steps) + i
        return x

    for steps in (2, 3, 5, 7, 2, 3, 5, 7):
        yield f, ramp(3), steps


@program(2, now=2)
def adaptive_step():
    class Solver:
        def __init__(self):
            self.h, self.t = 0.5, 0.0

        def step(self, x, error):
            if error > 1e-2:
                self.h /= 2
                return x
            self.t += self.h
            self.h *= 1.5
            return x + self.h * x.cos()

    solver = Solver()
    for error in (1e-3, 2e-3, 5e-2, 1e-3, 4e-2, 2e-2, 3e-3, 1e-3):
        yield solver.step, ramp(3), error


@program(2, now=2)
def simulated_annealing():
    state = {"temperature": 10.0, "step": 0}

    def f(x):
        state["step"] += 1
        state["temperature"] = 10.0 / math.log(state["step"] + math.e)
        return torch.exp(-x.abs() / state["temperature"])

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=2)
def newton_iterations_with_damping():
    def f(x, damping, iteration):
        return x - (x.square() - 2) / (2 * x + 3) * (1 - damping**iteration)

    x = ramp(3)
    for i in range(1, 10):
        x = yield f, x, 0.5 + i / 100, i


@program(2, now=2)
def consistency_skip_scalings():
    def f(x, t):
        scaled = t * 10.0
        skip = 0.5**2 / (scaled**2 + 0.5**2)
        out = scaled / (scaled**2 + 0.5**2) ** 0.5
        return skip * x + out * x.tanh()

    for t in (39, 33, 27, 21, 15, 9, 3, 1):
        yield f, ramp(3), t
