"""Branches on tensors that only guard a `raise` are assertions of the graph: one graph while they hold; the program's own
exception, in the program's own order, when one does not.
"""

from __future__ import annotations

import logging

import pytest
import torch
from checking_programs import (
    asserted,
    asserted_not,
    both_raise,
    gradients_behind,
    handled,
    in_callee,
    in_place_before,
    many_elements,
    negated,
    no_check,
    random_before,
)

import pellucid
from support import Counting, CountingOf

PROGRAMS = [asserted, asserted_not, negated, in_place_before, handled, random_before, in_callee]
GOOD = torch.tensor([1.0, 2.0, 3.0])
BAD = torch.tensor([1.0, float("inf"), 100.0])


def outcome(f, x):
    x, log = x.clone(), []
    torch.manual_seed(0)
    try:
        result = f(x, log).tolist()
    except Exception as error:
        result = (type(error), error.args)
    return str(result), log, x.tolist(), x._version, torch.rand(()).item()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph_and_the_programs_own_exception(program, backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(program, backend=counting)
    for x in (GOOD, BAD, GOOD, BAD):
        assert outcome(compiled, x) == outcome(program, x)
    assert counting.count == 1


@pytest.mark.parametrize("program", [asserted, handled, in_place_before])
def test_a_first_call_that_fails_its_check(program):
    counting = Counting()
    compiled = pellucid.compile(program, backend=counting)
    for x in (BAD, GOOD, BAD):
        assert outcome(compiled, x) == outcome(program, x)
    assert counting.count == 1


def test_inductor():
    compiled = pellucid.compile(asserted, backend="inductor")
    for x in (GOOD, BAD, GOOD):
        assert outcome(compiled, x) == outcome(asserted, x)


def test_fullgraph_and_the_assertion_in_the_graph():
    counting = Counting()
    compiled = pellucid.compile(asserted_not, backend=counting, fullgraph=True)
    compiled(GOOD.clone(), [])
    targets = [node.target for node in counting.graphs[0].graph.nodes if node.op == "call_function"]
    assert targets[-2:] == [torch.logical_not, torch._assert_async]


def test_gradients_flow_past_a_check():
    x, other = GOOD.clone().requires_grad_(), GOOD.clone().requires_grad_()
    counting = CountingOf("aot_eager")
    pellucid.compile(gradients_behind, backend=counting, fullgraph=True)(x).backward()
    gradients_behind(other).backward()
    assert torch.equal(x.grad, other.grad) and counting.count == 1


def test_distributions_validate_in_one_graph(monkeypatch):
    # torch._dynamo turns it off for the whole process with its first compilation.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)

    def f(mean):
        normal = torch.distributions.Normal(mean, 1.0)
        choice = torch.distributions.Categorical(logits=mean)
        return normal.log_prob(mean + 1), choice.log_prob(choice.sample())

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    torch.manual_seed(0)
    got = compiled(GOOD)
    torch.manual_seed(0)
    assert all(torch.equal(a, b) for a, b in zip(got, f(GOOD), strict=True)) and counting.count == 1
    with pytest.raises(ValueError, match="Expected parameter loc"):
        compiled(torch.tensor([1.0, float("nan"), 1.0]))


def test_a_check_that_always_fails_becomes_a_break(caplog):
    counting = Counting()
    compiled = pellucid.compile(handled, backend=counting)
    with caplog.at_level(logging.WARNING):
        for _ in range(8):
            assert outcome(compiled, BAD) == outcome(handled, BAD)
    assert sum("run in vain" in record.message for record in caplog.records) == 1
    assert counting.count > 1


@pytest.mark.parametrize("program", [both_raise, many_elements, no_check])
def test_what_is_no_check_is_a_break(program):
    counting = Counting()
    compiled = pellucid.compile(program, backend=counting)
    assert outcome(compiled, GOOD) == outcome(program, GOOD)
    assert not any(node.target is torch._assert_async for gm in counting.graphs for node in gm.graph.nodes)
    error = RuntimeError if program is many_elements else pellucid.errors.Unsupported  # the first is eager's own
    with pytest.raises(error, match="ambiguous" if program is many_elements else "PEL0201"):
        pellucid.compile(program, backend=counting, fullgraph=True)(GOOD.clone(), [])
