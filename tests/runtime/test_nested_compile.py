"""What is compiled already and is met by compiled code (ours, or torch.compile's) becomes part of that code's graph."""

from __future__ import annotations

import functools

import pytest
import torch

import pellucid
from support import Counting, same

X = torch.arange(3.0)
INNER = Counting()


def double(x):
    return x.sin() + 1


compiled = pellucid.compile(double, backend=INNER)
partial = functools.partial(compiled)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.linear(x))


torch.manual_seed(0)
block = Block()
layer = pellucid.compile(block, backend=INNER)
layers = pellucid.compile(torch.nn.ModuleList([Block(), Block()]), backend=INNER)
bound = pellucid.compile(block.forward, backend=INNER)
hooked = pellucid.compile(Block(), backend=INNER)
hooked.register_forward_hook(lambda module, args, result: result * 2)
dropout = pellucid.compile(torch.nn.Dropout(), backend=INNER)


class Methods:
    @pellucid.compile(backend=INNER)
    def method(self, x):
        return x * 3

    @pellucid.compile(backend=INNER)
    def __call__(self, x):
        return x * 4

    @staticmethod
    @pellucid.compile(backend=INNER)
    def static(x):
        return x * 5

    @pellucid.compile(backend=INNER)
    @classmethod
    def of_class(cls, x):
        return x * 6


methods = Methods()


class Holder(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.block = inner, Block()

    def forward(self, x):
        return self.block(self.inner(x))


holder = Holder(layer)


def over_layers(x):
    for module in layers:
        x = module(x)
    return layers[0](x) + len(layers)


def evaluated(x):
    dropout.eval()
    y = dropout(x)
    dropout.train()
    return y


# (what is compiled once more, what it does)
CASES = {
    "a compiled function": (compiled, double),
    "a function called": (lambda x: compiled(x) * 2, lambda x: double(x) * 2),
    "a function called in a lambda": (lambda x: (lambda y: compiled(y))(x) * 2, lambda x: double(x) * 2),
    "a function called by map": (lambda x: list(map(compiled, [x]))[0] * 2, lambda x: double(x) * 2),
    "a partial": (partial, double),
    "a partial called": (lambda x: partial(x) * 2, lambda x: double(x) * 2),
    "__call__ of a function": (lambda x: compiled.__call__(x) * 2, lambda x: double(x) * 2),
    "a compiled module": (layer, block),
    "a module called": (lambda x: layer(x) * 2, lambda x: block(x) * 2),
    "forward of a module": (lambda x: layer.forward(x) * 2, lambda x: block(x) * 2),
    "__call__ of a module": (lambda x: layer.__call__(x) * 2, lambda x: block(x) * 2),
    "the original of a module": (lambda x: layer._orig_mod(x) * 2, lambda x: block(x) * 2),
    "a submodule": (lambda x: layer.linear(x) * 2, lambda x: block.linear(x) * 2),
    "a module in a module": (holder, lambda x: holder.block(block(x))),
    "twice in a Sequential": (torch.nn.Sequential(layer, layer), lambda x: block(block(x))),
    "modules in a list": (over_layers, lambda x: layers[0](layers[1](layers[0](x))) + 2),
    "parameters": (
        lambda x: x + sum(p.sum() for p in layer.parameters()),
        lambda x: x + sum(p.sum() for p in block.parameters()),
    ),
    "training": (lambda x: x + layer.training, lambda x: x + 1),
    "eval and train": (evaluated, lambda x: x),
    "a hook of the wrapper": (lambda x: hooked(x) + 1, lambda x: hooked._orig_mod(x) * 2 + 1),
    "a bound method": (lambda x: bound(x) + 1, lambda x: block(x) + 1),
    "a compiled method": (methods.method, lambda x: x * 3),
    "a method called": (lambda x: methods.method(x) + 1, lambda x: x * 3 + 1),
    "a method of the class": (lambda x: Methods.method(methods, x) + 1, lambda x: x * 3 + 1),
    "a static method": (lambda x: methods.static(x) + 1, lambda x: x * 5 + 1),
    "a class method": (lambda x: methods.of_class(x) + 1, lambda x: x * 6 + 1),
    "an object with a compiled call": (methods, lambda x: x * 4),
    "its call": (lambda x: methods(x) + 1, lambda x: x * 4 + 1),
}


@pytest.mark.parametrize("name", CASES)
def test_is_one_graph(name, counting):
    f, eager = CASES[name]
    calls = INNER.count
    outer = pellucid.compile(f, backend=counting, fullgraph=True)
    assert same(outer(X), eager(X)) and same(outer(X), eager(X)), name
    assert counting.count == 1 and INNER.count == calls


# torch.compile ends its graph before the binding of a method that is no Python function: its results are right then,
# its graphs two.
BINDS = {"a method called", "a class method", "an object with a compiled call", "its call"}


@pytest.mark.parametrize("name", sorted(CASES.keys() - BINDS))
def test_is_one_graph_of_torch_compile(name, counting):
    f, eager = CASES[name]
    calls = INNER.count
    torch._dynamo.reset()
    outer = torch.compile(f, backend=counting, fullgraph=True)
    assert same(outer(X), eager(X))
    assert counting.count == 1 and INNER.count == calls


def test_called_alone_they_are_what_they_were(counting):
    f = pellucid.compile(double, backend=counting)
    assert same(f.__call__(X), double(X)) and counting.count == 1
    assert isinstance(f.__call__, type(methods.method)) and same(type(f).__call__(f, X), double(X))
    assert counting.count == 1


def test_compiled_again_with_other_options(counting):
    again = pellucid.compile(pellucid.compile(double, backend=INNER, fullgraph=True), backend=counting)
    assert same(again(X), double(X)) and counting.count == 1
    again = pellucid.compile(layer, backend=counting)
    assert again is not layer and again._orig_mod is block and same(again(X), block(X)) and counting.count == 2


# ---- fullgraph=True lets no break through


@pytest.mark.parametrize("compile", [pellucid.compile, torch.compile])
def test_a_strict_function_is_strict_where_it_is_called(compile):
    """The same for both compilers: what fullgraph=True says of a function holds for what it runs, wherever it is called."""
    stop = pellucid.graph_break if compile is pellucid.compile else torch._dynamo.graph_break

    def stops(x):
        stop()
        return x + 1

    strict = compile(stops, backend="eager", fullgraph=True)
    lenient = compile(stops, backend="eager")
    unsupported = pellucid.errors.Unsupported if compile is pellucid.compile else torch._dynamo.exc.Unsupported
    torch._dynamo.reset()
    for outer in (strict, compile(lambda x: strict(x) * 2, backend="eager")):
        with pytest.raises(unsupported):
            outer(X)
    with pytest.raises(unsupported):
        compile(lambda x: lenient(x) * 2, backend="eager", fullgraph=True)(X)
    assert same(compile(lambda x: lenient(x) * 2, backend="eager")(X), (X + 1) * 2)
    assert same(compile(strict, backend="eager")(X), X + 1)


def test_breaks_beside_a_strict_function_are_none_of_its_business(counting):
    inner = pellucid.compile(double, backend="eager", fullgraph=True)

    def f(x):
        y = inner(x)
        pellucid.graph_break()
        return inner(y) + 1

    outer = pellucid.compile(f, backend=counting)
    assert same(outer(X), double(double(X)) + 1) and counting.count == 2


def test_an_error_that_only_capture_meets_is_a_break():
    """Capture is made to raise where the interpreter does not: with fullgraph=True that must not pass for a captured call."""
    seen = []

    def f(x):
        if not pellucid.is_compiling():
            seen.append("ran")
            return x + 1
        raise ValueError("met by capture only")

    with pytest.raises(pellucid.errors.Unsupported, match="met by capture only"):
        pellucid.compile(f, backend="eager", fullgraph=True)(X)
    assert seen == ["ran"]


def test_a_reached_limit_is_an_error_with_fullgraph(counting):
    def f(x, word):
        return x + len(word)

    strict = pellucid.compile(f, backend=counting, fullgraph=True)
    with pellucid.config.patch(recompile_limit=2):
        strict(X, ""), strict(X, "a")
        for _ in range(2):
            with pytest.raises(pellucid.errors.RecompileLimitExceeded, match="fullgraph"):
                strict(X, "ab")
        assert same(strict(X, "a"), X + 1)
    assert counting.count == 2


def test_a_limit_that_is_an_error_is_one_at_each_call(counting):
    f = pellucid.compile(lambda x, word: x + len(word), backend=counting)
    with pellucid.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        f(X, "a")
        for _ in range(2):
            with pytest.raises(pellucid.errors.RecompileLimitExceeded):
                f(X, "ab")
