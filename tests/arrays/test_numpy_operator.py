"""What torch has no equal for is numpy itself in graphs for compilers: an operator that calls it."""

import threading
import warnings

import numpy as np
import pytest
import torch

import pellucid
from pellucid import _numpy_operator
from support import CountingOf

RNG = np.random.default_rng(0)
FLOATS = RNG.normal(size=(4, 3))
INTS = RNG.integers(-9, 9, size=(4, 3))
AT = np.array([2, 0, 1, 1])

ONE_GRAPH = {
    "sort": lambda a, i: np.sort(a + 1, axis=0),
    "a stable sort": lambda a, i: np.sort(i % 3, axis=1, kind="stable"),
    "argsort": lambda a, i: np.argsort(a[:, 0] * 2),
    "argsort of equals": lambda a, i: (i // 4).argsort(axis=0, kind="stable"),
    "an index of integers": lambda a, i: (a * 2)[AT],
    "an index of integers and slices": lambda a, i: (a + 1)[AT, :2],
    "an index that is a list": lambda a, i: (a + 1)[[0, -1]],
    "an index out of range": lambda a, i: (a + 1)[i],
    "floor division": lambda a, i: (i // 3) + 1,
    "division by zero": lambda a, i: i // (i * 0),
    "remainder": lambda a, i: (i % 4, np.fmod(a, 0.3)),
    "bytes of floats": lambda a, i: (abs(a) * 50).astype(np.uint8),
    "integers of floats": lambda a, i: (a * 255).astype("int32") + 1,
    "partition": lambda a, i: np.partition(a, 1, axis=0),
    "take": lambda a, i: np.take(a, [0, 2], axis=1),
    "percentile": lambda a, i: np.percentile(a, 30),
    "median": lambda a, i: np.median(a, axis=0),
    "pseudo-inverse": lambda a, i: np.linalg.pinv(a),
    "digitize": lambda a, i: np.digitize(a, np.array([-1.0, 0, 1])),
    "covariance": lambda a, i: np.cov(a),
    "convolution": lambda a, i: np.convolve(a[:, 0], a[:, 1]),
    "nanmean": lambda a, i: np.nanmean(a, axis=0),
    "interp": lambda a, i: np.interp(a[:, 0], [-1.0, 0, 1], [0.0, 1, 2]),
    "searchsorted": lambda a, i: np.searchsorted(np.sort(a[:, 0]), a[:, 1]),
    "outer": lambda a, i: np.add.outer(a[:, 0], i[:, 0]),
    "between tensors": lambda a, i: torch.from_numpy(np.sort(a, axis=0)) * 2,
    "a scalar of numpy": lambda a, i: np.sort(a, axis=0) * np.float32(2),
    "grids": lambda a, i: tuple(np.meshgrid(a[0], i[:, 0], indexing="ij")),
    "gradients": lambda a, i: tuple(np.gradient(a)),
    "quotients and remainders": lambda a, i: divmod(i, 4),
    "fractions and integers": lambda a, i: np.modf(a * 3)[::-1],
    "mantissas and exponents": lambda a, i: np.frexp(a),
    "singular values": lambda a, i: tuple(np.linalg.svd(a, full_matrices=False)),
    "orthogonal and triangular": lambda a, i: tuple(np.linalg.qr(a)),
    "eigenvectors": lambda a, i: np.linalg.eigh(a.T @ a).eigenvectors,
    "sign and logarithm": lambda a, i: tuple(np.linalg.slogdet(a.T @ a)),
    "histogram": lambda a, i: np.histogram(a, bins=4, range=(-1.0, 1.0), density=True),
    "average and weight": lambda a, i: np.average(a, axis=0, weights=abs(a), returned=True),
    "parts": lambda a, i: tuple(np.array_split(a * 2, 2, axis=1)),
    "parts, one of them used": lambda a, i: np.array_split(a, [1, 2])[1] * 2,
    "parts that are assigned": lambda a, i: (lambda first, *rest: (rest[0], first))(*np.vsplit(a, [1])),
    "two dimensions at least": lambda a, i: np.atleast_2d(a + 1, i),
    "a spectrum": lambda a, i: abs(np.fft.fft(a, axis=0)) + np.fft.rfft(a[:, 0]).real[0],
    "complex numbers": lambda a, i: (np.fft.fft(a) * 2j).conj().T,
    "parts of complex numbers": lambda a, i: (np.fft.fft(a).imag, a.real * 2),
    "deleted": lambda a, i: np.delete(a, [0, 2, 2], axis=1),
    "inserted": lambda a, i: np.insert(a, 1, 0.5, axis=0),
    "lexsort": lambda a, i: np.lexsort((a[:, 0], i[:, 1])),
    "packed bits": lambda a, i: np.packbits(a > 0, axis=1),
    "sums of parts": lambda a, i: np.add.reduceat(a, [0, 2], axis=0),
    "a polynomial": lambda a, i: np.polyval([1.0, 2.0], a),
    "the inverse": lambda a, i: np.linalg.inv(a.T @ a),
    "an open grid": lambda a, i: a[np.ix_([0, 2], [1, 0])] * 2,
}


def outcome(f, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = f(*(arg.copy() for arg in args))
        except Exception as error:
            return type(error), str(error)
    return [described(one) for one in (result if isinstance(result, (tuple, list)) else (result,))]


def described(value):
    if isinstance(value, torch.Tensor):
        return "tensor", value.dtype, value.stride(), value.tolist()
    if not isinstance(value, (np.ndarray, np.generic)):
        return type(value), value
    return type(value), value.dtype, value.shape, value.strides, value.tolist()


def both(f, calls, backend="aot_eager"):
    """The results of the calls are eager's, bit by bit; the number of graphs."""
    counted = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counted)
    for args in calls:
        assert outcome(compiled, *args) == outcome(f, *args)
    return counted.count, len(pellucid.break_reasons(compiled))


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name):
    pellucid.reset()
    calls = [(FLOATS, INTS), (FLOATS * -1.7, INTS + 1), (FLOATS[::-1].copy(), INTS)]
    graphs, breaks = both(ONE_GRAPH[name], calls)
    assert (graphs, breaks) == (1, 0)


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_other_sizes_and_dtypes(name):
    """Where numpy's sizes hang on those of the arguments as a row says, two graphs serve all; else there is a break."""
    pellucid.reset()
    shapes = [(4, 3), (6, 5), (7, 4), (5, 8)]
    calls = [(RNG.normal(size=shape), RNG.integers(-3, 3, size=shape)) for shape in shapes]
    calls += [(FLOATS.astype(np.float32), INTS.astype(np.int32))]
    both(ONE_GRAPH[name], calls)


def test_a_sort_of_any_length_has_two_graphs():
    calls = [(RNG.normal(size=(length,)),) for length in (3, 5, 8, 13)]
    assert both(lambda a: np.sort(a) + 1, calls) == (2, 0)


OF_ANY_SIZES = {
    "singular values": lambda a: np.linalg.svd(a)[1],
    "singular vectors": lambda a: np.linalg.svd(a, full_matrices=False)[0],
    "orthogonal and triangular": lambda a: tuple(np.linalg.qr(a)),
    "eigenvalues": lambda a: np.linalg.eigh(a @ a.T)[0],
    "sign and logarithm": lambda a: tuple(np.linalg.slogdet(a.T @ a)),
    "the inverse": lambda a: np.linalg.inv(a.T @ a),
    "a factor": lambda a: np.linalg.cholesky(a.T @ a),
    "a solution": lambda a: np.linalg.solve(a.T @ a, a.T),
    "gradients": lambda a: tuple(np.gradient(a)),
    "a gradient": lambda a: np.gradient(a, 0.5, axis=0, edge_order=2),
    "histogram": lambda a: np.histogram(a, 4, (-1.0, 1.0)),
    "grids": lambda a: tuple(np.meshgrid(a[0], a[:, 1])),
    "parts": lambda a: np.array_split(a, [1, 2]),
    "quotients and remainders": lambda a: divmod(a, 0.25),
    "mantissas and exponents": lambda a: np.frexp(a),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OF_ANY_SIZES)
def test_two_graphs_serve_all_sizes(name, backend):
    pellucid.reset()
    calls = [(RNG.normal(size=(rows, 3)),) for rows in (4, 4, 6, 8, 5)]
    assert both(OF_ANY_SIZES[name], calls, backend) == (2, 0)


def test_the_graph_says_what_is_called():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return CountingOf("aot_eager")(gm, example_inputs)

    pellucid.compile(lambda a: np.sort(a, axis=1, kind="stable")[:, ::2] * 2, backend=backend)(FLOATS)
    (graph,) = graphs
    (call,) = [node for node in graph.graph.nodes if node.target is torch.ops.pellucid.numpy.default]
    assert call.args[1:] == ("numpy.sort(a0, axis=1, kind='stable')", torch.float64, [4, 3])


def test_several_results_stand_in_one_node():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return CountingOf("aot_eager")(gm, example_inputs)

    compiled = pellucid.compile(lambda a: sum(np.meshgrid(a[0], a[:, 1])), backend=backend, dynamic=True)
    for shape in ((4, 3), (5, 6), (3, 8)):
        a = RNG.normal(size=shape)
        assert np.array_equal(compiled(a), sum(np.meshgrid(a[0], a[:, 1])))
    call = [node for node in graphs[-1].graph.nodes if node.target is torch.ops.pellucid.numpy_several.default]
    assert [node.args[1:3] for node in call] == [("numpy.meshgrid(a0, a1)", [torch.float64] * 2)]
    assert call[0].args[4] == [2, 2]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_several_results_are_memory_of_their_own(backend):
    compiled = pellucid.compile(lambda a: np.meshgrid(a[0], a[1]), backend=backend)
    for _ in range(2):
        a = FLOATS.copy()
        first, second = compiled(a)
        assert not np.shares_memory(first, second) and not np.shares_memory(first, a)
        first += 1
        assert np.array_equal(second, np.meshgrid(a[0], a[1])[1])
    assert not pellucid.break_reasons(compiled)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_parts_are_views(backend):
    """Of an array from outside, as in eager code."""
    compiled = pellucid.compile(lambda a: np.split(a, 2), backend=backend)
    for _ in range(2):
        a = FLOATS.copy()
        first, second = compiled(a)
        first[0, 0] = 7
        second += 1
        wanted = FLOATS.copy()
        wanted[0, 0] = 7
        wanted[2:] += 1
        assert np.array_equal(a, wanted)
    assert not pellucid.break_reasons(compiled)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_results_are_memory_of_their_own(backend):
    f = lambda a: (np.sort(a, axis=0), a[AT])  # noqa: E731
    a = FLOATS.copy()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        ordered, chosen = compiled(a)
        assert np.array_equal(ordered, np.sort(a, axis=0)) and np.array_equal(chosen, a[AT])
        assert not np.shares_memory(ordered, a) and not np.shares_memory(chosen, a)
        ordered += 1
        assert np.array_equal(a, FLOATS)
    assert not pellucid.break_reasons(compiled)


def test_arrays_in_other_memory():
    f = lambda a: np.sort(a, axis=0)  # noqa: E731
    whole = RNG.normal(size=(8, 8))
    arrays = [whole[:4, :3], whole.T[:4, :3], whole[::-1][:4, :3], np.asfortranarray(whole[:4, :3]), whole[:0, :3]]
    compiled = pellucid.compile(f, backend=(backend := CountingOf("aot_eager")))
    for a in arrays:
        got, want = compiled(a), f(a)
        assert np.array_equal(got, want) and got.strides == want.strides
    assert backend.count


@pytest.mark.parametrize(
    "view", [lambda a: a[::-1] + 1, lambda a: np.flip(a) + 1, lambda a: a.astype(float, copy=False)]
)
def test_what_may_be_a_view_is_none_of_it(view):
    both(view, [(FLOATS,), (FLOATS * 2,)])
    with pytest.raises(_numpy_operator.Unsupported):
        _numpy_operator.called("astype", (torch.ones(3), float), {"copy": False}, np.ones(3), None)


def test_numpy_told_to_raise():
    f = lambda i: i // (i * 0)  # noqa: E731
    compiled = pellucid.compile(f, backend="aot_eager")
    with np.errstate(all="ignore"):
        assert np.array_equal(compiled(INTS), f(INTS))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        compiled(INTS)


def test_threads():
    compiled = pellucid.compile(lambda a: np.sort(a, axis=0) * 2, backend="aot_eager")
    compiled(FLOATS)
    wrong = []

    def run(seed):
        a = np.random.default_rng(seed).normal(size=(4, 3))
        for _ in range(20):
            if not np.array_equal(compiled(a), np.sort(a, axis=0) * 2):
                wrong.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not pellucid.break_reasons(compiled)


# ---- what a mask selects

MASKED = {
    "alone": lambda a: a[a > 0],
    "rows": lambda a: a[a[:, 0] > 0],
    "a column of rows": lambda a: a[a[:, 0] > 0][:, 1],
    "computed with": lambda a: a[a > 0] * 2 + 1,
    "its maximum": lambda a: a[a > 0].max(),
    "its maximum, which need not be": lambda a: a[a > 9].max(),
    "its length": lambda a: len(a[a > 0]),
    "as a tensor": lambda a: torch.from_numpy(a[a > 0]) + 1,
}


@pytest.mark.parametrize("name", MASKED)
def test_what_a_mask_selects_is_in_the_graph(name):
    pellucid.reset()
    calls = [(FLOATS,), (-FLOATS,), (FLOATS * 0,), (FLOATS + 9,)]
    assert both(MASKED[name], calls) == (1, 0)


def test_what_a_mask_selects_may_end_the_graph():
    with pellucid.config.patch(capture_dynamic_output_shape_ops=False):
        graphs, breaks = both(MASKED["computed with"], [(FLOATS,), (-FLOATS,), (FLOATS * 0,)])
    assert breaks == 1 and graphs


def test_what_is_exported_needs_torch_alone():
    class Ordered(torch.nn.Module):
        def forward(self, x):
            return torch.from_numpy(np.sort(x.numpy())) * 2

    with pytest.raises(pellucid.errors.Unsupported, match="torch has nothing of the kind"):
        pellucid.export(Ordered(), torch.randn(4))
