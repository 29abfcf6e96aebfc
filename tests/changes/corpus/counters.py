"""Step counters, by where the number lives."""

from __future__ import annotations

import collections
import dataclasses
import itertools

import torch

from corpus.table import Keywords, program, ramp
from support import Plain

STEP = 0
LIMITS = {"step": 0, "epoch": 0}


@program(2, now=2)
def step_as_argument():
    def f(x, step):
        return x * step, step + 1

    for step in range(12):
        yield f, ramp(3), step


@program(2, now=2)
def step_as_keyword():
    def f(x, *, step=0, scale=2.0):
        return x + step * scale

    for step in range(3, 15):
        yield f, ramp(3), Keywords(step=step)


@program(2, now=2)
def step_from_a_large_start():
    def f(x, step):
        return x + step, step

    for step in range(10**6, 10**6 + 10):
        yield f, ramp(3), step


@program(2, now=2)
def step_in_a_global():
    global STEP
    STEP = 5

    def f(x):
        global STEP
        STEP += 1
        return x + STEP

    for _ in range(12):
        yield f, ramp(3)


@program(2, now=2)
def step_in_a_global_dict():
    LIMITS.update(step=1, epoch=7)

    def f(x):
        LIMITS["step"] += 1
        return x * LIMITS["step"] + LIMITS["epoch"]

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=2)
def step_in_a_nonlocal():
    step = 10

    def f(x):
        nonlocal step
        step += 1
        return x * step

    for _ in range(12):
        yield f, ramp(3)


@program(2, now=2)
def step_in_a_cell_that_others_write():
    step = 1

    def f(x):
        return x - step

    for step in range(2, 12):
        yield f, ramp(3)


@program(2, now=2)
def step_in_a_module_attribute():
    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.step = 0

        def forward(self, x):
            self.step += 1
            return self.linear(x) * self.step

    module = Counted()
    for _ in range(12):
        yield module, ramp(2, 3)


@program(2, now=2)
def step_in_attributes_of_layers():
    class Layer(torch.nn.Module):
        def __init__(self, step):
            super().__init__()
            self.step = step

        def forward(self, x):
            self.step += 2
            return x + self.step

    model = torch.nn.Sequential(Layer(0), torch.nn.Tanh(), Layer(100))
    for _ in range(10):
        yield model, ramp(3)


@program(2, now=2)
def step_in_an_object_attribute():
    class Trainer:
        def __init__(self):
            self.step = 3

    trainer = Trainer()

    def f(x):
        trainer.step += 1
        return x / trainer.step

    for _ in range(12):
        yield f, ramp(3)


@program(2, now=3)
def step_in_a_method():
    class Trainer:
        step = 0

        def update(self, x):
            self.step += 1
            return x * self.step

    trainer = Trainer()
    for _ in range(10):
        yield trainer.update, ramp(3)


@program(2, now=2)
def step_in_a_nested_object():
    run = Plain(state=Plain(progress=Plain(step=20)))

    def f(run, x):
        run.state.progress.step += 5
        return x + run.state.progress.step

    for _ in range(10):
        yield f, run, ramp(3)


@program(2, now=2)
def step_in_a_slot():
    class Slotted:
        __slots__ = ("rate", "step")

    state = Slotted()
    state.step, state.rate = 1, 0.5

    def f(state, x):
        state.step += 1
        return x * state.rate + state.step

    for _ in range(12):
        yield f, state, ramp(3)


@program(2, now=2)
def step_in_a_class_attribute():
    class Shared:
        step = 0

    def f(x):
        Shared.step += 1
        return x + Shared.step

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=2)
def step_in_a_function_attribute():
    def f(x):
        f.calls += 1
        return x * f.calls

    f.calls = 0
    for _ in range(10):
        yield f, ramp(3)


@program(2, now=2)
def step_behind_a_property():
    class Clock:
        def __init__(self):
            self._step = 0

        @property
        def step(self):
            return self._step * 2

        @step.setter
        def step(self, value):
            self._step = value // 2

    clock = Clock()

    def f(x):
        clock.step += 2
        return x + clock.step

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=2)
def step_in_a_list_item():
    steps = [0, 100]

    def f(steps, x):
        steps[0] += 1
        steps[1] -= 1
        return x * steps[0] + steps[1]

    for _ in range(12):
        yield f, steps, ramp(3)


@program(2, now=2)
def step_in_a_dict_item():
    state = {"step": 0, "name": "sgd"}

    def f(state, x):
        state["step"] += 1
        return x * state["step"]

    for _ in range(12):
        yield f, state, ramp(3)


@program(2, now=2)
def step_in_a_default_dict_and_a_counter():
    counts, seen = collections.defaultdict(int, step=4), collections.Counter(step=9)

    def f(x):
        counts["step"] += 1
        seen["step"] += 2
        return x * counts["step"] + seen["step"]

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=2)
def step_in_a_deque():
    queue = collections.deque([1, 2, 3], maxlen=3)

    def f(x):
        queue.append(queue[0] + queue[-1])
        return x + queue[-1]

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=2)
def step_in_a_tuple_argument():
    def f(x, state):
        step, rate = state
        return x * rate, (step + 1, rate / 2)

    state = (1, 8.0)
    for _ in range(10):
        _, state = yield f, ramp(3), state


@program(2, now=2)
def step_in_a_dataclass():
    @dataclasses.dataclass
    class State:
        step: int = 0
        loss: float = 4.0

        def advance(self):
            self.step += 1
            self.loss *= 0.75

    state = State()

    def f(x):
        state.advance()
        return x * state.loss + state.step

    for _ in range(12):
        yield f, ramp(3)


@program(2, now=2)
def step_in_a_frozen_dataclass():
    @dataclasses.dataclass(frozen=True)
    class State:
        step: int
        rate: float

    def f(state, x):
        return x * state.step, State(state.step + 1, state.rate * 0.5)

    state = State(1, 1.0)
    for _ in range(10):
        _, state = yield f, state, ramp(3)


@program(2, now=2)
def step_in_a_namedtuple():
    State = collections.namedtuple("State", "step rate")

    def f(state, x):
        return x * state.rate + state.step, state._replace(step=state.step + 1)

    state = State(0, 0.5)
    for _ in range(10):
        _, state = yield f, state, ramp(3)


@program(2, now=2)
def step_of_itertools_count():
    numbers = itertools.count(5, 3)

    def f(x):
        return x * next(numbers)

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=8)
def step_of_a_generator():
    def steps():
        step = 1
        while True:
            yield step
            step += 1

    numbers = steps()
    next(numbers)

    def f(x):
        return x * next(numbers)

    for _ in range(10):
        yield f, ramp(3)


@program(2, now=2)
def step_that_counts_down():
    budget = Plain(left=20)

    def f(x, cost):
        budget.left -= cost
        return x * budget.left, budget.left

    for cost in (1, 2, 3, 1, 2, 3, 4, 5):
        yield f, ramp(3), cost


@program(2, now=2)
def step_that_wraps_around():
    state = {"slot": 0}

    def f(x):
        state["slot"] = (state["slot"] + 1) % 5
        return x + state["slot"]

    for _ in range(14):
        yield f, ramp(3)


@program(2, now=2)
def step_that_only_counts_and_is_used_nowhere():
    stats = {"calls": 0}

    def f(x):
        stats["calls"] += 1
        return x.sin()

    for _ in range(14):
        yield f, ramp(3)


@program(5, now=5, why="both sides of the branch, and the epoch changes first at the fifth call")
def step_and_epoch_at_different_paces():
    progress = Plain(step=0, epoch=0)

    def f(x):
        progress.step += 1
        if progress.step - progress.epoch * 4 >= 4:
            progress.epoch += 1
        return x * progress.step + progress.epoch

    for _ in range(14):
        yield f, ramp(3)


@program(2, now=2)
def step_of_a_norm_that_counts_batches():
    norm = torch.nn.BatchNorm1d(3)
    seen = {"batches": 0}

    def f(x):
        seen["batches"] += 1
        return norm(x) / seen["batches"]

    for i in range(8):
        yield f, ramp(4, 3) * (i + 1)
