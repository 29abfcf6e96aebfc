"""Programs in two processes that talk over gloo, each run eagerly and compiled. `results()` starts both processes once for all the
programs of a module; a test looks at what one of them gave."""

from __future__ import annotations

import datetime
import functools
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import pellucid
from support import CountingOf

FOLDER = Path(__file__).parent
SIZE = 2
BACKENDS = ("eager", "aot_eager")
# As users say it: what the graph gives is in terms of torch's own fakes then. Nobody counts its graphs.
BY_NAME = "aot_eager by its name"


@dataclass
class Program:
    """`run(compile)` gives values; `compile` is the identity where it runs eagerly."""

    run: Callable[[Callable], Any]
    graphs: int


def program(programs: dict[str, Program], graphs: int = 1) -> Callable:
    def add(run: Callable) -> Callable:
        programs[run.__name__] = Program(run, graphs)
        return run

    return add


def _counted(one: Program, backend: str) -> tuple[int | None, str, Any]:
    torch.manual_seed(dist.get_rank())
    pellucid.reset()
    counting = CountingOf(backend) if backend in BACKENDS else None

    def compiler(f: Any) -> Any:
        return f if backend == "plain" else pellucid.compile(f, backend=counting or "aot_eager")

    try:
        kind, value = "value", one.run(compiler)
    except Exception as error:
        kind, value = "raises", f"{type(error).__name__}: {str(error)[:2000]}"
    return counting.count if counting else None, kind, value


def main(module: str, rank: str, rendezvous: str, out: str) -> None:
    """One process."""
    patience = datetime.timedelta(seconds=25)
    dist.init_process_group("gloo", f"file://{rendezvous}", patience, rank=int(rank), world_size=SIZE)
    module_of_programs = importlib.import_module(module)
    programs: dict[str, Program] = module_of_programs.PROGRAMS
    is_cold = getattr(module_of_programs, "IS_COLD", False)  # the caches of torch are as captures leave them
    order = (*BACKENDS, BY_NAME, "plain") if is_cold else ("plain", *BACKENDS, BY_NAME)
    ran = {}
    for name, one in programs.items():
        ran[name] = {backend: _counted(one, backend) for backend in order}
        torch.save(ran, out)
    dist.destroy_process_group()


@functools.cache
def results(module: str) -> list[dict[str, dict[str, tuple[int | None, str, Any]]]]:
    """Of each process: program -> "plain" or a backend -> (graphs, "value" or "raises", what)."""
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / f"{rank}.pt" for rank in range(SIZE)]
        found = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER.parent), os.environ["PYTHONPATH"]])}
        started = []
        for rank in range(SIZE):
            line = [sys.executable, __file__, module, str(rank), f"{folder}/rendezvous", str(outs[rank])]
            started.append(subprocess.Popen(line, env=found, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        try:
            said = [one.communicate(timeout=300)[0].decode() for one in started]
        finally:
            for one in started:
                one.kill()
        for one, text in zip(started, said, strict=True):
            assert one.returncode == 0, text[-3000:]
        return [torch.load(out, weights_only=False) for out in outs]


def check(module: str, name: str, same: Callable[[Any, Any], bool], graphs: int) -> None:
    """Both processes got with each backend what they got eagerly, in as many graphs."""
    for ran in results(module):
        _, kind, want = ran[name]["plain"]
        assert kind == "value", want
        for backend in (*BACKENDS, BY_NAME):
            count, kind, got = ran[name][backend]
            assert kind == "value", got
            assert same(got, want), (backend, got, want)
            assert count == graphs or backend == BY_NAME, (backend, count)


if __name__ == "__main__":
    main(*sys.argv[1:])
