"""Arrays of numpy whose sizes change: one graph for the first size and one for all others, with numpy's own results."""

from __future__ import annotations

import operator
import re
import warnings

import numpy as np
import pytest
import torch
from test_arrays import same_array
from test_arrays_for_compilers import assert_same

import pellucid
from pellucid._numpy_steps import steps_of
from pellucid._show import Watch
from support import CountingOf

SIZES = (5, 3, 7, 2, 4, 6)


def matrix(n, m=4, dtype="float64"):
    return (np.arange(n * m, dtype=dtype).reshape(n, m) - 3) / np.array(2, dtype)


def ints(n, m=4):
    return np.arange(n * m).reshape(n, m) % 5


def vector(n):
    return np.linspace(-1, 2, n)


def masked(n):
    return vector(n) > 0.3


def outcome(f, args):
    try:
        return f(*args), None
    except Exception as error:
        return None, error


def calls(f, arguments, sizes=SIZES, backend="eager", **options):
    """Calls with each size give what numpy gives, also in the arguments. Returns the backend."""
    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in sizes:
            ours, theirs = arguments(n), arguments(n)
            want, error = outcome(f, theirs)
            got, raised = outcome(compiled, ours)
            assert (type(raised), str(raised)) == (type(error), str(error)), n
            if backend == "eager":
                assert same_array(got, want), (n, got, want)
            else:
                assert_same(got, want)
            assert all(map(same_array, ours, theirs)), (n, ours, theirs)
    counting.breaks = pellucid.break_reasons(compiled)
    return counting


def one(make):
    return lambda n: (make(n),)


BOTH = {  # what backends that compile get as torch's functions, too
    "elementwise": (lambda a: np.tanh(a) * 2 + np.sqrt(np.abs(a)), one(matrix)),
    "issue": (lambda a: np.tanh(a @ a.T).sum(0) + a.shape[0], one(matrix)),
    "two": (lambda a, b: a * b - np.maximum(a, b), lambda n: (matrix(n), matrix(n))),
    "broadcast": (lambda a, b: a + b, lambda n: (matrix(n), vector(4))),
    "broadcast_open": (lambda a, b: a + b[:, None], lambda n: (matrix(n), vector(n))),
    "sum": (lambda a: (a.sum(), a.sum(0), np.sum(a, axis=1, keepdims=True)), one(matrix)),
    "mean": (lambda a: (a.mean(), a.mean(axis=0), a.mean(-1)), one(matrix)),
    "std": (lambda a: (a - a.mean(0)) / (a.std(0) + 1), one(matrix)),
    "extremes": (lambda a: (a.max(), np.min(a, 0), np.ptp(a, axis=1)), one(matrix)),
    "truth": (lambda a: ((a > 0).any(), np.all(a < 100, axis=0)), one(matrix)),
    "matmul": (lambda a, b: (a @ b, np.dot(a, b), np.matmul(b, a)), lambda n: (matrix(n, n), matrix(n, n))),
    "shape": (lambda a: (a.shape, a.ndim, a.size, a.nbytes, len(a), a * a.shape[0]), one(matrix)),
    "shape_functions": (lambda a: (np.shape(a), np.size(a), np.size(a, 0), np.ndim(a), a + 1), one(matrix)),
    "divide_by_size": (lambda a: a.sum(0) / a.shape[0], one(matrix)),
    "branch": (lambda a: a * 2 if a.shape[0] > 1 else a, one(matrix)),
    "transpose": (lambda a: (a.T + 0, a.transpose(1, 0) * 2, np.swapaxes(a, 0, 1) + 1), one(matrix)),
    "reshape": (lambda a: (a.reshape(-1) + 1, a.reshape(a.shape[0], 2, 2) * 1, np.ravel(a) + 1), one(matrix)),
    "reshape_product": (lambda a: a.reshape(a.shape[0] * 4) * 2, one(matrix)),
    "none": (lambda a: a[:, None, :] - a[None, :, :], one(matrix)),
    "index": (lambda a: (a[0] + 1, a[-1] * 2, a[1, 2], a[:, 1] + 1), one(matrix)),
    "slices": (lambda a: (a[1:] - a[:-1], a[:, 1:3] * 2, a[::2] + 1), one(matrix)),
    "half": (lambda a: a[: a.shape[0] // 2] * 2, one(matrix)),
    "concatenate": (lambda a: (np.concatenate([a, a + 1]), np.concatenate([a, a], axis=1)), one(matrix)),
    "stack": (lambda a: (np.stack([a, a * 2]), np.vstack([a, a]), np.hstack([a, a])), one(matrix)),
    "where": (lambda a: np.where(a > 0, a, -a), one(matrix)),
    "clip": (lambda a: (np.clip(a, -1, 1), a.clip(0, 2)), one(matrix)),
    "cumsum": (lambda a: (np.cumsum(a, axis=0), a.cumsum(1)), one(matrix)),
    "astype": (lambda a: (a.astype(np.float64) / 2, a.astype(np.int32) + 1), one(ints)),
    "ints": (lambda a: (a + a, a * 3, a.sum(0), a > 2), one(ints)),
    "zeros": (lambda a: np.zeros(a.shape) + a, one(matrix)),
    "zeros_of_size": (lambda a: np.zeros((a.shape[0], 2)) + 1, one(matrix)),
    "like": (lambda a: np.zeros_like(a) + np.ones_like(a) + a, one(matrix)),
    "arange": (lambda a: a[:, 0] + np.arange(a.shape[0]), one(matrix)),
    "norm": (lambda a: (np.linalg.norm(a), a / np.linalg.norm(a, axis=1)[:, None]), one(matrix)),
    "expand": (lambda a: np.expand_dims(a, 0) + np.squeeze(a[:, :, None], 2), one(matrix)),
    "outer": (lambda a: np.outer(a, a), one(vector)),
    "two_dims": (lambda a: (a.T @ a, a.sum()), lambda n: (matrix(n, n + 1),)),
    "scalar_beside": (lambda a: a * np.float64(3) + a.max(), one(matrix)),
    "to_torch": (lambda a: torch.from_numpy(a * 2).sum(0) + a.shape[0], one(matrix)),
    "from_torch": (lambda t: (t * 2).numpy().sum(0) + t.shape[0], lambda n: (torch.from_numpy(matrix(n)),)),
    "there_and_back": (lambda a: torch.tanh(torch.from_numpy(a)).numpy() + a, one(matrix)),
    "beside_torch": (
        lambda a, t: torch.from_numpy(np.tanh(a)) @ t,
        lambda n: (matrix(4, n), torch.from_numpy(matrix(n))),
    ),
}
EAGER = {
    "sort": (lambda a: (np.sort(a, axis=0), np.argsort(a), a.argmax(0), a.argmin()), one(matrix)),
    "reversed": (lambda a: (a[::-1] + 1, a[:, ::-1] * a, np.flip(a, 0), np.roll(a, 1, 0)), one(matrix)),
    "integer_division": (lambda a: (a // 2, a % 3, np.divmod(a, 2), np.left_shift(a, 1)), one(ints)),
    "median": (lambda a: (np.median(a), np.median(a, axis=0)), one(matrix)),
    "var": (lambda a: (a.var(), np.var(a, axis=1), a.var(0, ddof=1), np.std(a, 0, keepdims=True)), one(matrix)),
    "count": (lambda a: (np.count_nonzero(a), np.count_nonzero(a, axis=0)), one(ints)),
    "tile": (lambda a: (np.tile(a, (2, 1)), np.repeat(a, 2, axis=0), np.broadcast_to(a, (2, *a.shape))), one(matrix)),
    "diff": (lambda a: (np.diff(a, axis=0), np.diff(a)), one(matrix)),
    "einsum": (lambda a: np.einsum("ij,kj->ik", a, a), one(matrix)),
    "reduce": (lambda a: (np.add.reduce(a), np.maximum.reduce(a, axis=1), np.add.accumulate(a)), one(matrix)),
    "meshgrid": (lambda a, b: np.meshgrid(a, b), lambda n: (vector(n), vector(3))),
    "modf": (lambda a: np.modf(a), one(matrix)),
    "complex": (lambda a: (a * 1j, np.abs(a * 1j), (a + 1j).real), one(matrix)),
    "half_floats": (lambda a: a.astype(np.float16) + 1, one(matrix)),
    "in_place": (lambda a: np.add(a, 1) * 2, one(matrix)),
    "linspace": (lambda a: np.linspace(0, 1, a.shape[0]) + a[:, 0], one(matrix)),
    "eye": (lambda a: a @ a.T + np.eye(a.shape[0]), one(matrix)),
    "array_of_arrays": (lambda a: np.array([a, a + 1]), one(matrix)),
    "atleast": (lambda a: (np.atleast_2d(a), np.asarray(a) + 1, np.array(a)), one(matrix)),
    "own_writes": (lambda a: write_own(a), one(matrix)),
    "writes": (lambda a: write(a), one(matrix)),
    "writes_below": (lambda a: write_below(a), one(matrix)),
    "backwards": (lambda a: (a[::-2] + 1, a[::-1, ::-3]), one(matrix)),
    "masks": (lambda a: (a[a > 0].sum(), np.where(a > 0, 1, a)), one(vector)),
    "masked_writes": (lambda a: write_masked(a), one(matrix)),
    "masked_rows": (lambda a, m: a[m] * 2, lambda n: (matrix(n), masked(n))),
    "indices": (lambda a: (a[np.array([0, 1])], a[[1, 0]], np.take(a, [1, 0], axis=0)), one(matrix)),
    "order": (lambda a: (a[np.argsort(a)], a[a.argmax()]), one(vector)),
    "pad": (lambda a: (np.pad(a, 1), np.pad(a, ((1, 2), (0, 3)))), one(matrix)),
    "split": (lambda a: (np.split(a, 2, axis=1), np.array_split(a, 2, axis=1)), one(matrix)),
    "quantiles": (lambda a: (np.percentile(a, 30), np.quantile(a, 0.5, axis=0)), one(matrix)),
    "search": (lambda a, v: (np.searchsorted(a, v), np.interp(v, a, a * 2)), lambda n: (vector(n), vector(2 * n))),
    "out": (lambda a: np.add(a, 1, out=np.empty_like(a)), one(matrix)),
    "fft": (lambda a: np.fft.ifft(np.fft.fft(a)).real, one(vector)),
    "power": (lambda a: a ** a.shape[0], one(ints)),
    "numbers": (lambda a: (float(a.sum()) + a.shape[0], int(a.argmax())), one(matrix)),
}


def write_own(a):
    out = np.zeros_like(a)
    out[1:] = a[:-1]
    out[0] = 5
    out += a
    return out


def write(a):
    a *= 2
    a += 1
    return a.sum(0)


def write_below(a):
    a[0] = 7
    return a + 1


# Where compilers have something of size 1 or none for the smallest sizes, which has graphs of its own.
FROM = {"slices": (5, 3, 7, 4), "half": (6, 4, 9, 5)}


def write_masked(a):
    b = a * 2
    b[b < 0] = 0
    return b


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", BOTH)
def test_two_graphs_serve_all_sizes(name, backend):
    counting = calls(*BOTH[name], sizes=FROM.get(name, SIZES), backend=backend)
    assert counting.count == 2 and not counting.breaks, (counting.count, counting.breaks)


@pytest.mark.parametrize("name", EAGER)
def test_two_graphs_where_numpy_runs_itself(name):
    counting = calls(*EAGER[name])
    assert counting.count == 2 and not counting.breaks, (counting.count, counting.breaks)


def shapes_of(value):
    if isinstance(value, (tuple, list)):
        return [shapes_of(item) for item in value]
    return value.shape if isinstance(value, (np.ndarray, torch.Tensor)) else None


@pytest.mark.parametrize("name", [*BOTH, *EAGER])
def test_sizes_of_results_are_numpys(name):
    f, arguments = {**BOTH, **EAGER}[name]

    def sized(*args):
        value = f(*args)
        return value, shapes_of(value)

    # What a mask selects, and numbers of the graph, are known behind it alone.
    behind = name in ("masks", "masked_rows", "split")
    counting = calls(sized, arguments)
    assert behind or (counting.count == 2 and not counting.breaks), (counting.count, counting.breaks)


def first(a):
    a[0] = 1
    return a[3] + a.sum()


def rest(a):
    a[0] = 1
    return a[2:].max()


def halves(a):
    a[0] = 1
    return np.split(a, 2)


RAISING = {
    "mismatch": (lambda a, b: a + b, lambda n: (vector(n), vector(n if n != 7 else 5))),
    "matmul": (lambda a, b: a @ b, lambda n: (vector(n), vector(n if n != 7 else 5))),
    "index": (lambda a: a[3] + 1, one(vector)),
    "concatenate": (lambda a, b: np.hstack([a, b]), lambda n: (matrix(n), matrix(n if n != 7 else 5))),
    "reshape": (lambda a: a.reshape(2, -1), one(vector)),
    "mask": (lambda a, m: a[m].sum(), lambda n: (vector(n), masked(n if n != 7 else 5))),
    "assignment": (lambda a, b: (a * 2).__setitem__(0, b), lambda n: (matrix(n), vector(4 if n != 7 else 5))),
    "behind_a_write": (first, one(vector)),
    "none_behind_a_write": (rest, one(vector)),
    "split_behind_a_write": (halves, one(vector)),
}


@pytest.mark.parametrize("name", RAISING)
def test_where_numpy_raises(name):
    calls(*RAISING[name], sizes=(5, 6, 4, 7, 2, 3, 8, 1, 9))


USES = {  # uses of a size that need it: a graph for each, and the same results
    "loop": lambda a: sum(a[i] for i in range(len(a))),
    "rows": lambda a: [row * 2 for row in a],
    "key": lambda a: ({a.shape: 1}, a + 1),
    "text": lambda a: (f"{a.shape} {len(a)}", a + 1),
    "branch": lambda a: a * 2 if a.shape[0] == 4 else a * 3,
    "list": lambda a: (["a"] * a.shape[0], a + 1),
    "no_row": lambda a: np.cov(a),
}


@pytest.mark.parametrize("name", USES)
def test_uses_of_the_size_itself(name):
    calls(USES[name], one(vector))


def test_sizes_of_none_and_one():
    counting = calls(lambda a: (a * 2 + a.sum(0), a.shape), one(matrix), sizes=(5, 1, 0, 3, 4, 1, 0, 7, 2))
    assert counting.count == 4


def test_numbers_that_are_sizes():
    made = calls(lambda n: (np.zeros(n), np.ones((n, 2)).shape, np.arange(n) + 1), lambda n: (n,))
    assert made.count == 2
    rolled = calls(lambda a, n: (a[:n].sum(), a[n - 1], np.roll(a, n)), lambda n: (vector(9), n))
    assert rolled.count == 2


class Holder:
    def __init__(self, a):
        self.a = a


def test_arrays_that_are_found():
    holder, backend = Holder(None), CountingOf("eager")
    compiled = pellucid.compile(lambda x: x * holder.a.sum(0) + holder.a.shape[0], backend=backend)
    for n in SIZES:
        holder.a = matrix(n)
        assert same_array(compiled(2.0), 2.0 * holder.a.sum(0) + n)
    assert backend.count == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_the_settings_say(backend):
    f, arguments = BOTH["issue"]
    assert calls(f, arguments, backend=backend, dynamic=True).count == 1
    assert calls(f, arguments, backend=backend, dynamic=False).count == len(SIZES)
    with pellucid.config.patch(assume_static_by_default=False):
        assert calls(f, arguments, backend=backend).count == 1
    with pellucid.config.patch(automatic_dynamic_shapes=False):
        assert calls(f, arguments, backend=backend).count == len(SIZES)


def texts_of(region):
    return [region.graph, *region.guards, *region.effects, re.sub(r"compiled_fn_\d", "compiled_fn", region.code)]


def test_a_guard_says_which_sizes_are_open():
    f, arguments = BOTH["issue"]
    watch = Watch()
    compiled = pellucid.compile(f, backend=watch)
    for n in (3, 4):
        compiled(*arguments(n))
    first, second = watch.shown().regions
    assert any("float64[3, 4]" in guard for guard in first.guards)
    assert any("float64[*, 4]" in guard for guard in second.guards)


@pytest.mark.parametrize("name", [*BOTH, *EAGER])
def test_no_hint_is_left_in_what_is_captured(name):
    """Two captures with open sizes, at other sizes: all that is captured is the same."""
    f, arguments = {**BOTH, **EAGER}[name]
    watch = Watch()
    compiled = pellucid.compile(f, backend=watch)
    try:
        for n in (5, 6, 8):
            torch.set_autocast_cache_enabled(n != 8)  # another torch state, which no function minds
            compiled(*arguments(n))
    finally:
        torch.set_autocast_cache_enabled(True)
    _, earlier, later = map(texts_of, watch.shown().regions)
    assert earlier == later


def test_steps_count_at_each_call():
    """What a mean divides by is no constant of the region where the size is open, in the layout and values of numpy."""

    def f(a):
        return a.mean(), a.mean(0), a.std(axis=0, ddof=1), a.var(), np.mean(a[1:], axis=0), a[2:].mean(0)

    for dtype in ("float32", "float64", "int64"):
        assert calls(f, lambda n, dtype=dtype: (matrix(n).astype(dtype),)).count == 2
    a = np.zeros((5, 3))
    means, _ = steps_of("mean", (a,), {"axis": 0}, False, {id(a): {0: 2}})
    assert [call[0] for call in means] == [
        np.ndarray.shape.__get__,
        operator.getitem,
        np.intp,
        np.add.reduce,
        np.true_divide,
    ]
    (call,), _ = steps_of("mean", (a,), {"axis": 0}, False, {id(a): {0: 0}})  # it would warn of none
    assert call[0] is np._core._methods._mean


ARRAYS_GIVEN_TO_TORCH = {
    "tensor": lambda a: torch.tensor(a).shape[0] * a,
    "as_tensor": lambda a: torch.as_tensor(a).shape[0] * a,
    "asarray": lambda a: torch.asarray(a).shape[0] * a,
    "in a list": lambda a: torch.tensor([a, a]).shape[1] * a,
    "its length": lambda a: torch.arange(len(torch.tensor(a))).numpy(),
    "the largest": lambda a: np.zeros(max((torch.as_tensor(a) + 1).shape)),
    "elements": lambda a: torch.tensor(a).numel() + a,
}


def write_by_indices(a):
    tensor = torch.tensor(a)
    tensor[np.arange(len(tensor))] = 2
    return tensor.numpy()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program", [*ARRAYS_GIVEN_TO_TORCH.values(), write_by_indices], ids=[*ARRAYS_GIVEN_TO_TORCH, "written by indices"]
)
@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
def test_an_array_that_torch_itself_gets_has_a_known_size(program, backend):
    compiled = pellucid.compile(program, backend=backend)
    for n in (8, 2, 5, 9):
        a = np.arange(n * 1.0) - 1
        mine, eager = compiled(a), program(a)
        assert mine.dtype == eager.dtype and mine.tolist() == eager.tolist(), n
