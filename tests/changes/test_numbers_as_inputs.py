"""Row A19: ints and floats of the arguments become inputs of the graph when they change, one for each source."""

import math

import pytest
import torch

import pellucid
from pellucid import events
from support import same


def check(result, wanted):
    torch.testing.assert_close(result, wanted, rtol=0, atol=0, equal_nan=True)


class Watched:
    """A backend that keeps what it gets."""

    takes_numbers = True

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append((gm, list(example_inputs)))
        return gm.forward

    def numbers(self, which=-1):
        return [one for one in self.graphs[which][1] if type(one) in (int, float)]


def scaled(x, s):
    return x * s


X = torch.arange(3.0)


@pytest.mark.parametrize("values", [(1.5, 2.5, 3.5), (2, 3, 5), (0.0, -0.0, 4.5), (7, 0, 1)])
def test_A19_a_number_that_changes_takes_two_compiles(values):
    backend = Watched()
    compiled = pellucid.compile(scaled, backend=backend)
    for value in values:
        check(compiled(X, value), scaled(X, value))
    assert len(backend.graphs) == 2


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_A19_nan_and_infinity_are_constants_of_a_compile_of_their_own(special):
    backend = Watched()
    compiled = pellucid.compile(scaled, backend=backend)
    for value in (1.5, 2.5, special, 3.5, special):
        check(compiled(X, value), scaled(X, value))
    assert [backend.numbers(which) for which in range(3)] == [[], [2.5], []]
    assert len(backend.graphs) == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_A19_with_backends_by_name(backend):
    compiled = pellucid.compile(scaled, backend=backend)
    compiles = []
    with events.subscribe(lambda event: compiles.append(event) if isinstance(event, events.RegionFinished) else None):
        for value in (1.5, 2.5, 3.5):
            assert same(compiled(X, value), scaled(X, value))
    assert len(compiles) == 2


def test_A19_there_is_one_input_for_each_source():
    def f(x, s, scales):
        return x * s + scales[0] - s * scales[0]

    backend = Watched()
    compiled = pellucid.compile(f, backend=backend)
    for s, scale in ((1.5, 2.0), (2.5, 4.0), (3.5, 8.0), (3.5, 3.5)):
        assert same(compiled(X, s, [scale]), f(X, s, [scale]))
    assert len(backend.graphs) == 2
    assert len(backend.numbers(0)) == 0  # values first
    assert sorted(backend.numbers(1)) == [2.5, 4.0]  # each once, though it is used twice


def test_A19_a_number_that_stays_is_no_input():
    def f(x, s, t):
        return x * s + t

    backend = Watched()
    compiled = pellucid.compile(f, backend=backend)
    for s in (1.5, 2.5, 3.5):
        assert same(compiled(X, s, 4.25), f(X, s, 4.25))
    assert len(backend.graphs) == 2 and backend.numbers() == [2.5]


def test_A19_the_type_of_a_number_is_guarded():
    backend = Watched()
    compiled = pellucid.compile(scaled, backend=backend)
    whole = torch.arange(3)
    for value in (2, 3, 2.0, 3.0, True, 5):
        result, wanted = compiled(whole, value), scaled(whole, value)
        assert same(result, wanted) and result.dtype == wanted.dtype


def test_A19_what_the_program_decides_by_a_number_is_guarded():
    def f(x, s):
        return x * s if s > 2 else x - s

    backend = Watched()
    compiled = pellucid.compile(f, backend=backend)
    for value in (1.5, 0.5, 3.0, 4.5, 1.0, 2.0, 7.25):
        assert same(compiled(X, value), f(X, value))
    assert len(backend.graphs) <= 4
