"""Programs that do everything with a few numbers that change: results, exceptions and state are eager's at every call."""

import json
import math

import pytest
import torch

import pellucid
from support import outcome


class State:
    def __init__(self):
        self.n, self.a, self.b = 0, 1, 2.5
        self.d = {"k": 1, "j": 2}
        self.l = [3, 4, 5]


G = 0


def swapped_attributes(x, s):
    old = s.n
    s.n = 5
    s.a, s.b = s.b, s.a
    return x + 1, old * 2, [old], s.a, s.b


def swapped_items(x, s):
    d = s.d
    old = d["k"]
    d["k"] = d["j"]
    d["j"] = old + 1
    row = s.l
    row[0], row[1] = row[1], row[0]
    row.append(old)
    return x * old, row[0], d["k"]


def a_global_that_grows(x, s):
    global G
    old = G
    G = old + s.n
    return x + old, G, old


def key_of_a_dict(x, s):
    def inner():
        return s.n + 1

    s.n += 1
    t = (s.n, inner(), {s.n: "key"})
    return x, t


def stored_again(x, s):
    s.n = s.n
    s.a = s.n
    s.l[:] = [s.n, s.a, s.b]
    return x + s.n


def in_new_containers(x, s):
    y = [i * s.n for i in range(3)]
    z = dict(zip("abc", y, strict=True))
    return x, sum(y), max(y), sorted(y), z, tuple(reversed(y)), f"{s.n}", str(s.n), len(y)


def division_that_may_raise(x, s):
    try:
        v = 10 // (s.n - 2)
    except ZeroDivisionError:
        v = -1
    return x + v, v


def counted_down(x, s):
    n = s.n
    while n > 0:
        n -= 3
    return x + n, n


def in_texts(x, s):
    return x, json.dumps({"a": [s.n, {"b": [s.a, [s.b, [[s.n]]]]}]}), repr([s.n, (s.a,)]), "%d-%s" % (s.n, s.b)


def truth_and_identity(x, s):
    return x * s.a if s.n else x, s.n and s.a, s.n or s.b, not s.n, bool(s.n), s.n is None, s.n == s.a, s.n != 2


def in_old_containers(x, s):
    s.l.insert(0, s.n)
    s.l.pop()
    s.l += [s.a]
    s.l.extend([s.b, s.n])
    s.d.update(n=s.n)
    s.d.setdefault("z", s.n)
    s.d["n"] += 1
    return x, s.l, s.d, s.l.index(s.n), s.n in s.l, s.l.count(s.n)


def arithmetic(x, s):
    a, b = divmod(s.n, 3)
    return (
        x + a,
        b,
        round(s.n),
        abs(-s.n),
        pow(s.n, 2),
        int(s.n),
        float(s.n),
        math.sqrt(s.n),
        min(s.n, 4),
        max(s.n, s.a, 3),
        -s.n,
        +s.n,
        ~s.n,
        s.n << 1,
        s.n & 3,
        s.n / 7,
        2**s.n,
        s.n**-1 if s.n else 0,
    )


def counted_far_down(x, s):
    n = s.n * 1000
    while n > 0:
        n -= 1
    return x + n, n


PROGRAMS = [
    swapped_attributes,
    swapped_items,
    a_global_that_grows,
    key_of_a_dict,
    stored_again,
    in_new_containers,
    division_that_may_raise,
    counted_down,
    in_texts,
    truth_and_identity,
    in_old_containers,
    arithmetic,
]
NUMBERS = [1, 2, 3, 7, 7, 0, -4, 100, 2]
OTHERS = [1, 1, 2, 3, 5, 8, 1.5, 2.5, 3]


@pytest.mark.parametrize(
    ("program", "every"),
    [(program, every) for program in PROGRAMS for every in (0, 3, 5, 7)] + [(counted_far_down, 0)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_program(program, every, counting, monkeypatch):
    """`every`: regions end after so many instructions besides."""

    def with_a_graph(x, s):
        return x + 1, program(x, s)

    compiled = pellucid.compile(with_a_graph, backend=counting)
    states, grown = (State(), State()), [0, 0]
    with pellucid.config.patch(force_break_every=every):
        for call, (number, other) in enumerate(zip(NUMBERS, OTHERS, strict=True)):
            seen = []
            for side, (function, state) in enumerate(zip((with_a_graph, compiled), states, strict=True)):
                state.n, state.a, state.b = number, other, call / 2
                if call % 3 == 2:
                    state.l, state.d = [call, call + 1, call], {"k": call, "j": call * 2}
                monkeypatch.setitem(globals(), "G", grown[side])
                seen.append(repr((outcome(function, torch.full((2,), float(call)), state), vars(state), G)))
                grown[side] = G
            assert seen[0] == seen[1], call
    assert counting.graphs or every
