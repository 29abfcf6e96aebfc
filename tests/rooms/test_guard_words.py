"""What guards say: where they come from, what they expected and found, their text as Python."""

import torch

from support.guards import Box, Guards, Hostile, one, passes

# ---------------------------------------------------------------- words


def place():
    x = 1
    return x


def test_B10_each_guard_says_where_it_comes_from():
    g = Guards()
    g.add(
        "EQUALS_MATCH",
        g.table.instance_attr(g.arg(), "n"),
        1,
        code=place.__code__,
        offset=2,
        operation="reads attribute 'n'",
    )
    p = g.add("GLOBAL_STATE").program()
    kind, source, source_kind, text, file, line, operation = p.describe()[0]
    assert (kind, source, source_kind, text) == ("EQUALS_MATCH", "L['a'].n", "InstanceAttr", "1")
    assert file == __file__ and line == place.__code__.co_firstlineno + 1 and operation == "reads attribute 'n'"
    miss = p.first_miss((Box(n=2),))
    assert miss["guard"] == 0 and miss["expected"] == "1" and miss["found"] == "2" and miss["suggestion"]
    assert f"{__file__}:{line}" in p.explain((Box(n=2),))
    assert p.explain((Box(n=1.0),)).startswith("EQUALS_MATCH L['a'].n: expected 1, found 1.0 of type float")
    assert "does not exist" in p.explain((Box(),))
    assert sorted(row[0] for row in p.describe()) == ["EQUALS_MATCH", "GLOBAL_STATE"]


def test_explanations_run_no_user_code():
    for kind, operand in (("ID_MATCH", None), ("EQUALS_MATCH", 1), ("DICT_KEYS", ("a",)), ("TYPE_MATCH", int)):
        assert "Hostile" in one(kind, operand).explain((Hostile(),))


CONSTANT = 3


def test_B11_code_parts_say_what_check_says():
    def entry(a, b):
        return CONSTANT

    box, tensor = Box(n=1, s="x", f=1.5, d={"k": 1}, t=torch.zeros(2)), torch.zeros(2)
    g = Guards()
    t = g.table
    a, b = g.arg(0), g.arg(1)
    g.add("TYPE_MATCH", a, Box).add("EQUALS_MATCH", t.instance_attr(a, "n"), 1).add(
        "EQUALS_MATCH", t.instance_attr(a, "s"), "x"
    )
    g.add("EQUALS_MATCH", t.instance_attr(a, "f"), 1.5).add("DICT_KEYS", t.instance_attr(a, "d"), ("k",))
    g.add("DICT_CONTAINS", t.instance_attr(a, "d"), "z", 0).add("HAS_ATTR", a, "zz").add(
        "LENGTH", t.instance_attr(a, "d"), None, 1
    )
    g.add("TENSOR_MATCH", b, tensor).add("IS_NOT", b, other=t.instance_attr(a, "t")).add(
        "DISTINCT", None, (b, t.instance_attr(a, "t"))
    )
    g.add("TYPE_LOOKUP", t.constant(Box), ("__init__", Box.__init__)).add("TYPE_LOOKUP", t.constant(Box), ("zz",))
    g.add("EQUALS_MATCH", t.dict_item(t.constant(entry.__globals__), "CONSTANT"), 3).add("GLOBAL_STATE")
    g.add("FUNCTION", t.dict_item(t.constant(entry.__globals__), "place"), (place.__code__, None, None))
    p = g.program(entry)
    parts = p.code_parts()
    assert len(parts) == len(p)
    assert "type(L['a'].n) is int and L['a'].n == 1" in parts and any("G['CONSTANT']" in part for part in parts)

    def evaluated(a, b):
        env = {"L": {"a": a, "b": b}, "G": entry.__globals__, "C": p.constants(), "HOLDS": p.holds}
        return all(eval(part, env) for part in parts)

    def box_with(**changes):
        return Box(**({"n": 1, "s": "x", "f": 1.5, "d": {"k": 1}, "t": tensor} | changes))

    for values, expected in [
        ((box, tensor), True),
        ((box_with(t=torch.zeros(2)), torch.ones(2)), True),
        ((box_with(t=torch.zeros(2), n=2), tensor), False),
        ((box_with(t=torch.zeros(2), f=2.5), tensor), False),
        ((box_with(t=torch.zeros(2), d={"k": 1, "z": 2}), tensor), False),
        ((box_with(t=torch.zeros(2), zz=1), tensor), False),
        ((box, torch.zeros(3)), False),
        ((box_with(), tensor), False),
    ]:
        assert passes(p, *values) == evaluated(*values) == expected
