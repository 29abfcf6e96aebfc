"""Between calls globals, closures, functions and imported modules that a region read may change: the result equals eager's every time (support/changes.py)."""

import collections
import functools
import math
import os
import types

import pytest
import torch
import torch.nn.functional as F

import pellucid
from support.changes import Cases, X, put

case = CASES = Cases(eager={"class_getattr_of_a_module"})


# ---- globals


G = 2
TEXT = "a"
ITEMS = [1.0, 2.0]
TABLE = {"k": 2.0, "l": 3.0}
PAIR = (1.0, 2.0)
WEIGHT = torch.tensor([2.0, 3.0, 4.0])
HELPERS = types.ModuleType("helpers")
HELPERS.scale = 2.0


def helper(x):
    return x * 2


def global_case(name, f, *values):
    def make():
        yield f, X
        for value in values:
            with put(globals(), name, value):
                yield f, X
        yield f, X

    case(make, f"global_{name}_{f.__name__}")


def scaled(x):
    return x * G


def chosen(x):
    return x + 1 if TEXT == "a" else x - 1


def of_list(x):
    return x * ITEMS[1]


def sum_of_list(x):
    return x * sum(ITEMS)


def of_dict(x):
    return x * TABLE["k"]


def of_tuple(x):
    return x * PAIR[0] + PAIR[1]


def of_tensor(x):
    return x * WEIGHT


def by_helper(x):
    return helper(x)


global_case("G", scaled, 3, 3.0, True, 1.0, 1, math.inf)
global_case("TEXT", chosen, "b")
global_case("ITEMS", of_list, [1.0, 5.0], [5.0, 2.0, 1.0], (1.0, 9.0), {1: 4.0})
global_case("ITEMS", sum_of_list, [1.0, 5.0], [1.0], [])
global_case("TABLE", of_dict, {"k": 5.0}, collections.defaultdict(lambda: 7.0), {})
global_case("PAIR", of_tuple, (1.0, 3.0), (1.0,), [4.0, 5.0])
global_case("WEIGHT", of_tensor, torch.zeros(3), torch.ones(3, dtype=torch.float64), torch.ones(1), 3.0)
global_case("helper", by_helper, lambda x: x * 5, lambda x: -x)


@case
def global_deleted_and_builtin_shadowed():
    def f(x):
        return x * len([1, 2])

    yield f, X
    globals()["len"] = lambda v: 7
    try:
        yield f, X
    finally:
        del globals()["len"]
    yield f, X


@case
def builtin_replaced():
    import builtins

    def f(x):
        return x * max(1, 2)

    yield f, X
    real = builtins.max
    builtins.max = lambda *v: 9
    try:
        yield f, X
    finally:
        builtins.max = real
    yield f, X


@case
def list_inside_a_new_list_as_tensor():
    def f(x):
        return x + torch.tensor([ITEMS, [3.0, ITEMS[0]]]).sum()

    def written(x):
        ITEMS[0] = x.shape[0] * 2.0
        return x + torch.tensor([ITEMS, [3.0, 4.0]]).sum()

    for g in (f, written):
        yield g, X
        with put(globals(), "ITEMS", [1.0, 5.0]):
            yield g, X
        with put(globals(), "ITEMS", [1.0, 7.0]):
            yield g, X
    ITEMS[0] = 1.0


@case
def module_attribute():
    def f(x):
        return x * HELPERS.scale

    yield f, X
    HELPERS.scale = 3.0
    yield f, X
    HELPERS.scale = 2.0


@case
def module_function():
    HELPERS.work = lambda x: x + 1

    def f(x):
        return HELPERS.work(x)

    yield f, X
    HELPERS.work = lambda x: x + 2
    yield f, X


@case
def module_attribute_appears():
    HELPERS.__dict__.pop("late", None)

    def f(x):
        return x * getattr(HELPERS, "late", 1.0)

    yield f, X
    HELPERS.late = 3.0
    yield f, X
    del HELPERS.late
    yield f, X


@case
def constant_of_math():
    def f(x):
        return x * math.pi

    before = math.pi
    yield f, X
    try:
        math.pi = 3.0
        yield f, X
    finally:
        math.pi = before


@case
def function_of_math():
    def f(x):
        return x * math.sqrt(4.0)

    before = math.sqrt
    yield f, X
    try:
        math.sqrt = lambda v: 7.0
        yield f, X
    finally:
        math.sqrt = before


@case
def function_of_torch():
    def f(x):
        return torch.sin(x)

    before = torch.sin
    yield f, X
    try:
        torch.sin = torch.cos
        yield f, X
    finally:
        torch.sin = before


@case
def environment():
    def f(x):
        return x * float(os.environ.get("PELLUCID_TEST_SCALE", "2"))

    yield f, X
    os.environ["PELLUCID_TEST_SCALE"] = "3"
    try:
        yield f, X
    finally:
        del os.environ["PELLUCID_TEST_SCALE"]
    yield f, X


# ---- closures


@case
def closure_cell():
    scale = 2.0

    def f(x):
        return x * scale

    yield f, X
    scale = 3.0
    yield f, X
    scale = torch.ones(3)
    yield f, X


@case
def nonlocal_changed_by_another_function():
    count = 0

    def step():
        nonlocal count
        count += 1

    def f(x):
        return x * count

    yield f, X
    step()
    yield f, X


@case
def closure_cell_emptied():
    scale = 2.0

    def f(x):
        return x * scale  # noqa: F821

    yield f, X
    del scale
    yield f, X


@case
def cell_of_a_helper():
    def make(n):
        def inner(x):
            return x * n

        return inner

    inner = make(2)

    def f(x):
        return inner(x)

    yield f, X
    inner.__closure__[0].cell_contents = 5
    yield f, X
    inner = make(7)
    yield f, X


@case
def two_closures_of_one_code():
    def make(n):
        def inner(x):
            return x * n

        return inner

    a, b = make(2), make(3)

    def f(g, x):
        return g(x)

    yield f, a, X
    yield f, b, X
    yield f, a, X


# ---- functions


@case
def default_of_a_helper():
    def inner(x, scale=2.0):
        return x * scale

    def f(x):
        return inner(x)

    yield f, X
    inner.__defaults__ = (3.0,)
    yield f, X
    inner.__defaults__ = None
    yield f, X


@case
def default_object_changed():
    def inner(x, scales=[2.0]):
        return x * scales[0]

    def f(x):
        return inner(x)

    yield f, X
    inner.__defaults__[0][0] = 4.0
    yield f, X


@case
def keyword_defaults():
    def inner(x, *, scale=2.0):
        return x * scale

    def f(x):
        return inner(x)

    yield f, X
    inner.__kwdefaults__["scale"] = 3.0
    yield f, X
    inner.__kwdefaults__ = {"scale": 4.0}
    yield f, X
    inner.__kwdefaults__ = None
    yield f, X


@case
def code_of_a_helper():
    def inner(x):
        return x * 2

    def other(x):
        return x * 3

    def f(x):
        return inner(x)

    yield f, X
    inner.__code__ = other.__code__
    yield f, X


@case
def attribute_of_a_function():
    def inner(x):
        return x * inner.scale

    inner.scale = 2

    def f(x):
        return inner(x)

    yield f, X
    inner.scale = 3
    yield f, X


@case
def wrapped_function():
    def inner(x):
        return x * 2

    @functools.wraps(inner)
    def outer(x):
        return outer.__wrapped__(x) + 1

    def f(x):
        return outer(x)

    yield f, X
    outer.__wrapped__ = lambda x: x * 5
    yield f, X


@case
def name_of_a_function():
    def inner(x):
        return x

    def f(x):
        return x + 1 if inner.__name__ == "inner" else x + 2

    yield f, X
    inner.__name__ = "other"
    yield f, X


@case
def partial_arguments():
    def f(p, x):
        return p(x)

    yield f, functools.partial(torch.add, alpha=2, other=torch.ones(3)), X
    yield f, functools.partial(torch.add, alpha=3, other=torch.ones(3)), X
    yield f, functools.partial(torch.sub, alpha=3, other=torch.ones(3)), X
    yield f, functools.partial(torch.mul, torch.ones(3)), X


@case
def partial_state():
    p = functools.partial(lambda x, scale: x * scale, scale=2.0)

    def f(x):
        return p(x)

    yield f, X
    p.keywords["scale"] = 3.0
    yield f, X
    p.__setstate__((p.func, (), {"scale": 4.0}, None))
    yield f, X


@case
def bound_method_self():
    class C:
        def __init__(self, n):
            self.n = n

        def m(self, x):
            return x * self.n

    def f(m, x):
        return m(x)

    a = C(2)
    yield f, a.m, X
    yield f, C(3).m, X
    a.n = 4
    yield f, a.m, X


@case
def cached_function():
    @functools.lru_cache
    def table(n):
        return state[0] * n

    state = [2.0]

    def f(x):
        return x * table(1)

    yield f, X
    state[0] = 3.0
    table.cache_clear()
    yield f, X


@case
def cached_function_of_a_changed_argument():
    @functools.lru_cache
    def table(n):
        return n * 10.0

    def f(n, x):
        return x * table(n)

    yield f, 1, X
    yield f, 2, X


@case
def default_of_an_inner_function():
    def f(x, n):
        def inner(y, scale=n):
            return y * scale

        return inner(x)

    yield f, X, 2
    yield f, X, 3


@case
def constant_helper_name():
    def f(x):
        return x * len(helper.__name__)

    yield f, X
    helper.__name__ = "another"
    try:
        yield f, X
    finally:
        helper.__name__ = "helper"


@case
def annotations_of_a_function():
    def f(x):
        return x * len(helper.__annotations__)

    yield f, X
    helper.__annotations__ = {"x": int}
    try:
        yield f, X
    finally:
        helper.__annotations__ = {}


@case
def functions_compared():
    def f(g, h, x):
        return x + 1 if g == h else x - 1

    yield f, helper, helper, X
    yield f, helper, scaled, X


@case
def inspect_signature():
    import inspect

    def inner(x):
        return x

    def f(x):
        return x * len(inspect.signature(inner).parameters)

    yield f, X
    inner.__code__ = (lambda x, y, z: x).__code__
    yield f, X


@case
def inspect_signature_overridden():
    import inspect

    def inner(x):
        return x

    def f(x):
        return x * len(inspect.signature(inner).parameters)

    yield f, X
    inner.__signature__ = inspect.Signature()
    yield f, X
    del inner.__signature__
    inner.__wrapped__ = lambda x, y: x
    yield f, X


@case
def class_getattr_of_a_module():
    module = types.ModuleType("lazy")
    module.__getattr__ = lambda name: 2

    def f(x):
        return x * module.anything

    yield f, X
    module.__getattr__ = lambda name: 3
    yield f, X
    module.anything = 4
    yield f, X


@case
def modules_of_sys():
    import sys

    def f(x):
        return x + 1 if "pellucid_no_such_module" in sys.modules else x - 1

    yield f, X
    sys.modules["pellucid_no_such_module"] = HELPERS
    try:
        yield f, X
    finally:
        del sys.modules["pellucid_no_such_module"]


@case
def import_in_the_function():
    import sys

    HELPERS.scale = 2.0
    sys.modules["pellucid_test_helpers"] = HELPERS

    def f(x):
        from pellucid_test_helpers import scale

        return x * scale

    try:
        yield f, X
        HELPERS.scale = 3.0
        yield f, X
        other = types.ModuleType("other")
        other.scale = 8.0
        sys.modules["pellucid_test_helpers"] = other
        yield f, X
    finally:
        del sys.modules["pellucid_test_helpers"]
        HELPERS.scale = 2.0


@case
def class_decorated_by_a_function_attribute():
    def f(x):
        return x * getattr(f, "scale", 1)

    yield f, X
    f.scale = 3
    yield f, X


@case
def functions_as_keys():
    table = {helper: 2, scaled: 3}

    def f(g, x):
        return x * table[g]

    yield f, helper, X
    yield f, scaled, X


# ---- functions that the region found in an object, an argument, a closure


def doubled(x):
    return x * 2


def in_namespace(**names):
    """`scaled` with other globals: the same code."""
    return types.FunctionType(scaled.__code__, {"__builtins__": __builtins__, **names})


CALLED = {
    "python_function_of_torch": (F.relu, F.silu, doubled),
    "function_of_polyfills": (torch.is_tensor, doubled),  # torch's, which they import
    "overload": (torch.ops.aten.sin.default, torch.ops.aten.cos.default),
    "packet": (torch.ops.aten.sin, torch.ops.aten.cos),
    "compiled": (pellucid.compile(doubled, backend="eager"), pellucid.compile(lambda x: x * 3, backend="eager")),
    "namespace": (in_namespace(G=2), in_namespace(G=3)),
    "builtins": (in_namespace(__builtins__={"G": 2}), in_namespace(__builtins__={"G": 3})),
}


@pellucid.compile(backend="eager")
def with_polyfills(x):
    return x * sum(sorted([2, 1], key=lambda n: -n))


with_polyfills(X)


class Layer:
    def __init__(self, function):
        self.function = function

    def apply(self, x):
        return self.function(x) + x


def called_case(name, functions):
    def as_argument():
        def f(function, x):
            return function(x) + x

        for function in (*functions, functions[0]):
            yield f, function, X

    def as_attribute():
        layer = Layer(None)
        for function in (*functions, functions[0]):
            layer.function = function
            yield Layer.apply, layer, X

    def as_variable():
        function = None

        def f(x):
            return function(x) + x

        for function in (*functions, functions[0]):
            yield f, X

    def as_item():
        table = {}

        def f(x):
            return table["function"](x) + x

        for function in (*functions, functions[0]):
            table["function"] = function
            yield f, X

    for make in (as_argument, as_attribute, as_variable, as_item):
        case(make, f"called_{name}_{make.__name__}")


for called_name, called_functions in CALLED.items():
    called_case(called_name, called_functions)


@pytest.mark.parametrize("make", CASES, ids=CASES.names)
def test_B01_change(make, counting):
    CASES.check(make, counting)


def test_compiled_function_without_breaks_in_place_of_one_with():
    def broken(x):
        pellucid.graph_break()
        return x * 2

    @pellucid.compile(backend="eager")
    def f(function, x):
        return function(x + 1)

    assert torch.equal(f(pellucid.compile(broken, backend="eager"), X), (X + 1) * 2)
    with pytest.raises(pellucid.errors.Unsupported):
        f(pellucid.compile(broken, backend="eager", fullgraph=True), X)
