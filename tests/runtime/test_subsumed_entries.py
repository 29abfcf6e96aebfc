"""An entry that serves all calls of an older one takes its place; one that does not leaves it."""

from __future__ import annotations

import random
import sys

import pytest
import torch

import pellucid
from support import same

X = torch.arange(1.0, 4.0)


def run(f, calls, **options):
    """The entries behind each call."""
    compiled = pellucid.compile(f, backend="eager", **options)
    counts = []
    for arguments in calls:
        assert same(compiled(*arguments), f(*arguments))
        counts.append(len(pellucid.cache_entries(compiled)))
    return compiled, counts


def sizes(*shapes):
    return [(torch.arange(float(torch.Size(shape).numel())).view(shape),) for shape in shapes]


def test_a_number_that_opened():
    _, counts = run(lambda x, n: x * n, [(X, 2), (X, 3), (X, 4), (X, 2)])
    assert counts == [1, 1, 1, 1]
    assert pellucid.counters()["captures"] == 2


def test_a_size_that_opened():
    _, counts = run(lambda x: x.sum(0) + x.shape[0], sizes([3, 4], [5, 4], [6, 4], [3, 4]))
    assert counts == [1, 1, 1, 1] and pellucid.counters()["captures"] == 2


def test_one_dimension_after_the_other():
    _, counts = run(lambda x: x * 2, sizes([3, 4], [5, 4], [5, 6], [3, 4], [8, 9]))
    assert counts == [1, 1, 1, 1, 1] and pellucid.counters()["captures"] == 3


def test_sizes_of_one_stay():
    _, counts = run(lambda x: x * 2, sizes([1, 4], [5, 4], [6, 4], [1, 4], [7, 4]))
    assert counts == [1, 2, 2, 2, 2] and pellucid.counters()["captures"] == 2


def test_another_branch_stays():
    def f(x, n):
        return x + n if n < 5 else x - n

    _, counts = run(f, [(X, 7), (X, 2), (X, 3), (X, 8), (X, 9), (X, 1)])
    # 7 as a value; any below 5; any from 5 on, which serves 7 too
    assert counts == [1, 2, 2, 2, 2, 2] and pellucid.counters()["captures"] == 3


def test_what_was_pinned_stays():
    table = {1: "a", 2: "bb", 3: "ccc"}

    def f(x, n):
        return x + len(table[n])

    _, counts = run(f, [(X, 1), (X, 2), (X, 3), (X, 1)])
    assert counts[-1] == 3 and pellucid.counters()["captures"] == 3


def test_another_dtype_stays():
    calls = [(torch.ones(3),), (torch.ones(3, dtype=torch.float64),), (torch.ones(4),), (torch.ones(5),)]
    _, counts = run(lambda x: x * 2, calls)
    assert counts == [1, 2, 2, 2]


def test_another_mode_stays():
    compiled, _ = run(lambda x: x * 2, sizes([3]))
    with torch.no_grad():
        for arguments in sizes([4], [5]):
            compiled(*arguments)
    assert len(pellucid.cache_entries(compiled)) == 2
    before = pellucid.counters()["captures"]
    compiled(*sizes([3])[0])
    assert pellucid.counters()["captures"] == before


def test_strides_count():
    def f(x):
        return x.view(-1) if x.is_contiguous() else x * 2

    wide = torch.arange(40.0).view(4, 10)
    calls = [(wide[:, :5],), (torch.ones(3, 5),), (torch.ones(6, 5),), (wide[:, :5],)]
    _, counts = run(f, calls)
    assert counts[-1] == 2


def test_sizes_that_were_equal_by_chance():
    def f(x, y):
        return x.sum(0, keepdim=True) + y if x.shape[0] == y.shape[0] else x * y.shape[0]

    shapes = [(3, 3), (4, 5), (6, 6), (7, 8), (3, 3)]
    _, counts = run(f, [(torch.ones(a, 2), torch.ones(b, 2)) for a, b in shapes])
    assert counts[-1] <= 3
    assert pellucid.counters()["captures"] <= 4


def test_objects_that_must_differ():
    """The older entry was made for one object in two places, the newer for two objects."""

    def f(x, y):
        x.add_(1)
        return x + y

    a = torch.ones(3)
    compiled = pellucid.compile(f, backend="eager")
    for make in (lambda n: (t := torch.ones(n), t), lambda n: (torch.ones(n), torch.ones(n))) * 3:
        for n in (3, 4, 5):
            assert same(compiled(*make(n)), f(*make(n)))
    del a


def test_an_entry_of_a_whole_program_stays():
    """A shorter region serves no call with fullgraph=True."""

    def f(x, n):
        if n > 100:
            sys.stdout.write("")
        return x + n

    strict = pellucid.compile(f, backend="eager", fullgraph=True)
    loose = pellucid.compile(f, backend="eager")
    for n in (1, 200, 300, 2, 3):
        assert same(loose(X, n), f(X, n))
    for n in (1, 2, 3):
        assert same(strict(X, n), f(X, n))
    with pytest.raises(pellucid.errors.Unsupported):
        strict(X, 200)


def test_static_entries_stay():
    _, counts = run(lambda x, n: x * n, [(X, 2), (X, 3), (X, 4)], dynamic=False)
    assert counts == [1, 2, 3]


def test_behind_a_break():
    def f(x, n):
        y = x + 1
        sys.stdout.write("")
        return y * n

    compiled, _ = run(f, [(X, n) for n in (2, 3, 4, 5)])
    regions = pellucid._core.guards_of(compiled)
    assert len(regions) == 2  # one before the break, one behind it


def test_objects_of_an_entry_that_went_are_let_go():
    import gc
    import weakref

    compiled = pellucid.compile(lambda x: x * 2, backend="eager")
    compiled(torch.ones(3))
    region = weakref.ref(pellucid.cache_entries(compiled)[0]["function"])
    compiled(torch.ones(4))
    gc.collect()
    assert region() is None


# ---- whatever was served stays served


def plain(x, y, n, f):
    return x * n + f, y.sum(0, keepdim=True) * y.shape[0], n + 1


def branches(x, y, n, f):
    if x.shape[0] == y.shape[0]:
        return x.sum() * n, y
    if x.shape[0] > 2 * n:
        return x * f, x.shape
    return y - n if f < 0.5 else y.t() + x.shape[0] // 2


def views(x, y, n, f):
    z = x.reshape(-1, 2) if x.shape[0] % 2 == 0 else x.flatten()
    return z * (y.stride(0) + n), y[: n % 3], y.is_contiguous()


def containers(x, y, n, f):
    sizes = {"x": x.shape[0], "y": y.shape[-1]}
    return x + sizes["y"] * f, [n + 1 if n % 2 else f], max(sizes.values()), x is y


def needs_values(x, y, n, f):
    return x[:, : 1 + n % 2], "abc"[n % 3], range(n % 4), round(f, 1)


class Holder:
    def __init__(self, n, f):
        self.n, self.f, self.sizes = n, f, [n, n + 1]


def objects(x, y, n, f, holder=None):
    holder = Holder(n, f) if holder is None else holder
    return x * holder.n + holder.f, y.shape[0] + holder.sizes[1]


@pytest.mark.parametrize("f", [plain, branches, views, containers, needs_values, objects])
@pytest.mark.parametrize("seed", range(8))
def test_calls_that_were_served_stay_served(f, seed):
    """If an entry went that another one does not stand for, its calls would be compiled again."""
    chosen = random.Random(seed)
    holders = [None] + [Holder(n, n / 4) for n in range(1, 4)]

    def arguments():
        x = torch.arange(float(chosen.randint(1, 6) * 4)).view(-1, 4)
        y = chosen.choice([x, torch.ones(chosen.randint(1, 7), 4), torch.ones(4, chosen.randint(1, 5)).t()])
        y = y.double() if chosen.random() < 0.1 else y
        given = (x, y, chosen.randint(0, 9), chosen.choice([0.25, 0.5, 1.5, 2.0]))
        return (*given, chosen.choice(holders)) if f is objects else given

    easy = [(torch.ones(size, 4), torch.ones(size + 1, 4), size, size / 2) for size in (3, 5)]
    calls = easy + [arguments() for _ in range(60)]
    compiled = pellucid.compile(f, backend="eager")
    with pellucid.config.patch(recompile_limit=1000):
        for given in calls:
            assert outcome(compiled, given) == outcome(f, given)
        captures = pellucid.counters()["captures"]
        for given in calls:
            assert outcome(compiled, given) == outcome(f, given)
    assert pellucid.counters()["captures"] == captures
    if f is plain:
        assert len(pellucid.cache_entries(compiled)) < captures  # some did go


def outcome(f, given):
    try:
        result = f(*given)
    except (RuntimeError, IndexError) as error:
        return type(error)
    return [
        (part.shape, part.stride(), part.tolist()) if isinstance(part, torch.Tensor) else part
        for part in (result if isinstance(result, tuple) else (result,))
    ]
