"""While pellucid works, code of somebody else may run at any allocation: the garbage collector calls finalisers, and these
may drop compiled code, or change the objects that are being read. Nothing may be followed that is gone by then.

The scenarios run in a process of their own in which every freed byte is overwritten, so that whoever follows a pointer to
something dead does not find it as it was.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

import pellucid
from pellucid import _core
from support import outcome, same

X = torch.arange(3.0)


@contextlib.contextmanager
def collecting(action, after=0):
    """`action` runs at every collection, and nearly every container that is made starts a collection (`after`: the first
    one comes so many containers later)."""

    def called(phase, info):
        if phase == "stop":
            action()

    before = gc.get_threshold()
    gc.callbacks.append(called)
    gc.set_threshold(1 if after == 0 else gc.get_count()[0] + after, 1_000_000, 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(called)


def once(action):
    left = [action]
    return lambda: left and left.pop()()


class Box:
    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)


# ---- compiled code is dropped


def double(x, y):
    return x * 2 + y


def both(size):
    return torch.ones(size), torch.zeros(size)


def reset_while_a_miss_is_explained():
    f = pellucid.compile(double, backend="eager")
    for after in range(1, 40):
        for size in (1, 2, 3):
            f(*both(size))
        with collecting(pellucid.reset, after):
            for size in (4, 5, 1):
                assert same(f(*both(size)), double(*both(size)))


def reset_while_entries_are_shown():
    f = pellucid.compile(double, backend="eager")
    for show in (pellucid.cache_entries, _core.guards_of, _core.guard_failures, _core.break_reasons):
        for size in (1, 2, 3):
            f(*both(size))
        with collecting(pellucid.reset):
            show(f)


def make_adder(k):
    def f(*xs, scale=2.0):
        return xs[0] * scale + k

    return f


def reset_while_a_region_gets_its_closure():
    first, second = make_adder(torch.ones(3)), make_adder(torch.zeros(3))
    a, b = pellucid.compile(first, backend="eager"), pellucid.compile(second, backend="eager")
    for _ in range(3):
        a(X), b(X)
        with collecting(pellucid.reset):
            for _ in range(3):
                assert same(b(X), second(X)) and same(a(X), first(X))


def inner(x):
    return x.sin() + 1


def outer_with_break(x):
    sys.stdout.write("")
    return inner(x) * 2


def reset_while_inner_functions_run():
    f = pellucid.compile(outer_with_break, backend="eager")
    for _ in range(3):
        f(X)
        with collecting(pellucid.reset):
            assert same(f(X), outer_with_break(X))


WIDE = tuple(f"p{i}" for i in range(20))
wide = eval(f"lambda a, {', '.join(f'{name}=1' for name in WIDE)}, *rest: a + {WIDE[-1]}")


def narrow(a, *rest):
    return a + 1


def code_replaced_while_arguments_are_bound():
    for first, second in ((wide, narrow), (narrow, wide)):

        def f(a, *rest):
            return a

        def replace():
            f.__code__ = second.__code__

        f.__code__, f.__defaults__ = first.__code__, wide.__defaults__
        compiled = pellucid.compile(f, backend="eager")
        compiled(X)
        with collecting(once(replace)):
            got = compiled(X, *range(30))
        assert any(same(got, g(X, *range(30))) for g in (first, second))
        assert same(compiled(X), second(X))


# ---- what the guards name dies


def watching():
    """A guard program, and nobody else but a cycle that holds what it watches."""
    from pellucid._core import _guards

    table = _guards.Table()
    watched = Box(n=1)
    watched.me = watched
    rows = [
        ("LENGTH", table.dict_of(table.local(0, "a")), None, 5, None, None, -1, ""),  # the dict is made to look at it
        ("EQUALS_MATCH", table.instance_attr(table.constant(watched), "n"), 1, 0, None, None, -1, ""),
        ("ID_MATCH", table.local(0, "a"), watched, 0, None, None, -1, ""),
        ("DISTINCT", None, (table.local(0, "a"), table.constant(watched)), 0, None, None, -1, ""),
    ]
    return _guards.Program(table, rows, None)


def object_dies_while_a_miss_is_explained():
    for after in range(1, 25):
        for show in (lambda p: p.explain((Box(),)), lambda p: p.describe(), lambda p: p.code_parts()):
            program = watching()
            assert program.alive()
            with collecting(lambda: None, after):
                assert show(program) is not None
            gc.collect()
            assert not program.alive()


class Helper:
    def __init__(self, n):
        self.n = n


class Phoenix:
    kept: list = []

    def __init__(self, owner):
        self.me, self.owner = self, owner

    def __del__(self):
        Phoenix.kept.append(self)


def compiled_code_is_brought_back_by_a_finaliser():
    def build():
        class Local:
            helper = Helper(3)

        def f(x):
            return x * Local.helper.n

        Local.compiled = pellucid.compile(f, backend="eager")
        assert same(Local.compiled(X), X * 3)
        Local.phoenix = Phoenix(Local)

    build()
    gc.collect()
    back = Phoenix.kept.pop().owner
    back.helper = None  # dies, unless the finaliser did not come
    back.helper = Helper(5)
    assert same(back.compiled(X), X * 5)
    assert pellucid.cache_entries(back.compiled)


# ---- what is read changes


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def parameters_replaced_while_inputs_are_loaded():
    model = Deep()
    f = pellucid.compile(model, backend="eager", fullgraph=True)
    x = torch.randn(2, 3)
    f(x)

    def replace():
        for layer in model.layers:
            layer[0].weight = nn.Parameter(torch.randn(3, 3))

    for _ in range(20):
        with collecting(replace):
            f(x)
    assert torch.allclose(f(x), model(x))


def stacked(x, rows):
    return torch.stack(rows).sum(0) + x + len(rows)


def list_emptied_during_capture():
    for count in range(1, 60, 2):
        rows = [X + i for i in range(20)]
        left = [count]

        def empty():
            left[0] -= 1
            if left[0] == 0:
                rows.clear()

        pellucid.reset()
        with collecting(empty):
            got = outcome(pellucid.compile(stacked, backend="eager"), X, rows)
        assert got[0] == "raises" or not rows or same(got[1], X + len(rows) + torch.stack(rows).sum(0))


OPTIONS: dict = {}


def takes(x, **options):
    return x + sum(options.values())


def unpacks(x):
    return takes(x, **OPTIONS) + takes(x, y=2000, **OPTIONS)


def dict_grown_during_capture():
    for count in range(1, 60, 2):
        OPTIONS.clear()
        OPTIONS.update({f"o{i}": 1000 + i for i in range(20)})
        left = [count]

        def grow():
            left[0] -= 1
            if left[0] == 0:
                OPTIONS.clear()
                OPTIONS.update({f"p{i}": 3000 + i for i in range(60)})

        pellucid.reset()
        f = pellucid.compile(unpacks, backend="eager")
        with collecting(grow):
            f(X)
        assert same(f(X), unpacks(X))


class Holder:
    helper = Helper(1000)

    def method(self, x):
        return x + self.helper.n


def reads_class(x):
    return Holder().method(x) * Holder.helper.n


def class_changed_during_capture():
    def replace():
        Holder.helper = Helper(1000 + len(gc.callbacks))

    for _ in range(5):
        pellucid.reset()
        f = pellucid.compile(reads_class, backend="eager")
        with collecting(replace):
            f(X)
        assert same(f(X), reads_class(X))


SCENARIOS = [
    reset_while_a_miss_is_explained,
    reset_while_entries_are_shown,
    reset_while_a_region_gets_its_closure,
    reset_while_inner_functions_run,
    code_replaced_while_arguments_are_bound,
    object_dies_while_a_miss_is_explained,
    compiled_code_is_brought_back_by_a_finaliser,
    parameters_replaced_while_inputs_are_loaded,
    list_emptied_during_capture,
    dict_grown_during_capture,
    class_changed_during_capture,
]


def run_scenarios():
    gc.freeze()  # torch's objects, which would make each collection long
    for scenario in SCENARIOS:
        print(scenario.__name__, flush=True)
        scenario()
        pellucid.reset()


def test_nothing_dead_is_followed():
    here = Path(__file__).parent
    environment = {
        **os.environ,
        "PYTHONMALLOC": "malloc",
        "MALLOC_PERTURB_": "173",
        "PYTHONPATH": os.pathsep.join(map(str, [Path(pellucid.__file__).parent.parent, here, here.parent])),
    }
    program = [sys.executable, "-X", "faulthandler", "-c", "import test_reentrancy; test_reentrancy.run_scenarios()"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"in {done.stdout.splitlines()[-1:]}: {done.stderr[-3000:]}"
    assert done.stdout.split() == [scenario.__name__ for scenario in SCENARIOS]


# ---- the same without dead objects


def test_code_replaced_while_the_backend_runs():
    def f(x, y):
        return x + y

    def g(x):
        return x * 2

    def backend(gm, inputs):
        f.__code__ = g.__code__
        return gm.forward

    compiled = pellucid.compile(f, backend=backend)
    assert same(compiled(X, X + 1), X + X + 1)
    assert same(compiled(X), X * 2)
