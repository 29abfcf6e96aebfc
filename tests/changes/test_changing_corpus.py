"""Programs in which numbers and sizes change between the calls: all that can be seen is eager's, the graphs are counted.

`now` in a program's row is how many graphs it may make. It is a limit that is only lowered, down to the row's target;
`python tests/changes/corpus_report.py` shows both, and what a run makes.
"""

from __future__ import annotations

import pytest
import torch
from corpus import PROGRAMS, run

import pellucid


@pytest.fixture(autouse=True)
def optimizers_as_they_are(monkeypatch):
    """torch.compile, where a test before has used it, disables parts of torch.optim for the rest of the process."""
    for optimizer in vars(torch.optim).values():
        disabled = getattr(optimizer, "_init_group", None)
        original = getattr(disabled, "_torchdynamo_orig_callable", None)
        if original is not None:
            monkeypatch.setattr(optimizer, "_init_group", original)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_program(program, counting):
    want = run(program, lambda f: f)
    got = run(program, lambda f: pellucid.compile(f, backend=counting))
    for number, (eager, ours) in enumerate(zip(want, got, strict=True)):
        assert ours == eager, (program.name, number)
    assert 1 <= counting.count <= program.now


def test_the_table_is_honest():
    names = [program.name for program in PROGRAMS]
    assert len(set(names)) == len(names) >= 120
    for program in PROGRAMS:
        assert 1 <= program.target <= program.now, program.name
        assert bool(program.why) == (program.target > 2), program.name
        assert len(run(program, lambda f: f)) > 6, program.name
