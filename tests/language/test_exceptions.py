"""Exceptions that are raised, caught and looked at inside of a region: type, chain and traceback are eager's."""

from __future__ import annotations

import sys
import traceback
import types
import unittest

import pytest
import torch

import pellucid

X = torch.ones(2)
COUNT = unittest.TestCase()


def both(f, graphs=1):
    """Runs f(x) eagerly and compiled; the number of graphs is checked unless it is None."""
    want = f(X)
    pellucid.reset()
    pellucid.counters.clear()
    compiled = pellucid.compile(f, backend="eager")
    first, second = compiled(X), compiled(X)
    count = pellucid.counters()
    if graphs is not None:
        assert (count["graphs"], count["stops"]) == (graphs, 0), pellucid.break_reasons()
    return want, first, second


def assert_same(f, graphs=1):
    want, first, second = both(f, graphs)
    assert first[1:] == want[1:] and second[1:] == want[1:]
    assert torch.equal(first[0], want[0]) and torch.equal(second[0], want[0])


def lines(error):
    """The traceback's entries below the test's own frames."""
    return [
        (frame.name, frame.lineno, frame.colno, frame.end_colno)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == __file__
    ]


def fail(text):
    raise ValueError(text)


def test_exit_gets_the_traceback():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, tb):
            self.seen = kind, tb is not None, tb is value.__traceback__
            return True

    def f(x):
        manager = Manager()
        with manager:
            fail("a")
        return x + 1, manager.seen

    assert_same(f)


def test_assert_raises():
    def f(x):
        x = x + 1
        with COUNT.assertRaises(ValueError) as caught:  # noqa: PT027
            fail("text")
        COUNT.assertEqual(caught.exception.args, ("text",))  # noqa: PT009
        COUNT.assertRaises(KeyError, {}.__getitem__, 1)  # noqa: PT027
        COUNT.assertRaisesRegex(ValueError, "te", fail, "text")  # noqa: PT027
        return x * 2, caught.exception.__traceback__

    assert_same(f, graphs=None)
    assert both(f, graphs=None)[1][1] is None


def test_traceback_of_a_caught_exception():
    def f(x):
        try:
            fail("a")
        except ValueError as error:
            tb = error.__traceback__
            return x + 1, tb is None, tb.tb_lineno, tb.tb_next.tb_lineno, tb.tb_next.tb_next

    assert_same(f)


def test_a_returned_exception_has_its_traceback():
    def f(x):
        y = x + 1
        try:
            try:
                fail("first")
            finally:
                y = y + 1
        except ValueError as error:
            return y, error

    want, *got = both(f, graphs=None)
    for result in got:
        assert type(result[1]) is ValueError and lines(result[1]) == lines(want[1])
        assert len(lines(want[1])) == 2


def test_raised_again_and_chained():
    def inner():
        try:
            fail("first")
        except ValueError:
            raise

    def f(x):
        try:
            try:
                inner()
            except ValueError as error:
                raise KeyError("second") from error
        except KeyError as error:
            return x + 1, error

    want, *got = both(f, graphs=None)
    for result in got:
        assert lines(result[1]) == lines(want[1])
        assert lines(result[1].__cause__) == lines(want[1].__cause__)
        assert result[1].__context__ is result[1].__cause__


def test_generators_are_in_the_traceback():
    def numbers():
        yield 1
        fail("in a generator")

    def f(x):
        try:
            for n in numbers():
                x = x + n
        except ValueError as error:
            return x, error

    want, *got = both(f, graphs=None)
    assert [lines(result[1]) for result in got] == [lines(want[1])] * 2 and len(lines(want[1])) == 3


def test_exc_info_of_the_region():
    def f(x):
        try:
            fail("a")
        except ValueError as error:
            kind, value, tb = sys.exc_info()
            return x + 1, kind, value is error, tb is error.__traceback__, sys.exception() is error

    assert_same(f)


def test_exc_info_of_the_caller():
    def f(x):
        return x + 1, sys.exc_info()[0]

    compiled = pellucid.compile(f, backend="eager")
    assert compiled(X)[1] is None
    try:
        fail("a")
    except ValueError:
        assert compiled(X)[1] is ValueError


def test_with_traceback_and_notes():
    def f(x):
        try:
            fail("a")
        except ValueError as error:
            error.add_note("note")
            bare = error.with_traceback(None)
            return x + 1, bare is error, bare.__traceback__, bare.__notes__

    assert_same(f)


def test_an_exception_from_outside_gets_a_traceback():
    def f(x, error):
        try:
            raise error
        except ValueError:
            return x + 1

    pellucid.reset()
    error = ValueError("outside")
    assert torch.equal(pellucid.compile(f, backend="eager")(X, error), X + 1)
    assert [name for name, *_ in lines(error)] == ["f"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: AttributeError("text", name="n", obj=3),
        lambda: NameError("text", name="n"),
        lambda: StopIteration(4),
        lambda: SystemExit(5),
        lambda: ImportError("text", name="n", path="p"),
        lambda: KeyError("k"),
    ],
)
def test_exceptions_with_attributes_leave_the_region(make):
    def f(x):
        return x + 1, make()

    want, *got = both(f)
    for result in got:
        assert type(result[1]) is type(want[1]) and result[1].args == want[1].args
        for name in ("name", "obj", "value", "code", "msg", "path"):
            assert getattr(result[1], name, None) == getattr(want[1], name, None)


def test_memory_error_is_the_programs():
    def f(x):
        try:
            return x + 1, len([0] * sys.maxsize)
        except MemoryError:
            return x + 1, "too much"

    assert_same(f, graphs=None)


def test_context_is_what_is_handled_now():
    def f(x):
        try:
            try:
                fail("first")
            except ValueError:
                raise KeyError("second")
        except KeyError as error:
            kept = error
        try:
            try:
                raise IndexError("third")
            except IndexError:
                raise kept
        except KeyError as error:
            return x + 1, error.__context__.args

    assert_same(f)


def test_a_cycle_of_contexts():
    def f(x):
        try:
            try:
                fail("first")
            except ValueError as error:
                error.__context__ = error
                raise TypeError("second")
        except TypeError as error:
            inner = error.__context__
            return x + 1, inner.args, inner.__context__ is inner

    assert_same(f)


@pytest.mark.parametrize("before", ["", "y = x + 1\n"])
def test_module_code_that_handles_an_exception(before):
    """The code of a module keeps its globals as locals where its frame goes on in a handler."""
    text = (
        before
        + "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    line = error.__traceback__.tb_lineno\nz = x * 2\n"
    )
    code = compile(text, "<module of the test>", "exec")

    def after(run):
        namespace = {"x": torch.ones(2)}
        run(types.FunctionType(code, namespace))()
        return {name: str(value) for name, value in namespace.items() if name != "__builtins__"}

    assert after(lambda function: pellucid.compile(function, backend="eager")) == after(lambda function: function)
    assert pellucid.counters()["stops"] > 0


@pytest.mark.parametrize("masked", [False, True])
def test_messages_do_not_print_the_tensors_of_an_exception(masked):
    """They have no values yet."""

    def f(x):
        return {1: x}[x > 0 if masked else torch.ones(2, 3)]

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            compiled(X)
        (key,) = caught.value.args
        assert torch.equal(key, X > 0 if masked else torch.ones(2, 3))
    (told,) = pellucid.break_reasons(compiled)
    assert "KeyError(<torch.Tensor at 0x" in told.message
