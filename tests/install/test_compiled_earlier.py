"""What torch.compile made before install() is compiled by pellucid while it holds."""

import gc
import weakref

import torch
import torch._dynamo

import pellucid

X = torch.arange(6.0).reshape(2, 3)


def test_functions(counting):
    @torch.compile(backend=counting)
    def f(x):
        return x.sin() + 1

    strict = torch.compile(lambda x: x * 3, backend=counting, fullgraph=True)
    f(X), strict(X)
    made = counting.count
    with pellucid.installed():
        pellucid.counters.clear()
        assert torch.equal(f(X), X.sin() + 1) and torch.equal(strict(X), X * 3)
        assert pellucid.counters["stats"]["unique_graphs"] == 2 and counting.count == made + 2
    pellucid.counters.clear()
    assert torch.equal(f(X), X.sin() + 1) and torch.equal(strict(X), X * 3)
    assert pellucid.counters["stats"]["unique_graphs"] == 0 and counting.count == made + 2


def test_modules_and_inductor():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    compiled = torch.compile(net)
    with pellucid.installed():
        pellucid.counters.clear()
        torch.testing.assert_close(compiled(X), net(X))
        assert pellucid.counters["stats"]["unique_graphs"] == 1
    assert type(compiled) is torch._dynamo.OptimizedModule


def test_disabled_functions_stay_as_they_are(counting):
    def inner(x):
        return x + 1

    disabled = torch._dynamo.disable(torch.compile(inner, backend=counting))
    with pellucid.installed():
        assert torch.equal(disabled(X), X + 1) and counting.count == 0


def test_nothing_is_kept_alive():
    def make():
        return torch.compile(lambda x: x + 1, backend="eager")

    function = make()
    gone = weakref.ref(function)
    pellucid.install()
    del function
    gc.collect()
    assert gone() is None
    pellucid.uninstall()
