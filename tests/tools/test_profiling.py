"""What compiling costs and why it happens: the profiler, the times of the phases, the counters, torch's own logs."""

from __future__ import annotations

import csv
import io
import logging
import subprocess
import sys
import time

import pytest
import torch

import pellucid

X = torch.arange(1.0, 4.0)


def by_word(x, word):
    return x * 2 + len(word)


def breaks(x):
    y = x + 1
    sys.stdout.write("")
    return y * 2


@pytest.fixture(autouse=True)
def no_times():
    pellucid.compile_times.clear()


# ---- compile_times


def table() -> dict[str, list[float]]:
    """The rows of the text."""
    rows = {}
    for line in pellucid.compile_times().splitlines():
        name, _, numbers = line.rpartition("  ")
        if "(s)" not in line:
            rows[name.strip()] = [float(number) for number in numbers.split(", ")]
    return rows


def test_K01_text():
    f = pellucid.compile(by_word, backend="eager")
    for _ in range(3):
        f(X, "a"), f(X, "bb")
    rows = table()
    place = f"by_word ({__file__}:{by_word.__code__.co_firstlineno})"
    assert set(rows) == {"capture", "finish_graph", "guards", "graph_module", "emit", "compile", place}
    assert all(len(times) == 2 for times in rows.values()) and rows[place] == rows["compile"]
    assert all(time > 0 for time in rows["capture"])
    phases = [sum(rows[name]) for name in ("capture", "finish_graph", "guards", "graph_module", "emit")]
    assert sum(phases) <= sum(rows["compile"]) + 1e-3  # rounded
    pellucid.compile_times.clear()
    assert table() == {}


def test_K01_of_a_module():
    pellucid.compile(torch.nn.Linear(3, 3), backend="eager")(X)
    assert "torch.nn.modules.linear.Linear" in table()


def test_K02_csv_and_sums():
    f = pellucid.compile(by_word, backend="aot_eager")
    f(X, "a"), f(X, "bb")
    headers, values = pellucid.compile_times("csv")
    assert headers == ["capture", "finish_graph", "guards", "graph_module", "backend", "emit", "compile"]
    single = [[float(number) for number in value.split(", ")] for value in values]
    assert {len(numbers) for numbers in single} == {2}
    same_headers, sums = pellucid.compile_times(repr="csv", aggregate=True)
    assert same_headers == headers
    for numbers, total in zip(single, sums, strict=True):
        assert float(total) == pytest.approx(sum(numbers), abs=1e-5)
    written = io.StringIO()
    csv.writer(written).writerows([headers, sums])
    assert "," not in pellucid.compile_times(aggregate=True)
    with pytest.raises(ValueError, match="'json'"):
        pellucid.compile_times("json")


def test_K03_the_backend_is_a_phase():
    def slow(gm, inputs):
        time.sleep(0.2)
        return gm.forward

    pellucid.compile(by_word, backend=slow)(X, "a")
    rows = table()
    assert 0.2 <= rows["backend"][0] <= rows["compile"][0] and rows["capture"][0] < 0.2


def test_a_capture_that_gives_nothing_has_taken_its_time():
    def f(x):
        return [torch.vmap(torch.sin)(x) for _ in range(2)]

    pellucid.compile(f, backend="eager")(X)
    assert len(table()["compile"]) >= 1 and len(table()["capture"]) >= 1


# ---- CompileProfiler


def test_K04_results_are_those_of_eager():
    with pellucid.CompileProfiler() as profiler:
        f = pellucid.compile(by_word, backend=profiler)
        for word in ("a", "bb", "a"):
            assert torch.equal(f(X, word), by_word(X, word))
    assert (profiler.frame_count, profiler.op_count) == (2, 4)
    assert torch.equal(f(X, "ccc"), by_word(X, "ccc")) and profiler.frame_count == 3  # it goes on to count


def test_K05_report():
    profiler = pellucid.CompileProfiler()
    f, g = pellucid.compile(by_word, backend=profiler), pellucid.compile(breaks, backend=profiler)
    for word in ("a", "bb", "ccc"):
        f(X, word), g(X)
    report = profiler.report()
    line = by_word.__code__.co_firstlineno
    for part in (
        f"by_word ({__file__}:{line}): 2 recompiles",
        f"2x EQUALS_MATCH L['word'] ({__file__}:{line + 1}, ",
        "expected 'a', found 'bb'",
        "expected 'bb', found 'ccc'",
        "Hint: the program looks at this text",
        "3 would keep all of these",
        f"1x PEL0301 UntracedCallable: TextIOWrapper.write() cannot be captured ({__file__}:",
        "Hint: move the call out of the compiled function",
    ):
        assert part in report, part
    assert profiler.get_metrics() == {
        "guard_failures": {f"by_word ({__file__}:{line})": pellucid.guard_failures(f)[:2]}
    }


def test_K05_when_nothing_happened():
    profiler = pellucid.CompileProfiler()
    assert "No graph breaks" in profiler.report() and "No recompiles" in profiler.report()
    pellucid.compile(by_word, backend=profiler)(X, "a")
    assert "No graph breaks" in profiler.report() and "No recompiles" in profiler.report()


def test_K06_no_limit_ends_it():
    profiler = pellucid.CompileProfiler()
    f = pellucid.compile(by_word, backend=profiler)
    with pellucid.config.patch(recompile_limit=3, accumulated_recompile_limit=5, fail_on_recompile_limit_hit=True):
        for n in range(20):
            assert torch.equal(f(X, "w" * n), by_word(X, "w" * n))
    assert profiler.frame_count == 20 and len(profiler.recompiles) == 19
    (failures,) = profiler.get_metrics()["guard_failures"].values()
    assert len(failures) == 19 and pellucid.counters()["limit_hits"] == 0
    report = profiler.report()
    assert "19 recompiles" in report and "and 16 more" in report and "20 would keep all" in report


def test_the_profiler_sees_what_eager_sees():
    """Numbers and sizes that change open as with the backend eager."""
    profiler = pellucid.CompileProfiler()
    f = pellucid.compile(lambda x, k: x * k, backend=profiler)
    for n in range(2, 12):
        f(torch.ones(n), n * 0.5)
    assert profiler.frame_count == 2


# ---- counters


def test_D23_groups():
    assert pellucid.counters["stats"]["unique_graphs"] == 0
    f = pellucid.compile(breaks, backend="eager")
    f(X)
    counters = pellucid.counters
    assert counters["stats"] == {"calls_captured": 2, "unique_graphs": 2}
    assert counters["frames"]["ok"] == 2 and counters["frames"]["total"] >= 2
    assert counters["graph_break"] == {"TextIOWrapper.write() cannot be captured": 1}
    assert set(counters) == {"stats", "frames", "graph_break", "recompiles"} and len(counters) == 4
    g = pellucid.compile(by_word, backend="eager")
    with pellucid.config.patch(recompile_limit=3):
        for n in range(5):
            g(X, "w" * n)
    assert counters["recompiles"] == {"total": 2, "limit_hits": 1}
    with pytest.raises(KeyError):
        counters["no such group"]
    counters.clear()
    assert [sum(counters[group].values()) for group in counters] == [0, 0, 0, 0]
    assert counters["stats"]["calls_captured"] == counters["graph_break"]["anything"] == 0


# ---- torch's logs


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record):
        self.texts.append(record.getMessage())


@pytest.mark.parametrize("artifact", ["recompiles", "recompiles_verbose"])
def test_set_logs(artifact):
    f = pellucid.compile(by_word, backend="eager")
    kept = Kept()
    logging.getLogger("torch").addHandler(kept)
    try:
        f(X, "a"), f(X, "bb")
        assert kept.texts == []
        torch._logging.set_logs(**{artifact: True})
        f(X, "ccc")
        assert kept.texts == [f"recompiled {pellucid.recompile_reasons(f)[-1]}"]
    finally:
        torch._logging.set_logs()
        logging.getLogger("torch").removeHandler(kept)
    f(X, "dddd")
    assert len(kept.texts) == 1


PROGRAM = """
import sys, torch, pellucid
f = pellucid.compile(lambda x, word: x + len(word), backend="eager")
for word in ("a", "bb"):
    f(torch.ones(2), word)
print("torch._dynamo" in sys.modules)
"""


@pytest.mark.parametrize(
    ("switch", "mark"),
    [("recompiles", "[__recompiles]"), ("recompiles_verbose", "[__recompiles_verbose]"), ("pellucid", "")],
)
def test_TORCH_LOGS(switch, mark, monkeypatch):
    monkeypatch.setenv("TORCH_LOGS", switch)
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    (line,) = [line for line in told.stderr.splitlines() if "EQUALS_MATCH" in line]
    assert mark in line and "expected 'a', found 'bb'" in line and told.stdout == "False\n"
    monkeypatch.delenv("TORCH_LOGS")
    assert subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stderr == ""
