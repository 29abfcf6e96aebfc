"""Arrays of numpy whose sizes change: one graph for the first size and one for all others, with numpy's own results."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import pellucid
from support import CountingOf
from test_arrays import same_array
from test_arrays_for_compilers import assert_same

SIZES = (5, 3, 7, 2, 4, 6)


def matrix(n, m=4, dtype="float64"):
    return (np.arange(n * m, dtype=dtype).reshape(n, m) - 3) / np.array(2, dtype)


def ints(n, m=4):
    return np.arange(n * m).reshape(n, m) % 5


def vector(n):
    return np.linspace(-1, 2, n)


def masked(n):
    return vector(n) > 0.3


def calls(f, arguments, sizes=SIZES, backend="eager", **options):
    """Calls with each size give what numpy gives, also in the arguments. Returns the backend."""
    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in sizes:
            ours, theirs = arguments(n), arguments(n)
            try:
                want = f(*theirs)
            except Exception as error:
                with pytest.raises(type(error)) as raised:
                    compiled(*ours)
                assert str(raised.value) == str(error)
            else:
                got = compiled(*ours)
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


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", BOTH)
def test_two_graphs_serve_all_sizes(name, backend):
    counting = calls(*BOTH[name], sizes=FROM.get(name, SIZES), backend=backend)
    assert counting.count == 2 and not counting.breaks, (counting.count, counting.breaks)


@pytest.mark.parametrize("name", EAGER)
def test_two_graphs_where_numpy_runs_itself(name):
    counting = calls(*EAGER[name])
    assert counting.count == 2 and not counting.breaks, (counting.count, counting.breaks)
