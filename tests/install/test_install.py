"""install(), uninstall(), installed(): what is replaced, and that all of it comes back."""

import re
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch._dynamo

import pellucid
from pellucid.takeover import switch
from pellucid.takeover.table import ROWS

PLACES = [place for row in ROWS for place in row.places]


def at(place):
    module, _, name = place.rpartition(".")
    return vars(sys.modules[module])[name]


def test_every_place_is_replaced_and_put_back():
    before = {place: at(place) for place in PLACES}
    config_class = type(torch._dynamo.config)
    with pellucid.installed():
        unchanged = [place for place in PLACES if at(place) is before[place]]
        assert not unchanged
        assert {(r.module, r.name) for r in switch.replaced()} == {tuple(p.rsplit(".", 1)) for p in PLACES}
    assert {place: at(place) for place in PLACES} == before
    assert all(at(place) is before[place] for place in PLACES)
    assert type(torch._dynamo.config) is config_class
    assert not switch.replaced()


def test_nothing_else_is_changed():
    """Whatever module of torch's compiler or of torch itself there is: its names are bound to the same objects again."""

    def names():
        return {
            (module, name): id(value)
            for module in list(sys.modules)
            if module in ("torch", "torch.compiler") or module.startswith("torch._dynamo")
            for name, value in vars(sys.modules[module]).items()
        }

    pellucid.install()
    pellucid.uninstall()
    before = names()
    with pellucid.installed():
        changed = {f"{m}.{n}" for (m, n), value in names().items() if before.get((m, n), value) != value}
        assert changed == set(PLACES)
    after = names()
    assert {key: value for key, value in after.items() if key in before} == before


def test_installs_are_counted():
    original = torch.compile
    pellucid.install()
    stand_in = torch.compile
    with pellucid.installed():
        assert torch.compile is stand_in
    assert torch.compile is stand_in is not original
    pellucid.uninstall()
    assert torch.compile is original
    with pytest.raises(RuntimeError, match="without an install"):
        pellucid.uninstall()


def test_it_is_undone_when_the_block_raises():
    original = torch.compile
    with pytest.raises(KeyError), pellucid.installed():
        raise KeyError
    assert torch.compile is original


def test_a_failing_install_leaves_nothing(monkeypatch):
    original = torch.compile
    monkeypatch.setattr("pellucid.takeover.earlier.take", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pellucid.install()
    assert torch.compile is original and not switch.is_installed() and not switch.replaced()


def test_installed_is_a_decorator():
    @pellucid.installed()
    def inside():
        return torch.compile(lambda x: x, backend="eager")

    assert isinstance(inside(), pellucid._core.CompiledFunction)


def test_functions_bound_while_installed_are_torchs_afterwards(counting):
    with pellucid.installed():
        bound, optimize = torch.compile, torch._dynamo.eval_frame.OptimizeContext
        reset = torch._dynamo.reset
    compiled = bound(lambda x: x + 1, backend=counting)
    assert not isinstance(compiled, pellucid._core.CompiledFunction)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0)) and counting.count == 1
    assert isinstance(optimize(lambda *a: None, None), torch._dynamo.eval_frame.OptimizeContext)
    reset()


def test_what_somebody_wrapped_around_the_stand_in_stays():
    original = torch.compile
    pellucid.install()
    stand_in = torch.compile
    wrapped = lambda *args, **kwargs: stand_in(*args, **kwargs)  # noqa: E731
    torch.compile = wrapped
    pellucid.uninstall()
    try:
        assert torch.compile is wrapped
        assert not isinstance(wrapped(lambda x: x, backend="eager"), pellucid._core.CompiledFunction)
        with pellucid.installed():  # the wrapper is somebody's: it stays, and what it calls is ours
            assert torch.compile is wrapped
            assert isinstance(wrapped(lambda x: x, backend="eager"), pellucid._core.CompiledFunction)
    finally:
        torch.compile = original


def test_other_threads_may_install_at_the_same_time():
    original = torch.compile
    failures = []

    def often():
        try:
            for _ in range(50):
                with pellucid.installed():
                    assert torch.compile is not original
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=often) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures and torch.compile is original


def test_the_page_lists_every_place():
    text = (Path(__file__).parents[2] / "docs" / "install.md").read_text()
    listed = set(re.findall(r"`(torch[\w.]+)`", text))
    for module, names in re.findall(r"`(torch[\w.]+)\.\{([\w, ]+)\}`", text):
        listed |= {f"{part}.{name}" for name in names.split(", ") for part in (module, f"{module}.decorators")}
    assert set(PLACES) <= listed
