"""What a mask finds in graphs for compilers, which take for granted that it is neither nothing nor one: where it is, and
is broadcast or has a gradient, results are eager's."""

import pytest
import torch

import pellucid
from support import CountingOf


def mask(*truths):
    return torch.tensor(truths).bool()


THREE, OTHER_THREE = mask(1, 0, 1, 0, 0, 1), mask(0, 0, 0, 1, 1, 1)
ONE, NONE = mask(0, 0, 0, 0, 1, 0), mask(0, 0, 0, 0, 0, 0)

CALLS = {
    "one": [(THREE, ONE)],
    "one after others": [(THREE, OTHER_THREE)] + [(THREE, ONE)] * 4 + [(ONE, OTHER_THREE)] * 2,
    "none": [(ONE, ONE), (ONE, THREE), (THREE, ONE), (NONE, NONE), (NONE, ONE), (ONE, NONE)],
}


def put(x, a, b):
    return (x * 1).index_put((a,), x[b])


def assigned(x, a, b):
    y = x * 1
    y[a] = x.masked_select(b)
    return y


PROGRAMS = {
    "product": lambda x, a, b: x[a] * x[b],
    "product of selected": lambda x, a, b: x.masked_select(a) * x.masked_select(b),
    "times all": lambda x, a, b: x.masked_select(b) * x,
    "with three": lambda x, a, b: x.masked_select(b) + torch.ones(3),
    "where": lambda x, a, b: torch.where(x > 2, x, x.masked_select(b)),
    "by nonzero": lambda x, a, b: x[b.nonzero().squeeze(1)] * x[a.nonzero().squeeze(1)],
    "gathered": lambda x, a, b: x.gather(0, b.nonzero().squeeze(1)) * x,
    "distances": lambda x, a, b: (x[b][:, None] - x[a][None]).pow(2),
    "the first of them": lambda x, a, b: x[a][:1] * x[a],
    "the last of them": lambda x, a, b: x[a][-1:] + x[:2],
    "the first of unique": lambda x, a, b: x[torch.unique(a + 2 * b)][:1] + x[torch.unique(a + 2 * b)],
    "the first of rows": lambda x, a, b: x[:1] * torch.unique(torch.stack([a, b]), dim=1)[:, :1],
    "the first counts": lambda x, a, b: torch.bincount(a + b, minlength=1)[:1] * x[: 1 + b.sum().item()],
    "put": put,
    "assigned": assigned,
}


def outcome(f, a, b):
    x = torch.arange(1.0, 7.0).requires_grad_()
    try:
        result = f(x, a, b)
    except Exception as error:
        return type(error), str(error)
    (result * result).sum().backward()
    return result.tolist(), result.shape, x.grad.tolist()


@pytest.mark.parametrize("default", [True, False], ids=["in the graph", "with breaks"])
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients_are_those_of_eager(name, calls, default):
    f = PROGRAMS[name]
    with pellucid.config.patch(capture_dynamic_output_shape_ops=default):
        compiled = pellucid.compile(f, backend=(counted := CountingOf("aot_eager")))
        for number, (a, b) in enumerate(CALLS[calls]):
            assert outcome(compiled, a, b) == outcome(f, a, b), number
    assert counted.count or not default or name in ("product of selected", "put", "assigned")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_branch_by_any_of_small_integers(backend):
    """It is known by the elements while they stay; asking for it once called itself for ever."""

    def f(x, chosen):
        if (chosen == 0).any():
            x = x + 1
        return x * 2

    compiled = pellucid.compile(f, backend=(counted := CountingOf(backend)))
    for chosen in ([0, 1, 2], [3, 1, 2], [0, 0, 0], [5, 5, 5]):
        args = torch.ones(3), torch.tensor(chosen)
        assert torch.equal(compiled(*args), f(*args))
    assert counted.count
