"""The calls that a call of numpy comes to give what it gives: bits, dtypes, layouts, warnings, memory."""

import operator
import tracemalloc
import warnings

import numpy as np
import pytest

import pellucid
from pellucid._numpy import ArrayStandIn, example
from pellucid._numpy_steps import Result, steps_of

DTYPES = ["?", "i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8", "g", "c8", "c16"]


def made(dtype, shape):
    numbers = np.random.default_rng(3).normal(size=shape) * 30
    return (np.abs(numbers) if np.dtype(dtype).kind == "u" else numbers).astype(dtype)


def layouts(array):
    """As it is, transposed, backwards, every second one."""
    return [array, array.T, array[::-1], array[..., ::2]] if array.ndim else [array]


def outcome(f, *args):
    """All that can be seen of a call: of the array its bytes, of warnings their texts."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            value = f(*args)
        except (TypeError, ValueError, IndexError) as error:  # of numpy; that there is no graph is another one
            return type(error), str(error)
    seen = sorted((warning.category.__name__, str(warning.message)) for warning in told)
    strides = value.strides if isinstance(value, np.ndarray) else None
    data = value.tolist() if value.dtype.char in "gG" else value.tobytes()  # the rest of a long double is whatever
    return type(value), value.dtype, value.shape, strides, str(data), seen


def compare(f, *args):
    pellucid.reset()
    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        want = outcome(f, *args)
        assert outcome(compiled, *args) == want


REDUCTIONS = ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std"]
AXES = [{}, {"axis": 0}, {"axis": -1}, {"axis": (0, 1)}, {"axis": 1, "keepdims": True}, {"keepdims": True}]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(name, dtype):
    function = getattr(np, name)
    for axes in AXES:
        for array in layouts(made(dtype, (4, 6))):
            compare(lambda a, axes=axes: function(a, **axes), array)
            compare(lambda a, axes=axes: getattr(a, name)(**axes), array)


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_reductions_of_few_elements(name):
    """Of none and one, of no dimension, with degrees of freedom: some of these warn."""
    for array in [np.ones((0, 3)), np.ones((3, 0)), np.ones(1), np.float32([[5]]), np.array(3.0), np.arange(4)]:
        for f in [
            lambda a: getattr(a, name)(),
            lambda a: getattr(np, name)(a, axis=0),
            lambda a: getattr(np, name)(a, 0, np.float32),
            lambda a: getattr(a, name)(axis=()),
        ]:
            compare(f, array)
    if name != "mean":
        for ddof in (1, 3, 4, 5):
            compare(lambda a, ddof=ddof: getattr(np, name)(a, ddof=ddof), np.arange(4.0))
            compare(lambda a, ddof=ddof: getattr(a, name)(0, None, None, ddof, True), np.arange(8).reshape(4, 2))
        compare(lambda a: getattr(np, name)(a, correction=1), np.arange(4.0))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_values_that_warn(name):
    for values in ([np.inf, -np.inf, 1], [np.nan, 1, 2], [3e38, 3e38, 1], [1e-40, -0.0, 0.0]):
        for dtype in (np.float32, np.float64, np.complex64):
            compare(lambda a: getattr(np, name)(a), np.array(values, dtype))
            compare(lambda a: getattr(a, name)(axis=0, keepdims=True), np.array([values] * 2, dtype))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_arguments_that_no_row_knows(name):
    where = np.array([True, False, True, True])
    a = made("f8", (4,))
    compare(
        lambda a, w: getattr(np, name)(a, where=w, **({"initial": 1.0} if name in ("max", "min") else {})), a, where
    )
    compare(lambda a, o: getattr(np, name)(a, out=o), a, np.zeros((), bool if name in ("any", "all") else float))


BOUNDS = [(-2, 2), (None, 3), (1, None), (2, -2), (-1000, 1000), (0, 255), (np.int8(-3), np.int8(5)), (0.5, 2)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_clip(dtype):
    for low, high in BOUNDS:
        if np.dtype(dtype).kind == "u" and high == -2:
            continue  # numpy raises
        for array in layouts(made(dtype, (4, 6))):
            compare(lambda a, low=low, high=high: np.clip(a, low, high), array)
            compare(lambda a, low=low, high=high: a.clip(min=low, max=high), array)
    array = made(dtype, (4, 6))
    compare(lambda a: np.clip(a, a[0], a[1]), array)
    compare(lambda a: a.clip(a[0, 0], None), array)
    compare(lambda a: np.clip(a, min=0), array)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_like_others(dtype):
    for array in layouts(made(dtype, (4, 6))):
        for f in (np.zeros_like, np.ones_like):
            compare(lambda a, f=f: f(a), array)
            compare(lambda a, f=f: f(a, dtype=np.float32), array)
            compare(lambda a, f=f: f(a, "i8", "F"), array)
            compare(lambda a, f=f: f(a, shape=(2, 2)), array)
        compare(lambda a: np.full_like(a, 7), array)


FUNCTIONS = [
    lambda a: np.argmax(a),
    lambda a: np.argmin(a, axis=1),
    lambda a: np.argmax(a, 0, keepdims=True),
    lambda a: np.argsort(a, axis=0, kind="stable"),
    lambda a: np.argsort(a, 1, "stable"),
    lambda a: np.cumsum(a, 1),
    lambda a: np.cumprod(a, dtype=np.float64),
    lambda a: np.repeat(a, 2, axis=0),
    lambda a: np.repeat(a, repeats=3),
    lambda a: np.reshape(a, (3, -1)),
    lambda a: np.reshape(a, (3, -1), "F"),
    lambda a: np.reshape(a, shape=(2, 12), order="F"),
    lambda a: np.round(a / 7, 1),
    lambda a: np.round(a / 7, decimals=2),
    lambda a: np.swapaxes(a, 0, 1),
    lambda a: np.swapaxes(a, axis1=0, axis2=-1),
    lambda a: np.transpose(a),
    lambda a: np.transpose(a, axes=(1, 0)),
    lambda a: np.stack([a, a], axis=1),
    lambda a: np.concatenate([a, a], axis=-1),
    lambda a: np.where(a > 0, a, -a),
    lambda a: np.linalg.norm(a, axis=1),
    lambda a: np.ptp(a, axis=1),
    lambda a: np.dot(a, a.T),
]


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["i4", "f4", "f8"])
def test_functions(f, dtype):
    for array in [made(dtype, (4, 6)), made(dtype, (6, 4)).T, made(dtype, (8, 6))[::2]]:
        compare(f, array)


def test_views_stay_views():
    def f(a):
        view = np.transpose(np.reshape(a, (2, 6)))
        view[0, 0] = 50
        return view

    ours, theirs = np.arange(12.0), np.arange(12.0)
    got, want = pellucid.compile(f, backend="eager")(ours), f(theirs)
    assert np.array_equal(ours, theirs) and np.array_equal(got, want)
    assert np.shares_memory(got, ours) and got.strides == want.strides


def test_what_fails_is_numpys_error():
    def f(a):
        return np.log(a.mean()) + a.std(axis=0)

    compiled = pellucid.compile(f, backend="eager")
    a = -np.ones((3, 2))
    compiled(a)
    with np.errstate(all="raise"):
        with pytest.raises(FloatingPointError) as want:
            f(a)
        with pytest.raises(FloatingPointError) as got:
            compiled(a)
    assert str(got.value) == str(want.value)


def test_which_steps():
    """The calls of C alone; what each of them gives is another one's argument."""
    a = example(np.ones((4, 6), np.float32))
    calls, gives = steps_of("std", (a,), {"axis": 1}, False)
    assert [call[0] for call in calls] == [
        np.add.reduce,
        np.true_divide,
        np.subtract,
        np.square,
        np.add.reduce,
        np.true_divide,
        np.sqrt,
    ]
    assert gives == len(calls) - 1 and type(calls[1][1][0]) is Result
    (mean, divided, typed), _ = steps_of(np.mean, (a,), {}, False)
    assert mean[0] == np.add.reduce and divided[0] is operator.truediv and typed[0] is np.float32
    (made, filled), gives = steps_of(np.zeros_like, (a,), {}, False)
    assert gives == 0 and filled[0] is np.ndarray.fill
    assert steps_of(np.sin, (a,), {}, False) is None
    (call,), _ = steps_of(np.concatenate, ([a, a],), {"axis": 1}, False)
    assert call[0] is np.concatenate._implementation and call[2] == ("axis",)
    (call,), _ = steps_of(np.clip, (a, 1, 2), {}, True)
    assert call[0] is np.clip._implementation


def test_memory_of_values_that_nobody_holds():
    """numpy computes in the memory of an array that an expression alone holds, and so does a graph."""

    def f(a):
        b = (a * 2 + 1) * 3 - a * 0.5
        return -(1 - (b - a) / 2)

    a = np.ones((500, 500))
    compiled = pellucid.compile(f, backend="eager")
    compiled(a)
    peaks = []
    for g in (f, compiled):
        g(a)
        tracemalloc.start()
        value = g(a)
        peaks.append(tracemalloc.get_traced_memory()[1] // a.nbytes)
        tracemalloc.stop()
        assert np.array_equal(value, f(a))
    assert peaks[1] <= peaks[0]


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: (a + b) - (a * b) / (a - (b + 1)),
        lambda a, b: 2 - (3 - (a - (4 - b))),
        lambda a, b: (b - 1) @ (a + 1).T,
        lambda a, b: ((a + 1).sum(axis=0) - (b * 2).astype("f4"))[1:] ** 2,
        lambda a, b: (a + 1)[(b > 2).argmax()] - (a - 1)[0],
        lambda a, b: ((c := a + 1), c - (b + c)),
        lambda a, b: (a - b).clip(0, 1) - (a / b).std(),
        lambda a, b: [(b - a) - (x - (b * x)) for x in (a, b)],
    ],
)
def test_order_of_operands(f):
    a, b = made("f8", (3, 4)), made("f8", (3, 4)) * 2 + 1
    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        got, want = compiled(a, b), f(a, b)
        for x, y in zip(
            got if isinstance(got, (tuple, list)) else [got], want if isinstance(want, (tuple, list)) else [want]
        ):
            assert x.tobytes() == y.tobytes()
    assert isinstance(example(a), ArrayStandIn)


NUMBERS = [0, 1, -1, 3, 100, 300, 2**24 + 1, 2**31, 2**53 + 1, 2**63, -(2**63), 0.0, -0.0, 0.1, -2.5, 16777217.0]
NUMBERS += [
    1e-310,
    1e-40,
    1e39,
    1e308,
    float("inf"),
    float("nan"),
    True,
    2j,
    np.float32(0.1),
    np.float64(0.1),
    np.int8(3),
]
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
BINARY += [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, operator.pow]
BINARY += [np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.power, np.arctan2]
BINARY += [np.maximum, np.minimum, np.fmax, np.fmin, np.less, np.less_equal, np.greater, np.greater_equal, np.equal]


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f"{type(f).__name__}-{f.__name__}")
def test_arrays_and_numbers(function):
    """Those that fit a dtype and those that do not, which warn or raise or are computed in another one."""
    for dtype in DTYPES:
        values = np.array([0, 1, 3, 7, 100, 2, 5, 64], dtype)
        if np.dtype(dtype).kind in "fc":
            values[:4] = [np.nan, np.inf, -0.0, 1e-3]
        for number in NUMBERS:
            for f in (lambda a, n=number: function(a, n), lambda a, n=number: function(n, a)):
                want = outcome_or_error(f, values)
                pellucid.reset()
                compiled = pellucid.compile(f, backend="eager")
                compiled_twice = [outcome_or_error(compiled, values) for _ in range(2)]
                assert compiled_twice == [want, want], (dtype, number)


def outcome_or_error(f, *args):
    try:
        return outcome(f, *args)
    except ArithmeticError as error:
        return type(error), str(error)


def test_writes_with_numbers():
    def f(a, b):
        a += 2
        a *= 0.5
        a -= -1
        b += 3
        b *= -2
        return a - b / 2

    for dtype in ("f4", "f8"):
        ours, theirs = (made(dtype, (3, 4)), made("i4", (3, 4))), (made(dtype, (3, 4)), made("i4", (3, 4)))
        pellucid.reset()
        got = pellucid.compile(f, backend="eager", fullgraph=True)(*ours)
        assert got.tobytes() == f(*theirs).tobytes()
        assert all(x.tobytes() == y.tobytes() for x, y in zip(ours, theirs, strict=True))


def test_which_numbers_are_arrays():
    def operands(function, *args):
        steps = steps_of(function, args, {}, False)
        return None if steps is None else steps[0][0][1]

    single, whole, bits = example(np.ones(3, np.float32)), example(np.ones(3, np.int8)), example(np.ones(3, bool))
    place, number = operands(operator.mul, single, 0.1)
    assert place == 0 and number.dtype == np.float32 and number.shape == () and not number.flags.writeable
    number, place = operands(np.subtract, 2, single)
    assert place == 1 and number.dtype == np.float32
    assert operands(operator.gt, whole, 100)[1].dtype == np.int8
    for function, array, other in [
        (operator.mul, single, 1e39),  # numpy warns
        (operator.mul, single, 1e-40),
        (operator.mul, single, float("nan")),
        (operator.gt, whole, 200),  # compared as it is
        (operator.add, whole, 0.5),  # of another dtype
        (operator.add, bits, 1),
        (operator.add, single, True),
        (operator.pow, single, 2),  # numpy squares
        (operator.mul, example(np.array(1.0)), 2.0),  # gives a scalar
    ]:
        assert operands(function, array, other) is None
    assert steps_of(operator.mul, (single, 2), {}, True) is None
