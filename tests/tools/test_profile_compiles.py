"""Where the time of compiling goes: `pellucid.profile_compiles`, and the ranges in torch's profiler."""

from __future__ import annotations

import itertools
import json
import threading

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import pellucid


def slow_size(x):
    return sum(x.size(0) * i for i in range(300))


def helper(x):
    return x * slow_size(x)


def program(x):
    y = helper(x)
    return y.sin() + helper(y)


def recorded(function, *args, backend="eager"):
    pellucid.reset()
    compiled = pellucid.compile(function, backend=backend)
    with pellucid.profile_compiles() as profile:
        result = compiled(*args)
    assert torch.equal(result, function(*args))
    return profile


def row_of(rows, name, line=None):
    (found,) = [
        times for place, times in rows.items() if place.name == name and line in (None, place.line - first_line(name))
    ]
    return found


def first_line(name):
    return globals()[name].__code__.co_firstlineno


def test_functions_and_lines_of_the_program():
    profile = recorded(program, torch.ones(3))
    functions = profile.by_function()
    own, whole = row_of(functions, "helper")
    assert 0 < own < whole <= row_of(functions, "program")[1]
    assert row_of(functions, "program")[1] == pytest.approx(row_of(functions, "program")[0] + whole)
    lines = profile.by_line()
    assert row_of(lines, "program", 1)[1] > row_of(lines, "program", 1)[0] > 0
    assert row_of(lines, "program", 2)[1] > 0
    # The loop is what takes long, and it stands in a generator's line.
    loop = row_of(functions, "slow_size")
    assert loop[1] > row_of(functions, "program")[1] / 2


def test_phases_add_up_to_the_whole():
    def backend(gm, example_inputs):
        threading.Event().wait(0.05)
        return gm.forward

    profile = recorded(program, torch.ones(3), backend=backend)
    phases = profile.by_phase()
    assert {"capture", "finish_graph", "guards", "graph_module", "backend", "emit"} <= set(phases)
    assert phases["backend"] >= 0.05
    assert sum(phases.values()) == pytest.approx(profile.seconds)


def test_text_names_phases_functions_and_lines():
    profile = recorded(program, torch.ones(3))
    text = str(profile)
    assert text.startswith(f"Compiling took {profile.seconds * 1e3:.1f} ms.")
    assert f"helper ({__file__}:{first_line('helper')})" in text
    assert f"helper ({__file__}:{first_line('helper') + 1})" in text
    assert "capture\n" in text
    assert profile.text(top=1).count("more") == 2
    with pytest.raises(ValueError, match="top must be at least 1"):
        profile.text(top=0)


def test_nothing_compiled():
    with pellucid.profile_compiles() as profile:
        torch.ones(3).sin()
    assert str(profile) == "Nothing was compiled while the profile was on.\n"


def test_one_at_a_time():
    with pellucid.profile_compiles():
        with pytest.raises(RuntimeError, match="already"), pellucid.profile_compiles():
            pass
        assert torch.equal(pellucid.compile(helper, backend="eager")(torch.ones(2)), helper(torch.ones(2)))
    with pellucid.profile_compiles() as profile:
        pellucid.compile(program, backend="eager")(torch.ones(2))
    assert profile.spans


def test_an_error_of_the_program_ends_the_phases():
    def fails(x):
        x = x + 1
        raise KeyError("told")

    pellucid.reset()
    compiled = pellucid.compile(fails, backend="eager")
    with pellucid.profile_compiles() as profile:
        with pytest.raises(KeyError, match="told"):
            compiled(torch.ones(3))
        pellucid.compile(program, backend="eager")(torch.ones(3))
    roots = {profile.places[profile.stack(span.place)[0]].kind for span in profile.spans}
    assert roots == {"phase"}
    helper_place = next(i for i, place in enumerate(profile.places) if place.name == "helper")
    names = [profile.places[at].name for at in profile.stack(helper_place)]
    assert not any("fails" in name for name in names)


def test_generators_stand_below_who_asks_them():
    def numbers(n):
        for i in range(n):
            yield i * 2

    def first(it):
        return next(it)

    def second(it):
        return next(it)

    def asks(x):
        it = numbers(4)
        return x * first(it) + second(it)

    profile = recorded(asks, torch.ones(3))
    callers = set()
    for i, place in enumerate(profile.places):
        if place.kind == "function" and place.name.endswith("numbers"):
            stack = [profile.places[at] for at in profile.stack(i) if profile.places[at].kind == "function"]
            callers.add(stack[-2].name.rpartition(".")[2])
    assert callers == {"asks", "first", "second"}  # asks makes it


def test_speedscope(tmp_path):
    profile = recorded(program, torch.ones(3))
    content = json.loads(profile.to_speedscope(tmp_path / "a.json").read_text())
    (one,) = content["profiles"]
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert len(one["samples"]) == len(one["weights"]) > 10
    assert sum(one["weights"]) == pytest.approx(profile.seconds)
    frames = content["shared"]["frames"]
    assert all(0 <= frame < len(frames) for sample in one["samples"] for frame in sample)
    deepest = max(one["samples"], key=len)
    names = [frames[frame]["name"] for frame in deepest]
    assert names[0].startswith("compile") and "program" in names and "slow_size" in names


def test_chrome_trace(tmp_path):
    profile = recorded(program, torch.ones(3))
    events = json.loads(profile.to_chrome_trace(tmp_path / "a.json").read_text())["traceEvents"]
    calls = [event for event in events if event["name"] == "helper"]
    assert len(calls) == 2  # one for each call
    whole = next(event for event in events if event["name"].startswith("compile"))
    for event in events:
        assert whole["ts"] - 1 <= event["ts"] and event["ts"] + event["dur"] <= whole["ts"] + whole["dur"] + 1
    assert sum(event["dur"] for event in calls) < whole["dur"]


def test_threads_have_stacks_of_their_own():
    functions = [torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(4))) for _ in range(3)]
    compiled = [pellucid.compile(module, backend="eager") for module in functions]
    with pellucid.profile_compiles() as profile:
        threads = [threading.Thread(target=module, args=(torch.ones(1, 2),)) for module in compiled]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for span in profile.spans:
        assert profile.places[profile.stack(span.place)[0]].name.startswith("compile")
    for thread in {span.thread for span in profile.spans}:
        spans = [span for span in profile.spans if span.thread == thread]
        assert all(before.end <= after.start for before, after in itertools.pairwise(spans))


def test_ranges_in_the_profiler_of_torch():
    def broken(x):
        y = x.sin()
        pellucid.graph_break()
        return y.cos()

    pellucid.reset()
    compiled = pellucid.compile(broken, backend="eager")
    compiled(torch.ones(3))
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        result = compiled(torch.ones(3))
    assert torch.equal(result, torch.ones(3).sin().cos())
    events = {event.name: event for event in seen.events()}
    ranges = [name for name in events if name.startswith("pellucid region ") and name.endswith("<locals>.broken")]
    assert len(ranges) == 2
    for name, operator in zip(ranges, ("aten::sin", "aten::cos"), strict=True):
        inside = events[name].time_range
        assert inside.start <= events[operator].time_range.start <= inside.end
