"""Guard programs made by hand, and objects for them: for the tests of the guards room."""

from pellucid._core import _guards


class Guards:
    """A few sources and guards over arguments called a, b, c, …"""

    def __init__(self):
        self.table, self.rows = _guards.Table(), []

    def arg(self, slot=0):
        return self.table.local(slot, "abcdefgh"[slot])

    def add(self, kind, source=None, operand=None, number=0, other=None, code=None, offset=-1, operation=""):
        self.rows.append((kind, source, operand, number, other, code, offset, operation))
        return self

    def program(self, function=None, inputs=()):
        return _guards.Program(self.table, self.rows, function, list(inputs))


def one(kind, operand=None, number=0):
    g = Guards()
    return g.add(kind, g.arg(), operand, number).program()


def passes(program, *values, closure=None):
    """Cold, then warm: the second check takes the short cuts that the first one latched. Check and explanation must agree."""
    results = [program.check(values, closure), program.check(values, closure)]
    assert results[0] == results[1] == (program.explain(values, closure) == "")
    return results[0]


class Box:
    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)


class Hostile:
    """Guards must never run any of these."""

    def _fail(self, *args):
        raise AssertionError("a guard ran user code")

    __eq__ = __hash__ = __len__ = __getattr__ = __bool__ = __repr__ = __iter__ = __contains__ = __getitem__ = _fail


def attributes(*pairs, type_=Box):
    g = Guards()
    g.add("TYPE_MATCH", g.arg(), type_)
    for name, value in pairs:
        g.add("EQUALS_MATCH", g.table.instance_attr(g.arg(), name), value)
    return g.program()


def inline(box):
    return box


def split(box):
    box.__dict__
    return box


def combined(box):
    box.__dict__ = dict(box.__dict__)
    return box
