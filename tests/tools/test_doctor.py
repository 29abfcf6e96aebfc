"""`python -m pellucid doctor` and `pellucid.doctor`: a line for each thing that matters, and what it means."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import pellucid
from pellucid import _doctor
from pellucid.__main__ import main

NAMES = [
    "versions", "core", "compiler", "processor", "memory", "environment", "options", "installed", "tracing", "caches"
]  # fmt: skip


def line(name):
    (found,) = [finding for finding in pellucid.doctor().lines if finding.name == name]
    return found


def run(*arguments, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(_doctor._PREFIXES)}
    command = [sys.executable, "-m", "pellucid", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**clean, **environment})


def test_ten_lines():
    found = pellucid.doctor()
    assert [finding.name for finding in found.lines] == NAMES
    assert len(str(found).splitlines()) == 10
    for finding, text in zip(found.lines, str(found).splitlines(), strict=True):
        assert text.startswith(f"{finding.name} ") and finding.found in text and text.endswith(finding.means)
        assert finding.found and finding.means and finding.state in ("ok", "note", "bad")


def test_the_command():
    done = run()
    assert done.returncode == 0 and done.stderr == ""
    assert [text.split()[0] for text in done.stdout.splitlines()] == NAMES
    assert "torch._dynamo is not imported" in done.stdout
    assert "no switches of pellucid or torch" in done.stdout


def test_json():
    done = run("--json", PELLUCID_RECOMPILE_LIMIT="3")
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == NAMES
    assert all(set(row) == {"name", "state", "found", "means"} for row in rows)
    (options,) = [row for row in rows if row["name"] == "options"]
    assert options["found"] == "recompile_limit=3" and options["state"] == "note"


def test_help_and_wrong_arguments(capsys):
    for arguments, status in ((["doctor", "--help"], 0), (["doctor", "--jsn"], 2)):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == status
    assert "exit status: 0 nothing is in the way" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("environment", "name", "state", "says"),
    [
        ({"TORCH_COMPILE_DISABLE": "1"}, "environment", "bad", "compiles nothing"),
        ({"TORCHDYNAMO_DISABLE": "1"}, "environment", "bad", "compiles nothing"),
        ({"PELLUCID_RECOMPILE_LIMT": "1"}, "environment", "note", "PELLUCID_RECOMPILE_LIMT is no option"),
        ({"TORCH_TRACE": "/tmp/nowhere"}, "environment", "note", "writes files"),
        ({"TORCH_LOGS": "recompiles"}, "environment", "note", "TORCH_LOGS=recompiles"),
        ({"CXX": "no-such-compiler"}, "compiler", "bad", "no C++ compiler 'no-such-compiler'"),
        ({"CXX": "false"}, "compiler", "bad", "fails on the CPU"),
        ({"TORCHINDUCTOR_CACHE_DIR": "/proc/nowhere"}, "caches", "bad", "cannot be written"),
    ],
)
def test_what_the_environment_says(environment, name, state, says, monkeypatch):
    for variable in list(os.environ):
        if variable.startswith(_doctor._PREFIXES):
            monkeypatch.delenv(variable)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    found = line(name)
    assert found.state == state and says in str(found)
    assert pellucid.doctor().is_bad is (state == "bad")


def test_the_exit_status_says_that_something_is_bad():
    done = run(CXX="no-such-compiler")
    assert done.returncode == 1 and "bad" in done.stdout


def test_who_traces():
    assert line("tracing").state == ("ok" if sys.gettrace() is None else "bad")
    before = sys.gettrace(), sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        assert line("tracing").state in ("note", "bad") and "sys.setprofile" in line("tracing").found
    finally:
        sys.setprofile(before[1])
    sys.settrace(lambda *_: None)
    try:
        found = line("tracing")
    finally:
        sys.settrace(before[0])
    assert found.state == "bad" and "sys.settrace" in found.found and "run eagerly" in found.means


def test_options_and_install():
    with pellucid.config.patch(recompile_limit=2, dynamic_shapes=False):
        assert line("options").found == "dynamic_shapes=False, recompile_limit=2"
    with pellucid.installed():
        assert "pellucid is installed" in line("installed").found
    assert "pellucid is installed" not in line("installed").found


def test_threads_and_memory(monkeypatch):
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(len(os.sched_getaffinity(0)) + 1)
    try:
        found = line("processor")
    finally:
        torch.set_num_threads(threads)
    assert found.state == "note" and "more threads than cores" in found.means
    monkeypatch.setattr(_doctor, "_memory_limit", lambda: 2**30)
    assert line("memory").state == "note" and "1.0 GiB for this container" in line("memory").found


def test_the_build_of_the_core():
    build = pellucid._core.build()
    assert set(build) == {"compiler", "sanitized", "optimized"}
    assert line("core").found.startswith("_core")
