"""weakref.ref(target) gives a reference that is there: it is the target's at each call, whoever else holds it."""

import weakref

import pytest
import torch

import pellucid


class Thing:
    pass


THINGS = [Thing(), Thing(), Thing()]


class Holder:
    def __init__(self):
        self.log = []
        self.target = THINGS[0]
        self.reference = None


def of_a_global(x, holder, given):
    holder.log.append(weakref.ref(THINGS[0]))
    return x + 1


def read_before(x, holder, given):
    reference = given[0]
    holder.log += [weakref.ref(holder.target), reference]
    return x + 1


def read_afterwards(x, holder, given):
    made = weakref.ref(holder.target)
    holder.log += [holder.reference, made]
    return x + 1


def made_twice(x, holder, given):
    holder.log += [weakref.ref(holder.target) is weakref.ref(THINGS[0]), weakref.ref(holder.target) is given[0]]
    return x + 1


@pytest.mark.parametrize("f", [of_a_global, read_before, read_afterwards, made_twice])
def test_the_reference_is_the_targets(f, counting):
    def seen(function):
        holder, kept = Holder(), []
        for given, target, held in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1), (2, 0, 2), (0, 0, 0), (1, 2, 1)]:
            references = [weakref.ref(thing) for thing in THINGS]
            kept += references
            holder.target, holder.reference = THINGS[target], references[held]
            function(torch.ones(2), holder, (references[given], 1))
        told = [THINGS.index(r()) if isinstance(r, weakref.ref) else r for r in holder.log]
        return told, all(r in kept for r in holder.log if isinstance(r, weakref.ref))

    expected = seen(f)
    assert seen(pellucid.compile(f, backend=counting)) == expected
    assert counting.count
