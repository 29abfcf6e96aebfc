"""What functions of changing numbers and texts give, lists that only grow, tuples with numbers: one region serves all
calls where nobody looks at the value, and whoever looks gets what eager gives."""

from __future__ import annotations

import collections
import io
import logging
import math

import pytest
import torch

import pellucid
from support import Counting, Plain
from support.calls import ramp

NUMBERS = (3, 4, 7, 0, -2, 12, 10**12, 5)


def entries(f, calls, most, dynamic=None):
    """Runs the calls, eagerly and compiled, and compares; `calls` makes new arguments each time."""
    counting = Counting()
    compiled = pellucid.compile(f, backend=counting, dynamic=dynamic)
    for mine, its in zip(calls(), calls()):
        assert outcome(compiled, mine) == outcome(f, its)
    assert len(pellucid.cache_entries(compiled)) <= most, pellucid.guard_failures(compiled)
    assert counting.count > 0


def outcome(f, args):
    try:
        result = f(*args)
    except Exception as error:
        result = type(error), error.args
    return repr(result), repr([arg for arg in args if not isinstance(arg, int)])


def of_numbers(f, most, numbers=NUMBERS):
    entries(f, lambda: [(ramp(3), n) for n in numbers], most)


TEXTS = [
    lambda x, n: (x + 1, str(n)),
    lambda x, n: (x + 1, repr(n), f"{n}", f"{n!r}", f"{n!s:>9}", f"<{n:>5}|{n + 1}>"),
    lambda x, n: (x + 1, "%d items, %s" % (n, n * 2), "%5.1f" % n),
    lambda x, n: (x + 1, f"{n} of {n:>6}", f"{n}-{n:x}"),
    lambda x, n: (x + 1, "-".join([str(n), "a", f"{n}"])),
    lambda x, n: (x + 1, str(n) + "/" + str(n + 1)),
    lambda x, n: (x + 1, hex(n), oct(n), bin(n), format(n, "08d"), round(n, -1)),
    lambda x, n: (x + 1, f"{n / 3:.3f}", str(n / 7), f"{n / 3!r}"),
    lambda x, n: (x + 1, math.gcd(n, 12), math.atan2(n, 2), math.copysign(1.5, n)),
    lambda x, n: {"name": f"step{n}", "list": [str(n)], "tensor": x * 2},
]


@pytest.mark.parametrize("f", TEXTS)
def test_texts_that_only_move(f):
    of_numbers(f, 2)


LOOKED_AT = [
    lambda x, n: x + len(str(n)),
    lambda x, n: x * 2 if str(n) == "7" else x,
    lambda x, n: x * {"3": 2, "4": 5}.get(f"{n}", 1),
    lambda x, n: x + int(str(n)[-1]),
    lambda x, n: (x + 1, f"{n}".rjust(5), str(n) * 2, f"{n}".encode(), list(str(n))),
    lambda x, n: (x + 1, f"{n}" is f"{n}", str(n) in "0123", "3" in f"{n}", hash(str(n)) == hash(f"{n}")),
    lambda x, n: (x + 1, sorted([str(n), "5"]), {str(n), "x"} == {f"{n}", "x"}),
    lambda x, n: (x + 1, "%c" % (n % 100 + 40), f"{n % 100 + 40:c}", "%s" % chr(n % 50 + 40)),
    lambda x, n: (x + 1, "%d" % n if n > 0 else "%d %d" % n),
    lambda x, n: (x + 1, round(n / 3, 2) + 1, type(str(n)), isinstance(f"{n}", str)),
]


@pytest.mark.parametrize("f", LOOKED_AT)
def test_texts_that_are_looked_at(f):
    of_numbers(f, 30)


def test_a_text_behind_a_graph_break():
    def f(x, n, lines):
        text = f"step {n}"
        y = x * 2
        pellucid.graph_break()
        lines.append(text)
        return y + 1, text

    entries(f, lambda: [(ramp(3), n, []) for n in NUMBERS], 4)


def test_printed(capsys):
    def f(x, n):
        y = x * 2
        print("step", n, f"{n}")
        return y + 1

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    for n in range(6):
        compiled(ramp(3), n)
    assert capsys.readouterr().out == "".join(f"step {n} {n}\n" for n in range(6))
    assert counting.count == 2


def test_errors_that_are_raised_and_caught():
    def f(x, n):
        try:
            raise ValueError(f"bad {n}", n)
        except ValueError as error:
            return x + 1, error.args, str(error)

    of_numbers(f, 30)

    def escapes(x, n):
        y = x.sin()
        raise KeyError(n, f"{y.dim()} {n}")

    of_numbers(escapes, 2)


def test_numbers_that_texts_cannot_be_made_of():
    def f(x, n):
        return x + 1, str(n), f"{n}"

    for numbers in [(1, 2, 10**30, 3), (1.5, 2.5, math.inf, math.nan, -0.0), (1, 1.0, True, None, "a")]:
        of_numbers(f, 10, numbers)


def test_digits_beyond_the_limit():
    def f(x, n):
        return x + 1, str(n)

    of_numbers(f, 10, (1, 2, 10**5000, 3))


def test_texts_and_bytes_that_only_move():
    box = Plain(name="", key=b"")

    def f(x, name, key):
        box.name, box.key = name, key
        return x.sin(), [name, (key, name)]

    entries(f, lambda: [(ramp(3), f"batch {i}", bytes([i])) for i in range(6)], 1)


def test_a_text_that_chooses_is_known():
    def f(x, mode):
        if mode is None:
            return x
        return x.sum() if mode == "sum" else getattr(x, mode)()

    entries(f, lambda: [(ramp(3), mode) for mode in ("sum", "mean", "amax", None, "sum", "amin")], 6)


BITS = [
    lambda x, n: x * (n & 7) + (n & 1),
    lambda x, n: (x + (n >> 2), n << 3),
    lambda x, n: (x * (n | 12), n ^ 5, n & -8, 6 & n),
    lambda x, n: (x * 2 if n & 4 else x, x + 1 if n >> 1 & 1 else x),
    lambda x, n: (x + 1, n & n + 1, n ^ (n >> 1), n | n * 2),
]


@pytest.mark.parametrize("f", BITS)
def test_bits(f):
    of_numbers(f, 6)


def test_rounding():
    def f(x, a):
        return x * round(a), round(a * 0.5), round(a, 2), round(-a)

    of_numbers(f, 2, (0.4, 1.5, 2.5, -0.5, -1.5, 1e15 + 0.5, 3.7))


def test_membership():
    special, others = {3, 12}, [4, 5]

    def f(x, n):
        if n in (3, 4) or n in special or n in others or n in range(0, 20, 5):
            return x * n
        return x + n

    of_numbers(f, 8)


def test_ranges_with_a_step():
    def f(x, n):
        parts = [x[i : i + 4].sum() for i in range(0, n, 4)]
        for i in range(n, 2, -3):
            parts.append(x[:i].mean())
        return torch.stack(parts), [i for i in range(1, n, 5)]

    entries(f, lambda: [(ramp(40), n) for n in (9, 10, 11, 12, 9, 10, 12, 11)], 6)


def test_ranges_with_a_step_over_sizes():
    def f(x):
        return [x[i : i + 8].sum(0) for i in range(0, x.shape[0], 8)]

    entries(f, lambda: [(ramp(n, 2),) for n in (17, 18, 19, 20, 21, 24, 22)], 3)


def test_ranges_that_break_and_go_on():
    def f(x, n):
        total = x
        for i in range(0, n, 3):
            if i > 5:
                break
            pellucid.graph_break()
            total = total + i
        else:
            total = total * 2
        return total, i

    entries(f, lambda: [(ramp(3), n) for n in (4, 5, 6, 10, 11, 5)], 40)


def test_keys_of_tensors():
    def f(x, n):
        x[:, n] = n
        x[n, ..., 0] = x[0, :, n]
        return x[n, n], x[..., n], x[None, n], x[[0, n]], x[:, [n, 1]], x[n, 1:], x[-n]

    entries(f, lambda: [(ramp(6, 6, 6), n) for n in (1, 2, 3, 4, 2, 5, -1, 6, -7)], 7)


def test_lists_that_only_grow():
    history = []

    def f(x, log):
        history.append(x.sum())
        log.append(len(x))
        log.append("done")
        return x + 1

    counting = Counting()
    compiled = pellucid.compile(f, backend=counting)
    log = [1, 2]
    for i in range(5):
        compiled(ramp(3) + i, log)
    assert log == [1, 2] + [3, "done"] * 5
    assert [t.item() for t in history] == [(ramp(3) + i).sum().item() for i in range(5)]
    assert counting.count == 1


GROWN = [
    lambda x, log: (log.append(1), len(log), x + len(log)),
    lambda x, log: (log.append(4), log[0], log[-1], x + 1),
    lambda x, log: (log.append(x), log.append(3), log.pop(), x + 1),
    lambda x, log: ([log.append(v) for v in list(log)], x + 1),
    lambda x, log: (log.append(2), sum(v for v in log if isinstance(v, int)), x + 1),
    lambda x, log: (log.append(5), 5 in log, log.index(5), log.count(5), x + 1),
    lambda x, log: (log.append(6), log.extend([7, 8]), log.insert(0, 9), log.reverse(), x + 1),
    lambda x, log: (log.append(1), log.clear(), log.append(2), x + 1),
    lambda x, log: (log.append(log), log[-1] is log, x + 1),
    lambda x, log: (log.append(3), log + [1], log == [3], bool(log), x + 1),
    lambda x, log: (pellucid.graph_break(), log.append(x * 2), pellucid.graph_break(), log.append(1), x + 1),
    lambda x, log: (setattr(x, "log", log), log.append(1), x.log is log, x + 1),
]


@pytest.mark.parametrize("f", GROWN)
def test_lists_that_have_grown_and_are_read(f):
    def calls():
        log = []
        for i in range(6):
            yield ramp(3), log
            if i == 3:
                log = [7]

    entries(f, calls, 40)


def test_one_list_by_two_names():
    def f(x, a, b):
        a.append(1)
        b.append(len(b))
        return x + len(a)

    def calls():
        one, other = [0], [5]
        for pair in ((one, other), (one, one), (other, one), (one, one)):
            yield ramp(3), *pair

    entries(f, calls, 20)


def test_a_list_that_grows_while_it_is_iterated():
    def f(x, log):
        for i, v in enumerate(log):
            if i < 3:
                log.append(v + 1)
        return x + len(log), log

    entries(f, lambda: [(ramp(3), list(range(n))) for n in (1, 2, 3, 1, 2)], 20)


Point = collections.namedtuple("Point", "x y")

TUPLES = [
    lambda x, p: x * p[0] + p[1],
    lambda x, p: (x + sum(p), p, (*p, 1)),
    lambda x, p: (x + 1, p == (3, 1), p[::-1], max(p), len(p)),
    lambda x, p: (x * 2 if p in {(3, 1), (4, 1)} else x, {p: 1}, hash(p) == hash((3, 1))),
    lambda x, p: ([x + n for n in p], p is p, [p, p][0] is p, p < (4, 0), p + p),
    lambda x, p: (x.new_full((2,), p[0]), x.view(1, -1).expand(max(p[0] % 4, 1), -1)),
]


@pytest.mark.parametrize("kind", [tuple, Point._make])
@pytest.mark.parametrize("f", TUPLES)
def test_tuples_with_numbers(f, kind):
    entries(f, lambda: [(ramp(3), kind((n, 1))) for n in NUMBERS], 30)


def test_tuples_with_numbers_make_one_entry():
    def f(x, p, q):
        return x * p[0] + q.y, p, (q.x, p[1]), {"p": p}

    entries(f, lambda: [(ramp(3), (n, (n / 2, "a")), Point(n, 2)) for n in NUMBERS], 2)


def test_a_tuple_in_two_places():
    def f(x, p, box):
        return x * p[0], box["p"] is p, box["p"] == p, box["p"][0] + 1

    def calls():
        for n in (300, 301, 302, 303):
            p = (n, 1.5)
            yield ramp(3), p, {"p": p}

    entries(f, calls, 8)


CONTAINERS = [
    lambda x, items, d, q: (x * items[0] + sum(items), [n + 1 for n in items], items),
    lambda x, items, d, q: (x * d["a"], {**d, "c": 1}, list(d.values()), dict(d), [v for k, v in d.items()]),
    lambda x, items, d, q: (x * q[0], q[-1], list(q), [*q, *items]),
    lambda x, items, d, q: ((lambda a, b: x * a + b)(**d), d.get("a"), d.setdefault("a", 7), d.pop("b")),
    lambda x, items, d, q: (items.append(items[0]), d.update(a=items[1]), q.append(d["b"]), x + 1),
]


@pytest.mark.parametrize("f", CONTAINERS)
def test_numbers_in_containers(f):
    def calls():
        for n in NUMBERS:
            yield ramp(3), [n, n + 1], {"a": n, "b": n / 2}, collections.deque([n, 2 * n])

    entries(f, calls, 3)


def test_probability_of_dropout():
    def f(x, p):
        return torch.nn.functional.dropout(x, p, training=False) + 1

    of_numbers(f, 6, (0.5, 0.25, 0.1, 0.0, 1.0, 0.75, 1.5, -0.1))


CONTAINERS = {
    "size in an f-string": lambda x: f"{x.shape} of {x.shape[0]}",
    "str of a size": lambda x: str(x.size()) + "!",
    "tuple and list": lambda x: f"{tuple(x.shape)} {list(x.shape)!r}",
    "dict": lambda x: str({"rows": x.shape[0], "half": x.shape[0] / 2, "name": "x"}),
    "one item": lambda x: repr((x.shape[0] * 2,)),
    "constants beside": lambda x: repr([x.shape[0], None, True, "text", 2**70]),
}


@pytest.mark.parametrize("text", CONTAINERS.values(), ids=CONTAINERS)
def test_containers_of_numbers_print_late(counting, text):
    def f(x):
        return x + 1, text(x)

    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for rows in (3, 4, 5, 12, 100):
        assert compiled(torch.ones(rows, 2))[1] == text(torch.ones(rows, 2))
    assert counting.count == 2


@pytest.mark.parametrize("level", [logging.DEBUG, logging.ERROR])
def test_logging_fixes_no_number(counting, level):
    stream = io.StringIO()
    log = logging.Logger("of this test", level)
    log.addHandler(logging.StreamHandler(stream))

    def f(x, step, rate):
        log.info("%d rows at step %s, %s", x.shape[0], step, rate)
        log.debug("%s %s", x.shape, [step, {"rate": rate * 2}])
        log.warning(f"step {step} of {x.shape}")
        return x + 1

    def told(function, *args):
        stream.truncate(0)
        stream.seek(0)
        function(*args)
        return stream.getvalue()

    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for step, rows in enumerate((3, 4, 5, 12, 100)):
        args = torch.ones(rows, 2), step, step * 0.5
        assert told(compiled, *args) == told(f, *args)
    assert counting.count == 2


class Told(collections.namedtuple("Told", "step")):
    seen: list = []

    def __repr__(self):
        self.seen.append(self.step)
        return f"step {self.step}"


def test_what_prints_by_code_of_the_program_is_printed_where_eager_prints_it():
    stream = io.StringIO()
    log = logging.Logger("of a class of the program", logging.DEBUG)
    log.addHandler(logging.StreamHandler(stream))

    def f(x, step):
        log.info("%s", Told(step))
        return x + 1, list(Told.seen)

    def calls(function):
        Told.seen.clear()
        stream.truncate(0)
        stream.seek(0)
        return [function(torch.ones(2), step)[1] for step in range(4)], stream.getvalue()

    assert calls(pellucid.compile(f, backend="eager")) == calls(f)
