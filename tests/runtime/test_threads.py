"""Several threads call and compile the same and different functions: results are right, nothing crashes, nothing hangs."""

from __future__ import annotations

import collections
import importlib
import pathlib
import re
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import pytest
import torch
from torch import nn

import pellucid
from support import same
from support.threads import run_threads

pytestmark = pytest.mark.usefixtures("quick_switches")


class Block(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first, self.norm, self.last = (
            nn.Linear(width, 2 * width),
            nn.LayerNorm(2 * width),
            nn.Linear(2 * width, width),
        )

    def forward(self, x, scale=1.0):
        return x + self.last(torch.relu(self.norm(self.first(x)))) * scale


def branches(x, flag=False, *, count=2):
    parts = {str(i): x * i for i in range(count)}
    if flag:
        parts["flag"] = x - 1
    return [parts[name] for name in sorted(parts)], len(parts)


def with_modes(x):
    with torch.no_grad():
        y = x * 2
    return y, torch.is_grad_enabled(), y + x


def raises_on(x, bad):
    y = x + 1
    if bad:
        raise ValueError("bad")
    return y


def helper(x):
    return (x * 3).sin()


def breaks(x):
    y = helper(x)
    sys.stdout.write("")
    return helper(y) + 1


@pytest.mark.parametrize("threads", [2, 8])
def test_one_function_with_many_signatures(threads):
    f = pellucid.compile(branches, backend="eager")

    def work(i):
        for k in range(60):
            bits = k + 3 * i
            x, flag, count = torch.full((1 + bits % 2,), float(i)), bits // 2 % 2 == 0, 2 + bits // 4 % 2
            assert same(f(x, flag, count=count), branches(x, flag, count=count))

    run_threads(threads, work)
    # A call runs eagerly while another thread compiles the function, so some signature may have had only such calls.
    assert len(pellucid.cache_entries(f)) <= 8
    for bits in range(8):
        x, flag, count = torch.ones(1 + bits % 2), bits // 2 % 2 == 0, 2 + bits // 4 % 2
        assert same(f(x, flag, count=count), branches(x, flag, count=count))
    assert len(pellucid.cache_entries(f)) == 8  # one for each signature: no thread's work is done twice or lost


@pytest.mark.parametrize("threads", [2, 8])
def test_one_module(threads):
    model = Block()
    f = pellucid.compile(model, backend="eager")

    def work(i):
        for k in range(30):
            x = torch.randn(1 + (i + k) % 4, 6)
            assert same(f(x), model(x))

    run_threads(threads, work)


@pytest.mark.parametrize("threads", [2, 8])
def test_their_own_models(threads):
    def work(i):
        for k in range(6):
            model = Block(4 + i)
            f = pellucid.compile(model, backend="eager", fullgraph=True)
            x = torch.randn(2, 4 + i, requires_grad=True)
            got, want = f(x, 0.5 * k), model(x, 0.5 * k)
            assert torch.equal(got, want)
            assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (got, want)))

    run_threads(threads, work)


@pytest.mark.parametrize("threads", [2, 8])
def test_modes_belong_to_their_thread(threads):
    f = pellucid.compile(with_modes, backend="eager")

    def work(i):
        for k in range(50):
            x = torch.ones(2, requires_grad=True)
            with torch.set_grad_enabled((i + k) % 2 == 0):
                got, want = f(x), with_modes(x)
                assert got[1] is want[1] and [y.requires_grad for y in got[::2]] == [y.requires_grad for y in want[::2]]
                assert torch.is_grad_enabled() is ((i + k) % 2 == 0)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=i % 2 == 0):
                assert same(f(x)[0], with_modes(x)[0])

    run_threads(threads, work)


@pytest.mark.parametrize("threads", [2, 8])
def test_exceptions(threads):
    f = pellucid.compile(raises_on, backend="eager")

    def work(i):
        for k in range(60):
            x = torch.full((1 + k % 2,), float(i))
            if (i + k) % 3 == 0:
                with pytest.raises(ValueError, match="bad"):
                    f(x, True)
            else:
                assert same(f(x, False), x + 1)

    run_threads(threads, work)


@pytest.mark.parametrize("threads", [2, 8])
def test_breaks_with_the_frame_hook(threads):
    """The hook is installed and left by several threads at once, while others compile."""
    f = pellucid.compile(breaks, backend="eager")
    g = pellucid.compile(branches, backend="eager")

    def work(i):
        own = pellucid.compile(lambda x: breaks(x) + i, backend="eager")
        for k in range(40):
            x = torch.full((1 + k % 2,), float(i))
            assert same(f(x), breaks(x))
            assert same(g(x), branches(x))
            assert same(own(x), breaks(x) + i)

    run_threads(threads, work)
    assert not pellucid._core.hook_installed()


def test_reset_and_drop_while_others_call():
    f = pellucid.compile(branches, backend="eager")
    g = pellucid.compile(breaks, backend="eager")

    def work(i):
        for k in range(60):
            if i == 0 and k % 3 == 0:
                pellucid.reset()
            x = torch.ones(k % 3 + 1)
            assert same(f(x), branches(x)) and same(g(x), breaks(x))
            assert same(pellucid.compile(helper, backend="eager")(x), helper(x))
            pellucid.cache_entries(f), pellucid.guard_failures(f), pellucid.break_reasons(), pellucid.counters()

    run_threads(4, work)


def test_what_guards_read_changes_on_another_thread():
    """Each thread has its own settings object; the function is shared."""

    class Settings:
        scale = 1

    def f(x, settings):
        return x * settings.scale

    compiled = pellucid.compile(f, backend="eager")

    def work(i):
        settings = Settings()
        for k in range(60):
            settings.scale = (i + k) % 3
            x = torch.ones(2)
            assert same(compiled(x, settings), x * ((i + k) % 3))

    run_threads(4, work)


@pytest.mark.parametrize("aot_loaded", [False, True])
def test_backends_that_wait_for_each_other(aot_loaded):
    """A backend that lets other threads run: compiles overlap, also once a backend might call AOTAutograd."""
    if aot_loaded:
        importlib.import_module("torch._functorch.aot_autograd")
    both = threading.Barrier(2)

    def backend(gm, inputs):
        both.wait(30)
        return gm.forward

    fs = [pellucid.compile(f, backend=backend) for f in (lambda x: x + 0, lambda x: x + 1)]

    def work(i):
        x = torch.ones(2)
        assert same(fs[i](x), x + i)
        assert same(fs[i](x), x + i)

    run_threads(2, work)


def test_backends_that_trace_take_turns():
    """A callable that calls AOTAutograd: no two of them, and no compile of torch._dynamo, trace at once."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.convert_frame import compile_lock

    tracing, most = [], []

    def compiler(gm, inputs):
        tracing.append(gm)
        most.append(len(tracing))
        time.sleep(0.05)  # lets the other threads run
        assert compile_lock._is_owned()
        tracing.pop()
        return gm.forward

    def backend(gm, inputs):
        return aot_autograd(fw_compiler=compiler)(gm, inputs)

    functions = [lambda x: x * 0, lambda x: x * 1, lambda x: x * 2, lambda x: x * 3]
    fs = [pellucid.compile(f, backend=backend) for f in functions]

    def work(i):
        for size in (1, 2):
            x = torch.ones(size)
            assert same(fs[i](x), x * i)

    run_threads(4, work)
    assert len(most) == 8 and set(most) == {1}


def test_first_use_on_several_threads():
    """Everything that is set up at the first compile and by the first sizes that change, at once: in a fresh process."""
    program = """
        import sys, threading
        sys.setswitchinterval(1e-6)
        import torch, pellucid
        from torch import nn
        start = threading.Barrier(8)
        bad = []
        def run(i):
            start.wait()
            for _ in range(3):
                net = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Dropout(0.0))
                def f(x, n):
                    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False), torch.no_grad():
                        return {"y": net(x)[0] + n, "l": sorted([3, n]), "half": x[: len(x) // 2] * n}
                compiled = pellucid.compile(f, backend="eager")
                for size in 2, 4, 5:
                    x = torch.ones(size, 3)
                    got, want = compiled(x, i + size), f(x, i + size)
                    if not all(torch.equal(got[key], want[key]) for key in ("y", "half")) or got["l"] != want["l"]:
                        bad.append((got, want))
        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(8)]
        [t.start() for t in threads]
        [t.join(100) for t in threads]
        assert not any(t.is_alive() for t in threads), "a thread hangs"
        assert not bad, bad
        print("fine")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=150)
    assert done.stdout.strip() == "fine", done.stderr[-2000:]


def test_aot_eager_on_several_threads():
    """AOTAutograd patches nn.Module for the whole process while it traces; others compile with "eager" meanwhile."""

    def work(i):
        for k in range(4):
            model = Block(4 + i)
            f = pellucid.compile(model, backend="aot_eager" if i % 2 == 0 else "eager", fullgraph=True)
            for _ in range(2):
                x = torch.randn(2, 4 + i, requires_grad=True)
                got, want = f(x, 0.5 * k), model(x, 0.5 * k)
                assert torch.equal(got, want)
                assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (got, want)))

    run_threads(6, work)


def test_core_imports_nothing_while_it_captures():
    """An import runs Python: a thread that makes a table of the core for all would let others wait for it with the GIL held."""
    sources = pathlib.Path(__file__).parents[2] / "src"
    named = {
        name
        for file in sources.rglob("*.cpp")
        for name in re.findall(
            r'\b(?:import_attr|held_function|module_named|module_if_any)\("([\w.]+)"', file.read_text()
        )
    }
    assert {"pellucid.polyfills_torch", "operator"} <= named
    program = f"import sys, pellucid; print(*sorted({named!r} - set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150)
    assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.slow
def test_torch_compile_beside_us():
    ours, theirs = pellucid.compile(breaks, backend="eager"), torch.compile(breaks, backend="eager")
    model = Block()
    our_model, their_model = pellucid.compile(model, backend="aot_eager"), torch.compile(model, backend="eager")
    our_model(
        torch.randn(2, 6)
    )  # while AOTAutograd traces, torch.compile's own modules cannot be called on other threads
    lock = threading.Lock()  # torch._dynamo does not compile on two threads at once

    def work(i):
        for k in range(10):
            x, y = torch.ones(1 + k % 2), torch.randn(2, 6)
            if i % 2 == 0:
                assert same(ours(x), breaks(x)) and torch.equal(our_model(y), model(y))
            else:
                with lock:
                    assert same(theirs(x), breaks(x)) and torch.equal(their_model(y), model(y))

    run_threads(4, work)
    assert same(ours(torch.ones(2)), theirs(torch.ones(2)))


class Odd:
    pass


def over_list(x, rows):
    for row in rows:
        x = x + row[0]
    return x, rows[3], [row[1] for row in rows]


def over_dict(x, rows):
    by_name = rows[0][2]
    for _, value in by_name.items():
        x = x + value
    return x, by_name["a"], [by_name["b"]]


def over_deque(x, rows):
    queue = rows[0][3]
    for value in queue:
        x = x + value
    return x, queue[0], [queue[1]]


@pytest.mark.parametrize("f", [over_list, over_dict, over_deque])
def test_memory_reused_by_other_threads(f):
    """What capture still refers to when it emits code must be alive: other threads take every freed object at once."""
    x = torch.ones(3)
    rows = [[x * i, object(), {"a": x * i + 1, "b": x * 2 * i}, collections.deque([x + i, x * 3])] for i in range(6)]
    want = f(x, rows)
    stop = threading.Event()

    def allocate():
        while not stop.is_set():
            kept = []
            for n in range(300):
                odd = Odd()
                odd.cycle = [odd, n]
                kept.append({n: odd})

    threads = [threading.Thread(target=allocate) for _ in range(2)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for _ in range(150):
            pellucid.reset()
            got = pellucid.compile(f, backend="eager", fullgraph=True)(x, rows)
            assert torch.equal(got[0], want[0]) and got[1] is want[1] and got[2][0] is want[2][0]
    finally:
        sys.setswitchinterval(before)
        stop.set()
        for thread in threads:
            thread.join()


def test_other_threads_keep_their_filters_while_a_pattern_is_compiled():
    raised, over = [], threading.Event()

    def warn():
        while not over.is_set():
            try:
                warnings.warn("here", stacklevel=1)
            except UserWarning as error:
                raised.append(error)

    def f(x, text):
        return x + len(re.compile(text).pattern)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=warn)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            thread.start()
            for i in range(20):
                text = "a" * i + "(b|c)*" * 30
                compiled = pellucid.compile(f, backend="eager")
                assert torch.equal(compiled(torch.ones(2), text), torch.ones(2) + len(text))
                assert pellucid.cache_entries(compiled)
            over.set()
            thread.join()
    finally:
        over.set()
        sys.setswitchinterval(before)
    assert not raised
