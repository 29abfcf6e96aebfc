"""Code that runs at capture time: `pellucid.comptime`, and `torch._dynamo.comptime` without and with `install()`."""

from __future__ import annotations

import io
import signal
import sys
import threading
import time

import pytest
import torch
from torch._dynamo.comptime import comptime as of_torch

import pellucid
from pellucid import comptime, errors
from support import Counting

X = torch.arange(4.0)


@pytest.fixture(autouse=True)
def fresh():
    pellucid.reset()
    torch._dynamo.reset()
    yield
    pellucid.reset()
    torch._dynamo.reset()


def compiled(f, **more):
    return pellucid.compile(f, **{"backend": "eager", "fullgraph": True, **more})


def printed(function, *args):
    """What a method of the context prints, here and now; the result of the call, and what a second call prints."""
    texts = []

    def ask(ctx):
        out = io.StringIO()
        function(ctx, out)
        texts.append(out.getvalue())

    def inner(x):
        z = x * 2
        comptime(ask)
        return z

    def outer(x, n, options):
        y = x.sin()
        options["seen"] = [y, n]
        return inner(y) + 1

    f = compiled(outer)
    for _ in range(2):
        assert torch.equal(f(X, 3, {}), X.sin() * 2 + 1)
    assert len(texts) == 1
    return texts[0]


def test_it_runs_at_capture_and_at_no_call():
    seen = []

    def f(x):
        comptime(lambda ctx: seen.append(ctx.get_local("x").size(0)), lambda: seen.append("eager"))
        return x + 1

    g = compiled(f)
    for _ in range(3):
        assert torch.equal(g(X), X + 1)
    assert seen == [4]
    g(torch.ones(2, 3))  # another capture
    assert seen == [4, 2]
    f(X)
    assert seen == [4, 2, "eager"]


def test_eager_runs_of_a_compiled_function_take_the_fallback():
    seen = []

    def f(x):
        comptime(lambda ctx: seen.append("captured"), lambda: seen.append("eager"))
        return x + 1

    with pellucid.set_stance("force_eager"):
        compiled(f)(X)
    assert seen == ["eager"]


def test_print_graph():
    code = printed(lambda ctx, out: ctx.print_graph(file=out))
    assert "sin()" in code and "* 2" in code and "return" not in code
    assert "+ 1" not in code  # comes later


def test_graph_is_one_of_torch_fx():
    targets = []

    def f(x):
        y = x.sin() * 2
        comptime(lambda ctx: targets.extend(node.op for node in ctx.graph().nodes))
        return y

    compiled(f)(X)
    assert targets == ["placeholder", "call_method", "call_function"]


def test_print_guards():
    lines = printed(lambda ctx, out: ctx.print_guards(file=out)).splitlines()
    assert any(line.startswith("TENSOR_MATCH L['x'] f32[4] cpu") and "test_comptime.py" in line for line in lines)
    assert any(line.startswith("TYPE_MATCH L['options'] type dict") for line in lines)


def test_printed_guards_say_what_the_finished_region_says():
    rows = []

    def f(x, n, flag, items):
        y = x * n if flag else x
        y = y + len(items)
        comptime(lambda ctx: rows.extend(_printed_guards(ctx)))
        return y

    compiled(f)(X, 2.5, True, ["a", "b"])
    finished = {str(guard) for guard in pellucid.show(f)(X, 2.5, True, ["a", "b"]).regions[0].guards}
    kinds = {row.split()[0] for row in rows}
    assert {"TENSOR_MATCH", "EQUALS_MATCH", "LENGTH_MATCH"} & kinds
    words = {row.split("  # ")[0] for row in rows if "0x" not in row}
    assert words <= {row.split("  # ")[0] for row in finished}


def _printed_guards(ctx):
    out = io.StringIO()
    ctx.print_guards(file=out)
    return out.getvalue().splitlines()


def test_print_bt_and_parents():
    text = printed(lambda ctx, out: ctx.print_bt(file=out))
    assert text.index("in outer") < text.index("in inner") and "comptime(ask)" in text
    assert "in inner" not in printed(lambda ctx, out: ctx.print_bt(file=out, stacklevel=1))
    assert "in inner" not in printed(lambda ctx, out: ctx.parent().print_bt(file=out))


def test_print_locals():
    assert printed(lambda ctx, out: ctx.print_locals(file=out)).splitlines()[:2] == [
        "x = %y: Tensor(float32[4], cpu)",
        "z = %z: Tensor(float32[4], cpu)",
    ]
    outer = printed(lambda ctx, out: ctx.print_locals(file=out, stacklevel=1)).splitlines()
    assert "x = %l_x_: Tensor(float32[4], cpu)" in outer
    assert "n = 3" in outer
    assert "options = {'seen': [%y: Tensor(float32[4], cpu), 3]}" in outer


def test_print_disas_marks_where_it_stands():
    text = printed(lambda ctx, out: ctx.print_disas(file=out))
    (line,) = [line for line in text.splitlines() if "-->" in line]
    assert "CALL" in line
    assert "STORE_SUBSCR" in printed(lambda ctx, out: ctx.print_disas(file=out, stacklevel=1))


def test_print_value_stack(capsys):
    def f(x, n):
        return n + (x - comptime.print_value_stack_and_return(7))

    assert torch.equal(compiled(f)(X, 3), 3 + (X - 7))
    assert capsys.readouterr().out == "- 3\n- Tensor(float32[4], cpu)\n"


def test_short_forms_print(capsys):
    def f(x, n):
        y = x + n
        comptime.print(y)
        comptime.print(n)
        comptime.print_locals()
        comptime.print_bt()
        comptime.print_graph()
        comptime.print_guards()
        comptime.print_disas()
        comptime.print_value_stack()
        return y

    compiled(f)(X, 2)
    text = capsys.readouterr().out
    assert text.startswith("%y: Tensor(float32[4], cpu)\n2\nx = ")
    for part in ("in f", "def forward", "TENSOR_MATCH", "-->"):
        assert part in text
    f(X, 2)  # plain Python prints the values alone
    assert capsys.readouterr().out == f"{X + 2}\n2\n"


def test_looking_fixes_nothing():
    """Numbers and sizes that are printed stay open: one graph fewer than with a guard on them."""
    texts = []

    def f(x, n):
        comptime(lambda ctx: texts.append(repr(ctx.get_local("n"))))
        comptime.print(n)
        return x * n

    backend = Counting()
    g = pellucid.compile(f, backend=backend, dynamic=True)
    for n in (2, 3, 4, 5):
        g(X, n)
    assert len(backend.graphs) == 1
    assert texts == ["L['n'] (an open int, now 2)"]


@pytest.mark.parametrize("of", [comptime, of_torch], ids=["ours", "torch's"])
def test_force_static_and_assert_static(of):
    def f(x, n):
        of.force_static(n)
        of.assert_static(n)
        return x * n

    backend = Counting()
    g = pellucid.compile(f, backend=backend, dynamic=True)
    for n in (2, 3, 2, 3):
        assert torch.equal(g(X, n), X * n)
    assert len(backend.graphs) == 2


@pytest.mark.parametrize("of", [comptime, of_torch], ids=["ours", "torch's"])
def test_assert_static_reaches_the_caller(of):
    def f(x, n):
        of.assert_static(n)
        return x * n

    g = pellucid.compile(f, backend="eager", dynamic=True)
    for _ in range(2):
        with pytest.raises(AssertionError, match=r"expected static but got dynamic: L\['n'\]"):
            g(X, 2)


def test_dynamic_sizes_are_told():
    told = []

    def f(x):
        comptime(lambda ctx: told.append((ctx.get_local("x").dynamic_dims(), repr(ctx.get_local("x")))))
        return x + 1

    g = compiled(f)
    g(torch.ones(4, 3))
    g(torch.ones(5, 3))
    assert told == [([], "Tensor(float32[4, 3], cpu)"), ([0], "Tensor(float32[L['x'].size(0), 3], cpu)")]


def test_what_is_told_of_values():
    told = {}

    def tell(ctx):
        for name in ("x", "n", "flag", "items", "made", "module", "nothing"):
            value = ctx.get_local(name)
            told[name] = (value.python_type(), value.is_proxy(), value.is_python_constant())
        told["constant"] = ctx.get_local("items").as_python_constant()
        told["fake"] = ctx.get_local("x").as_fake()
        with pytest.raises(TypeError, match="not known when it is compiled"):
            ctx.get_local("made").as_python_constant()
        with pytest.raises(KeyError):
            ctx.get_local("later")

    module = torch.nn.Linear(4, 4)

    def f(x, n, flag, items):
        made = {"x": x}
        items.append(n)
        nothing = None
        comptime(tell)
        later = module(x)
        return later, made, nothing

    compiled(f)(X, 3, True, [1, (2, "b")])
    assert told["x"] == (torch.Tensor, True, False)
    assert told["n"] == (int, False, True)
    assert told["flag"] == (bool, False, True)
    assert told["items"] == (list, False, True)
    assert told["made"] == (dict, False, False)
    assert told["nothing"] == (type(None), False, True)
    assert told["constant"] == [1, (2, "b"), 3]  # as the region has made it
    assert told["fake"].shape == X.shape and told["fake"].device.type == "meta"


def test_objects_of_the_program_are_not_asked():
    class Secret:
        def __init__(self, inside):
            self.inside = inside

        def __repr__(self):
            raise AssertionError("asked")

        __getattr__ = __call__ = __eq__ = __bool__ = __class_getitem__ = __repr__

    told = []

    def tell(ctx):
        for name in ("given", "made", "cls", "function", "module"):
            value = ctx.get_local(name)
            told.append((repr(value), value.is_python_constant()))

    def f(x, given):
        made = Secret(x)
        cls, function, module = Secret, tell, torch
        comptime(tell)
        return made.inside + 1, cls, function, module

    compiled(f)(X, Secret(1))
    assert [(text.split("<locals>.")[-1], known) for text, known in told] == [
        ("<Secret object>", False),
        ("<Secret object>", False),
        ("Secret>", True),
        ("tell>", True),
        ("<module torch>", True),
    ]


def test_variables_without_a_value():
    told = []

    def tell(ctx):
        told.append(repr(ctx.get_local("later")))
        with pytest.raises(TypeError, match="no value"):
            ctx.get_local("later").python_type()

    def f(x):
        def inner():
            return later

        comptime(tell)
        later = x + 1
        return inner()

    assert torch.equal(compiled(f)(X), X + 1)
    assert told == ["(a variable without a value)"]


def test_graph_break():
    seen = []

    def f(x):
        y = x + 1
        comptime(lambda ctx: ctx.graph_break("too deep"), lambda: seen.append("eager"))
        return y * 2

    backend = Counting()
    g = pellucid.compile(f, backend=backend)
    for _ in range(2):
        assert torch.equal(g(X), (X + 1) * 2)
    assert len(backend.graphs) == 2
    assert seen == ["eager", "eager"]  # the call itself runs for real
    (record,) = pellucid.break_reasons(g)
    assert "too deep" in str(record) and record.code == "PEL0303"
    with pytest.raises(errors.Unsupported, match="too deep"):
        compiled(f)(X)


def test_short_graph_break():
    def f(x):
        y = x + 1
        comptime.graph_break()
        return y * 2

    backend = Counting()
    assert torch.equal(pellucid.compile(f, backend=backend)(X), (X + 1) * 2)
    assert len(backend.graphs) == 2


@pytest.mark.parametrize(
    "settings", [{}, {"fullgraph": False}, {"config": {"suppress_errors": True}, "fullgraph": False}]
)
def test_what_the_code_raises_reaches_the_caller(settings):
    class Stop(BaseException):
        pass

    def stop(ctx):
        raise Stop("now")

    def f(x):
        try:
            comptime(stop)
        except BaseException:  # no exception of the program
            return x
        return x + 1

    g = compiled(f, **settings)
    for _ in range(2):
        with pytest.raises(Stop, match="now"):
            g(X)
    assert torch.equal(pellucid.compile(lambda x: x + 1, backend="eager")(X), X + 1)


def test_code_must_not_hold_what_only_the_capture_knows():
    def closes(x):
        y = x + 1
        comptime(lambda ctx: print(y))
        return y

    def has_default(x):
        y = x + 1
        comptime(lambda ctx, y=y: print(y))
        return y

    for f in (closes, has_default):
        with pytest.raises(TypeError, match="get_local"):
            compiled(f)(X)


def test_the_context_ends_with_the_code():
    kept = []

    def f(x):
        comptime(lambda ctx: kept.append((ctx, ctx.get_local("x"))))
        return x + 1

    compiled(f)(X)
    ((ctx, value),) = kept
    for ask in (ctx.print_locals, ctx.graph, value.size):
        with pytest.raises(RuntimeError, match="has gone on"):
            ask()


def test_breakpoint(monkeypatch):
    seen = []
    monkeypatch.setattr(
        sys, "breakpointhook", lambda: seen.append(sys._getframe(1).f_locals["ctx"].get_local("x").size(0))
    )

    def f(x):
        comptime.breakpoint()
        return x + 1

    g = compiled(f)
    g(X)
    g(X)
    assert seen == [4]
    f(X)  # as in torch: nothing of it in plain Python
    assert seen == [4]


def test_signals_are_handled_while_the_code_waits():
    def wait(ctx):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        time.sleep(5)

    def f(x):
        comptime(wait)
        return x + 1

    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    started = time.perf_counter()
    try:
        with pytest.raises(Alarm):
            compiled(f)(X)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - started < 4


def test_behind_a_graph_break():
    names = []

    def f(x):
        y = x + 1
        pellucid.graph_break()
        z = y * 2
        comptime(lambda ctx: names.extend(repr(ctx.get_local(name)) for name in ("x", "y", "z")))
        return z

    assert torch.equal(pellucid.compile(f, backend="eager")(X), (X + 1) * 2)
    assert [name.split(": ")[-1] for name in names] == ["Tensor(float32[4], cpu)"] * 3


def test_in_threads():
    seen = []

    def work(k):
        scope = {"comptime": comptime, "seen": seen}
        exec("def f(x):\n    comptime(lambda ctx: seen.append(ctx.get_local('x').size(0)))\n    return x + 1", scope)
        compiled(scope["f"])(torch.ones(k + 2))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [2, 3, 4, 5, 6, 7]


# ---- torch's own object


def of_torch_program(x, n):
    y = x + 1
    of_torch.print(y)
    of_torch.print_locals()
    of_torch.print_bt()
    of_torch.print_graph()
    of_torch.print_guards()
    of_torch.print_disas()
    of_torch.assert_static(n)
    of_torch.force_static(n)
    of_torch(lambda ctx: ctx.print(ctx.get_local("n").as_python_constant()), lambda: print("eager"))
    return y * n + of_torch.print_value_stack_and_return(n)


@pytest.mark.parametrize("installed", [False, True])
def test_of_torch(installed, capsys):
    want = (X + 1) * 2 + 2
    if installed:
        with pellucid.installed():
            f = torch.compile(of_torch_program, backend="eager", fullgraph=True)
            assert torch.equal(f(X, 2), want)
    else:
        f = compiled(of_torch_program)
        assert torch.equal(f(X, 2), want)
    text = capsys.readouterr().out
    assert text.startswith("%y: Tensor(float32[4], cpu)\nx = %l_x_")
    for part in ("in of_torch_program", "def forward", "TENSOR_MATCH", "-->", "\n2\n"):
        assert part in text
    assert (
        "_dynamo/comptime.py" not in text.split("def forward")[0]
    )  # frames of torch's short forms are not the program's
    assert torch.equal(f(X, 2), want)
    assert capsys.readouterr().out == ""


def test_graph_break_of_torch():
    def f(x):
        y = x + 1
        of_torch.graph_break()
        return y * 2

    backend = Counting()
    assert torch.equal(pellucid.compile(f, backend=backend)(X), (X + 1) * 2)
    assert len(backend.graphs) == 2
