"""`pellucid.register_bytecode_hook`."""

import pytest
import torch

import pellucid
from support import same


def program(x):
    y = x.sin()
    pellucid.graph_break()
    return y + 1


def replaced(x):
    return "replaced"


def test_L15_it_sees_each_region_and_is_removed():
    seen = []
    handle = pellucid.register_bytecode_hook(lambda old, new: seen.append((old, new)))
    x = torch.ones(3)
    compiled = pellucid.compile(program, backend="eager", dynamic=False)
    assert same(compiled(x), program(x))
    assert [old for old, _ in seen] == [program.__code__] * 2
    assert all(new is not program.__code__ for _, new in seen)
    compiled(x)
    assert len(seen) == 2
    handle.remove()
    compiled(torch.ones(4))
    assert len(seen) == 2


def test_L15_its_code_is_what_runs(tmp_path):
    def f(x):
        return x.cos() * 2

    for inside in (False, True):
        pellucid.reset()
        compiled = pellucid.compile(f, backend="eager")
        handle = pellucid.register_bytecode_hook(lambda old, new: replaced.__code__ if old is f.__code__ else None)
        x = torch.ones(3)
        if inside:
            with pellucid.debug(tmp_path):
                assert compiled(x) == "replaced"
        assert compiled(x) == compiled(x) == "replaced"
        handle.remove()
        assert compiled(x) == "replaced"
        assert same(compiled(torch.ones(3, dtype=torch.float64)), f(torch.ones(3, dtype=torch.float64)))


def test_L15_what_it_raises_changes_nothing(monkeypatch):
    told = []
    monkeypatch.setattr("sys.unraisablehook", lambda error: told.append(error.exc_type))

    def fails(old, new):
        raise KeyError("hook")

    handle = pellucid.register_bytecode_hook(fails)
    try:
        compiled = pellucid.compile(lambda x: x.sin() - 1, backend="eager")
        assert same(compiled(torch.ones(2)), torch.ones(2).sin() - 1)
    finally:
        handle.remove()
    assert told == [KeyError]
    with pytest.raises(TypeError, match="callable"):
        pellucid.register_bytecode_hook(1)
