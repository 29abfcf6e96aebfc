"""What the events and torch's log switches add to a capture, in instructions.

PYTHONPATH=python python bench/log_cost.py [--programs gpt2 x+y] [--keep DIR]

One capture of each program under callgrind, as bench/budget.py counts it (stub graphs, the second capture of the process),
with: nobody who listens; a subscriber of pellucid.events that reads nothing, one that is also told of each instruction;
and torch's logs, which write to /dev/null. What events take with nobody listening are the functions that tell them and
those that keep counts, times and the newest events of base/events.h, with what these call.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import budget

OF_EVENTS = re.compile(
    r"pellucid::(runtime::(ToldCompile::~?ToldCompile|tell_?\w*|place_of)|events::(record|time|count))(\[abi:cxx11\])?\("
)
_ALL_BUT_INSTRUCTIONS = (
    "graph",
    "graph_code",
    "graph_sizes",
    "bytecode",
    "guards",
    "graph_breaks",
    "side_effects",
    "recompiles",
)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _events(instructions: bool) -> Iterator[None]:
    import pellucid

    with pellucid.events.subscribe(lambda event: None, instructions=instructions):
        yield


@contextmanager
def _logs(**switches: object) -> Iterator[None]:
    import torch._logging

    torch._logging.set_logs(**switches)
    with open(os.devnull, "w") as nowhere:
        for name in ("torch", "torch._dynamo"):
            for handler in logging.getLogger(name).handlers:
                if isinstance(handler, logging.StreamHandler):
                    handler.setStream(nowhere)
        yield
        torch._logging.set_logs()


WAYS: dict[str, Callable] = {
    "off": _nothing,
    "events": lambda: _events(False),
    "events, instructions": lambda: _events(True),
    "dynamo": lambda: _logs(dynamo=logging.INFO),
    "graph_breaks,recompiles": lambda: _logs(graph_breaks=True, recompiles=True),
    "guards": lambda: _logs(guards=True),
    "graph_code": lambda: _logs(graph_code=True),
    "all artifacts": lambda: _logs(**dict.fromkeys(_ALL_BUT_INSTRUCTIONS, True)),
    "all, instructions": lambda: _logs(dynamo=logging.DEBUG, **dict.fromkeys(_ALL_BUT_INSTRUCTIONS, True)),
}


def measured_process(names: list[str], library: str) -> None:
    import torch

    import pellucid  # noqa: F401  (before the fork)

    torch.set_num_threads(1)
    for name in names:
        child = os.fork()  # no program sees what another one leaves behind
        if child == 0:
            with torch.no_grad():
                _count(budget.PROGRAMS[name](), library)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            raise RuntimeError(f"{name} could not be measured")


def _count(program: budget.Program, library: str) -> None:
    import pellucid

    results: list = []
    compile_once = lambda: pellucid.compile(program.call, backend=budget.Backend(results))  # noqa: E731
    compile_once()(*program.args)
    for way in WAYS.values():  # what is imported and made ready
        with way():
            pellucid.reset()
            compile_once()(*program.args)
    meter = budget.Meter(library)
    for name, way in WAYS.items():
        print(f"{program.name} {name} …", file=sys.stderr, flush=True)
        with way():
            pellucid.reset()
            pellucid.compile(lambda x: x + 1, backend="eager")(torch_ones())  # whoever listens has noticed
            compiled = compile_once()
            with meter.counted(f"{program.name}/{name}"):
                compiled(*program.args)


def torch_ones() -> object:
    import torch

    return torch.ones(1)


def of_events(folder: Path, program: str) -> int:
    """Instructions of the functions that tell events, with what they call, where nobody listens."""
    file = folder / f"callgrind.{program}.off"
    command = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", str(file)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^ *([\d,]+)[^:\n]*(?:\S*:)(pellucid::.*)$", text, re.MULTILINE)
    counts = {function: int(count.replace(",", "")) for count, function in rows if OF_EVENTS.match(function)}
    return sum(counts.values())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=budget.PROGRAMS, default=["x+y", "gpt2"])
    parser.add_argument("--keep", type=Path, help="a folder for callgrind's files")
    parser.add_argument("--in-valgrind", metavar="LIBRARY", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.in_valgrind:
        measured_process(options.programs, options.in_valgrind)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        counted = budget.run_in_valgrind([__file__, "--programs", *options.programs], folder)
        told = {name: of_events(folder, name) for name in options.programs}
    for name in options.programs:
        plain = counted[f"{name}/off"]
        print(f"{name}: {plain:,} instructions, of them {told[name]:,} ({told[name] / plain:.2%}) for events")
        for way in list(WAYS)[1:]:
            count = counted[f"{name}/{way}"]
            print(f"  {way:<25}{count:>16,}  {count / plain - 1:+.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
