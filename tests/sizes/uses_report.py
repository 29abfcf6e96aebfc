"""How many graphs each use of `uses/` makes at five sizes: by pellucid, and by torch._dynamo with the same backend.

PYTHONPATH=python:tests:tests/sizes python tests/sizes/uses_report.py [--backend aot_eager] [--grad] [--all] [family ...]

Shown are rows where pellucid needs more graphs than torch._dynamo or than the row allows, or gives something else than
eager; `--all` shows each. "p": what is not as eager, or raises, is pellucid's; "d": torch._dynamo's.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "sizes"), str(TESTS.parent / "python")]

import torch  # noqa: E402
import torch._dynamo  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from uses import SIZES, USES, Use  # noqa: E402

import pellucid  # noqa: E402
from support.programs import picture  # noqa: E402
from support.sizes import many_entries  # noqa: E402


class Counting:
    """A backend that counts what it is given, in front of another."""

    takes_numbers = True

    def __init__(self, name: str) -> None:
        self.count, self.inner = 0, torch._dynamo.lookup_backend(name)
        self.takes_numbers = name == "eager"

    def __call__(self, gm, inputs):
        self.count += 1
        return self.inner(gm, inputs)


def calls(use: Use, f, grad: bool) -> list:
    seen = []
    for n in SIZES:
        torch.manual_seed(0)
        args = [arg.requires_grad_() if grad and arg.is_floating_point() else arg for arg in use.make(n)]
        try:
            result = f(*args)
            if grad:
                total = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
                if total:
                    sum(t.abs().sum() for t in total).backward()
            seen.append((picture(result), picture([a.grad for a in args])))
        except Exception as error:
            seen.append(f"{type(error).__name__}: {error!s:.300}")
    return seen


def count(use: Use, compiler, backend: str, grad: bool) -> tuple[int, list]:
    counting = Counting(backend)
    with many_entries():
        return counting.count, calls(use, compiler(use.function, backend=counting), grad), counting


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="family", help="only these families, or names")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--grad", action="store_true", help="inputs require gradients, and a backward runs")
    parser.add_argument("--all", action="store_true", help="all rows")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"{'use':50}{'allowed':>8}{'made':>6}{'dynamo':>8}")
    for use in USES:
        if options.names and not {use.family, use.name, use.id} & set(options.names):
            continue
        want = calls(use, use.function, options.grad)
        made = {}
        for name, compiler in ("p", pellucid.compile), ("d", torch.compile):
            torch._dynamo.reset()
            pellucid.reset()
            _, got, counting = count(use, compiler, options.backend, options.grad)
            different = [(w, g) for w, g in zip(want, got, strict=True) if w != g]
            made[name] = counting.count, different
        ours, theirs = made["p"], made["d"]
        if options.all or ours[0] > min(use.graphs, theirs[0]) or ours[1] or ours[0] == 0:
            flags = "".join(name for name in made if made[name][1])
            raises = "" if not isinstance(want[0], str) else f" eager: {want[0]:.100}"
            print(f"{use.id:50}{use.graphs:8}{ours[0]:6}{theirs[0]:8} {flags}{raises}", flush=True)
            for w, g in ours[1][:1]:
                if isinstance(w, str) or isinstance(g, str):
                    print("      ", str(w)[:150], "|", str(g)[:250])
    return 0


if __name__ == "__main__":
    sys.exit(main())
