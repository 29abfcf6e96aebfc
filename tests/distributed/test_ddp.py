"""DistributedDataParallel in both orders: gradients, buffers and parameters of all steps are those of eager, in one graph."""

import pytest
from ddp_programs import PROGRAMS
from ranks import check

from support import same


@pytest.mark.parametrize("name", PROGRAMS)
def test_ddp(name):
    check("ddp_programs", name, same, PROGRAMS[name].graphs)
