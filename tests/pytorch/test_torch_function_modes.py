"""Torch function modes (torch.overrides.TorchFunctionMode), entered in a compiled function and active around its call: the
functions that each mode sees, in their order, the results and the state of the modes are as eager has them, in one graph."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from test_torch_function import LOG, PROGRAMS, Logged, Picky, ramp, shown
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import pellucid
from support import CountingOf, outcome

BACKENDS = ["eager", "aot_eager"]


class Seeing(TorchFunctionMode):
    """Says which functions it was asked about, with which types."""

    def __init__(self, name="seeing"):
        self.name = name

    def __torch_function__(self, func, types, args=(), kwargs=None):
        LOG.append((self.name, func, types, len(args), sorted(kwargs or {})))
        return func(*args, **(kwargs or {}))


class Counted(TorchFunctionMode):
    """State of its own: a number, a list, a dict."""

    def __init__(self):
        self.count = 0
        self.names = []
        self.by_name = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += 1
        name = getattr(func, "__name__", "?")
        self.names.append(name)
        self.by_name[name] = self.by_name.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


class Swapped(TorchFunctionMode):
    """Other functions than those that the program asks for."""

    def __init__(self, table):
        self.table = table

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return self.table.get(func, func)(*args, **(kwargs or {}))


class Scaled(TorchFunctionMode):
    """Torch functions of its own around each."""

    def __init__(self, factor):
        self.factor = factor

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * self.factor if type(result) is torch.Tensor else result


class Unwilling(TorchFunctionMode):
    """Leaves the answer to others."""

    def __init__(self, names=("mul",)):
        self.names = names

    def __torch_function__(self, func, types, args=(), kwargs=None):
        LOG.append(("unwilling", func))
        if func.__name__ in self.names:
            return NotImplemented
        return func(*args, **(kwargs or {}))


class Raising(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.cos:
            raise ValueError("no cos here")
        return func(*args, **(kwargs or {}))


def run(function, make, calls=3, around=None):
    seen = []
    for _ in range(calls):
        args = make()
        LOG.clear()
        if around is None:
            result = outcome(function, *args)
        else:
            with around():
                result = outcome(function, *args)
        seen.append((shown(result), shown(list(args)), list(LOG)))
    return seen


def check(function, make, backend="eager", whole=True, around=None, graphs=None):
    """`graphs`: how many are made."""
    eager = run(function, make, around=around)
    pellucid.reset()
    counting = CountingOf(backend)
    got = run(pellucid.compile(function, backend=counting, fullgraph=whole), make, around=around)
    for want, have in zip(eager, got, strict=True):
        assert have == want
    assert torch._C._len_torch_function_stack() == 0
    if graphs is not None:
        assert counting.count == graphs


def one(*shape):
    return lambda: (ramp(*(shape or (2, 3))),)


# ---- entered in the function


def inside(function, mode=Seeing):
    def f(x):
        with mode():
            result = function(x)
        return result, x + 1

    return f


# What torch's C code asks nobody about, or what no capture follows: the truth of data, data as sizes.
BREAKING = {"plain by its mask", "grad", "indexing", "setitem", "aten", "as plain"}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_inside_as_eager(name, backend):
    check(inside(PROGRAMS[name]), one(), backend, whole=False)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in BREAKING])
def test_inside_in_one_graph(name):
    check(inside(PROGRAMS[name]), one(), graphs=1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_around_as_eager(name, backend):
    check(PROGRAMS[name], one(), backend, whole=False, around=Seeing)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in BREAKING])
def test_around_in_one_graph(name):
    check(PROGRAMS[name], one(), around=Seeing)


MODES = {
    "base": lambda: BaseTorchFunctionMode(),
    "swapped": lambda: Swapped({torch.sin: torch.cos, torch.Tensor.add: torch.sub}),
    "scaled": lambda: Scaled(2.5),
    "raising": lambda: Raising(),
    "unwilling": lambda: Unwilling(("cos",)),
}


def several(x):
    return torch.sin(x) + x.mul(2), (x + 1).relu(), F.softmax(x, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODES)
def test_modes_inside(name, backend):
    check(inside(several, MODES[name]), one(), backend, graphs=1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODES)
def test_modes_around(name, backend):
    check(several, one(), backend, around=MODES[name], graphs=1)


def nested(x):
    with Seeing("outer"), Scaled(3.0), Seeing("inner"):
        y = torch.sin(x)
        with Seeing("innermost"):
            z = y * 2
        y = y + z
    return y + 1


def test_several_modes():
    check(nested, one(), graphs=1)
    check(nested, one(), "aot_eager", graphs=1)
    check(nested, one(), around=lambda: Seeing("ambient"), graphs=1)


def test_an_error_of_a_mode_leaves_it():
    def f(x):
        try:
            with Raising():
                return torch.cos(x)
        except ValueError as error:
            return torch.sin(x), str(error)

    check(f, one(), graphs=1)
    check(inside(torch.cos, Raising), one(), whole=False)


def test_nobody_answers():
    def f(x):
        with Unwilling():
            try:
                return torch.mul(x, 2)
            except TypeError as error:
                return str(error).split("mode object")[0]

    check(f, one(), whole=False)  # its text has the repr() of the mode


def test_subclasses_and_a_mode():
    def f(x):
        with Seeing():
            return x + 1, x.sin(), torch.add(ramp(2, 3), x)

    check(f, lambda: (ramp(2, 3).as_subclass(Logged),), graphs=1)
    check(f, lambda: (ramp(2, 3).as_subclass(Logged),), "aot_eager", graphs=1)

    def g(x):
        with Unwilling():
            try:
                return torch.mul(x, 2)
            except TypeError as error:
                return str(error).split("mode object")[0]

    check(g, lambda: (ramp(2, 3).as_subclass(Logged),), whole=False)  # its class asks the mode once more


def test_nobody_answers_for_a_subclass():
    def f(x):
        with Unwilling(("sin",)):
            try:
                return x.sin()
            except TypeError as error:
                return "Multiple" in str(error)

    check(f, lambda: (ramp(2, 3).as_subclass(Picky),), whole=False)


@pytest.mark.parametrize("switch", [torch._C.DisableTorchFunction, torch._C.DisableTorchFunctionSubclass])
def test_switched_off(switch):
    def f(x):
        with Seeing():
            with switch():
                y = x.sin() + 1
            z = x.cos()
        return y, z

    check(f, one(), graphs=1)
    check(f, lambda: (ramp(2, 3).as_subclass(Logged),), graphs=1)
    check(lambda x: off(switch, x), one(), around=Seeing, graphs=1)


def off(switch, x):
    with switch():
        y = x + 1
    return y * x


def test_state_of_a_mode():
    mode = Counted()

    def f(x):
        with mode:
            y = x.sin() + 1
        return y.cos(), mode.count

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    x = ramp(3)
    expected = [f(x)[1] for _ in range(3)]
    state = (mode.count, list(mode.names), dict(mode.by_name))
    mode.__init__()
    assert [compiled(x)[1] for _ in range(3)] == expected
    assert (mode.count, mode.names, mode.by_name) == state


def test_state_of_an_ambient_mode():
    def f(x):
        return x.sin() + 1

    compiled = pellucid.compile(f, backend=(counting := CountingOf("eager")), fullgraph=True)
    x = ramp(3)
    for _ in range(3):
        eager, mode = Counted(), Counted()
        with eager:
            expected = f(x)
        with mode:
            got = compiled(x)
        assert torch.equal(got, expected)
        assert (mode.count, mode.names, mode.by_name) == (eager.count, eager.names, eager.by_name)
    assert counting.count == 1  # another mode of the class is served, too


def test_what_an_ambient_mode_holds_is_guarded():
    def f(x):
        return x.sin() + 1

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    x = ramp(3)
    for factor in (2.0, 3.0, 2.0, 0.5):
        with Scaled(factor):
            assert torch.equal(compiled(x), f(x))
    assert torch.equal(compiled(x), f(x))  # outside
    with Swapped({torch.Tensor.sin: torch.cos}):
        assert torch.equal(compiled(x), f(x))
    with Scaled(2.0), Scaled(3.0):
        assert torch.equal(compiled(x), f(x))
    with BaseTorchFunctionMode():
        assert torch.equal(compiled(x), f(x))


def test_a_tensor_of_an_ambient_mode():
    def f(x):
        return x.sin()

    compiled = pellucid.compile(f, backend=(counting := CountingOf("eager")), fullgraph=True)
    x = ramp(3)
    for factor in (ramp(3), ramp(3) * 5):
        with Scaled(factor):
            assert torch.equal(compiled(x), f(x))
    assert counting.count == 1


def test_the_method_of_a_mode_changes():
    class Changing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def f(x):
        with Changing():
            return x.sin()

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    x = ramp(3)
    assert torch.equal(compiled(x), x.sin())
    Changing.__torch_function__ = lambda self, func, types, args=(), kwargs=None: func(*args) * 2
    assert torch.equal(compiled(x), x.sin() * 2)


def test_a_break_inside():
    def f(x):
        with Seeing() as mode:
            y = x.sin()
            pellucid.graph_break()
            z = y.cos()
        return z + 1, mode.name

    check(f, one(), whole=False, graphs=2)
    check(f, one(), "aot_eager", whole=False, graphs=2)
    check(f, one(), whole=False, around=lambda: Seeing("ambient"))


def test_a_break_in_the_method():
    class Breaking(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            LOG.append(func)
            if func is torch.cos:
                pellucid.graph_break()
            return func(*args, **(kwargs or {}))

    def f(x):
        with Breaking():
            y = torch.sin(x)
            z = torch.cos(y)
            return y * z

    check(f, one(), whole=False, graphs=2)
    check(several, one(), whole=False, around=Breaking)


def test_a_mode_left_open():
    def f(x):
        mode = Seeing("left open")
        mode.__enter__()
        return x.sin()

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    for function in (f, compiled, compiled):
        LOG.clear()
        function(ramp(3))
        assert torch._C._len_torch_function_stack() == 1
        mode = torch._C._pop_torch_function_stack()
        assert type(mode) is Seeing and mode.name == "left open"
        assert [entry[1] for entry in LOG] == [torch.Tensor.sin]


def test_an_ambient_mode_is_left():
    def f(x):
        mode = torch._C._pop_torch_function_stack()
        y = x.sin()
        torch._C._push_on_torch_function_stack(mode)
        return y.cos()

    def g(x):
        torch._C._pop_torch_function_stack()
        return x.sin()

    check(f, one(), around=Seeing)
    compiled = pellucid.compile(g, backend="eager", fullgraph=True)
    x = ramp(3)
    for function in (g, compiled, compiled):
        torch._C._push_on_torch_function_stack(Seeing())
        LOG.clear()
        function(x)
        assert torch._C._len_torch_function_stack() == 0 and not LOG


def test_gradients():
    def f(x):
        with Seeing():
            y = (x * 2).sin()
        return y.sum()

    for backend in BACKENDS:
        compiled = pellucid.compile(f, backend=backend, fullgraph=True)
        one, two = ramp(3).requires_grad_(), ramp(3).requires_grad_()
        for function, x in ((f, one), (compiled, two)):
            LOG.clear()
            function(x).backward()
            assert len(LOG) == 2
        assert torch.equal(one.grad, two.grad)


# ---- default devices are modes


def factories(x):
    return torch.ones(2), torch.zeros(2, 3).device, torch.full((2,), 3.0) + x[0, :2], torch.tensor([1, 2]).device


def test_devices_inside():
    def f(x):
        with torch.device("cpu"):
            a = torch.ones(2)
        with torch.device("meta") as device:
            b = torch.empty(2, 3)
        return a + x[0, :2], b.device, b.shape, device, torch.empty(1).device

    check(f, one(), graphs=1)
    check(f, one(), "aot_eager", graphs=1)
    check(f, one(), around=lambda: torch.device("cpu"), graphs=1)


def test_devices_around():
    check(factories, one(), around=lambda: torch.device("cpu"), graphs=1)

    def f(x):
        y = torch.empty(2)
        with Seeing():
            z = torch.empty(3)
        return y.device, z.device

    check(f, one(), around=lambda: torch.device("meta"))
    check(lambda x: torch.empty(2).device, one(), around=lambda: torch.device("meta"))


def test_a_default_device():
    def f(x):
        return torch.empty(2).device, x + 1

    def g(x):
        with Seeing():
            return torch.empty(2).device, x + 1

    for function in (f, g):
        compiled = pellucid.compile(function, backend="eager")
        x = ramp(3)
        for device in ("cpu", "meta", None, "meta"):
            torch.set_default_device(device)
            try:
                assert compiled(x)[0] == function(x)[0] == torch.device(device or "cpu")
            finally:
                torch.set_default_device(None)


# ---- breaks


def test_what_is_followed_as_a_whole_is_a_break():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    def f(x):
        with Seeing():
            return Square.apply(x * 1), checkpoint(torch.sin, x * 2, use_reentrant=False)

    check(f, lambda: (ramp(3).requires_grad_(),), whole=False)
    check(lambda x: Square.apply(x), lambda: (ramp(3).requires_grad_(),), whole=False, around=Seeing)


def gradient(x):
    return torch.func.grad(lambda y: y.sin().sum())(x)


def row_by_row(x):
    return torch.vmap(lambda y: y.sin() + 1)(x)


@pytest.mark.parametrize("function", [gradient, row_by_row], ids=lambda f: f.__name__)
def test_transforms_of_functions(function):
    check(function, one(), whole=False, around=Seeing)
    check(inside(function), one(), whole=False)


def test_the_text_of_a_function():
    class Named(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            LOG.append((str(func), f"{func}", repr(func)))
            return func(*args, **(kwargs or {}))

    check(lambda x: (x.sin(), torch.cos(x), x + 1), one(), around=Named, graphs=1)


def test_re_entered():
    class Own(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            with self:
                LOG.append(func)
            with torch.no_grad():
                return func(*args, **(kwargs or {}))

    check(lambda x: x.sin(), one(), around=Own, graphs=1)


def test_what_there_is():
    def f(x):
        names = [type(mode).__name__ for mode in torch.overrides._get_current_function_mode_stack()]
        return names, torch.overrides._get_current_function_mode().name

    check(f, one(), around=Seeing)


def test_generators():
    def f(x):
        def values():
            with Seeing("generator"):
                yield x.sin()
                yield x.cos()

        return [value + 1 for value in values()]

    check(f, one(), graphs=1)
    check(f, one(), around=Seeing, graphs=1)


def test_a_compiled_function_in_another():
    inner = pellucid.compile(lambda x: x.sin() + 1, backend="eager")

    def f(x):
        with Seeing():
            return inner(x) * 2

    check(f, one(), graphs=1)
    check(lambda x: inner(x) * 2, one(), around=Seeing, graphs=1)


def test_a_classmethod_is_a_break():
    class Wrong(TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args)

    def f(x):
        with Wrong():
            return x.sin()

    pellucid.reset()
    with pytest.raises(RuntimeError):
        f(ramp(3))
    with pytest.raises(RuntimeError):
        pellucid.compile(f, backend="eager")(ramp(3))
    assert torch._C._len_torch_function_stack() == 0


def test_modules():
    def make():
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)
        )
        return model.eval()

    model = make()
    check(lambda x: model(x), one(), around=Seeing, graphs=1)
    check(inside(lambda x: model(x)), one(), "aot_eager", graphs=1)


def test_devices_where_torch_compile_watches_the_functions():
    """torch._dynamo hangs finalizers on the functions that it guards; they are no code of the program."""
    torch.compile(lambda x: torch.ones(2) + torch.empty(2).zero_() + x, backend="eager")(torch.ones(2))
    test_devices_inside()


CONVERSIONS = {
    "float": lambda x: x.sin() * float(x.sum()),
    "int": lambda x: x.sin() * int(x.sum()),
    "bool": lambda x: x.sin() * bool(x.sum() > 0),
    "complex": lambda x: x.sin() * complex(x.sum()).real,
    "item": lambda x: x.sin() * x.sum().item(),
    "a branch": lambda x: x.sin() if x.sum() > 0 else x.cos(),
    "an index": lambda x: x.sin() * [1.0, 2.0, 3.0][x.argmax()],
    "a key": lambda x: x.sin() * x[x.argmax()],
    "tolist": lambda x: x.sin() * x.tolist()[0],
    "a format": lambda x: (f"{x.sum():.2f}", x.sin())[1],
    "len": lambda x: x.sin() * len(x),
    "range": lambda x: x.sin() * sum(range(x.argmax())),
}


class Named(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_mode_hears_what_asks_for_a_number(name, backend):
    program = CONVERSIONS[name]
    compiled = pellucid.compile(program, backend=backend)
    for n in (1.0, 2.0, 1.0):
        with Named() as want:
            expected = program(torch.arange(3.0) * n)
        with Named() as got:
            result = compiled(torch.arange(3.0) * n)
        assert torch.equal(result, expected)
        assert got.names == want.names
