"""Distributed tensors are inputs, nodes and outputs of graphs: values, placements and gradients are those of eager, in one graph."""

import pytest
from dtensor_programs import PROGRAMS
from ranks import check

from support import nearly_same, same


@pytest.mark.parametrize("name", PROGRAMS)
def test_distributed_tensors(name):
    # Gradients of compilers come of other operators.
    check(
        "dtensor_programs",
        name,
        same if "gradients" not in name and "parallel" not in name else nearly_same,
        PROGRAMS[name].graphs,
    )
