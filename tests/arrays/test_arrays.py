"""numpy in a region, compared with numpy itself: types, dtypes, values, mutation and exceptions."""

import operator
import warnings

import numpy as np
import pytest
import torch

import pellucid
from support import Counting


def same_array(got, want) -> bool:
    """The same type, dtype, shape and values, down to containers."""
    if isinstance(want, (np.ndarray, np.generic)):
        if type(got) is not type(want) or got.dtype != want.dtype or got.shape != want.shape:
            return False
        return np.array_equal(got, want, equal_nan=want.dtype.kind in "fc")
    if isinstance(want, torch.Tensor):
        return isinstance(got, torch.Tensor) and got.dtype == want.dtype and torch.equal(got, want)
    if isinstance(want, (tuple, list)):
        return type(got) is type(want) and len(got) == len(want) and all(map(same_array, got, want))
    if isinstance(want, dict):
        return type(got) is dict and list(got) == list(want) and all(same_array(got[k], want[k]) for k in want)
    return type(got) is type(want) and got == want


def copies(args):
    return [a.copy() if isinstance(a, np.ndarray) else a.clone() if isinstance(a, torch.Tensor) else a for a in args]


def check(f, *args, graphs=1):
    """Two calls as in eager, arguments too; `graphs`: how many the first call makes, None for any number."""
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for call in range(2):
        ours, theirs = copies(args), copies(args)
        want = f(*theirs)
        got = compiled(*ours)
        assert same_array(got, want), (call, got, want)
        assert same_array(ours, theirs), (call, ours, theirs)
        if call == 0:
            first = backend.count
            assert graphs is None or first == graphs, first
    assert backend.count == first
    native = pellucid.compile(f, backend="eager")
    for _ in range(2):
        ours, theirs = copies(args), copies(args)
        want = f(*theirs)
        assert same_array(native(*ours), want)
        assert same_array(ours, theirs)


A = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
B = np.arange(4, dtype=np.int64)


def one_graph(a):
    return np.sin(a) + 1


def reductions(a):
    return a.sum(), a.mean(axis=0), np.max(a), a.argmax(), np.std(a, axis=1, keepdims=True)


def scalars(a):
    total = a.sum()
    return total * 2, total + np.float64(1), -total, total > 3, np.float32(2) * a, np.sqrt(total)


def facts(a):
    return a.shape, a.ndim, a.size, a.dtype, len(a), a.T.shape, a.sum().dtype, np.ndim(a), np.shape(a)


def of_type(a):
    total = a.sum()
    return (
        isinstance(a, np.ndarray),
        isinstance(total, np.ndarray),
        isinstance(total, np.floating),
        type(total),
        type(a),
    )


def made(a):
    out = np.zeros(a.shape, dtype=a.dtype)
    out[0] = a[1]
    out[1, 2] = 7
    out += 1
    np.multiply(out, 2, out=out)
    return out, np.ones_like(a), np.arange(3), np.full((2,), 3.5)


def rows_of(a):
    return [row.sum() for row in a], a[1:, ::2], a[None], a[..., 0], a[np.array([0, 2])], a[[0, 1], [1, 2]]


def joined(a):
    x, y = np.split(a, [1])
    return np.concatenate([x, y]), np.stack([a, a]), np.where(a > 3, a, 0), np.clip(a, 2, 5), [*np.meshgrid(B, B)]


def linear(a):
    u, s, v = np.linalg.svd(a, full_matrices=False)
    q, r = np.linalg.qr(a)
    return a @ a.T, np.linalg.norm(a), s, np.linalg.inv(a @ a.T + np.eye(3)), np.linalg.qr(a)


def writes(a):
    a[0] = 5
    a += 1
    a[1, 1] = a[0, 0]
    return a.sum()


def through_a_view(a):
    view = a[1:]
    view[0, 0] = 100
    return a.sum(), view


def promoted(a):
    return (
        a + B,
        B / 2,
        B // 2,
        B % 2,
        B**2,
        2**B,
        a * 2.5,
        1 - B,
        divmod(B, 2),
        abs(a),
        a & 1 if a.dtype.kind == "i" else 0,
    )


def to_torch(a):
    return torch.from_numpy(a) * 2 + torch.from_numpy(np.ones((3, 4), dtype=np.float32))


def chained(a):
    return a.astype(np.float64).reshape(-1).clip(2, 9).cumsum()[::-1].round(1).copy()


PROGRAMS = [
    one_graph, reductions, scalars, facts, of_type, made, rows_of, joined, linear, writes, through_a_view, promoted,
    to_torch, chained,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_one_graph(f):
    check(f, A.copy(), graphs=None if f is facts or f is of_type else 1)


def test_result_is_an_array_of_numpy():
    got = pellucid.compile(lambda a: np.sin(a) + 1, backend="eager", fullgraph=True)(np.ones(3))
    assert type(got) is np.ndarray and got.flags.owndata and got.flags.writeable


def test_a_tensor_as_an_array():
    check(lambda t: t.numpy().sum(axis=0) + 1, torch.ones(3, 4))
    check(lambda t: (t + 1).numpy(), torch.ones(3, 4))
    check(lambda t, a: t * torch.from_numpy(a), torch.ones(4), np.ones(4, np.float32))


def test_scalars_of_numpy_beside_tensors():
    check(lambda t: (np.float32(3) * t, t + np.int64(2), np.float64(0.5) - t, t > np.float32(1)), torch.ones(3))
    scale = np.float32(0.1)
    check(lambda t: t * scale, torch.ones(3))


def test_another_shape_or_dtype_is_compiled_again():
    backend = Counting()
    f = pellucid.compile(lambda a: a.sum(axis=0) * a.shape[0], backend=backend)
    for array in (np.ones((2, 3)), np.ones((4, 3)), np.ones((2, 3), np.float32), np.ones(3), np.ones((2, 3))):
        assert same_array(f(array), array.sum(axis=0) * array.shape[0])
    assert backend.count == 4


def test_numbers_that_change():
    backend = Counting()
    buffer = np.zeros((8, 2))

    def step(buffer, i, value):
        buffer[i] = value
        return buffer[i] * value

    f = pellucid.compile(step, backend=backend)
    for i in range(8):
        assert same_array(f(buffer, i, i * 0.5), np.full(2, i * 0.5) * (i * 0.5))
    assert np.array_equal(buffer[:, 0], np.arange(8) * 0.5)
    assert backend.count <= 4
    with pytest.raises(IndexError, match="out of bounds"):
        f(buffer, 8, 1.0)


NEEDS_DATA = [
    lambda a: 1 if a.sum() > 3 else 2,
    lambda a: int(a.sum()) + 1,
    lambda a: a[a > 3][:2] + 1,
    lambda a: a[a > 3].shape,
    lambda a: len(a[a > 3]),
    lambda a: np.concatenate([a[a > 3], a[0]]),
    lambda a: a[a > 3].reshape(1, -1),
    lambda a: torch.from_numpy(a[a > 3]),
    lambda a: a[:, :1][a[:, 0] > 3].tolist(),
    lambda a: np.nonzero(a),
    lambda a: np.unique(a),
    lambda a: a.tolist(),
    lambda a: a.sum().item() + 1,
    lambda a: f"{a.sum():.2f}",
    lambda a: np.allclose(a, a),
    lambda a: np.zeros(int(a[0, 0])),
    lambda a: np.where(a > 4),
    lambda a: {a.sum(): 1},
    lambda a: np.arange(np.argmax(a)),
    lambda a: [10, 20, 30][a.argmax(axis=1)[0] - 1],
    lambda a: a.flags.c_contiguous,
    lambda a: a.strides,
    lambda a: a.sum() in (78.0, 3.0),
]


@pytest.mark.parametrize("index", range(len(NEEDS_DATA)))
def test_what_needs_data_is_a_break(index):
    f = NEEDS_DATA[index]
    check(lambda a: f(np.abs(a)), A.copy(), graphs=None)
    with pytest.raises(pellucid.errors.Unsupported):
        pellucid.compile(lambda a: f(np.abs(a)), backend="eager", fullgraph=True)(A.copy())


MASKED = [
    lambda a: a[a > 3],
    lambda a: a[a > 3] + 1,
    lambda a: a[a > 3].sum(),
    lambda a: (np.sqrt(np.abs(a[a > 3])).mean(), a[a > 3].max()),
    lambda a: a[a[:, 0] > 3] * a[0],
    lambda a: a[a[:, 0] > 3].sum(axis=0) + a[a[:, 0] > 3][:, 1:].sum(),
    lambda a: (a[a[:, 0] > 3].argmax(axis=1), a[a[:, 0] > 3].dtype.name, a[a[:, 0] > 3].ndim),
    lambda a: np.sort(a[a > 3])[-1],
    lambda a: [kept[np.argsort(-kept)] for kept in (a[a > 3],)],
    lambda a: [kept[kept > 5] - kept[0] for kept in (a[a > 3],)],
    lambda a: [np.where(kept > 5, kept, -kept).astype(np.float32) for kept in (a[a > 3],)],
    lambda a: [operator.iadd(kept, 1) is kept and kept for kept in (a[a > 3],)],
    lambda a: np.linalg.norm(a[a > 3]) / np.std(a[~(a > 3)]),
    lambda a: float(a[a > 3].sum()) + 1,
]


@pytest.mark.parametrize("index", range(len(MASKED)))
def test_a_mask_finds_as_many_as_it_has(index):
    """One graph for any number of elements; what raises or warns for few of them does so as in eager."""
    f = MASKED[index]

    def outcome(call, a):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                value = call(a)
            except Exception as error:
                value = (type(error), str(error))
        return value, sorted({str(one.message) for one in warned})

    arrays = [np.arange(12.0).reshape(4, 3) - offset for offset in (0, 3, -2, 6, 7, 8, 20)]
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    for a in arrays:
        (got, got_warnings), (expected, expected_warnings) = outcome(compiled, a.copy()), outcome(f, a.copy())
        assert same_array_or_value(got, expected), (a, got, expected)
        assert got_warnings == expected_warnings
    assert backend.count == 1


def same_array_or_value(got, expected):
    if isinstance(expected, (tuple, list)):
        return type(got) is type(expected) and all(map(same_array_or_value, got, expected))
    if isinstance(expected, np.ndarray):
        return same_array(got, expected)
    same = got == expected or (got != got and expected != expected)
    return type(got) is type(expected) and bool(same)


ELEMENTS = [
    lambda a: float(a.sum()) + 1,
    lambda a: (float(a.max()), a / float(a.min()), type(float(a[0, 0]))),
    lambda a: (int(a.argmax()), int((a > 3).sum()), int((a > 3).all()) + 1),
    lambda a: float(a.astype(np.float32).mean()),
    lambda a: np.array([float(row.sum()) for row in a])[::-1].cumsum(),
    lambda a: torch.ones(2) * float(np.abs(a).sum()),
    lambda a: int(a.astype(np.int8)[1, 1]) * int((a > 3).astype(np.uint8)[0, 0]),
]


@pytest.mark.parametrize("index", range(len(ELEMENTS)))
def test_an_element_is_a_number_of_the_graph(index):
    check(ELEMENTS[index], A.copy(), graphs=1)
    check(ELEMENTS[index], -A, graphs=1)


def test_elements_without_end():
    for value in (np.inf, -np.inf):
        check(lambda a: float(a.sum()), np.full((2, 2), value), graphs=1)
        check(lambda a: float(a.sum()) + 1, np.full((2, 2), value), graphs=None)
    compiled = pellucid.compile(lambda a: [float(a.sum()), float(a.sum()) + 1], backend="eager")
    assert [np.isnan(value) for value in compiled(np.full((2, 2), np.nan))] == [True, True]


def raises_in_the_graph(a):
    log = []
    try:
        log.append("before")
        return np.linalg.inv(a), log
    except np.linalg.LinAlgError as error:
        log.append(str(error))
        return a * 0, log


def raises_behind_a_write(a):
    a += 1
    try:
        return np.linalg.inv(a[:3, :3]) + a[0, 0]
    except np.linalg.LinAlgError:
        return a * 2


def bad_shapes(a):
    try:
        return a + np.ones(5)
    except ValueError as error:
        return str(error)


def bad_cast(a):
    b = np.arange(4)
    try:
        b += 0.5
    except TypeError as error:
        return str(error)[:20], b
    return b


def test_exceptions():
    check(raises_in_the_graph, np.ones((2, 2)), graphs=None)
    check(raises_in_the_graph, np.eye(2), graphs=None)
    check(raises_behind_a_write, np.zeros((3, 4)), graphs=None)
    check(raises_behind_a_write, np.eye(4)[:3] * 1.0, graphs=None)
    check(bad_shapes, A.copy(), graphs=None)
    check(bad_cast, A.copy(), graphs=None)


def test_errors_of_numpy_behind_a_write():
    def f(a):
        a += 1
        return a / 0

    compiled = pellucid.compile(f, backend="eager")
    a, b = np.ones(3), np.ones(3)
    with np.errstate(all="ignore"):
        assert same_array(compiled(a), f(b))
    with np.errstate(all="raise"):
        for function, array in ((f, b), (compiled, a)):
            with pytest.raises(FloatingPointError):
                function(array)
    assert same_array(a, b)


def test_aliases():
    base = np.arange(6.0)

    def f(whole, part):
        part[0] = 50
        return whole.sum(), whole + 1

    check_base, eager_base = base.copy(), base.copy()
    compiled = pellucid.compile(f, backend="eager")
    assert same_array(compiled(check_base, check_base[2:]), f(eager_base, eager_base[2:]))
    tensor = torch.from_numpy(check_base)

    def g(tensor, array):
        array[1] = -1
        return tensor * 2

    got = pellucid.compile(g, backend="eager")(tensor, check_base)
    assert got[1] == -2
    view = pellucid.compile(lambda a: a[1:3], backend="eager")(check_base)
    assert np.shares_memory(view, check_base)
    made = pellucid.compile(lambda a: np.asarray(a), backend="eager")(check_base)
    assert made is check_base


def test_kinds_of_arrays_that_break():
    for array in (np.array(["a", "b"]), np.array([1, None]), np.ones(2, ">f4"), np.ma.masked_array([1.0, 2.0])):
        got = pellucid.compile(lambda a, t: (a.copy(), t + 1), backend="eager")(array, torch.ones(2))
        assert type(got[0]) is type(array) and got[0].dtype == array.dtype and list(got[0]) == list(array)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_several_arrays_that_numpy_alone_gives_are_in_the_graph_of_a_compiler(backend):
    def f(a, t):
        return np.frexp(a)[0] + 1, t * 2

    compiled = pellucid.compile(f, backend=backend)
    assert same_array(compiled(A.copy(), torch.ones(2)), f(A.copy(), torch.ones(2)))
    assert not pellucid.break_reasons(compiled)


DTYPES = [np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64, np.complex64]
SHAPES = [(), (3,), (2, 3)]

UNARY = [
    np.negative, np.absolute, np.sqrt, np.exp, np.sin, np.floor, np.sign, np.square, np.isnan, np.logical_not, np.sum,
    np.prod, np.mean, np.std, np.max, np.min, np.any, np.all, np.argmax, np.argsort, np.sort, np.cumsum, np.cumprod,
    np.ravel, np.transpose, np.zeros_like, np.ones_like, np.atleast_2d, np.median, np.diff, np.flip, np.round,
    lambda a: a + 1, lambda a: a + 1.5, lambda a: 2 / a, lambda a: a * a, lambda a: a // 2, lambda a: a == 1,
    lambda a: a.sum(dtype=np.float64), lambda a: a.astype(np.float32), lambda a: a[..., None], lambda a: a.real,
    lambda a: a + np.float32(1), lambda a: a * np.int64(2), lambda a: np.float64(2) - a, lambda a: a.mean() * a,
    lambda a: np.dot(a, a.T), lambda a: np.stack([a, a]), lambda a: np.where(a > 0, a, 1), lambda a: a.reshape(-1)[0],
    lambda a: np.add.reduce(a), lambda a: np.maximum(a, 1), lambda a: np.power(a, 2), lambda a: ~a, lambda a: a << 1,
]  # fmt: skip


def attempt(f, array):
    try:
        with np.errstate(all="ignore"):
            return f(array)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("index", range(len(UNARY)))
def test_types_and_dtypes_are_those_of_numpy(index):
    f = UNARY[index]
    captured = 0
    for dtype in DTYPES:
        for shape in SHAPES:
            array = (np.arange(np.prod(shape, dtype=int)) + 1).reshape(shape).astype(dtype)
            backend = Counting()
            compiled = pellucid.compile(lambda a, f=f: f(a), backend=backend)
            want, got = attempt(f, array.copy()), attempt(compiled, array.copy())
            assert same_array(got, want), (dtype, shape, got, want)
            captured += backend.count
    assert captured >= 4


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", [np.complex64, np.complex128, np.clongdouble, np.float16, np.int8])
def test_what_torch_makes_of_a_scalar_of_numpy(kind, backend):
    def f(x, s):
        return x * s, s * x, x == s, x * (s - 1), x * np.sqrt(s), x.cos()

    compiled = pellucid.compile(f, backend=backend)
    for value in (2, 4, 9):
        got, want = (g(torch.arange(3.0), kind(value)) for g in (compiled, f))
        assert [x.dtype for x in got] == [x.dtype for x in want]
        assert all(torch.equal(x, y) for x, y in zip(got, want, strict=True))
