"""Entries: guards, limits, sharing, reset, reports, threads, memory."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import tracemalloc
import weakref

import pytest
import torch

import pellucid
from support import Counting, same
from support.threads import run_threads

X = torch.arange(3.0)


def double(x):
    return x * 2 + 1


# ---- entries and their reports


def test_B05_backend_identity():
    first, second = Counting(), Counting()
    a, b = pellucid.compile(double, backend=first), pellucid.compile(double, backend=second)
    for f in (a, b, a, b):
        assert same(f(X), double(X))
    assert (first.count, second.count) == (1, 1)


def test_B05_options_are_part_of_it():
    seen = []

    def backend(gm, inputs, options=None):
        seen.append(options)
        return gm.forward

    for options in ({"level": 1}, {"level": 2}, {"level": 1}):
        pellucid.compile(double, backend=backend, options=options)(X)
    # The first compiled function is gone with its entries when the third one comes.
    assert seen == [{"level": 1}, {"level": 2}, {"level": 1}]
    kept = [pellucid.compile(double, backend=backend, options={"level": 1}) for _ in range(3)]
    for f in kept:
        f(X)
    assert len(seen) == 4


def test_B05_same_function_compiled_twice_shares(counting):
    a, b = pellucid.compile(double, backend=counting), pellucid.compile(double, backend=counting)
    assert same(a(X), b(X)) and counting.count == 1


def test_B12_entries_can_be_fetched(counting):
    f = pellucid.compile(double, backend=counting, dynamic=False)
    assert pellucid.cache_entries(f) == []
    f(torch.ones(2)), f(torch.ones(3)), f(torch.ones(3))
    entries = pellucid.cache_entries(f)
    assert len(entries) == 2 and len({entry["code"] for entry in entries}) == 2
    for entry in entries:
        assert entry["function"].__code__ is entry["code"] and entry["guards"]
        assert all(isinstance(text, str) for text in entry["guards"])
    assert [entry["hits"] for entry in entries] == [1, 0]


def test_B13_older_entries_stay_valid(counting):
    f = pellucid.compile(double, backend=counting)
    for _ in range(10):
        for x in (torch.ones(2), torch.ones(2, dtype=torch.float64)):
            assert same(f(x), double(x))
    assert counting.count == 2


def words(x, word):
    return x + len(word)


@pytest.mark.parametrize(("limit", "compiles"), [(8, 8), (1, 1), (64, 12)])
def test_B14_recompile_limit(counting, caplog, limit, compiles):
    f = pellucid.compile(words, backend=counting)
    with pellucid.config.patch(cache_size_limit=limit), caplog.at_level(logging.WARNING, logger="pellucid"):
        for _ in range(2):
            for i in range(12):
                assert same(f(X, "w" * i), X + i)
    assert counting.count == compiles
    assert len(caplog.records) == (compiles < 12)
    if compiles < 12:
        text = caplog.text
        line = words.__code__.co_firstlineno
        assert "'words'" in text and f"test_runtime_cache.py:{line}" in text and f"({limit})" in text
        assert "word" in text.split("last reason:")[1]


def test_B14_limit_as_an_error():
    f = pellucid.compile(words, backend="eager")
    with pellucid.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        f(X, "a")
        with pytest.raises(pellucid.errors.RecompileLimitExceeded, match="words"):
            f(X, "ab")


def test_B15_guard_failures_are_collected():
    f = pellucid.compile(double, backend="eager")
    f(torch.ones(2))
    assert pellucid.guard_failures(f) == []
    f(torch.ones(3))
    (text,) = pellucid.guard_failures(f)
    assert "size mismatch at index 0, expected 2, actual 3" in text


def test_B18_reset(counting):
    f = pellucid.compile(double, backend=counting)
    f(X), f(X)
    pellucid.reset()
    assert pellucid.cache_entries(f) == [] and pellucid.guard_failures(f) == []
    assert same(f(X), double(X)) and counting.count == 2


def test_D23_counters():
    f = pellucid.compile(double, backend="eager")
    f(torch.ones(2)), f(torch.ones(3)), f(torch.ones(3))
    counters = pellucid.counters()
    assert (
        counters["captures"] == 2 and counters["graphs"] == 2 and counters["ops"] == 4 and counters["recompiles"] == 1
    )
    assert counters["guards"] > 0 and counters["instructions"] > 0 and counters["stops"] == 0
    pellucid.counters.clear()
    assert set(pellucid.counters().values()) == {0}


def test_events():
    start = pellucid._core.next_event()
    pellucid.compile(double, backend="eager")(X)
    events = pellucid._core.events(start)
    kinds = [event["kind"] for event in events]
    assert kinds == ["capture", "backend", "entry"]
    assert [event["serial"] for event in events] == list(range(start, start + 3))
    assert events[0]["numbers"]["ms"] > 0 and events[2]["numbers"]["ops"] == 2 and events[2]["numbers"]["guards"] > 0
    assert "double" in events[0]["text"] and "test_runtime_cache.py" in events[0]["text"]


# ---- stops


def stops_here(x):
    y = x + 1
    written = sys.stdout.write("")
    return y * (2 + written)


def test_D24_stop_is_recorded(counting):
    f = pellucid.compile(stops_here, backend=counting)
    for _ in range(5):
        assert same(f(X), (X + 1) * 2)
    (record,) = pellucid.break_reasons(f)
    assert record in pellucid.break_reasons()
    assert record.code.startswith("PEL") and record.message and record.hint and record.function == "stops_here"
    frame = record.user_stack[-1]
    line = stops_here.__code__.co_firstlineno + 2
    assert (frame.filename, frame.lineno, frame.name) == (__file__, line, "stops_here")
    assert pellucid.counters()["captures"] == 2  # the second one stopped at the same place
    pellucid.reset()
    assert pellucid.break_reasons(f) == [] and pellucid.break_reasons() == []


def test_D24_M16_fullgraph(counting):
    f = pellucid.compile(stops_here, backend=counting, fullgraph=True)
    for _ in range(2):
        with pytest.raises(pellucid.errors.Unsupported) as caught:
            f(X)
    text = str(caught.value)
    line = stops_here.__code__.co_firstlineno + 2
    assert "from user code:" in text and f'File "{__file__}", line {line}, in stops_here' in text
    assert 'sys.stdout.write("")' in text and "^^^^" in text and "Hint: " in text
    assert caught.value.record.name in text
    good = pellucid.compile(double, backend=counting, fullgraph=True)
    assert same(good(X), double(X))


def test_M13_graph_break():
    def f(x):
        pellucid.graph_break("by the user")
        return x + 1

    assert same(pellucid.compile(f, backend="eager")(X), X + 1)
    with pytest.raises(pellucid.errors.Unsupported, match="by the user"):
        pellucid.compile(f, backend="eager", fullgraph=True)(X)


def test_M05_disabled_callee():
    @pellucid.disable(reason="it logs")
    def log(x):
        return x

    def f(x):
        return log(x + 1)

    assert same(pellucid.compile(f, backend="eager")(X), X + 1)
    with pytest.raises(pellucid.errors.Unsupported, match=r"log.*it logs"):
        pellucid.compile(f, backend="eager", fullgraph=True)(X)


def test_exception_of_some_arguments_is_no_verdict(counting):
    def f(x, bad):
        if bad:
            raise ValueError("bad")
        return x + 1

    f = pellucid.compile(f, backend=counting, fullgraph=True)
    for _ in range(3):
        with pytest.raises(ValueError, match="bad"):
            f(X, True)
    assert same(f(X, False), X + 1) and counting.count == 1


# ---- nested compiled functions


def test_compiled_function_inside_a_region(counting):
    inner_backend = Counting()
    inner = pellucid.compile(double, backend=inner_backend)
    outer = pellucid.compile(lambda x: inner(x) + 1, backend=counting)
    assert same(outer(X), double(X) + 1)
    assert counting.count == 1 and inner_backend.count == 0


def test_compiled_function_inside_a_backend():
    helper = pellucid.compile(double, backend="eager")
    seen = []

    def backend(gm, inputs):
        seen.append(helper(X))
        return gm.forward

    assert same(pellucid.compile(double, backend=backend)(X), double(X))
    assert same(seen[0], double(X)) and pellucid.cache_entries(helper) == []


# ---- threads


def test_threads_with_one_function(quick_switches, counting):
    f = pellucid.compile(double, backend=counting)
    sizes = [1, 2, 3, 4]

    def work(i):
        for k in range(200):
            x = torch.full((sizes[(i + k) % 4],), float(i))
            assert same(f(x), double(x))

    run_threads(4, work)
    assert counting.count in (2, 3)  # 1, and all others once a size has changed: a constant before when 1 came later


def test_threads_with_their_own_functions(quick_switches):
    def make(k):
        def f(x):
            for _ in range(k):
                x = x + k
            return x

        return f

    def work(i):
        eager = make(i + 1)
        for size in range(1, 8):
            f = pellucid.compile(eager, backend="eager")
            for _ in range(5):
                x = torch.ones(size)
                assert same(f(x), eager(x))

    run_threads(4, work)


def test_threads_with_reset(quick_switches):
    f = pellucid.compile(double, backend="eager")

    def work(i):
        for k in range(100):
            if i == 0 and k % 5 == 0:
                pellucid.reset()
            x = torch.ones(k % 3 + 1)
            assert same(f(x), double(x))

    run_threads(3, work)


def test_call_while_another_thread_compiles():
    inside, leave = threading.Event(), threading.Event()

    def backend(gm, inputs):
        inside.set()
        assert leave.wait(30)
        return gm.forward

    f = pellucid.compile(double, backend=backend)
    thread = threading.Thread(target=f, args=(X,))
    thread.start()
    assert inside.wait(30)
    assert same(f(X), double(X))  # runs eagerly, does not wait
    assert pellucid.is_compiling() is False
    leave.set()
    thread.join(30)
    assert len(pellucid.cache_entries(f)) == 1


# ---- memory


def test_inputs_are_not_kept():
    f = pellucid.compile(double, backend="eager")
    gc.disable()
    try:
        x = torch.ones(5)
        watch = weakref.ref(x)
        f(x), f(x)
        del x
        assert watch() is None
    finally:
        gc.enable()


def test_inputs_are_not_kept_after_a_failed_compile():
    f = pellucid.compile(stops_here, backend="eager")
    x = torch.ones(5)
    watch = weakref.ref(x)
    f(x)
    del x
    gc.collect()
    assert watch() is None

    def bad(gm, inputs):
        raise ValueError("bad")

    g = pellucid.compile(double, backend=bad)
    x = torch.ones(5)
    watch = weakref.ref(x)
    with pytest.raises(pellucid.errors.BackendCompilerFailed):
        g(x)
    del x
    gc.collect()
    assert watch() is None


def test_backend_and_graph_die_with_the_function():
    class Backend(Counting):
        pass

    backend = Backend()
    f = pellucid.compile(lambda x: x + 1, backend=backend)
    f(X)
    watch_backend, watch_graph = weakref.ref(backend), weakref.ref(backend.graphs[0])
    del f, backend
    gc.collect()
    assert watch_backend() is None and watch_graph() is None


def objects_after(work, loops):
    for _ in range(loops):
        work()
    gc.collect()
    return len(gc.get_objects())


def test_compile_and_reset_loops_leak_nothing():
    f = pellucid.compile(double, backend="eager")

    def work():
        f(X)
        pellucid.reset()

    before = objects_after(work, 20)
    tracemalloc.start()
    try:
        objects_after(work, 20)
        grown = []
        for _ in range(2):  # tables of the interpreter settle late: what really grows, grows again
            bytes_before = tracemalloc.get_traced_memory()[0]
            after = objects_after(work, 300)
            grown.append(tracemalloc.get_traced_memory()[0] - bytes_before)
    finally:
        tracemalloc.stop()
    assert after - before < 20 and min(grown) < 50_000, grown


def test_fresh_functions_leak_nothing():
    def work():
        def f(x):
            return x + 1

        compiled = pellucid.compile(f, backend="eager")
        compiled(X)
        net = torch.nn.Linear(3, 3)
        pellucid.compile(net, backend="eager")(X)

    before = objects_after(work, 20)
    assert objects_after(work, 100) - before < 20


def test_failing_compiles_leak_nothing():
    def work():
        def f(x):
            sys.stdout.write("")
            return x + 1

        pellucid.compile(f, backend="eager")(X)
        with pytest.raises(pellucid.errors.Unsupported):
            pellucid.compile(f, backend="eager", fullgraph=True)(X)

    before = objects_after(work, 20)
    # The list of the newest stops grows until it is full.
    assert objects_after(lambda: (work(), pellucid.reset()), 100) - before < 20


def test_calls_leak_nothing():
    f = pellucid.compile(double, backend="eager")
    g = pellucid.compile(lambda x, *rest, k=1, **more: x + len(rest) + k + len(more), backend="eager")
    f(X), g(X, 1, k=2, z=3)
    references = sys.getrefcount(X)
    before = objects_after(lambda: None, 1)
    after = objects_after(lambda: (f(X), g(X, 1, k=2, z=3)), 10_000)
    assert after - before < 20 and sys.getrefcount(X) == references


def test_a_miss_of_a_wrapper_names_a_line():
    """The first instruction of a closure has no line of its own: what is said of an argument names the function's."""

    def around(function):
        def wrapper(*args):
            return function(*args)

        return wrapper

    wrapper = around(lambda x, scale: x * scale)
    compiled = pellucid.compile(wrapper, backend="eager")
    for scale in (True, False):
        assert torch.equal(compiled(torch.ones(2), scale), torch.ones(2) * scale)
    (reason,) = pellucid.guard_failures(compiled)
    code = wrapper.__code__
    assert f"{code.co_filename}:{code.co_firstlineno}, is an argument" in reason
