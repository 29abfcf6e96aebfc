"""Stepping through a dump: what runs is the code of its files, and a debugger stops there."""

import bdb
import contextlib
import io
import linecache
import pdb
import sys
import traceback

import pytest
import torch

import pellucid
from support import Counting, same


def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


class Debugger(bdb.Bdb):
    """Notes each line at which it stops; `step`: at all of them, else at the breakpoints."""

    def __init__(self, step=False):
        super().__init__()
        self.step = step
        self.stops = []  # (file name, text of the line, locals)

    def user_line(self, frame):
        file = frame.f_code.co_filename
        text = linecache.getline(file, frame.f_lineno).strip()
        self.stops.append((file.rpartition("/")[2], text, dict(frame.f_locals)))
        if self.step:
            self.set_step()
        else:
            self.set_continue()

    def break_at(self, file, text):
        """A breakpoint at each line that holds a text."""
        found = [at for at, line in enumerate(file.read_text().splitlines(), 1) if text in line]
        assert found, (file, text)
        for line in found:
            assert self.set_break(str(file), line) is None

    def run_call(self, function, *args):
        self.reset()
        self.botframe = sys._getframe()
        if not self.step:
            self._set_stopinfo(self.botframe, None, -1)
        sys.settrace(self.trace_dispatch)
        try:
            return function(*args)
        finally:
            sys.settrace(None)
            self.clear_all_breaks()


def inputs(size=10, sign=1.0):
    return torch.randn(size, requires_grad=True), sign * torch.ones(size)


def file_of(dump, pattern):
    (found,) = dump.directory.glob(pattern)
    return found


def test_L11_breakpoints_in_captured_graphs(tmp_path):
    counting = Counting()
    for backend in ("eager", counting):
        compiled = pellucid.compile(lambda x: (x.sin() + 1).cos(), backend=backend)
        x = torch.ones(3)
        with pellucid.debug(tmp_path) as dump:
            compiled(x)
            debugger = Debugger()
            debugger.break_at(file_of(dump, "*.captured.py"), "= add.cos()")
            got = debugger.run_call(compiled, x)
        assert same(got, (x.sin() + 1).cos())
        ((file, text, values),) = debugger.stops
        assert file.endswith(".captured.py") and "add.cos()" in text
        assert same(values["add"], x.sin() + 1)
    assert counting.count == 1


def test_L11_L14_breakpoints_in_graphs_of_AOTAutograd(tmp_path):
    compiled = pellucid.compile(lambda x: (x.sin() * x).sum(), backend="aot_eager")
    x = torch.ones(3, requires_grad=True)
    with pellucid.debug(tmp_path) as dump:
        compiled(x).backward()
        x.grad = None
        forward, backward = Debugger(), Debugger()
        forward.break_at(file_of(dump, "*.forward.py"), "torch.ops.aten.sum")
        value = forward.run_call(compiled, x)
        assert len(forward.stops) == 1 and same(forward.stops[0][2]["mul"], (x.sin() * x).detach())
        backward.break_at(file_of(dump, "*.backward.py"), "torch.ops.aten.cos")
        backward.run_call(value.backward)
        ((file, _, values),) = backward.stops
        assert file.endswith(".backward.py") and "tangents_1" in values
    torch.testing.assert_close(x.grad, (x.cos() * x + x.sin()).detach())


def test_L11_breakpoints_in_kernels(tmp_path):
    compiled = pellucid.compile(lambda x: (x.sin() * 3).cos(), backend="inductor")
    x = torch.ones(7)
    with pellucid.debug(tmp_path) as dump:
        compiled(x)
        debugger = Debugger()
        debugger.break_at(file_of(dump, "*.kernel_0.py"), "empty_strided_cpu((7")
        got = debugger.run_call(compiled, x)
    torch.testing.assert_close(got, (x.sin() * 3).cos())
    ((file, _, values),) = debugger.stops
    assert file.endswith(".kernel_0.py") and same(values["arg0_1"], x)


def test_L12_nothing_is_compiled_while_it_is_traced(tmp_path, caplog):
    counting = Counting()
    compiled = pellucid.compile(toy, backend=counting)
    a, b = inputs(10)
    with pellucid.debug(tmp_path) as dump:
        compiled(a, b)
        count = counting.count
        debugger = Debugger()
        debugger.break_at(file_of(dump, "region_*.py"), "__compiled_fn_")
        assert same(debugger.run_call(compiled, a, b), toy(a, b))
        assert len(debugger.stops) == 1
        other = Debugger()
        other.break_at(file_of(dump, "region_*.py"), "__compiled_fn_")
        c, d = inputs(8)
        assert same(other.run_call(compiled, c, d), toy(c, d))  # of another size: as it was written
        assert other.stops == []
        assert counting.count == count
        compiled(c, d)  # not traced
        assert counting.count > count
    assert "nothing is compiled while it is traced" in caplog.text


def test_L13_stepping_goes_through_regions_and_what_is_between_them(tmp_path):
    compiled = pellucid.compile(toy, backend="eager")
    a, b = inputs(10, -1.0)
    with pellucid.debug(tmp_path):
        compiled(a, b)
        debugger = Debugger(step=True)
        got = debugger.run_call(compiled, a, b)
    assert same(got, toy(a, b))
    files = [file for file, *_ in debugger.stops]
    kinds = list(dict.fromkeys(file for file in files))
    assert [kind.split("_")[0] or kind.split("_")[2] for kind in kinds if kind.startswith(("region", "__"))] == [
        "region",
        "compiled",
        "resume",
        "compiled",
    ]
    (values,) = [
        values for file, text, values in debugger.stops if file.startswith("__resume") and text.startswith("return")
    ]
    assert same(values["f1_b"] if "f1_b" in values else values["b"], b)


def test_L13_frames_behind_a_break_are_stepped_through(tmp_path):
    """What goes on in the program's own frames, as no region fits, shows its lines."""

    def program(x, scale):
        y = x.sin()
        print("between", file=io.StringIO())
        z = y * scale
        return z.cos()

    compiled = pellucid.compile(program, backend="eager", dynamic=False)
    x = torch.ones(3)
    with pellucid.debug(tmp_path):
        compiled(x, 2.0)
        region = list(tmp_path.glob("region_*.py"))
        assert len(region) == 1
        debugger = Debugger(step=True)
        got = debugger.run_call(compiled, x, 2.0)
        assert same(got, program(x, 2.0))
        stops = [(file, text) for file, text, _ in debugger.stops]
        assert any(file.startswith("__resume") for file, _ in stops)
        pellucid.reset()
        compiled(x, 2.0)
        other = torch.ones(3, dtype=torch.float64)
        debugger = Debugger(step=True)
        assert same(debugger.run_call(compiled, other, 2.0), program(other, 2.0))
        assert ("test_stepping.py", "z = y * scale") in [(file, text) for file, text, _ in debugger.stops]


def test_pdb_stops_in_a_graph_and_prints_a_value(tmp_path):
    compiled = pellucid.compile(lambda x: (x + 1).sin(), backend="eager")
    x = torch.zeros(2)
    with pellucid.debug(tmp_path) as dump:
        compiled(x)
        file = file_of(dump, "*.captured.py")
        line = next(at for at, text in enumerate(file.read_text().splitlines(), 1) if "add.sin()" in text)
        commands, said = io.StringIO(f"break {file}:{line}\ncontinue\np add\nwhere\ncontinue\n"), io.StringIO()
        debugger = pdb.Pdb(stdin=commands, stdout=said, nosigint=True, readrc=False)
        debugger.use_rawinput = False
        debugger.runcall(compiled, x)
    assert "tensor([1., 1.])" in said.getvalue()
    assert f"{file}({line})forward()" in said.getvalue()
    assert "region_" in said.getvalue()


def test_L18_functions_have_their_code_back(tmp_path):
    compiled = pellucid.compile(toy, backend="eager")
    found = []
    with pellucid.events.subscribe(
        lambda event: found.append(event.emitted_function) if type(event).__name__ == "RegionFinished" else None
    ):
        with contextlib.suppress(KeyError), pellucid.debug(tmp_path):
            compiled(*inputs())
            compiled(*inputs(sign=-1.0))
            assert len(found) == 3
            files = [function.__code__.co_filename for function in found]
            assert all(file.startswith(str(tmp_path)) for file in files)
            raise KeyError
    assert {function.__code__.co_filename for function in found} == {toy.__code__.co_filename}
    forward = found[0].__globals__[next(name for name in found[0].__globals__ if name.startswith("__compiled_fn"))]
    assert forward.__wrapped__.__code__.co_filename == "<pellucid graph>"
    debugger = Debugger(step=True)
    a, b = inputs()
    assert same(debugger.run_call(compiled, a, b), toy(a, b))  # as ever: a debugger sees the program's lines
    assert ("test_stepping.py", "return x * b") in [(file, text) for file, text, _ in debugger.stops]


def test_failing_graphs_are_told_as_outside(tmp_path):
    def program(x, index):
        return x[index] + 1

    def told(compiled):
        with pytest.raises(IndexError) as error:
            compiled(torch.ones(3), torch.tensor([7]))
        return str(error.value), [entry.name for entry in traceback.extract_tb(error.tb)][1:]

    want = told(pellucid.compile(program, backend="eager"))
    with pellucid.debug(tmp_path):
        assert told(pellucid.compile(program, backend="eager")) == want
