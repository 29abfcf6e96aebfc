"""No graph is used for sizes that it does not fit, and none is made where one fits: sweeps at all sizes of 0..12.

What a call gives must be eager's at each size whatever the sizes before it were, so the sizes come in three orders. The
graphs allowed are those of one dimension that takes all values, and what a row adds for values that an operator treats
differently.
"""

from __future__ import annotations

import random

import pytest
from sweeps import SWEEPS

from support.sizes import assert_as_eager_with_few_graphs, errors

ALL = range(13)
ORDERS = {
    "ascending": list(ALL),
    "descending": list(reversed(ALL)),
    "shuffled": random.Random(0).sample(ALL, len(ALL)),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sweep", [s for s in SWEEPS if s.with_sizes], ids=lambda sweep: sweep.name)
def test_all_sizes(sweep, order):
    assert_as_eager_with_few_graphs(sweep.with_sizes(ORDERS[order]))


def test_eager_gives_something_for_all_sizes_but_few():
    """Sweeps that mostly raise would say little."""
    for sweep in SWEEPS:
        if sweep.with_sizes:
            raised = sum(error is not None for error in errors(sweep.with_sizes(ORDERS["ascending"])))
            assert raised <= 3, (sweep.name, raised)
