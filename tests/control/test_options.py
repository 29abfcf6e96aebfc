"""Options of pellucid from the environment, and the page that is made of them."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(program, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.mark.parametrize(
    ("variable", "text", "option", "value"),
    [
        ("PELLUCID_RECOMPILE_LIMIT", "3", "recompile_limit", 3),
        ("PELLUCID_DYNAMIC_SHAPES", "off", "dynamic_shapes", False),
        ("PELLUCID_SUPPRESS_ERRORS", "True", "suppress_errors", True),
    ],
)
def test_the_environment_gives_the_first_value(variable, text, option, value):
    program = f"""
import pellucid
assert pellucid.config.{option} == {value!r}
pellucid.config.{option} = {value!r}
del pellucid.config.{option}
assert pellucid.config.{option} == {value!r}
"""
    done = run(program, **{variable: text})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("PELLUCID_RECOMPILE_LIMIT", "many", "is an int"),
        ("PELLUCID_RECOMPILE_LIMIT", "-1", "must not be negative"),
        ("PELLUCID_DYNAMIC_SHAPES", "2", "is true or false"),
        ("PELLUCID_REORDERABLE_LOGGING_FUNCTIONS", "print", "only a program can set"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_variable(variable, text, says):
    done = run("import pellucid", **{variable: text})
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError") and variable in last and says in last


def test_the_page_is_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "tools/config_page.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
