"""The order of a set comes from its hash table, and that from everything that was ever added and taken out.

Programs over sets from outside and new ones, called several times with sets of several histories. What they are iterated in is compared,
and what later additions and pop() make of them, since that shows the table.
"""

import pytest
import torch

import pellucid

IN_PLACE = [
    "s.add(24)",
    "s.add(24); s.add(9); s.discard(24)",
    "s.discard(8); s.add(0)",
    "s.update(t)",
    "s.update([40, 32, 24, 16, 8, 0])",
    "s |= t; s.discard(16)",
    "s -= s; s.add(16); s.add(8)",
    "s ^= t",
    "s &= t; s.add(0)",
    "s |= s; s.add(40)",
    "s.clear(); s.add(9); s.add(1)",
    "s.add(100); s.discard(100)",
    "t.clear(); t.add(17); log.append(t.pop()); t.update((3, 11, 19))",
]
NEW = [
    "u = s | {16, 0}",
    "u = s - t; u.add(8)",
    "u = s ^ t; u.discard(8)",
    "u = set(s); u.add(24)",
    "u = set(frozenset(s)); u.add(24)",
    "u = {*t, *s, 33}",
    "u = s.copy(); log.append(u.pop() if u else None); u.add(24)",
    "u = {0, 8, 16}; u.discard(0); u.add(24)",
    "u = {0, 8, 16}; log.append(u.pop()); log.append(u.pop())",
    "u = {i * 8 for i in range(9)}; u -= {0, 64}",
    "u = frozenset(s | t)",
    "u = {8, int, None, 'a', torch.float32, (1, 'b')}; u.discard(8); u.add(len)",
]


def grown():
    s = set(range(40))
    for i in range(3, 40):
        s.discard(i)
    return s


def left_behind():
    s = {0, 8, 16}
    s.discard(0)
    return s


def popped():
    s = {1, 8, 16, 5}
    s.pop()
    return s


HISTORIES = [set, lambda: {8, 16}, lambda: {16, 8}, left_behind, grown, popped]


@pytest.fixture(autouse=True)
def one_entry_per_history(monkeypatch):
    monkeypatch.setattr(pellucid.config, "recompile_limit", 64)


def program(line):
    source = (
        "def f(x, s, t, log):\n    x = x + 1\n"
        + "".join(f"    {part.strip()}\n" for part in line.split(";"))
        + ("    log.append(list(u))\n" if "u =" in line else "    u = {1}\n")
        + "    log.append(list(s))\n    return x * 2, u\n"
    )
    namespace = {"torch": torch}
    exec(source, namespace)
    return namespace["f"]


def what_comes_of(s):
    """The order now, and what the table makes of what is added and popped from now on."""
    seen = [list(s)]
    s = set(s) if isinstance(s, frozenset) else s
    for i in (0, 8, 24, 1, 9, 3, 64):
        s.add(i)
        seen.append(list(s))
    s.discard(8)
    s.discard(1)
    seen += [s.pop(), s.pop()]
    for i in (17, 25, 33, 80, 88):
        s.add(i)
    return [*seen, list(s)]


def orders(f, histories):
    log, seen = [], []
    for history in histories:
        s, t = history(), {8, 1}
        for _ in range(2):
            x, u = f(torch.ones(2), s, t, log)
            seen.append((x.tolist(), list(s), list(t), list(u)))
        seen += [what_comes_of(each) for each in (s, t, u)]
    return seen, log


@pytest.mark.parametrize("line", IN_PLACE + NEW)
def test_sets_have_the_table_of_eager(line, counting):
    f = program(line)
    want = orders(f, HISTORIES)
    assert orders(pellucid.compile(f, backend=counting), HISTORIES) == want
    assert counting.graphs


@pytest.mark.parametrize("history", HISTORIES)
def test_entries_are_of_one_history(history):
    """Compiled with one, then called with the others, which may hold the same elements in the same order."""
    f = program("s.add(24); s.add(0)")
    histories = [history, *HISTORIES, history]
    assert orders(pellucid.compile(f), histories) == orders(f, histories)


def test_elements_that_stay_are_the_same_objects():
    def f(x, s):
        s.discard(0)
        s.add(24)
        return x + 1

    def case():
        text = "".join(["some ", "text"])
        s = {text, 8, 16, 0}
        return s, text

    compiled = pellucid.compile(f)
    for _ in range(3):
        s, text = case()
        compiled(torch.ones(2), s)
        assert any(each is text for each in s)
