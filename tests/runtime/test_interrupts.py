"""What a signal's handler raises, or another thread sends, ends the call in which it arrives, whatever goes on in it: capture, the
building of guards, the hand-off to the backend, emission, a real step. It is raised once, nothing of a region happens twice,
and the next call is right.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import functools
import gc
import signal
import sys
import threading
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode

import pellucid
from pellucid.errors import BackendCompilerFailed
from support import Counting
from support.unit import UNIT


class Alarm(Exception):
    """What the program's own handler raises: an exception like any other."""


def raise_alarm(number, frame):
    raise Alarm(number)


# ---- programs: (function, function that makes its arguments and what it changes)


def one_graph(x, log, table):
    log.append(len(log))
    table[f"n{len(log)}"] = sorted(table, key=lambda key: -table[key])[0] if table else 0
    total = sum(i * 2 for i in range(5))
    return {"y": torch.sin(x) * total, "log": list(log)}


def with_handlers(x, log, table):
    """Whatever capture mistakes for an exception of the program would be caught here."""
    for name in ("a", "b"):
        try:
            x = x + int(name, 16) + getattr(x, "missing", 1)
            table[name] = [*map(str, range(3))]
            table[name].index("9")
        except Exception as error:
            log.append(type(error).__name__)
    return torch.cat([x, x]).reshape(2, -1)


def with_break(x, log, table):
    log.append("before")
    y = x * 2
    print(end="")
    try:
        log.append("between")
        y = y + 1
        sys.getrefcount(log)
    finally:
        table["finally"] = table.get("finally", 0) + 1
    log.append("after")
    return y


PROGRAMS = [one_graph, with_handlers, with_break]


def fresh_state():
    return torch.ones(3), [], {}


def state_after(f, calls=1):
    x, log, table = fresh_state()
    values = [f(x, log, table) for _ in range(calls)]
    return (
        [
            v.tolist()
            if isinstance(v, torch.Tensor)
            else {k: getattr(w, "tolist", lambda w=w: w)() for k, w in v.items()}
            for v in values
        ],
        log,
        table,
    )


KINDS = {
    "KeyboardInterrupt": (signal.SIGINT, KeyboardInterrupt),
    "Alarm": (signal.SIGUSR1, Alarm),
    "sent": (Alarm, Alarm),
}


@pytest.fixture(autouse=True)
def handlers():
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGUSR1: signal.signal(signal.SIGUSR1, raise_alarm),
    }
    yield
    UNIT.allocations()
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupted(f, state, at, what):
    """("value", v) or ("raises", type) of a call in which `what` arrives at the allocation `at`; whether it was early enough."""
    x, log, table = state
    counted = 0
    try:
        UNIT.interrupt_at(at, what)
        value = f(x, log, table)
        counted = UNIT.allocations()
        for _ in range(3):
            pass  # what arrived at the very end is raised here
        return ("value", value), counted
    except BaseException as error:
        UNIT.allocations()
        return ("raises", type(error)), counted


@contextlib.contextmanager
def without_foreign_garbage():
    """Finalizers of what other tests left behind would run in the middle, and some drop every exception."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def unraisable():
    """The classes of exceptions that were raised where CPython can hand none on: in a finalizer or in the callback of a weak
    reference, which the collector runs at whatever allocation it is its turn (of garbage that other tests left, too).
    """
    classes, before = [], sys.unraisablehook
    sys.unraisablehook = lambda what: classes.append(what.exc_type)
    try:
        yield classes
    finally:
        sys.unraisablehook = before


def check_every_step(program, kind, prepared, most):
    """`prepared()`: a compiled form of the program and how often it was called with one state."""
    with without_foreign_garbage():
        return checked_steps(program, kind, prepared, most)


def checked_steps(program, kind, prepared, most):
    what, expected = KINDS[kind]
    wanted = {calls: state_after(program, calls) for calls in (1, 2)}
    state_after(prepared())  # what is set up once
    total = min(interrupted(prepared(), fresh_state(), 0, what)[1] for _ in range(5))
    tried = raised = 0
    for at in range(1, total, max(1, total // most)):
        f = prepared()
        state = fresh_state()
        with unraisable() as lost:
            (how, got), made = interrupted(f, state, at, what)
        if how == "value" and lost == [expected]:
            continue  # CPython itself had nobody to raise it to
        tried += 1
        if how == "value" and made < at:
            continue  # the call was shorter this time
        assert how == "raises" and got is expected, (at, made, how, got, lost)
        raised += 1
        _, log, table = state
        assert log == wanted[1][1][: len(log)], (at, log)
        assert table.get("finally", 0) <= 1, at
        assert state_after(f, 2) == wanted[2], at
    assert raised > 0.9 * tried
    return raised


class Cyclic:
    """Refers to itself: only the collector frees it."""

    def __init__(self):
        self.itself = self


def test_garbage_whose_callbacks_run_python(monkeypatch):
    """Callbacks of weak references run Python in the middle of a call: what is raised in these, CPython reports and drops."""
    ran, dropped, references = [], [], []

    def prepared():
        pellucid.reset()
        compiled = pellucid.compile(with_break, backend="eager")

        def after_garbage(*args):
            gc.collect()
            references[:] = [weakref.ref(Cyclic(), lambda _: ran.append([*map(str, range(30))])) for _ in range(100)]
            return compiled(*args)

        return after_garbage

    @contextlib.contextmanager
    def counted(unraisable=unraisable):
        with unraisable() as lost:
            yield lost
        dropped.extend(lost)

    monkeypatch.setitem(globals(), "unraisable", counted)
    before = gc.get_threshold()
    gc.set_threshold(350, 1, 1)  # more than the garbage: the collector runs in the call behind it
    try:
        assert check_every_step(with_break, "sent", prepared, 150) > 5
    finally:
        gc.set_threshold(*before)
    assert ran and dropped


@pytest.mark.parametrize("backend", ["eager", "graphs"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_at_every_step_of_a_first_call(program, kind, backend):
    counting = Counting()

    def prepared():
        pellucid.reset()
        return pellucid.compile(program, backend="eager" if backend == "eager" else counting)

    assert check_every_step(program, kind, prepared, 200) > 70
    assert (counting.count > 0) == (backend == "graphs")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_at_every_step_of_a_cached_call(program, kind):
    def prepared():
        pellucid.reset()
        f = pellucid.compile(program, backend="eager")
        f(*fresh_state())
        return f

    assert check_every_step(program, kind, prepared, 100) > 3


@pytest.mark.parametrize("kind", KINDS)
def test_at_every_step_under_a_mode_of_the_user(kind):
    """Nothing is compiled there, but the reason is found out."""

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    def prepared():
        pellucid.reset()
        compiled = pellucid.compile(one_graph, backend="eager")

        def call(*args):
            try:
                with Mode():
                    return compiled(*args)
            finally:  # torch's own bookkeeping can be interrupted
                while torch._C._len_torch_dispatch_stack() > 0:
                    _pop_mode()

        return call

    assert check_every_step(one_graph, kind, prepared, 200) > 30


# ---- capture


def test_an_endless_capture_ends():
    """Nothing of the program runs while it is captured, but a signal gets through."""

    def program(x):
        count = 0
        while x is not None:
            count += 1
        return x

    signal.signal(signal.SIGALRM, raise_alarm)
    with pellucid.config.patch(region_limit=10**9):
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            with pytest.raises(Alarm):
                pellucid.compile(program, backend="eager")(torch.ones(1))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_handler_that_changes_what_was_captured():
    """It runs between two steps of capture, as it would between two instructions; guards tell that what was captured is past."""

    class State:
        wanted = 1

    def handler(number, frame):
        State.wanted = 2
        seen.append(number)

    def program(x):
        wanted = State.wanted
        return x + len(["a", wanted]) - 2 + wanted

    seen: list = []
    signal.signal(signal.SIGUSR1, handler)
    for at in range(1, 60, 7):
        f = pellucid.compile(program, backend="eager")
        UNIT.interrupt_at(at, signal.SIGUSR1)
        first = f(torch.zeros(1)).item()
        UNIT.allocations()
        assert first in (1, 2) and State.wanted == 2
        assert f(torch.zeros(1)).item() == 2
        State.wanted = 1
        pellucid.reset()
    assert len(seen) == 9


def test_sent_by_a_thread():
    def program(x):
        total = 0
        for i in range(100_000):
            total += i % 7
        return x + total

    f = pellucid.compile(program, backend="eager")
    here = threading.get_ident()

    def send():
        while not started.wait(1):
            pass
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(here), ctypes.py_object(Alarm))

    started = threading.Event()
    thread = threading.Thread(target=send)
    thread.start()

    def calls():
        started.set()
        for _ in range(10_000):
            f(torch.zeros(1))
            pellucid.reset()

    with pytest.raises(Alarm):
        calls()
    thread.join()
    assert f(torch.zeros(1)).item() == program(torch.zeros(1)).item()


# ---- the backend


def backend_that(does):
    def backend(gm, inputs):
        does()
        return gm.forward

    return backend


def wraps():
    try:
        signal.raise_signal(signal.SIGUSR1)
    except Alarm as error:
        raise ValueError("no kernel") from error


def is_interrupted():
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.parametrize("suppress", [False, True])
@pytest.mark.parametrize("does", [is_interrupted, wraps])
def test_the_backend_is_no_failure(does, suppress):
    """Nor does suppress_errors let the call go on; what it makes of the exception counts as the exception."""
    calls: list = []

    def once():
        calls.append(does)
        if len(calls) == 1:
            does()

    f = pellucid.compile(lambda x: x + 1, backend=backend_that(once))
    with pellucid.config.patch(suppress_errors=suppress), pytest.raises(Alarm):
        f(torch.ones(1))
    assert f(torch.ones(1)).item() == 2 and len(calls) == 2


@pytest.mark.parametrize("handler", ["partial", "method", "object", "closure", "rest"])
def test_any_handler_is_known(handler):
    class Handler:
        def method(self, number, frame):
            raise Alarm

    class Callable:
        def __call__(self, number, frame):
            raise Alarm

    def three(first, number, frame):
        raise Alarm

    def closure(number, frame):
        def look():
            return frame

        raise Alarm(look)

    def rest(*_):
        raise Alarm

    made = {
        "partial": functools.partial(three, 1),
        "method": Handler().method,
        "object": Callable(),
        "closure": closure,
        "rest": rest,
    }
    signal.signal(signal.SIGUSR1, made[handler])
    with pytest.raises(Alarm):
        pellucid.compile(lambda x: x + 1, backend=backend_that(is_interrupted))(torch.ones(1))


def test_what_the_backend_catches_is_its_own():
    def catches():
        with contextlib.suppress(Alarm):
            signal.raise_signal(signal.SIGUSR1)
        caught.append(True)

    caught: list = []
    f = pellucid.compile(lambda x: x + 1, backend=backend_that(catches))
    assert f(torch.ones(1)).item() == 2 and caught == [True]


def test_a_failure_of_the_backend_is_still_one():
    def fails():
        raise Alarm

    with pytest.raises(BackendCompilerFailed):
        pellucid.compile(lambda x: x + 1, backend=backend_that(fails))(torch.ones(1))


def test_the_backend_may_set_handlers():
    """The thread is the main thread there, and after the call."""
    f = pellucid.compile(lambda x: x + 1, backend=backend_that(lambda: signal.signal(signal.SIGUSR1, raise_alarm)))
    assert f(torch.ones(1)).item() == 2
    signal.signal(signal.SIGUSR1, raise_alarm)


def test_an_opaque_graph():
    """What the graph raises and eager does not is reported, and the call goes on; a handler's exception is neither."""

    def backend(gm, inputs):
        def run(*args):
            if armed:
                armed.pop()
                signal.raise_signal(signal.SIGUSR1)
            return gm.forward(*args)

        return run

    armed: list = []
    f = pellucid.compile(lambda x: x + 1, backend=backend)
    assert f(torch.ones(1)).item() == 2
    armed.append(True)
    with pytest.raises(Alarm):
        f(torch.ones(1))
    assert f(torch.ones(1)).item() == 2


# ---- imports


def test_an_import_that_happens_in_capture(tmp_path, monkeypatch):
    """Handlers run in the module's own code; the program's `except` around the import is not asked: it did not run."""
    (tmp_path / "interrupted_module.py").write_text(
        "import signal, builtins\nif not hasattr(builtins, 'interrupted_once'):\n    builtins.interrupted_once = True\n"
        "    signal.raise_signal(signal.SIGUSR1)\nsignal.signal(signal.SIGUSR2, signal.SIG_DFL)\nvalue = 5\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def program(x):
        try:
            import interrupted_module
        except Exception:
            return x
        return x + interrupted_module.value

    f = pellucid.compile(program, backend="eager", fullgraph=True)
    try:
        with pytest.raises(Alarm):
            f(torch.zeros(1))
        assert f(torch.zeros(1)).item() == 5
    finally:
        sys.modules.pop("interrupted_module", None)
        if hasattr(builtins, "interrupted_once"):
            del builtins.interrupted_once
