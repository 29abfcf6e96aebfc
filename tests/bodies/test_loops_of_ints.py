"""torch's while_loop that carries ints: as torch's operator outside of a graph, which goes turn after turn and gives ints."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop

import pellucid
from support import Counting

LOG: list[int] = []


def counted(x, n=3):
    return while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * 2 + i), (0, x))


def never(x):
    return while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * 2), (5, x))


def with_containers(x):
    def body(i, s):
        return i + 1, {"a": s["a"] + i, "k": s["k"] * 2}

    return while_loop(lambda i, s: i < 2, body, (0, {"a": x, "k": 3}))


def over_a_size(x):
    return while_loop(lambda i, a: i < a.shape[0], lambda i, a: (i + 1, a + i), (0, x))


def by_values(x):
    return while_loop(lambda i, a: a.sum() < 100, lambda i, a: (i + 1, a * 2 + 1), (0, x))


def many_turns(x):
    return while_loop(lambda i, a: i < 200, lambda i, a: (i + 1, a + 1), (0, x))


def gives_what_it_gets(x):
    return while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a), (0, x))


def writes(x):
    return while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a.add_(1)), (0, x))


def logs(x):
    def body(i, a):
        if i == 1:
            LOG.append(i)
        return i + 1, a + 1

    return while_loop(lambda i, a: i < 3, body, (0, x))


def tensor_for_int(x):
    return while_loop(lambda i, a: i < 2, lambda i, a: (i + x.sum(), a + 1), (0, x))


def seen(f, x):
    LOG.clear()
    x = x.clone()
    try:
        given = f(x)
    except Exception as error:
        given = type(error)
    return repr(given), LOG[:], x.tolist()


@pytest.mark.parametrize("program", [counted, never, with_containers, over_a_size])
def test_it_is_one_graph(program):
    backend = Counting()
    compiled = pellucid.compile(program, backend=backend, fullgraph=True)
    for number in range(3):
        x = torch.ones(2) + number
        assert seen(compiled, x) == seen(program, x)
    assert backend.count == 1


@pytest.mark.parametrize("program", [by_values, many_turns, gives_what_it_gets, writes, logs, tensor_for_int])
def test_what_is_no_graph_runs_as_it_is(program):
    """Torch refuses some of these itself, with an exception, and nothing has happened then."""

    def f(x):
        return program(x * 1) if program is not writes else program(x)

    backend = Counting()
    compiled = pellucid.compile(lambda x: (x.sin(), f(x)), backend=backend)
    assert seen(compiled, torch.ones(2)) == seen(lambda x: (x.sin(), f(x)), torch.ones(2))
    assert backend.count >= 1
    assert any("while_loop" in record.message for record in pellucid.break_reasons())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_its_ints_and_gradients(backend):
    compiled = pellucid.compile(counted, backend=backend, fullgraph=True)
    for n in (3, 4, 5):
        x = torch.ones(2, requires_grad=True)
        number, result = compiled(x, n)
        assert type(number) is int and number == n
        want = x
        for i in range(n):
            want = want * 2 + i
        assert torch.equal(result, want)
        assert torch.equal(torch.autograd.grad(result.sum(), x)[0], torch.full((2,), 2.0**n))
    assert pellucid.counters()["graphs"]
