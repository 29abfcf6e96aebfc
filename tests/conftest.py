import os
from pathlib import Path

import forced_breaks
import pytest
from runtime_common import Counting

import pellucid

# Programs that tests start import the same pellucid as the tests themselves.
home = str(Path(pellucid.__file__).parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])


def pytest_addoption(parser):
    group = parser.getgroup("pellucid")
    group.addoption("--force-break-every", default="", help="numbers: tests/forced_breaks.py")
    group.addoption("--force-break-report", help="a file for what that finds, a JSON object per line")


def pytest_configure(config):
    if config.getoption("force_break_every"):
        forced_breaks.begin(config)


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
