"""Backends that the program passes as functions: `minify` finds them again, by one command and in a fresh process."""

import textwrap

import pytest

from support.scripts import run_python

BODY = """
import torch
import pellucid

def body(x, w):
    h = torch.relu(x @ w)
    return (h.sin() * 2).mean() + h.exp().sum() + h.cos().sum()
"""
CALL = """
pellucid.compile(body, backend={backend})(torch.ones(6, 4), torch.ones(4, 8))
"""
REFUSES = """
LIMIT = "exp"

def has(gm):
    return any(LIMIT in str(node.target) for node in gm.graph.nodes)

def refuses(gm, example_inputs):
    if has(gm):
        raise RuntimeError("cannot lower exp")
    return gm.forward
"""
OF_AOT = """
from torch._dynamo.backends.common import aot_autograd as of_aot
behind_aot = of_aot(fw_compiler=refuses)
"""
WRONG = """
def wrong(gm, example_inputs):
    for node in gm.graph.nodes:
        if node.target == "cos":
            node.target = "sin"
    gm.recompile()
    return gm.forward
"""


def minified(tmp_path, program: str) -> str:
    (tmp_path / "train.py").write_text(program)
    said = run_python("-m", "pellucid", "minify", "train.py", "--output-dir", "out", cwd=tmp_path)
    assert "-> 1" in said
    return (tmp_path / "out" / "repro.py").read_text()


def test_function_of_the_main_file(tmp_path):
    script = minified(tmp_path, BODY + REFUSES + CALL.format(backend="refuses"))
    assert textwrap.dedent(REFUSES).strip().splitlines()[0] in script
    assert "BACKEND = refuses" in script
    (tmp_path / "train.py").unlink()
    assert "cannot lower exp" in run_python("out/repro.py", cwd=tmp_path, expect=1)


def test_value_of_the_main_file(tmp_path):
    script = minified(tmp_path, BODY + REFUSES + OF_AOT + CALL.format(backend="behind_aot"))
    assert "BACKEND = behind_aot" in script
    assert "from torch._dynamo.backends.common import aot_autograd as of_aot" in script
    assert "cannot lower exp" in run_python("out/repro.py", cwd=tmp_path, expect=1)


def test_function_of_a_module_beside_it(tmp_path):
    (tmp_path / "own_backends_beside.py").write_text(REFUSES)
    program = BODY + "import own_backends_beside\n" + CALL.format(backend="own_backends_beside.refuses")
    script = minified(tmp_path, program)
    assert "BACKEND = own_backends_beside.refuses" in script
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "cannot lower exp" in run_python("../out/repro.py", cwd=elsewhere, expect=1)


def test_wrong_values(tmp_path):
    script = minified(tmp_path, BODY + WRONG + CALL.format(backend="wrong"))
    assert "BACKEND = wrong" in script and ".cos()" in script


def test_triage_runs_it_last(tmp_path):
    (tmp_path / "train.py").write_text(BODY + WRONG + CALL.format(backend="wrong"))
    said = run_python("-m", "pellucid", "triage", "train.py", cwd=tmp_path, expect=1)
    assert "first stage at fault: own backend" in said
    assert "next: python -m pellucid minify train.py" in said


@pytest.mark.parametrize("backend", ["(lambda limit: lambda gm, inputs: 1 / 0)(3)"])
def test_what_has_no_name_is_asked_for(tmp_path, backend):
    (tmp_path / "train.py").write_text(BODY + CALL.format(backend=backend))
    said = run_python("-m", "pellucid", "minify", "train.py", "--output-dir", "out", cwd=tmp_path, expect=1)
    assert "has no backend" in said


def test_a_failure_that_is_not_behind_aot_is_told(tmp_path):
    (tmp_path / "train.py").write_text(BODY + REFUSES + CALL.format(backend="refuses"))
    said = run_python("train.py", cwd=tmp_path, expect=1, PELLUCID_REPRO_AFTER="aot")
    assert "repro_after = 'aot' writes nothing of that" in said
