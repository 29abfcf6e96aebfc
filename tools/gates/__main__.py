"""Checks what CMake and the compiler do not: python tools/gates [--shrink] [root]

Each gate is a file here with a function check(root), which counts its findings by text. What known.txt names is let pass, up to the
number there. The numbers only go down: a finding that became less is an error too until `--shrink` writes the new number.

Exit status: 0 all as it should be, 1 not.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
KNOWN = HERE / "known.txt"
GATES = ("class_size", "unused", "method_room", "prose", "version")


def findings(root: Path) -> Counter[str]:
    """What the gates find, as "gate: text"."""
    found: Counter[str] = Counter()
    for gate in GATES:
        for text, number in importlib.import_module(gate).check(root).items():
            found[f"{gate}: {text}"] += number
    return +found


def known() -> Counter[str]:
    rows = (line.split(" ", 1) for line in KNOWN.read_text().splitlines() if line and not line.startswith("#"))
    return Counter({text: int(number) for number, text in rows})


def write(rows: Counter[str]) -> None:
    head = [line for line in KNOWN.read_text().splitlines() if line.startswith("#")] if KNOWN.exists() else []
    KNOWN.write_text("\n".join([*head, *(f"{number} {text}" for text, number in sorted(rows.items()))]) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tools/gates", description=__doc__.split("\n")[0])
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parent.parent)
    parser.add_argument("--shrink", action="store_true", help="lower the numbers in known.txt to what there is")
    options = parser.parse_args()
    found, allowed = findings(options.root), known()
    new, gone = found - allowed, allowed - found
    for text, number in sorted(new.items()):
        print(
            f"{text}" + (f" ({found[text]}, {allowed[text]} known)" if allowed[text] else f" ({number})" * (number > 1))
        )
    if options.shrink:
        write(found & allowed)
    elif gone:
        print(
            f"{len(gone)} rows of {KNOWN.name} are better than they say: python tools/gates --shrink",
            *sorted(gone),
            sep="\n  ",
        )
    if new or (gone and not options.shrink):
        return 1
    print(f"gates: nothing new, {sum((found & allowed).values())} known findings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
