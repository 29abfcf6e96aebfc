"""A call of torch that a region ends before: what it asked of sizes is none of the region's conditions."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import pellucid
from support import Counting


def graphs_of(f, calls):
    """The graphs that each call makes; what it gives is eager's."""
    backend, made = Counting(), []
    compiled = pellucid.compile(f, backend=backend)
    for args in calls:
        before = backend.count
        torch.testing.assert_close(compiled(*args), f(*args), rtol=0, atol=0)
        made.append(backend.count - before)
    return made


def padded(lengths):
    return torch.randn(len(lengths), max(lengths), 3), torch.tensor(lengths)


def test_an_operator_that_reads_plain_sizes_before_it_needs_values():
    def f(x, lengths):
        wide = x * 2 + 1
        data, _ = torch._VF._pack_padded_sequence(wide, lengths, True)
        return data, wide

    calls = [padded(lengths) for lengths in ([4, 3, 2], [5, 3, 1], [6, 6, 6], [3, 2, 2], [9, 1, 1])]
    assert graphs_of(f, calls) == [1, 1, 0, 0, 0]  # the sizes at hand, then every size


def test_a_size_that_the_program_goes_by_as_well_stays_guarded():
    def f(x, lengths):
        wide = x * 2 if x.size(1) == 5 else x + 1
        data, _ = torch._VF._pack_padded_sequence(wide, lengths, True)
        return data, wide

    calls = [padded(lengths) for lengths in ([4, 3, 2], [6, 3, 1], [5, 5, 1], [5, 3, 2], [7, 1, 1])]
    assert graphs_of(f, calls) == [1, 1, 1, 0, 0]


def test_a_number_that_the_call_takes_stays_guarded():
    def f(x, lengths):
        total = x.size(1)
        packed = torch._VF._pack_padded_sequence(x * 2, lengths, True)
        return torch._VF._pad_packed_sequence(*packed, True, 0.5, total)[0], total

    calls = [padded(lengths) for lengths in ([4, 3, 2], [5, 3, 1], [6, 6, 6], [3, 2, 2])]
    for made in (graphs_of(f, calls), graphs_of(f, calls[::-1])):
        assert made[0] > 0


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.out = nn.Linear(3, 4), nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
        hidden, lengths = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(hidden), lengths


def test_packed_sequences_of_changing_lengths():
    torch.manual_seed(0)
    calls = [padded(lengths) for lengths in ([4, 3, 2], [4, 4, 1], [5, 3, 3], [5, 2, 1], [3, 3, 3], [7, 1, 2])]
    made = graphs_of(Tagger(), calls)
    assert made[0] > 0
    assert made[3:] == [0, 0, 0]
