"""Slices from outside with numbers that change: two graphs serve all of them, as of tuples."""

import pytest
import torch

import pellucid
from support import Counting, CountingOf

TABLE = torch.arange(24.0).view(3, 8)
STARTS = (0, 2, 4, 5, 1)

PROGRAMS = {
    "an argument": (lambda table, at: table[:, at] * 2, lambda start: slice(start, start + 2)),
    "in a tuple": (lambda table, at: table[at] * 2, lambda start: (slice(None), slice(start, start + 3))),
    "in a list": (lambda table, at: table[:, at[0]] * 2, lambda start: [slice(start, start + 2)]),
    "its start": (lambda table, at: table[:, at.start] * 2, lambda start: slice(start, None)),
    "its ends": (lambda table, at: table[:, at.start : at.stop] + 1, lambda start: slice(start, start + 1)),
    "written to": (lambda table, at: write(table.clone(), at), lambda start: slice(start, start + 3)),
    "compared": (lambda table, at: table + (at == slice(2, 4)), lambda start: slice(start, start + 2)),
    "returned": (lambda table, at: (table[:, at], at), lambda start: slice(start, start + 2)),
    "of a list": (lambda table, at: table[:, [0, 1, 2, 3, 4, 5, 6, 7][at]], lambda start: slice(start, start + 2)),
}


def write(table, at):
    table[:, at] = 1
    return table


def same(got, want):
    if isinstance(want, tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return torch.equal(got, want) if isinstance(want, torch.Tensor) else got == want


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_slices_that_change(name, backend):
    f, made = PROGRAMS[name]
    compiled = pellucid.compile(f, backend=(counted := CountingOf(backend)))
    for start in STARTS:
        given = made(start)
        got = compiled(TABLE, given)
        assert same(got, f(TABLE, given)), start
        assert name != "returned" or got[1] is given
    assert counted.count >= 1
    if name not in ("of a list", "compared"):  # these go by the numbers
        assert counted.count == 2


def test_another_kind_of_slice_is_another_entry():
    f = lambda table, at: table[:, at] * 2  # noqa: E731
    compiled = pellucid.compile(f, backend=(counted := Counting()))
    for at in (slice(0, 2), slice(1, 3), slice(None), slice(2, None), slice(0, 8, 2), slice(-2, None), slice(3, 3)):
        assert torch.equal(compiled(TABLE, at), f(TABLE, at)), at
    assert counted.count <= 7


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_slice_that_is_alive_at_a_graph_break(backend):
    """What is open before the break is so behind it, in slices as elsewhere."""

    def f(table, start):
        at = slice(start, start + 2)
        table = table + 1
        pellucid.graph_break()
        return table[:, at] * 2

    compiled = pellucid.compile(f, backend=(counted := CountingOf(backend)))
    for start in STARTS:
        assert torch.equal(compiled(TABLE, start), f(TABLE, start))
    assert counted.count == 4 and len(pellucid.break_reasons(compiled)) == 1


def test_a_queue_with_a_pointer_in_a_buffer():
    """The number is read behind the first graph; the slices of it are open from their first capture on."""

    class Queue(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("queue", torch.zeros(3, 8))
            self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))

        def forward(self, keys):
            before = keys @ self.queue
            at = int(self.pointer)
            self.queue[:, at : at + len(keys)] = keys.t()
            self.pointer[0] = (at + len(keys)) % self.queue.shape[1]
            return before

    ours, eager = Queue(), Queue()
    compiled = pellucid.compile(ours, backend=(counted := CountingOf("aot_eager")))
    for _ in range(6):
        keys = torch.randn(2, 3)
        assert torch.equal(compiled(keys), eager(keys))
        assert torch.equal(ours.queue, eager.queue) and torch.equal(ours.pointer, eager.pointer)
    assert counted.count == 3
