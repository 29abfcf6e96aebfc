"""Builtins at their edges: refusals in CPython's words, what they ask their arguments for, conversions, comparisons."""

from __future__ import annotations

import inspect
import re
import warnings

import builtin_programs
import pytest
import torch
from builtin_programs import err
from runtime_common import Counting

import pellucid

PROGRAMS = [
    value for value in vars(builtin_programs).values() if inspect.isfunction(value) and value.__name__.startswith("on_")
]


def told(values) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", repr(values))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program):
    def f(x):
        x = x + 1
        try:
            values = program()
        except Exception as error:
            values = type(error), str(error)
        return x * 2, values

    compiled = pellucid.compile(f, backend=Counting())
    for _ in range(2):
        x, values = compiled(torch.ones(2))
        assert torch.equal(x, torch.full((2,), 4.0))
        assert told(values) == told(f(torch.ones(2))[1])


def test_most_of_them_are_captured():
    one_graph = 0
    for program in PROGRAMS:
        backend = Counting()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = pellucid.compile(lambda x, program=program: (x + 1, err(program))[0] * 2, backend=backend)
            compiled(torch.ones(2))
        one_graph += backend.count == 1
    assert one_graph > len(PROGRAMS) / 2
