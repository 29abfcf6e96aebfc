"""Programs with one planted fault at some stage, each reduced by one command in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.scripts import run_python

HERE = Path(__file__).parent
PROGRAM = HERE / "failing_program.py"
REPRO = "pellucid_repro/repro.py"


def calls(script: Path) -> list[str]:
    """The lines of `forward` but its return."""
    text = script.read_text()
    lines = text.split("    def forward(")[1].split("\n\n\n")[0].splitlines()
    return [line.partition("  # ")[0].strip() for line in lines[1:] if "return" not in line]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "backend", "failure", "left"),
    [
        ("long", "refuses_tanh", "TanhError: tanh has no kernel for these sizes", "e = torch.tanh(add)"),
        ("long", "raises_at_tanh", "ValueError: tanh came to a bad end", "e = torch.tanh(add)"),
        ("long", "two_faults", "SigmoidError: sigmoid is not known", "h = torch.sigmoid(g)"),
        ("long", "computes_cos_for_sin", "AccuracyError: result", "b = torch.sin(a)"),
        ("long", "wrong_only_backward", "AccuracyError: gradient", "b = torch.sin(a)"),
        ("long", "fails_in_aot", "TanhError: aten.tanh", "e = torch.tanh(add)"),
        ("long", "fails_only_backward", "TanhError: aten.tanh_backward", "e = torch.tanh(add)"),
        ("product", "wrong_under_autocast", "TanhError: autocast and a product", "mm = torch.mm(l_x_, l_w_)"),
    ],
)
def test_a_backend(tmp_path, function, backend, failure, left):
    said = run_python("-m", "pellucid", "minify", PROGRAM, "--", function, backend, cwd=tmp_path)
    assert f"1 inputs: {failure}" in said or f"2 inputs: {failure}" in said
    assert calls(tmp_path / REPRO) == [left]
    assert failure.split(":")[0] in run_python(REPRO, cwd=tmp_path, expect=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "failure"), [("ends_the_process", "a crash (SIGSEGV)"), ("never_ends", "a hang (longer than 12 s)")]
)
def test_a_process_that_crashes_or_hangs(tmp_path, backend, failure):
    arguments = ["--timeout", "12", "--", "short", backend]
    said = run_python("-m", "pellucid", "minify", PROGRAM, *arguments, cwd=tmp_path)
    assert f"4 nodes -> 1, 1 inputs: {failure}" in said and "each in a process of its own" in said
    assert calls(tmp_path / REPRO) == ["b = torch.tanh(a)"]


@pytest.mark.slow
def test_capture(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import pellucid, torch\n"
        "import torch.nn.functional as F\n"
        "@pellucid.compile(backend='eager')\n"
        "def f(x, w):\n"
        "    a = torch.sin(x @ w)\n"
        "    with torch.no_grad():\n"
        "        b = F.normalize(a, dim=1).T.contiguous().T\n"
        "    c, d = b.split(4, dim=1)\n"
        "    return (c * d).relu().sum()\n"
        "torch.manual_seed(0)\n"
        "print(f(torch.randn(4, 3), torch.randn(3, 8)))\n"
    )
    path = f"{HERE / 'planted_capture'}:{HERE.parents[1] / 'python'}"
    said = run_python("-m", "pellucid", "triage", program, "--accuracy", cwd=tmp_path, expect=1, PYTHONPATH=path)
    assert "first stage at fault: capture" in said
    assert "the first node that differs is `normalize = torch.nn.functional.normalize(sin, p=2.0, dim=1" in said
    assert len(calls(tmp_path / REPRO)) == 1
    assert "AccuracyError" in run_python(REPRO, cwd=tmp_path, expect=1, PYTHONPATH=path)
    assert "nothing failed" in run_python(REPRO, cwd=tmp_path)  # without the fault


@pytest.mark.slow
def test_inductor_by_triage(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import pellucid, torch, torch._inductor.config as config\n"
        "config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'\n"
        "@pellucid.compile\n"
        "def f(x, w):\n"
        "    a = torch.sin(x @ w)\n"
        "    return (a.relu() + 1).sum()\n"
        "torch.manual_seed(0)\n"
        "print(f(torch.randn(4, 3), torch.randn(3, 8)))\n"
    )
    said = run_python("-m", "pellucid", "triage", program, "--accuracy", cwd=tmp_path, expect=1)
    assert (
        "first stage at fault: Inductor" in said
        and "the first node that differs is `relu = a.relu()  # program.py:6 in f`" in said
    )
    assert "torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'" in (tmp_path / REPRO).read_text()
    assert "AccuracyError" in run_python(REPRO, cwd=tmp_path, expect=1)


def test_a_node_by_name(tmp_path):
    run_python(
        PROGRAM,
        "long",
        "computes_cos_for_sin",
        cwd=tmp_path,
        expect=1,
        PELLUCID_REPRO_AFTER="dynamo",
        PELLUCID_REPRO_LEVEL="4",
    )
    said = run_python("pellucid_repro/minifier_launcher.py", "analyze", cwd=tmp_path)
    assert "the first node that differs is `b = torch.sin(a)  # failing_program.py:14 in long`" in said and calls(
        tmp_path / REPRO
    ) == ["b = torch.sin(a)"]


def test_triage_says_what_goes_together(tmp_path):
    said = run_python("-m", "pellucid", "triage", PROGRAM, "--accuracy", "--backend", "eager", cwd=tmp_path, expect=2)
    assert "--accuracy goes with all stages" in said
