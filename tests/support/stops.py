"""Programs that are stopped at each of their instructions in turn: they must do what they do eagerly."""

from __future__ import annotations

import io
import traceback
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import _core
from support import Counting, same

X = torch.arange(6.0).reshape(2, 3) - 1


TESTS = Path(__file__).resolve().parent.parent


def told(error, depth=0):
    """All that can be compared of an exception, with its context and its frames in the tests."""
    if error is None or depth > 4:
        return None
    frames = [s for s in traceback.extract_tb(error.__traceback__) if TESTS in Path(s.filename).parents]
    places = [(s.name, s.lineno, s.colno, s.end_colno) for s in frames if s.filename != __file__]
    causes = told(error.__cause__, depth + 1), told(error.__context__, depth + 1)
    return type(error), error.args, places, error.__suppress_context__, *causes


def whole_outcome(f, *args):
    """The value or the exception as `told`, and what is printed."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        try:
            value = f(*args)
        except Exception as error:  # compared as a whole
            value = told(error)
    return value, printed.getvalue()


def assert_as_eager_each_time(f, make_args, calls=3):
    """Calls f eagerly and compiled, each with arguments of its own; the compiled function and the number of graphs."""
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(calls):
        want, got = whole_outcome(f, *make_args()), whole_outcome(compiled, *make_args())
        assert same(got, want), (got, want)
    return compiled, backend.count


def outcome(f, original=None):
    """What a call gives: value or whole traceback, and what it prints."""
    file = (original or f).__code__.co_filename
    printed = io.StringIO()
    with redirect_stdout(printed):
        try:
            value = ("value", f(X.clone()))
        except Exception as error:  # compared as a whole
            frames = traceback.extract_tb(error.__traceback__)
            mine = [(s.name, s.lineno, s.colno, s.end_colno) for s in frames if s.filename == file][1:]
            value = ("raised", type(error), error.args, type(error.__cause__), type(error.__context__), mine)
    return value, printed.getvalue()


def steps_of_first_region(f):
    first = _core.next_event()
    outcome(pellucid.compile(f, backend="eager"), f)
    captures = [event["numbers"] for event in _core.events(first) if event["kind"] == "capture"]
    return int(max(numbers["instructions"] for numbers in captures))


def check(f, want):
    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        value, printed = outcome(compiled, f)
        assert printed == want[1]
        assert len(value) == len(want[0]) and all(map(same, value, want[0])), (value, want[0])
    return compiled


def stop_at_each_instruction(program):
    """How many regions really ended early."""
    want = outcome(program)
    steps = steps_of_first_region(program)
    stopped = 0
    for step in range(1, max(steps, 30) + 1):
        with pellucid.config.patch(force_break_at=step):
            compiled = check(program, want)
        stopped += bool(pellucid.break_reasons(compiled))
    return stopped


def stop_all_the_time(program, every):
    want = outcome(program)
    with pellucid.config.patch(force_break_every=every, recompile_limit=1000):
        check(program, want)


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
