"""Caches that grow, positions that move on, and decode loops."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from corpus.table import program, ramp
from support import Plain


@program(3, now=3, why="there is no cache at the first call")
def cache_by_cat():
    cache = Plain(keys=None)

    def f(k):
        cache.keys = k if cache.keys is None else torch.cat([cache.keys, k], 1)
        return cache.keys.sum(1)

    yield f, ramp(2, 4, 3)
    for i in range(9):
        yield f, ramp(2, 1, 3) * i


@program(2, now=2)
def cache_given_and_returned():
    def f(k, v, x):
        k, v = torch.cat([k, x], 0), torch.cat([v, x * 2], 0)
        return k, v, torch.softmax(x @ k.T, -1) @ v

    k, v = ramp(3, 4), ramp(3, 4).cos()
    for i in range(9):
        k, v, _ = yield f, k, v, ramp(1, 4) * i


@program(2, now=2)
def cache_with_a_position():
    cache = torch.zeros(2, 12, 3)

    def f(k, position):
        cache[:, position] = k
        return cache[:, : position + 1].sum(1)

    for position in range(2, 12):
        yield f, ramp(2, 3) * position, position


@program(2, now=2)
def cache_with_its_own_position():
    class Cache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", torch.zeros(12, 3))
            self.position = 0

        def forward(self, k):
            n = k.size(0)
            self.keys[self.position : self.position + n] = k
            self.position += n
            return self.keys.sum(0) / self.position

    cache = Cache()
    for i in range(6):
        yield cache, ramp(2, 3) * i


@program(2, now=2)
def cache_by_index_copy():
    cache = torch.zeros(12, 3)

    def f(k, seen):
        where = torch.arange(seen, seen + k.size(0))
        cache.index_copy_(0, where, k)
        return cache.clone()

    for seen in range(0, 10, 2):
        yield f, ramp(2, 3) + seen, seen
    yield f, ramp(2, 3), 0


@program(2, now=2)
def ring_buffer():
    class Ring:
        def __init__(self):
            self.buffer, self.written = torch.zeros(4, 2), 0

        def add(self, x):
            self.buffer[self.written % 4] = x
            self.written += 1
            return self.buffer.sum(0)

    ring = Ring()
    for i in range(11):
        yield ring.add, ramp(2) + i


@program(8, now=8, why="how many tensors are joined is known, and it grows")
def cache_as_a_list_of_tensors():
    keys = []

    def f(k):
        keys.append(k)
        return torch.cat(keys).sum(0)

    for i in range(8):
        yield f, ramp(1, 3) * i


@program(2, now=2)
def greedy_decoding():
    weight = ramp(6, 6).sin()

    def f(ids):
        logits = weight[ids].mean(0)
        return torch.cat([ids, logits.argmax(-1, keepdim=True)])

    ids = torch.tensor([1, 2, 3])
    for _ in range(9):
        ids = yield f, ids


@program(4, now=4, why="two parts")
def tokens_as_python_numbers():
    tokens = [3, 1]
    weight = ramp(6, 6).sin()

    def f(last):
        tokens.append(int(weight[last].argmax()))
        return weight[last] + 1

    for last in (2, 3, 4, 5, 1, 0, 2):
        yield f, last


@program(2, now=2)
def rotary_positions_with_an_offset():
    def f(x, offset):
        angles = torch.arange(offset, offset + x.size(0)) * 0.1
        return x * angles.cos()[:, None] + x.flip(1) * angles.sin()[:, None]

    for offset in range(5, 14):
        yield f, ramp(2, 4), offset


@program(2, now=2)
def learned_positions():
    table = torch.nn.Embedding(16, 3)

    def f(x, offset):
        return x + table.weight[offset : offset + x.size(0)]

    for offset in (0, 3, 5, 2, 8, 10, 1, 13):
        yield f, ramp(3, 3), offset


@program(2, now=2)
def causal_mask_with_an_offset():
    def f(q, k):
        n, m = q.size(0), k.size(0)
        mask = torch.ones(n, m, dtype=torch.bool).tril(m - n)
        return (q @ k.T).masked_fill(~mask, float("-inf")).softmax(-1) @ k

    for n in range(4, 13):
        yield f, ramp(3, 2), ramp(n, 2)


@program(2, now=2)
def sliding_window():
    def f(x, end):
        return x[max(0, end - 4) : end].sum(0)

    for end in range(1, 12):
        yield f, ramp(12, 2), end


@program(2, now=2)
def window_of_changing_width():
    def f(x, width):
        return x[-width:].mean(0), x[:-width].sum(0)

    for width in range(2, 10):
        yield f, ramp(12, 2), width


@program(2, now=2)
def local_attention_mask():
    def f(x, window):
        i = torch.arange(x.size(0))
        near = (i[:, None] - i[None, :]).abs() <= window
        return near.float() @ x

    for window in (1, 2, 3, 4, 5, 1, 2, 0):
        yield f, ramp(6, 2), window


@program(3, now=3, why="the last piece is shorter than those before it")
def prefill_in_pieces():
    prompt, cache = ramp(22, 3), []

    def f(piece, position):
        return piece * 2 + position, position + piece.size(0)

    position = 0
    while position < 22:
        piece = prompt[position : position + 4]
        kept, position = yield f, piece, position
        cache.append(kept)


@program(4, now=4, why="the loop is unrolled: one graph for each number of steps")
def steps_of_decoding_in_one_call():
    def f(x, steps):
        for _ in range(steps):
            x = torch.cat([x, x[-1:] * 0.5])
        return x

    for steps in (2, 3, 4, 2, 3, 4, 1, 2):
        yield f, ramp(3, 2), steps


@program(2, now=2)
def stop_at_the_longest_length():
    def f(x, position, longest):
        if position >= longest:
            return x, True
        return x * position, False

    for position in range(3, 11):
        yield f, ramp(3), position, 8


@program(2, now=2)
def beams():
    def f(scores, beams):
        best, where = scores.flatten().topk(beams)
        return best, where // scores.size(1), where % scores.size(1)

    for beams in (2, 3, 4, 5, 6, 2, 3):
        yield f, ramp(3, 5).sin(), beams


@program(2, now=2)
def top_k_sampling():
    def f(logits, k, temperature):
        logits = logits / temperature
        least = logits.topk(k).values[-1]
        return logits.masked_fill(logits < least, float("-inf")).softmax(-1)

    for i in range(8):
        yield f, ramp(10).sin(), 2 + i % 5, 1.0 - i / 16


@program(2, now=2)
def accepted_tokens():
    def f(draft, accepted):
        return draft[:, :accepted], draft[:, accepted : accepted + 1]

    for accepted in (2, 3, 4, 5, 2, 4, 3):
        yield f, ramp(2, 7), accepted


@program(2, now=2)
def cropped_cache():
    class Cache:
        def __init__(self):
            self.keys = ramp(20, 2)

        def crop(self, length):
            self.keys = self.keys[:length]
            return self.keys.mean(0)

    cache = Cache()
    for length in (18, 16, 13, 11, 10, 7, 5):
        yield cache.crop, length


@program(2, now=2)
def attention_over_a_cache():
    def f(q, k):
        return F.scaled_dot_product_attention(q, k, k)

    for n in range(3, 12):
        yield f, ramp(1, 2, 1, 4), ramp(1, 2, n, 4)


@program(2, now=2)
def repetition_penalty():
    def f(logits, ids, penalty):
        picked = logits[ids]
        return logits.index_put((ids,), torch.where(picked < 0, picked * penalty, picked / penalty))

    for n in range(2, 10):
        yield f, ramp(10).sin(), torch.arange(n), 1.0 + n / 10


@program(2, now=2)
def lengths_of_left_padding():
    def f(ids, pad):
        mask = torch.arange(ids.size(1)) >= pad
        return ids * mask, mask.cumsum(0) - 1

    for pad in (1, 2, 3, 0, 2, 4, 1):
        yield f, torch.arange(12).reshape(2, 6), pad
