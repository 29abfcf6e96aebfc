"""PYTEST_DONT_REWRITE: programs contain `assert`.

with, try, raise and finally, and the modes of torch as blocks.
"""

import contextlib

import pytest
import torch

from support.programs import Programs, check

PROGRAMS = program = Programs()


# ---- with, try


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(getattr(kind, "__name__", None))
        return self.swallow


@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield 5
    except KeyError:
        log.append("caught")
    finally:
        log.append("out")


@program
def with_blocks(s, x):
    with Manager(s.log) as m, managed(s.log) as five:
        x = x + five
    with Manager(s.log, swallow=True):
        raise ValueError("gone")
    with managed(s.log):
        raise KeyError("k")
    with contextlib.suppress(ZeroDivisionError):
        x = x + 1 / 0
    with contextlib.nullcontext(3) as three:
        x = x * three
    return x, m.swallow


@program
def with_that_raises(s, x):
    try:
        with Manager(s.log):
            s.items.append(4)
            raise ValueError("up")
    except ValueError as error:
        s.log.append(str(error))
    return x


@program
def with_return(s, x):
    for _ in range(2):
        with Manager(s.log):
            return x + 1
    return x


@program.breaks
def grad_modes(s, x):
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        a = w * x
        with torch.enable_grad():
            b = w * x
    with torch.set_grad_enabled(False):
        c = w * 2
    return a, b, c, w * 3, torch.is_grad_enabled()


@program
def autocast(s, x):
    m = torch.ones(3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = m @ m
        with torch.autocast("cpu", enabled=False):
            b = m @ m
    return a, b, m @ m


@program.breaks
def inference_mode(s, x):
    with torch.inference_mode():
        y = x * 2
    return y + 1


@torch.no_grad()
def without_grad(w):
    return w * 2


@program.breaks
def no_grad_as_a_decorator(s, x):
    w = torch.ones(3, requires_grad=True)
    return without_grad(w), w * x


@program
def exceptions(s, x):
    out = []
    for kind in range(4):
        try:
            if kind == 0:
                raise ValueError("v")
            if kind == 1:
                {}["k"]
            if kind == 2:
                [][1]
        except ValueError as error:
            out.append(error.args)
        except (KeyError, IndexError) as error:
            out.append(type(error).__name__)
        else:
            out.append("else")
        finally:
            out.append(kind)
    return out, x + 1


class Custom(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


@program
def nested_exceptions(s, x):
    def fails():
        try:
            raise Custom(3)
        finally:
            s.log.append("cleaned")

    try:
        try:
            fails()
        except Custom as error:
            raise RuntimeError("outer") from error
    except RuntimeError as error:
        return error.__cause__.code, str(error.__cause__), x


@program
def reraise(s, x):
    try:
        try:
            assert len(s.items) > 100, "too few"
        except AssertionError:
            s.log.append("seen")
            raise
    except AssertionError as error:
        return str(error), x


@program
def finally_returns(s, x):
    def f():
        try:
            return 1
        finally:
            s.log.append("f")

    def g():
        for i in range(3):
            try:
                continue
            finally:
                s.log.append(i)
        return 2

    return f(), g(), x


@program.breaks
def raises_out(s, x):
    s.items.append(x)
    s.n += 1
    raise Custom(s.n)


@program.breaks
def raises_half_way(s, x):
    y = x + 1
    s.log.append(1)
    s.table["t"] = y
    return y + s.missing


class ContextFlag:
    value = 3


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_same_as_eager(f):
    check(f, computes=False)
