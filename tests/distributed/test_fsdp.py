"""FSDP2: losses, gradients and parameters of all steps are those of eager, in as many graphs as torch.compile makes."""

import pytest
from fsdp_programs import PROGRAMS
from ranks import check

from support import same


@pytest.mark.parametrize("name", PROGRAMS)
def test_fully_shard(name):
    check("fsdp_programs", name, same, PROGRAMS[name].graphs)
