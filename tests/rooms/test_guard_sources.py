"""Sources: how guards reach a value, and that no user code runs on the way."""

import collections
import gc

import pytest
import torch

from pellucid._core import _guards
from support.guards import Box, Hostile, passes

# ---------------------------------------------------------------- sources


def test_sources_are_interned():
    t = _guards.Table()
    x = t.local(0, "x")
    assert t.local(0, "x") == x
    h = "".join(["h", "idden"])
    assert t.instance_attr(x, h) == t.instance_attr(x, "hidden")
    assert t.dict_item(x, 10**20) == t.dict_item(x, 10**19 * 10)
    assert t.dict_item(x, 1) != t.dict_item(x, True)
    assert t.dict_item(t.dict_of(x), "k") == t.instance_attr(x, "k")
    one_list, other_list = [], []
    assert t.constant(one_list) != t.constant(other_list)


def test_sources_print_as_python():
    t = _guards.Table()
    x = t.local(0, "self")
    h = t.dict_item(t.instance_attr(x, "_modules"), "h")
    assert t.print(t.item(h, 0)) == "L['self']._modules['h'][0]"
    assert t.print(t.cell_contents(t.free(0, "n"))) == "F['n'].cell_contents"
    assert t.print(t.dict_item(t.constant(torch.nn.functional.__dict__), "relu")) == "G['relu']"
    assert t.print(t.constant(torch.nn.Linear)) == "C[torch.nn.modules.linear.Linear]"
    assert t.print(t.instance_attr(x, "0")) == "L['self'].__dict__['0']"


def test_evaluate_every_step():
    t = _guards.Table()
    a = t.local(0, "a")

    def value(source, *locals, closure=None):
        return t.evaluate(source, locals, closure)

    box = Box(n=7)
    assert value(t.instance_attr(a, "n"), box) == 7
    box.__dict__  # materialised: split
    assert value(t.instance_attr(a, "n"), box) == 7
    box.__dict__ = {"n": 8, 3: 4}
    assert value(t.instance_attr(a, "n"), box) == 8
    assert value(t.dict_item(a, (1, "k")), {(1, "k"): 5}) == 5
    assert value(t.dict_item(a, torch.float32), {torch.float32: 6}) == 6
    assert value(t.item(a, 1), [1, 2]) == 2
    assert value(t.item(a, 1), torch.Size([1, 2])) == 2
    assert value(t.item(a, 1), collections.deque([1, 2])) == 2
    assert value(t.member(a, "__code__"), passes) is passes.__code__
    assert value(t.member(a, "__self__"), box.__init__) is box
    cell = (lambda: box).__closure__
    assert value(t.cell_contents(t.free(0, "box")), closure=cell) is box
    for missing in (t.instance_attr(a, "zz"), t.member(a, "zz")):
        with pytest.raises(LookupError):
            value(missing, box)
    with pytest.raises(LookupError):
        value(t.item(a, 2), [1, 2])


def test_evaluate_reads_inline_values_without_a_dict():
    class Own:  # instances share the room for keys, which other tests use up
        pass

    t, box = _guards.Table(), Own()
    box.n = 7
    size = box.__sizeof__()
    before = {id(d) for d in gc.get_referents(box)}
    assert t.evaluate(t.instance_attr(t.local(0, "a"), "n"), (box,)) == 7
    assert {id(d) for d in gc.get_referents(box)} == before and box.__sizeof__() == size
    assert not any(isinstance(d, dict) for d in gc.get_referents(box))


def test_evaluate_never_runs_user_code():
    class Missing(dict):
        def __missing__(self, key):
            raise AssertionError

        __getitem__ = get = __missing__

    class Seq(list):
        __getitem__ = Missing.__missing__

    class Deque(collections.deque):
        __getitem__ = Missing.__missing__

    t = _guards.Table()
    a = t.local(0, "a")
    assert t.evaluate(t.dict_item(a, 1), (Missing({1: 2}),)) == 2
    assert t.evaluate(t.item(a, 0), (Seq([3]),)) == 3
    assert t.evaluate(t.item(a, 0), (Deque([4]),)) == 4
    with pytest.raises(LookupError):
        t.evaluate(t.dict_item(a, 5), (Missing({1: 2}),))

    class Liar:
        def __hash__(self):
            return hash("k") if armed is None else Hostile()._fail()

        def __eq__(self, other):
            return Hostile()._fail()

    armed = None
    d = {Liar(): 1, "k2": 2}
    armed = True
    key = next(iter(d))
    assert t.evaluate(t.dict_item(a, "k2"), (d,)) == 2
    assert t.evaluate(t.dict_item(a, key), (d,)) == 1
    with pytest.raises(LookupError):
        t.evaluate(t.dict_item(a, "k"), (d,))
