"""Operators with open sizes against the same operators at other sizes: what a size rule says of a result has to be what
the run at any sizes gives that the decisions allow."""

import math
import random
import re
from dataclasses import dataclass, field

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from pellucid import _core

A = _core._aten

# What the names in the sizes of tensors are at the capture.
HINTS = {"a": 6, "b": 10, "c": 15, "d": 4, "h": 12, "w": 20}
GLOBALS = {"math": math, "__builtins__": {"min": min, "max": max, "abs": abs, "int": int, "float": float}}
# Other sizes to try.
POOL = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 18, 20, 21, 24, 30, 32, 33]


@dataclass
class T:
    """A tensor with sizes such as "a 4 b". `order`: its dimensions from the outermost in memory to the innermost."""

    sizes: str
    dtype: torch.dtype = torch.float32
    order: tuple[int, ...] | None = None
    expanded: tuple[int, ...] = ()  # dimensions with stride 0
    gaps: int = 1  # between the elements
    offset: int = 0

    def real(self, values=None):
        values = values or HINTS
        sizes = [values[s] if s in values else int(s) for s in self.sizes.split()]
        order = self.order or tuple(range(len(sizes)))
        inner = [1 if d in self.expanded else sizes[d] for d in order]
        base = torch.zeros([*inner[:-1], inner[-1] * self.gaps] if inner else [], dtype=self.dtype)
        if self.gaps > 1:
            base = base[..., :: self.gaps]
        return base.permute([order.index(d) for d in range(len(sizes))]).expand(sizes) if sizes else base

    def open(self):
        return {d: s for d, s in enumerate(self.sizes.split()) if not s.lstrip("-").isdigit()}


class Like:
    """A tensor like a real one, whose sizes have these names."""

    def __init__(self, tensor, names):
        self.tensor, self.names = tensor.detach(), names

    def open(self):
        return self.names

    def real(self, values=None):
        if values is None:
            return self.tensor
        at = self.layout.at(values)
        extent = at.offset + 1 + sum((size - 1) * stride for size, stride in zip(at.sizes, at.strides, strict=True))
        made = torch.zeros(extent, dtype=self.tensor.dtype)
        return made.as_strided(at.sizes, at.strides, at.offset)


@dataclass
class N:
    """An open int."""

    name: str
    hint: int
    least: int = 0


@dataclass
class Layout:
    sizes: tuple
    strides: tuple
    offset: object
    dtype: torch.dtype

    def at(self, values):
        return Layout(
            tuple(evaluate(s, values) for s in self.sizes),
            tuple(evaluate(s, values) for s in self.strides),
            evaluate(self.offset, values),
            self.dtype,
        )


@dataclass
class Opened:
    symbols: dict[str, int]
    results: list
    decisions: list[str]
    fixed: list[str]
    without_rule: dict[str, int] = field(default_factory=dict)

    def __post_init__(self):
        self.codes = [compile(decision, "decision", "eval") for decision in self.decisions]

    def allows(self, values):
        """Whether the capture serves these values. The decisions are checked in their order: one may rest on another."""
        try:
            return all(eval(code, GLOBALS, values) for code in self.codes)
        except (ZeroDivisionError, OverflowError):
            return False


def evaluate(text, values):
    return eval(text, GLOBALS, values)


def layout(tensor, text=lambda number: number):
    numbers = [text(n) for n in (*tensor.size(), *tensor.stride(), tensor.storage_offset())]
    rank = tensor.dim()
    return Layout(tuple(numbers[:rank]), tuple(numbers[rank:-1]), numbers[-1], tensor.dtype)


def is_place(leaf):
    return isinstance(leaf, T | Like | N)


def open_call(function, args, kwargs=None):
    """The call with symbols for what is open among T and N in the arguments."""
    leaves, tree = tree_flatten((args, kwargs or {}), is_leaf=is_place)
    scope = A.OpenScope()
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, T | Like):
            leaves[i] = scope.fake_of(leaf.real(), leaf.open())
            leaf.layout = layout(leaves[i], scope.text)
        elif isinstance(leaf, N):
            leaves[i] = scope.number(leaf.name, leaf.hint, leaf.least)
    args, kwargs = tree_unflatten(leaves, tree)
    A.reset_ops_without_rule()
    result = scope.call(function, *args, **kwargs)
    results = []
    for leaf in tree_flatten(result)[0]:
        if isinstance(leaf, torch.Tensor):
            results.append(layout(leaf, scope.text))
        elif isinstance(leaf, int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool):
            results.append(scope.text(leaf))
    return Opened(scope.symbols(), results, scope.decisions(), scope.fixed(), A.ops_without_size_rule())


def closed_call(function, args, kwargs, values, eager=False):
    """The same call at these sizes, on fakes without open sizes or on real tensors."""
    leaves, tree = tree_flatten((args, kwargs or {}), is_leaf=is_place)
    scope = None if eager else A.FakeScope()
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, T | Like):
            real = leaf.real(values)
            leaves[i] = real if eager else scope.fake_of(real)
        elif isinstance(leaf, N):
            leaves[i] = values[leaf.name]
    args, kwargs = tree_unflatten(leaves, tree)
    result = function(*args, **kwargs) if eager else scope.call(function, *args, **kwargs)
    leaves = tree_flatten(result)[0]
    return [layout(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def free_symbols(opened):
    """Those that the decisions leave free, each with those that are equal to it."""
    groups = {name: {name} for name in opened.symbols}
    fixed = set()
    for decision in opened.decisions:
        found = re.fullmatch(r"(\w+) == (\w+)", decision)
        if found and found[2] in groups:
            joined = groups[found[1]] | groups[found[2]]
            groups.update(dict.fromkeys(joined, joined))
        elif found:
            fixed.add(found[1])
    return {min(group): group for group in groups.values() if not group & fixed}


def other_values(opened, count=4, tries=1500, seed=0):
    """Assignments beside the capture's own for which the decisions hold."""
    choose = random.Random(seed)
    found = []
    groups = free_symbols(opened)
    names = sorted(groups)
    for attempt in range(tries if names else 0):
        values = {name: opened.symbols[name] for name in names}
        if attempt % 3 == 0:
            values[choose.choice(names)] = choose.choice(POOL)
        elif attempt % 3 == 1:
            new = choose.choice(POOL)
            values = {name: new if choose.random() < 0.5 else choose.choice(POOL) for name in names}
        else:
            factor = choose.choice([2, 3])
            values = {name: size * factor if choose.random() < 0.6 else size for name, size in values.items()}
        every = dict(opened.symbols)
        for name, size in values.items():
            every.update(dict.fromkeys(groups[name], size))
        if every != opened.symbols and every not in found and opened.allows(every):
            found.append(every)
            if len(found) == count:
                break
    return found


def check(function, args, kwargs=None, eager=True, count=4):
    """Calls with open sizes, then compares at the capture's own and at other sizes. Gives what the open call said, and at
    how many other sizes it was compared."""
    opened = open_call(function, args, kwargs)
    others = other_values(opened, count)
    for values in [opened.symbols, *others]:
        assert opened.allows(values), (values, opened.decisions)
        said = [r.at(values) if isinstance(r, Layout) else evaluate(r, values) for r in opened.results]
        for real in (False, True) if eager else (False,):
            try:
                found = closed_call(function, args, kwargs, values, eager=real)
            except Exception as error:
                raise AssertionError(f"{values}: raises {error!r:.300}; decisions {opened.decisions}") from error
            assert said == found, f"{values}{' eager' * real}: said {said}, found {found}; decisions {opened.decisions}"
    return opened, len(others)
