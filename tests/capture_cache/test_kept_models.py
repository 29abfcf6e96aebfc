"""GPT-2 and a Swin from the captures of an earlier process (issue: what a warm start must show)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "running_models.py"
MODELS = ("gpt2", "swin")


def process(folder: Path, seed: str, *forms: str) -> dict:
    environment = {**os.environ, "PELLUCID_CAPTURE_CACHE_DIR": str(folder / "captures"), "PYTHONHASHSEED": seed}
    models = folder / "models"
    models.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(models), *forms], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def first(folder):
    return process(folder, "1", "same")


@pytest.fixture(scope="module")
def second(folder, first):
    return process(folder, "2", "same", "line", "global", "torch")


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_kept(first, name):
    record = first["same"][name]
    assert record["is_as_eager"], record
    assert (record["outcomes"], record["captures"]) == (["kept"], 1), record
    assert record["gradients"] > 20


@pytest.mark.parametrize("name", MODELS)
def test_a_second_process_traces_nothing(second, name):
    record = second["same"][name]
    assert record["is_as_eager"], record
    assert (record["outcomes"], record["captures"]) == (["loaded"], 0), record


# Another version of torch, or another entry point, has other files: there is none that could be missed.
@pytest.mark.parametrize(
    ("form", "outcomes"), [("line", ["missed", "kept"]), ("global", ["missed", "kept"]), ("torch", ["kept"])]
)
@pytest.mark.parametrize("name", MODELS)
def test_what_has_changed_is_captured_anew(second, name, form, outcomes):
    record = second[form][name]
    assert record["is_as_eager"], record
    assert record["captures"] == 1, record
    assert (record["outcomes"][0], record["outcomes"][-1]) == (outcomes[0], outcomes[-1]), record
    assert "loaded" not in record["outcomes"]
