"""What changes between calls: cases, and the comparison of a compiled function with eager after each step of one.

A case is a generator: it yields `f, *arguments`, changes something, and yields again. After every step the compiled function and eager are
called and compared. A case fails when nothing was captured, and when the change makes no difference to eager (it would test nothing).
"""

from __future__ import annotations

import contextlib

import torch

import pellucid
from support import same

X = torch.arange(1.0, 4.0)


class Cases(list):
    """The cases of a file. `eager` names those that are read eagerly: nothing is captured, and the results are right for that reason."""

    def __init__(self, eager=()):
        super().__init__()
        self.eager = set(eager)

    def __call__(self, make, name=None):
        if name is not None:
            make.__name__ = name
        self.append(make)
        return make

    @property
    def names(self):
        return [make.__name__ for make in self]

    def argument(self, name, f, *values):
        def make():
            for value in values:
                yield f, value, X
            yield f, values[0], X

        self(make, name)

    def mutation(self, name, f, make_value, *changes):
        def make():
            value = make_value()
            yield f, value, X
            for change in changes:
                change(value)
                yield f, value, X

        self(make, name)

    def state(self, name, f, enter, *args):
        def make():
            yield (f, *args)
            with enter():
                yield (f, *args)
            yield (f, *args)

        self(make, name)

    def check(self, make, counting):
        compiled, outcomes = {}, []
        for f, *args in make():
            if f not in compiled:
                compiled[f] = pellucid.compile(f, backend=counting)
            for _ in range(2):
                got, want = shown(compiled[f], args), shown(f, args)
                assert alike(got, want), (len(outcomes), got, want)
            if not outcomes:
                assert make.__name__ in self.eager or counting.count >= 1, (why_not(f, args), "nothing was captured")
            outcomes.append(want)
        assert any(not alike(outcomes[0], other) for other in outcomes[1:]), "the change makes no difference to eager"


@contextlib.contextmanager
def put(scope, name, value):
    before = scope[name]
    scope[name] = value
    try:
        yield
    finally:
        scope[name] = before


def shown(f, args):
    """All that can be seen of what a call gives."""
    try:
        value = f(*args)
        if isinstance(value, torch.Tensor):
            return "value", value, value.dtype, value.requires_grad, value.stride(), type(value), repr(value.tolist())
        return "value", repr(value)
    except Exception as error:
        return "raises", type(error), str(error)


def alike(a, b):
    return len(a) == len(b) and all(
        torch.equal(x, y) and same(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(a, b, strict=True)
    )


def why_not(f, args):
    try:
        pellucid.compile(f, backend="eager", fullgraph=True)(*args)
    except Exception as error:
        return str(error)
