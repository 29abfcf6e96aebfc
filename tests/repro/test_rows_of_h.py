"""Rows H01-H19: minifiers, repro scripts, accuracy. Scripts run in processes of their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import accuracy
from pellucid.backends import lookup_backend, registry
from pellucid.errors import BackendCompilerFailed
from pellucid.repro import NothingFails, ReproRefused, run_repro, write_repro
from support.scripts import run_python

HERE = Path(__file__).parent
PROGRAM = HERE / "failing_program.py"
LAUNCHER = "pellucid_repro/minifier_launcher.py"


def body(script: Path) -> list[str]:
    """The lines of the smallest `forward`, without its head."""
    text = script.read_text()
    return [
        line.partition("  # ")[0].strip()
        for line in text.split("    def forward(")[1].split("\n\n\n")[0].splitlines()[1:]
    ]


def fails(function, *args, backend, **options):
    """Compiles with config.repro_after set; gives the exception."""
    with (
        pellucid.config.patch({"repro_after": "dynamo", **options}),
        pytest.raises(BackendCompilerFailed) as caught,
    ):
        pellucid.compile(function, backend=backend)(*args)
    return caught.value


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def f(x):
    return torch.cos(torch.relu(torch.sin(x)))


# ---- H01-H08: what is written, and when


def test_H01_a_failure_of_a_backend_writes_a_script(here, caplog):
    error = fails(f, torch.ones(3), backend="relu_compile_error_TESTING_ONLY")
    script = here / LAUNCHER
    assert script.exists() and str(script) in str(error) and error.repro == str(script)
    assert any(str(script) in record.getMessage() for record in caplog.records)
    assert "torch.relu(sin)" in script.read_text()


def test_H01_other_values_are_rejected(here):
    for value in ("x", "", "Dynamo"):
        with pytest.raises(ValueError, match=r"repro_after must be 'dynamo' or 'aot' or None, got"):
            pellucid.config.repro_after = value
    pellucid.config.repro_after = None
    with pytest.raises(TypeError):
        pellucid.config.repro_after = 3
    said = run_python("-c", "import pellucid", cwd=here, expect=1, TORCHDYNAMO_REPRO_AFTER="x")
    assert "TORCHDYNAMO_REPRO_AFTER is 'x', but pellucid.config.repro_after is 'dynamo' or 'aot' or None" in said


def test_H01_by_the_environment_of_torch(here):
    said = run_python(PROGRAM, "long", "refuses_tanh", cwd=here, expect=1, TORCHDYNAMO_REPRO_AFTER="dynamo")
    assert "TanhError" in said and f"python {here / LAUNCHER}" in said


def test_H01_without_it_nothing_is_written(here):
    with pytest.raises(BackendCompilerFailed) as caught:
        pellucid.compile(f, backend="relu_compile_error_TESTING_ONLY")(torch.ones(3))
    assert caught.value.repro is None and not list(here.iterdir())


@pytest.mark.slow
def test_H02_a_fault_of_inductor_is_a_script_in_aten(here):
    program = here / "program.py"
    program.write_text(
        "import torch, pellucid, torch._inductor.config as config\n"
        "config.cpp.inject_relu_bug_TESTING_ONLY = 'compile_error'\n"
        "f = pellucid.compile(lambda x: torch.cos(torch.relu(torch.sin(x))) + 1, backend='inductor')\n"
        "f(torch.ones(3))\n"
    )
    said = run_python(program, cwd=here, expect=1, TORCHDYNAMO_REPRO_AFTER="aot")
    assert f"The failure as a script: python {here / LAUNCHER}" in said
    text = (here / LAUNCHER).read_text()
    assert "torch.ops.aten.relu.default" in text and "BACKEND = 'inductor'" in text and "after='aot'" in text
    run_python(LAUNCHER, cwd=here)
    assert body(here / "pellucid_repro/repro.py") == [
        "relu = torch.ops.aten.relu.default(sin)",
        "return (relu,)",
    ]
    assert "CppCompileError" in run_python("pellucid_repro/repro.py", cwd=here, expect=1)


def test_H02_a_compiler_given_to_aot_autograd(here):
    said = run_python(PROGRAM, "long", "aot_with_a_named_pass", cwd=here, expect=1, TORCHDYNAMO_REPRO_AFTER="aot")
    assert "TanhError: aten.tanh" in said
    script = here / LAUNCHER
    text = script.read_text()
    hint = "BACKEND = None  # put the backend here; it was planted_faults.boxed_aten_pass, a compiler of AOTAutograd's graphs"
    assert hint in text and "torch.ops.aten.tanh.default" in text
    assert "has no backend" in run_python(LAUNCHER, cwd=here, expect=1)
    script.write_text(text.replace(hint, "import planted_faults\nBACKEND = planted_faults.boxed_aten_pass"))
    run_python(LAUNCHER, cwd=here)
    assert len(body(here / "pellucid_repro/repro.py")) == 2
    assert "TanhError: aten.tanh" in run_python("pellucid_repro/repro.py", cwd=here, expect=1)


def test_H03_results_that_differ(here):
    error = fails(f, torch.ones(3), backend="relu_accuracy_error_TESTING_ONLY", repro_level=4)
    assert type(error.inner_exception).__name__ == "AccuracyError" and "accuracy=True" in Path(error.repro).read_text()
    assert "result 0" in str(error)


def test_H03_gradients_that_differ(here):
    error = fails(torch.sin, torch.ones(3, requires_grad=True), backend=_planted("wrong_only_backward"), repro_level=4)
    assert "AccuracyError: gradient 0" in str(error)


def test_H03_a_good_backend_writes_nothing(here):
    with pellucid.config.patch(repro_after="dynamo", repro_level=4):
        x = torch.ones(3, requires_grad=True)
        for backend in ("eager", "aot_eager"):
            y = pellucid.compile(f, backend=backend)(x)
            y.sum().backward()
            assert torch.equal(y, f(x))
    assert not list(here.iterdir())


def test_H03_level_2_does_not_compare(here):
    with pellucid.config.patch(repro_after="dynamo"):
        pellucid.compile(f, backend="relu_accuracy_error_TESTING_ONLY")(torch.ones(3))
    assert not list(here.iterdir())


@pytest.mark.slow
def test_H04_results_of_inductor_that_differ(here):
    program = here / "program.py"
    program.write_text(
        "import torch, pellucid, torch._inductor.config as config\n"
        "config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'\n"
        "f = pellucid.compile(lambda x: torch.cos(torch.relu(torch.sin(x))) + 1, backend='inductor')\n"
        "f(torch.ones(3))\n"
    )
    said = run_python(program, cwd=here, expect=1, TORCHDYNAMO_REPRO_AFTER="aot", TORCHDYNAMO_REPRO_LEVEL="4")
    assert "AccuracyError" in said
    run_python(LAUNCHER, cwd=here)
    assert body(here / "pellucid_repro/repro.py")[0] == "relu = torch.ops.aten.relu.default(sin)"


def test_H05_level_1_writes_what_shows_it(here):
    error = fails(f, torch.ones(3), backend="relu_compile_error_TESTING_ONLY", repro_level=1)
    assert error.repro == str(here / "pellucid_repro/repro.py")
    assert "ReluCompileError" in run_python(error.repro, cwd=here, expect=1)


def test_H05_level_3_always_writes(here):
    with pellucid.config.patch(repro_after="dynamo", repro_level=3):
        pellucid.compile(f, backend="interpreter")(torch.ones(3))
        pellucid.compile(f, backend="aot_eager")(torch.ones(3))
    assert (here / LAUNCHER).exists() and (here / "pellucid_repro/2/minifier_launcher.py").exists()
    assert "does not fail here: it compiles and runs" in run_python(LAUNCHER, cwd=here, expect=1)


def test_H05_values_are_saved_and_random_ones_stand_in(here):
    x = torch.zeros(4)
    x[2] = 13
    error = fails(lambda x: x.sin() + x, x, backend=_planted("wrong_for_thirteen"))
    script = Path(error.repro)
    script.write_text(_with_backend(script, "wrong_for_thirteen"))
    run_python(script, cwd=here)
    smallest = here / "pellucid_repro/repro.py"
    assert "ValueError: thirteen" in run_python(smallest, cwd=here, expect=1)
    smallest.with_suffix(".pt").unlink()
    said = run_python(smallest, cwd=here)
    assert "repro.pt: inputs have random values" in said and "nothing failed" in said


def test_H06_failures_at_run_time(here):
    error = fails(f, torch.ones(3), backend="relu_runtime_error_TESTING_ONLY")
    assert "ReluRuntimeError" in str(error) and Path(error.repro).exists()


def test_H06_errors_of_the_program_are_none_of_the_backend(here):
    def index(x, i):
        return x[i] + 1

    with pellucid.config.patch(repro_after="dynamo"), pytest.raises(IndexError):
        pellucid.compile(index, backend="eager")(torch.ones(3), torch.tensor(7))
    assert not list(here.iterdir())


def test_H07_the_launcher_runs_by_itself(here):
    fails(f, torch.ones(3), backend="relu_compile_error_TESTING_ONLY")
    said = run_python(LAUNCHER, cwd=here)
    assert f"written: {here / 'pellucid_repro/repro.py'}" in said and "1 nodes, 1 inputs: ReluCompileError" not in said
    assert "3 nodes -> 1, 1 inputs: ReluCompileError" in said


def test_H07_the_command_takes_scripts_and_programs(here):
    fails(f, torch.ones(3), backend="relu_compile_error_TESTING_ONLY")
    said = run_python("-m", "pellucid", "minify", LAUNCHER, cwd=here)
    assert "3 nodes -> 1" in said
    said = run_python(
        "-m", "pellucid", "minify", PROGRAM, "--output-dir", "out", "--", "long", "raises_at_tanh", cwd=here
    )
    assert "17 nodes -> 1, 1 inputs: ValueError: tanh came to a bad end" in said and (here / "out/repro.py").exists()


def test_H07_the_command_says_what_is_wrong(here):
    assert "there is no file none.py" in run_python("-m", "pellucid", "minify", "none.py", cwd=here, expect=2)
    said = run_python("-m", "pellucid", "minify", PROGRAM, "--timeout", "0", cwd=here, expect=2)
    assert "--timeout 0: a number of seconds above 0" in said
    said = run_python("-m", "pellucid", "minify", PROGRAM, "--", "long", "good", cwd=here, expect=1)
    assert "no graph of" in said and "pellucid triage" in said and "done" in said
    assert "exit status:" in run_python("-m", "pellucid", "minify", "--help", cwd=here)


def test_H08_where_files_land(here):
    with pellucid.config.patch(base_dir=str(here / "deep/below")):
        error = fails(f, torch.ones(3), backend="relu_compile_error_TESTING_ONLY")
    assert error.repro == str(here / "deep/below/minifier_launcher.py")
    run_python(error.repro, cwd=here)
    assert {"repro.py", "checkpoints", "inputs.pt"} <= {path.name for path in (here / "deep/below").iterdir()}
    assert not (here / "pellucid_repro").exists()


# ---- H09-H19: what a script is, and how it gets smaller


def test_H09_one_bad_call_of_six_is_left(here):
    def six(x, y):
        a = x @ y
        b = torch.relu(a.sin())
        return (b + 1).cos() * 2, a.exp()

    fails(six, torch.randn(4, 4), torch.randn(4, 4), backend="relu_compile_error_TESTING_ONLY")
    run_python(LAUNCHER, cwd=here)
    assert body(here / "pellucid_repro/repro.py") == ["b = torch.relu(sin)", "return (b,)"]
    assert list((here / "pellucid_repro/checkpoints").glob("*_nodes.py"))


def test_H09_what_was_tried_is_not_tried_again(here):
    fails(f, torch.ones(3), backend="relu_compile_error_TESTING_ONLY")
    run_python(LAUNCHER, cwd=here)
    first = (here / "pellucid_repro/repro.py").read_text()
    said = run_python(LAUNCHER, cwd=here)
    assert "tried 0 graphs" in said and "were known from before" in said
    assert (here / "pellucid_repro/repro.py").read_text() == first


@pytest.mark.parametrize("backend, left", [("two_faults", "SigmoidError"), ("fails_by_one_word", "register allocator")])
def test_H10_of_two_faults_the_original_one_is_kept(here, backend, left):
    said = run_python("-m", "pellucid", "minify", PROGRAM, "--", "long", backend, cwd=here)
    assert left in said.split("17 nodes -> 1,")[1].splitlines()[0] and "1 in another one" in said
    assert body(here / "pellucid_repro/repro.py")[0] == "h = torch.sigmoid(g)"


def test_H10_likeness():
    from pellucid.repro.trial import Failure

    first = Failure("exception", "ValueError", "size 3 of a\nmore")
    assert first.is_like(Failure("exception", "ValueError", "size 4 of a\nother"))
    assert not first.is_like(Failure("exception", "TypeError", "size 3 of a"))
    assert not first.is_like(Failure("exception", "ValueError", "no such file"))
    assert not first.is_like(None) and not Failure("hang", "", "").is_like(Failure("crash", "SIGSEGV", ""))


def test_H11_the_smallest_script_raises_the_original_error(here):
    fails(f, torch.ones(3), backend="relu_compile_error_TESTING_ONLY")
    run_python(LAUNCHER, cwd=here)
    assert "ReluCompileError" in run_python("pellucid_repro/repro.py", cwd=here, expect=1)


def test_H11_with_torch_alone(here):
    fails(f, torch.ones(3), backend="relu_compile_error_TESTING_ONLY", repro_level=1)
    said = run_python("pellucid_repro/repro.py", cwd=here, expect=1, without_pellucid=True)
    assert "torch._dynamo.exc.BackendCompilerFailed" in said and "ReluCompileError" in said


def test_H12_the_parts_of_a_script(here):
    x = torch.randn(3, 4, dtype=torch.float64).t().requires_grad_()
    fails(f, x, backend="relu_compile_error_TESTING_ONLY", repro_level=1)
    text = (here / "pellucid_repro/repro.py").read_text()
    for part in (
        f"# torch {torch.__version__} (git {torch.version.git_version}), CUDA {torch.version.cuda}",
        f"# pellucid {pellucid.__version__}, Python 3.11",
        "import torch\n",
        "class Repro(torch.nn.Module):\n    def forward(self, l_x_):\n        sin = torch.sin(l_x_)  # test_rows_of_h.py:",
        "reader.tensor((4, 3), (1, 4), dtype=torch.float64, requires_grad=True, storage='storage_0')  # l_x_",
        "BACKEND = 'relu_compile_error_TESTING_ONLY'",
        "run_repro(mod, load_args, backend=BACKEND, inputs=",
    ):
        assert part in text, part
    assert re.search(r"# (no GPU|GPU 0: )", text)


def test_H12_environment_and_configuration_are_lines(here, monkeypatch):
    import torch._inductor.config

    monkeypatch.setenv("TORCH_SHOW_CPP_STACKTRACES", "0")
    monkeypatch.setenv("TORCHDYNAMO_REPRO_LEVEL", "1")
    with torch._inductor.config.patch(max_autotune=True), pellucid.config.patch(dynamic_shapes=False):
        fails(f, torch.ones(3), backend="relu_compile_error_TESTING_ONLY", repro_level=1)
    text = (here / "pellucid_repro/repro.py").read_text()
    assert "os.environ['TORCH_SHOW_CPP_STACKTRACES'] = '0'" in text and "TORCHDYNAMO_REPRO" not in text
    assert "torch._inductor.config.max_autotune = True" in text and "config={'dynamic_shapes': False}" in text


def test_H13_strides_are_kept(here):
    error = fails(lambda x: x.sin().cos(), torch.randn(3, 4).t(), backend=_planted("wrong_for_transposed"))
    script = Path(error.repro)
    script.write_text(_with_backend(script, "wrong_for_transposed"))
    (script.with_name("inputs.pt")).unlink()  # the layout is in the script
    run_python(script, cwd=here)
    text = (here / "pellucid_repro/repro.py").read_text()
    assert "reader.tensor((2, 2), (1, 2))" in text
    assert "ValueError: strides" in run_python("pellucid_repro/repro.py", cwd=here, expect=1)


def test_H13_inputs_that_share_memory(here):
    def two(x, y):
        x.add_(1)
        return torch.relu(y)

    base = torch.zeros(6)
    fails(two, base[:4], base[2:], backend="relu_compile_error_TESTING_ONLY", repro_level=1)
    lines = [line for line in (here / "pellucid_repro/repro.py").read_text().splitlines() if "reader.tensor((" in line]
    assert [re.sub(r" +#.*", "", line.strip()) for line in lines] == [
        "reader.tensor((4,), storage='storage_0')",
        "reader.tensor((4,), storage='storage_0', offset=2)",
    ]
    assert "torch.uint8" in str(torch.load(here / "pellucid_repro/repro.pt", weights_only=True)["storage_0"].dtype)


def test_H14_backward_only_where_there_is_something_to_go_back_to(here):
    for requires_grad in (True, False):
        script = _script_of(here, f, [torch.ones(3, requires_grad=requires_grad)], "eager")
        assert "nothing failed" in run_python(script, cwd=here)


def test_H14_autocast_is_a_line(here):
    run_python(PROGRAM, "product", "wrong_under_autocast", cwd=here, expect=1, TORCHDYNAMO_REPRO_AFTER="dynamo")
    run_python(LAUNCHER, cwd=here)
    said = run_python("pellucid_repro/repro.py", cwd=here, expect=1)
    assert "autocast and a product" in said


def test_H14_modes_around_the_call_are_lines(here):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        fails(torch.relu, torch.ones(3), backend="relu_compile_error_TESTING_ONLY", repro_level=1)
    text = (here / "pellucid_repro/repro.py").read_text()
    assert "    with torch.autocast('cpu', dtype=torch.bfloat16), torch.no_grad():\n        run_repro(" in text


def test_H15_a_backend_without_a_name(here):
    def toy(gm, example_inputs):
        raise ValueError("toy")

    error = fails(f, torch.ones(3), backend=toy)
    script = Path(error.repro)
    assert "BACKEND = None  # put the backend here; it was " in script.read_text()
    said = run_python(script, cwd=here, expect=1)
    assert "RuntimeError: minifier_launcher.py has no backend" in said and "`BACKEND = None`" in said
    script.write_text(_with_backend(script, "refuses_tanh").replace("torch.relu", "torch.tanh"))
    assert "3 nodes -> 1" in run_python(script, cwd=here)


def test_H15_one_that_the_script_defines_itself(here):
    error = fails(f, torch.ones(3), backend=_planted("refuses_relu_here", lambda gm, _: 1 / 0))
    script = Path(error.repro)
    own = "def BACKEND(gm, example_inputs):\n    raise ZeroDivisionError('own')\n"
    script.write_text(re.sub(r"(?m)^BACKEND = None.*", own, script.read_text()))
    assert "ZeroDivisionError: own" in run_python(script, cwd=here)
    assert "BACKEND = None" in (here / "pellucid_repro/repro.py").read_text()


def test_H16_modules_of_torch_are_written_by_constructor(here):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.25).eval(), torch.nn.ReLU())
    graph = torch.fx.symbolic_trace(model)
    for name, child in list(graph.named_children()):
        graph.add_module(f"layer_{name}", child)
    for node in graph.graph.nodes:
        if node.op == "call_module":
            node.target = f"layer_{node.target}"
    graph.graph.call_function(torch.relu, (graph.graph.output_node().args[0],))
    graph.recompile()
    script = write_repro(graph, [torch.ones(2, 3)], here / "repro.py", backend="eager", accuracy=True)
    text = script.read_text()
    assert "torch.nn.Linear(in_features=3, out_features=4, bias=True)" in text
    assert "torch.nn.Dropout(p=0.25, inplace=False).eval()" in text
    assert "nothing failed" in run_python(script, cwd=here)


def test_H16_others_are_refused_by_name(here):
    class Block(torch.nn.Module):
        def forward(self, x):
            return x + 1

    nodes = torch.fx.Graph()
    nodes.output((nodes.call_module("block", (nodes.placeholder("x"),)),))
    graph = torch.fx.GraphModule({"block": Block()}, nodes)
    with pytest.raises(
        ReproRefused, match=r"self\.block is a test_rows_of_h\..*Block: a script can make modules of torch\.nn"
    ):
        write_repro(graph, [torch.ones(3)], here / "repro.py", backend="eager")


def test_H16_a_function_of_the_program_is_refused_and_its_error_still_raised(here, caplog):
    @pellucid.allow_in_graph
    def own(x):
        return torch.relu(x)

    def calls(x):
        return torch.relu(own(x))

    error = fails(calls, torch.ones(3), backend="relu_compile_error_TESTING_ONLY")
    assert error.repro is None and "ReluCompileError" in str(error)
    assert any(
        "no script was written" in record.getMessage() and "own" in record.getMessage() for record in caplog.records
    )


def test_H17_leaves_stay_leaves_and_others_do_not(here):
    leaf, computed = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True) * 2
    fails(lambda a, b: (a + b).sin().cos(), leaf, computed, backend="non_leaf_compile_error_TESTING_ONLY")
    text = (here / LAUNCHER).read_text()
    assert "is_leaf=False, requires_grad=True, storage='storage_1')" in text
    run_python(LAUNCHER, cwd=here)
    smallest = (here / "pellucid_repro/repro.py").read_text()
    assert "is_leaf=False, requires_grad=True" in smallest and len(body(here / "pellucid_repro/repro.py")) == 2
    assert "TestingOnlyCompileError" in run_python("pellucid_repro/repro.py", cwd=here, expect=1)


def test_H18_tolerance_nan_and_dtypes():
    one = torch.ones(4)
    assert accuracy.same(one, one + 1e-4) and not accuracy.same(one, one + 1e-2)
    assert accuracy.same(one, one + 1e-2, tolerance=0.1)
    nan = torch.tensor([1.0, float("nan")])
    assert accuracy.same(nan, nan.clone()) and not accuracy.same(nan, nan.clone(), equal_nan=False)
    assert not accuracy.same(nan, torch.tensor([1.0, 2.0])) and not accuracy.same(torch.tensor([1.0, 2.0]), nan)
    infinite = torch.tensor([float("inf"), 1.0])
    assert accuracy.same(infinite, infinite.clone()) and not accuracy.same(infinite, -infinite)
    assert not accuracy.same(infinite, torch.ones(2), torch.ones(2, dtype=torch.float64))
    assert not accuracy.same(one, one.double()) and accuracy.same(one, one.double(), checks_dtype=False)
    assert not accuracy.same(torch.ones(2, 3), torch.ones(3, 2))
    assert not accuracy.same(torch.ones(2, 3), torch.ones(3, 2).t(), checks_stride=True)
    with pytest.raises(ValueError, match="tolerance must not be negative"):
        accuracy.same(one, one, tolerance=-1)


def test_H18_integers():
    a, b = torch.tensor([1, 2]), torch.tensor([1, 3])
    assert not accuracy.same(a, b) and accuracy.same(a, b, ignores_integers=True)
    assert not accuracy.same([a.bool()], [torch.tensor([True, False])])
    assert accuracy.same({"a": (a, 1, None)}, {"a": (a.clone(), 1, None)}) and not accuracy.same({"a": 1}, {"b": 1})


def test_H18_a_reference_of_higher_precision():
    exact = torch.linspace(1, 2, 2000, dtype=torch.float64)
    eager = (exact + 0.02 * torch.sin(exact * 1000)).float()
    as_good = (exact + 0.03 * torch.cos(exact * 1000)).float()
    worse = (exact + 0.06 * torch.cos(exact * 1000)).float()
    assert not accuracy.same(eager, as_good)  # without a reference they are too far apart
    assert accuracy.same(eager, as_good, exact) and not accuracy.same(eager, worse, exact)
    said = accuracy.difference(eager, worse, exact, place="result 3")
    assert said.startswith(
        "result 3: the root mean square error beside float64 is 0.0424, that of the eager run 0.0141"
    )


def test_H18_the_graph_in_float64():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_method("half", (graph.call_method("to", (x, torch.float32)),))
    graph.output((graph.call_function(torch.sum, (y,), {"dtype": torch.bfloat16}),))
    made, args = accuracy.in_double(torch.fx.GraphModule({}, graph), [torch.ones(3, requires_grad=True)])
    (result,) = made(*args)
    assert result.dtype is torch.float64 and args[0].requires_grad and args[0].is_leaf


@pytest.mark.slow
def test_H19_random_numbers_are_equal_with_fallback_random():
    def drops(x):
        return torch.nn.functional.dropout(x, 0.5)

    x = torch.ones(100)
    with torch._inductor.config.patch(fallback_random=True):
        torch.manual_seed(3)
        got = pellucid.compile(drops, backend="inductor")(x)
    torch.manual_seed(3)
    assert torch.equal(got, drops(x))


def test_nothing_to_minify_is_an_error(here):
    script = _script_of(here, f, [torch.ones(3)], "eager")
    assert "NothingFails" in run_python(script, "minify", cwd=here, expect=1)
    assert issubclass(NothingFails, RuntimeError) and callable(run_repro)


# ---- helpers


def _planted(name, function=None):
    """A backend of planted_faults that no name stands for: as one of the program's own."""
    before = set(registry._REGISTERED)
    import planted_faults

    for new in set(registry._REGISTERED) - before:
        registry.unregister_backend(new)
    found = function or getattr(planted_faults, name)
    return lambda gm, example_inputs: found(gm, example_inputs)


def _with_backend(script: Path, name: str) -> str:
    """The text of a script with a backend in the place that it left free."""
    replaced = f"import planted_faults\nBACKEND = planted_faults.{name}"
    return re.sub(r"(?m)^BACKEND = None.*", replaced, script.read_text())


def _script_of(folder: Path, function, args, backend) -> Path:
    """The graph of a function as a script."""
    graphs = []

    def keeping(gm, example_inputs):
        graphs.append((gm, list(example_inputs)))
        return lookup_backend("eager")(gm, example_inputs)

    pellucid.compile(function, backend=keeping)(*args)
    return write_repro(*graphs[0], folder / "script.py", backend=backend)
