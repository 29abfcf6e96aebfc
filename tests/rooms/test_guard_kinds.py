"""Every kind of guard: it holds, it notices a change, it says what changed."""

import abc
import collections
import gc
import math
import types

import numpy as np
import pytest
import torch

from support.guards import Box, Guards, Hostile, one, passes

# ---------------------------------------------------------------- one test per kind


def test_ID_MATCH():
    x, y = Box(), Box()
    p = one("ID_MATCH", x)
    assert passes(p, x) and not passes(p, y)


def test_NOT_ID():
    x, y = Box(), Box()
    p = one("NOT_ID", x)
    assert passes(p, y) and not passes(p, x)


def test_TYPE_MATCH():
    p = one("TYPE_MATCH", dict)
    assert passes(p, {}) and not passes(p, collections.OrderedDict()) and not passes(p, Hostile())


NAN = complex(0, math.nan)


@pytest.mark.parametrize(
    "value, same, others",
    [
        (1, 1, [2, 1.0, True, None, Hostile()]),
        (10**30, 10**29 * 10, [10**30 + 1]),
        (1.5, 3.0 / 2, [2.5, 1]),
        (0.0, 0.0, [-0.0]),
        (math.nan, math.nan, [float("nan"), -math.nan, 0.0]),
        ((1, math.nan), (1, math.nan), [(1, float("nan"))]),
        (slice(NAN), slice(NAN), [slice(complex(0, math.nan))]),
        (complex(0.0, -0.0), complex(0.0, -0.0), [complex(0.0, 0.0)]),
        ("ab", "".join("ab"), ["ac", b"ab"]),
        (b"ab", bytes([97, 98]), [b"ac", "ab"]),
        (True, True, [1, False]),
        (None, None, [False]),
        ((1, (2.0, "x")), (1, (2.0, "".join("x"))), [(1, (2, "x")), (1,), [1]]),
        (frozenset([1, "a"]), frozenset(["a", 1]), [frozenset([True, "a"]), frozenset([1])]),
        (range(0, 4, 2), range(0, 4, 2), [range(0, 3, 2), range(4)]),
        (slice(1, None), slice(1, None), [slice(1, 2), slice(True, None)]),
        (torch.float32, torch.float32, [torch.float64]),
        (torch.device("cpu"), torch.device("cpu"), [torch.device("meta")]),
        (torch.Size([1, 2]), torch.Size([1, 2]), [torch.Size([2, 1]), (1, 2)]),
    ],
)
def test_EQUALS_MATCH(value, same, others):
    p = one("EQUALS_MATCH", value)
    assert passes(p, value) and passes(p, same)
    for other in others:
        assert not passes(p, other), other
    assert passes(p, same)


def test_EQUALS_MATCH_runs_no_user_code():
    class Str(str):
        __eq__ = __hash__ = Hostile._fail

    assert not passes(one("EQUALS_MATCH", "x"), Str("x"))
    assert not passes(one("EQUALS_MATCH", (1, "x")), (1, Hostile()))


def test_LENGTH():
    class Long(list):
        def __len__(self):
            raise AssertionError

    for make in (list, tuple, Long, set, frozenset, collections.deque):
        p = one("LENGTH", None, 2)
        assert passes(p, make([1, 2])) and not passes(p, make([1])) and not passes(p, Hostile())
    d = {1: 1, 2: 2}
    p = one("LENGTH", None, 2)
    assert passes(p, d)
    d[3] = 3
    assert not passes(p, d)
    del d[1]
    assert passes(p, d)


def test_DICT_KEYS():
    p = one("DICT_KEYS", ("a", 1))
    assert passes(p, {"a": 0, 1: 0})
    d = {"a": 0, 1: 0}
    assert passes(p, d)
    d["a"] = 5
    assert passes(p, d)
    for other in ({1: 0, "a": 0}, {"a": 0}, {"a": 0, True: 0}, {"a": 0, 1: 0, 2: 0}, [], Hostile()):
        assert not passes(p, other)
    key = Hostile.__new__(Hostile)
    p = one("DICT_KEYS", ("x",))
    Hostile.__hash__ = object.__hash__
    try:
        hostile = {key: 1}
    finally:
        Hostile.__hash__ = Hostile._fail
    assert not passes(p, hostile)


def test_DICT_KEYS_of_an_OrderedDict_move_to_end():
    """The version of the dict does not move when its order changes."""
    d = collections.OrderedDict(a=1, b=2)
    for known in (False, True):
        g = Guards()
        if known:
            g.add("TYPE_MATCH", g.arg(), collections.OrderedDict)
        p = g.add("DICT_KEYS", g.arg(), ("a", "b")).add("EQUALS_MATCH", g.table.dict_item(g.arg(), "a"), 1).program()
        assert passes(p, d)
        d.move_to_end("a")
        assert not passes(p, d)
        d.move_to_end("b")
        assert passes(p, d)


def test_DICT_CONTAINS():
    has, lacks = one("DICT_CONTAINS", "k", 1), one("DICT_CONTAINS", "k", 0)
    d = {"k": 1}
    assert passes(has, d) and not passes(lacks, d)
    d["other"] = 2
    assert passes(has, d)
    del d["k"]
    assert not passes(has, d) and passes(lacks, d)
    assert not passes(has, Hostile()) and not passes(lacks, [])


def test_HAS_ATTR():
    p = one("HAS_ATTR", "x")
    box = Box(y=1)
    assert passes(p, box)  # inline values, "x" is no shared key
    Box(x=1)  # now it is one
    assert passes(p, box)
    box.x = 1
    assert not passes(p, box)
    del box.x
    assert passes(p, box)
    box.__dict__["x"] = 1
    assert not passes(p, box)
    del box.x
    assert passes(p, box)
    assert passes(p, 5)  # no dict at all
    box.__dict__ = {"x": 1}
    assert not passes(p, box)


def test_HAS_ATTR_present():
    p = one("HAS_ATTR", "x", 1)
    box = Box(y=1)
    assert not passes(p, box) and not passes(p, 5)
    box.x = 1
    assert passes(p, box)
    box.__dict__["x"] = 2
    assert passes(p, box)
    del box.x
    assert not passes(p, box)


def test_HAS_ATTR_makes_no_dict():
    class Fresh:
        """A class of its own: what other tests gave to theirs may have used up the keys its instances share."""

    box = Fresh()
    box.y = 1

    def has_dict():
        return any(isinstance(d, dict) for d in gc.get_referents(box))

    assert not has_dict()
    assert passes(one("HAS_ATTR", "x"), box) and passes(one("HAS_ATTR", "y", 1), box) and not has_dict()


def test_SET_EQUALS():
    p = one("SET_EQUALS", frozenset([1, "a", torch.float32]))
    s = {1, "a", torch.float32}
    assert passes(p, s) and passes(p, frozenset(s))
    s.add(2)
    assert not passes(p, s)
    s.remove(1)
    assert not passes(p, s)
    assert not passes(p, {True, "a", torch.float32}) and not passes(p, [1]) and not passes(p, set())


def test_SET_TABLE():
    p = one("SET_TABLE", b"-x....x.")
    s = {0, 8, 16}
    assert not passes(p, s)
    s.discard(0)
    assert passes(p, s)
    assert not passes(p, {8, 16}) and not passes(p, set(range(40))) and not passes(p, [8, 16])
    assert passes(one("SET_TABLE", b"xx......"), frozenset([8, 16]))


def test_TYPE_LOOKUP():
    class A:
        training = True

    class B(A):
        pass

    class C(B):
        pass

    g = Guards()
    b = g.table.constant(B)
    p = g.add("TYPE_LOOKUP", b, ("training", True)).add("TYPE_LOOKUP", b, ("absent",)).program()
    assert passes(p)
    A.unrelated = 1  # drops the tag, changes nothing
    assert passes(p)
    C.training = False  # a subclass
    assert passes(p)
    B.training = False
    assert not passes(p)
    del B.training
    assert passes(p)
    A.training = 0
    assert not passes(p)
    A.training = True
    A.absent = None
    assert not passes(p)
    del A.absent
    assert passes(p)

    class D:
        training = 5

    B.__bases__ = (D,)
    assert not passes(p)


def test_TYPE_LOOKUP_of_a_type_without_version_tag():
    class A:
        x = 1

    g = Guards()
    p = g.add("TYPE_LOOKUP", g.table.constant(A), ("x", 1)).program()
    for i in range(3):
        A.y = i  # the tag is 0 at each check
        assert p.check(())
        A.x = 2
        assert not p.check(())
        A.x = 1
        assert p.check(())


def test_FUNCTION():
    def f(a, b=1, *, c=2):
        return a

    def other(a, b=1, *, c=2):
        return b

    original = f.__code__, f.__defaults__, f.__kwdefaults__
    p = one("FUNCTION", original)
    assert passes(p, f)
    f.__code__ = other.__code__
    assert not passes(p, f)
    f.__code__ = original[0]
    f.__defaults__ = (7,)
    assert not passes(p, f)
    f.__defaults__ = original[1]
    f.__kwdefaults__ = {"c": 2}
    assert not passes(p, f)
    f.__kwdefaults__ = original[2]
    assert passes(p, f) and not passes(p, other) and not passes(p, len)
    plain = lambda: 0  # noqa: E731
    p = one("FUNCTION", (plain.__code__, None, None))
    assert passes(p, plain)
    plain.__defaults__ = (1,)
    assert not passes(p, plain)


def test_FUNCTION_with_its_namespaces():
    def f():
        return 0

    p = one("FUNCTION", (f.__code__, None, None, f.__globals__, f.__builtins__))
    assert passes(p, f) and passes(p, types.FunctionType(f.__code__, f.__globals__))
    for other in ({"__builtins__": f.__builtins__}, {"__builtins__": {}}):
        assert not passes(p, types.FunctionType(f.__code__, other))
    assert any("__globals__ is" in part for part in p.code_parts())


def test_FUNCTION_kwdefaults_content():
    def f(*, c=2):
        return c

    g = Guards()
    g.add("FUNCTION", g.arg(), (f.__code__, None, f.__kwdefaults__))
    p = g.add("EQUALS_MATCH", g.table.dict_item(g.table.member(g.arg(), "__kwdefaults__"), "c"), 2).program()
    assert passes(p, f)
    f.__kwdefaults__["c"] = 3
    assert not passes(p, f)


def test_CELL_EMPTY_and_contents():
    g = Guards()
    cell = g.table.free(0, "n")
    full = g.add("CELL_EMPTY", cell, None, 0).add("EQUALS_MATCH", g.table.cell_contents(cell), 1).program()
    n = 1

    def f():
        return n

    assert passes(full, closure=f.__closure__)
    n = 2
    assert not passes(full, closure=f.__closure__)
    n = 1
    assert passes(full, closure=f.__closure__)
    del n
    assert not passes(full, closure=f.__closure__)
    empty = Guards()
    empty = empty.add("CELL_EMPTY", empty.table.free(0, "n"), None, 1).program()
    assert passes(empty, closure=f.__closure__)
    n = 1
    assert not passes(empty, closure=f.__closure__)


def test_B06_TENSOR_MATCH():
    x = torch.zeros(2, 3)
    p = one("TENSOR_MATCH", x)
    assert passes(p, x) and passes(p, torch.ones(2, 3))
    for other in (
        torch.zeros(3, 3),
        torch.zeros(2, 3, dtype=torch.float64),
        torch.zeros(3, 2).t(),
        torch.zeros(2, 3, requires_grad=True),
        torch.nn.Parameter(torch.zeros(2, 3), requires_grad=False),
        torch.zeros(2, 3, device="meta"),
        Hostile(),
    ):
        assert not passes(p, other)
    assert "expected 2, actual 3" in p.first_miss((torch.zeros(3, 3),))["found"]


def test_A20_ARRAY_MATCH():
    p = one("ARRAY_MATCH", (np.ndarray, np.dtype("float32"), False, 2, 3))
    assert passes(p, np.ones((2, 3), np.float32)) and passes(p, np.ones((3, 2), np.float32).T)
    for other in (
        np.ones((3, 3), np.float32),
        np.ones((2, 3)),
        np.ones((2, 3), ">f4"),
        np.ones(2, np.float32),
        np.float32(1),
        np.ma.ones((2, 3), np.float32),
        torch.ones(2, 3),
        Hostile(),
    ):
        assert not passes(p, other)
    plain = one("ARRAY_MATCH", (np.ndarray, np.dtype("float32"), True, 2, 3))
    fixed = np.ones((2, 3), np.float32)
    fixed.flags.writeable = False
    assert passes(p, fixed) and passes(plain, np.ones((2, 3), np.float32))
    for other in (fixed, np.ones((3, 2), np.float32).T, np.ones((2, 6), np.float32)[:, ::2]):
        assert not passes(plain, other)


def test_TENSOR_ELEMENTS():
    words = torch.tensor([[1, 2], [3, 4]], dtype=torch.int16)
    p = one("TENSOR_ELEMENTS", words.numpy().tobytes())
    assert passes(p, words) and passes(p, words.clone())
    for other in (
        torch.tensor([[1, 2], [3, 5]], dtype=torch.int16),
        torch.tensor([1, 2, 3], dtype=torch.int16),
        words.t(),
        words.to(torch.float16),
        words.to("meta"),
        words.numpy(),
        Hostile(),
    ):
        assert not passes(p, other)
    assert passes(one("TENSOR_ELEMENTS", b""), torch.zeros(0, 3, dtype=torch.bool))


def test_FORESEEN_tensors_share_no_memory():
    g = Guards()
    p = g.add("FORESEEN", None, (g.arg(0), g.arg(1))).program()
    x = torch.zeros(4)
    assert passes(p, x, torch.zeros(4)) and passes(p, x, x)  # which DISTINCT is about
    assert not passes(p, x, x[2:]) and not passes(p, x[:2], x[2:]) and not passes(p, x, None)
    assert passes(p, x, torch.zeros(0))


def test_GRADIENT_TARGET():
    leaf, computed = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True) * 2
    of_leaf, of_any = one("GRADIENT_TARGET", number=1), one("GRADIENT_TARGET", number=0)
    assert passes(of_leaf, leaf) and passes(of_any, leaf) and passes(of_any, computed)
    assert not passes(of_leaf, computed) and not passes(of_leaf, torch.ones(2)) and not passes(of_any, 1)
    handles = [leaf.register_hook(print), computed.register_hook(print)]
    assert not passes(of_leaf, leaf) and not passes(of_any, leaf) and not passes(of_any, computed)
    for handle in handles:
        handle.remove()
    leaf.register_post_accumulate_grad_hook(print)
    assert not passes(of_leaf, leaf)


def test_WHOLE_MEMORY():
    p = one("WHOLE_MEMORY")
    x = torch.arange(6.0).view(2, 3)
    for whole in (x, x.t(), x.view(6), x.unsqueeze(1), torch.ones(0), torch.tensor(1)):
        assert passes(p, whole)
    for part in (x[:1], x[1:], x[:, 1:], x[0:0], x[:1].expand(2, 3)[:1], x.to_sparse(), None):
        assert not passes(p, part)


def test_TENSOR_MATCH_data_replaced():
    """`p.data = …` moves no version anywhere."""
    linear = torch.nn.Linear(2, 2)
    g = Guards()
    weight = g.table.dict_item(g.table.instance_attr(g.arg(), "_parameters"), "weight")
    p = g.add("TENSOR_MATCH", weight, linear.weight).program()
    assert passes(p, linear)
    linear.weight.data = torch.zeros(3, 2)
    assert not passes(p, linear)
    linear.weight.data = torch.zeros(2, 2)
    assert passes(p, linear)
    linear.double()
    assert not passes(p, linear)


def test_IS_and_IS_NOT():
    g = Guards()
    same = g.add("IS", g.arg(0), other=g.arg(1)).program()
    g = Guards()
    different = g.add("IS_NOT", g.arg(0), other=g.arg(1)).program()
    x, y = Box(), Box()
    assert passes(same, x, x) and not passes(same, x, y)
    assert passes(different, x, y) and not passes(different, x, x) and passes(different, y, x)


def test_DISTINCT():
    g = Guards()
    p = g.add("DISTINCT", None, tuple(g.arg(i) for i in range(6))).program()
    boxes = [Box() for _ in range(9)]
    assert passes(p, *boxes[:6])
    for i in range(6):
        for j in range(6):
            values = boxes[:6]
            values[i] = values[j]
            assert passes(p, *values) == (i == j)
            if i == j:
                values[i] = boxes[8]  # one change: the short way
                assert passes(p, *values)
    assert passes(p, *reversed(boxes[:6]))
    assert p.first_miss(tuple(boxes[:5] + boxes[:1]))["found"] == "one object as L['a'] and L['f']"


def test_GLOBAL_STATE():
    p = Guards().add("GLOBAL_STATE").program()
    assert passes(p)
    with torch.no_grad():
        assert not passes(p)
        assert "grad" in p.explain(())
    with torch.autocast("cpu"):
        assert not passes(p)
    with torch.inference_mode():
        assert not passes(p)
    assert passes(p)


def test_NOT_HANDLING():
    p = Guards().add("NOT_HANDLING").program()
    assert passes(p)
    try:
        raise KeyError(1)
    except KeyError:
        assert not passes(p)
        assert p.first_miss(())["found"] == "KeyError(1)"
    assert passes(p)


def test_ABC_TOKEN():
    p = Guards().add("ABC_TOKEN", number=abc.get_cache_token()).program()
    assert passes(p)

    class Abstract(abc.ABC):
        pass

    Abstract.register(Box)
    assert not passes(p)
