"""Runs the C++ unit tests (tests/unit), each as a test of its own."""

import pytest

from support.unit import UNIT


def test_they_are_built():
    assert UNIT is not None and len(UNIT.names()) >= 20, "build the target pellucid_unit first: make build"


@pytest.mark.parametrize("name", UNIT.names() if UNIT else [])
def test_cpp(name, capfd):
    failed = UNIT.run(name)
    assert failed == 0, capfd.readouterr().out
