"""Programs that are stopped at each of their instructions in turn: they must do what they do eagerly."""

from __future__ import annotations

import pytest
import torch

import pellucid
from pellucid import _core
from support import same
from support.outcomes import whole_outcome

X = torch.arange(6.0).reshape(2, 3) - 1


def steps_of_first_region(f):
    first = _core.next_event()
    whole_outcome(pellucid.compile(f, backend="eager"), X.clone())
    captures = [event["numbers"] for event in _core.events(first) if event["kind"] == "capture"]
    return int(max(numbers["instructions"] for numbers in captures))


def check_again(f, want):
    """Compiles f and calls it twice; `want` is its whole outcome."""
    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        got = whole_outcome(compiled, X.clone())
        assert same(got, want), (got, want)
    return compiled


def stop_at_each_instruction(program):
    """How many regions really ended early."""
    want = whole_outcome(program, X.clone())
    steps = steps_of_first_region(program)
    stopped = 0
    for step in range(1, max(steps, 30) + 1):
        with pellucid.config.patch(force_break_at=step):
            compiled = check_again(program, want)
        stopped += bool(pellucid.break_reasons(compiled))
    return stopped


def stop_all_the_time(program, every):
    want = whole_outcome(program, X.clone())
    with pellucid.config.patch(force_break_every=every, recompile_limit=1000):
        check_again(program, want)


def stop_tests(programs):
    """Two tests of these programs: stopped at each instruction in turn, and all the time."""

    @pytest.mark.parametrize("program", programs, ids=lambda f: f.__name__)
    def at_each_instruction(program):
        assert stop_at_each_instruction(program) >= 20

    @pytest.mark.parametrize("every", [2, 3, 5, 11])
    @pytest.mark.parametrize("program", programs, ids=lambda f: f.__name__)
    def all_the_time(program, every):
        stop_all_the_time(program, every)

    return at_each_instruction, all_the_time
