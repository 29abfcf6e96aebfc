"""Global state of torch and of random number generators, in the graph, at breaks and while a backend runs (rows A22–A26, C16, C19, D14)."""

from __future__ import annotations

import contextlib
import random

import numpy
import pytest
import torch
from torch.overrides import TorchFunctionMode

import pellucid
from support import SinIsCos, outcome, same

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.fixture(params=[False, True], ids=["eager_after_break", "continued"], autouse=True)
def continued(request):
    with pellucid.config.patch(continue_after_break=request.param):
        yield request.param


def state():
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "autocast_dtype": torch.get_autocast_dtype("cpu"),
        "autocast_cache": torch.is_autocast_cache_enabled(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "modes": torch._C._len_torch_function_stack(),
        "torch_function": torch._C._is_torch_function_enabled(),
        "threads": torch.get_num_threads(),
    }


START = state()


@pytest.fixture(autouse=True)
def clean():
    """Every test leaves the state as it was, and starts with it."""
    assert state() == START
    yield
    torch.set_grad_enabled(True)
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", START["autocast_dtype"])
    torch.set_autocast_cache_enabled(START["autocast_cache"])
    torch.set_default_dtype(START["dtype"])
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(False)
    while torch._C._len_torch_function_stack() > 0:
        torch._C._pop_torch_function_stack()
    assert state() == START


class Backend:
    """Runs graphs as they are, and remembers the state in which it was called."""

    def __init__(self):
        self.states, self.graphs = [], []

    def __call__(self, gm, example_inputs):
        self.states.append(state())
        self.graphs.append(gm)
        return gm.forward


def facts(value):
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.device, value.requires_grad, value.is_inference())
    if isinstance(value, (tuple, list)):
        return [facts(v) for v in value]
    return value


def check_with_state(f, *args, captured=True, calls=3):
    """f compiled does what f does, to its values and to the state that it leaves.

    `captured`: whether there is a graph; "continued": there is one when capture goes on behind a break; None: either.
    """
    if captured == "continued":
        captured = pellucid.config.continue_after_break
    backend = Backend()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(calls):
        results = []
        for g in (f, compiled):
            inputs = [
                a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in args
            ]
            before = state()
            got = outcome(g, *inputs)
            results.append((got, facts(got[1]), state(), inputs))
            restore(before)
        (want, want_facts, want_state, a), (got, got_facts, got_state, b) = results
        assert got[0] == want[0] and (same(got[1], want[1]) if got[0] == "value" else got == want), (got, want)
        assert got_facts == want_facts and got_state == want_state
        assert same(a, b)
    assert captured is None or bool(backend.graphs) == captured
    return backend


def restore(before):
    torch.set_grad_enabled(before["grad"])
    torch.set_autocast_enabled("cpu", before["autocast"])
    torch.set_autocast_dtype("cpu", before["autocast_dtype"])
    torch.set_autocast_cache_enabled(before["autocast_cache"])
    torch.set_default_dtype(before["dtype"])
    torch.use_deterministic_algorithms(before["deterministic"])
    while torch._C._len_torch_function_stack() > before["modes"]:
        torch._C._pop_torch_function_stack()


W = X.clone().requires_grad_()


def stop():
    print(end="")  # a break


def grad_seen(*tensors):
    return [t.requires_grad for t in tensors], torch.is_grad_enabled()


# ---- A23, A24, C16: grad mode


def test_A23_left_switched_off():
    def f(x):
        y = x * 2
        torch.set_grad_enabled(False)
        return y, x * 3, torch.is_grad_enabled()

    check_with_state(f, W)


def test_A23_blocks_and_decorators():
    @torch.no_grad()
    def quiet(x):
        with torch.enable_grad():
            y = x * 2
        return y, x * 3

    def f(x):
        with torch.no_grad():
            a = x + 1
            with torch.enable_grad():
                b = x + 2
            c = b * 2
        with torch.set_grad_enabled(False):
            d = x.sin()
        return a, b, c, d, quiet(x), x * 2

    check_with_state(f, W)


def in_no_grad(x):
    with torch.no_grad():
        y = x * 2
        stop()
        z = x + y
    return y, z


def test_A24_C16_break_inside_an_inlined_no_grad(continued):
    def f(x):
        y, z = in_no_grad(x)
        return y, z, x * 3, grad_seen(y, z, x * 3)

    backend = check_with_state(f, W, captured="continued")
    if continued:
        # The second graph begins where gradients are off and turns them on: it says both.
        assert [s["grad"] for s in backend.states] == [True, True] and turns(backend) == [[False], [False, True]]


def turns(backend):
    """What each graph sets the grad mode to, in order."""
    switch = torch._C._set_grad_enabled
    return [[node.args[0] for node in gm.graph.nodes if node.target is switch] for gm in backend.graphs]


def test_C16_break_in_nested_blocks(continued):
    def f(x):
        with torch.no_grad():
            a = x * 2
            with torch.enable_grad():
                b = x * 3
                stop()
                c = x * 4
            d = x * 5
            stop()
        return a, b, c, d, x * 6

    backend = check_with_state(f, W, captured="continued")
    if continued:
        assert len(backend.graphs) == 3


def test_C16_break_in_a_block_that_an_exception_leaves():
    def f(x):
        try:
            with torch.no_grad():
                y = x * 2
                stop()
                raise KeyError
        except KeyError:
            z = x * 3
        return y, z

    check_with_state(f, W, captured="continued")


@contextlib.contextmanager
def scaled(values):
    values.append(torch.is_grad_enabled())
    with torch.no_grad():
        yield 2
    values.append(torch.is_grad_enabled())


def test_C16_break_in_a_users_context_manager():
    def f(x):
        seen = []
        with scaled(seen) as factor:
            y = x * factor
            stop()
            z = x + y
        return y, z, x * 2, seen

    check_with_state(f, W, captured=None)


def test_A24_error_in_a_no_grad_block():
    def f(x, n):
        with torch.no_grad():
            y = x * 2
            if n > 1:
                raise ValueError("out")
        return y, x * 2

    for n in (1, 2):
        check_with_state(f, W, n, captured=n == 1 or "continued")


def test_C16_break_in_inference_mode():
    def f(x):
        with torch.inference_mode():
            y = x * 2
            stop()
            z = y + 1
        return x * 3, torch.is_inference_mode_enabled(), bool(z.sum() > 0)

    check_with_state(f, W, captured=None)


# ---- A25, C16: autocast


def test_A25_block():
    def f(x):
        with torch.autocast("cpu"):
            y = x @ x
            with torch.autocast("cpu", enabled=False):
                z = x @ x
        return y, z, x @ x, torch.is_autocast_enabled("cpu")

    backend = check_with_state(f, X)
    assert len(backend.graphs) == 1


def test_A25_decorator_and_dtype():
    @torch.autocast("cpu", dtype=torch.float16)
    def inner(x):
        return x @ x

    def f(x):
        return inner(x), x @ x

    check_with_state(f, X)


def test_A25_around_the_call():
    def f(x):
        with torch.autocast("cpu", enabled=False):
            y = x @ x
        return y, x @ x

    with torch.autocast("cpu"):
        check_with_state(f, X)


def nesting():
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def test_A25_blocks_are_closed_to_the_last(continued):
    """The cache of cast weights lives until the last open block is left."""
    w = torch.nn.Parameter(torch.ones(2, 2))

    def f(x):
        with torch.autocast("cpu"):
            y = x @ w
            stop()
            z = y @ w
        return y, z

    compiled = pellucid.compile(f, backend="eager")
    for n in range(4):
        with torch.no_grad():
            w.fill_(n)
        got, want = compiled(X), f(X)
        assert same(got, want) and nesting() == 0

    def g(x):
        with torch.autocast("cpu"):
            y = x @ w
            if x.sum() > 100:
                raise ValueError
            return float(y.sum())

    compiled = pellucid.compile(g, backend="eager")
    for x in (X, X * 100, X):
        assert outcome(compiled, x) == outcome(g, x) and nesting() == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_A25_C16_backends_at_a_break_in_autocast(backend):
    outside = torch.autocast("cpu", dtype=torch.float16)

    def f(x):
        with torch.autocast("cpu"):
            y = x @ x
            stop()
            z = y @ x
        with outside:
            a = x @ x
            stop()
            b = x @ x
        return y, z, a, b, x @ x

    compiled = pellucid.compile(f, backend=backend)
    for _ in range(3):
        got, want = compiled(X), f(X)
        assert same(got, want) and facts(got) == facts(want) and nesting() == 0 and state() == START


@pytest.mark.parametrize("inner", [False, True])
def test_A25_C16_break_in_autocast(inner):
    def body(x):
        y = x @ x
        stop()
        return y, y @ x

    def f(x):
        with torch.autocast("cpu"):
            if inner:
                y, z = body(x)
            else:
                y = x @ x
                stop()
                z = y @ x
        return y, z, x @ x, torch.is_autocast_enabled("cpu")

    check_with_state(f, X, captured="continued")


def test_A25_object_from_outside():
    cast = torch.autocast("cpu")

    def f(x):
        with cast:
            y = x @ x
        return y, x @ x

    backend = check_with_state(f, X)
    assert len(backend.graphs) == 1


def test_A25_switches():
    def f(x):
        torch.set_autocast_enabled("cpu", True)
        torch.set_autocast_dtype("cpu", torch.float16)
        y = x @ x
        torch.set_autocast_enabled("cpu", False)
        return y, x @ x

    check_with_state(f, X, captured="continued")


# ---- deterministic algorithms, default dtype, default device


def any_capture(f, *args, as_captured=False):
    """check, whether something is captured or not. `as_captured`: the backend says that it runs graphs as they are."""
    backend = Backend()
    backend.takes_numbers = as_captured
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(3):
        before = state()
        want = outcome(f, *args)
        want_state = state()
        restore(before)
        torch.set_default_device(None if START["modes"] == 0 else before["device"])
        got = outcome(compiled, *args)
        got_state = state()
        restore(before)
        torch.set_default_device(None)
        assert got[0] == want[0] and same(got[1], want[1]) and facts(got[1]) == facts(want[1]), (got, want)
        assert got_state == want_state
    return backend


def test_A24_deterministic_flag():
    def f(x):
        y = x * 2
        torch.use_deterministic_algorithms(True)
        return y, torch.are_deterministic_algorithms_enabled(), x + 1

    any_capture(f, X)


def test_A24_default_dtype_set_inside():
    def f(x):
        a = torch.ones(2) * x
        torch.set_default_dtype(torch.float64)
        b = torch.ones(2) * x
        torch.set_default_dtype(torch.float32)
        return a, b, torch.zeros(1)

    any_capture(f, X)
    any_capture(f, X, as_captured=True)


def test_A24_default_dtype_in_one_graph():
    def f(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            y = torch.ones(2)
        finally:
            torch.set_default_dtype(before)
        return x + y, torch.zeros(1), before, torch.Storage

    assert len(any_capture(f, X, as_captured=True).graphs) == 1


def test_A24_default_dtype_left_by_a_graph_that_raises():
    def f(x, i):
        torch.set_default_dtype(torch.float64)
        y = torch.ones(2)[i] + x
        torch.set_default_dtype(torch.float32)
        return y

    any_capture(f, X, torch.tensor([1]), as_captured=True)
    any_capture(f, X, torch.tensor([5]), as_captured=True)


def test_A24_default_dtype_for_a_backend_that_compiles():
    def f(x):
        torch.set_default_dtype(torch.float64)
        y = torch.ones(2)
        torch.set_default_dtype(torch.float32)
        return x + y

    compiled = pellucid.compile(f, backend="aot_eager")
    assert same(compiled(X), f(X)) and compiled(X).dtype == torch.float64
    assert {reason.name for reason in pellucid.break_reasons(compiled)} == {"SideEffect"}


def test_A24_default_dtype_around_the_call():
    def f(x):
        return torch.ones(2) * x, torch.get_default_dtype()

    compiled = pellucid.compile(f, backend=Backend())
    for dtype in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        assert same(compiled(X), f(X)) and compiled(X)[1] is dtype


def test_A24_default_device_set_inside():
    def f(x):
        a = torch.ones(2)
        torch.set_default_device("meta")
        b = torch.ones(2)
        return a + x, b.device.type

    any_capture(f, X)


def test_A24_device_block_inside():
    def f(x):
        with torch.device("meta"):
            b = torch.ones(2)
        return x + torch.ones(2), b.device.type

    any_capture(f, X)


def test_A24_device_around_the_call():
    def f(x):
        return torch.ones(2).device.type, x * 2

    compiled = pellucid.compile(f, backend=Backend())
    for device in ("cpu", "meta", "cpu"):
        with torch.device(device):
            assert same(compiled(X), f(X)) and compiled(X)[0] == device


# ---- A26: torch functions


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result


def test_A26_disabled_inside():
    def f(x):
        with torch._C.DisableTorchFunction():
            y = x * 2
            plain = type(y)
        with torch._C.DisableTorchFunctionSubclass():
            z = x + 1
        return y.as_subclass(torch.Tensor), plain, type(z), type(x * 3)

    compiled = pellucid.compile(f, backend=Backend())
    for x in (X.as_subclass(Tagged), X, X.as_subclass(Tagged)):
        for _ in range(2):
            assert same(compiled(x), f(x)) and state() == START


def test_A26_disabled_inside_plain_tensors():
    def f(x):
        with torch._C.DisableTorchFunctionSubclass():
            y = x * 2
            seen = torch._C._is_torch_function_enabled()
        return y, seen, torch._C._is_torch_function_enabled()

    any_capture(f, X)


@pytest.mark.parametrize("brk", [False, True])
def test_A26_mode_entered_inside(brk):
    def f(x):
        y = torch.sin(x)
        with SinIsCos():
            z = torch.sin(x)
            if brk:
                stop()
            w = torch.sin(x) + 1
        return y, z, w, torch.sin(x)

    any_capture(f, X)
    assert same(f(X)[1], torch.cos(X))


def test_A26_ambient_mode():
    def f(x):
        return torch.sin(x), x + 1

    compiled = pellucid.compile(f, backend=Backend())
    for _ in range(2):
        assert same(compiled(X), (torch.sin(X), X + 1))
        with SinIsCos():
            assert same(compiled(X), (torch.cos(X), X + 1))


class Counting(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_A26_ambient_mode_with_state():
    def f(x):
        return torch.sin(x) * 2 + 1

    compiled = pellucid.compile(f, backend=Backend())
    for _ in range(2):
        counts = []
        for g in (f, compiled):
            with Counting() as mode:
                g(X)
            counts.append(mode.calls)
        assert counts[0] == counts[1] > 0


# ---- D14: while the backend runs


def test_D14_the_backend_sees_the_state_before_tracing():
    def f(x):
        y = x * 2
        torch._C._set_grad_enabled(False)
        with torch.autocast("cpu"):
            z = x @ x
        return y, z

    backend = check_with_state(f, W)
    assert backend.states[0] == START


def test_D14_behind_a_break(continued):
    def f(x):
        with torch.no_grad():
            y = x * 2
            stop()
            torch._C._set_grad_enabled(True)
            z = x * 3
        return y, z

    backend = check_with_state(f, W, captured="continued")
    if continued:
        assert [s["grad"] for s in backend.states] == [True, True] and turns(backend)[1] == [False, True]


def test_D14_a_backend_that_changes_the_state():
    def backend(gm, example_inputs):
        torch.set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", True)
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(True)
        return gm.forward

    def f(x):
        return torch.ones(2) * x, torch.is_grad_enabled()

    got = pellucid.compile(f, backend=backend)(W)
    assert state() == START and same(got, f(W)) and facts(got) == facts(f(W))


def test_D14_a_backend_that_changes_the_state_and_fails():
    def backend(gm, example_inputs):
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        raise ValueError

    with pytest.raises(pellucid.errors.BackendCompilerFailed):
        pellucid.compile(lambda x: x + 1, backend=backend)(X)
    assert state() == START


@pytest.mark.parametrize("pairs", [0, 1], ids=["no gauss kept", "one gauss kept"])
def test_D14_a_backend_that_draws(pairs):
    def backend(gm, example_inputs):
        for _ in range(700):  # more than the generator makes at once
            random.random()
        random.gauss(0, 1)
        torch.rand(3)
        return gm.forward

    def numbers():
        return [random.gauss(0, 1), random.random(), random.getrandbits(64), torch.rand(2).tolist()]

    def begin():
        random.seed(5)
        torch.manual_seed(5)
        for _ in range(300 + pairs):
            random.gauss(0, 1)
        return random.getstate()

    before = begin()
    assert same(pellucid.compile(lambda x: x + 1, backend=backend)(X), X + 1)
    assert random.getstate() == before
    got = numbers()
    begin()
    assert got == numbers()


def test_D14_a_compiled_graph_that_changes_the_state():
    def backend(gm, example_inputs):
        def run(*args):
            result = gm.forward(*args)
            torch.set_autocast_enabled("cpu", True)
            return result

        return run

    def f(x):
        return x + 1

    # What compiled code does is the backend's own business: eager's state is not invented anew.
    compiled = pellucid.compile(f, backend=backend)
    assert same(compiled(X), X + 1)


# ---- A22, C19: random numbers


def seeds(n):
    random.seed(n)
    numpy.random.seed(n)
    torch.manual_seed(n)


def rng_states():
    return random.getstate(), [list(map(str, numpy.random.get_state()))], torch.get_rng_state().tolist()


def rng_check(f, *args, calls=3):
    backend = Backend()
    compiled = pellucid.compile(f, backend=backend)
    for g_seed in range(2):
        streams = []
        for g in (f, compiled):
            seeds(g_seed)
            results = [g(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args]) for _ in range(calls)]
            streams.append((results, rng_states()))
        assert same(streams[0][0], streams[1][0]) and streams[0][1] == streams[1][1]
    return backend


def test_A22_python_random():
    def f(x):
        a = random.random()
        b = random.randint(1, 100)
        y = x * a + b
        return y, random.uniform(1, 2), a

    rng_check(f, X)


def test_A22_shuffle_choice_sample():
    def f(x):
        order = [1, 2, 3, 4]
        random.shuffle(order)
        return x * order[0], order, random.choice("abc"), random.sample(range(10), 3), random.gauss(0, 1)

    rng_check(f, X)


def test_A22_numpy_random():
    def f(x):
        y = x * float(numpy.random.rand())
        return y + int(numpy.random.randint(0, 10))

    rng_check(f, X)


def test_A22_torch_random():
    def f(x):
        y = torch.rand(2, 2) + x
        z = torch.randn_like(y) + torch.randint(0, 10, (2,))
        return torch.nn.functional.dropout(z, 0.5), torch.randperm(4), x.bernoulli(0.5), torch.normal(x, 1.0)

    assert rng_check(f, X.sigmoid()).graphs


def test_C19_draws_on_both_sides_of_a_break():
    def f(x):
        a = random.random()
        t = torch.rand(2)
        y = x * a + t
        stop()
        b = random.random()
        return y * b + torch.rand(2), a, b, float(numpy.random.rand())

    rng_check(f, X)


def test_C19_seeds_inside():
    def f(x):
        y = torch.rand(2) + x
        torch.manual_seed(3)
        z = torch.rand(2)
        random.seed(4)
        a = random.random()
        numpy.random.seed(5)
        return y, z, a, float(numpy.random.rand()), torch.rand(2)

    rng_check(f, X)


def test_C19_generators_of_ones_own():
    mine, torchs = random.Random(7), torch.Generator()

    def f(x):
        return x * mine.random() + torch.rand(2, generator=torchs)

    compiled = pellucid.compile(f, backend=Backend())
    streams = []
    for g in (f, compiled):
        mine.seed(7), torchs.manual_seed(7)
        streams.append(([g(X) for _ in range(3)], mine.getstate(), torchs.get_state().tolist()))
    assert same(streams[0], streams[1])


def test_C19_drawn_once_when_the_call_misses_a_guard():
    def f(x, n):
        return x * random.random() * n

    compiled = pellucid.compile(f, backend=Backend())
    streams = []
    for g in (f, compiled):
        random.seed(1)
        streams.append(([g(X, n) for n in (1, 2, 1, 3, 2)], random.getstate()))
    assert same(streams[0], streams[1])


def vmapped(x):
    y = x * 2
    return torch.vmap(lambda row: row.sum() * torch.ones(2))(y) + 1


def gradient(x):
    return torch.func.grad(lambda v: (v**2).sum())(x * 3) * 2


def pulled_back(x):
    value, back = torch.func.vjp(lambda v: v.sin() * 2, x + 1)
    return back(torch.ones_like(x))[0] * value


def pushed_forward(x):
    return torch.func.jvp(lambda v: v.sin(), (x,), (x.cos(),))[1] + 1


def jacobians(x):
    def cubed(v):
        return (v**3).sum()

    return torch.func.jacrev(cubed)(x), torch.func.jacfwd(cubed)(x), torch.func.hessian(cubed)(x[0]) + 1


def functionalized(x):
    return torch.func.functionalize(lambda v: v.add_(1) * 2)(x.clone()) + 1


def caught(x):
    try:
        return torch.vmap(lambda row: bool(row.sum() > 0))(x)
    except RuntimeError as error:
        return x + len(str(error))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("f", "stops"),
    [
        (vmapped, set()),
        (gradient, set()),
        (pulled_back, set()),
        (pushed_forward, set()),
        (jacobians, set()),
        (functionalized, set()),
        (caught, {"OpFailed"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_function_transforms(f, stops, backend):
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), f(X))
    assert {record.name for record in pellucid.break_reasons(compiled)} >= stops
    assert stops or not pellucid.break_reasons(compiled)


def test_a_compiled_function_inside_of_a_transform(counting):
    def f(row):
        return row.sin() * 2

    compiled = pellucid.compile(f)
    assert same(torch.vmap(compiled)(X), f(X))
    assert [record.name for record in pellucid.break_reasons(compiled)] == ["FunctionTransform"]
    with pytest.raises(pellucid.errors.Unsupported, match="FunctionTransform"):
        torch.vmap(pellucid.compile(f, fullgraph=True))(X)
    outside = pellucid.compile(f, backend=counting)
    assert same(torch.vmap(outside)(X), f(X)) and counting.count == 0
    assert same(outside(X), f(X)) and counting.count == 1
