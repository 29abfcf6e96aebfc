"""The files that `pellucid.debug` and `python -m pellucid dump` write."""

import ast
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

import pellucid
from pellucid.__main__ import main
from support import same


def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def inputs(size, sign=1.0):
    return torch.randn(size, requires_grad=True), sign * torch.ones(size)


def names(dump):
    return sorted(file.name for file in dump.directory.iterdir())


def text_of(dump, name):
    return (dump.directory / name).read_text()


def numbers(dump):
    """Of the graphs, in the order in which they were captured."""
    story = json.loads(text_of(dump, "index.json"))["story"]
    return [int(step["of"].rpartition("_")[2]) for step in story if step["what"] == "graph"]


def assert_all_are_python(dump):
    for file in dump.directory.glob("*.py"):
        compile(file.read_text(), str(file), "exec")


def test_L01_the_directory_is_made_and_holds_what_was_captured_inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compiled = pellucid.compile(toy, backend="eager")
    with pellucid.debug("some/dump") as dump:
        got = compiled(*inputs(10))
    assert got.shape == (10,)
    assert dump.directory == tmp_path / "some" / "dump"
    assert {"index.html", "index.json"} < set(names(dump))
    index = json.loads(text_of(dump, "index.json"))
    assert sorted(index["files"]) == names(dump) == sorted(file.name for file in dump.files)
    page = text_of(dump, "index.html")
    assert all(name in page for name in names(dump) if name.endswith(".py"))
    before = names(dump)
    compiled(*inputs(8))  # outside: compiled anew, and not written
    assert names(dump) == before


def test_L01_what_an_earlier_dump_left_goes_and_other_files_stay(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pellucid.debug(tmp_path) as dump:
        pellucid.compile(toy, backend="eager")(*inputs(10))
    first = set(names(dump))
    with pellucid.debug(tmp_path):
        pass
    assert set(names(dump)) == {"index.html", "index.json", "mine.txt"} < first


def test_L02_full_code_has_the_function_its_entries_and_a_dispatcher(tmp_path):
    compiled = pellucid.compile(toy, backend="eager")
    with pellucid.debug(tmp_path) as dump:
        for size in (10, 8):
            for sign in (1.0, -1.0):
                compiled(*inputs(size, sign))
    assert_all_are_python(dump)
    text = text_of(dump, "full_code_for_toy_0.py")
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    first, *_, last = numbers(dump)
    assert {"original_toy", "toy", f"guards_{first}", f"region_{first}", f"guards_{last}"} <= set(functions)
    assert sum(name.startswith("__resume_at_") for name in functions) == 4
    assert len([name for name in functions if name.startswith("guards_")]) == 6
    assert f"__compiled_fn_{first}(a, b)" in text and "PEL0201" in text
    # The guards and the dispatcher run.
    namespace = {}
    exec(compile(text, "full_code", "exec"), namespace)
    guards = namespace[f"guards_{first}"]
    assert guards(*inputs(10)) is None
    assert "a.shape == (10,)" in guards(*inputs(9))
    x, y = inputs(4)
    assert "requires_grad" in guards(x.detach(), y) or "shape" in guards(x.detach(), y)
    taken = []
    namespace[f"region_{first}"] = lambda a, b: taken.append(a.shape)
    namespace["toy"](*inputs(10))
    assert taken == [(10,)]


def test_L02_resume_regions_and_guards_have_files(tmp_path):
    compiled = pellucid.compile(toy, backend="eager")
    with pellucid.debug(tmp_path) as dump:
        compiled(*inputs(10))
        compiled(*inputs(10, -1.0))
    resumed = [name for name in names(dump) if name.startswith("__resume_at_")]
    assert len(resumed) == 2
    for name in resumed:
        text = text_of(dump, name)
        assert "A region behind a graph break" in text and f"def {name.removesuffix('.py')}(" in text
    assert len([name for name in names(dump) if name.startswith("guards_")]) == 3


def test_L02_entries_from_before_the_dump_are_told(tmp_path):
    compiled = pellucid.compile(toy, backend="eager")
    compiled(*inputs(10))
    with pellucid.debug(tmp_path) as dump:
        compiled(*inputs(10))
        compiled(*inputs(8))
    text = text_of(dump, "full_code_for_toy_0.py")
    assert (
        "# ---- compiled before the dump began, entry 0" in text
        and "#     a.dtype == torch.float32 and a.shape == (10,)" in text
    )
    index = json.loads(text_of(dump, "index.json"))
    assert index["functions"][0]["compiled_before"] >= 1  # other tests compile it as well


def test_L02_modules_have_the_name_of_their_forward(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(3, 3)

        def forward(self, x, *, scale=2.0):
            y = self.lin(x)
            pellucid.graph_break()
            return y.relu() * scale

    model, x = Model(), torch.randn(2, 3)
    compiled = pellucid.compile(model, backend="eager")
    with pellucid.debug(tmp_path) as dump:
        got = compiled(x)
    assert same(got, model(x))
    assert_all_are_python(dump)
    files = [name for name in names(dump) if name.startswith("full_code")]
    (file,) = files
    assert file.endswith("Model_forward_0.py")
    assert "def original_forward(self, x, *, scale=2.0):" in text_of(dump, file)


def test_L04_L09_each_graph_has_a_file_with_types_and_sizes(tmp_path):
    compiled = pellucid.compile(toy, backend="eager")
    with pellucid.debug(tmp_path) as dump:
        compiled(*inputs(10))
        compiled(*inputs(8))
    graphs = numbers(dump)
    assert len(graphs) == 4
    texts = [text_of(dump, f"__compiled_fn_{number}.captured.py") for number in graphs]
    for text in texts:
        assert "class GraphModule(torch.nn.Module):" in text and "def forward(self" in text
        assert "test_dump.py" in text  # the lines of the program
    assert "f32[10]" in texts[0] and "f32[s" in texts[2] and "f32[10]" not in texts[2]


def loss(a, b):
    return (toy(a, b) * 2).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_L05_L06_L07_L08_L10_what_backends_make(tmp_path, backend):
    torch.manual_seed(0)
    compiled = pellucid.compile(loss, backend=backend)
    other = pellucid.compile(lambda x: x.cos() + 1, backend=backend)
    a, b = inputs(6)
    with pellucid.debug(tmp_path) as dump:
        value = compiled(a, b)
        other(torch.ones(3))
        value.backward()  # its graphs are compiled behind the other function's
    want = a.detach().clone().requires_grad_()
    loss(want, b).backward()
    torch.testing.assert_close(a.grad, want.grad)
    assert_all_are_python(dump)
    first, second, last = numbers(dump)
    kinds = [
        {name.split(".")[1] for name in names(dump) if name.startswith(f"__compiled_fn_{number}.")}
        for number in (first, second, last)
    ]
    expected = {"captured"} if backend == "eager" else {"captured", "joint", "forward", "backward"}
    alone = {"captured"} if backend == "eager" else {"captured", "forward"}
    if backend == "inductor":
        expected |= {"post_grad_0", "post_grad_1", "kernel_0", "kernel_1"}
        alone |= {"post_grad_0", "kernel_0"}
    assert kinds == [expected, expected, alone]
    if backend != "eager":
        assert "class joint(torch.nn.Module):" in text_of(dump, f"__compiled_fn_{first}.joint.py")
    assert last == second + 1  # dumping takes no number


def test_L19_the_sample_program_makes_six_graphs(tmp_path):
    compiled = pellucid.compile(toy, backend="aot_eager")
    with pellucid.debug(tmp_path) as dump:
        for _ in range(2):
            for size in (10, 8):
                for sign in (1.0, -1.0):
                    a, b = inputs(size, sign)
                    compiled(a, b).sum().backward()
    graphs = numbers(dump)
    assert len(graphs) == 6
    symbolic = 0
    for number in graphs:
        kinds = {name.split(".")[1] for name in names(dump) if name.startswith(f"__compiled_fn_{number}.")}
        assert kinds == {"captured", "joint", "forward", "backward"}
        symbolic += "f32[s" in text_of(dump, f"__compiled_fn_{number}.captured.py")
    assert symbolic == 3
    assert_all_are_python(dump)


def test_L18_all_is_as_before_behind_the_block(tmp_path):
    import torch._logging._internal as torch_logs

    handlers = list(torch_logs.trace_log.handlers)
    subscriptions = pellucid.events._subscriptions
    for error in (None, KeyError):
        try:
            with pellucid.debug(tmp_path / "dump"):
                pellucid.compile(toy, backend="eager")(*inputs(3))
                if error is not None:
                    raise error
        except KeyError:
            pass
        assert torch_logs.trace_log.handlers == handlers
        assert pellucid.events._subscriptions == subscriptions
        with pellucid.debug(tmp_path / "again"):  # it is left
            pass


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_L18_a_directory_that_goes_does_not_stop_the_program(tmp_path, monkeypatch, backend):
    told = []
    monkeypatch.setattr("sys.unraisablehook", lambda error: told.append(error.exc_type))
    dump = pellucid.debug(tmp_path / "dump")
    dump.__enter__()
    shutil.rmtree(dump.directory)
    a, b = inputs(5)
    assert same(pellucid.compile(toy, backend=backend)(a, b), toy(a, b))
    with pytest.raises(FileNotFoundError):  # of the index
        dump.__exit__()
    assert told
    with pellucid.debug(tmp_path / "other"):
        pass


def test_L04_classes_of_numpy_have_names(tmp_path):
    def program(a):
        return a.astype(np.float32).sum(dtype=np.float64)

    with pellucid.debug(tmp_path) as dump:
        got = pellucid.compile(program, backend="eager")(np.ones(3))
    assert got == 3.0 and len(numbers(dump)) == 1
    assert_all_are_python(dump)
    assert "astype(numpy.float32)" in text_of(dump, f"__compiled_fn_{numbers(dump)[0]}.captured.py")


def test_L22_it_does_not_nest(tmp_path):
    with pellucid.debug(tmp_path / "outer"):
        with pytest.raises(RuntimeError, match="does not nest"), pellucid.debug(tmp_path / "inner"):
            pass
    assert not (tmp_path / "inner").exists()


PROGRAM = """
import sys
import torch

@torch.compile(backend="eager")
def f(x, scale):
    y = x.sin() * scale
    print("here")
    return y + len(sys.argv)

for scale in (2.0, 3.0):
    f(torch.ones(3), scale)
"""


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "pellucid", "dump", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=300,
    )


def test_the_command_writes_the_same_files_at_each_run(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    runs = [run(tmp_path, "program.py", name, "--", "argument") for name in ("one", "two")]
    assert [done.returncode for done in runs] == [0, 0], runs[0].stderr
    assert "index.html" in runs[0].stderr and runs[0].stdout == "here\nhere\n"
    first, second = ({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert first == second and "full_code_for_f_0.py" in first
    assert main(["dump", str(tmp_path / "nothing.py"), str(tmp_path / "three")]) == 2


def test_L02_functions_without_a_def_and_with_nonlocal_have_a_file(tmp_path):
    total = torch.zeros(3)

    def adds(x):
        nonlocal total
        total = total + x
        return total.sin()

    with pellucid.debug(tmp_path) as dump:
        pellucid.compile(lambda x: x.sin() + 1, backend="eager")(torch.ones(3))
        pellucid.compile(adds, backend="eager")(torch.ones(3))
    assert same(total, torch.ones(3))
    assert_all_are_python(dump)
    (lambdas,) = dump.directory.glob("full_code_for_*lambda_0.py")
    assert "x.sin() + 1" in lambdas.read_text()
    (adding,) = dump.directory.glob("full_code_for_*adds_0.py")
    assert "# " + "    nonlocal total" in adding.read_text()


def appends(x, rows):
    y = x.sin()
    rows.append(y)
    unknown(y)
    rows[0] = y.cos()
    return y * 2, len(rows)


def unknown(x):
    print("seen", end="")


class Counter:
    def __init__(self):
        self.count = 0
        self.last = None


def sets_attributes(x, counter):
    for _ in range(3):
        counter.count += 1
    counter.last = {"x": x + counter.count, "pair": (x, [x.cos()])}
    unknown(x)
    del counter.last["x"]
    return counter.last["pair"][1][0] - 1


def with_a_block(x, counter):
    with torch.no_grad():
        y = x * 2
        unknown(y)
        y = y + 1
    try:
        unknown(y)
        raise ValueError(counter.count)
    except ValueError as error:
        counter.last = error.args
    return y.relu()


def makes_closure(x, counter):
    scale = 3

    def inner(y):
        nonlocal scale
        scale += 1
        return y * scale

    a = inner(x)
    unknown(a)
    return inner(a), scale


@pytest.mark.parametrize(
    ("program", "make"),
    [(appends, list), (sets_attributes, Counter), (with_a_block, Counter), (makes_closure, Counter)],
)
def test_L03_the_text_of_regions_does_what_they_do(tmp_path, capsys, program, make):
    """The functions of the files, compiled again, run in the place of the emitted ones."""
    compiled = pellucid.compile(program, backend="eager")
    x, emitted = torch.randn(4), []

    def note(event):
        if isinstance(event, pellucid.events.RegionFinished):
            emitted.append(event.emitted_function)

    with pellucid.events.subscribe(note), pellucid.debug(tmp_path):
        compiled(x, make())
        replaced = 0
        for function in emitted:
            code = function.__code__
            if code.co_freevars:
                continue
            tree = ast.parse(open(code.co_filename).read())
            name = next(
                one.name for one in tree.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("guards")
            )
            namespace = {}
            exec(compile(tree, code.co_filename, "exec"), namespace)
            text = namespace[name].__code__
            assert text.co_argcount == code.co_argcount
            function.__code__ = text
            replaced += 1
        assert replaced >= 2
        got_of, want_of = make(), make()
        got, want = compiled(x, got_of), program(x, want_of)
        assert same(got, want)
        assert same(vars(got_of), vars(want_of)) if make is Counter else same(got_of, want_of)
