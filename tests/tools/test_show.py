"""`python -m pellucid show` and `pellucid.show`: each stage of a function as text, the same in every process."""

import json
import os
import subprocess
import sys

import pytest
import torch

import pellucid
from pellucid.__main__ import main

PROGRAM = """\
import sys
import torch


class Counter:
    def __init__(self):
        self.seen = []

    def step(self, x):
        self.seen.append(2)
        return x * 2


def branch(x, low=0):
    y = x.sin()
    if y.sum() > low:
        y = y + 1
    return y


def outer():
    def inner(x):
        return x - 1

    return inner(torch.ones(2))


number = 3
counter = Counter()
if __name__ == "__main__":
    print("printed by the program")
    counter.step(torch.ones(2))
    branch(torch.ones(3))
    outer()
    if "fail" in sys.argv:
        raise RuntimeError("the program fails")
"""


HEAD = """\
== __compiled_fn_0: Counter.step from line 9 (offset 0) to line 11 (offset 62)

-- bytecode
    9 ->          0 RESUME                   0
   10             2 LOAD_FAST                0 (self)
                  4 LOAD_ATTR                0 (seen)
                 14 LOAD_METHOD              1 (append)
                 36 LOAD_CONST               1 (2)
                 38 PRECALL                  1
                 42 CALL                     1
                 52 POP_TOP
   11            54 LOAD_FAST                1 (x)
                 56 LOAD_CONST               1 (2)
                 58 BINARY_OP                5 (*)
        <-       62 RETURN_VALUE

-- graph
graph():
    %l_x_ : [num_users=1] = placeholder[target=L_x_]  # L['x']
    %mul : [num_users=1] = call_function[target=operator.mul](args = (%l_x_, 2), kwargs = {})
    return (%mul,)

-- guards
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    return "program.py"


def run(capsys, *arguments):
    status = main(["show", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_all_stages_of_a_region(file, capsys):
    status, out, err = run(capsys, f"{file}:Counter.step")
    assert status == 0
    assert out.startswith(HEAD)
    assert "TENSOR_MATCH L['x'] f32[2] cpu requires_grad=False  # program.py:9, is an argument" in out
    assert "-- effects\nAppendToList L['self'].seen\n" in out
    assert out.endswith("-- code\nmul, = __compiled_fn_0(x)\nself_seen = self.seen\nself_seen.append(2)\nreturn mul\n")
    assert "printed by the program" not in out
    assert "printed by the program" in err


def test_only_some_stages(file, capsys):
    status, out, _ = run(capsys, f"{file}:Counter.step", "--only", "code,effects")
    assert status == 0
    assert [line for line in out.splitlines() if line.startswith("-- ")] == ["-- effects", "-- code"]


def test_a_graph_break_gives_two_regions(file, capsys):
    status, out, _ = run(capsys, f"{file}:branch", "--args", "torch.ones(3), low=number", "--only", "code")
    assert status == 0
    first, second = (block.splitlines() for block in out.split("== ")[1:])
    assert first[0].startswith("__compiled_fn_0: branch from line 14 (offset 0) to line 16 (offset ")
    assert first[1].startswith("   graph break: PEL0201 DataDependent: a branch on a tensor")
    assert second[0].startswith("__resume_at_")
    assert "from line 18" in second[0]  # sin(1) * 3 is less than 3


def test_a_nested_function(file, capsys):
    status, out, _ = run(capsys, f"{file}:outer.inner", "--only", "code")
    assert status == 0
    assert out.splitlines()[0].startswith("== __compiled_fn_0: outer.<locals>.inner from line 22 ")


def test_every_set_of_arguments_is_shown(file, capsys):
    with open(file, "a") as more:
        more.write("    branch.seen = [counter.step(torch.ones(n)) for n in (2, 4, 4)]\n")
    status, out, _ = run(capsys, f"{file}:Counter.step", "--only", "guards")
    assert status == 0
    assert [name for name in ("f32[2]", "f32[*]") if f"TENSOR_MATCH L['x'] {name}" in out] == ["f32[2]", "f32[*]"]
    assert "__compiled_fn_1" in out


def test_json(file, capsys):
    status, out, _ = run(capsys, f"{file}:Counter.step", "--json", "--only", "effects,graph")
    shown = json.loads(out)
    assert status == 0
    (region,) = shown["regions"]
    assert set(region) == {"name", "function", "file", "begin", "end", "graph_break", "graph", "effects"}
    assert region["effects"] == ["AppendToList L['self'].seen"]
    assert region["file"] == "program.py"
    assert shown["not_captured"] == []


@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_call_that_runs_eagerly_says_why(file, capsys):
    with open(file, "a") as more:
        more.write("\n\nasync def refused(x):\n    return x\n")
    status, out, _ = run(capsys, f"{file}:refused", "--args", "torch.ones(1)", "--only", "code")
    assert status == 1
    assert out.startswith("== not captured: PEL")
    assert out.endswith("(in refused)\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["program.py"], "'program.py' is not of the form file.py:function"),
        (["nowhere.py:f"], "there is no file 'nowhere.py'"),
        (
            ["program.py:missing"],
            "defines no function 'missing'; it defines branch, outer, Counter.__init__, Counter.step",
        ),
        (["program.py:missing", "--args", ""], "has no 'missing'"),
        (["program.py:number", "--args", ""], "number of program.py cannot be called: it is a int"),
        (["program.py:branch", "--args", "1 +"], "--args '1 +': "),
        (
            ["program.py:branch", "--only", "graph,colour"],
            "there is no stage 'colour'; the stages are bytecode, graph,",
        ),
    ],
)
def test_wrong_command_lines(file, capsys, arguments, message):
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert message in err


def test_a_function_that_is_never_called(file, capsys):
    with open(file, "a") as more:
        more.write("\n\ndef unused(x):\n    return x\n")
    status, out, err = run(capsys, f"{file}:unused")
    assert status == 1
    assert "program.py made no call of unused that reached it" in err


def test_a_program_that_fails_is_shown_up_to_there(file, capsys):
    status, out, err = run(capsys, f"{file}:Counter.step", "--only", "effects", "--", "fail")
    assert status == 1
    assert "AppendToList L['self'].seen" in out
    assert "RuntimeError: the program fails" in err
    assert "_show_file.py" not in err


def test_the_session_is_as_before(file, capsys):
    before = (sys.modules["__main__"], list(sys.argv), list(sys.path))
    run(capsys, f"{file}:Counter.step")
    assert before == (sys.modules["__main__"], sys.argv, sys.path)


def test_two_processes_write_the_same(file):
    texts = []
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "pellucid", "show", f"{file}:branch"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        texts.append(done.stdout)
    assert texts[0] == texts[1]
    assert "<method_descriptor at 0x1>" in texts[0]  # addresses are numbered
    assert "__compiled_fn_0" in texts[0]


def test_from_python():
    cell = [0]

    def f(x, k):
        cell.append(k)
        return x + k

    shown = pellucid.show(f)(torch.ones(2), k=3)
    assert cell == [0, 3]  # the call was real
    assert torch.equal(shown.result, torch.full((2,), 4.0))
    (region,) = shown.regions
    assert region.effects == ("AppendToList F['cell'].cell_contents",)
    assert "append" in region.code
    assert "EQUALS_MATCH L['k'] 3" in shown.text(["guards"])
    assert str(pellucid.show(f)(torch.ones(2), k=3)) != ""
    with pytest.raises(TypeError, match=r"pellucid\.show needs a callable, not int"):
        pellucid.show(3)
    with pytest.raises(ValueError, match="there is no stage 'ast'"):
        shown.text(["ast"])


def test_a_module_and_what_is_compiled_already():
    model = torch.nn.Linear(2, 2)
    compiled = pellucid.compile(model, backend="eager")
    expected = compiled(torch.ones(1, 2))
    entries = len(pellucid.cache_entries(compiled))
    shown = pellucid.show(compiled)(torch.ones(1, 2))
    assert torch.equal(shown.result, expected)
    assert len(pellucid.cache_entries(compiled)) == entries
    (region,) = shown.regions
    assert "call_function[target=torch._C._nn.linear]" in region.graph
    assert any(
        "  # torch/nn/modules/linear.py:" in guard for guard in region.guards
    )  # relative to the library's folder
