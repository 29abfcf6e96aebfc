"""Wrappers of different modules share what is compiled; each keeps what it uses, and nothing else."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import pytest
import torch

import pellucid
from support import same

X = torch.arange(8.0).reshape(2, 4)


class Block(torch.nn.Module):
    def __init__(self, width=4, activation="relu"):
        super().__init__()
        self.linear = torch.nn.Linear(4, width)
        self.drop = torch.nn.Dropout(0.5)
        self.activation = activation

    def forward(self, x):
        return self.drop(getattr(torch, self.activation)(self.linear(x)))


class Breaks(Block):
    def forward(self, x):
        y = self.linear(x)
        pellucid.graph_break()
        z = y * 2
        pellucid.graph_break()
        return z + self.linear.bias


def compiled_all(blocks, backend):
    return [pellucid.compile(block, backend=backend) for block in blocks]


def as_eager(compiled, x=X):
    return all(same(module(x), module._orig_mod(x)) for module in compiled)


def entry_code(compiled):
    return [entry["code"] for entry in pellucid.cache_entries(compiled)]


def test_equal_blocks_are_compiled_once(counting):
    # Two random blocks with a relu may both give zeros alone.
    compiled = compiled_all([Block(activation="tanh").eval() for _ in range(12)], counting)
    for _ in range(3):
        assert as_eager(compiled)
    assert counting.count == 1
    assert all(entry_code(module) == entry_code(compiled[0]) and len(entry_code(module)) == 1 for module in compiled)
    results = [module(X) for module in compiled]
    assert not any(same(a, b) for i, a in enumerate(results) for b in results[:i])
    assert pellucid.counters()["recompiles"] == 0 and pellucid.guard_failures(compiled[3]) == []


def test_gradients_reach_each_one(counting):
    compiled = compiled_all([Block().eval() for _ in range(3)], counting)
    for module in compiled:
        module(X).sum().backward()
        got = [parameter.grad.clone() for parameter in module.parameters()]
        module.zero_grad()
        module._orig_mod(X).sum().backward()
        assert same(got, [parameter.grad for parameter in module.parameters()])
    assert counting.count == 1


def test_other_structure_has_other_entries(counting):
    blocks = [Block(), Block(), Block(width=5), Block(activation="tanh"), Block(activation="tanh"), Block().double()]
    del blocks[1].drop
    blocks[1].drop = torch.nn.Identity()
    compiled = compiled_all([block.eval() for block in blocks], counting)
    for _ in range(2):
        assert as_eager(compiled[:-1]) and as_eager(compiled[-1:], X.double())
    assert counting.count == 5
    assert [len(entry_code(module)) for module in compiled] == [1] * 6


def test_training_and_eval(counting):
    compiled = compiled_all([Block() for _ in range(4)], counting)
    for module in compiled:
        torch.manual_seed(0)
        got = module(X)
        torch.manual_seed(0)
        assert same(got, module._orig_mod(X))
    assert counting.count == 1
    for module in compiled:
        module.eval()
    assert as_eager(compiled) and counting.count == 2
    compiled[2].train()
    torch.manual_seed(0)
    got = compiled[2](X)
    torch.manual_seed(0)
    assert same(got, compiled[2]._orig_mod(X)) and as_eager(compiled[:2]) and counting.count == 2


def test_one_that_changes_later(counting):
    compiled = compiled_all([Block().eval() for _ in range(3)], counting)
    assert as_eager(compiled)
    compiled[1].activation = "sin"
    assert as_eager(compiled) and as_eager(compiled) and counting.count == 2
    compiled[0].linear.register_forward_hook(lambda module, args, result: result + 1)
    assert as_eager(compiled) and counting.count == 3
    compiled[2].linear.weight = torch.nn.Parameter(torch.zeros(4, 4))
    assert as_eager(compiled) and counting.count == 3


def test_programs_with_breaks(counting):
    compiled = compiled_all([Breaks().eval() for _ in range(5)], counting)
    for _ in range(3):
        assert as_eager(compiled)
    assert counting.count == 3
    strict = pellucid.compile(Breaks().eval(), backend=counting, fullgraph=True)
    with pytest.raises(pellucid.errors.Unsupported):
        strict(X)


def test_methods_and_functions_too(counting):
    blocks = [Block().eval() for _ in range(3)]
    bound = [pellucid.compile(block.forward, backend=counting) for block in blocks]
    assert all(same(f(X), block(X)) for f, block in zip(bound, blocks, strict=True)) and counting.count == 1
    function = pellucid.compile(Block.forward, backend=counting)
    assert all(same(function(block, X), block(X)) for block in blocks) and counting.count == 1


def test_other_backends_and_options_do_not_share(counting):
    block = Block().eval()
    for options in ({"level": 1}, {"level": 2}):
        seen = []
        for _ in range(2):
            module = pellucid.compile(
                block, backend=lambda gm, inputs, options=None: seen.append(options) or gm.forward, options=options
            )
            assert same(module(X), block(X))
        assert seen == [options, options]
    assert as_eager(compiled_all([block, block], counting)) and counting.count == 1


def test_the_limit_is_each_ones_own(counting):
    with pellucid.config.patch(recompile_limit=2):
        compiled = compiled_all([Block().eval() for _ in range(4)], counting)
        for size in (1, 2):
            assert as_eager(compiled, torch.ones(size, 4))
        assert counting.count == 2
        for size in (3, 4):
            assert as_eager(compiled, torch.ones(size, 4))
        assert [len(entry_code(module)) for module in compiled] == [2] * 4
        others = compiled_all([Block(activation=name).eval() for name in ("sin", "cos", "tanh", "exp")], counting)
        assert as_eager(others) and [len(entry_code(module)) for module in others] == [1] * 4


def test_deepcopy_uses_what_fits_and_nothing_else(counting):
    first = pellucid.compile(Block().eval(), backend=counting)
    first(X)
    second = copy.deepcopy(first)
    assert entry_code(second) == []
    with torch.no_grad():
        second.linear.weight.mul_(2)
    assert as_eager([first, second]) and not same(first(X), second(X)) and counting.count == 1
    second.activation = "sin"
    assert as_eager([first, second]) and counting.count == 2
    assert len(entry_code(first)) == 1 and len(entry_code(second)) == 2


def test_a_dead_module_is_not_kept_and_takes_nothing_along(counting):
    compiled = compiled_all([Block().eval() for _ in range(3)], counting)
    assert as_eager(compiled) and counting.count == 1
    watches = [weakref.ref(compiled[0]._orig_mod), weakref.ref(compiled[0].linear.weight)]
    gc.disable()
    try:
        del compiled[0]
        assert [watch() for watch in watches] == [None, None]
    finally:
        gc.enable()
    assert as_eager(compiled) and counting.count == 1
    assert as_eager(compiled_all([Block().eval()], counting)) and counting.count == 1


def test_what_only_dead_ones_needed_goes(counting):
    kept = pellucid.compile(Block().eval(), backend=counting)
    kept(X)
    short_lived = pellucid.compile(Block(activation="sin").eval(), backend=counting)
    short_lived(X)
    (entry,) = pellucid.cache_entries(short_lived)
    watch = weakref.ref(entry["function"])
    del entry, short_lived
    gc.collect()
    assert watch() is None
    assert as_eager([kept, pellucid.compile(Block(activation="sin").eval(), backend=counting)]) and counting.count == 3


class Holds:
    def __init__(self, value):
        self.value = value


class ByIdentity(Block):
    """Where capture knows an object by its identity, the entry fits nobody else."""

    def __init__(self):
        super().__init__()
        self.key, self.table = Holds(1), {}
        self.table[self.key] = 2.0

    def forward(self, x):
        return self.linear(x) * self.table[self.key]


def test_objects_known_by_identity(counting):
    compiled = compiled_all([ByIdentity().eval() for _ in range(3)], counting)
    for _ in range(2):
        assert as_eager(compiled)
    del compiled[0]
    gc.collect()
    assert as_eager(compiled)


def test_collected_in_a_cycle(counting):
    """The collector sees what each cache holds: shared regions are no roots and are not cleared under the others."""
    compiled = compiled_all([Block().eval() for _ in range(3)], counting)
    assert as_eager(compiled)
    compiled[0].__dict__["itself"] = compiled[0]
    watch = weakref.ref(compiled[0]._orig_mod)
    del compiled[0]
    gc.collect()
    assert watch() is None and as_eager(compiled) and counting.count == 1


def test_reset(counting):
    compiled = compiled_all([Block().eval() for _ in range(3)], counting)
    assert as_eager(compiled)
    pellucid.reset()
    assert [entry_code(module) for module in compiled] == [[], [], []]
    assert as_eager(compiled) and counting.count == 2


def test_each_looks_at_its_own_last_one_first(counting):
    """Calls in turn find the entry at once: what others use does not come before it."""
    compiled = compiled_all(
        [Block(activation=name).eval() for name in ("sin", "cos", "tanh", "exp") for _ in range(2)], counting
    )
    for _ in range(3):
        assert as_eager(compiled)
    assert counting.count == 4
    for module in compiled:
        (entry,) = pellucid.cache_entries(module)
        assert entry["hits"] == 2  # the first call took it over
        assert all(
            eval(guard, {**entry["scope"], "L": {"self": module._orig_mod, "args": (X,), "kwargs": {}}})
            for guard in entry["guards"]
        )


def test_from_many_threads(counting):
    compiled = compiled_all([Block(activation=name).eval() for name in ("sin", "cos") for _ in range(6)], counting)
    wrong = []

    def work(modules):
        for _ in range(20):
            wrong.extend(module for module in modules if not same(module(X), module._orig_mod(X)))

    threads = [threading.Thread(target=work, args=(compiled[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and counting.count <= 8
