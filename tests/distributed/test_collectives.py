"""Collectives in the graph: what all processes have is what they have eagerly."""

import pytest
from collective_programs import PROGRAMS
from ranks import check

from support import same


@pytest.mark.parametrize("name", PROGRAMS)
def test_collectives(name):
    check("collective_programs", name, same, PROGRAMS[name].graphs)
