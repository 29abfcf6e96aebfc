"""Sixteen threads over sizes and numbers that change: results beside eager, and no more compiles than one thread makes."""

from __future__ import annotations

import random
import sys
import threading
import time

import pytest
import torch

import pellucid
from support import Counting, same
from support.threads import run_threads

THREADS = 16
pytestmark = pytest.mark.usefixtures("quick_switches")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x, scale=2):
        y = self.last(torch.relu(self.first(x)))
        return y * scale + x.shape[0]


def mixed(x, n, word):
    y = x * n if n % 2 else x - n
    return y.sum(0), x.shape[0] + n, word + str(len(word))


def with_break(x, n):
    y = x * 2
    sys.stdout.write("")
    return y + n, y.shape


def work_of(i, count=200):
    """(size, number) of each call of one thread."""
    chosen = random.Random(i)
    return [(chosen.randint(1, 40), chosen.randint(1, 50)) for _ in range(count)]


@pytest.mark.parametrize("dynamic", [None, True])
def test_one_function(dynamic, counting):
    compiled = pellucid.compile(mixed, backend=counting, dynamic=dynamic)

    def work(i):
        for size, n in work_of(i):
            x = torch.full((size, 3), float(i))
            assert same(compiled(x, n, "ab"), mixed(x, n, "ab"))

    run_threads(THREADS, work)
    # Sizes of 1 or not, numbers odd or even: values, then what changed is open. Calls that race compile nothing twice.
    assert 1 <= counting.count <= 8
    assert len(pellucid.cache_entries(compiled)) <= 5
    counts = []
    for _ in range(2):  # what only ran eagerly, beside another thread's compile, is compiled the first time
        for size, n in work_of(0):
            x = torch.ones(size, 3)
            assert same(compiled(x, n, "ab"), mixed(x, n, "ab"))
        counts.append(counting.count)
    assert counts[0] == counts[1] <= 8


def test_one_module(counting):
    net = Net()
    compiled = pellucid.compile(net, backend=counting)

    def work(i):
        for size, n in work_of(i):
            x = torch.full((size, 4), 0.5 * i)
            assert same(compiled(x, n), net(x, n))

    run_threads(THREADS, work)
    assert 1 <= counting.count <= 6


def test_training(counting):
    net = Net()
    compiled = pellucid.compile(net, backend=counting)
    parameters = list(net.parameters())

    def work(i):
        for size, n in work_of(i, 20):
            x = torch.full((size + 1, 4), 0.5 * i, requires_grad=True)
            got, want = compiled(x, n), net(x, n)
            assert same(got, want)
            for a, b in zip(*(torch.autograd.grad(y.sum(), [x, *parameters]) for y in (got, want)), strict=True):
                assert torch.equal(a, b)

    run_threads(THREADS, work)
    assert 1 <= counting.count <= 4


def test_across_a_break(counting):
    compiled = pellucid.compile(with_break, backend=counting)

    def work(i):
        for size, n in work_of(i):
            x = torch.full((size,), float(i))
            assert same(compiled(x, n), with_break(x, n))

    run_threads(THREADS, work)
    assert 2 <= counting.count <= 10


def test_their_own_functions():
    """Captures of different functions happen side by side."""
    made = [Counting() for _ in range(THREADS)]

    def work(i):
        compiled = pellucid.compile(lambda x, n: mixed(x, n + i, "c"), backend=made[i])
        for size, n in work_of(i):
            x = torch.full((size, 3), float(i))
            assert same(compiled(x, n), mixed(x, n + i, "c"))

    run_threads(THREADS, work)
    assert all(1 <= counting.count <= 8 for counting in made)


def test_captures_overlap():
    """While a backend is at work on one thread, others capture and run what is theirs."""
    inside = threading.Barrier(4)

    def backend(gm, inputs):
        inside.wait(30)  # breaks unless four compiles are under way at once
        return gm.forward

    functions = [lambda x: x + 0, lambda x: x + 1, lambda x: x + 2, lambda x: x + 3]
    compiled = [pellucid.compile(f, backend=backend, dynamic=False) for f in functions]

    def work(i):
        x = torch.ones(3)
        assert same(compiled[i](x), functions[i](x))

    run_threads(4, work)


def test_a_race_compiles_once():
    """Threads that miss while another one compiles run eagerly, and take what it has made from then on."""
    made = []

    def backend(gm, inputs):
        made.append(gm)
        time.sleep(0.2)  # lets the others come
        return gm.forward

    compiled = pellucid.compile(lambda x: x * 2 + 1, backend=backend, dynamic=False)

    def work(i):
        x = torch.ones(5)
        for _ in range(5):
            assert same(compiled(x), x * 2 + 1)

    run_threads(THREADS, work)
    assert len(made) == 1


def test_the_limit_is_reached_by_all(counting, caplog, monkeypatch):
    monkeypatch.setattr(pellucid.config, "recompile_limit", 4)  # for all threads
    monkeypatch.setattr(pellucid.config, "recompile_patience", 3)
    compiled = pellucid.compile(lambda x, word: x + len(word), backend=counting)

    def work(i):
        for k in range(40):
            word = "w" * ((i + k) % 12)
            assert same(compiled(torch.ones(2), word), torch.ones(2) + len(word))

    run_threads(THREADS, work)
    assert 4 <= counting.count <= 30 and len(pellucid.cache_entries(compiled)) == 4
    told = sum("recompile_limit (4)" in record.getMessage() for record in caplog.records)
    assert (told, counting.count <= 30) == (1, True)


def test_resets_and_stances_meanwhile(counting):
    compiled = pellucid.compile(mixed, backend=counting)

    def work(i):
        for k, (size, n) in enumerate(work_of(i, 30)):
            if i == 0 and k % 5 == 0:
                pellucid.reset()
            if i == 1 and k % 5 == 0:
                pellucid.set_stance(("force_eager", "eager_on_recompile", "eager_then_compile")[k // 5 % 3])
            if i == 1 and k % 5 == 2:
                pellucid.set_stance("default")
            x = torch.full((size, 3), float(i))
            assert same(compiled(x, n, "ab"), mixed(x, n, "ab"))

    try:
        run_threads(THREADS, work)
    finally:
        pellucid.set_stance("default")
