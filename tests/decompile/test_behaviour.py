"""CPython's own tests, their functions replaced by what their decompiled text compiles to: the outcomes are the same."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import pellucid

MODULES = ("test_raise", "test_with", "test_patma", "test_except_star", "test_asyncgen", "test_super", "test_dictcomps")
# They look at line numbers or names of inner functions, which no text keeps.
ABOUT_LINES = ("TestTracing", "GeneratorTest.test_name")


def outcomes(*arguments):
    script = Path(__file__).with_name("from_text.py")
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = (line.split(" ", 1) for line in done.stdout.splitlines() if line.count(" ") == 1)
    return {test: outcome for outcome, test in rows if not any(name in test for name in ABOUT_LINES)}


def test_cpythons_own_tests():
    if importlib.util.find_spec("test.test_patma") is None:
        pytest.skip("this Python has no test package")
    plain, text = outcomes("--plain", *MODULES), outcomes(*MODULES)
    assert len(plain) > 500
    assert text == plain


def finally_goes_on(count):
    while count < 2:
        count += 1
        try:
            count / 0
        finally:
            continue
        break
    return count


def nothing_is_tried(seen):
    try:
        pass
    finally:
        pass
    with seen as entered:
        return entered


def never_gives(values):
    return list(None for x in values if None if x), [x for x in values if 0], {x: x for x in values if False}


def leaves_a_loop_by_its_handlers(big, count):
    while big:
        count += 1
        try:
            if count and big == 1:
                count -= 1
                break
            big -= 1
            continue
        except BaseException:
            raise
    return big, count


@pytest.mark.parametrize(
    "function, arguments",
    [
        (finally_goes_on, (-3,)),
        (nothing_is_tried, (contextlib.nullcontext(4),)),
        (never_gives, ((1, 2),)),
        (leaves_a_loop_by_its_handlers, (3, 0)),
    ],
)
def test_the_text_does_the_same(function, arguments):
    """These compile to other instructions: CPython dropped a part of them, or wrote another form of the same."""
    made = pellucid.Decompiled.of(function)
    namespace = {}
    exec(made.module, namespace)
    assert made.verified == "equivalent" or made.verified == "normalised", made.difference
    assert namespace[function.__name__](*arguments) == function(*arguments)
