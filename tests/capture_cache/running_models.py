"""running_models.py FOLDER FORM...: runs own copies of transformers' GPT-2 and Swin in each of these forms, compiled and
not, and prints as JSON what became of each capture.

A form is what has changed in the files of the models, or around them, since the capture was kept: "same", "line",
"global", "torch".
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import torch
import transformers

import pellucid

MODELS = {"gpt2": "GPT2", "swin": "Swin"}
SIZES = {
    "gpt2": {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 50, "n_positions": 16},
    "swin": {"image_size": 32, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4},
}


def write(folder: Path, name: str, form: str) -> None:
    """The file of the model as one of its own, in which a global and the line that uses it may differ."""
    path = Path(transformers.__file__).parent / "models" / name / f"modeling_{name}.py"
    text = re.sub(r"^from \.\.\.([\w.]*) import", r"from transformers.\1 import", path.read_text(), flags=re.MULTILINE)
    text = text.replace("from transformers. import", "from transformers import")
    text = text.replace("from .configuration", f"from transformers.models.{name}.configuration")
    line = "hidden_states = self.{}(hidden_states)"
    attribute = {"gpt2": "act", "swin": "activation_fn"}[name]
    assert text.count(line.format(attribute)) == 1
    operator = "+" if form == "line" else "*"
    text = text.replace(line.format(attribute), f"{line.format(attribute)} {operator} GAIN")
    text += f"\n\nGAIN = {0.5 if form == 'global' else 1.5}\n"
    (folder / f"own_{name}.py").write_text(text)


def make(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    sys.modules.pop(f"own_{name}", None)
    importlib.invalidate_caches()
    module = importlib.import_module(f"own_{name}")
    model = getattr(module, f"{MODELS[name]}Model")
    config = getattr(module, f"{MODELS[name]}Config")(**SIZES[name])
    argument = torch.randint(0, 50, (2, 8)) if name == "gpt2" else torch.randn(2, 3, 32, 32)
    return model(config).eval(), argument


def values_and_gradients(call, model: torch.nn.Module, argument: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad(set_to_none=True)
    out = call(argument).last_hidden_state
    out.square().sum().backward()
    return [out.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def run(folder: Path, name: str, form: str) -> dict:
    write(folder, name, form)
    if form == "torch":
        torch.__version__ = "99.0"
    torch.manual_seed(0)
    model, argument = make(name)
    expected = values_and_gradients(model, model, argument)
    compiled = pellucid.compile(model, backend="eager")
    seen, captures = len(pellucid.capture_cache_report()), pellucid.counters().get("captures", 0)
    calls = [values_and_gradients(compiled, model, argument) for _ in range(2)]
    records = pellucid.capture_cache_report()[seen:]
    return {
        "outcomes": [record.outcome for record in records],
        "reasons": [record.reason for record in records],
        "captures": pellucid.counters().get("captures", 0) - captures,
        "gradients": len(expected) - 1,
        "is_as_eager": all(len(found) == len(expected) and all(map(torch.equal, found, expected)) for found in calls),
    }


if __name__ == "__main__":
    where = Path(sys.argv[1])
    sys.path.insert(0, str(where))
    sys.dont_write_bytecode = True  # files of one size, written within a second, would be taken for each other
    print(json.dumps({form: {name: run(where, name, form) for name in MODELS} for form in sys.argv[2:]}))
