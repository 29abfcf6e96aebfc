"""Programs of other libraries under `python -m pellucid run`, unchanged: what they compute and what they ask of a compiled module.

Each prints its results, the number of graphs, and how many frames torch._dynamo has been given. tests/install/programs has them;
`python PROGRAM --compile` runs one with torch._dynamo, for its number of graphs, which stands here beside ours.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "programs"

# program, its arguments, those without which nothing is compiled, graphs here, graphs of torch._dynamo 2.13
PROGRAMS = [
    ("trainer.py", [], ["--torch-compile"], 2, 2),
    ("trainer.py", [], ["--model"], 3, 4),
    ("generate.py", [], ["--compile"], 1, 1),
    ("accelerated.py", [], ["--compile"], 1, 1),
    ("accelerated.py", [], ["--compile", "--regions"], 3, 3),
    ("lightning_module.py", [], ["--compile"], 1, 6),
    ("lightning_module.py", ["--fabric"], ["--compile"], 1, 1),
    ("diffusion.py", [], ["--compile"], 1, 1),
    ("lora.py", [], ["--compile"], 2, 2),
    ("timm_step.py", [], ["--compile"], 1, 1),
]
NEEDS = {
    "trainer.py": "transformers",
    "generate.py": "transformers",
    "accelerated.py": "accelerate",
    "lightning_module.py": "lightning",
    "diffusion.py": "diffusers",
    "lora.py": "peft",
    "timm_step.py": "timm",
}


def run(*words):
    done = subprocess.run([sys.executable, *words], cwd=FOLDER, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "NoMeaningWarning" not in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "program, arguments, compiling, graphs, peer", PROGRAMS, ids=[" ".join([p[0], *p[1], *p[2]]) for p in PROGRAMS]
)
def test_programs_of_libraries(program, arguments, compiling, graphs, peer):
    if importlib.util.find_spec(NEEDS[program]) is None:
        pytest.skip(f"{NEEDS[program]} is not installed: requirements/models.txt")
    eager = run(program, *arguments)
    compiled = run("-m", "pellucid", "run", program, *arguments, *compiling)
    assert compiled["results"] == pytest.approx(eager["results"], rel=1e-6, abs=1e-7)
    assert compiled["graphs"] == graphs <= peer
    assert compiled["frames"] == eager["frames"] == eager["graphs"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "program, arguments, graphs",
    [("parallel.py", [], 1), ("parallel.py", ["--outside"], 1), ("sharded.py", [], 3)],
    ids=["DDP of a compiled module", "a compiled DDP", "FSDP2"],
)
def test_two_processes_over_gloo(program, arguments, graphs):
    """Under torchrun. What FSDP2 does around the layers ends graphs."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    eager = run(*torchrun, program)
    compiled = run(*torchrun, "-m", "pellucid", "run", program, "--compile", *arguments)
    assert compiled["results"] == pytest.approx(eager["results"], rel=1e-6)
    assert compiled["graphs"] == graphs and compiled["frames"] == 0
