"""What happens when a function is compiled again and again: the limits, and what gives way to what."""

from __future__ import annotations

import logging
import sys

import pytest
import torch

import pellucid
from support import Counting, same

X = torch.arange(1.0, 4.0)


def words(x, word):
    return x + len(word)


def call_all(compiled, f, texts):
    for text in texts:
        assert same(compiled(X, text), f(X, text))


@pytest.fixture
def warnings(caplog):
    with caplog.at_level(logging.WARNING, logger="pellucid"):
        yield caplog


# ---- recompile_limit


def test_at_the_limit_calls_run_eagerly_for_a_while(counting, warnings):
    f = pellucid.compile(words, backend=counting)
    with pellucid.config.patch(recompile_limit=2, recompile_patience=5):
        call_all(f, words, ["", "a"])
        call_all(f, words, ["bb"] * 4)
        assert counting.count == 2
        call_all(f, words, ["bb"] * 3)
        assert counting.count == 3 and len(pellucid.cache_entries(f)) == 2
        call_all(f, words, ["a", "bb"])  # the entry for "" has given way: it was used longest ago
        assert counting.count == 3
    assert (counting.count, len(warnings.records)) == (3, 1)
    text = warnings.records[0].getMessage()
    assert "config.recompile_limit (2)" in text and "'words'" in text and "after 5 of them" in text


def test_the_entry_used_longest_ago_gives_way(counting):
    f = pellucid.compile(words, backend=counting)
    with pellucid.config.patch(recompile_limit=2, recompile_patience=1):
        call_all(f, words, ["", "a", "", "bb"])  # "a" goes
        assert counting.count == 3
        call_all(f, words, ["", "bb"] * 10)
        assert counting.count == 3
        call_all(f, words, ["a"])
        assert counting.count == 4


def test_without_patience_nothing_gives_way(counting, warnings):
    f = pellucid.compile(words, backend=counting)
    with pellucid.config.patch(recompile_limit=2, recompile_patience=0):
        call_all(f, words, ["", "a"] + ["bb"] * 200)
    assert counting.count == 2
    assert warnings.records[0].getMessage().endswith("run eagerly.")


def test_a_function_that_is_another_at_each_call_is_compiled_seldom(counting):
    f = pellucid.compile(words, backend=counting)
    with pellucid.config.patch(recompile_limit=4, recompile_patience=4):
        call_all(f, words, ["w" * i for i in range(1000)])
    # 4 until the limit, then after 4, 8, 16 … calls
    assert 8 <= counting.count <= 12


def test_entries_that_earn_what_they_cost_keep_the_patience_short(counting):
    f = pellucid.compile(words, backend=counting)
    with pellucid.config.patch(recompile_limit=2, recompile_patience=4):
        for i in range(20):  # phases: each word for a while
            call_all(f, words, ["w" * i] * 40)
    assert counting.count == 20


def test_the_last_entry_opens_what_has_not_changed_yet(counting):
    """A dimension changes after the other: the last entry that has room serves them all."""

    def f(x):
        return x * 2

    compiled = pellucid.compile(f, backend="eager")
    shape = [2, 2, 2, 2, 2, 2]
    with pellucid.config.patch(recompile_limit=4):
        for i in range(6):
            shape[i] += 3
            x = torch.ones(shape)
            assert same(compiled(x), f(x))
        assert pellucid.counters()["captures"] == 4
        for i in range(6):
            shape[i] += 1
            x = torch.ones(shape)
            assert same(compiled(x), f(x))
    assert pellucid.counters()["captures"] == 4


def test_what_only_changes_by_text_opens_nothing(counting):
    compiled = pellucid.compile(lambda x, word, n: x * n + len(word), backend="eager")
    with pellucid.config.patch(recompile_limit=3):
        for i in range(3):
            compiled(X, "w" * i, 2)
    assert not any("2**63" in guard for entry in pellucid.cache_entries(compiled) for guard in entry["guards"])


# ---- behind the limit


def inner(x, word):
    return x + len(word)


def outer(x, word):
    y = inner(x, word)
    sys.stdout.write("")
    return inner(y, word)


def test_functions_called_behind_the_limit_have_no_limits_of_their_own(counting):
    with pellucid.config.patch(recompile_limit=2, recompile_patience=0):
        f = pellucid.compile(outer, backend=counting)
        for i in range(12):
            assert same(f(X, "w" * i), outer(X, "w" * i))
    # two regions before the break and two behind it, none for `inner` on its own
    assert counting.count == 4
    assert pellucid.cache_entries(inner) == []


def test_a_place_behind_a_break_replaces_entries_too(counting):
    def f(x, words):
        y = x * 2
        sys.stdout.write("")
        return y + len(words[0])

    with pellucid.config.patch(recompile_limit=2, recompile_patience=3):
        compiled = pellucid.compile(f, backend=counting)
        for word in ["", "a", "bb", "bb", "bb", "bb"]:
            assert same(compiled(X, [word]), f(X, [word]))
        made = counting.count
        for word in ["bb", "a"]:
            assert same(compiled(X, [word]), f(X, [word]))
        assert counting.count == made == 4


# ---- accumulated_recompile_limit


def test_accumulated_limit_ends_it(counting, warnings):
    f = pellucid.compile(words, backend=counting)
    with pellucid.config.patch(recompile_limit=2, recompile_patience=1, accumulated_recompile_limit=3):
        call_all(f, words, ["w" * i for i in range(100)])
    told = [record.getMessage().split(" (")[0] for record in warnings.records]
    limits = ["pellucid hit config.recompile_limit", "pellucid hit config.accumulated_recompile_limit"]
    assert (counting.count, told) == (4, limits)  # the first is no recompile
    assert pellucid.config.accumulated_cache_size_limit == 256
    pellucid.reset()
    call_all(f, words, ["", "a"])
    assert counting.count == 6


def test_accumulated_limit_counts_what_lies_behind_breaks(counting):
    def f(x, words):
        y = x * 2
        sys.stdout.write("")
        return y + len(words[0])

    with pellucid.config.patch(accumulated_recompile_limit=3):
        compiled = pellucid.compile(f, backend=counting)
        for i in range(8):
            assert same(compiled(X, ["w" * i]), f(X, ["w" * i]))
    assert counting.count == 2 + 3


def test_objects_that_die_do_not_compile_for_ever(counting):
    class Config:
        pass

    def f(x, config):
        return x + 1 if config is not None and config == config else x

    compiled = pellucid.compile(f, backend=counting)
    with pellucid.config.patch(accumulated_recompile_limit=5):
        for _ in range(30):
            config = Config()
            assert same(compiled(X, config), X + 1)
    assert counting.count <= 6


# ---- errors


def test_error_on_recompile(counting):
    f = pellucid.compile(words, backend=counting)
    call_all(f, words, [""])
    with pellucid.config.patch(error_on_recompile=True):
        call_all(f, words, [""])
        with pytest.raises(pellucid.errors.RecompileError, match=r"words.*\n.*word"):
            f(X, "a")
        other = pellucid.compile(lambda x: x + 1, backend=counting)
        assert same(other(X), X + 1)  # a first compile is none again
    call_all(f, words, ["a"])
    assert counting.count == 3


def test_error_on_recompile_behind_a_break(counting):
    def f(x, words, log):
        try:
            y = x * 2
            log.append("before")
            sys.stdout.write("")
            return y + len(words[0])
        finally:
            log.append("after")

    compiled = pellucid.compile(f, backend=counting)
    compiled(X, [""], [])
    log = []
    with (
        pellucid.config.patch(error_on_recompile=True),
        pytest.raises(pellucid.errors.RecompileError, match="would be compiled"),
    ):
        compiled(X, ["a"], log)
    assert log == ["before", "after"] or log == []


def test_limits_as_errors():
    for option, limits in [
        ("recompile_limit", {"recompile_limit": 1}),
        ("accumulated_recompile_limit", {"accumulated_recompile_limit": 0}),
    ]:
        f = pellucid.compile(words, backend="eager")
        with pellucid.config.patch(limits, fail_on_recompile_limit_hit=True, recompile_patience=1):
            call_all(f, words, [""])
            for _ in range(2):
                with pytest.raises(pellucid.errors.RecompileLimitExceeded, match=f"config.{option} "):
                    f(X, "a")
            call_all(f, words, [""])
        pellucid.reset()


def test_a_limit_that_was_a_warning_can_become_an_error():
    f = pellucid.compile(words, backend="eager")
    with pellucid.config.patch(recompile_limit=1):
        call_all(f, words, ["", "a"])
        with (
            pellucid.config.patch(fail_on_cache_limit_hit=True),
            pytest.raises(pellucid.errors.RecompileLimitExceeded),
        ):
            f(X, "a")


def test_entries_that_give_way_let_their_objects_go():
    import gc
    import weakref

    counting = Counting()
    f = pellucid.compile(words, backend=counting)
    with pellucid.config.patch(recompile_limit=1, recompile_patience=1):
        f(X, "")
        region = weakref.ref(pellucid.cache_entries(f)[0]["function"])
        f(X, "a")
        gc.collect()
        assert region() is None


def test_a_limit_of_zero_compiles_nothing(counting):
    f = pellucid.compile(words, backend=counting)
    with pellucid.config.patch(recompile_limit=0, recompile_patience=1):
        call_all(f, words, ["", "a", "a"] * 20)
    assert counting.count == 0
