"""What all commands of `python -m pellucid` have in common: how they end where the command line, the environment or the reader of
their output is not as it should be."""

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import functools
import torch


class Scale:
    @property
    def doubled(self):
        return torch.ones(3) * 2

    @functools.cached_property
    def kept(self):
        return torch.ones(3)


def f(x):
    return x + 1


if __name__ == "__main__":
    f(torch.ones(3))
    Scale().doubled
"""
COMMANDS = ["doctor", "show program.py:f", "explain program.py:f", "run program.py", "triage program.py"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    return tmp_path


def run(folder, command, *more, **environment):
    return subprocess.run(
        [sys.executable, "-m", "pellucid", *command.split(), *more],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_variable_is_told_by_all_commands(folder, command):
    done = run(folder, command, PELLUCID_VERBOSE="maybe", PELLUCID_RECOMPILE_LIMIT="many")
    assert done.returncode == 2 and done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first == (
        "python -m pellucid: the environment variable PELLUCID_RECOMPILE_LIMIT is 'many', but pellucid.config.recompile_limit"
        " is an int"
    )
    assert "PELLUCID_VERBOSE is 'maybe', but pellucid.config.verbose is true or false: 1, 0, true" in second


def test_in_a_program_a_wrong_variable_is_an_error(folder):
    done = subprocess.run(
        [sys.executable, "-c", "import pellucid"],
        capture_output=True,
        text=True,
        env={**os.environ, "PELLUCID_VERBOSE": "maybe"},
    )
    assert done.returncode == 1 and "ValueError: the environment variable PELLUCID_VERBOSE is 'maybe'" in done.stderr


@pytest.mark.parametrize("command", ["doctor", "show program.py:f", "explain program.py:f"])
def test_a_command_that_nobody_reads_ends_quietly(folder, command):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pellucid", *command.split()],
            cwd=folder,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")  # 128 + SIGPIPE, as a shell tells it


@pytest.mark.parametrize("command", ["explain", "show"])
def test_what_cannot_be_shown_is_told_without_our_frames(folder, command):
    done = run(folder, f"{command} program.py:Scale.kept")
    assert done.returncode == 2
    assert done.stderr.endswith("Scale.kept of program.py cannot be compiled: it is a cached_property\n")
    done = run(folder, f"{command} program.py:f", "--args", "torch.one(3)")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert (
        done.stderr == f"python -m pellucid {command}: --args: AttributeError: module 'torch' has no attribute 'one'\n"
    )
    done = run(folder, f"{command} program.py:f", "--args", "torch.ones(3), 4")
    assert done.returncode == 1 and done.stderr == "TypeError: f() takes 1 positional argument but 2 were given\n"


@pytest.mark.parametrize("arguments", [[], ["--args", "Scale()"]])
def test_a_property_is_explained_by_its_getter(folder, arguments):
    done = run(folder, "explain program.py:Scale.doubled --only summary", *arguments)
    assert done.returncode == 0 and done.stdout.startswith("1 graph, no graph breaks")
