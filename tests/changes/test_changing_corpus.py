"""Programs in which numbers and sizes change between the calls: all that can be seen is eager's, the graphs are counted.

`now` in a program's row is how many graphs it may make. It is a limit that is only lowered, down to the row's target;
`python tests/changes/corpus_report.py` shows both, and what a run makes.
"""

from __future__ import annotations

import pytest
from corpus import PROGRAMS, run

import pellucid


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
