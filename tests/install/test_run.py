"""python -m pellucid run"""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, torch, helper
@torch.compile(backend="eager")
def f(x):
    return x + 1
print(__name__, sys.argv[1:], type(f).__name__, f(torch.ones(1)).item(), helper.NAME)
if "fail" in sys.argv:
    helper.fail()
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text("NAME = 'help'\ndef fail():\n    raise ValueError('on purpose')\n")
    return tmp_path


def run(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "pellucid", "run", *words], cwd=folder, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("words", [("program.py",), ("-m", "program")])
def test_it_runs_as_python_would(folder, words):
    done = run(folder, *words, "3", "--only", "--", "x")
    assert done.stdout == "__main__ ['3', '--only', '--', 'x'] CompiledFunction 2.0 help\n", done.stderr
    assert done.returncode == 3


@pytest.mark.parametrize("words", [("program.py",), ("-m", "program")])
def test_an_exception_is_the_programs(folder, words):
    done = run(folder, *words, "fail")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("Traceback") and "program.py" in done.stderr.splitlines()[1]
    assert done.stderr.splitlines()[-1] == "ValueError: on purpose" and "pellucid" not in done.stderr


def test_wrong_command_lines(folder):
    done = run(folder, "missing.py")
    assert done.returncode == 2 and "there is no file 'missing.py'" in done.stderr
    assert run(folder).returncode == 2
    help_text = run(folder, "--help")
    assert help_text.returncode == 0 and "torchrun" in help_text.stdout
