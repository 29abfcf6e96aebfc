"""CPython's own tests, their functions replaced by what their decompiled text compiles to: the outcomes are the same."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import pellucid

MODULES = """
    test_raise test_with test_patma test_except_star test_asyncgen test_super test_dictcomps test_generators
    test_coroutines test_grammar test_scope test_listcomps test_setcomps test_genexps test_exceptions test_contextlib
    test_contextlib_async test_named_expressions test_fstring test_unpack test_unpack_ex test_augassign test_bool
    test_slice test_dict test_tuple test_deque test_collections test_dataclasses test_enum test_functools test_operator
    test_string test_textwrap test_typing test_abc test_property test_decorators test_extcall test_keywordonlyarg
    test_positional_only_arg test_compare test_contains test_binop test_complex test_float test_iter
""".split()
# They look at line numbers, at lines of the file or at names of inner functions, which no text keeps.
ABOUT_LINES = (
    "TestTracing",
    "GeneratorTest.test_name",
    "OriginTrackingTest.test_origin_tracking_warning",
    "test_name_error_with_custom_exceptions",
    "test_lineno_in_finally_normal",
    "_traceback",
)


def outcomes(*arguments):
    script = Path(__file__).with_name("from_text.py")
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=900)
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
