"""pellucid beside torch._dynamo, by turns in one process: capture, cached calls, first result, guards, memory.

PYTHONPATH=python python bench/run.py [--quick] [--models gpt2 resnet50] [--rounds 5] [--out bench/out]

Writes result.json and plot.svg. torch._dynamo takes part as it is installed ("torch") and with its fastest switches ("torch fast":
static shapes, recursive dict tags, and no guards at all, which is unsafe). CPU seconds, without the run of the graph itself.
The guards alone and the emitted code alone: bench/guards.py, bench/emit.py.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from html import escape
from pathlib import Path

import torch
import torch._dynamo
import torch.nn.functional as F

import pellucid
from pellucid._measure import Compiler, Samples, measure, median, pellucid_compiler, spread, torch_compiler

NAMES = ("pellucid", "torch", "torch fast")


# ---- the models: name -> (callable, args)


def add(x, y):
    return x + y


class BasicBlock(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(channels)
        self.second = torch.nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.norm(self.first(x)))))


def _mlp():
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(32, 32), torch.nn.GELU())]
    return torch.nn.Sequential(*layers), (torch.randn(4, 32),)


def _cnn():
    blocks = [BasicBlock(8) for _ in range(6)]
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), *blocks), (torch.randn(1, 3, 16, 16),)


def _image(model: str, config: str, size: int, **options):
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**options)), (torch.randn(1, 3, size, size),)


def _text(model: str, config: str, **options):
    import transformers

    made = getattr(transformers, model)(getattr(transformers, config)(vocab_size=100, use_cache=False, **options))
    return made, (torch.randint(0, 100, (1, 16)),)


_SMALL = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
MODELS: dict[str, Callable] = {
    "x+y": lambda: (add, (torch.ones(4), torch.ones(4))),
    "mlp": _mlp,
    "cnn": _cnn,
    "gpt2": lambda: _text("GPT2LMHeadModel", "GPT2Config", n_embd=64, n_head=4, n_layer=12, n_positions=64),
    "bert": lambda: _text("BertModel", "BertConfig", num_hidden_layers=12, **_SMALL),
    "llama": lambda: _text("LlamaForCausalLM", "LlamaConfig", num_hidden_layers=12, num_key_value_heads=2, **_SMALL),
    "resnet50": lambda: _image("ResNetForImageClassification", "ResNetConfig", 64),
    "vit": lambda: _image("ViTModel", "ViTConfig", 64, image_size=64, num_hidden_layers=12, **_SMALL),
}
QUICK = ("x+y", "cnn", "gpt2")


# ---- measuring


FAST_SWITCHES = {
    "use_recursive_dict_tags_for_guards": True,
    "skip_guards_on_constant_func_defaults": True,
    "automatic_dynamic_shapes": False,
}


def fast_torch_compiler() -> Compiler:
    """`torch fast`: a function that is compiled under FAST_SWITCHES, which concern only the compile itself."""

    def compile(model, backend):
        return torch.compile(
            model, backend=backend, dynamic=False, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
        )

    return Compiler(
        "torch fast", compile, torch._dynamo.reset, around_first_call=lambda: torch._dynamo.config.patch(FAST_SWITCHES)
    )


def compilers() -> list[Compiler]:
    plain = torch_compiler()
    return [pellucid_compiler(), Compiler("torch", plain.compile, plain.reset), fast_torch_compiler()]


def bench_model(name: str, rounds: int) -> dict:
    torch.manual_seed(0)
    model, args = MODELS[name]()
    if isinstance(model, torch.nn.Module):
        model.eval()
    samples = measure(compilers(), model, args, {}, rounds=rounds)
    ours = samples["pellucid"]
    return {
        "capture_ms": {key: _summary(value.capture, 1e3) for key, value in samples.items()},
        "call_us": {key: _summary(value.call, 1e6) for key, value in samples.items()},
        "graphs": {key: value.graphs for key, value in samples.items()},
        "ratio": {
            key: {"capture": _ratio(samples[key], ours, "capture"), "call": _ratio(samples[key], ours, "call")}
            for key in NAMES[1:]
        },
        **_inside(model, args),
        "memory_kb": _memory_kb(model, args),
    }


def _summary(values: list[float], unit: float) -> dict:
    return {"median": unit * median(values), "spread": spread(values), "least": unit * min(values), "n": len(values)}


def _ratio(theirs: Samples, ours: Samples, what: str) -> float:
    return median(getattr(theirs, what)) / median(getattr(ours, what))


def _inside(model, args) -> dict:
    """Where pellucid's time goes, how many guards there are, and which operators have no native rule."""
    pellucid._core._aten.reset_ops_without_rule()
    with torch.no_grad():
        pellucid.reset()
        watched = pellucid.ExplainWithBackend("eager")  # explain takes the time of lines, which costs time itself
        pellucid.compile(model, backend=watched)(*args)
        output = watched.output()
        pellucid.reset()
    steps: dict[str, float] = {}
    for region in output.regions:
        for step, time_ms in region.milliseconds.items():
            steps[step] = steps.get(step, 0.0) + time_ms
    return {
        "steps_ms": steps,
        "guards": len(output.details.guards),
        "ops": sum(node.op.startswith("call_") for graph in output.graphs for node in graph.graph.nodes),
        "ops_without_rule": pellucid._core._aten.ops_without_rule(),
    }


def _memory_kb(model, args) -> dict[str, float | None]:
    """What stays resident per compile, over repeated compiles with reset."""
    import gc

    with torch.no_grad():
        growth = {}
        for compiler in compilers()[:2]:
            resident = []
            for count in range(7):
                if count in (2, 6):
                    gc.collect()
                    resident.append(_resident_kb())
                compiler.reset()
                compiler.compile(model, "eager")(*args)
            compiler.reset()
            growth[compiler.name] = (resident[1] - resident[0]) / 4
    return growth


def _resident_kb() -> int:
    rows = Path("/proc/self/status").read_text().splitlines()
    return int(next(row for row in rows if row.startswith("VmRSS")).split()[1])


FIRST = """
import time
import torch
def f(x, y):
    return x + y
x = torch.ones(4)
start = time.perf_counter()
{load}
compiled = {module}.compile(f, backend="eager")
compiled(x, x)
print(time.perf_counter() - start)
"""


def bench_first_result(rounds: int) -> dict:
    """Seconds from `import torch` (done) to the first result of x + y, in fresh processes."""
    programs = {
        "pellucid": FIRST.format(load="import pellucid", module="pellucid"),
        "torch": FIRST.format(load="", module="torch"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
            seconds[name].append(float(done.stdout.split()[-1]))
    return {name: _summary(values, 1.0) for name, values in seconds.items()}


# ---- output


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def print_result(result: dict) -> None:
    columns = (
        "model",
        "capture ms",
        "torch",
        "fast",
        "ratio",
        "ratio fast",
        "call us",
        "torch",
        "fast",
        "ratio",
        "ratio fast",
        "guards",
        "no rule",
    )
    print("\n" + "  ".join(f"{column:>10}" for column in columns))
    for name, row in result["models"].items():
        cells = [name]
        for what in ("capture", "call"):
            key = "capture_ms" if what == "capture" else "call_us"
            cells += [f"{row[key][who]['median']:.2f}" for who in NAMES]
            cells += [f"{row['ratio'][who][what]:.1f}x" for who in NAMES[1:]]
        cells += [str(row["guards"]), f"{len(row['ops_without_rule'])}"]
        print("  ".join(f"{cell:>10}" for cell in cells))
    for who, means in result["geometric_mean_ratio"].items():
        print(f"geometric mean of the ratios, {who}: capture {means['capture']:.1f}x, call {means['call']:.1f}x")
    first = result["first_result_s"]
    print(
        f"import to first result of x + y: pellucid {first['pellucid']['median']:.2f} s, torch {first['torch']['median']:.2f} s"
    )


_COLORS = {"pellucid": "#1769c2", "torch": "#b3321e", "torch fast": "#d98c2b"}


def plot(result: dict) -> str:
    """Two groups of bars on logarithmic scales, as SVG."""
    charts = [
        _chart(result, key, title, left)
        for key, title, left in (("capture_ms", "Capture, CPU ms", 0), ("call_us", "Cached call, us", 520))
    ]
    height = 70 + 52 * len(result["models"])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="1040" height="{height}" font-family="sans-serif" font-size="12">'
        + "".join(charts)
        + "</svg>\n"
    )


def _chart(result: dict, key: str, title: str, left: int) -> str:
    values = [row[key][who]["median"] for row in result["models"].values() for who in NAMES]
    low, high = math.floor(math.log10(min(values))), math.log10(max(values))
    parts = [f'<text x="{left + 10}" y="22" font-size="15" font-weight="bold">{escape(title)} (logarithmic)</text>']
    for place, who in enumerate(NAMES):
        parts.append(f'<rect x="{left + 10 + 110 * place}" y="34" width="10" height="10" fill="{_COLORS[who]}"/>')
        parts.append(f'<text x="{left + 25 + 110 * place}" y="43">{who}</text>')
    for line, (name, row) in enumerate(result["models"].items()):
        top = 62 + 52 * line
        parts.append(f'<text x="{left + 70}" y="{top + 24}" text-anchor="end">{escape(name)}</text>')
        for place, who in enumerate(NAMES):
            value = row[key][who]["median"]
            width = 330 * (math.log10(value) - low) / max(high - low, 1e-9)
            parts.append(
                f'<rect x="{left + 80}" y="{top + 14 * place}" width="{width:.1f}" height="12" fill="{_COLORS[who]}"/>'
            )
            parts.append(f'<text x="{left + 86 + width:.1f}" y="{top + 10 + 14 * place}">{value:.1f}</text>')
    return "".join(parts)


def main() -> int:
    options = _options()
    names = options.models or (QUICK if options.quick else list(MODELS))
    rounds = options.rounds or (3 if options.quick else 5)
    torch.set_num_threads(1)
    measure(
        compilers(), torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), (torch.ones(1, 2),), {}, rounds=1
    )  # lazy imports
    result: dict = {
        "torch": torch.__version__,
        "machine": platform.platform(),
        "rounds": rounds,
        "fast_switches": FAST_SWITCHES,
        "models": {},
    }
    for name in names:
        start = time.perf_counter()
        print(f"{name} …", end="", flush=True)
        result["models"][name] = bench_model(name, rounds)
        print(f" {time.perf_counter() - start:.1f} s", flush=True)
    rows = result["models"].values()
    result["geometric_mean_ratio"] = {
        who: {what: geometric_mean([row["ratio"][who][what] for row in rows]) for what in ("capture", "call")}
        for who in NAMES[1:]
    }
    print("first result …", flush=True)
    result["first_result_s"] = bench_first_result(rounds)
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(result, indent=1))
    (folder / "plot.svg").write_text(plot(result))
    print_result(result)
    print(f"{folder / 'result.json'}, {folder / 'plot.svg'}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three models, three rounds")
    parser.add_argument("--models", nargs="+", choices=MODELS)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--out", default=str(Path(__file__).parent / "out"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
