"""Graph breaks while an exception is handled: exception, traceback, frames and sys.exc_info() are handed over to the real frames."""

from __future__ import annotations

import contextlib
import gc
import io
import sys
import traceback
import weakref
from contextlib import redirect_stdout

import pytest
import torch

import pellucid
from support import same
from support.outcomes import assert_as_eager_each_time, told, whole_outcome
from support.stops import stop_tests

X = torch.arange(6.0).reshape(2, 3) - 1


def looked_at(error, depth=0):
    """What programs here ask of an exception: with those behind it, and where it was."""
    if error is None or depth > 4:
        return None
    frames = [s for s in traceback.extract_tb(error.__traceback__) if s.filename == __file__]
    places = [(s.name, s.lineno, s.colno, s.end_colno) for s in frames]
    causes = looked_at(error.__cause__, depth + 1), looked_at(error.__context__, depth + 1)
    return type(error), error.args, places, error.__suppress_context__, *causes


def graphs_of(f, *args, calls=3):
    """Calls f eagerly and compiled, in the end in a handler of the caller too; the number of graphs before that."""
    compiled, count = assert_as_eager_each_time(f, lambda: (X, *args), calls)
    try:
        raise RuntimeError("the caller's")
    except RuntimeError:
        want, got = whole_outcome(f, X, *args), whole_outcome(compiled, X, *args)
        assert same(got, want), (got, want)
    return count


def test_except_clause():
    def f(x):
        y = x + 1
        try:
            raise ValueError("a")
        except ValueError:
            y = y * 3
            print("in the handler")
            y = y.cos()
        return y.sin()

    assert graphs_of(f) == 2


def test_the_exception_is_as_in_eager():
    def deep(n):
        if n:
            return deep(n - 1)
        local = "kept by the frame"
        raise ValueError(n, local)

    def f(x):
        y = x + 1
        try:
            deep(2)
        except ValueError as error:
            y = y * 2
            print(looked_at(error), sys.exc_info()[1] is error, sys.exc_info()[2] is error.__traceback__)
            y = y.cos()
        return y.sin(), sys.exc_info()[0]

    assert graphs_of(f) == 2


def test_frames_of_the_traceback():
    def bad(k):
        doubled = k * 2
        raise ValueError(doubled)

    def f(x):
        y = x + 1
        try:
            bad(3)
        except ValueError as error:
            y = y * 2
            entry = error.__traceback__
            mine, theirs = entry.tb_frame, entry.tb_next.tb_frame
            print(mine is sys._getframe(), sorted(mine.f_locals), mine.f_lineno - entry.tb_lineno)
            print(theirs.f_locals, theirs.f_lineno, theirs.f_back is mine, theirs.f_code.co_name, theirs.f_lasti)
            y = y + 1
        return y

    graphs_of(f)


def test_frames_of_an_exception_that_is_kept():
    def bad(k):
        raise ValueError(k)

    def inner(y):
        try:
            bad(1)
        except ValueError as error:
            kept.append(error)
            print("in the handler")
            y = y * 2
        z = y + 1
        return z

    def f(x):
        kept.clear()
        y = inner(x + 1) * 3
        print("behind")
        frames = [frame for frame, _ in traceback.walk_tb(kept[0].__traceback__)]
        names = [(frame.f_code.co_name, sorted(frame.f_locals), frame.f_lineno) for frame in frames]
        return y + 1, names, frames[1].f_back is frames[0], frames[0].f_back.f_code.co_name

    kept = []
    graphs_of(f)


def test_exception_as_result():
    def f(x, key):
        try:
            y = x + 1
            {}[key]
        except KeyError as error:
            result = error
        return y * 2, result

    def eager_frames(error):
        return [(frame.f_code.co_name, sorted(frame.f_locals), line) for frame, line in traceback.walk_tb(error)]

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for key in ("a", "a"):
        want, got = f(X, key)[1], compiled(X, key)[1]
        assert told(got) == told(want)
        assert eager_frames(got.__traceback__) == eager_frames(want.__traceback__)
        assert got.__traceback__.tb_frame.f_back is sys._getframe()


def test_finally_with_an_exception():
    def f(x):
        y = x + 1
        try:
            try:
                raise ValueError("a")
            finally:
                y = y * 2
                print("finally", sys.exc_info()[1])
                y = y.cos()
        except ValueError:
            y = y + 5
        return y.sin()

    assert graphs_of(f) == 2


def test_raise_again():
    def f(x):
        y = x + 1
        try:
            try:
                raise ValueError("a")
            except ValueError:
                y = y * 2
                print("again")
                y = y.cos()
                raise
        except ValueError as error:
            y = y + 5
            print(looked_at(error))
        return y.sin()

    assert graphs_of(f) == 3


def test_raise_again_out_of_the_program():
    def f(x):
        y = x + 1
        try:
            y = y.cos()
            [][y.ndim]
        except IndexError:
            print("again")
            y = y * 2
            raise

    graphs_of(f)


@pytest.mark.parametrize("how", ["plain", "cause", "none"])
def test_raise_another(how):
    def f(x, how):
        y = x + 1
        try:
            raise ValueError("first")
        except ValueError as error:
            y = y * 2
            print("another")
            y = y.cos()
            if how == "plain":
                raise KeyError("second")
            raise KeyError("second") from (error if how == "cause" else None)

    def caught(x, how):
        try:
            f(x, how)
        except KeyError as error:
            print("outside")
            return x.sin(), looked_at(error)

    graphs_of(f, how)
    graphs_of(caught, how)


def test_nested_handlers():
    def f(x):
        y = x
        for i in range(2):
            try:
                raise ValueError(i)
            except ValueError as error:
                y = y * 2
                print(error)
                try:
                    raise KeyError(y.shape[0])
                except KeyError as other:
                    y = y + 1
                    print(other.__context__ is error, sys.exc_info()[1] is other)
                print(sys.exc_info()[1] is error)
                y = y.cos()
        return y

    graphs_of(f)


def test_handler_in_a_function():
    def helper(y):
        try:
            raise ValueError("q")
        except ValueError:
            y = y * 2
            print("in helper", sys.exc_info()[1])
            return y + 1

    def f(x):
        z = helper(x + 1)
        z = z.cos()
        print("behind", sys.exc_info()[1])
        return z * 2

    assert graphs_of(f) == 3


def test_function_called_by_a_handler():
    def helper(y):
        y = y * 2
        print("in helper", sys.exc_info()[1])
        return y.cos()

    def f(x):
        try:
            raise ValueError("q")
        except ValueError:
            y = helper(x + 1)
        return y.sin()

    assert graphs_of(f) == 2


def test_exception_of_c_code():
    def f(x):
        y = x + 1
        try:
            int("no number")
        except ValueError as error:
            y = y * 2
            print(error)
            y = y.cos()
        return y.sin()

    assert graphs_of(f) == 2


def test_the_step_itself_raises_in_the_handler():
    def f(x):
        y = x + 1
        try:
            raise ValueError("first")
        except ValueError:
            try:
                y = y * 2
                open("/nowhere/at/all")
            except OSError as error:
                print(looked_at(error)[0], looked_at(error)[-1])
                y = y.cos()
        return y.sin()

    graphs_of(f)


class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        print(kind.__name__, value, tb.tb_frame.f_code.co_name, tb.tb_next)
        return True


def test_exit_with_an_exception():
    def f(x):
        y = x + 1
        with Swallows():
            y = y * 2
            raise ValueError("w")
        return y.sin()

    assert graphs_of(f) == 2


def test_contextmanager_with_an_exception():
    @contextlib.contextmanager
    def manager():
        try:
            yield 1
        except KeyError as error:
            print("caught", error)

    def f(x):
        y = x + 1
        with manager():
            y = y * 2
            raise KeyError("w")
        return y.sin()

    assert graphs_of(f) == 2


def test_generator_that_handles():
    def g(x):
        try:
            raise ValueError("q")
        except ValueError as error:
            y = x * 2
            print("in g", sys.exc_info()[1] is error)
            yield y + 1
            print("again", sys.exc_info()[1] is error)
            yield y + 2

    def f(x):
        z = x
        for v in g(x):
            print("outside", sys.exc_info()[1])
            z = z + v
        return z

    graphs_of(f)


def test_generator_in_a_handler():
    def g(x):
        y = x * 2
        print("in g", sys.exc_info()[1])
        yield y + 1
        try:
            raise KeyError("own")
        except KeyError:
            print("own", sys.exc_info()[1], sys.exc_info()[1].__context__)
            yield y * 2

    def f(x):
        try:
            raise ValueError("q")
        except ValueError:
            return [row.sin() for row in g(x)]

    graphs_of(f)


def test_except_star():
    def f(x):
        y = x + 1
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError as group:
            y = y * 2
            print(group.exceptions)
            y = y.cos()
        except* KeyError as group:
            y = y * 3
            print(group.exceptions)
        return y.sin()

    graphs_of(f)


def test_what_a_handler_holds_is_let_go():
    class Thing:
        pass

    def bad():
        thing = Thing()
        refs.append(weakref.ref(thing))
        raise ValueError

    def f(x):
        refs.clear()
        y = x + 1
        try:
            bad()
        except ValueError:
            y = y * 2
            print("alive", refs[0]() is not None)
            y = y + 1
        print("gone", refs[0]() is None)
        return y

    refs = []
    graphs_of(f)


def test_nothing_leaks():
    def bad(k):
        raise ValueError(k)

    def f(x):
        try:
            bad(x + 1)
        except ValueError as error:
            print(error.args[0].shape)
            y = x * 2
        return y

    compiled = pellucid.compile(f, backend="eager")
    counts = []
    for _ in range(4):
        with redirect_stdout(io.StringIO()):
            for _ in range(25):
                compiled(X)
        gc.collect()
        counts.append(len(gc.get_objects()))
    assert counts[-1] - counts[1] < 25


# ---- the step itself raises: capture goes on in the handler


def test_exception_of_the_step():
    def f(x):
        y = x + 1
        try:
            open("/nowhere/at/all")
        except OSError as error:
            y = y * 2
            print(looked_at(error))
            y = y.cos()
        return y.sin()

    assert graphs_of(f) == 3


def test_exception_of_the_step_in_a_function():
    def bad(y):
        y = y.cos()
        open("/nowhere/at/all")

    def f(x):
        y = x + 1
        try:
            bad(y)
        except OSError as error:
            y = y * 2
            print(looked_at(error), [sorted(frame.f_locals) for frame, _ in traceback.walk_tb(error.__traceback__)])
        return y.sin()

    assert graphs_of(f) == 3


def test_exception_of_the_step_in_a_finally_and_a_with_block():
    def f(x):
        y = x + 1
        with contextlib.suppress(OSError), Swallows():
            try:
                open("/nowhere/at/all")
            finally:
                y = y * 2
        return y.sin()

    graphs_of(f)


def test_exception_of_the_step_in_a_loop():
    def f(x):
        for i in range(4):
            try:
                x = x + 1
                if i % 2:
                    open("/nowhere/at/all")
            except OSError:
                x = x * 2
            finally:
                x = x.cos()
        return x

    assert graphs_of(f) == 3


def test_exception_of_the_step_in_a_generator():
    def g(x):
        y = x + 1
        try:
            open("/nowhere/at/all")
        except OSError:
            y = y.cos()
        yield y
        open("/nowhere/at/all")

    def f(x):
        total = x
        try:
            for row in g(x):
                total = total + row
        except OSError as error:
            return total.sin(), looked_at(error)
        return None

    assert graphs_of(f) == 3


def test_raised_again_across_functions():
    def inner(y):
        try:
            raise ValueError("a")
        except ValueError:
            y = y * 2
            print("in inner")
            raise

    def f(x):
        y = x + 1
        try:
            inner(y)
        except ValueError as error:
            y = y * 3
            print(looked_at(error))
        return y.sin()

    assert graphs_of(f) == 3


@pytest.mark.parametrize("cause", [None, KeyError, KeyError("k"), 3])
def test_raising_the_exception_that_is_there(cause):
    def f(x, cause):
        y = x + 1
        try:
            raise ValueError("a")
        except ValueError as error:
            y = y * 2
            print("in the handler")
            try:
                raise error from cause
            except (ValueError, TypeError) as again:
                y = y * 3
                print(looked_at(again), again is error, type(again.__cause__))
        return y.sin()

    assert graphs_of(f, cause) == 3


# ---- frames that the program looks at and keeps


def test_frame_that_is_kept():
    def inner(y):
        kept.append(sys._getframe())
        y = y * 2
        print("in inner")
        last = y + 1
        return last

    def f(x):
        kept.clear()
        z = inner(x + 1).sin()
        frame = kept[0]
        print(sorted(frame.f_locals), frame.f_lineno, frame.f_back is sys._getframe(), frame.f_back.f_lineno)
        return z + frame.f_locals["last"]

    kept = []
    assert graphs_of(f) >= 3


def test_frame_of_the_program_as_result():
    def f(x):
        y = x + 1
        frame = sys._getframe()
        y = y * 2
        print(frame is sys._getframe(), sorted(frame.f_locals))
        z = y + 3
        return z, frame

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        with redirect_stdout(io.StringIO()):
            (want, theirs), (got, mine) = f(X), compiled(X)
        assert torch.equal(got, want)
        assert list(mine.f_locals) == list(theirs.f_locals)
        assert mine.f_lineno == theirs.f_lineno and mine.f_back is theirs.f_back is sys._getframe()
        assert mine.f_locals["frame"] is mine and torch.equal(mine.f_locals["z"], want)


def test_locals_is_the_same_dict():
    def f(x):
        a = x + 1
        names = locals()
        names["extra"] = 1
        b = a * 2
        print("break")
        c = b + 1
        again = locals()
        return again is names, sorted(names), c

    assert graphs_of(f) == 3


# ---- stopped everywhere


def tries(x):
    order = []

    def bad(n):
        held = [n]
        if n == 0:
            raise KeyError(n)
        return held[n]

    for n in range(2):
        try:
            bad(n)
        except KeyError as error:
            order.append((str(error), sys.exc_info()[0].__name__))
            try:
                bad(1)
            except IndexError as other:
                x = x + 1
                order.append((str(other), other.__context__ is error))
        except IndexError:
            order.append("index")
        else:
            order.append("never")
        finally:
            x = x * 2
    return x, order


def leaves(x):
    def inner(t):
        try:
            t = t + 1
            raise ValueError("inner")
        finally:
            t = t * 2
            order.append(t.shape)

    def outer(t):
        try:
            return inner(t)
        except ValueError as error:
            order.append(str(error))
            raise TypeError("outer") from error

    order = []
    try:
        outer(x)
    except TypeError as error:
        order.append((str(error), str(error.__cause__), error.__cause__ is error.__context__))
    outer(x)


def swallows(x):
    order = []

    class Block:
        def __init__(self, swallow):
            self.swallow = swallow

        def __enter__(self):
            order.append("in")
            return self

        def __exit__(self, kind, value, tb):
            order.append((kind and kind.__name__, str(value), tb is not None))
            return self.swallow

    with Block(True):
        x = x + 1
        raise KeyError("swallowed")
    try:
        with Block(False), Block(False):
            x = x * 2
            raise KeyError("passes")
    except KeyError as error:
        order.append(str(error))
    return x, order


PROGRAMS = [tries, leaves, swallows]


test_stopped_at_each_instruction_in_turn, test_stopped_all_the_time = stop_tests(PROGRAMS)
