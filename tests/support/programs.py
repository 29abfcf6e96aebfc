"""Programs over Python's language: each takes a State and a tensor and is compared with eager, call after call.

`Programs` collects them; `check` runs one eagerly and compiled, in both modes of going on behind a graph break. A program marked `breaks` may be
split or run eagerly, but has to give the same. All others are one graph. `check_tensor_program` is for those that take a tensor alone.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import enum
import io
import types

import torch

import pellucid
from support import Counting, outcome, same


class State:
    """What existed before the region."""

    def __init__(self):
        self.n = 0
        self.items = [1, 2]
        self.same = self.items
        self.table = {"a": 1}
        self.seen = {1}
        self.queue = collections.deque([1], maxlen=3)
        self.order = collections.OrderedDict(a=1, b=2)
        self.nested = {"list": [self.items], "self": self.table}
        self.log = []
        cell = 0

        def bump(by=1):
            nonlocal cell
            cell += by
            return cell

        self.bump = bump


class Programs(list):
    def __call__(self, f):
        self.append(f)
        return f

    def breaks(self, f):
        f.breaks = True
        return self(f)

    def without_graph(self, f):
        """A tensor program whose operations on tensors all run behind what cannot be captured."""
        f.without_graph = True
        return self(f)

    @property
    def names(self):
        return [f.__name__ for f in self]


ATOMS = (int, float, complex, str, bytes, bool, type(None), enum.Enum, torch.dtype, torch.device, range, slice)
ITERATORS = tuple(type(iter(value)) for value in ([], (), "", range(1), reversed([])))


def is_constant(value):
    return type(value) in ATOMS or (type(value) is tuple and all(map(is_constant, value)))


def picture(value, seen=None):
    """A value's content and the sharing in it, comparable between two runs."""
    seen = {} if seen is None else seen
    if isinstance(value, type):
        bases = [base.__name__ for base in value.__mro__]
        return ("class", value.__name__, value.__qualname__, value.__module__, bases)
    if type(value) in ATOMS or isinstance(value, (enum.Enum, types.ModuleType)):
        return (type(value).__name__, repr(value))
    if is_constant(value):
        return ("tuple", [picture(item, seen) for item in value])  # equal ones may be one object
    if id(value) in seen:
        return ("again", seen[id(value)])
    seen[id(value)] = len(seen)
    return (type(value).__name__, *contents(value, seen))


def contents(value, seen):
    if isinstance(value, torch.Tensor):
        grad = value.grad if value.is_leaf else None
        layout = value.dtype, value.requires_grad, tuple(value.shape), value.stride()
        return *layout, repr(value.tolist()), picture(grad, seen)
    if isinstance(value, BaseException):
        context = None if value.__suppress_context__ else value.__context__
        notes = getattr(value, "__notes__", None)
        inner = picture(value.exceptions, seen) if isinstance(value, BaseExceptionGroup) else None
        links = [picture(part, seen) for part in (value.__cause__, context, notes)]
        return str(value), picture(value.args, seen), inner, links
    if isinstance(value, types.FunctionType):
        return value.__qualname__, [picture(cell, seen) for cell in value.__closure__ or ()], attributes(value, seen)
    if isinstance(value, types.CellType):
        return [picture(value.cell_contents, seen)] if value != types.CellType() else ["empty"]
    if isinstance(value, (types.MethodType, types.BuiltinMethodType)):
        return value.__name__, picture(value.__self__, seen)
    if callable(value) and not hasattr(value, "__dict__"):
        return (getattr(value, "__name__", None),)
    if isinstance(value, dict):
        return [(picture(k, seen), picture(v, seen)) for k, v in value.items()], attributes(value, seen)
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, map(picture, value))), attributes(value, seen)
    if isinstance(value, (list, tuple, collections.deque)):
        return [picture(v, seen) for v in value], attributes(value, seen)
    if isinstance(value, ITERATORS):
        return [picture(item, seen) for item in copy.copy(value)]
    return (attributes(value, seen),)


def attributes(value, seen):
    slots = [name for cls in type(value).__mro__ for name in cls.__dict__.get("__slots__", ())]
    slots = [(name, picture(getattr(value, name), seen)) for name in slots if name[:2] != "__" and hasattr(value, name)]
    return picture(getattr(value, "__dict__", None), seen), slots


def observed(f, state, x, also):
    """All that a call gives and leaves, as a picture."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            value = f(state, x)
        except Exception as error:
            value = ("raises", error)
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
    cell = state.bump.__closure__[0].cell_contents
    return picture([value, vars(state), out.getvalue(), cell, modes, also()])


INPUTS = ((1.0, 2.0, 3.0), (2.0, 3.0, 4.0), (1.0, 1.0, 1.0, 1.0))


def trace(f, reset, also):
    reset()
    state = State()
    return [observed(f, state, torch.tensor(values), also) for values in INPUTS]


def check(f, reset=lambda: None, also=lambda: None, computes=True):
    """`reset` puts back what programs change beside the State, `also` tells of it; `computes`: each has work for a graph."""
    want = trace(f, reset, also)
    for goes_on in (False, True):
        backend = Counting()
        with pellucid.config.patch(continue_after_break=goes_on):
            compiled = pellucid.compile(f, backend=backend, fullgraph=not getattr(f, "breaks", False))
            got = trace(compiled, reset, also)
        for number, (eager, ours) in enumerate(zip(want, got, strict=True)):
            assert ours == eager, (f.__name__, "continued" if goes_on else "plain", number)
        if not getattr(f, "breaks", False):
            assert backend.count if computes else pellucid.cache_entries(compiled), "no graph was captured"


def check_tensor_program(f):
    """A program that takes a tensor alone; what it gives or raises is eager's, three times."""
    x = torch.ones(3)
    backend = Counting()
    compiled = pellucid.compile(f, backend=backend)
    for _ in range(3):
        got, want = outcome(compiled, x), outcome(f, x)
        assert same(got, want), (got, want)
    assert pellucid.cache_entries(compiled)
    assert backend.count > 0 or getattr(f, "without_graph", False)


def error_of(function, *args):
    """What a call gives, or the exception with its context and cause as text."""
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error), repr(error.__context__), repr(error.__cause__)


def err(f, *args, **kwargs):
    """What a call gives, or the exception as words."""
    try:
        return f(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)
