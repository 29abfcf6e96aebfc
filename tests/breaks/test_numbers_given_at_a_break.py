"""What a tensor says of its values at a graph break, or a random generator draws there, is another number at the next
call: the region behind the break leaves it open at once. A draw is one step, with the state of the generator of eager."""

from __future__ import annotations

import random

import pytest
import torch

import pellucid
from support import Counting, CountingOf, same

X = torch.arange(3.0)


def both(f, calls=4):
    """(results and states of the generators of eager, those of the compiled function, the number of graphs)"""
    backend = Counting()
    found = []
    for function in (f, pellucid.compile(f, backend=backend)):
        random.seed(3)
        torch.manual_seed(3)
        found.append([(function(X + i), random.getstate()) for i in range(calls)])
    return *found, backend.count


READS = {
    "item": lambda x: x * x.sum().item(),
    "float": lambda x: x * float(x.sum()),
    "int": lambda x: x * int(x.sum()),
    "random": lambda x: x * random.random(),
    "randint": lambda x: x * random.randint(2, 50),
    "getrandbits": lambda x: x * random.getrandbits(9),
    "gauss": lambda x: x * random.gauss(0.0, 1.0),
    "uniform": lambda x: x * random.uniform(2, 3),
}


@pytest.mark.parametrize("name", READS)
def test_one_graph_behind_it(name):
    eager, compiled, graphs = both(READS[name])
    assert same(eager, compiled)
    assert graphs == 1


@pytest.mark.parametrize("read", [lambda x: x * int(x.sum()), lambda x: x * x.long().sum().item()])
def test_one_graph_behind_an_int_that_the_backend_does_not_take_of_tensors(read):
    backend = CountingOf("aot_eager")
    compiled = pellucid.compile(read, backend=backend)
    assert all(same(compiled(X + i), read(X + i)) for i in range(4))
    assert backend.count == 2  # the sum is a graph


def test_a_generator_of_the_program():
    own = random.Random(4)
    results = []
    for around in (lambda f: f, lambda f: pellucid.compile(f, backend=Counting())):
        own.seed(7)
        f = around(lambda x: x * own.betavariate(1.0, 2.0) + own.randrange(5))
        results.append([(f(X + i), own.getstate()) for i in range(3)])
    assert same(*results)


def test_two_draws_of_other_types_in_one_place():
    eager, compiled, graphs = both(lambda x: x * random.random() + random.randint(2, 50))
    assert same(eager, compiled) and graphs == 1


def test_what_the_program_decides_by():
    def f(x):
        return x + 1 if random.choice([True, False]) else x * 2

    eager, compiled, graphs = both(f, calls=8)
    assert same(eager, compiled) and graphs == 2


def test_what_needs_the_value_has_it():
    def f(x):
        rows = [x * 2, x + 1, x - 1]
        return rows[random.randrange(3)], x[: int(x[0]) % 2 + 1]

    eager, compiled, _graphs = both(f, calls=6)
    assert same(eager, compiled)


def test_shuffled_rows():
    def f(x):
        order = list(range(len(x)))
        random.shuffle(order)
        return x[order], random.sample(order, 2)

    eager, compiled, _graphs = both(f)
    assert same(eager, compiled)
