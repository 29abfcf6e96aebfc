"""Backends that decide on purpose by the sizes that they get open: in the forward graph, while they compile the backward one,
and from a warm cache. A call for which that is not true misses the entry, and calls for which it is true share it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified
from torch._inductor.custom_graph_pass import CustomGraphPass

import pellucid
from support import CountingOf
from support.sizes import many_entries

# A question, the calls that get the answer of the third one, and calls that do not: sizes s and t of two tensors.
QUESTIONS = {
    "divisible": (lambda s, t: s % 8 == 0, [(24, 9), (8, 5), (64, 9)], [(20, 9), (9, 9), (100, 5)]),
    "at most": (lambda s, t: s <= 100, [(100, 9), (2, 7), (99, 4)], [(101, 9), (128, 5), (500, 9)]),
    "equal": (lambda s, t: s == t, [(9, 9), (16, 16), (100, 100)], [(9, 10), (10, 9), (16, 100)]),
    "at most together": (lambda s, t: s * t <= 256, [(16, 16), (2, 128), (60, 4)], [(16, 17), (65, 4), (100, 100)]),
    "quotient": (lambda s, t: s // 4 > t, [(40, 9), (12, 2), (99, 4)], [(40, 10), (12, 3), (4, 100)]),
}


def sizes_of(values) -> list[torch.SymInt]:
    """The open sizes of tensors, each once, in the order of the program's arguments."""
    found = {}
    for value in values:
        for size in value.size() if isinstance(value, torch.Tensor) else ():
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                source = size.node.shape_env.var_to_sources[size.node.expr][0]
                found.setdefault(source.name, size)
    return [found[name] for name in sorted(found)]


class Deciding:
    """Asks in the forward graph, or in a compiler of AOTAutograd."""

    def __init__(self, question, where: str) -> None:
        self.question, self.where, self.count, self.answers = question, where, 0, []

    def __call__(self, gm, example_inputs):
        self.count += 1
        if self.where == "graph":
            self.ask(node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder"))
            return gm.forward
        forward, backward = self.compiler("forward"), self.compiler("backward")
        return aot_module_simplified(gm, example_inputs, fw_compiler=forward, bw_compiler=backward)

    def compiler(self, stage: str):
        def compile(gm, example_inputs):
            if stage == self.where:
                self.ask(example_inputs)
            return make_boxed_func(gm.forward)

        return compile

    def ask(self, values) -> None:
        sizes = sizes_of(values)
        if len(sizes) == 2:
            self.answers.append(bool(self.question(*sizes)))


def products(x, y):
    return x.sin() * 2, y.exp() * x.sum()


def call_beside_eager(compiled, s: int, t: int) -> None:
    results = []
    for f in products, compiled:
        inputs = [torch.linspace(-1, 1, n).requires_grad_() for n in (s, t)]
        made = f(*inputs)
        results.append((made, torch.autograd.grad(sum(y.sum() for y in made), inputs)))
    torch.testing.assert_close(*results, msg=lambda text: f"{s}, {t}: {text}")


@pytest.mark.parametrize("where", ["graph", "forward", "backward"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_what_a_backend_decides_is_a_guard(question, where):
    ask, fits, misses = QUESTIONS[question]
    backend = Deciding(ask, where)
    compiled = pellucid.compile(products, backend=backend, dynamic=True)
    with many_entries():
        call_beside_eager(compiled, *fits[-1])
        assert (backend.count, backend.answers) == (1, [True])
        for sizes in fits:
            call_beside_eager(compiled, *sizes)
        assert backend.count == 1
        for sizes in misses:
            call_beside_eager(compiled, *sizes)
        assert (backend.count, backend.answers) == (2, [True, False])  # and they share one entry
        for sizes in fits + misses:
            call_beside_eager(compiled, *sizes)
        assert backend.count == 2


class Pass(CustomGraphPass):
    """Decides in the middle of Inductor, in both graphs. Its name lets Inductor keep the result in its cache."""

    def __init__(self, name: str, question) -> None:
        self.name, self.question, self.answers = name, question, []

    def __call__(self, graph) -> None:
        sizes = sizes_of(node.meta.get("val") for node in graph.find_nodes(op="placeholder"))
        if len(sizes) == 2:
            self.answers.append(bool(self.question(*sizes)))

    def uuid(self) -> bytes:
        return self.name.encode()


@pytest.mark.parametrize("question", ["divisible", "at most", "equal"])
def test_from_a_warm_cache(question, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    ask, fits, misses = QUESTIONS[question]
    counters = torch._dynamo.utils.counters
    for is_warm in (False, True):
        decides = Pass(question, ask)
        counts = []
        counters.clear()
        with many_entries(), torch._inductor.config.patch(post_grad_custom_pre_pass=decides):
            compiled = pellucid.compile(products, backend="inductor", dynamic=True)
            for calls in fits[-1:], fits, misses, fits + misses:
                for sizes in calls:
                    call_beside_eager(compiled, *sizes)
                counts.append(pellucid.counters()["graphs"])
        assert counts == [1, 1, 2, 2], is_warm
        assert bool(decides.answers) != is_warm, "the second time it is not asked"
        assert bool(counters["aot_autograd"]["autograd_cache_hit"]) == is_warm
        pellucid.reset()
        pellucid.counters.clear()


# Inductor compiles a sum otherwise from 4096 elements on.
BOUNDARY = """
import json
import sys

import torch

import pellucid


def f(x):
    return (x * 2 + x.mean()).sin()


compiled, graphs = pellucid.compile(f, backend="inductor"), []
for size in map(int, sys.argv[1:]):
    results = []
    for function in f, compiled:
        x = torch.linspace(0, 1, size * 32).view(size, 32).requires_grad_()
        y = function(x)
        results.append((y, torch.autograd.grad(y.sum(), x)))
    torch.testing.assert_close(*results)
    graphs.append(pellucid.counters()["graphs"])
hits = torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"]
print(json.dumps([graphs, hits]))
"""


def run_boundary(*sizes: int) -> list:
    run = subprocess.run(
        [sys.executable, "-c", BOUNDARY, *map(str, sizes)], capture_output=True, text=True, timeout=300, env=os.environ
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


@pytest.mark.slow
def test_boundary_sizes_in_a_second_process(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    sizes = (100, 127, 128, 129, 130, 126, 128, 1000)
    graphs = [1, 2, 2, 3, 3, 3, 3, 3]  # the first size, up to 128, and from 129 on
    assert run_boundary(*sizes) == [graphs, 0]
    assert run_boundary(*sizes) == [graphs, 3]
    # What the cache holds from 129 on is no use below, and the other way round.
    assert run_boundary(300, 129, 128, 127, 129) == [[1, 2, 3, 3, 3], 2]


class Window:
    """A cache of the last tokens, as models with sliding attention keep it, and how many tokens there were."""

    def __init__(self):
        self.kept = torch.ones(4)
        self.count = 4


def slide(x, window):
    is_full = window.count >= 6
    window.count += 1
    length = 6 if is_full else window.count
    tokens = torch.cat([window.kept, x])
    window.kept = tokens[-5:]
    if length < 6:
        return tokens * 2
    return tokens * (torch.arange(length) + max(window.count - 6, 0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_number_with_one_value_by_the_branches_of_a_call_is_open_behind_others(backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(slide, backend=counting)
    ours, eagers = Window(), Window()
    for _ in range(12):
        x = torch.rand(1)
        torch.testing.assert_close(compiled(x, ours), slide(x, eagers), rtol=0, atol=0)
        assert torch.equal(ours.kept, eagers.kept) and ours.count == eagers.count
    assert counting.count == 3  # while it fills: one token is missing, then none; and one for all calls behind that
