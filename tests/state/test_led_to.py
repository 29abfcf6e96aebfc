"""Objects that another live object leads to, behind a break: what the region writes to them is written at every call."""

import functools
import operator
import weakref

import pytest
import torch

import pellucid
from support.programs import picture


class Plain:
    pass


class Remembers(Plain):
    def __init__(self):
        self.seen = []
        self.last = None

    def keep(self, value):
        self.last = value


def by_super(owner, value):
    above = super(Remembers, owner)
    pellucid.graph_break()
    above.__setattr__("last", value)


def by_bound_method(owner, value):
    keep = owner.keep
    pellucid.graph_break()
    keep(value)


def by_method_of_c(owner, value):
    append = owner.seen.append
    pellucid.graph_break()
    append(value)


def by_slot_wrapper(owner, value):
    put = owner.__setattr__
    pellucid.graph_break()
    put("last", value)


def by_partial(owner, value):
    keep = functools.partial(setattr, owner, "last")
    pellucid.graph_break()
    keep(value)


def by_weak_reference(owner, value):
    reference = weakref.ref(owner)
    pellucid.graph_break()
    reference().last = value


def by_dict(owner, value):
    inside = owner.__dict__
    pellucid.graph_break()
    inside["last"] = value


def by_view(owner, value):
    values = owner.__dict__.values()
    pellucid.graph_break()
    for one in values:
        if isinstance(one, list):
            one.append(value)


def by_closure(owner, value):
    def keep():
        owner.last = value

    pellucid.graph_break()
    keep()


def by_iterator(owner, value):
    iterator = iter([owner])
    pellucid.graph_break()
    next(iterator).last = value


def by_attrgetter(owner, value):
    seen = operator.attrgetter("seen")
    pellucid.graph_break()
    seen(owner).append(value)


@pytest.mark.parametrize(
    "way",
    [
        by_super,
        by_bound_method,
        by_method_of_c,
        by_slot_wrapper,
        by_partial,
        by_weak_reference,
        by_dict,
        by_view,
        by_closure,
        by_iterator,
        by_attrgetter,
    ],
    ids=lambda way: way.__name__,
)
@pytest.mark.parametrize("every", [0, 3, 4, 5, 6, 7, 8])
def test_what_leads_to_an_object(counting, way, every):
    """`every`: besides, regions end after so many instructions, in the middle of expressions."""

    def program(x, owner):
        way(owner, x + 1)
        return x * 2, owner.last, len(owner.seen)

    compiled = pellucid.compile(program, backend=counting)
    eagers, ours = Remembers(), Remembers()
    with pellucid.config.patch(force_break_every=every):
        for number in range(4):
            x = torch.full((2,), float(number))
            assert picture([compiled(x, ours), vars(ours)]) == picture([program(x, eagers), vars(eagers)])
        theirs, others = Remembers(), Remembers()
        x = torch.full((2,), 7.0)
        assert picture([compiled(x, others), vars(others)]) == picture([program(x, theirs), vars(theirs)])
    assert vars(ours)["last"] is None or not torch.equal(vars(ours)["last"], x + 1)
    assert counting.graphs
