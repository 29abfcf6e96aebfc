import os
from pathlib import Path

import pytest
from runtime_common import Counting

import pellucid

# Programs that tests start import the same pellucid as the tests themselves.
home = str(Path(pellucid.__file__).parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.fixture(autouse=True)
def fresh():
    """Nothing compiled before and after."""
    pellucid.reset()
    pellucid.counters.clear()
    yield
    pellucid.reset()


@pytest.fixture
def counting() -> Counting:
    return Counting()
