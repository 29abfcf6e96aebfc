"""What tests of sizes share: one program eagerly and compiled, with the graphs that are made counted."""

from __future__ import annotations

import contextlib

import torch
import torch._dynamo

import pellucid
from support import Counting
from support.calls import Program, run

ENTRIES = 100
"""More than any program makes: a call that is beyond the limit would run eagerly, and be right for that reason."""


@contextlib.contextmanager
def many_entries():
    """Neither compiler gives up a function for its number of entries."""
    limits = torch._dynamo.config.patch(recompile_limit=ENTRIES, accumulated_recompile_limit=ENTRIES * 10)
    with pellucid.config.patch(recompile_limit=ENTRIES), limits:
        yield


def assert_as_eager_with_few_graphs(program: Program, at_least: int = 1) -> None:
    """All that can be seen of each call, and at the end the number of graphs: what is wrong fails before what is slow."""
    counting = Counting()
    want = run(program, lambda f: f)
    with many_entries():
        got = run(program, lambda f: pellucid.compile(f, backend=counting))
    for number, (eager, ours) in enumerate(zip(want, got, strict=True)):
        assert ours == eager, (program.name, f"call {number} is not as eager")
    assert at_least <= counting.count, (program.name, "nothing was captured")
    assert counting.count <= program.target, f"{program.name}: {counting.count} graphs, at most {program.target}"


def errors(program) -> list:
    """What each call raises, eagerly."""
    found = []

    def keep_errors(f):
        def called(*args, **kwargs):
            try:
                result = f(*args, **kwargs)
            except Exception as error:
                found.append(error)
                raise
            found.append(None)
            return result

        return called

    run(program, keep_errors)
    return found
