"""What is captured does not depend on the sizes and numbers at hand, where its guards say that it serves others too.

Two captures of one call of a program, at what two calls find there, of which the second one fits the guards of the first:
graph, guards, effects and emitted code are equal as texts. A hint that left the capture as a constant, or a decision by one
that is no guard, makes them differ.
"""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import pytest
import torch
from sweeps import SWEEPS

import pellucid
from pellucid._show import Watch
from support.calls import Program, run
from support.sizes import many_entries

sys.path.append(str(Path(__file__).parents[1] / "changes"))

from corpus import PROGRAMS

# At one call an int is beyond 64 bits, and so a constant there; what the other one captures serves it all the same.
BEYOND_64_BITS = {"product_beyond_64_bits", "counter_that_doubles"}
# With everything open (`make test-dynamic`) the two calls are others of these programs.
ALL_OPEN = {
    "conversions_that_raise": "the first one raises: what is captured ends before that line, and serves all that follow",
    "functions_of_math_that_raise": "the same",
    "state_changed_before_an_error": "the same",
    "true_division_of_ints": "the second one has an int beyond 53 bits, of which a quotient is a constant",
    "smoothed_labels": "both fix the same size, in a condition that holds the hint of a number beside",
}


def captures(program: Program, forget_at: int) -> list[list[str]]:
    """The texts of what each call captures. At one call all entries are forgotten, but not which numbers have changed: the
    torch state is another one from there on, which no operator of the programs minds."""
    watch, calls = Watch(), []

    def compiler(f):
        compiled = pellucid.compile(f, backend=watch)

        def called(*args, **kwargs):
            known = len(watch.regions)
            if len(calls) == forget_at:
                torch.set_autocast_cache_enabled(False)
            try:
                return compiled(*args, **kwargs)
            finally:
                calls.append([text_of(region) for region in watch.regions[known:]])

        return called

    try:
        run(program, compiler)
    finally:
        torch.set_autocast_cache_enabled(True)
        pellucid.reset()
    return calls


def text_of(region: dict) -> str:
    alone = Watch()
    alone.regions.append(region)
    shown = alone.shown().regions[0]
    text = "\n".join([shown.function, shown.begin, *shown.end, shown.graph, *shown.guards, *shown.effects, shown.code])
    return re.sub(r"(__resume_at_\d+)_\d+", r"\1", text)


def longest_run_of_hits(calls: list[list[str]]) -> range:
    """Calls that capture nothing, behind the first one that does."""
    ends = [number for number, texts in enumerate(calls) if texts] + [len(calls)]
    runs = [range(start + 1, end) for start, end in itertools.pairwise(ends)]
    return max(runs, key=len, default=range(0))


def two_captures(program: Program) -> tuple[list[str], list[str]] | None:
    """What was captured at one call and fits a later one, and what that one captures; None where none fits."""
    hits = longest_run_of_hits(captures(program, forget_at=-1))
    if len(hits) < 2:
        return None
    calls = captures(program, forget_at=hits[0])
    fits = [number for number in hits[1:] if not calls[number]]
    if not fits:
        return None
    earlier = [text for texts in calls[hits[0] : fits[-1]] for text in texts]
    return earlier, captures(program, forget_at=fits[-1])[fits[-1]]


@pytest.mark.parametrize("program", [*SWEEPS, *PROGRAMS], ids=lambda program: program.name)
def test_two_hints(program):
    with many_entries():
        made = two_captures(program)
    if made is None:
        pytest.skip("no call fits what was captured at another one")
    earlier, later = made
    assert later, "nothing was forgotten"
    differing = [text for text in later if text not in earlier]
    if program.name in BEYOND_64_BITS or (pellucid.config.force_open and program.name in ALL_OPEN):
        assert differing
    else:
        assert not differing, difference(earlier, differing[0])


def difference(earlier: list[str], text: str) -> str:
    """The lines that the most similar text has otherwise."""
    lines = text.splitlines()
    nearest = min((other.splitlines() for other in earlier), key=lambda other: len(set(lines) ^ set(other)), default=[])
    missing, added = [line for line in nearest if line not in lines], [line for line in lines if line not in nearest]
    return "\n".join(["", *(f"- {line}" for line in missing), *(f"+ {line}" for line in added)])
