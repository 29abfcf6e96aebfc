"""Small programs over many sizes: at each call all that can be seen is eager's, and the calls make few graphs.

A sweep's row says how many: `sweeps/table.py` has the rules. `tests/changes/corpus_report.py --sizes` shows what is made,
also by torch._dynamo.
"""

from __future__ import annotations

import pytest
from sweeps import SWEEPS

from support.calls import run
from support.sizes import assert_as_eager_with_few_graphs, errors


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.name)
def test_sweep(sweep):
    assert_as_eager_with_few_graphs(sweep)


def test_the_table_is_honest():
    names = [sweep.name for sweep in SWEEPS]
    assert len(set(names)) == len(names) >= 250
    assert sum(sweep.with_sizes is not None for sweep in SWEEPS) >= 40
    for sweep in SWEEPS:
        assert bool(sweep.why) or sweep.target <= 4, sweep.name
        pictures = run(sweep, lambda f: f)
        assert len({str(picture) for picture in pictures}) > 2, sweep.name
        raised = sum(error is not None for error in errors(sweep))
        assert raised <= 2 or "raise" in sweep.why, (sweep.name, raised)
