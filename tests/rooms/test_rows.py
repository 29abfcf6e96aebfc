"""The rows of callables with a rule: each names an object of this installation, and no object has two."""

from pellucid import _core


def test_every_row_names_one_object_that_no_other_row_names():
    assert _core._rows.faults() == []
