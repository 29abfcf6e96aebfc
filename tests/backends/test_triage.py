"""Row E26 of docs/feature_rows.md: triage finds the first stage at fault, the first graph, and what to type next."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import textwrap

import pytest
import torch

import pellucid
from pellucid import backends
from pellucid._triage.outcome import Outcome, kept, problem_of
from pellucid.errors import InvalidBackend
from support import same

X = torch.arange(1.0, 4.0)


def four_graphs(x):
    x = x.sin()
    pellucid.graph_break()
    x = torch.relu(x - 0.5)
    pellucid.graph_break()
    x = x.cos() + torch.nn.functional.gelu(x)
    pellucid.graph_break()
    return x * 2


def stages(found):
    return [(step.stage, step.problem is None) for step in found.steps]


def test_E26_nothing_is_at_fault():
    found = pellucid.triage(four_graphs, X)
    assert found.stage is None and found.graph is None and found.next == ""
    assert [stage for stage, _ in stages(found)] == [
        "eager",
        "capture",
        "eager graph",
        "AOTAutograd",
        "decompositions",
        "Inductor",
    ]
    assert all(good for _, good in stages(found)) and "no stage is at fault" in str(found)


# ---- a fault in each stage


def wrong_capture(monkeypatch):
    monkeypatch.delattr(pellucid.polyfills, "reduce_by")
    return lambda x: functools.reduce(lambda a, b: a + b, [x, x + 1]).cos()


def wrong_graph(monkeypatch):
    from pellucid.backends import checking

    class Wrong(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.exp if target is torch.relu else target, args, kwargs)

    monkeypatch.setattr(checking, "Interpreter", Wrong)
    return four_graphs


def wrong_aot(monkeypatch):
    """An operator whose gradient cannot be traced."""

    @torch.library.custom_op("pellucid_triage::cube", mutates_args=())
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x**3

    cube.register_fake(torch.empty_like)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * torch.from_numpy(x.numpy()) ** 2

    cube.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    operator = torch.ops.pellucid_triage.cube

    def f(x):
        x = x + 1
        pellucid.graph_break()
        return operator(x) * 2

    return f


def wrong_decompositions(monkeypatch):
    from torch._inductor import compile_fx

    table = {
        **compile_fx.select_decomp_table(),
        torch.ops.aten.gelu.default: lambda x, approximate="none": torch.tanh(x),
    }
    monkeypatch.setattr(compile_fx, "select_decomp_table", lambda: table)
    return four_graphs


def wrong_inductor(monkeypatch):
    """The backward graph of sin has it too."""
    from torch._inductor import lowering

    def broken(*args, **kwargs):
        raise NotImplementedError("no code for cos")

    monkeypatch.setitem(lowering.lowerings, torch.ops.aten.cos.default, broken)
    return four_graphs


@pytest.mark.parametrize(
    ("plant", "stage", "number", "words"),
    [
        (wrong_capture, "capture", None, "PEL0901 internal error"),
        (wrong_graph, "eager graph", 1, "the result"),
        (wrong_aot, "AOTAutograd", 1, "BackendCompilerFailed"),
        (wrong_decompositions, "decompositions", 2, "the result"),
        (wrong_inductor, "Inductor", 0, "no code for cos"),
    ],
)
def test_E26_the_stage_and_the_graph(monkeypatch, plant, stage, number, words):
    f = plant(monkeypatch)
    x = X.clone().requires_grad_()
    with torch._inductor.config.patch(force_disable_caches=True):
        found = pellucid.triage(f, x)
        assert found.stage == stage and words in found.problem, str(found)
        assert (found.graph.number if found.graph else None) == number, str(found)
        assert f"first stage at fault: {stage}" in str(found) and f"next: {found.next}" in str(found)
        asked = re.fullmatch(r"pellucid\.triage\([\w<>]+, …, backend='(.*)'\)", found.next)[1]
        again = pellucid.triage(f, x, backend=asked)
    assert again.stage == "asked for" and words in again.problem
    if number is not None:
        assert asked.startswith(f"{number}:") and "first graph at fault: graph " in str(found)
        assert found.graph.place.startswith(f"ends at {__file__}:")
    assert x.grad is None and same(x.detach(), X)


def test_E26_detail_of_one_backend():
    found = pellucid.triage(four_graphs, X, backend="1:relu_compile_error_TESTING_ONLY;else:eager")
    assert found.stage == "asked for" and "ReluCompileError" in found.problem
    assert "Traceback" in found.detail and "raise ReluCompileError" in found.detail
    assert "-- graph 0 (" in found.detail and "def forward" in found.detail


def test_a_graph_that_raises_at_run_time_is_a_fault():
    """The call gives the right result all the same, with a warning."""

    @backends.register_debug_backend(name="raises_at_run_time")
    def backend(gm, example_inputs):
        def run(*inputs):
            raise ZeroDivisionError("planted")

        return run

    try:
        found = pellucid.triage(torch.sin, X, backend="raises_at_run_time")
    finally:
        backends.unregister_backend("raises_at_run_time")
    assert "a compiled graph raised ZeroDivisionError: planted" in found.problem


def test_what_is_wrong_with_a_call():
    with pytest.raises(TypeError, match="needs a callable, not int"):
        pellucid.triage(3)
    with pytest.raises(InvalidBackend, match="no_such"):
        pellucid.triage(torch.sin, X, backend="no_such")


# ---- each run starts from the same state


COUNT = torch.zeros(1)
NET = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3))


def with_state(x, out):
    COUNT.add_(1)
    out.add_(x.sum())
    return NET(x) + torch.rand(3) + COUNT, torch.nn.functional.dropout(x)


def test_arguments_modules_and_random_numbers_are_put_back():
    x, out = torch.randn(4, 3), torch.zeros(1)
    state, before = torch.get_rng_state(), {name: value.clone() for name, value in NET.state_dict().items()}
    found = pellucid.triage(with_state, x, out, backend="aot_eager")
    assert found.stage is None and found.notes == [], str(found)
    assert COUNT.item() == out.item() == 0 and same(torch.get_rng_state(), state)
    assert all(same(value, before[name]) for name, value in NET.state_dict().items())


def test_a_module_and_keywords():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x, *, scale):
            return {"y": self.layer(x) * scale}

    net = pellucid.compile(Net(), backend="eager")
    assert pellucid.triage(net, X, scale=2, backend="aot_eager").stage is None


def test_gradients_are_compared():
    @backends.register_debug_backend(name="no_gradients")
    def backend(gm, example_inputs):
        return lambda *inputs: [value * 2 - value.detach() for value in gm.forward(*inputs)]

    try:
        found = pellucid.triage(torch.sin, X.clone().requires_grad_(), backend="no_gradients")
    finally:
        backends.unregister_backend("no_gradients")
    assert found.problem.startswith("the gradients")


def test_functions_that_are_not_repeatable():
    calls = []

    def f(x):
        calls.append(1)
        return x * len(calls)

    found = pellucid.triage(f, X, backend="eager")
    assert found.stage is None and "only exceptions are compared" in found.notes[0]


def test_a_function_that_raises():
    def f(x):
        raise KeyError("the program's own")

    found = pellucid.triage(f, X, backend="aot_eager")
    assert found.stage is None and "The eager run ends with KeyError" in found.notes[0]


# ---- what is compared


def outcomes(a, b):
    return Outcome(results=[("the result", kept(a))]), Outcome(results=[("the result", kept(b))])


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([X, {"k": 1.0}], [X + 1e-7, {"k": 1.0 + 1e-8}], None),
        ([X], [X + 1], "the result[0]: "),
        ({"k": X}, {"k": X[:2]}, "the result['k'] has shape and device ((2,), 'cpu') instead of ((3,), 'cpu')"),
        ({"k": 1}, {"other": 1}, "the result is built otherwise"),
        ([1], [2], "the result[0] is 2 instead of 1"),
        ([X], [None], "only one of both gives a tensor as the result[0]"),
        ([X.to_sparse()], [X.to_sparse()], None),
        ([1 + 2j, "a", b"b", None], [1 + 2j, "a", b"b", None], None),
        (torch.zeros(1 << 18), torch.ones(1 << 18), "the result: "),
    ],
)
def test_differences_of_results(a, b, words):
    found = problem_of(*outcomes(a, b))
    assert found is None if words is None else found.startswith(words), found


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ("loss 0.12345\n", "loss 0.12346\n", None),
        ("loss 0.12345\n", "loss 0.2\n", "line 1 that it prints is 'loss 0.2' instead of 'loss 0.12345'"),
        ("a\nb\n", "a\n", "it prints 1 lines instead of 2"),
        ("done\n", "failed\n", "line 1"),
    ],
)
def test_differences_of_what_is_printed(a, b, words):
    found = problem_of(Outcome(printed=a), Outcome(printed=b))
    assert found is None if words is None else found.startswith(words), found


# ---- a program


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "pellucid", "triage", *arguments], capture_output=True, text=True)


PROGRAM = """
import sys
import torch, pellucid


@pellucid.compile(backend="inductor")
def step(x):
    x = x.sin()
    pellucid.graph_break()
    x = torch.relu(x)
    pellucid.graph_break()
    return x.cos()


if "wrong" in sys.argv:
    from pellucid.backends import aot
    right = aot.over_aot
    def wrong(gm, example_inputs, **more):
        for node in gm.graph.nodes:
            if node.target is torch.relu:
                node.target = torch.exp
        gm.recompile()
        return right(gm, example_inputs, **more)
    aot.over_aot = wrong
print("mean", step(torch.randn(8)).mean().item())
"""


@pytest.mark.slow
def test_E26_a_program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    done = run(str(file), "--", "wrong")
    assert done.returncode == 1, done.stderr
    assert (
        "first stage at fault: AOTAutograd" in done.stdout
        and "first graph at fault: graph 1 (__resume_at_" in done.stdout
    )
    assert f"program.py:{PROGRAM.splitlines().index('    pellucid.graph_break()', 10) + 1} in step" in done.stdout
    (command,) = re.findall("^next: (.*)$", done.stdout, re.M)
    assert command == f"python -m pellucid triage {file} --backend '1:aot_eager;else:interpreter' -- wrong"
    again = subprocess.run(command.replace("python", sys.executable, 1), shell=True, capture_output=True, text=True)
    assert again.returncode == 1 and "torch.relu" in again.stdout and "result 1 of step" in again.stdout


TORCH_COMPILED = """
import torch

def crash(gm, inputs):
    raise ValueError("planted")

@torch.compile(backend=crash)
def step(x):
    return torch.relu(x - 1) * 2

print(step(torch.ones(3)).sum().item())
"""


def test_E26_a_program_of_torch_compile(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(TORCH_COMPILED)
    done = run(str(file), "--backend", "relu_compile_error_TESTING_ONLY", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert "ReluCompileError" in found["problem"] and len(found["runs"]) == 2
    done = run(str(file), "--backend", "eager", "--json")
    assert done.returncode == 0, done.stdout


def test_E26_a_program_without_fault_as_json(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    done = run(str(file), "--backend", "aot_eager", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["stage"] is None and [step["backend"] for step in found["runs"]] == ["-", "aot_eager"]


def test_a_program_that_crashes_or_never_ends(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("import os, pellucid\nif pellucid._core and os.environ.get('NOTHING') is None: os.abort()\n")
    done = run(str(file), "--backend", "eager")
    assert "The eager run ends with the process ended with signal 6" in done.stdout
    file.write_text("import time\ntime.sleep(100)\n")
    done = run(str(file), "--backend", "eager", "--timeout", "2")
    assert "it is not done after 2.0 s" in done.stderr and "fault" not in done.stdout and done.returncode == 2


def test_wrong_command_lines(tmp_path):
    done = run(str(tmp_path / "nothing.py"))
    assert done.returncode == 2 and "there is no file" in done.stderr
    file = tmp_path / "program.py"
    file.write_text("")
    done = run(str(file), "--backend", "<3:eager")
    assert done.returncode == 2 and "graph 3 has no backend" in done.stderr
    done = run(str(file), "--timeout", "-1")
    assert done.returncode == 2 and "--timeout -1: a number of seconds above 0" in done.stderr
