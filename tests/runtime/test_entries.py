"""Cache entries: their guards as text and as Python, the limit, reasons of misses, names, reset (docs/feature_rows.md, B10 to B18)."""

import gc
import logging
import types
import weakref

import pytest
import torch
import torch.nn.functional as F

import pellucid
from support import Counting, same

X = torch.arange(1.0, 4.0)
SCALE = 2


# ---- B01, B02: what was read is guarded


def scaled(x):
    return x * SCALE


# ---- B10, B11, B12: what can be seen of the guards and entries


def test_B10_guards_are_printable():
    output = pellucid.explain(scaled)(X)
    line = scaled.__code__.co_firstlineno + 1
    (guard,) = (g for g in output.out_guards if g.source == "G['SCALE']")
    assert (guard.kind, guard.text, guard.file, guard.line) == ("EQUALS_MATCH", "2", __file__, line)
    text = str(guard)
    for part in ("Name: \"G['SCALE']\"", "Source: DictItem", "Create Function: EQUALS_MATCH", f"{__file__}:{line}"):
        assert part in text
    (argument,) = (g for g in output.out_guards if g.source == "L['x']" and g.kind == "TENSOR_MATCH")
    assert argument.source_kind == "Local" and "f32[3]" in argument.text and argument.operation == "is an argument"


def fits(entry, **locals):
    return all(eval(guard, {**entry["scope"], "L": locals}) for guard in entry["guards"])


def test_B11_guards_of_an_entry_are_python_expressions(monkeypatch):
    bias = torch.ones(3)

    def f(x, k, net):
        return net(x) * k + bias if k > 1 else x + SCALE

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    net = torch.nn.Linear(3, 3)
    compiled(X, 2, net), compiled(X, 1, net)
    small, large = pellucid.cache_entries(compiled)
    assert fits(large, x=X, k=2, net=net) and fits(large, x=X + 1, k=2, net=torch.nn.Linear(3, 3))
    assert fits(small, x=X, k=1, net=net)
    with torch.no_grad():
        assert not fits(large, x=X, k=2, net=net)
    for x, k in [(X, 3), (X, 2.0), (X.double(), 2), (torch.ones(4), 2), (None, 2)]:
        assert not fits(large, x=x, k=k, net=net) and not fits(small, x=x, k=k, net=net)
    monkeypatch.setitem(globals(), "SCALE", 5)
    assert fits(large, x=X, k=2, net=net) and not fits(small, x=X, k=1, net=net)
    bias = torch.ones(4)
    assert not fits(large, x=X, k=2, net=net)
    pellucid.reset()
    assert not fits(large, x=X, k=2, net=net)  # nobody can vouch for a dropped entry


def test_B11_conditions_may_need_the_module_math():
    def f(x, n):
        return x * 0.5 ** (n // 10)

    compiled = pellucid.compile(f, backend="eager", fullgraph=True)
    compiled(X, 1), compiled(X, 2)
    general = pellucid.cache_entries(compiled)[0]
    assert any("math.isfinite" in guard for guard in general["guards"])
    assert fits(general, x=X, n=25) and not fits(general, x=X, n=25.0)


def test_B12_entries_of_a_function_and_of_a_code_object(counting):
    def f(x):
        return x * 2

    assert pellucid.cache_entries(f) == pellucid.cache_entries(f.__code__) == []
    compiled = pellucid.compile(f, backend=counting, dynamic=False)
    other = pellucid.compile(f, backend="eager")
    compiled(torch.ones(2)), compiled(torch.ones(3)), other(torch.ones(2))
    entries = pellucid.cache_entries(f)
    assert [e["region"] for e in pellucid.cache_entries(f.__code__)] == [e["region"] for e in entries]
    assert len(entries) == 3 and len({id(e["code"]) for e in entries}) == 3
    assert all(e["code"] is not f.__code__ and e["guards"] for e in entries)
    regions = {e["region"] for target in (compiled, other) for e in pellucid.cache_entries(target)}
    assert regions == {e["region"] for e in entries}
    for bad in (3, "f", len):
        with pytest.raises(TypeError, match="compiled by pellucid"):
            pellucid.cache_entries(bad)


# ---- B14, B15: the limit and its warning


def words(x, word):
    return x + len(word)


def test_B14_the_limit_can_be_changed_at_run_time(counting, caplog, monkeypatch):
    assert pellucid.config.cache_size_limit == pellucid.config.recompile_limit == 8
    compiled = pellucid.compile(words, backend=counting)
    try:
        pellucid.config.cache_size_limit = 2
        with caplog.at_level(logging.WARNING, logger="pellucid"):
            for i in range(5):
                assert same(compiled(X, "w" * i), X + i)
        assert counting.count == 2 and len(caplog.records) == 1
        pellucid.config.recompile_limit = 3
        for i in range(5, 8):
            assert same(compiled(X, "w" * i), X + i)
        assert counting.count == 3
    finally:
        del pellucid.config.recompile_limit


def test_B14_the_limit_names_the_code_of_the_user(caplog):
    """Of a module's call the forward, not the code of torch.nn.Module that the call begins in."""

    class Shift(torch.nn.Module):
        def forward(self, x, by):
            return x + by

    compiled = pellucid.compile(Shift(), backend="eager", dynamic=False)
    with pellucid.config.patch(recompile_limit=2), caplog.at_level(logging.WARNING, logger="pellucid"):
        for by in range(4):
            assert same(compiled(X, by), X + by)
    (record,) = caplog.records
    line = Shift.forward.__code__.co_firstlineno
    assert f"Shift.forward' ({__file__}:{line})" in record.getMessage()


def test_B15_reasons_are_collected_per_function():
    def f(x):
        return x + 1

    def g(x):
        return x - 1

    compiled, other = (pellucid.compile(h, backend="eager", fullgraph=True) for h in (f, g))
    compiled(torch.ones(2)), compiled(torch.ones(3)), other(torch.ones(2))
    (reason,) = pellucid.guard_failures(compiled)
    assert "size mismatch at index 0, expected 2, actual 3" in reason and "TENSOR_MATCH x: " in reason
    assert f"{__file__}:{f.__code__.co_firstlineno}" in reason
    assert pellucid.guard_failures(other) == []


# ---- B16, B17: names that compiled code needs


def module_with(text):
    module = types.ModuleType("module_of_the_test")
    exec(compile(text, "module_of_the_test.py", "exec"), module.__dict__)
    return module


def test_B16_compiled_code_never_shares_names():
    class Made:
        def __init__(self, x):
            self.x = x

    def f(x):
        return Made(x + 1), Made(x * 2)

    compiled = pellucid.compile(f, backend="eager", fullgraph=True, dynamic=False)
    compiled(torch.ones(2)), compiled(torch.ones(3))
    first, second = (entry["function"].__globals__ for entry in pellucid.cache_entries(compiled))
    assert first is not second and first is not f.__globals__
    names = [{name for name in scope if name.startswith("__compiled_fn_")} for scope in (first, second)]
    assert len(names[0]) == len(names[1]) == 1 and names[0] != names[1]
    # One global for an object that is used twice.
    assert sum(value is Made for value in first.values()) == 1
    assert len({id(value) for value in first.values()}) == len(first)
    a, b = compiled(X)
    assert torch.equal(a.x, X + 1) and torch.equal(b.x, X * 2) and type(a) is Made


def test_B16_names_of_the_user_stay_the_users():
    probe = pellucid.compile(scaled, backend="eager")
    probe(X)
    following = pellucid.cache_entries(probe)[0]["region"] + 1
    name = f"__compiled_fn_{following}"
    module = module_with(f"{name} = 10\ndef f(x):\n    return x + {name}, [{name}]\n")
    compiled = pellucid.compile(module.f, backend="eager", fullgraph=True)
    assert same(compiled(X), (X + 10, [10]))
    (entry,) = pellucid.cache_entries(compiled)
    assert entry["region"] == following and getattr(module, name) == 10
    setattr(module, name, 20)
    assert same(compiled(X), (X + 20, [20]))


def test_B17_the_module_of_a_function_is_left_as_it_was():
    module = module_with(
        "import torch\nclass Made:\n    pass\nscale = torch.ones(3)\n"
        "def f(x):\n    made = Made()\n    made.x = torch.relu(x) * scale\n    return made\n"
    )
    snapshot = dict(module.__dict__)
    counting = Counting()
    compiled = pellucid.compile(module.f, backend=counting, fullgraph=True)
    assert torch.equal(compiled(X).x, X) and counting.count == 1
    assert module.__dict__ == snapshot  # emitted code has globals of its own
    region = weakref.ref(pellucid.cache_entries(compiled)[0]["function"])
    del compiled
    gc.collect()
    assert module.__dict__ == snapshot and region() is None


# ---- B18


def test_B18_reset_drops_what_capture_has_noted(counting):
    def broken(x):
        print(end="")
        return x + 1

    compiled, split = pellucid.compile(F.relu, backend=counting), pellucid.compile(broken, backend=counting)
    for _ in range(2):
        compiled(X), split(X)
    before = counting.count
    assert before >= 1 and pellucid.break_reasons(split) and pellucid.break_reasons()
    pellucid.reset()
    assert pellucid.cache_entries(compiled) == [] and pellucid.break_reasons() == []
    assert same(compiled(X), F.relu(X)) and counting.count == before + 1
    compiled(X)
    assert counting.count == before + 1
