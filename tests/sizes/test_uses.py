"""Uses of torch's operators at five sizes: what they give is eager's, and a graph serves all sizes but for the rows that
say why not. `uses_report.py` shows what torch._dynamo makes of the same."""

from __future__ import annotations

import pytest
import torch
from uses import SIZES, USES

import pellucid
from pellucid import backends
from support import Counting
from support.programs import picture
from support.sizes import many_entries


def outcomes(use, function) -> list:
    seen = []
    for n in SIZES:
        torch.manual_seed(0)
        seen.append(picture(function(*use.make(n))))
    return seen


@pytest.mark.parametrize("use", USES, ids=lambda use: use.id)
@pytest.mark.filterwarnings("ignore")
def test_use(use):
    counting = Counting()
    want = outcomes(use, use.function)
    with many_entries():
        got = outcomes(use, pellucid.compile(use.function, backend=counting))
    for n, eager, ours in zip(SIZES, want, got, strict=True):
        assert ours == eager, n
    assert counting.count <= use.graphs
    # Parts that only make views are no graphs of the backend.
    assert bool(pellucid.counters()["ops"]) == bool(use.graphs), "nothing was captured"


GRADIENTS = [
    use
    for use in USES
    if use.family in ("spectrograms", "spectra", "segments", "linear algebra") or "unpool" in use.name
]


@pytest.mark.parametrize("use", GRADIENTS, ids=lambda use: use.id)
@pytest.mark.filterwarnings("ignore")
def test_gradients(use):
    """Which results have gradients, and these, with a graph for all sizes."""

    def gradients(function):
        seen = []
        for n in SIZES:
            args = [arg.requires_grad_() if arg.is_floating_point() or arg.is_complex() else arg for arg in use.make(n)]
            try:
                result = function(*args)
                results = result if isinstance(result, tuple) else [result]
                asked = [t for t in results if isinstance(t, torch.Tensor) and t.requires_grad]
                if asked:
                    sum(t.abs().sum() for t in asked).backward()
            except (RuntimeError, NotImplementedError) as error:  # there is no derivative
                seen.append(str(error)[:40])
                continue
            seen.append((len(asked), [picture(arg.grad) for arg in args]))
        return seen

    counting = Counting()
    want = gradients(use.function)
    with many_entries():
        assert gradients(pellucid.compile(use.function, backend=counting)) == want
    assert counting.count <= max(use.graphs, 1)


SPECTRA = [use for use in USES if "spectr" in use.family]
# AOTAutograd fixes what multi_dot gets, and torch's own decomposition of istft asserts another size.
NOT_AHEAD = {"multi_dot", "istft_twosided"}
AHEAD = {use.id: use for use in SPECTRA + GRADIENTS if use.graphs == 2 and use.name not in NOT_AHEAD}


class AheadOfTime(Counting):
    """torch's AOTAutograd, counted."""

    takes_numbers = False

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return backends.lookup_backend("aot_eager")(gm, example_inputs)


@pytest.mark.parametrize("use", AHEAD.values(), ids=AHEAD)
@pytest.mark.filterwarnings("ignore")
def test_with_aot_autograd(use):
    """The graph that AOTAutograd makes of it serves all sizes too. Its decompositions may round in other ways."""
    counting = AheadOfTime()
    with many_entries():
        compiled = pellucid.compile(use.function, backend=counting)
        for n in SIZES:
            torch.testing.assert_close(compiled(*use.make(n)), use.function(*use.make(n)), atol=1e-4, rtol=1e-4)
    assert counting.count >= 1
    assert len(pellucid.cache_entries(compiled)) <= 2  # the backend may have been called twice for an entry


def test_the_table_is_honest():
    assert len({use.id for use in USES}) == len(USES) >= 400
    assert sum(use.graphs != 2 for use in USES) <= 30
    for use in USES:
        shapes = {tuple(arg.shape) for n in SIZES for arg in use.make(n)[:1]}
        assert len(shapes) == len(SIZES), use.id
