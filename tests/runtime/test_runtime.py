"""pellucid.compile as a function, decorator, on methods and modules; what a compiled function is as a Python object."""

from __future__ import annotations

import ast
import copy
import functools
import gc
import inspect
import pathlib
import pickle
import subprocess
import sys
import types
import typing
import weakref

import pytest
import torch

import pellucid
from support import assert_as_eager, same

X = torch.arange(3.0)


# ---- call forms (more in test_call_forms.py)


def double(x):
    return x * 2 + 1


@pellucid.compile(backend="eager")
def with_backend(x, *, scale=2.0):
    """What it does."""
    return x * scale + 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.tag = "net"

    def forward(self, x, scale=1.0):
        return self.linear(x) * scale


def test_A03_no_arguments(counting):
    def f():
        y = torch.ones(3)
        return y + y

    assert same(pellucid.compile(f, backend=counting)(), f())
    assert counting.count == 1
    assert not [n for n in counting.graphs[0].graph.nodes if n.op == "placeholder"]


def test_methods_bind():
    class Thing:
        k = 3

        @pellucid.compile(backend="eager")
        def method(self, x, y=1):
            return x * self.k + y

        @classmethod
        @pellucid.compile(backend="eager")
        def of_class(cls, x):
            return x * cls.k

        @staticmethod
        @pellucid.compile(backend="eager")
        def static(x):
            return x - 1

        @pellucid.compile(backend="eager")
        @staticmethod
        def outside_static(x):
            return x - 2

        @pellucid.compile(backend="eager")
        @classmethod
        def outside_class(cls, x):
            return x * cls.k - 2

        @property
        @pellucid.compile(backend="eager")
        def value(self):
            return X * self.k

    thing = Thing()
    assert same(thing.method(X), X * 3 + 1)
    assert same(thing.method(X, y=5), X * 3 + 5)
    assert same(Thing.method(thing, X, 2), X * 3 + 2)
    assert same(thing.of_class(X), X * 3) and same(Thing.of_class(X), X * 3)
    assert same(thing.static(X), X - 1) and same(Thing.static(X), X - 1)
    assert same(thing.outside_static(X), X - 2) and same(thing.outside_class(X), X * 3 - 2)
    assert same(thing.value, X * 3)
    bound = thing.method
    assert isinstance(bound, types.MethodType) and bound.__self__ is thing and bound.__func__ is Thing.method
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        thing.method()


def test_bound_method_as_target(counting):
    class Thing:
        k = 3

        def method(self, x):
            return x * self.k

    thing = Thing()
    compiled = pellucid.compile(thing.method, backend=counting)
    assert same(compiled(X), X * 3) and compiled.__self__ is thing
    assert counting.count == 1


def test_other_callables():
    class Adder:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x + self.k

    for target in (Adder(2), functools.partial(torch.add, X), torch.sin, functools.partial(double)):
        compiled = pellucid.compile(target, backend="eager")
        assert same(compiled(X), target(X))
        assert compiled.__wrapped__ is not None


def test_class_as_target():
    @pellucid.compile(backend="eager")
    class Adder:
        def __call__(self, x):
            return x + 5

    assert inspect.isclass(Adder) and same(Adder()(X), X + 5)
    with pytest.raises(TypeError, match="cannot be called"):

        @pellucid.compile(backend="eager")
        class Empty:
            pass


def test_compiling_a_compiled_function(counting):
    first = pellucid.compile(double, backend="eager")
    second = pellucid.compile(first, backend=counting)
    assert second.__wrapped__ is double
    assert same(second(X), double(X)) and counting.count == 1


def test_disable_argument():
    assert pellucid.compile(double, disable=True) is double
    assert pellucid.compile(disable=True)(double) is double


# ---- signatures: bound exactly as CPython binds them


def s_plain(a, b):
    return (a, b)


def s_defaults(a, b=2, c=3):
    return (a, b, c)


def s_positional_only(a, b=2, /, c=3):
    return (a, b, c)


def s_keyword_only(a, *, k, m=5):
    return (a, k, m)


def s_varargs(a, *rest):
    return (a, rest)


def s_varkeywords(a, **more):
    return (a, more)


def s_all(a, b=2, /, c=3, *rest, k, m=5, **more):
    return (a, b, c, rest, k, m, more)


def s_name_clash(a, /, **more):
    return (a, more)


def s_many(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r=1, *, s=2, **t):  # noqa: E741
    return (a, q, r, s, t)


def s_cells(a, b=2, *rest, k=3, **more):
    return (lambda: (a, b, rest, k, more))()


SIGNATURES = [
    s_plain,
    s_defaults,
    s_positional_only,
    s_keyword_only,
    s_varargs,
    s_varkeywords,
    s_all,
    s_name_clash,
    s_cells,
]
CALLS = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((1, 2, 3, 4, 5), {}),
    ((1,), {"b": 7}),
    ((), {"a": 1, "b": 7}),
    ((1,), {"a": 2}),
    ((1, 2), {"c": 9}),
    ((1,), {"k": 4}),
    ((1, 2, 3, 4), {"k": 4, "z": 8}),
    ((1,), {"k": 4, "m": 6, "z": 8, "y": 9}),
    ((1,), {"zz": 1}),
]


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda f: f.__name__)
def test_C17_signature_forms(function):
    compiled = pellucid.compile(function, backend="eager")
    for args, kwargs in CALLS * 2:
        assert_as_eager(compiled, function, *args, **kwargs)


def test_signature_with_many_parameters():
    compiled = pellucid.compile(s_many, backend="eager")
    for extra in ({}, {"r": 5}, {"s": 6}, {"u": 7, "s": 8}):
        assert_as_eager(compiled, s_many, *range(17), **extra)
    assert_as_eager(compiled, s_many, *range(16))
    assert_as_eager(compiled, s_many, *range(19))


def test_keywords_that_are_not_interned():
    compiled = pellucid.compile(s_defaults, backend="eager")
    name = "".join(["_", "b"])[1:]
    assert compiled(1, **{name: 5}) == (1, 5, 3)


def test_fresh_varargs_and_varkeywords():
    def f(*rest, **more):
        more["seen"] = len(rest)
        return rest, more

    compiled = pellucid.compile(f, backend="eager")
    given = {"a": 1}
    for _ in range(3):
        assert compiled(1, 2, **given) == f(1, 2, **given)
    assert given == {"a": 1}


def test_defaults_changed_later():
    def f(x, k=1):
        return x + k

    compiled = pellucid.compile(f, backend="eager")
    assert same(compiled(X), X + 1)
    f.__defaults__ = (2,)
    assert same(compiled(X), X + 2)
    compiled.__defaults__ = (3,)
    assert f.__defaults__ == (3,) and same(compiled(X), X + 3)


def test_code_changed_later():
    def f(x):
        return x + 1

    def g(x):
        return x + 2

    compiled = pellucid.compile(f, backend="eager")
    assert same(compiled(X), X + 1)
    f.__code__ = g.__code__
    assert same(compiled(X), X + 2)


# ---- a compiled function as an object


def test_attributes():
    assert with_backend.__name__ == "with_backend" and with_backend.__qualname__ == "with_backend"
    assert with_backend.__doc__ == "What it does." and with_backend.__module__ == __name__
    original = with_backend.__wrapped__
    for name in ("__code__", "__defaults__", "__kwdefaults__", "__globals__", "__closure__", "__annotations__"):
        assert getattr(with_backend, name) is getattr(original, name) or getattr(with_backend, name) == getattr(
            original, name
        )
    assert inspect.signature(with_backend) == inspect.signature(original)
    assert "return x * scale + 1" in inspect.getsource(with_backend)
    assert inspect.unwrap(with_backend) is original
    assert callable(with_backend) and not inspect.isfunction(with_backend)


def test_attributes_can_be_set():
    compiled = pellucid.compile(double, backend="eager")
    compiled.extra = 5
    compiled.__name__ = "other"
    compiled.__wrapped__ = None
    assert compiled.extra == 5 and compiled.__name__ == "other" and compiled.__wrapped__ is None
    assert double.__name__ == "double" and not hasattr(double, "extra")
    del compiled.extra, compiled.__name__
    assert not hasattr(compiled, "extra") and compiled.__name__ == "double"
    with pytest.raises(AttributeError):
        _ = compiled.nothing


def test_attributes_of_the_function_are_copied():
    def f(x):
        return x

    f.mark = 3
    compiled = pellucid.compile(f, backend="eager")
    assert compiled.mark == 3
    compiled.mark = 4
    assert f.mark == 3


def test_functools_wraps():
    @functools.wraps(with_backend)
    def outer(x):
        return with_backend(x)

    assert outer.__name__ == "with_backend" and outer.__wrapped__ is with_backend
    assert same(outer(X), double(X))


def test_copies_and_pickles():
    assert copy.copy(with_backend) is with_backend and copy.deepcopy(with_backend) is with_backend
    assert pickle.loads(pickle.dumps(with_backend)) is with_backend
    assert copy.deepcopy({"f": with_backend})["f"] is with_backend


def test_weak_references_and_freeing():
    def f(x):
        return x + 1

    compiled = pellucid.compile(f, backend="eager")
    compiled(X)
    watch, watch_function = weakref.ref(compiled), weakref.ref(f)
    gc.disable()
    try:
        del compiled, f
        assert watch() is None and watch_function() is None
    finally:
        gc.enable()


def test_cycle_through_a_closure_is_collected():
    def make():
        def f(x):
            return x + 1 if x.dim() else f(x)

        f = pellucid.compile(f, backend="eager")
        return f

    f = make()
    f(X)
    watch = weakref.ref(f)
    del f
    gc.collect()
    assert watch() is None


def test_two_closures_of_one_code():
    def make(k):
        @pellucid.compile(backend="eager")
        def f(x):
            return x * k

        return f

    functions = [make(k) for k in (1, 2, 3)]
    for _ in range(3):
        for k, f in zip((1, 2, 3), functions, strict=True):
            assert same(f(X), X * k)


def test_same_code_with_other_globals():
    source = "def f(x):\n    return x * K\n"
    spaces = [{"K": 2}, {"K": 3}]
    functions = []
    for space in spaces:
        exec(source, space)
        functions.append(types.FunctionType(space["f"].__code__, space))
    code = functions[0].__code__
    functions = [pellucid.compile(types.FunctionType(code, space), backend="eager") for space in spaces]
    for _ in range(2):
        assert same(functions[0](X), X * 2) and same(functions[1](X), X * 3)


def test_exceptions_are_the_programs_own():
    def f(x):
        if x.dim() == 1:
            raise KeyError("mine")
        return x

    compiled = pellucid.compile(f, backend="eager")
    for _ in range(3):
        with pytest.raises(KeyError, match="mine") as caught:
            compiled(X)
        assert caught.traceback[-1].name == "f"
    assert same(compiled(torch.ones(2, 2)), torch.ones(2, 2))


def test_generator_functions_run_eagerly():
    @pellucid.compile(backend="eager")
    def f(x):
        yield x
        yield x + 1

    assert same(list(f(X)), [X, X + 1])


# ---- bad input


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"backend": "no_such"}, pellucid.errors.InvalidBackend, "no_such.*inductor"),
        ({"backend": 5}, TypeError, "backend must be a name or a callable, not int"),
        ({"fullgraph": 1}, TypeError, "fullgraph must be bool, not int"),
        ({"dynamic": "yes"}, TypeError, "dynamic must be bool or None, not str"),
        ({"mode": 3}, TypeError, "mode must be str"),
        ({"mode": "no-such-mode"}, ValueError, "no-such-mode"),
        ({"options": []}, TypeError, "options must be dict"),
        ({"options": {"no_such_option": 1}}, ValueError, "no_such_option"),
        ({"mode": "default", "options": {}}, ValueError, "together"),
    ],
)
def test_wrong_arguments(kwargs, error, text):
    with pytest.raises(error, match=text):
        pellucid.compile(double, **kwargs)


def test_wrong_targets():
    with pytest.raises(TypeError, match="needs a function, a module or another callable, not int"):
        pellucid.compile(3, backend="eager")
    with pytest.raises(TypeError, match="needs a function, a module or another callable, not Tensor"):
        pellucid.compile(X, backend="eager")
    with pytest.raises(TypeError, match="ScriptModule"):
        pellucid.compile(torch.jit.script(torch.nn.Linear(2, 2)), backend="eager")
    with pytest.raises(TypeError, match=r"made by|compiled by pellucid"):
        pellucid.guard_failures(double)
    with pytest.raises(TypeError, match="needs a callable"):
        pellucid.disable(5)


def test_D01_backend_that_returns_nothing():
    with pytest.raises(pellucid.errors.BackendCompilerFailed, match="did not return callable"):
        pellucid.compile(double, backend=lambda gm, inputs: None)(X)


def test_D10_backend_that_raises():
    def bad(gm, inputs):
        raise ZeroDivisionError("on purpose")

    compiled = pellucid.compile(double, backend=bad)
    for _ in range(2):
        with pytest.raises(pellucid.errors.BackendCompilerFailed, match="on purpose") as caught:
            compiled(X)
        assert isinstance(caught.value.inner_exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ("sys.version_info = (3, 12, 0, 'final', 0)", "needs CPython 3.11"),
        ("import torch; torch.__version__ = '2.12.1+cpu'", "needs PyTorch 2.13; this is 2.12.1"),
    ],
)
def test_unsupported_versions(patch, text):
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {patch}; import pellucid"], capture_output=True, text=True, check=False
    )
    assert run.returncode != 0 and "ImportError" in run.stderr and text in run.stderr


def test_imports_are_light():
    program = (
        "import sys, torch, pellucid\n"
        "f = pellucid.compile(lambda x: x + 1, backend='eager')\n"
        "f(torch.ones(3)); f(torch.ones(4))\n"
        "heavy = sorted(m for m in sys.modules if m.split('.')[0] == 'sympy' or m.startswith('torch._dynamo') or m.startswith('torch._inductor'))\n"
        "print(heavy)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# ---- the small functions


def test_disable_and_graph_break_in_eager_python():
    calls = []

    @pellucid.disable(reason="why not")
    def log(x):
        """Logs."""
        calls.append(1)
        return x

    assert log(X) is X and calls == [1] and log.__doc__ == "Logs."
    assert log._torchdynamo_disable is True and log._torchdynamo_disable_msg == "why not"
    assert pellucid.disable(double)(X).equal(double(X)) and not hasattr(double, "_torchdynamo_disable")
    assert pellucid.graph_break("no effect") is None
    assert pellucid.is_compiling() is False


def test_M14_is_compiling_in_a_backend():
    seen = []

    def backend(gm, inputs):
        seen.append(pellucid.is_compiling())
        return gm.forward

    pellucid.compile(double, backend=backend)(X)
    assert seen == [True] and not pellucid.is_compiling()


def test_list_backends():
    assert "inductor" in pellucid.list_backends() and "eager" in pellucid.list_backends(None)


def test_every_public_function_is_documented():
    for name in pellucid.__all__:
        thing = getattr(pellucid, name)
        assert thing.__doc__, name
        if inspect.isfunction(thing):
            assert "Example:" in thing.__doc__, name
            assert typing.get_type_hints(thing), name


def test_stub_of_the_core_is_complete():
    stub = pathlib.Path(pellucid.__file__).with_name("_core.pyi").read_text()
    described = {node.name for node in ast.parse(stub).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    public = {name for name in described if not name.startswith("_")}
    assert {name for name in dir(pellucid._core) if not name.startswith("_")} == public - {"Event", "CacheEntry"}


# ---- config


def test_config():
    config = pellucid.config
    assert config.recompile_limit == 8 and config.cache_size_limit == 8
    config.cache_size_limit = 5
    assert config.recompile_limit == 5
    del config.recompile_limit
    assert config.recompile_limit == 8
    with config.patch(recompile_limit=2), config.patch({"fail_on_recompile_limit_hit": True}):
        assert config.recompile_limit == 2 and config.fail_on_recompile_limit_hit
    assert config.recompile_limit == 8 and not config.fail_on_recompile_limit_hit
    for use in (
        lambda: config.no_such,
        lambda: setattr(config, "no_such", 1),
        lambda: config.patch(no_such=1).__enter__(),
    ):
        with pytest.raises(AttributeError, match=r"no option 'no_such'.*recompile_limit"):
            use()
    for value, error in ((1.5, TypeError), (True, TypeError), (-1, ValueError)):
        with pytest.raises(error, match="recompile_limit"):
            config.recompile_limit = value


def test_config_patch_is_per_thread():
    import threading

    seen = []
    inside, leave = threading.Event(), threading.Event()

    def other():
        with pellucid.config.patch(recompile_limit=3):
            inside.set()
            leave.wait(10)
            seen.append(pellucid.config.recompile_limit)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    seen.append(pellucid.config.recompile_limit)
    leave.set()
    thread.join()
    assert seen == [8, 3]
