"""What numpy computes of constants alone is a constant: numpy itself computes it during capture."""

import warnings

import numpy as np
import pytest
import torch
from test_arrays import same_array

import pellucid
from support import CountingOf

T = torch.arange(8.0).reshape(2, 4)
RANGES = (0.5, 2.0)


class Settings:
    rate = np.float32(0.25)
    depths = [2, 3]


SETTINGS = Settings()


def same(got, want) -> bool:
    """The same down to containers, and scalars of numpy are those of numpy."""
    if isinstance(want, torch.Tensor):
        return same_array(got, want) and got.stride() == want.stride() and got.requires_grad == want.requires_grad
    if isinstance(want, (tuple, list)):
        return type(got) is type(want) and len(got) == len(want) and all(map(same, got, want))
    return same_array(got, want)


def drawn(t):
    low = np.log(0.5)
    return t.clone().uniform_(low, -low), t * np.sqrt(t.shape[-1]), t / np.sqrt(np.prod((2, 3)))


def kinds(t):
    return (
        t + np.mean([1.0, 2.0]), np.cos(np.pi), np.pi * np.float32(2), np.max([1, 2]), np.prod((2, 3)), np.divmod(7, 3),
        np.modf(2.5), np.isnan(2.0), np.add.reduce([1, 2, 3]), np.round(2.567, 2), np.clip(3.5, 0, 1), np.float16(2) ** 3,
        np.hypot(np.float32(3), 4), np.argmax([1, 5, 2]), np.power(2, 3), np.exp(1j * np.pi), np.left_shift(np.int8(1), 3),
        np.sum((1, 2), dtype=np.int16), np.linalg.norm([3.0, 4.0]),
    )  # fmt: skip


def as_numbers(t):
    size = int(np.prod(t.shape))
    index = np.argmin([3, 1, 2])
    return (
        t.reshape(size),
        float(np.log(2.0)),
        t[:, index],
        [10, 20, 30][index],
        (1, 2, 3)[: np.int64(2)],
        t.view(np.prod((2, 4))),
    )


def methods(t):
    x = np.float64(2.567)
    return t * x.round(1), x.astype(np.float32), x.item(), np.int64(3).tolist(), np.int32(5).clip(0, 2), x.conjugate()


def decided(t):
    if np.log(3.0) > 1 and np.isfinite(1.0) and not np.isnan(np.sqrt(2.0)):
        t = t + 1
    return t if np.float64(0.0) else t * 2, "yes" if np.any([False, True]) else "no"


def of_settings(t):
    return t * np.exp(SETTINGS.rate), np.sum(SETTINGS.depths), t + np.cumsum(SETTINGS.depths)[-1]


def known_arrays(t):
    bounds = np.log(RANGES)
    rates = np.linspace(0, 0.5, 4)
    steps = [t * rate for rate in rates]
    return t.clone().uniform_(bounds[0], bounds[1]), steps, [float(r) for r in rates], rates[1:3].tolist(), rates.sum()


def shapes_of_known(t):
    counts = np.array([1, 2, 3])
    longest = counts.max()
    return (
        t.new_zeros(int(longest), counts.sum()),
        np.arange(longest).tolist(),
        np.repeat(counts, counts).tolist(),
        counts.item(1),
    )


def of_data(t):
    a = np.array([[1, 0], [3, 3]])
    one = np.array([2.5])
    said = (3 in a, 7 in a, bool(one), float(one[:1].reshape(())), int(np.array(4)), np.allclose(a, a), a.any() and 1)
    if np.array_equal(a[0], [1, 0]) and np.array(True) and not np.zeros(1):
        t = t + 1
    return t, said, np.unique(a).tolist(), [i.item() for i in np.flatnonzero(a)]


def dtypes(t):
    a = np.float32(1.5)
    return (
        t + 1,
        a.dtype == np.float32,
        a.dtype == "float64",
        np.int8(1).dtype != a.dtype,
        a.dtype in (float, np.float32),
    )


def made_dtypes(t):
    kinds = [np.dtype("float32"), np.dtype(np.int64), np.dtype("f8"), np.dtype(np.dtype("uint8"))]
    return t + 1, kinds, [str(kind) for kind in kinds], repr(kinds[0]), kinds[0] == np.float32


def texts(t):
    a, n = np.float32(2.54), np.int16(7)
    return t + 1, f"{a:.1f} {n} {n:03d} {np.bool_(True)}", str(n), format(np.float64(1.5), "8.3e"), "%s %d" % (n, n)


PROGRAMS = [
    drawn, kinds, as_numbers, methods, decided, of_settings, known_arrays, shapes_of_known, of_data, dtypes, made_dtypes, texts,
]  # fmt: skip


def check(f, *args, backend="eager", graphs=1):
    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting)
    for _ in range(2):
        torch.manual_seed(3)
        want = f(*args)
        torch.manual_seed(3)
        got = compiled(*args)
        assert same(got, want), (got, want)
        assert counting.count == graphs
    return counting


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_one_graph(f, backend):
    counting = check(f, T, backend=backend)
    assert not any("numpy" in str(node.target) for node in counting.graphs[0].graph.nodes)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend):
    def f(x):
        return (x * np.log(SETTINGS.rate)).sum() * np.sqrt(x.shape[-1])

    compiled = pellucid.compile(f, backend=CountingOf(backend), fullgraph=True)
    ours, theirs = T.clone().requires_grad_(), T.clone().requires_grad_()
    compiled(ours).backward()
    f(theirs).backward()
    assert torch.equal(ours.grad, theirs.grad)


def test_a_constant_that_changes_is_another_graph():
    def f(t):
        return t * np.exp(SETTINGS.rate) + np.sum(SETTINGS.depths)

    counting = CountingOf("eager")
    compiled = pellucid.compile(f, backend=counting)
    try:
        for rate, depths, graphs in ((0.25, [2, 3], 1), (0.5, [2, 3], 2), (0.5, [2, 4], 3), (0.25, [2, 3], 3)):
            SETTINGS.rate, SETTINGS.depths = np.float32(rate), depths
            assert same(compiled(T), f(T))
            assert counting.count == graphs
    finally:
        SETTINGS.rate, SETTINGS.depths = Settings.rate, Settings.depths


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_number_that_changes(backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(lambda t, n: t * np.sqrt(n), backend=counting)
    for n in (2, 3, 5, 3, 2):
        assert same(compiled(T, n), T * np.sqrt(n))
    assert counting.count == 3
    counting = CountingOf(backend)
    compiled = pellucid.compile(lambda t, n: t * 2 + np.prod((n, 2)), backend=counting)
    for n in (2, 3, 5, 3, 2):
        assert same(compiled(T, n), T * 2 + np.prod((n, 2)))
    if backend == "eager":
        assert counting.count == 2  # the graph computes it, and gives the number


def test_a_scalar_of_an_array_beside_a_tensor():
    def f(t, a):
        return t * a.sum(), a.mean() - t, t > a.argmax(), t + a.astype(np.int16).max()

    counting = CountingOf("eager")
    compiled = pellucid.compile(f, backend=counting)
    for array in (np.arange(3.0), np.arange(3.0) * 5, np.ones(3) / 7):
        assert same(compiled(T, array), f(T, array))
    assert counting.count == 1


def written(t):
    a = np.array([1.0, 2.0, 3.0])
    first = a[0]
    a[0] = 7
    return t * first, a[0], a


def written_through_a_view(t):
    a = np.zeros(3)
    a[1:][0] = 4
    np.copyto(a[:1], 9)
    return t, a.sum(), a.tolist()


def written_by_out(t):
    a, b = np.ones(3), np.arange(3.0)
    np.add(b, 1, out=a)
    b += 1
    return t + 1, a.max(), b.sum(), b


def written_by_position(t):
    a, b, c = np.arange(3.0), np.arange(3.0), np.array([3.0, 1.0, 2.0])
    a.clip(1, 1.5, a)
    np.sum(np.ones((2, 3)), 0, None, b)
    middle = np.median(c, overwrite_input=True)
    return t + 1, a, b, c, a[0], b[0], c[0], middle


def filled(t):
    a = np.arange(3)
    a.fill(5)
    return t + 1, a.sum()


def over_memory(t):
    a = np.ones(3)
    over = torch.from_numpy(a)
    over.add_(1)
    return t + 1, a.sum(), over


def over_memory_too(t):
    a = np.arange(4.0)
    first = a[1:]
    over = torch.as_tensor(a)
    over[1] = 9
    return t + 1, a[1], first[0], np.arange(4.0)[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "f", [written, written_through_a_view, written_by_out, written_by_position, filled, over_memory, over_memory_too]
)
def test_known_arrays_that_are_written(f, backend):
    compiled = pellucid.compile(f, backend=CountingOf(backend))
    for _ in range(2):
        assert same(compiled(T), f(T))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_known_arrays_that_leave_are_new_at_each_call(backend):
    def f(t):
        a = np.linspace(0, 1, 3)
        return t + 1, a, a[1:]

    compiled = pellucid.compile(f, backend=CountingOf(backend))
    for _ in range(2):
        _, whole, part = compiled(T)
        assert same([whole, part], [*f(T)[1:]])
        whole += 1
        assert np.array_equal(part, np.linspace(0, 1, 3)[1:] + 1)


def warns(t):
    return t + 1, np.log(0.0)


def overflows(t):
    return t + 1, np.float32(3e38) * np.float32(2), np.multiply(np.float32(3e38), np.float32(2))


def warnings_of(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = function(T)
    return value, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("f", [warns, overflows])
def test_numpy_warns_at_each_call(f):
    compiled = pellucid.compile(f, backend=CountingOf("eager"))
    want, said = warnings_of(f)
    assert said
    for _ in range(2):
        got, ours = warnings_of(compiled)
        assert same(got, want) and ours == said


def test_what_numpy_raises():
    def f(t):
        try:
            return t + np.power(2, -1)
        except ValueError as error:
            return t, str(error)

    compiled = pellucid.compile(f, backend=CountingOf("eager"))
    for _ in range(2):
        assert same(compiled(T), f(T))


def test_a_ufunc_of_a_python_function_runs_where_eager_runs_it():
    seen = []

    def note(x):
        seen.append(x)
        return x + 1

    ufunc = np.frompyfunc(note, 1, 1)

    def f(t):
        return t + 1, ufunc(3)

    compiled = pellucid.compile(f, backend=CountingOf("eager"))
    for calls in (1, 2):
        assert same(compiled(T), (T + 1, 4))
        assert seen == [3] * calls


def test_what_is_not_filled_is_no_constant():
    def f(t):
        a = np.empty(2)
        a[:] = 3
        return t + 1, a.sum()

    check(f, T)


def test_methods_of_scalars_of_an_array():
    def f(t, a):
        t = t + 1
        try:
            return t, [i.item() for i in a], a.sum().round(0), a[0].tolist()
        except TypeError:
            return t, "no method of it"

    def of_arrays(t, a):
        try:
            return t + 1, np.ndarray.sum(a.sum())
        except TypeError as error:
            return t + 2, str(error)

    for backend in ("eager", "aot_eager"):
        for function in (f, of_arrays):
            compiled = pellucid.compile(function, backend=CountingOf(backend))
            for _ in range(2):
                assert same(compiled(T, np.arange(3)), function(T, np.arange(3)))


def test_methods_of_scalars_that_break_are_called_on_scalars():
    methods = ("item", "tolist", "round", "sum", "squeeze", "astype", "view", "take", "repeat", "reshape")
    arguments = {"astype": (np.int16,), "view": (np.int32,), "take": ([0],), "repeat": (2,), "reshape": (1,)}

    for backend in ("eager", "aot_eager"):
        for name in methods:

            def f(a, name=name):
                return getattr(a.sum() + 1, name)(*arguments.get(name, ())), (a.sum() + 1).__class__.__name__

            array = np.arange(3, dtype=np.float32)
            compiled = pellucid.compile(f, backend=CountingOf(backend))
            for _ in range(2):
                assert same(compiled(array), f(array)), name


def test_what_settings_of_numpy_print_is_as_in_eager():
    """A float and the repr of any number are printed as the print options say: no constants."""

    def f(t):
        return t + 1, str(np.float32(2.5)), repr(np.int64(3)), f"{np.float64(0.25)}"

    compiled = pellucid.compile(f, backend="eager")
    assert same(compiled(T), f(T))
    with np.printoptions(legacy="1.13"):
        assert same(compiled(T), f(T))


@pytest.mark.parametrize("kind", [">f4", "i4, f8", "float33", [("a", "f4")]])
def test_other_dtypes_are_as_in_eager(kind):
    def f(t):
        return t + 1, str(np.dtype(kind))

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(2):
        try:
            want = f(T)
        except TypeError as error:
            with pytest.raises(TypeError, match=str(error)):
                compiled(T)
        else:
            assert same(compiled(T), want)
