"""Programs of two processes over gloo, with pellucid and with torch.compile: values, gradients, and graphs beside the peer.

PYTHONPATH=python python bench/distributed.py [ddp_programs fsdp_programs ...]

The programs are those of tests/distributed. Each runs eagerly, then with either compiler and the backends "eager" and "aot_eager". A
cell has the number of graphs, and the largest difference to eager where there is one. torch.compile's own split of graphs at
DDP's buckets is off: it counts pieces of one graph, and its assertion about small buckets ends every program behind it.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

import pellucid

MODULES = ["collective_programs", "ddp_programs", "dtensor_programs", "fsdp_programs"]
COLUMNS = [("pellucid", "eager"), ("torch", "eager"), ("pellucid", "aot_eager"), ("torch", "aot_eager")]


class Counting:
    def __init__(self, backend: str) -> None:
        self.count = 0
        self.backend = torch._dynamo.lookup_backend(backend)

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        self.count += 1
        return self.backend(gm, inputs)


def difference(got: Any, want: Any) -> float:
    """The largest one of the tensors in both."""
    pairs = zip(tree_leaves(got), tree_leaves(want), strict=True)
    return max([float((a - b).abs().max()) for a, b in pairs if isinstance(a, torch.Tensor)], default=0.0)


def cell(run: Any, compiler: str, backend: str, want: Any) -> str:
    pellucid.reset()
    torch._dynamo.reset()
    torch.manual_seed(dist.get_rank())
    counting = Counting(backend)
    compile_it = pellucid.compile if compiler == "pellucid" else torch.compile
    try:
        off = difference(run(lambda f: compile_it(f, backend=counting)), want)
    except Exception as error:
        return type(error).__name__
    return f"{counting.count}" if off == 0 else f"{counting.count} (off by {off:.1g})"


def one_process(rank: int, rendezvous: str, modules: list[str]) -> None:
    sys.path[:0] = [str(Path(__file__).resolve().parent.parent / part) for part in ("tests", "tests/distributed")]
    torch._dynamo.config.optimize_ddp = False
    patience = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", f"file://{rendezvous}", patience, rank=rank, world_size=2)
    for module in modules:
        for name, program in importlib.import_module(module).PROGRAMS.items():
            torch.manual_seed(rank)
            want = program.run(lambda f: f)
            cells = [cell(program.run, *column, want) for column in COLUMNS]
            if rank == 0:
                print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--rendezvous")
    given = parser.parse_args()
    if given.rank is not None:
        return one_process(given.rank, given.rendezvous, given.modules)
    print("| program | " + " | ".join(f"{compiler}, {backend}" for compiler, backend in COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, *given.modules, "--rendezvous", f"{folder}/rendezvous", "--rank"]
        started = [subprocess.Popen([*words, str(rank)]) for rank in range(2)]
        ended = [one.wait() for one in started]
        if any(ended):
            raise SystemExit("a process failed")
    return None


if __name__ == "__main__":
    main()
