import os
import sys
from pathlib import Path

import pytest

import pellucid
from support import Counting, emitted, forced_breaks
from support.graphs import Recording

# Programs that tests start import the same pellucid as the tests themselves.
home = str(Path(pellucid.__file__).parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])


def pytest_addoption(parser):
    group = parser.getgroup("pellucid")
    group.addoption("--force-break-every", default="", help="numbers: tests/support/forced_breaks.py")
    group.addoption("--check-emitted", action="store_true", help="regions and their texts: tests/support/emitted.py")
    group.addoption("--force-break-report", help="a file for what that finds, a JSON object per line")


def pytest_configure(config):
    if config.getoption("force_break_every"):
        forced_breaks.begin(config)
    if config.getoption("check_emitted"):
        emitted.begin(config)


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


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def continued():
    """Capture goes on behind a graph break."""
    with pellucid.config.patch(continue_after_break=True):
        yield


@pytest.fixture(params=[False, True], ids=["whole", "continued"])
def either_mode(request):
    with pellucid.config.patch(continue_after_break=request.param):
        yield request.param


@pytest.fixture
def quick_switches():
    """Threads take turns a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
