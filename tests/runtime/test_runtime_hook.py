"""The frame hook: functions called by an eager run are compiled on their own, and nothing else is touched."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest
import torch

import pellucid
from pellucid import _core
from support import same

X = torch.arange(3.0)


@pytest.fixture(autouse=True)
def whole_calls_run_eagerly():
    """What stops, stops as a whole: the hook is all there is."""
    with pellucid.config.patch(continue_after_break=False):
        yield


def block(x):
    return x * 2 + 1


def outer(x):
    x = block(x)
    sys.stdout.write("")
    return block(x)


def test_inner_functions_are_compiled(counting):
    f = pellucid.compile(outer, backend=counting)
    for _ in range(3):
        assert same(f(X), outer(X))
    assert counting.count == 1  # block, once for both calls
    assert not _core.hook_installed()


def test_inner_modules_are_compiled(counting):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def body(self, x):
            return self.b(torch.relu(self.a(x)))

        def forward(self, x):
            sys.stdout.write("")
            return self.body(x)

    net = Net()
    compiled = pellucid.compile(net, backend=counting)
    for _ in range(3):
        assert same(compiled(X), net(X))
    assert counting.count == 1


def test_frames_without_tensors_and_generators_are_left(counting):
    def numbers(n):
        return n + 1

    def stream(x):
        yield x
        yield x + 1

    def f(x):
        sys.stdout.write("")
        return [numbers(3), *stream(x)]

    compiled = pellucid.compile(f, backend=counting)
    for _ in range(3):
        assert same(compiled(X), f(X))
    assert counting.count == 0


def test_disabled_functions_and_what_they_call(counting):
    @pellucid.disable
    def quiet(x):
        return block(x)

    @pellucid.disable(recursive=False)
    def half_quiet(x):
        return block(x)

    def f(x):
        sys.stdout.write("")
        return quiet(x)

    def g(x):
        sys.stdout.write("")
        return half_quiet(x)

    assert same(pellucid.compile(f, backend=counting)(X), block(X))
    assert counting.count == 0
    assert same(pellucid.compile(g, backend=counting)(X), block(X))
    assert counting.count == 1


def test_functions_without_arguments_are_compiled_for_what_they_close_over(counting):
    """A cell is read at each call; one that closes over no tensor is left alone."""
    factor = 2.0

    def f(x, scale):
        def with_tensor():
            return x * scale + factor

        def without():
            return scale + factor

        sys.stdout.write("")
        return call(with_tensor), call(without), call(lambda: sorted([scale, 1.0]))

    @pellucid.disable(recursive=False)
    def call(function):
        return function()

    compiled = pellucid.compile(f, backend=counting)
    for number in range(3):
        assert same(compiled(X + number, 3.0), f(X + number, 3.0))
    factor = 4.0
    assert same(compiled(X, 3.0), f(X, 3.0))
    assert 1 <= counting.count <= 2


def test_exceptions_go_through():
    def raises(x):
        raise KeyError("mine")

    def f(x):
        sys.stdout.write("")
        try:
            raises(x)
        except KeyError as error:
            return x + len(str(error))

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(3):
        assert same(compiled(X), f(X))

    def g(x):
        sys.stdout.write("")
        return raises(x)

    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            pellucid.compile(g, backend="eager")(X)
        assert [entry.name for entry in caught.traceback][-2:] == ["g", "raises"]
    assert not _core.hook_installed()


def test_recursion():
    def down(x, n):
        sys.stdout.write("")
        return x if n == 0 else down(x + 1, n - 1)

    compiled = pellucid.compile(down, backend="eager")
    assert same(compiled(X, 50), X + 50)

    def endless(x):
        sys.stdout.write("")
        return endless(x)

    with pytest.raises(RecursionError):
        pellucid.compile(endless, backend="eager")(X)
    assert not _core.hook_installed()
    assert same(compiled(X, 50), X + 50)


def test_other_threads_pass_through(counting):
    inside, leave, done = threading.Event(), threading.Event(), []

    def waits(x):
        inside.set()
        assert leave.wait(30)
        return block(x)

    f = pellucid.compile(waits, backend=counting)

    def run():
        with pellucid.config.patch(continue_after_break=False):  # the other thread's settings are its own
            done.append(f(X))

    thread = threading.Thread(target=run)
    thread.start()
    assert inside.wait(30)
    installed = _core.hook_installed()
    assert same(block(X), X * 2 + 1)  # on this thread: nothing compiled
    seen = counting.count
    leave.set()
    thread.join(30)
    assert installed and seen == 0 and same(done[0], block(X))
    assert not _core.hook_installed()


@pytest.mark.parametrize("goes_on", [False, True])
def test_tracing_functions_see_everything(goes_on):
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "block":
            events.append(event)
        return tracer

    f = pellucid.compile(outer, backend="eager")
    pellucid.config.continue_after_break = goes_on
    f(X)
    sys.settrace(tracer)
    try:
        f(X)
    finally:
        sys.settrace(None)
    assert events.count("call") == 2 and events.count("return") == 2


def test_hook_is_left_away_when_useless():
    def f(x):
        sys.stdout.write("")
        seen.append(_core.hook_installed())
        return x

    seen = []
    compiled = pellucid.compile(f, backend="eager")
    for _ in range(6):
        compiled(X)
    assert seen[0] and not seen[-1]


# ---- other hooks in the same process: in a process of their own

DYNAMO = """
    import sys, threading, torch, torch._dynamo, pellucid
    from pellucid import _core
    x = torch.arange(3.0)
    def block(x): return x * 2 + 1
    def outer(x):
        sys.stdout.write("")
        return block(x)
    theirs, ours = [], []
    def their_backend(gm, inputs): theirs.append(gm); return gm.forward
    def our_backend(gm, inputs): ours.append(gm); return gm.forward
    want = outer(x)
"""


@pytest.fixture
def run(tmp_path):
    def run(program):
        script = tmp_path / "program.py"  # a file: code from strings is not compiled on its own
        script.write_text(textwrap.dedent(DYNAMO) + textwrap.dedent(program))
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr

    return run


def test_dynamo_beside_us(run):
    run("""
        a = torch.compile(outer, backend=their_backend)
        b = pellucid.compile(outer, backend=our_backend)
        for _ in range(3):
            assert a(x).equal(want) and b(x).equal(want)
        assert theirs and ours and not _core.hook_installed()
    """)


def test_dynamo_inside_ours(run):
    run("""
        a = torch.compile(block, backend=their_backend)
        def f(x):
            sys.stdout.write("")
            return a(x) + block(x)
        b = pellucid.compile(f, backend=our_backend)
        for _ in range(4):
            assert b(x).equal(f(x))
        assert theirs and ours and not _core.hook_installed()
    """)


def test_ours_inside_dynamo(run):
    run("""
        b = pellucid.compile(outer, backend=our_backend)
        @torch.compiler.disable
        def wall(x): return b(x)
        a = torch.compile(lambda x: wall(x + 0) + 1, backend=their_backend)
        for _ in range(4):
            assert a(x).equal(want + 1)
        assert theirs and ours and not _core.hook_installed()
    """)


def test_order_of_removal(run):
    # Ours on, theirs on, ours off, theirs off: on two threads, so that neither is nested in the other.
    run("""
        go = {name: threading.Event() for name in ("ours_on", "theirs_on", "ours_off", "theirs_off")}
        def wait(name): assert go[name].wait(30)
        def ours_body(x):
            go["ours_on"].set(); wait("theirs_on")
            return block(x)
        def theirs_body(x):
            torch._dynamo.graph_break()
            go["theirs_on"].set(); wait("ours_off")
            return block(x)
        results = []
        first = threading.Thread(target=lambda: (results.append(pellucid.compile(ours_body, backend=our_backend)(x)), go["ours_off"].set()))
        first.start(); wait("ours_on")
        second = threading.Thread(target=lambda: results.append(torch.compile(theirs_body, backend=their_backend)(x)))
        second.start()
        first.join(60); second.join(60)
        assert len(results) == 2 and all(r.equal(block(x)) for r in results)
        block(x)                       # the first frame that finds our hook without users removes it
        assert not _core.hook_installed()
        b = pellucid.compile(outer, backend=our_backend)
        a = torch.compile(outer, backend=their_backend)
        for _ in range(3):
            assert a(x).equal(want) and b(x).equal(want)
        assert not _core.hook_installed()
    """)
