"""numpy in graphs for backends that compile (row A20): torch's functions stand for numpy's, and types, dtypes, shapes,
strides and values are numpy's, floats but for their last bits. What torch does otherwise is a graph break."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import pellucid
from support import Counting, CountingOf

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
OTHER_DTYPES = ("int8", "int16", "float16", "uint32", "complex64")
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -1.5, 2.5)


def example(dtype, shape=(3, 4), special=False):
    """An array with some of everything that its dtype has."""
    kind = np.dtype(dtype).kind
    count = int(np.prod(shape))
    if kind == "b":
        return (np.arange(count).reshape(shape) % 3 == 0).astype(dtype)
    values = np.linspace(-3, 4, count) if kind in "fc" else np.arange(count) % 7 - (3 if kind == "i" else 0)
    if special and kind in "fc":
        values[: len(SPECIAL)] = SPECIAL
    return values.reshape(shape).astype(dtype)


def assert_same(got, want):
    assert type(got) is type(want), (type(got), type(want))
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other)
    elif isinstance(want, (np.ndarray, np.generic)):
        assert got.dtype == want.dtype and got.shape == want.shape
        assert 0 in want.shape or got.strides == want.strides or 1 in want.shape
        if want.dtype.kind in "fc":
            tolerance = 1e-5 if want.dtype.itemsize == 4 else 1e-12
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        else:
            assert np.array_equal(got, want)
    elif isinstance(want, torch.Tensor):
        assert got.dtype == want.dtype and got.stride() == want.stride()
        torch.testing.assert_close(got, want, equal_nan=True)
    else:
        assert got == want


class LikeACompiler(Counting):
    """It takes graphs of torch alone, and runs them as they are."""

    takes_numbers = False


def check(f, *args, whole=None, backend=None):
    """Three calls as in numpy; `whole`: whether that is one graph, None for any number. Returns the number of graphs."""
    backend = backend or LikeACompiler()
    compiled = pellucid.compile(f, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            ours = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
            try:
                want = f(*args)
            except Exception as error:
                with pytest.raises(type(error)):
                    compiled(*ours)
                return 0
            assert_same(compiled(*ours), want)
            assert_same(ours, list(args))
    if whole is not None:
        assert (backend.count == 1 and not pellucid.break_reasons(compiled)) is whole, pellucid.break_reasons(compiled)
    return backend.count


ONE = {
    name: getattr(np, name)
    for name in """negative positive absolute fabs sqrt square reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan
    arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg radians degrees floor ceil trunc rint
    logical_not invert isnan isinf isfinite signbit sign cbrt""".split()
}
TWO = {
    name: getattr(np, name)
    for name in """add subtract multiply true_divide floor_divide remainder fmod power float_power maximum minimum fmax
    fmin equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or
    bitwise_xor arctan2 hypot copysign left_shift logaddexp gcd""".split()
}
OTHERS = {
    "sum": lambda a: (np.sum(a), a.sum(axis=0), a.sum(axis=(0, 1), keepdims=True)),
    "prod": lambda a: (a.prod(), np.prod(a, axis=1)),
    "mean": lambda a: (np.mean(a), a.mean(axis=-1), a.mean(0, keepdims=True)),
    "max": lambda a: (a.max(), np.max(a, axis=0), np.amax(a, 1)),
    "min": lambda a: (a.min(), np.min(a, axis=0), np.amin(a, 1)),
    "ptp": lambda a: np.ptp(a, axis=0),
    "any": lambda a: (a.any(), np.any(a, axis=0), np.any(a, axis=(0, 1))),
    "all": lambda a: (a.all(), np.all(a, axis=1)),
    "count_nonzero": lambda a: np.count_nonzero(a, axis=0),
    "std": lambda a: (a.std(), np.std(a, axis=0, ddof=1)),
    "var": lambda a: (a.var(), np.var(a, axis=0, keepdims=True)),
    "cumsum": lambda a: (np.cumsum(a), a.cumsum(axis=1)),
    "cumprod": lambda a: np.cumprod(a, axis=0),
    "argmax": lambda a: a.argmax(axis=0),
    "sort": lambda a: np.sort(a, axis=0),
    "reshape": lambda a: (a.reshape(2, 6) * 1, np.reshape(a, (4, -1)), a.reshape((12,))),
    "ravel": lambda a: (np.ravel(a), a.T.ravel()),
    "flatten": lambda a: a.flatten(),
    "transpose": lambda a: (a.T, np.transpose(a), a.transpose(1, 0), a.T + a.T),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "moveaxis": lambda a: np.moveaxis(a, 0, 1),
    "squeeze": lambda a: (np.squeeze(a[None]), a[:, None].squeeze(1)),
    "expand_dims": lambda a: np.expand_dims(a, 1),
    "copy": lambda a: (np.copy(a), a.copy(), a.T.copy(), np.copy(a.T)),
    "astype": lambda a: (a.astype(np.float32), a.astype("float64"), a.astype(bool)),
    "astype_int": lambda a: a.astype(np.int16),
    "concatenate": lambda a: (
        np.concatenate([a, a]),
        np.concatenate((a, a), axis=1),
        np.concatenate([a, a], axis=None),
    ),
    "concatenate_mixed": lambda a: np.concatenate([a, np.ones((1, 4), np.float32)]),
    "stack": lambda a: (np.stack([a, a]), np.stack([a, a], axis=-1)),
    "vstack": lambda a: (np.vstack([a, a]), np.hstack([a, a]), np.dstack([a, a]), np.column_stack([a, a])),
    "clip": lambda a: (np.clip(a, 0, 2), a.clip(1, 3), np.clip(a, 3, 1)),
    "clip_one": lambda a: np.clip(a, 1, None),
    "where": lambda a: (np.where(a > 1, a, 0), np.where(a, a, a)),
    "where_mixed": lambda a: np.where(a > 1, a, 0.5),
    "dot": lambda a: (a.T.dot(a), np.dot(a, a[0]), a[0] @ a[1], a @ a.T, np.matmul(a, a.T)),
    "outer": lambda a: np.outer(a[0], a[1]),
    "tril": lambda a: (np.tril(a), np.triu(a, 1)),
    "zeros": lambda a: (np.zeros(3) + 1, np.ones((2, 2), np.int32) * 2, np.full((2,), 7), np.eye(3) + np.sum(a)),
    "zeros_like": lambda a: (np.zeros_like(a), np.ones_like(a), np.ones_like(a, dtype=np.float64)),
    "arange": lambda a: np.arange(4) + a,
    "round": lambda a: (np.round(a), a.round()),
    "norm": lambda a: (np.linalg.norm(a), np.linalg.norm(a, axis=1)),
    "item": lambda a: (a[0], a[1:, 2], a[..., None], a[-1, ::2], a[1, 2], a[:, ::-1]),
    "operators": lambda a: (a + a, a * 2, 3 - a, -a, abs(a), a == 1, a != a, a < 2, a >= 1, a > 0, a <= 3),
    "divided": lambda a: (a / 2, 1 / (a + 1), a / a.T.T),
    "integers": lambda a: (a // 2, a % 3),
    "power": lambda a: (a**2, a**0.5),
    "bits": lambda a: (a & 3, a | 1, a ^ a, ~a),
    "written": lambda a: (np.add(a, a), a.copy().fill(1)),
    "scalar": lambda a: (a.sum() * 2, a.max() - a.min(), a * a.max(), np.sqrt(a.mean())),
    "with_numpy_scalar": lambda a: (a * np.float32(2), a + np.int64(3)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ONE)
def test_A20_functions_of_one_array(name, dtype):
    check(ONE[name], example(dtype, special=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TWO)
def test_A20_functions_of_two_arrays(name, dtype):
    function = TWO[name]
    a, b = example(dtype, special=True), example(dtype)[::-1].copy()

    def f(a, b):
        return function(a, b), function(a, b[0]), function(a, 2)

    check(f, a, b)


@pytest.mark.parametrize("other", DTYPES)
@pytest.mark.parametrize("name", ["add", "multiply", "true_divide", "maximum", "less", "bitwise_or", "power"])
def test_A20_two_dtypes(name, other):
    function = TWO[name]
    for dtype in DTYPES:
        check(lambda a, b: function(a, b), example(dtype), example(other))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OTHERS)
def test_A20_other_functions(name, dtype):
    check(OTHERS[name], example(dtype))


WHOLE = [
    *[(name, "float32") for name in ("sin", "exp", "sqrt", "isnan", "rint", "add", "true_divide", "maximum", "less")],
    *[(name, "int64") for name in ("negative", "square", "add", "multiply", "equal", "bitwise_and")],
    *[(name, "float64") for name in OTHERS if name not in ("argmax", "sort", "item", "integers", "bits", "written")
      and name not in ("astype_int", "concatenate_mixed")],
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), WHOLE)
def test_A20_one_graph_without_a_break(name, dtype):
    one, two, other = ONE.get(name), TWO.get(name), OTHERS.get(name)
    if two is not None:
        check(lambda a, b: two(a, b), example(dtype), example(dtype), whole=True, backend=CountingOf("aot_eager"))
    else:
        check(one or other, example(dtype), whole=True, backend=CountingOf("aot_eager"))


@pytest.mark.parametrize("dtype", OTHER_DTYPES)
def test_A20_other_dtypes(dtype):
    for name in ("sin", "negative", "absolute", "sqrt", "logical_not"):
        check(ONE[name], example(dtype))
    for name in ("add", "multiply", "true_divide", "equal", "maximum", "power"):
        check(TWO[name], example(dtype), example(dtype)[::-1].copy())
    for name in ("sum", "mean", "max", "prod", "cumsum", "where", "dot", "scalar", "clip", "concatenate_mixed"):
        check(OTHERS[name], example(dtype))


def test_A20_the_row():
    f = lambda a: np.sin(a) + 1  # noqa: E731
    a = example("float64")
    assert check(f, a, whole=True) == 1
    assert type(pellucid.compile(f, backend="aot_eager")(a)) is np.ndarray


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_A20_between_torch_and_numpy(backend):
    def f(observation, weight):
        scaled = np.clip(observation * 0.5, -1, 1)
        y = torch.from_numpy(scaled) @ weight
        return y, y.numpy() + 1, scaled

    args = example("float64"), torch.ones(4, dtype=torch.float64)
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        assert_same(compiled(*args), f(*args))
    assert not pellucid.break_reasons(compiled)


def test_A20_memory_that_is_shared():
    def f(a):
        return a.reshape(-1), a.T, a[1:]

    a = example("float64")
    compiled = pellucid.compile(f, backend="aot_eager")
    flat, turned, rest = compiled(a)
    a[1, 1] = 50.0
    assert flat[5] == 50 and turned[1, 1] == 50 and rest[0, 1] == 50
    assert np.shares_memory(flat, a) and not np.shares_memory(pellucid.compile(np.copy, backend="aot_eager")(a), a)


def test_A20_arrays_in_other_memory():
    def f(a):
        return np.sin(a) * 2

    whole = example("float64", (6, 8))
    compiled = pellucid.compile(f, backend=(backend := CountingOf("aot_eager")))
    fixed = whole[:3, :4].copy()
    fixed.flags.writeable = False
    for a in (
        whole[:3, :4].copy(),
        whole[:3, :4],
        whole.T[:3, :4],
        whole[::-1][:3, :4],
        fixed,
        np.asfortranarray(fixed),
    ):
        assert_same(compiled(a), f(a))
    assert backend.count >= 1


def test_A20_other_shapes_and_dtypes():
    def f(a):
        return a * 2 + a.sum()

    compiled = pellucid.compile(f, backend="aot_eager")
    for a in (example("float64"), example("float32"), example("float64", (2, 2)), example("int64"), np.ones(0)):
        assert_same(compiled(a), f(a))


def test_A20_writes_are_breaks():
    def f(a):
        b = np.zeros(4)
        b += a[0]
        a[1] = b
        return a * 2, b

    one, other = example("float64"), example("float64")
    compiled = pellucid.compile(f, backend=(backend := CountingOf("aot_eager")))
    for _ in range(2):
        assert_same(compiled(one), f(other))
        assert_same(one, other)
    assert backend.count >= 1 and pellucid.break_reasons(compiled)


def test_A20_a_tensor_over_an_array_that_is_written():
    def f(a):
        t = torch.from_numpy(a)
        t.add_(1)
        return a * 2

    one, other = example("float64"), example("float64")
    compiled = pellucid.compile(f, backend="aot_eager")
    for _ in range(2):
        assert_same(compiled(one), f(other))
        assert_same(one, other)


def test_A20_warnings_that_are_errors():
    def f(a):
        return 1 / a

    compiled = pellucid.compile(f, backend=(backend := CountingOf("aot_eager")))
    zeros = np.zeros(3)
    with np.errstate(divide="ignore"):
        assert_same(compiled(zeros), f(zeros))
    assert backend.count == 1
    with np.errstate(divide="raise"):
        for _ in range(2):
            with pytest.raises(FloatingPointError):
                compiled(zeros)
            assert_same(compiled(zeros + 1), f(zeros + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            compiled(zeros)


def test_A20_what_the_program_goes_by():
    def f(a):
        total = a.sum()
        return a * 2 if total > 3 else a + 1

    compiled = pellucid.compile(f, backend="aot_eager")
    for a in (np.ones(3), np.ones(6), np.zeros(6)):
        assert_same(compiled(a), f(a))


def test_A20_kept_in_objects():
    class Statistics:
        def __init__(self):
            self.mean = np.zeros(4)

        def update(self, a):
            self.mean = 0.9 * self.mean + 0.1 * a.mean(axis=0)
            return a - self.mean

    one, other = Statistics(), Statistics()
    update = pellucid.compile(other.update, backend=(backend := CountingOf("aot_eager")))
    for i in range(3):
        assert_same(update(example("float64") + i), one.update(example("float64") + i))
        assert_same(other.mean, one.mean)
    assert backend.count == 1
