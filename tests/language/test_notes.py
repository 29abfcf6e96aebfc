"""BaseException.add_note: on exceptions of the region and from outside, as eager does it, in the graph."""

import copy

import pytest
import torch

import pellucid

X = torch.ones(2)


class Slotted(Exception):
    __slots__ = ("__notes__",)


class Watching(Exception):
    log = []

    def __setattr__(self, name, value):
        self.log.append(name)
        super().__setattr__(name, value)


class NoList(Exception):
    __notes__ = ("a tuple",)


class List(list):
    def append(self, item):
        raise AssertionError("CPython's add_note appends without asking")


def with_notes(error, notes):
    error.__notes__ = notes
    return error


def seen(error):
    return type(error), getattr(error, "__notes__", None), type(getattr(error, "__notes__", None)), Watching.log


OUTSIDE = {
    "plain": lambda: ValueError("v"),
    "with notes": lambda: with_notes(ValueError("v"), ["old"]),
    "notes of a subclass of list": lambda: with_notes(ValueError("v"), List(["old"])),
    "slotted": lambda: Slotted("v"),
    "with a __setattr__": lambda: Watching("v"),
}


def annotate(x, error):
    error.add_note("one")
    error.add_note(f"{x.dim()} dimensions")
    return x + 1, error.__notes__[-1]


@pytest.mark.parametrize("make", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize("times", [1, 2])
def test_on_an_exception_from_outside(make, times):
    def outcome(f):
        Watching.log = []
        found = []
        for error in [make() for _ in range(times)]:
            result, note = f(X, error)
            found.append((result.tolist(), note, seen(error)))
        return copy.deepcopy(
            [(result, note, kind, list(notes), t, log) for result, note, (kind, notes, t, log) in found]
        )

    assert outcome(pellucid.compile(annotate, fullgraph=True)) == outcome(annotate)


def test_a_list_from_outside_on_an_exception_of_the_region():
    def f(x, notes):
        error = ValueError("v")
        error.__notes__ = notes
        error.add_note("new")
        return x + 1, error.__notes__ is notes

    ours, eagers = [], []
    compiled = pellucid.compile(f, fullgraph=True)
    for _ in range(2):
        got, want = compiled(X, ours), f(X, eagers)
        assert (got[0].tolist(), got[1]) == (want[0].tolist(), want[1])
        assert ours == eagers
    assert ours == ["new", "new"]


@pytest.mark.parametrize("error, note", [(ValueError("v"), 3), (NoList("v"), "note"), (ValueError("v"), X)])
def test_what_is_refused(error, note):
    def f(x, note):
        try:
            error.add_note(note)
        except TypeError as raised:
            return x + 1, str(raised)

    got, want = pellucid.compile(f)(X, note), f(X, note)
    assert (got[0].tolist(), got[1]) == (want[0].tolist(), want[1])
    assert not hasattr(error, "__notes__") or error.__notes__ == NoList.__notes__
