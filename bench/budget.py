"""Instructions of what pellucid does itself, compared with a committed table: how busy the machine is does not show.

PYTHONPATH=python python bench/budget.py [--update] [--programs gpt2 x+y] [--tolerance 5] [--keep DIR]

Six counts for each program: a cached call and a capture, both once more with one graph break, and what the break adds to
each of them. The graphs are stubs that give tensors computed before, so no kernel is counted. The program that is measured
runs under valgrind (callgrind), which counts only between two requests that it makes; of calls it counts N and 2N, and the
table has the difference over N. Fails when a count is more than `--tolerance` percent above bench/budget.json. What a break
adds is a difference: it grows too when only the calls without a break get cheaper, so it fails only together with the calls
that have one. --update writes the table anew. --keep leaves callgrind's own files in a folder, for callgrind_annotate.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_suffix(".json")
COUNTS = ("cached call", "capture", "call with break", "capture with break", "warm break", "cold break")
CONTAINED_IN = {"warm break": "call with break", "cold break": "capture with break"}
"""What a break adds, and the count that it is a part of."""
CALLS = 20
WARM = 100  # calls before: what is made ready during the first of them is not what a call costs

# What the measured process asks of callgrind. Outside of valgrind these are a few instructions that do nothing.
REQUESTS = """
#include <valgrind/callgrind.h>
void instrument(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_TOGGLE_COLLECT; }
void toggle(void) { CALLGRIND_TOGGLE_COLLECT; }
void dump(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }
"""


# ---- the programs


@dataclass
class Program:
    """Something to compile. `around_break` makes its calls come by one step more, which breaks the graph or does nothing."""

    name: str
    call: Callable
    args: tuple
    around_break: Callable[[Callable[[], None]], Any]
    graphs: dict[str, list] = field(default_factory=dict)
    """What each graph gives, by variant: computed once, before anything is counted."""


def _addition() -> Program:
    import torch

    at_break: list[Callable[[], None]] = []

    def add(x, y):
        for step in at_break:
            x = x + y
            step()
        return x + y

    @contextmanager
    def around_break(step):
        at_break.append(step)
        yield
        at_break.clear()

    return Program("x+y", add, (torch.ones(4), torch.ones(4)), around_break)


def _model(name: str) -> Program:
    """A model of bench/run.py. The step is in front of the layer in its middle, many calls deep."""
    import torch
    from run import MODELS

    torch.manual_seed(0)
    model, args = MODELS[name]()
    model.eval()
    layers = [module for module in model.modules() if not list(module.children()) and list(module.parameters())]

    @contextmanager
    def around_break(step):
        handle = layers[len(layers) // 2].register_forward_pre_hook(lambda module, inputs: step())
        yield
        handle.remove()

    return Program(name, model, args, around_break)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "x+y": _addition,
    **{name: (lambda name=name: _model(name)) for name in ("gpt2", "bert", "resnet50")},
}


# ---- the measured process


def _nothing() -> None:
    """In the place of the break."""


class Backend:
    """The n-th graph of a program gives what the n-th graph gave when it ran for real."""

    def __init__(self, results: list) -> None:
        self.results = results
        self.graphs = 0

    def __call__(self, gm: Any, example_inputs: Any) -> Callable:
        number, results = self.graphs, self.results
        self.graphs += 1
        if number < len(results):
            result = results[number]
            return lambda *args: result

        def run_once(*args):
            results.append(gm.forward(*args))
            return results[number]

        return run_once


class Meter:
    """Names what runs within `counted`; the process that started this one finds the count under that name."""

    def __init__(self, library: str) -> None:
        self.requests = ctypes.PyDLL(library)
        gc.collect()
        gc.freeze()
        gc.disable()  # when the collector starts depends on what ran before
        self.requests.instrument()

    @contextmanager
    def counted(self, name: str) -> Iterator[None]:
        gc.collect()
        self.requests.toggle()
        try:
            yield
        finally:
            self.requests.toggle()
            self.requests.dump(name.encode())


def _variants(program: Program) -> Iterator[str]:
    import pellucid

    yield "plain"
    for variant, step in (("without break", _nothing), ("with break", pellucid.graph_break)):
        with program.around_break(step):
            yield variant


def _count(program: Program, variant: str, meter: Meter) -> None:
    import pellucid

    pellucid.reset()
    compiled = pellucid.compile(program.call, backend=Backend(program.graphs[variant]))
    with meter.counted(f"{program.name}/{variant}/capture"):
        compiled(*program.args)
    for _ in range(WARM):
        compiled(*program.args)
    for calls in (CALLS, 2 * CALLS):
        with meter.counted(f"{program.name}/{variant}/{calls}"):
            for _ in range(calls):
                compiled(*program.args)


def measured_process(names: list[str], library: str) -> None:
    import torch

    import pellucid  # noqa: F401  (before the fork)

    torch.set_num_threads(1)
    for name in sorted(names, key=list(PROGRAMS).index):
        if name != "x+y":  # the only one that is measured without transformers
            importlib.import_module("run")
            importlib.import_module("transformers.modeling_utils")  # slow to import here: once for all models
        child = os.fork()  # no program sees what another one leaves behind
        if child == 0:
            with torch.no_grad():
                _measured_program(PROGRAMS[name](), library)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            raise RuntimeError(f"{name} could not be measured")


def _measured_program(program: Program, library: str) -> None:
    import pellucid

    for variant in _variants(program):
        results = program.graphs[variant] = []
        pellucid.reset()
        pellucid.compile(program.call, backend=Backend(results))(*program.args)
    meter = Meter(library)
    for variant in _variants(program):
        print(f"{program.name} {variant} …", file=sys.stderr, flush=True)
        _count(program, variant, meter)


# ---- the process that starts it


def measure(names: list[str], folder: Path) -> dict[str, dict[str, int]]:
    counted = run_in_valgrind([__file__, "--programs", *names], folder)
    return {name: _row(counted, name) for name in names}


def run_in_valgrind(program: list[str], folder: Path) -> dict[str, int]:
    """Runs a file with arguments, and `--in-valgrind` with what a Meter needs; gives what that counted, by name."""
    library, source = folder / "requests.so", folder / "requests.c"
    source.write_text(REQUESTS)
    subprocess.run([os.environ.get("CC", "gcc"), "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
    valgrind = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=yes"]
    command = [sys.executable, *program, "--in-valgrind", str(library)]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run([*valgrind, f"--callgrind-out-file={folder}/out.%p", *command], check=True, env=environment)
    return _counted(folder)


def _counted(folder: Path) -> dict[str, int]:
    """Name -> instructions, from callgrind's files."""
    found = {}
    for path in folder.glob("out.*"):
        text = path.read_text()
        name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
        total = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
        if name and total:
            found[name[1]] = int(total[1])
            path.rename(folder / ("callgrind." + name[1].replace("/", ".").replace(" ", "_")))
    return found


def _row(counted: dict[str, int], name: str) -> dict[str, int]:
    def capture(variant: str) -> int:
        return counted[f"{name}/{variant}/capture"]

    def call(variant: str) -> int:
        return (counted[f"{name}/{variant}/{2 * CALLS}"] - counted[f"{name}/{variant}/{CALLS}"]) // CALLS

    values = (
        call("plain"),
        capture("plain"),
        call("with break"),
        capture("with break"),
        call("with break") - call("without break"),
        capture("with break") - capture("without break"),
    )
    return dict(zip(COUNTS, values))


# ---- the table


def tools() -> dict[str, str]:
    """What the counts depend on besides the code."""
    import torch

    version = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {
        "counted by": f"callgrind ({version})",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
    }


def compare(old: dict[str, dict[str, int]], new: dict[str, dict[str, int]], tolerance: float) -> list[str]:
    """Prints both beside each other; gives the counts that are too high."""
    too_high = []

    def has_grown(name: str, what: str) -> bool:
        return new[name][what] > old.get(name, {}).get(what, 0)

    print(f"{'program':<10}{'instructions of a':<20}{'old':>14}{'new':>14}{'new/old':>10}")
    for name, row in new.items():
        for what, count in row.items():
            before = old.get(name, {}).get(what)
            ratio = "" if before is None else f"{count / before:.3f}"
            mark = ""
            part_of = CONTAINED_IN.get(what, what)
            if before is not None and count > before * (1 + tolerance / 100) and has_grown(name, part_of):
                too_high.append(f"{name}, {what}: {before:,} -> {count:,}")
                mark = "  too many"
            print(f"{name:<10}{what:<20}{'' if before is None else f'{before:,}':>14}{count:>14,}{ratio:>10}{mark}")
    return too_high


def options_of(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the table anew")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--tolerance", type=float, default=5.0, help="percent")
    parser.add_argument("--keep", type=Path, help="a folder for callgrind's files")
    parser.add_argument("--in-valgrind", metavar="LIBRARY", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    options = options_of(argv)
    if options.in_valgrind:
        measured_process(options.programs, options.in_valgrind)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        new = measure(options.programs, folder)
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {"tools": {}, "counts": {}}
    if table["counts"] and table["tools"] != tools():
        print(f"The table was made with {table['tools']}, this is {tools()}: expect other numbers.", file=sys.stderr)
    too_high = compare(table["counts"], new, options.tolerance)
    if options.update:
        TABLE.write_text(json.dumps({"tools": tools(), "counts": table["counts"] | new}, indent=1) + "\n")
        print(f"{TABLE} is written")
        return 0
    for line in too_high:
        print(f"more than {options.tolerance:g} % above the table: {line}")
    return 1 if too_high else 0


if __name__ == "__main__":
    sys.exit(main())
