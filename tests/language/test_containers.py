"""PYTEST_DONT_REWRITE: programs contain `assert`.

Lists, dicts, sets, deques, and tensors in them: aliases, copies, changes.
"""

import collections
import copy
import math

import pytest
import torch

import pellucid
from support.programs import Programs, check

PROGRAMS = program = Programs()


# ---- containers


@program
def lists(s, x):
    v = s.items
    v.append(3)
    v.insert(0, 9)
    v.extend(i for i in (4, 5))
    v[1:2] = [7, 8]
    v.sort()
    v.reverse()
    v.remove(9)
    del v[0]
    v += [6]
    popped = v.pop(), v.pop(0)
    return (
        popped,
        v.index(5),
        v.count(3),
        v[::-1],
        v[-1],
        v * 2,
        v + [1],
        v == s.same,
        v is s.same,
        v.copy(),
        x * len(v),
    )


@program
def dicts(s, x):
    d = s.table
    d["b"] = d.get("a", 0) + 1
    d.update(c=3)
    d.setdefault("d", []).append(1)
    d |= {"e": x}
    gone = d.pop("a", None), d.pop("zz", 5)
    last = d.popitem()
    del d["c"]
    return (
        gone,
        last,
        list(d),
        list(d.items())[0],
        "b" in d,
        {**d},
        d is s.nested["self"],
        dict(zip("ab", [1, 2], strict=True)),
        dict.fromkeys("ab", x),
    )


@program
def sets(s, x):
    s.seen.add(s.n + 5)
    s.seen.discard(1)
    s.seen |= {7}
    s.seen.update([8])
    return sorted(s.seen), 5 in s.seen, s.seen & {5}, s.seen - {5}, s.seen ^ {5}, {1} <= {1, 2}, frozenset([1]) | {2}, x


@program
def deques(s, x):
    s.queue.append(s.n)
    s.queue.appendleft(4)
    s.queue.rotate(1)
    s.n += 1
    return list(s.queue), s.queue[0], len(s.queue), s.queue.maxlen, x + s.queue[-1]


@program.breaks
def ordered_dicts(s, x):
    s.order.move_to_end("a")
    s.order["c"] = x
    return list(s.order)


@program
def fresh_collections(s, x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    o = collections.OrderedDict(b=1, a=2)
    o.move_to_end("b")
    q = collections.deque([1, 2, 3], maxlen=2)
    q.append(4)
    return dict(d), list(o), list(q), sorted({"b": 1, "a": 2}.items())


@program
def numbers_and_texts(s, x):
    n = len(s.items)
    return (f"{n:03d} {3.14159:.2f} {n!r:>5} {'a':<3}|", "%s-%d" % ("a", n), "a,b".split(","), "-".join(str(i) for i in range(3)), "abc"[::-1], "abc".replace("b", "x").upper(),
            7 // 2, -7 % 3, 2**10, 7 / 2, divmod(7, 3), round(2.567, 1), abs(-3), 1 << 4 | 1, ~5, int("12"), float("1.5"), bool([]), math.sqrt(4), math.floor(-1.5),
            (5).bit_length(), 1.0.is_integer(), complex(1, 2).imag, bytes([1, 2])[0], range(10)[2:8:3], slice(1, 5).indices(3), "é".encode(), x * n)  # fmt: skip


@program
def aliases_stay_aliases(s, x):
    s.nested["list"][0].append(5)
    s.same.append(6)
    new = [x]
    s.nested["new"] = new
    s.log = new
    new.append(s.items)
    return new, s.items is s.same


@program
def attributes_changed(s, x):
    s.n += 1
    s.fresh = x
    setattr(s, "m", getattr(s, "m", 0) + 1)
    if hasattr(s, "temp"):
        del s.temp
    else:
        s.temp = 1
    s.log.append(s.m)
    return vars(s)["n"], x + s.n


@program
def tensors_in_containers(s, x):
    parts = {"a": [x, x + 1], "b": (x * 2,)}
    parts["a"].append(parts["b"][0])
    parts["c"] = torch.stack(parts["a"])
    values, indices = torch.sort(x)
    q, *rest = x.unbind()
    return (
        parts,
        values,
        indices,
        q,
        rest,
        x.shape,
        x.shape[0],
        x.size(),
        x.dtype,
        x.device,
        len(x),
        x.dim(),
        list(x.shape),
    )


@program
def tensors_changed_in_place(s, x):
    y = x.clone()
    view = y[1:]
    view += 1
    y[0] = 7
    y.mul_(2)
    return y, view, y is x


@program
def inputs_changed_in_place(s, x):
    x.add_(1)
    x[0] = x[1] * 2
    s.log.append(x)
    return x, x + 1


@program
def containers_changed_while_iterated(s, x):
    out = []
    for make in (lambda: s.table, lambda: s.queue):
        values = make()
        try:
            for v in values:
                values.update({"new": 1}) if values is s.table else values.append(v)
        except RuntimeError as error:
            out.append(str(error))
    return out, x


@program
def copies(s, x):
    a = copy.copy(s.items)
    b = copy.deepcopy(s.table)
    a.append(1)
    b["z"] = 1
    return a, b, x


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_same_as_eager(f):
    check(f, computes=False)


def test_sets_are_copied():
    shared = {1, (2, "a")}

    def f(x):
        held = {"a": shared, "b": [shared, frozenset(shared)]}
        made = copy.deepcopy(held)
        made["a"].add(5)
        return x + len(made["a"]), made, made["a"] is made["b"][0], made["a"] is shared, copy.copy(shared)

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    got, want = compiled(torch.ones(1)), f(torch.ones(1))
    assert torch.equal(got[0], want[0]) and got[1:] == want[1:]
    assert shared == {1, (2, "a")}
