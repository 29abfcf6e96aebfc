"""The stream of events: what is told, in which order, to whom, and that a hit tells nothing."""

import gc
import sys
import threading
import time

import pytest
import torch

import pellucid
from pellucid import events


def broken(x):
    y = x.sin() * 2
    pellucid.graph_break("here")
    return y + 1


def kinds(seen):
    return [type(event).__name__ for event in seen]


def test_events_come_in_the_order_of_the_run():
    seen = []
    compiled = pellucid.compile(broken, backend="eager")
    with events.subscribe(seen.append):
        compiled(torch.ones(3))
    one = ["BackendStarted", "BackendFinished", "RegionFinished", "CompileFinished"]
    assert kinds(seen) == ["CompileStarted", "GraphBreak", *one, "CompileStarted", *one]
    first, second = [event for event in seen if isinstance(event, events.CompileStarted)]
    assert (first.goes_on, second.goes_on) == (False, True) and first.compile_id != second.compile_id
    assert {event.compile_id for event in seen} == {first.compile_id, second.compile_id}


def test_a_hit_tells_nothing():
    seen = []
    compiled = pellucid.compile(broken, backend="eager")
    compiled(torch.ones(3))
    with events.subscribe(seen.append, instructions=True):
        compiled(torch.ones(3))
    assert seen == []


def test_nothing_comes_behind_the_end_of_a_subscription():
    gc.collect()  # of backends that listen as long as they live
    seen = []
    subscription = events.subscribe(seen.append)
    subscription.close()
    subscription.close()
    pellucid.compile(broken, backend="eager")(torch.ones(3))
    assert seen == [] and not events.wanted()


def test_texts_are_made_when_they_are_read_and_only_while_told():
    read, unread = [], []

    def reader(event):
        if isinstance(event, events.RegionFinished):
            if not read:
                assert "sin" in event.graph and event.guards and isinstance(event.effects, list)
                read.append(event)
            unread.append(event)

    with events.subscribe(reader):
        pellucid.compile(broken, backend="eager")(torch.ones(3))
    assert "sin" in read[0].graph
    with pytest.raises(RuntimeError, match="gone"):
        _ = unread[1].guards


def test_a_reader_that_raises_disturbs_nobody(monkeypatch):
    told, seen = [], []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    def bad(event):
        raise ValueError("no")

    with events.subscribe(bad), events.subscribe(seen.append):
        result = pellucid.compile(broken, backend="eager")(torch.ones(3))
    assert torch.equal(result, broken(torch.ones(3))) and seen
    assert all(isinstance(one.exc_value, ValueError) for one in told) and len(told) == len(seen)


def test_a_reader_that_raises_is_told_of_where_python_tells(capsys, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)

    def bad(event):
        raise ValueError("of the reader")

    with events.subscribe(bad):
        pellucid.compile(torch.sin, backend="eager")(torch.ones(3))
    told = capsys.readouterr().err
    assert "Exception ignored in: <function test_a_reader_that_raises_is_told_of" in told
    assert "ValueError: of the reader" in told and "TypeError" not in told


def test_the_end_of_a_compile_tells_what_its_phases_took():
    seen = []
    with events.subscribe(seen.append):
        pellucid.compile(broken, backend=lambda gm, inputs: gm.forward)(torch.ones(3))
    ends = [event for event in seen if isinstance(event, events.CompileFinished)]
    starts = [event for event in seen if isinstance(event, events.CompileStarted)]
    assert len(ends) == 2
    for start, end in zip(starts, ends, strict=True):
        assert set(end.milliseconds) == {"capture", "finish_graph", "guards", "graph_module", "backend", "emit"}
        assert all(0 <= time < 1e3 * (end.seconds - start.seconds) for time in end.milliseconds.values())


def test_whose_compile_it_is():
    def backend(gm, example_inputs):
        return gm.forward

    seen = []
    with events.subscribe(seen.append):
        pellucid.compile(torch.sin, backend=backend)(torch.ones(3))
    assert next(event for event in seen if isinstance(event, events.CompileStarted)).backend_function is backend


def test_a_failing_backend_is_told():
    def fails(gm, inputs):
        raise ValueError("planted")

    seen = []
    with events.subscribe(seen.append), pytest.raises(pellucid.errors.BackendCompilerFailed):
        pellucid.compile(lambda x: x + 1, backend=fails)(torch.ones(3))
    assert kinds(seen) == ["CompileStarted", "BackendStarted", "BackendFinished", "CompileFinished"]
    assert "planted" in str(seen[2].error) and seen[3].failed


def test_recompiles_and_limits_are_told():
    seen = []
    compiled = pellucid.compile(lambda x: x + 1, backend="eager")
    with events.subscribe(seen.append), pellucid.config.patch(recompile_limit=2):
        for dims in (1, 2, 3, 4):
            compiled(torch.ones([2] * dims))
    assert kinds(seen).count("Recompiled") == 1 and kinds(seen).count("LimitHit") == 1
    (recompiled,) = [event for event in seen if isinstance(event, events.Recompiled)]
    assert recompiled.compile_id[1] == 1 and recompiled.record.region is not None
    with pytest.raises(TypeError):
        events.subscribe(3)


def test_instructions_have_the_stack():
    read, unread, compile_ids = [], [], set()

    def reader(event):
        compile_ids.add(event.compile_id)
        if isinstance(event, events.Instruction):
            assert isinstance(event, events.Event) and event.thread == threading.get_ident()
            (read if event.offset % 4 else unread).append(event)
            if event.offset % 4:
                assert event.code is added.__code__ and event.depth == 0 and isinstance(event.stack, list)

    def added(x):
        return x + 7

    before = time.perf_counter()
    with events.subscribe(reader, instructions=True):
        pellucid.compile(added, backend="eager")(torch.ones(3))
    assert any(len(event.stack) == 2 and event.stack[1] == "7" for event in read)  # kept
    assert before < read[0].seconds <= read[-1].seconds < time.perf_counter()
    assert len(compile_ids) == 1 and None not in compile_ids
    assert "Instruction(code=" in repr(unread[0]) and read[0] != read[1]
    with pytest.raises(RuntimeError, match="gone"):
        _ = unread[0].stack


def test_what_reads_instructions_disturbs_nothing(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda of: reported.append((of.exc_value, of.object)))
    seen = []

    def failing(event):
        seen.append(event)
        if isinstance(event, events.Instruction):
            subscription.close()
            raise KeyError("mine")

    subscription = events.subscribe(failing, instructions=True)
    try:
        x = torch.ones(3)
        assert torch.equal(pellucid.compile(lambda x: x + 7, backend="eager")(x), x + 7)
    finally:
        subscription.close()
    assert kinds(seen) == ["CompileStarted", "Instruction"] and len(reported) == 1
    assert isinstance(reported[0][0], KeyError) and reported[0][1] is failing
